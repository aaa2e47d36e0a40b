"""What a metric may look at, and what it hands back."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal
from zlib import crc32

import numpy as np

from calcli.binning import BinStats, bin_index, mass_edges, width_edges
from calcli.metrics.calibration import Bins, Scheme
from calcli.metrics.compat import CONVENTIONS, Convention
from calcli.metrics.means import Interval
from calcli.metrics.nulls import Null, bin_hits
from calcli.metrics.rowtable import ClassStats, RowTable
from calcli.numerics import FloatArray

__all__ = ["Columns", "Label", "Scope", "Settings", "Value"]

Label = Literal["top", "class", "all"]
Columns = Callable[[], Iterator[tuple[int, FloatArray]]]

HEAVY_RESAMPLES = 200
"""Most resamples of an estimator that looks at every row of every resample."""


@dataclass(frozen=True)
class Settings:
    """How to measure. level : of intervals. compat : another program's bins, or None."""

    bins: int = 15
    norm: float = 1.0
    scheme: Scheme = "width"
    label: Label = "top"
    compat: str | None = None
    level: float = 0.95
    resamples: int = 1000
    seed: int = 0
    interval: Literal["auto", "bootstrap", "t"] = "auto"


@dataclass(frozen=True)
class Value:
    """One measured metric: its value or the reason why it has none, and what belongs to it."""

    value: float | None
    reason: str | None = None
    se: float | None = None
    interval: Interval | None = None
    null: Null | None = None
    p_value: float | None = None
    pins: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def undefined(cls, reason: str) -> "Value":
        """No value, and why."""
        return cls(None, reason)


@dataclass
class Scope:
    """One set of calibrated rows, with what several metrics share computed once.

    columns : probabilities class by class, or None where only the row table is at hand.
    """

    table: RowTable
    settings: Settings = field(default_factory=Settings)
    columns: Columns | None = None
    _cache: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def rng(self, name: str) -> np.random.Generator:
        """A generator of its own for each use, so that asking for more metrics changes none."""
        return np.random.default_rng([self.settings.seed, crc32(name.encode())])

    def once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The result of ``make``, computed at the first call with this key."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    # ---- top-label bins

    @cached_property
    def discrete(self) -> FloatArray | None:
        """Edges midway between the distinct confidences, when there are at most n/4 of them.

        The output of a binning method is then binned by its own values.
        (verified_calibration switches likewise.)
        """
        values = np.unique(self.table.confidence)
        if len(values) > self.table.n / 4:
            return None
        return np.concatenate([[0.0], 0.5 * (values[:-1] + values[1:]), [1.0]])

    def edges(self, scheme: str) -> FloatArray:
        """Edges of the confidence bins: ``width``, ``mass`` or ``values``."""
        bins = self.settings.bins
        if scheme == "width":
            return width_edges(bins)
        if scheme == "values":
            assert self.discrete is not None
            return self.discrete
        edges: FloatArray = self.once(("mass",), lambda: mass_edges(self.table.confidence, bins))
        return edges

    def bins(self, scheme: str) -> Bins:
        """Sums of confidence and correctness over bins."""
        t = self.table
        made: Bins = self.once(
            ("bins", scheme), lambda: Bins.of(BinStats.of(t.confidence, t.correct, self.edges(scheme), t.weight))
        )
        return made

    def foreign(self, scheme: str) -> Convention | None:
        """The other program whose bins take the place of our width bins, if one is asked for."""
        return CONVENTIONS.get(self.settings.compat or "") if scheme == "width" else None

    def null_hits(self, scheme: str) -> FloatArray:
        """Hits per bin were the confidences right, (resamples, bins)."""
        t = self.table
        hits: FloatArray = self.once(
            ("hits", scheme),
            lambda: bin_hits(
                t.confidence, self.edges(scheme), self.settings.resamples, self.rng("hits:" + scheme), t.weight
            ),
        )
        return hits

    @property
    def heavy_resamples(self) -> int:
        """Resamples for estimators that are dear."""
        return min(self.settings.resamples, HEAVY_RESAMPLES)

    # ---- classes

    def class_stats(self) -> ClassStats | None:
        """Width-bin sums of every class, when the table was gathered with them."""
        return self.table.classes

    def class_bins(self, scheme: str) -> Iterator[Bins]:
        """Bin sums of every class against "this is the label", from the probabilities themselves."""
        assert self.columns is not None
        t, bins = self.table, self.settings.bins
        for c, p in self.columns():
            outcome = (t.y == c).astype(np.float64)
            other = self.foreign(scheme)
            if other is not None:
                yield other.binned(p, outcome, bins, t.weight)
            else:
                edges = width_edges(bins) if scheme == "width" else mass_edges(p, bins)
                yield Bins.of(BinStats.of(p, outcome, edges, t.weight))

    def thin_bins(self, scheme: str) -> int:
        """Bins that hold fewer than ten rows, but some."""
        index = bin_index(self.table.confidence, self.edges(scheme))
        count = np.bincount(index)
        return int(((count > 0) & (count < 10)).sum())


def norm_text(norm: float) -> str:
    """The norm as it stands in a signature."""
    return "max" if math.isinf(norm) else f"{norm:g}"
