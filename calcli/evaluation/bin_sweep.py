"""Squared calibration error against the number of bins: the binned lower bound."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calcli.binning import BinStats, binned_error, mass_edges
from calcli.calibrator import Calibrator
from calcli.evaluation.results import Sweep
from calcli.metrics.class_columns import class_columns
from calcli.metrics.collect import collect
from calcli.metrics.context import norm_text
from calcli.metrics.debiased import signed_root, signed_square
from calcli.metrics.rowtable import RowTable
from calcli.numerics import FloatArray, IntArray
from calcli.rows import Rows


def bin_sweep(
    rows: Rows,
    calibrator: Calibrator | None,
    table: RowTable,
    counts: Sequence[int],
    norm: float,
    edge_rows: Rows | None = None,
    marginal: bool = False,
) -> Sweep:
    """Errors over mass bins for several numbers of bins.

    Binning replaces a score by its bin's mean, which never raises the population error, so
    each entry estimates a lower bound of the true error, and nested refinements grow. At
    finite n the plugin is biased upwards, the more the more bins; the debiased squared
    error is not.

    edge_rows : other rows whose scores, through the same calibrator, choose the bins (the
    bound is then free of selection); these rows themselves when None. Lists run along
    ``counts``: plugin error of the given norm, and debiased L2 error, of the top label and,
    when asked for, averaged over classes (norm-th power mean, as the paper does).

    Reference: Kumar, Liang, Ma (2019), proposition 3.3; Li (2023), experiments 1 and 4.
    """
    chooser = table if edge_rows is None else collect(edge_rows, calibrator)
    order = np.argsort(table.confidence)
    top = [
        _stats(table.confidence, order, table.correct, mass_edges(chooser.confidence, b, chooser.weight), table.weight)
        for b in counts
    ]
    plain = tuple(float(binned_error(bins, norm)) for bins in top)
    found = Sweep(norm_text(norm), tuple(counts), plain, tuple(signed_root(float(signed_square(bins))) for bins in top))
    if not marginal:
        return found
    plugin, debiased = np.zeros(len(counts)), np.zeros(len(counts))
    other = class_columns(rows if edge_rows is None else edge_rows, calibrator)
    for (c, p), (_, chosen) in zip(class_columns(rows, calibrator), other, strict=True):
        outcome, order = (table.y == c).astype(np.float64), np.argsort(p)
        for j, b in enumerate(counts):
            bins = _stats(p, order, outcome, mass_edges(chosen, b, chooser.weight), table.weight)
            power = 1.0 if np.isinf(norm) else norm
            plugin[j] += float(binned_error(bins, norm)) ** power / table.k
            debiased[j] += float(signed_square(bins)) / table.k
    root = 1.0 if np.isinf(norm) else 1.0 / norm
    return replace(
        found,
        marginal=tuple((plugin**root).tolist()),
        marginal_debiased=tuple(signed_root(v) for v in debiased.tolist()),
    )


def _stats(
    scores: FloatArray, order: IntArray, outcomes: FloatArray, edges: FloatArray, weight: FloatArray | None
) -> BinStats:
    """``BinStats.of`` of scores that are sorted by ``order``: as fast for thousands of bins as for ten."""
    ends = np.searchsorted(scores, edges[1:-1], side="right", sorter=order)
    index = np.empty(len(scores), np.int64)
    index[order] = np.repeat(np.arange(len(edges) - 1), np.diff(ends, prepend=0, append=len(scores)))
    return BinStats.at(index, len(edges) - 1, scores, outcomes, weight)
