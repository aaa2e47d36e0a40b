"""Class-based temperature scaling."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import add
from typing import Annotated, Self

import numpy as np
from msgspec import Meta

from calcli.binning import bin_index, width_edges
from calcli.block import Block
from calcli.calibrator import (
    Calibrator,
    Context,
    Fit,
    Laws,
    Options,
    Prediction,
    Status,
    param,
)
from calcli.logits import ClassLogits, to_logits
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import FloatArray, IntArray, log_normalizer, log_softmax, shares_of
from calcli.parallel import in_order
from calcli.rows import BLOCK_BYTES, Rows, rows_per_block

# ---- coordinate search over one temperature per class, one column of the softmax at a
# time


STRIPE = 32  # columns for which the sums over all later classes are held at once


@dataclass(frozen=True)
class Others:
    """Sum and largest of the classes other than one, row by row.

    total : (n,) log of the sum of exponentials; top, index : the largest and its class,
    ties to the lowest index.
    """

    total: FloatArray
    top: FloatArray
    index: IntArray

    @classmethod
    def none(cls, n: int) -> "Others":
        """No class at all."""
        nothing = np.full(n, -np.inf)
        return cls(nothing, nothing, np.full(n, np.iinfo(np.int64).max))

    def plus(self, other: "Others") -> "Others":
        """Both sets of classes together."""
        wins = (other.top > self.top) | (
            (other.top == self.top) & (other.index < self.index)
        )
        top = np.where(wins, other.top, self.top)
        index = np.where(wins, other.index, self.index)
        return Others(np.logaddexp(self.total, other.total), top, index)


class ClassSearch:
    """The state of the search.

    Temperatures (k,), the ECE they give, and the accuracy at its start. With class c
    taken out, a row is known by the log-sum L of the others and the largest of them;
    the row with z_c / T put back has p_c = sigmoid(z_c / T - L). The others are sums
    over the classes before c (already moved) and after c (still to move), both built by
    additions only, so that nothing cancels. Memory: the scores in their own precision
    and about (classes / 32 + 32) numbers per row.
    """

    def __init__(self, rows: Rows, start: float, edges: FloatArray) -> None:
        self.scores = rows.array()
        self.kind = rows.kind
        self.zeros = rows.zeros
        self.logits = ClassLogits(self.scores, self.kind, self.zeros)
        self.n = rows.n
        self.k = rows.k
        self.y = rows.labels()
        self.edges = edges
        self.share = shares_of(rows.weights(), rows.n)
        self.temperature = np.full(rows.k, start)
        self.ece, self.accuracy = self._measure()

    def column(self, c: int) -> FloatArray:
        """Logits of class c, (n,) float64."""
        return self.logits.of(slice(c, c + 1))[:, 0]

    def plus(self, others: Others, c: int) -> Others:
        """Those and class c at its temperature."""
        u = self.column(c) / self.temperature[c]
        return others.plus(Others(u, u, np.array(c)))

    def _measure(self) -> tuple[float, float]:
        gaps = np.zeros(len(self.edges) - 1)
        right = 0.0
        step = rows_per_block(self.k)
        for start in range(0, self.n, step):
            rows = slice(start, start + step)
            z = to_logits(self.scores[rows], self.kind, self.zeros)
            u = z / self.temperature
            confidence = np.exp(u.max(axis=1) - log_normalizer(u))
            hit = (u.argmax(axis=1) == self.y[rows]).astype(np.float64)
            gaps += self._gaps(confidence[None], hit[None], self.share[rows])[0]
            right += float(self.share[rows] @ hit)
        return float(np.abs(gaps).sum()), right

    def _gaps(
        self, confidence: FloatArray, hit: FloatArray, share: FloatArray
    ) -> FloatArray:
        """Sum of share * (confidence - hit) per bin: (m, n) in, (m, bins) out."""
        m = len(confidence)
        bins = len(self.edges) - 1
        # Equal widths locate the bin by one product; next to an edge between bins the
        # edge itself decides.
        place = np.minimum(confidence * bins, bins - 0.5)
        index = (place - 1e-9).astype(np.int32)
        place += 1e-9
        close = place.astype(np.int32) != index
        if close.any():
            index[close] = bin_index(confidence[close], self.edges)
        index += np.arange(m, dtype=np.int32)[:, None] * bins
        weights = (confidence - hit) * share
        summed = np.bincount(index.ravel(), weights=weights.ravel(), minlength=m * bins)
        return np.asarray(summed, dtype=np.float64).reshape(m, bins)

    def candidates(
        self, c: int, others: Others, grid: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Compute ECE and accuracy with class c at every temperature of a grid."""
        z = self.column(c)
        class_hit = (self.y == c).astype(float)
        rest_hit = (others.index == self.y).astype(float)
        rest_share = np.exp(others.top - others.total)
        # what class c is to exceed
        just_below = np.nextafter(others.top, -np.inf)
        bar = np.where(c < others.index, just_below, others.top)
        # several arrays of this size at once
        step = max(1, BLOCK_BYTES // (32 * len(grid)))

        def sums(start: int) -> tuple[FloatArray, FloatArray]:
            rows = slice(start, start + step)
            u = z[rows] / grid[:, None]
            hit = np.where(u > bar[rows], class_hit[rows], rest_hit[rows])
            odds = np.subtract(others.total[rows], u, out=u)
            np.minimum(odds, 700.0, out=odds)
            np.exp(odds, out=odds)
            p = 1.0 / (1.0 + odds)
            odds *= p
            odds *= rest_share[rows]
            confidence = np.maximum(p, odds, out=p)
            return self._gaps(confidence, hit, self.share[rows]), hit @ self.share[rows]

        def sums_of_thread(first: int) -> list[tuple[FloatArray, FloatArray]]:
            last = min(first + 4 * step, self.n)
            return [sums(start) for start in range(first, last, step)]

        parts = in_order(sums_of_thread, range(0, self.n, 4 * step))
        all_gaps, all_right = zip(*chain.from_iterable(parts), strict=True)
        gaps = reduce(add, all_gaps)
        right = reduce(add, all_right)
        return np.abs(gaps).sum(axis=1), right

    def sweep(
        self, classes: IntArray, grid: FloatArray, floor: float
    ) -> Iterator[bool]:
        """Pass over all classes once, and yield whether each moved.

        Only those of ``classes`` may. A temperature moves to the best candidate whose
        ECE is strictly below the best so far and whose accuracy is at least ``floor``.
        """
        before = Others.none(self.n)
        for low, after_stripe in self._stripes():
            high = min(low + STRIPE, self.k)
            after = [after_stripe]
            for c in range(high - 1, low, -1):
                after.append(self.plus(after[-1], c))
            for c in range(low, high):
                others = before.plus(after.pop())
                moves = False
                if c in classes:
                    ece, accuracy = self.candidates(c, others, grid)
                    ece[accuracy < floor - 1e-12] = np.inf
                    best = int(ece.argmin())
                    # A millionth of a millionth of gain is rounding, and would never
                    # settle.
                    moves = bool(ece[best] < self.ece - 1e-12)
                    if moves:
                        self.temperature[c] = grid[best]
                        self.ece = float(ece[best])
                before = self.plus(before, c)
                yield moves

    def _stripes(self) -> list[tuple[int, Others]]:
        """List the stripes: first column, and the sum over the classes behind."""
        stripes = []
        behind = Others.none(self.n)
        for low in reversed(range(0, self.k, STRIPE)):
            stripes.append((low, behind))
            if low > 0:
                for c in range(low, min(low + STRIPE, self.k)):
                    behind = self.plus(behind, c)
        return stripes[::-1]


GRID = np.arange(1, 101) / 10.0  # temperatures tried for every class: 0.1, 0.2, ..., 10


class ClassTemperatureOptions(Options, frozen=True):
    passes: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="passes over all classes; it stops when none moves",
        ),
    ] = 5
    guard: Annotated[
        bool,
        Meta(
            description=(
                "never accept a temperature that takes accuracy below the uncalibrated"
                " one"
            )
        ),
    ] = True
    bins: Annotated[
        int,
        Meta(ge=1, le=1000, description="equal-width bins of the calibration error"),
    ] = 15


