"""Histogram binning."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from calcli.binning import BinStats, ends, mass_edges, width_edges
from calcli.methods._binary.log_odds import MapFit, Sample
from calcli.methods._binary.maps import TOP_LABEL, ModeOptions
from calcli.methods._binary.tables import Steps
from calcli.numerics import FloatArray, ratio, sigmoid, tie_groups
from calcli.rows import Rows

Scheme = Literal["width", "mass"]
Bins = Annotated[int, Meta(ge=1, le=100_000, description="number of bins")]
# rows per bin below which a bin's frequency of right answers is little more than chance
# (+-0.1)
THIN = 20


class HistogramOptions(ModeOptions, frozen=True):
    bins: Bins = 15
    scheme: Annotated[
        Scheme, Meta(description="bins of equal width, or holding equally many rows")
    ] = "width"
    smooth: Annotated[
        bool,
        Meta(
            description=(
                "pull each bin's value towards its midpoint with the weight of one row"
            )
        ),
    ] = False


@dataclass(frozen=True)
class HistogramBinning(Steps):
    """Replace each confidence by the frequency of right answers in its bin.

    q = mean of the outcomes of the bin (lo, hi] that p falls into; an empty bin gives
    its midpoint (as verified_calibration does; others give 0 there, and rows of zeros).
    ``smooth`` uses (n1 + midpoint) / (n + 1).

    With one map per class and bins of equal mass, the top bin holds n / bins rows
    whatever the class's own share n / k is; with many classes all its values tie near
    bins / k and accuracy collapses. Hence mode=top and equal width by default.

    Reference: Zadrozny, Elkan (2001), ICML; Guo et al. (2017), section 4.1, equation 7.
    """

    list_order = 33
    aliases = ("histogram",)
    use = "the confidence alone, when the map must be readable as a table"
    title = "histogram binning"
    laws = TOP_LABEL
    Options = HistogramOptions

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        if options.scheme == "width":  # which are of probabilities by definition
            sample = replace(sample, one_map=False)
        edges = fit_edges(
            sample.x,
            sample.weight,
            options.bins,
            options.scheme,
            log_odds=sample.in_log_odds,
        )
        bins = BinStats.of(sample.x, sample.hit, edges, sample.weight)
        p = sigmoid(edges) if sample.in_log_odds else edges
        middle = 0.5 * (p[:-1] + p[1:])
        prior = 1.0 if options.smooth else 0.0
        hits = bins.outcome + prior * middle
        mass = bins.weight + prior
        values = ratio(hits, mass, otherwise=middle)
        # Sums of weights may round to a share just above 1.
        values = np.minimum(values, 1.0)
        record = {"empty_bins": float((bins.count == 0).sum())}
        return MapFit.table(sample, edges, values, record)

    @classmethod
    def advice(cls, rows: Rows, options: Any) -> Iterator[str]:
        yield from ruined_by_mass(rows, options)
        yield from thin_bins(rows.n, options.bins)


def ruined_by_mass(rows: Rows, options: Any) -> Iterator[str]:
    """Advice against few equal-mass bins per class where classes are many."""
    is_of_classes = options.mode in ("ova", "marginal")
    if is_of_classes and options.scheme == "mass" and options.bins < rows.k:
        yield (
            f"{options.bins} bins of equal mass for {rows.k} classes: the top bin of"
            " every class holds mostly rows of other classes, which ruins accuracy;"
            " mode=top, scheme=width or ts would serve better"
        )


def thin_bins(n: int, bins: int) -> Iterator[str]:
    """Advice against more bins than n rows can fill."""
    if n < THIN * bins:
        yield (
            f"{n} rows in {bins} bins are {n / bins:.3g} per bin, too few to estimate a"
            f" share; bins={max(1, n // THIN)}, platt or ts would serve better"
        )


def fit_edges(
    scores: FloatArray,
    weight: FloatArray | None,
    bins: int,
    scheme: Scheme,
    *,
    log_odds: bool = False,
) -> FloatArray:
    """Find the edges of bins for a map, (actual bins + 1,).

    They go from 0 to 1, or over all log-odds. scores, weight : (n,). An equal-mass edge
    that coincides with a score (ties across the cut) is moved half way to the next
    larger one: the same rows fall on the same side, but a score that another machine
    rounds otherwise no longer changes bins.
    """
    if scheme == "width":
        return width_edges(bins)
    edges = mass_edges(scores, bins, weight, log_odds=log_odds)
    scores_without_ties, _ = tie_groups(scores, float(log_odds))
    _, upper_end = ends(log_odds=log_odds)
    distinct = np.append(scores_without_ties, upper_end)
    place = np.searchsorted(distinct, edges[1:-1])
    hit = np.flatnonzero(distinct[place] == edges[1:-1])
    edges[hit + 1] = 0.5 * (distinct[place[hit]] + distinct[place[hit] + 1])
    # Between neighbouring floats there is no half way, and edges may meet.
    return np.unique(edges)
