"""Venn-Abers prediction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calcli.block import Block
from calcli.calibrator import Curves, Prediction, param
from calcli.errors import DataError
from calcli.methods._binary.log_odds import MapFit, Sample
from calcli.methods._binary.maps import EMPTY, TOP_LABEL, BinaryCalibrator, ModeOptions
from calcli.methods._binary.tables import step
from calcli.numerics import TIE, FloatArray, row_weights, sigmoid, tie_groups

ENDS = np.zeros(1)  # stands for the outer edges of steps, which are open


@dataclass(frozen=True)
class VennAbers(BinaryCalibrator):
    """Fit isotonic regression twice for a row: as if its outcome were 0, and were 1.

    p0 and p1 are the values at the row's log-odds s of the two fits to the calibration
    rows and the row itself; one of them is calibrated whatever the scores are like, and
    the further they are apart the less the rows say. q = p1 / (1 - p0 + p1), which errs
    least in log loss. ``apply`` writes p0 and p1 beside (of class 1 of two, or of the
    prediction's being right). Both are steps in s: found for all scores at once from
    the corners of the cumulative sums. With sample weights the row itself weighs
    sum w^2 / sum w: the others are scaled by the inverse, so that it weighs 1.

    Reference: Vovk, Petej, Fedorova (2015), arXiv 1511.00213, algorithms 1 to 6; the
    package venn-abers of Petej gives the same numbers.
    """

    falls: Curves = param(within="rising")
    misses: Curves = param(within="0 to 1")
    rises: Curves = param(within="rising")
    hits: Curves = param(within="0 to 1")

    list_order = 33
    aliases = ("ivap", "venn")
    use = "two classes or the confidence alone, with two probabilities for every row"
    title = "inductive Venn-Abers prediction"
    laws = replace(TOP_LABEL, class_shares=False)
    Options = ModeOptions
    identity = (EMPTY, EMPTY, EMPTY, EMPTY)
    flexible = True
    takes_log_odds = only_ranks = True

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        weight = row_weights(sample.weight, len(sample.s))
        weight = weight * (weight.sum() / (weight @ weight))
        # An added outcome of 0 is an added outcome of 1 of the mirrored rows: -s, 1 - y.
        falls, misses = as_if_right(-sample.s, 1.0 - sample.hit, weight)
        rises, hits = as_if_right(sample.s, sample.hit, weight)
        return MapFit(
            (falls, misses, rises, hits),
            record={"steps": float(len(falls) + len(rises))},
        )

    @staticmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        if not len(params[-1]):
            return sigmoid(x)
        p0, p1 = both_probabilities(x, *params)
        return p1 / (1.0 - p0 + p1)

    def apply(self, block: Block) -> Prediction:
        prediction = super().apply(block)
        if len(self.maps) > 1 or block.kind == "confidence":
            return prediction
        p0, p1 = both_probabilities(self.inputs(block), *self.maps[0])
        return replace(prediction, columns={"p0": p0, "p1": p1})

    def check_own(self, k: int) -> None:
        super().check_own(k)
        for falls, misses, rises, hits in self.maps:
            misses_fit = len(misses) in (0, len(falls) + 1)
            hits_fit = len(hits) in (0, len(rises) + 1)
            if not misses_fit or not hits_fit:
                raise DataError("there is not one value more than edges of the steps")


def both_probabilities(
    x: FloatArray,
    falls: FloatArray,
    misses: FloatArray,
    rises: FloatArray,
    hits: FloatArray,
) -> Any:
    """p0 and p1 at log-odds x, (b,) each."""
    p0 = 1.0 - step(-x, np.concatenate([ENDS, falls, ENDS]), misses)
    return p0, step(x, np.concatenate([ENDS, rises, ENDS]), hits)


def as_if_right(
    s: FloatArray, hit: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fit isotonic regression at every score, each with one more row there.

    That row has outcome 1 and weight 1. Returns rising edges (m,), above tied scores,
    and values (m + 1,) of right-closed steps (their algorithms 1 and 2).
    """
    scores, place = tie_groups(s, least=1.0)
    width = np.bincount(place, weights=weight).tolist()
    height = np.bincount(place, weights=weight * hit).tolist()
    # Corners of the greatest convex minorant of the cumulative sums.
    points = [(0.0, 0.0)]
    for w, h in zip(width, height, strict=True):
        x, y = points[-1]
        points.append((x + w, y + h))
    corners = [(-1.0, -1.0)]
    for point in points:
        while len(corners) > 1 and not turns_left(corners[-2:], point):
            corners.pop()
        corners.append(point)
    corners.reverse()
    # The row itself stands at every score in turn; the corners follow it.
    values = []
    row = (-1.0, -1.0)
    for w, h in zip(width, height, strict=True):
        x1, y1 = corners[-1]
        x2, y2 = corners[-2]
        values.append((y2 - y1) / (x2 - x1))
        row = (row[0] + w, row[1] + h)
        if (row[1] - y1) * (x2 - x1) >= (y2 - y1) * (row[0] - x1):
            continue
        corners.pop()
        while len(corners) > 1 and not turns_left([row, corners[-1]], corners[-2]):
            corners.pop()
        corners.append(row)
    # Sums of weights may round to a share just above 1.
    steps = np.minimum([*values, 1.0], 1.0)
    changes = np.diff(steps) != 0
    edges = scores[changes]
    above = edges + TIE * np.maximum(np.abs(edges), 1.0)
    return above, steps[np.append(changes, True)]


def turns_left(two: Sequence[tuple[float, float]], third: tuple[float, float]) -> bool:
    """Test whether a path through two points to a third turns left.

    That is counterclockwise.
    """
    (x0, y0), (x1, y1) = two
    return (x1 - x0) * (third[1] - y0) > (y1 - y0) * (third[0] - x0)
