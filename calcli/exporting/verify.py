"""Compare an exported calibrator with ``apply``, on random and difficult rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from calcli.block import Block, Codes
from calcli.exporting.calibrator_graph import UNSEEN, groups_of, trace
from calcli.exporting.numpy_source import load_source, write_source
from calcli.exporting.target import Run
from calcli.io.artifact import Artifact
from calcli.items import index_of_each
from calcli.numerics import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    log_softmax,
    softmax,
)
from calcli.rows import ScoreKind

TOLERANCE = 1e-6
"""Largest allowed difference of a probability, as outputs are float32."""

NUDGE = 16 * float(np.finfo(np.float64).eps)
"""Relative change of a score that is within the rounding differences of machines'
exponentials.
"""

NUDGES = 16
"""Number of tried combinations of moving each class up or down."""

SLAB = 1 << 21
"""Largest number of scores compared at once."""


@dataclass(frozen=True)
class Agreement:
    """Result of the comparison of an export with ``apply``.

    rows : number compared. difference : largest of a probability. labels : number of
    rows with another prediction. on_jumps : number of rows at a jump (or a slope as
    steep), where the last bit of a score decides and the export took the other side;
    they count in neither.
    """

    rows: int
    difference: float
    labels: int
    on_jumps: int = 0

    @property
    def holds(self) -> bool:
        """True if the export may be written; a difference of NaN is False."""
        return self.difference <= TOLERANCE and not self.labels

    def __add__(self, other: "Agreement") -> "Agreement":
        worst = float(np.maximum(self.difference, other.difference))  # NaN, if one is
        return Agreement(
            self.rows + other.rows,
            worst,
            self.labels + other.labels,
            self.on_jumps + other.on_jumps,
        )


def trying_rows(k: int, kind: ScoreKind, dtype: Any = np.float32) -> Iterator[AnyArray]:
    """Yield test scores (n, k) of a kind and a type: random ones of many sizes, and
    extreme ones; some mebibytes at a time.
    """
    rng = np.random.default_rng(0)
    sizes = np.repeat([0.1, 1.0, 3.0, 10.0, 40.0], 40)[:, None]
    one_hot = np.zeros((40, k))  # the rows of np.eye(k), which has k^2 entries
    one_hot[np.arange(40), rng.integers(0, k, 40)] = 1.0
    ties = rng.normal(size=(20, k))
    ties[:, -1] = ties[:, 0]
    tops = rng.normal(size=(20, k))
    tops[:, : max(2, k // 2)] = 5.0
    near = one_hot * rng.uniform(15.0, 45.0, (40, 1)) + rng.normal(size=(40, k))
    far = np.eye(2, k) * 1e4
    last = np.eye(1, k, k - 1) * 60.0
    ramp = np.linspace(-1e4, 1e4, k)[None, :]
    flat = np.full((1, k), 7.25)
    every_other = np.where(np.arange(k) % 2 == 0, 1e4, -1e4)[None, :]
    corners = np.concatenate(
        [np.zeros((1, k)), flat, every_other, far, -far, last, ramp, near, ties, tops]
    )
    most = max(1, SLAB // k)
    for z in chain(_random_slabs(sizes, k, most, rng), _slabs(corners, most)):
        scores = z
        if kind == "log_probs":
            scores = log_softmax(z)
        elif kind == "probs":
            scores = softmax(z)
        yield scores.astype(dtype)


def _slabs(rows: FloatArray, most: int) -> Iterator[FloatArray]:
    """Parts of at most so many rows."""
    for start in range(0, len(rows), most):
        yield rows[start : start + most]


def _random_slabs(
    sizes: FloatArray, k: int, most: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Random scores of each size (n, 1), drawn when they are asked for."""
    for size in _slabs(sizes, most):
        yield rng.normal(size=(len(size), k)) * size


def compare(
    run: Run,
    artifact: Artifact,
    scores: AnyArray,
    columns: Mapping[str, Codes] | None = None,
) -> Agreement:
    """Compare an export with ``apply`` on scores (n, k), as they are.

    Their zeros count as in the fit. columns : the groups of the rows, for a calibrator
    by group; left out, they take turns.
    """
    groups = {}
    for name, known in groups_of(artifact).items():
        # Indices of the groups that the calibrator knows, -1 for others.
        code = np.arange(len(scores)) % (len(known) + 1)
        if columns is not None:
            column = columns[name]
            place_of = index_of_each(known)
            known_places = [place_of.get(group, -1) for group in column.names]
            code = np.array(known_places, dtype=np.int64)[column.code]
        groups[name] = Codes((*known, UNSEEN), code)
    probs, label = run(scores, *(column.code for column in groups.values()))
    block = Block(0, scores, artifact.input_kind, columns=groups)
    with np.errstate(all="ignore"):
        applied = artifact.calibrator.apply(artifact.calibrator.reading(block))
        expected = np.exp(applied.log_probs)
        expected_label = applied.label
    off = np.abs(probs - expected).max(axis=1)
    wrong = label != expected_label
    excused = np.zeros(len(off), dtype=np.bool_)
    suspects = np.flatnonzero(~(off <= TOLERANCE) | wrong)
    if len(suspects) and not groups:
        excused[suspects] = beside_a_jump(
            artifact, scores[suspects], np.asarray(probs)[suspects], label[suspects]
        )
    off = off[~excused]
    wrong = wrong[~excused]
    return Agreement(
        len(scores), float(off.max(initial=0.0)), int(wrong.sum()), int(excused.sum())
    )


def moved_by_zeros(artifact: Artifact, block: Block) -> FloatArray:
    """Largest change of a probability in each row, (b,), as its zeros count as in the
    fit, and not as the block's own digits say.
    """
    calibrator = artifact.calibrator
    reading = calibrator.reading(block)
    if reading.zeros == calibrator.zeros:
        return np.zeros(len(block))
    by_its_digits = calibrator.calibrate(block)
    as_in_fit = calibrator.calibrate(replace(block, zeros=calibrator.zeros))
    moves = np.exp(by_its_digits.log_probs) - np.exp(as_in_fit.log_probs)
    return np.abs(moves).max(axis=1)


def beside_a_jump(
    artifact: Artifact, scores: AnyArray, probs: AnyArray, label: IntArray
) -> BoolArray:
    """Mask of rows whose export lies within the outputs of the map as its scores and
    the inputs of its tables move by some last bits; none where no map jumps.
    """
    rng = np.random.default_rng(0)
    k = scores.shape[1]
    exact = scores.astype(np.float64)
    if artifact.input_kind == "probs":
        size = NUDGE * exact
    else:
        size = NUDGE * np.maximum(np.abs(exact), 1.0)
    low = np.full(exact.shape, np.inf)
    high = np.full(exact.shape, -np.inf)
    has_label = np.zeros(len(exact), dtype=np.bool_)
    for i in range(NUDGES):
        # All up, all down, then at random.
        sign = np.full((1, k), 1.0 - 2.0 * i)
        if i > 1:
            sign = rng.choice([-1.0, 1.0], (1, k))
        graph = trace(artifact, nudge=NUDGE * sign)
        if not graph.jumps:
            break
        module = load_source(write_source(artifact, graph))
        for moves in (0.0, rng.uniform(-1.0, 1.0, exact.shape)):
            moved_scores = exact + size * moves
            p = module["predict_proba"](moved_scores)
            low = np.minimum(low, p)
            high = np.maximum(high, p)
            has_label |= module["predict"](moved_scores) == label
    inside = (probs >= low - TOLERANCE) & (probs <= high + TOLERANCE)
    return inside.all(axis=1) & has_label
