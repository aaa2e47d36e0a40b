"""Words that name labels and predictions, in tables and in records of answers alike.

A room may know more words: ``importers.names`` for arrays, ``decisions`` for answers.
"""

LABEL_WORDS = (
    *("label", "labels", "gold", "true_label", "true_labels", "target"),
    *("targets", "truth", "truths", "ground_truth", "ground_truths"),
    *("y_true", "ytrue", "y", "gt", "gts", "gt_label", "gt_labels", "label_ids"),
    *("original_labels", "actual", "actuals", "true_class", "true_classes"),
)
"""Names of the true classes, the usual ones first."""

PREDICTION_WORDS = (
    *("pred", "preds", "predict", "prediction", "predictions", "predicted"),
    *("pred_label", "pred_labels", "predicted_label", "predicted_labels"),
    *("predicted_class", "pred_class", ".pred_class", "y_pred", "y_hat"),
    *("yhat", "argmax", "scored labels"),
)
"""Names of predicted classes."""

PREDICTION_PATTERN = r"predict(ed|ion)[ _.(].*|.*[ _]predict(ed|ion)"
"""Further names of predicted classes, in small letters."""