@dataclass(frozen=True)
class ClassTemperatureScaling(Calibrator):
    """Give every class its own temperature, chosen by calibration error class by class.

    p = softmax(z_1 / T_1, ..., z_C / T_C). All T_c start at the temperature of
    temperature scaling. For class after class, T_c runs through 0.1, 0.2, ..., 10 with
    the others fixed, and moves wherever the ECE of the calibration rows (15 bins of
    equal width) is strictly below the best seen so far; passes repeat until no class
    moves. Predictions may change; with ``guard`` the accuracy on the calibration rows
    never falls below the uncalibrated one. A class without rows keeps the common
    temperature.

    Only one column changes at a time, so a candidate costs one logistic function per
    row, exact in float64: passes * classes * 100 * rows of them, some minutes per pass
    for 25000 x 1000. The ECE of thousands of candidates is searched on one set of rows,
    so its value there (recorded as ``ece``) is optimistic, and NLL is not looked at.
    (The authors' programs start from 2.5 or from an ECE grid; their later one makes
    local steps.)

    The temperatures act on the raw logits: a constant added to a row is not without
    effect.

    Reference: Frenkel, Goldberger (2021), "Network calibration by class-based
    temperature scaling".
    """

    temperature: FloatArray = param("k", within="positive")

    list_order = 60
    aliases = ("class-temperature",)
    use = "to compare with: one temperature per class"
    title = "class-based temperature scaling"
    Options = ClassTemperatureOptions
    laws = Laws(weights=True)

    @classmethod
    def fit(
        cls, rows: Rows, options: ClassTemperatureOptions, context: Context
    ) -> Fit[Self]:
        first = TemperatureScaling.fit(rows, TemperatureOptions(), context)
        start = first.calibrator.temperature
        search = ClassSearch(rows, start, width_edges(options.bins))
        before = search.ece
        floor = search.accuracy if options.guard else -np.inf
        present = np.flatnonzero(np.bincount(rows.labels(), minlength=rows.k) > 0)
        moves = []
        for done in range(options.passes):
            moves.append(0)
            for c, moved in enumerate(search.sweep(present, GRID, floor), 1):
                context.progress(
                    "searching class temperatures",
                    done * rows.k + c,
                    options.passes * rows.k,
                )
                moves[-1] += moved
            if moves[-1] == 0:
                break
        status: Status = first.status
        warnings = list(first.warnings)
        if moves[-1] > 0:
            warnings.append(
                f"temperatures still moved in pass {options.passes}; raise passes to"
                " search on"
            )
            if status == "ok":
                status = "not_converged"
        missing = rows.k - len(present)
        if missing:
            warnings.append(
                f"classes without calibration rows ({missing} of {rows.k}): each keeps"
                f" the temperature of all, {start:g}"
            )
        if rows.n < 20 * rows.k:
            few = "fewer than 20 rows per class; ts or vs are safer"
            warnings.append(f"{rows.k} temperatures chosen on {rows.n} rows: {few}")
        details = {
            "start": start,
            "passes": len(moves),
            "moves": moves,
            "ece": {"before": before, "after": search.ece},
        }
        return Fit(cls(search.temperature), status, tuple(warnings), details)

    def apply(self, block: Block) -> Prediction:
        scaled = block.z / self.temperature
        return Prediction(log_softmax(scaled), scaled.argmax(axis=1))
