"""Classifications as objects: a label, with a confidence where a model has given it."""

from collections.abc import Mapping, Sequence
from typing import Any

from calcli.errors import DataError
from calcli.items import present

Classification = Mapping[str, Any]


def are_predictions(classifications: Sequence[Classification]) -> bool:
    """True where every label has a confidence."""
    return _n_confidences(classifications) == len(classifications)


def _n_confidences(classifications: Sequence[Classification]) -> int:
    return len(present(cell.get("confidence") for cell in classifications))


def predictions_and_truths(
    fields: Mapping[str, Sequence[Classification]], where: object, advice: str
) -> tuple[Sequence[Classification], Sequence[Classification | None]]:
    """The one field of predictions, and the one of right labels, or None for each.

    Raises DataError.
    """
    predicted = []
    right = []
    for name, classifications in fields.items():
        if are_predictions(classifications):
            predicted.append(name)
        elif _n_confidences(classifications) == 0:
            right.append(name)
    if len(predicted) == 1 and len(right) < 2:
        predictions = fields[predicted[0]]
        if right:
            return predictions, fields[right[0]]
        return predictions, [None] * len(predictions)
    raise DataError(
        f"{where}: has {', '.join(predicted) or 'no field'} with confidences on all"
        f" samples; {', '.join(right) or 'no field'} without any; expected one field of"
        f" predictions, and one of right labels; {advice}"
    )


def outcome(
    prediction: Classification, truth: Classification | None, *, is_confidence: bool
) -> dict[str, Any]:
    """The right label, or whether a confidence is of a right answer; without a truth
    the prediction, which labels of another file are held against.
    """
    answer = str(prediction["label"])
    if truth is None:
        return {"prediction": answer}
    label = str(truth["label"])
    return {"correct": answer == label} if is_confidence else {"labels": label}
