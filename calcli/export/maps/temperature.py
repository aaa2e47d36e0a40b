"""Temperatures: one, one per class, one per row, an ensemble; and no calibration."""

import math
from dataclasses import replace

import numpy as np

from calcli.export.calibrator_graph import Traced, lower
from calcli.export.functions import (
    exp,
    is_class,
    log,
    log_add,
    log_softmax,
    maximum,
    minimum,
    mixed_with_uniform,
    row_argmax,
    row_max,
    row_sum,
    where,
)
from calcli.export.graph import GraphValue
from calcli.methods._temperature import OneTemperature
from calcli.methods.compared.cts import ClassTemperatureScaling
from calcli.methods.compared.identity import Identity
from calcli.methods.ets import EnsembleTemperatureScaling
from calcli.methods.ft import CLIP, FeatureTemperature
from calcli.methods.ts import TemperatureScaling


@lower.register
def identity(calibrator: Identity, x: Traced) -> Traced:
    return replace(x, z=log_softmax(x.z))


@lower.register
def one_temperature(calibrator: OneTemperature, x: Traced) -> Traced:
    return replace(x, z=log_softmax(x.z / calibrator.temperature))


@lower.register
def temperature_scaling(calibrator: TemperatureScaling, x: Traced) -> Traced:
    return replace(x, z=mixed_with_uniform(log_softmax(x.z / calibrator.temperature), calibrator.uniform, x.k))


@lower.register
def class_temperatures(calibrator: ClassTemperatureScaling, x: Traced) -> Traced:
    scaled = x.z / calibrator.temperature[None, :]
    return replace(x, z=log_softmax(scaled), label=row_argmax(scaled))


@lower.register
def ensemble(calibrator: EnsembleTemperatureScaling, x: Traced) -> Traced:
    w1, w2, w3 = (float(w) for w in calibrator.weights)
    scaled = ((w1, 1.0 / calibrator.temperature), (w2, 1.0))
    parts = [log_softmax(x.z * scale) + math.log(w) for w, scale in scaled if w > 0]
    total = parts[0] if parts else log_softmax(x.z) * 0.0 + math.log(w3 / x.k)
    if parts and w3 > 0:
        total = log_add(total, math.log(w3 / x.k))
    if len(parts) > 1:
        total = log_add(total, parts[1])
    return replace(x, z=total)


@lower.register
def feature_temperature(calibrator: FeatureTemperature, x: Traced) -> Traced:
    shifted = x.z - row_max(x.z)
    inputs = features(shifted, calibrator.temperature, x.k)
    exponent: GraphValue | None = None
    for value, mean, deviation, weight in zip(
        inputs, calibrator.mean, calibrator.deviation, calibrator.weights[1:], strict=True
    ):
        term = minimum(maximum((value - mean) / deviation, -CLIP), CLIP) * weight
        exponent = term if exponent is None else exponent + term
    assert exponent is not None
    scale = exp(exponent + calibrator.weights[0]) / calibrator.temperature
    return replace(x, z=mixed_with_uniform(log_softmax(shifted * scale), calibrator.uniform, x.k))


def features(shifted: GraphValue, temperature: float, k: int) -> tuple[GraphValue, GraphValue, GraphValue]:
    """``ft.features``: entropy, margin and spread of every row, in logarithms, (rows, 1) each."""
    u = shifted / temperature
    log_p = log_softmax(u)
    entropy = -row_sum(exp(log_p) * log_p)
    second = row_max(where(is_class(row_argmax(u), k), -np.inf, u))
    centred = u - row_sum(u) / k
    spread = u.graph.op("sqrt", row_sum(centred * centred) / k) * temperature
    return (
        log(maximum(entropy, 0.0) / math.log(k) + 1e-6),
        log(1e-2 - second),
        log(maximum(spread, 1e-6)),
    )
