"""Calibrators: fit one, load one, apply it, export it."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from calcli.api.argument_words import says_arguments
from calcli.api.arguments import (
    LOG,
    Scores,
    attach_groups,
    check_free,
    checked,
    open_scores,
    open_unlabelled,
    path_of,
    plain,
    warn_all,
)
from calcli.api.tables import (
    FITTED_TO,
    check_index,
    is_data_frame,
    refuse_other_columns,
)
from calcli.calibrator import Calibrator, Context
from calcli.errors import DataError, UsageError
from calcli.evaluation.evaluation import html_table
from calcli.fit_words import fitted_sentence
from calcli.fitting.apply import calibrated_blocks
from calcli.fitting.compatibility import check_fits, unseen
from calcli.fitting.fit import fit_artifact
from calcli.io.artifact import Artifact, dumps
from calcli.io.artifact import save as save_artifact
from calcli.io.atomic import write_bytes
from calcli.io.dataset import DataSet
from calcli.io.question_artifact import load as load_artifact
from calcli.io.validate import doubts
from calcli.kernels.device import resolve
from calcli.metrics.settings import MetricSettings
from calcli.number_words import noun
from calcli.numerics import FloatArray, IntArray
from calcli.registry import (
    DEFAULT_METHOD,
    by_group,
    default_method,
    parse_options,
    split_method,
)
from calcli.rows import Rows, ScoreKind, classes


@says_arguments
def fit(
    scores: Scores,
    labels: Any = None,
    method: str = DEFAULT_METHOD,
    kind: str | None = None,
    *,
    weights: Any = None,
    units: Any = None,
    groups: Any = None,
    class_names: Sequence[str] | None = None,
    keep_predictions: bool | None = None,
    seed: int = 0,
    device: str = "auto",
    **options: Any,
) -> "FittedCalibrator":
    """Fit one calibrator to scores with labels.

    scores : (n, k) array or tensor, (n,) for a binary model's score of class 1, or the
    path of a bundle (or several, taken together), which brings labels, weights, kind
    and class names. labels : (n,) integers in 0..k-1; also words (of ``class_names``, or
    two; or names of the columns of a DataFrame or an Arrow table), bool, one-hot rows,
    or -1 and +1, where a warning says what was read as class 1. Columns and indexes
    whose names contradict the order in which they come are refused. method : a
    name of ``calcli methods``, or a composition such as ``ts+hb``; left out, ``auto``,
    which weighs the best few by cross-validation (by group ``ts``, of confidences
    ``platt``). kind : ``logits``, ``log_probs`` or ``probs`` (natural logarithm, 0..1);
    left out, what all values prove. Or ``confidence``, where scores are (n,)
    confidences and labels whether each answer was right (bool or 0/1), for methods of
    the top label. units : (n,) names (numbers, words, dates) that rows which belong
    together share (a patient, an image, a question); of a bundle the name of its
    dataset, or ``none``. groups : (n,) names, each of which gets a map of its own,
    pulled towards the common one; of a bundle the name of its dataset, or
    ``prediction`` (methods ts and platt). keep_predictions : True changes no
    prediction, by a projection, whatever the method; False lets ``auto`` change them;
    left out, ``auto`` changes those of three and more classes only where that is shown
    to help. options : those of ``calcli methods NAME``; a trailing underscore is
    dropped (``lambda_=1``).

    Raises UsageError for methods and options that do not exist, DataError for bad rows,
    FitError where a fit is impossible. A fit that went badly has a ``status`` and
    ``warnings``, which are Python's warnings too.

    >>> import numpy as np
    >>> logits = np.array([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
    >>> calibrator = fit(logits, [0, 1, 0, 1], method="ts", kind="logits")
    >>> round(calibrator.params["temperature"], 4), calibrator.status
    (3.641, 'ok')
    """
    if not isinstance(method, str):
        raise UsageError(f"method: is {method!r}, expected a name, such as 'auto'")
    seed = checked(MetricSettings, {"seed": seed}).seed
    more = {"weights": weights, "units": units, "class_names": class_names}
    check_index(scores=scores, labels=labels, groups=groups)
    with open_scores(scores, labels, kind, prefer=("cal", "val"), **more) as rows:
        if groups is not None and method == DEFAULT_METHOD:
            method = default_method(rows, by=True)
        method, settings = split_method(method)
        values: dict[str, Any] = dict(settings)
        if isinstance(groups, str):
            method = by_group(method)
            values["by"] = groups
        elif groups is not None:
            method = by_group(method)
            values["by"] = "group"
            attach_groups(rows, groups, (), "group")
        for name, value in options.items():
            values[name.rstrip("_")] = plain(value)
        chosen = parse_options(method, values)
        context = Context(seed=seed, device=resolve(device, method, rows.n * rows.k))
        artifact = fit_artifact(method, chosen, rows, context, keep_predictions)
        fitted = FittedCalibrator(artifact)
    LOG.info("%s", fitted_sentence(artifact))
    warn_all(fitted.warnings)
    return fitted


@says_arguments
def load(path: str | PathLike[str]) -> "FittedCalibrator":
    """Read a calibrator that ``calcli fit`` or ``FittedCalibrator.save`` has written.

    Nothing in the file is executed. Raises DataError for anything that is no valid
    artifact.
    """
    return FittedCalibrator(load_artifact(str(path)))


class FittedCalibrator:
    """A fitted calibrator, as ``fit`` and ``load`` give it.

    method, options, params : as in the artifact, every option with its value. status :
    ``ok``, ``at_bound``, ``no_root``, ``degenerate`` or ``not_converged``. warnings :
    what a user should know about the fit. before, after : accuracy, NLL, Brier score
    and ECE of the calibration rows. n_classes : 1 where it was fitted to confidences.
    kind : of the scores it was fitted on.
    """

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        fit = artifact.fit
        self.method = artifact.method
        self.kind = artifact.input_kind
        self.n_classes = artifact.n_classes
        self.options: Mapping[str, Any] = artifact.options
        self.status = fit.status
        self.warnings = tuple(fit.warnings)
        self.before: Mapping[str, float | None] = fit.before
        self.after: Mapping[str, float | None] = fit.after

    @property
    def params(self) -> Mapping[str, Any]:
        """Fitted parameters under the names of the artifact."""
        return dict(self.to_dict()["params"])

    @says_arguments
    def predict_proba(
        self, scores: Scores, kind: str | None = None, groups: Any = None
    ) -> Any:
        """Calibrated probabilities, (n, k) float64; every row sums to 1.

        scores : as for ``fit``. kind : of the scores, where it is not that of the fit.
        groups : (n,), which a calibrator by group needs beside an array; those that its
        fit has not seen get the common map. Of confidences the columns are the
        probabilities that the answer is wrong, and right. Raises DataError for scores
        of other classes or kinds, for NaN, and where the fit has seen the group of no
        row. A pandas DataFrame of scores gives one of probabilities, with its index and
        the names of the classes.
        """
        probs, _ = self._applied(scores, kind, groups)
        if not is_data_frame(scores):
            return probs
        columns = self._artifact.class_names
        if columns is None and scores.shape[1] == probs.shape[1]:
            columns = list(scores.columns)
        return type(scores)(probs, index=scores.index, columns=columns)

    @says_arguments
    def predict(
        self, scores: Scores, kind: str | None = None, groups: Any = None
    ) -> IntArray:
        """Predicted classes, (n,) int64.

        Of confidences 1 where the answer is likelier right than wrong.

        They need not be the largest probability's: see the method's laws.
        """
        return self._applied(scores, kind, groups)[1]

    @says_arguments
    def save(self, path: str | PathLike[str], *, force: bool = False) -> None:
        """Write the artifact that ``calcli apply`` reads.

        Raises UsageError where a file exists, unless ``force``.
        """
        check_free(path_of(path, "path"), force)
        save_artifact(self._artifact, str(path), force=force)

    def to_dict(self) -> dict[str, Any]:
        """The artifact as plain values, those of its JSON."""
        return dict(json.loads(dumps(self._artifact)))

    def _applied(
        self, scores: Scores, kind: str | None, groups: Any
    ) -> tuple[FloatArray, IntArray]:
        """Calibrated probabilities (n, k), or (n, 2) of confidences; predictions (n,)."""
        refuse_other_columns(scores, self._artifact.class_names, FITTED_TO)
        check_index(scores=scores, groups=groups)
        classes = self._artifact.class_names
        with open_unlabelled(scores, kind, self.kind, classes) as rows:
            attach_groups(rows, groups, [self._artifact])
            warn_all(doubts(rows))
            self._check(rows)
            return _calibrated(self._artifact.calibrator, rows)

    def _check(self, rows: Rows) -> None:
        """Check that the calibrator fits rows. Raises DataError where it does not."""
        if isinstance(rows, DataSet):
            check_fits(self._artifact, self.method, rows)
            return
        if "confidence" in {rows.kind, self.kind} and rows.kind != self.kind:
            raise DataError(
                f"scores are {rows.kind}, this calibrator was fitted on"
                f" {self.kind}: the kinds differ"
            )
        if rows.k != self.n_classes:
            raise DataError(
                f"scores have {rows.k} classes, this calibrator was fitted for"
                f" {self.n_classes}"
            )
        calibrator = self._artifact.calibrator
        for column in calibrator.required_columns:
            if column not in rows.columns:
                raise DataError(
                    f"scores: this calibrator is by {column!r}; pass groups= with"
                    " one value per row"
                )
        warn_all(unseen(calibrator, rows, "scores"))

    def __repr__(self) -> str:
        n = self._artifact.fit.n
        origin = (
            f"fitted to {n} {noun(n, 'row')}" if n else "from known class frequencies"
        )
        return (
            f"<calcli {self.method}: {classes(self.n_classes)}, {origin},"
            f" {self.status}>"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks: what the fit did to the calibration rows."""
        if not self._artifact.fit.n:
            return f"<p>{escape(repr(self))}</p>"
        lines = {"before": _cells(self.before), "after": _cells(self.after)}
        n = self._artifact.fit.n
        title = (
            f"{self.method}, {classes(self.n_classes)}, {n} {noun(n, 'row')},"
            f" status {self.status}"
        )
        return html_table(title, list(self.before), lines, self.warnings)


def _calibrated(calibrator: Calibrator, rows: Rows) -> tuple[FloatArray, IntArray]:
    """Probabilities and predictions of all rows.

    Of confidences the columns are the probabilities that the answer is wrong, and right.
    """
    transforms = rows.places_of(calibrator.required_transforms, "scores")
    are_confidences = rows.kind == "confidence"
    scale: ScoreKind = "confidence" if are_confidences else "probs"
    probs = np.empty((rows.n, max(rows.k, 2)))
    labels = np.empty(rows.n, dtype=np.int64)
    for start, p, columns, _ in calibrated_blocks(calibrator, rows, scale, transforms):
        block = slice(start, start + len(p))
        if are_confidences:
            probs[block] = np.stack([1.0 - p, p], axis=1)
            labels[block] = p > 0.5
        else:
            probs[block] = p
            labels[block] = columns["prediction"]
    return probs, labels


def _cells(values: Mapping[str, float | None]) -> list[str]:
    """Metrics as cells of a table."""
    cells = []
    for value in values.values():
        cells.append("-" if value is None else f"{value:.4f}")
    return cells


def artifacts_of(
    calibrators: FittedCalibrator | Sequence[FittedCalibrator],
) -> list[Artifact]:
    """Artifacts of one calibrator or a list of them.

    Raises UsageError for anything else.
    """
    if isinstance(calibrators, FittedCalibrator | str | PathLike):
        calibrators = [calibrators]
    artifacts = []
    for calibrator in calibrators:
        if not isinstance(calibrator, FittedCalibrator):
            raise UsageError(
                f"calibrators: found {calibrator!r}, expected what fit or load gives:"
                " calcli.load(PATH)"
            )
        artifacts.append(calibrator._artifact)
    return artifacts


@says_arguments
def export(
    calibrator: FittedCalibrator,
    path: str | PathLike[str],
    to: str | None = None,
    *,
    onto: str | PathLike[str] | None = None,
    at: str | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write a calibrator for a serving stack: ONNX, torch, or a Python file that needs
    NumPy only.

    to : ``onnx``, ``torch`` or ``python``; left out, by the ending of ``path`` (.onnx,
    .pt2, .py). onto : an ONNX classifier to join it to, at its output ``at``. What was
    written is run beside the calibrator before it is kept. Returns what ``calcli export
    --json`` prints: ``rows`` tried, the largest ``difference``, ``labels_differ``, …

    Raises UsageError for another target, for a method that cannot be exported, for a
    package that is missing, and where a file exists, unless ``force``; CalcliError
    where the export differs by more than 1e-6.

    >>> import tempfile, numpy as np
    >>> file = Path(tempfile.mkdtemp()) / "calibrator.py"
    >>> logits = np.array([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
    >>> export(fit(logits, [0, 1, 0, 1], kind="logits"), file)["labels_differ"]
    0
    """
    from calcli.exporting.exporting import check, export_output, target_of
    from calcli.exporting.exporting import export as export_artifact

    (artifact,) = artifacts_of(calibrator)
    check_free(path_of(path, "path"), force)
    target = target_of(str(path), to)
    classifier = None if onto is None else str(onto)
    exported = export_artifact(artifact, target, classifier, at)
    warn_all(exported.notes)
    check(exported.agreement, str(path))
    write_bytes(Path(path), exported.data, force=force)
    output = export_output(str(path), target, artifact, exported, exported.agreement)
    return output.to_dict()
