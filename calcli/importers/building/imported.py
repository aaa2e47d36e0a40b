"""The content of one bundle that is imported, whose scores are checked as they are read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calcli.importers.ragged import Positions
from calcli.importers.reading import Reading
from calcli.io import validate
from calcli.io.option_columns import padded_for_files, padded_in_memory
from calcli.numerics import AnyArray, IntArray
from calcli.rounding import FloatType, float_type
from calcli.rows import ScoreKind
from calcli.zeros import Zeros

SLAB_BYTES = 4 << 20
"""Bytes of a block of rows, if the format can be read in blocks."""

SAME = 1e-5
"""Tolerance for the scores of a repeated row."""


@dataclass(frozen=True)
class Slab:
    """Block of checked rows: scores (b, k), transformed (m, b, k) or None."""

    start: int
    scores: NDArray[Any]
    transformed: NDArray[Any] | None


@dataclass(frozen=True)
class Imported:
    """Content of one bundle, with scores not yet read.

    labels : (n,), ignored ones in place; of confidences whether they are right. columns
    : by the name in a bundle. parts : split of each row given by the source, or None.
    transformed : (m, n, k) scores under transforms, or None. decimals, zeros : of the
    scores (see ``Column``). n_options : (n,) where columns are options of the row.
    """

    reading: Reading
    where: str
    kind: ScoreKind | Literal["confidence"]
    n: int
    k: int
    dtype: np.dtype[Any]
    labels: Any
    columns: Mapping[str, Any]
    scores: Any
    class_names: list[str] | None = None
    specs: tuple[str, ...] = ()
    parts: NDArray[Any] | None = None
    transformed: Any = None
    decimals: int | None = None
    zeros: Zeros | None = None
    n_options: IntArray | None = None

    @property
    def is_one_column(self) -> bool:
        """True if the source holds P(class 1), or a confidence, alone."""
        return len(self.scores.shape) == 1 or self.scores.shape[-1] == 1

    @property
    def stored_type(self) -> FloatType:
        """Type of the scores in the source."""
        return float_type(np.dtype(self.scores.dtype))

    @property
    def is_dense(self) -> bool:
        """True if rows are positions.

        Ignored labels are then already dropped, and samples drawn.
        """
        return isinstance(self.scores, Positions)

    def slabs(self) -> Iterator[Slab]:
        """Iterate over the rows in blocks.

        Raises DataError at the first row that breaks the rules of bundles.
        """
        row_bytes = max(self.k, 1) * self.dtype.itemsize * (1 + len(self.specs))
        step = max(1, SLAB_BYTES // row_bytes)
        for start in range(0, self.n, step):
            yield self._slab(slice(start, start + step))

    def _slab(self, rows: slice) -> Slab:
        if self.kind == "confidence":
            return Slab(rows.start, self.scores[rows].astype(self.dtype), None)
        values = _native(self.scores[rows])
        if self.n_options is not None:
            return Slab(rows.start, self._checked_options(values, rows), None)
        scores = validate.check_scores(
            values, self.kind, self.where, rows.start, self.zeros
        )
        if not self.specs:
            return Slab(rows.start, scores, None)
        transformed = []
        for number, spec in enumerate(self.specs):
            values = _native(self.transformed[number, rows])
            checked = validate.check_scores(
                values, "logits", f"{self.where} under {spec}", rows.start
            )
            transformed.append(checked)
        return Slab(rows.start, scores, np.stack(transformed))

    def _checked_options(self, values: AnyArray, rows: slice) -> AnyArray:
        """Rows of options that differ, checked, with the padding of files."""
        assert self.n_options is not None
        kind = validate.score_kind(self.kind)
        n_options = self.n_options[rows]
        filled = padded_in_memory(values, n_options, kind, self.where, rows.start)
        checked = validate.check_scores(filled, kind, self.where, rows.start)
        return padded_for_files(checked, n_options, kind)

    def are_alike(self, rows: IntArray, others: IntArray) -> NDArray[np.bool_]:
        """Mask (m,) of ``rows`` that equal the row in ``others``.

        Their scores are equal up to rounding, and their labels.
        """
        wanted = np.unique(np.concatenate([rows, others]))
        pieces = []
        for slab in self.slabs():
            end = slab.start + len(slab.scores)
            first, last = np.searchsorted(wanted, [slab.start, end])
            inside = wanted[first:last] - slab.start
            pieces.append(slab.scores[inside].reshape(last - first, -1))
        scores = np.concatenate(pieces)
        left = scores[np.searchsorted(wanted, rows)]
        right = scores[np.searchsorted(wanted, others)]
        alike = np.isclose(left, right, rtol=SAME, atol=SAME).all(axis=1)
        if self.labels is not None:
            alike &= self.labels[rows] == self.labels[others]
        return np.asarray(alike)


def _native(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder("="), copy=False)
