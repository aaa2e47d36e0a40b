"""Data that the page's script reads: what its sliders say at every whole percent."""

import math

import numpy as np

from calcli.diagrams.curve import Curve
from calcli.records import JsonObject
from calcli.reporting.gather import ModelResults, Threshold, Version
from calcli.reporting.markup import visible
from calcli.reporting.views.where_wrong import bins_of
from calcli.statistics.intervals import normal_quantile

GRID = np.arange(101) / 100

NEAR = 0.005
"""Distance from all samples beyond which a curve says nothing."""


def data_of(model: ModelResults) -> list[JsonObject]:
    """Data on every version that is drawn."""
    return [_version(version) for version in model.versions]


def _version(version: Version) -> JsonObject:
    readings = {"top": _reading(version.top)}
    edges = {"top": [round(bin_.high, 2) for bin_ in bins_of(version, "top")]}
    if version.positive is not None:
        readings["positive"] = _reading(version.positive)
        bins = bins_of(version, "positive")
        edges["positive"] = [round(bin_.high, 2) for bin_ in bins]
    z = normal_quantile(0.5 + version.top.settings.level / 2.0)
    return {
        "name": visible(version.name),
        "readings": readings,
        "edges": edges,
        "thresholds": [_threshold(threshold) for threshold in version.thresholds],
        "n": version.result.n,
        "z": round(z, 6),
    }


def _reading(curve: Curve) -> JsonObject:
    """The curve that is drawn and its band, at every percent and every other one."""
    x, _ = curve.isotonic.knots
    nearest = np.clip(GRID, x[0], x[-1])
    is_near = np.abs(GRID - nearest) <= NEAR
    values = np.where(is_near, curve.isotonic.at(GRID), np.nan)
    band = curve.band
    low = np.interp(GRID[::2], band.x, band.low)
    high = np.interp(GRID[::2], band.x, band.high)
    return {
        "curve": [_known(value) for value in values.round(4).tolist()],
        "low": low.round(3).tolist(),
        "high": high.round(3).tolist(),
    }


def _threshold(threshold: Threshold) -> list[float | None]:
    """Samples, accuracy and mean confidence.

    Where samples do not count alike, coverage and effective number too.
    """
    if not threshold.n:
        return [0, None, None]
    values: list[float | None] = [
        threshold.n,
        round(threshold.right, 4),
        round(threshold.promised, 4),
    ]
    if threshold.effective != threshold.n:
        values.append(round(threshold.coverage, 4))
        values.append(round(threshold.effective, 1))
    return values


def _known(value: float) -> float | None:
    """A number, None for NaN."""
    return None if math.isnan(value) else value
