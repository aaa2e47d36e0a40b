"""Cross-fitting: score every row by a calibrator that was fitted without it.

One set of labelled rows then serves both to fit and to judge: the calibrator that is kept uses
all rows, and its numbers come from fits to other parts of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from calcli.calibrator import Calibrator, Context, Fit, Laws, Options, Prediction
from calcli.errors import FitError
from calcli.evaluation.cross_validation import folds_of
from calcli.io.dataset import DataSet
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.registry import method, parse_options
from calcli.rows import Block, Codes, Rows

FOLDS = 5

FOLD_COLUMN = "fold of cross-fitting"
"""Column of the rows that says which fit did not see a row."""


@dataclass(frozen=True)
class CrossFitted(Calibrator):
    """Calibrators of all folds, as one that maps every row by the one of its fold.

    It exists during an evaluation only; no artifact holds it. Rows need the column
    ``FOLD_COLUMN``, which ``cross_fitted`` attaches.
    """

    title = "cross-fitted calibrators"
    laws = Laws()
    composable = False

    parts: Sequence[Calibrator] = field(default=())

    @classmethod
    def fit(cls, rows: Rows, options: Options, context: Context) -> Fit["CrossFitted"]:
        raise FitError("a cross-fitted calibrator is made of fits to parts of the rows")

    @property
    def required_transforms(self) -> Sequence[str]:
        return self.parts[0].required_transforms

    @property
    def required_columns(self) -> Mapping[str, Sequence[str]]:
        names = tuple(str(fold) for fold in range(len(self.parts)))
        return {**self.parts[0].required_columns, FOLD_COLUMN: names}

    def apply(self, block: Block) -> Prediction:
        """Calibrate each row by the calibrator of its fold."""
        column = block.columns[FOLD_COLUMN]
        fold = np.array([int(name) for name in column.names])[column.code]
        predictions = []
        indices = []
        for number in np.unique(fold).tolist():
            rows = np.flatnonzero(fold == number)
            part = self.parts[number].apply(block.take(rows, block.start))
            predictions.append(part)
            indices.append(rows)
        return _merged(predictions, indices)


def _merged(
    predictions: Sequence[Prediction], indices: Sequence[IntArray]
) -> Prediction:
    """Predictions of parts of a block, in the order of its rows."""
    order = np.argsort(np.concatenate(indices), kind="stable")

    def column(parts: "list[AnyArray]") -> AnyArray:
        return np.concatenate(parts)[order]

    counts: dict[str, int] = {}
    for prediction in predictions:
        for name, number in prediction.counts.items():
            counts[name] = counts.get(name, 0) + number
    stated: FloatArray | None = None
    known = [p.stated for p in predictions if p.stated is not None]
    if len(known) == len(predictions):
        stated = column(list(known))
    return Prediction(
        log_probs=column([p.log_probs for p in predictions]),
        label=column([p.label for p in predictions]),
        counts=counts,
        stated=stated,
        floored=any(p.floored for p in predictions),
    )


def cross_fitted(
    name: str, options: Mapping[str, object], rows: DataSet, context: Context
) -> CrossFitted | None:
    """Fit a method to all but each fold of the rows, and attach the folds to them.

    Folds keep the rows of a unit together. None where there are too few rows for folds.
    Raises FitError where a fit is impossible.
    """
    folds = folds_of(rows, context, FOLDS)
    if len(folds) < 2:
        return None
    chosen = method(name)
    parsed = parse_options(name, dict(options))
    parts = []
    fold_of_row = np.zeros(rows.n, dtype=np.int64)
    for number, (learn, _, held_out) in enumerate(folds):
        context.progress("cross-fitting", number, len(folds))
        parts.append(chosen.fit(learn, parsed, context).calibrator)
        fold_of_row[held_out] = number
    names = tuple(str(number) for number in range(len(parts)))
    rows.columns = {**rows.columns, FOLD_COLUMN: Codes(names, fold_of_row)}
    return CrossFitted(tuple(parts))
