"""Cross-fitting: score every row by a calibrator that was fitted without it.

One set of labelled rows then serves both to fit and to judge: the calibrator that is
kept uses all rows, and its numbers come from fits to other parts of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from calcli.block import Block, Codes
from calcli.calibrator import (
    Calibrator,
    Context,
    CrossFits,
    CrossFitting,
    Fit,
    Laws,
    Options,
    Prediction,
    transforms_read_by,
    with_transforms_of,
)
from calcli.errors import FitError
from calcli.evaluation.cross_validation import (
    Fold,
    fitted_part,
    folds_of,
    progress_of_folds,
)
from calcli.io.dataset import DataSet
from calcli.items import present
from calcli.numerics import BREAKDOWNS, AnyArray, FloatArray, IntArray
from calcli.rows import Rows

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
        """Transforms that any part needs, each once."""
        return transforms_read_by(self.parts)

    @property
    def required_columns(self) -> Mapping[str, Sequence[str]]:
        """Columns that any part needs, and the fold, with the values that are known."""
        values: dict[str, dict[str, None]] = {}
        for part in self.parts:
            for column, names in part.required_columns.items():
                values.setdefault(column, {}).update(dict.fromkeys(names))
        known = {column: tuple(names) for column, names in values.items()}
        return {**known, FOLD_COLUMN: fold_names(len(self.parts))}

    def apply(self, block: Block) -> Prediction:
        """Calibrate each row by the calibrator of its fold."""
        column = block.columns[FOLD_COLUMN]
        fold = np.array(list(map(int, column.names)))[column.code]
        predictions = []
        indices = []
        for number in np.unique(fold).tolist():
            index = np.flatnonzero(fold == number)
            part = self.parts[number]
            rows = block.take(index, block.start)
            rows = with_transforms_of(part, rows, self.required_transforms)
            predictions.append(part.apply(rows))
            indices.append(index)
        return _merged(predictions, indices)


def fold_names(folds: int) -> tuple[str, ...]:
    """Names of the folds in the column of folds."""
    return tuple(map(str, range(folds)))


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
    known = present(p.stated for p in predictions)
    if len(known) == len(predictions):
        stated = column(list(known))
    return Prediction(
        log_probs=column([p.log_probs for p in predictions]),
        label=column([p.label for p in predictions]),
        counts=counts,
        stated=stated,
        floored=any(p.floored for p in predictions),
    )


def cross_fitting_folds(rows: Rows, seed: int) -> list[Fold]:
    """Training rows, held-out rows and indices of the latter, of every fold."""
    return folds_of(rows, Context(seed), FOLDS)


def cross_fitted(
    name: str,
    options: Options,
    rows: DataSet,
    context: Context,
    known: CrossFitting | None = None,
) -> CrossFitted:
    """Fit a method to all but each fold of the rows, and attach the folds to them.

    The contents of the rows decide their folds (see ``content_folds``): rows of a unit
    stay together, and so do exact copies of a row. Rows of weight 0 are in no fit; the
    first calibrator maps them. options : explicit, as of ``fitting.fit.resolved``.
    known : what the fit to all rows gives in their place (``Fit.cross_fits``). Needs at
    least two of ``cross_fitting_folds``. Raises FitError where a fit is impossible.
    """
    try:
        if known is not None:
            fits = known(context.progress)
        else:
            fits = fitted_anew(name, options, rows, context)
    except BREAKDOWNS as problem:
        raise FitError(f"method {name} broke down ({problem})") from problem
    fold_of_row = np.zeros(rows.n, dtype=np.int64)
    fold_of_row[rows.counted_index()] = fits.fold
    if rows.first_copies is not None:
        fold_of_row = fold_of_row[rows.first_copies]
    codes = Codes(fold_names(len(fits.parts)), fold_of_row)
    rows.columns = {**rows.columns, FOLD_COLUMN: codes}
    return CrossFitted(tuple(fits.parts))


def fitted_anew(
    name: str, options: Options, rows: DataSet, context: Context
) -> CrossFits:
    """Fit a method to all but each fold of the rows of positive weight."""
    folds = cross_fitting_folds(rows, context.seed)
    parts = []
    fold = np.zeros(len(rows.counted_index()), dtype=np.int64)
    progress = progress_of_folds(context.progress, "cross-fitting", len(folds))
    for number, (learn, _, held_out) in enumerate(folds):
        fitted = fitted_part(name, options, learn, context, next(progress))
        parts.append(fitted.calibrator)
        fold[held_out] = number
    return CrossFits(parts, fold)
