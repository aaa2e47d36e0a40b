"""Scaling-binning."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from msgspec import Meta

from calcli.binning import BinStats
from calcli.calibrator import Context, Curves, Fit, param
from calcli.errors import DataError
from calcli.methods._binary import (
    EMPTY,
    TOP_LAWS,
    BinaryCalibrator,
    MapFit,
    ModeOptions,
    Sample,
    check_finite,
    check_steps,
    counted_rows,
    fit_maps,
    step,
)
from calcli.methods._logistic import sigmoid
from calcli.methods.hb import Bins, Scheme, fit_edges, ruined_by_mass, thin_bins
from calcli.methods.platt import fit_platt, log_odds
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import FloatArray, IntArray
from calcli.rows import Rows


class ScalingBinningOptions(ModeOptions, frozen=True):
    """Options of scaling-binning."""

    base: Annotated[
        Literal["platt", "ts"],
        Meta(description="the smooth map that is fitted first: Platt scaling, or one temperature by NLL"),
    ] = "platt"
    bins: Bins = 15
    scheme: Annotated[Scheme, Meta(description="bins holding equally many rows, or of equal width")] = "mass"
    split: Annotated[
        Literal["shared", "thirds"],
        Meta(
            description="rows for the three steps (fit, cut into bins, average): all rows for each, or three random"
            " disjoint thirds"
        ),
    ] = "shared"


Parts = tuple[IntArray, IntArray, IntArray]
"""Rows for the three steps."""


@dataclass(frozen=True)
class ScalingBinning(BinaryCalibrator):
    """Fit a smooth map, then replace its values by their mean in each of a few bins.

    1. g is fitted (``base``), 2. bins of g hold equally many rows, 3. q = mean of g, not of
    the outcomes, over the bin that g(p) falls into; an empty bin gives its midpoint. The
    output takes at most ``bins`` values, so its calibration error can be measured, with
    less variance than histogram binning's means of outcomes. The paper's analysis takes
    three disjoint parts of the rows (``split=thirds``), the authors' code all rows for
    every step (``shared``).

    In mode=marginal (or ova, the same here) each class has its own g and bins. The paper
    measures these values as they are; the output vector is divided by its sum.

    Reference: Kumar, Liang, Ma (2019), section 4; "Platt-binning" in Li's reproduction.
    """

    slope: FloatArray = param("maps")
    intercept: FloatArray = param("maps")
    edges: Curves = param()
    values: Curves = param()
    temperature: float | None = param(optional=True)

    title = "scaling-binning"
    laws = TOP_LAWS
    Options = ScalingBinningOptions
    identity = (1.0, 0.0, EMPTY, EMPTY)

    @classmethod
    def fit(cls, rows: Rows, options: ScalingBinningOptions, context: Context) -> Fit[Self]:
        counted = counted_rows(rows.n, rows.weights())
        parts = split_rows(len(counted), options.split, context.rng())
        ts = Fit(TemperatureScaling(1.0))
        if options.base == "ts":
            ts = TemperatureScaling.fit(rows.take(counted[parts[0]]), TemperatureOptions(), context)

        maps = fit_maps(
            cls,
            rows,
            options.mode,
            lambda sample: cls.fit_map(sample, options, parts),
            context,
            ts.calibrator.temperature,
        )
        maps.before(ts)
        temperature = ts.calibrator.temperature if options.base == "ts" else None
        return maps.finish(cls(*[*maps.params, temperature]), cls.advice(rows, options))

    @classmethod
    def fit_map(cls, sample: Sample, options: Any, parts: Parts | None = None) -> MapFit:
        one, two, three = (sample.part(part) for part in parts) if parts else (sample, sample, sample)
        base = MapFit((1.0, 0.0))
        if options.base == "platt":
            base = fit_platt(one, constant_if_separable=options.mode == "top")
        edges = fit_edges(scaled(two.p, *base.params), two.weight, options.bins, options.scheme)
        seen = BinStats.of(scaled(three.p, *base.params), three.hit, edges, three.weight)
        middle = 0.5 * (edges[:-1] + edges[1:])
        values = np.divide(seen.score, seen.weight, out=middle, where=seen.weight > 0)
        record = base.record | {"empty_bins": float((seen.count == 0).sum())}
        return base._replace(params=(*base.params, edges, np.clip(values, 0.0, 1.0)), record=record)

    @staticmethod
    def curve(p: FloatArray, *params: Any) -> FloatArray:
        slope, intercept, edges, values = params
        if not len(edges):
            return p
        return step(scaled(p, slope, intercept), edges, values)

    def tempered(self, z: FloatArray) -> FloatArray:
        return z if self.temperature is None else z / self.temperature

    @classmethod
    def advice(cls, rows: Rows, options: Any) -> Iterator[str]:
        n = rows.n if options.split == "shared" else rows.n // 3
        yield from thin_bins(n, options.bins)
        yield from ruined_by_mass(rows, options)

    def check(self, k: int) -> None:
        super().check(k)
        check_finite(slope=self.slope, intercept=self.intercept)
        if self.temperature is not None and not 0 < self.temperature < np.inf:
            raise DataError(f"temperature is {self.temperature}, expected a positive number")
        for _, _, edges, values in self.maps:
            check_steps(edges, values)


def split_rows(n: int, split: str, rng: np.random.Generator) -> Parts:
    """Rows for the three steps: all of them each time, or three random disjoint parts."""
    everything = np.arange(n)
    if split == "shared" or n < 3:
        return everything, everything, everything
    one, two, three = np.array_split(rng.permutation(n), 3)
    return np.sort(one), np.sort(two), np.sort(three)


def scaled(p: FloatArray, slope: float, intercept: float) -> FloatArray:
    """g(p); a slope of 1 and no intercept are g(p) = p exactly (base=ts)."""
    if slope == 1.0 and intercept == 0.0:
        return p
    return sigmoid(slope * log_odds(p) + intercept)


METHOD = ScalingBinning
