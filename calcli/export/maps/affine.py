"""Linear maps of logits and of log-probabilities."""

from dataclasses import replace

import numpy as np

from calcli.export.calibrator_graph import Traced, lower
from calcli.export.functions import floored_log, log, log_softmax, maximum, row_argmax, softmax
from calcli.export.graph import GraphValue
from calcli.methods._affine.matrix_maps import EPS, FullMap, OdirMap, log_probabilities
from calcli.methods._affine.structured import Smoothed
from calcli.methods.sms import StructuredMatrixScaling
from calcli.methods.svs import StructuredVectorScaling
from calcli.methods.vs import VectorScaling


def by_its_largest(x: Traced, log_p: GraphValue) -> Traced:
    """The prediction is the largest entry."""
    return replace(x, z=log_p, label=row_argmax(log_p))


@lower.register
def vector(calibrator: VectorScaling, x: Traced) -> Traced:
    return by_its_largest(x, log_softmax(x.z * calibrator.scale[None, :] + calibrator.bias[None, :]))


def smoothed(calibrator: Smoothed, x: Traced) -> GraphValue:
    """Logarithm of the tempered probabilities mixed with the uniform ones."""
    p = softmax(x.z / calibrator.temperature)
    return log(p * (1.0 - calibrator.smoothing) + calibrator.smoothing / x.k)


@lower.register
def structured_vector(calibrator: StructuredVectorScaling, x: Traced) -> Traced:
    z = smoothed(calibrator, x) * calibrator.scale[None, :] + calibrator.bias[None, :]
    return by_its_largest(x, log_softmax(z))


@lower.register
def structured_matrix(calibrator: StructuredMatrixScaling, x: Traced) -> Traced:
    z = smoothed(calibrator, x) @ calibrator.weight.T + calibrator.bias[None, :]
    return by_its_largest(x, log_softmax(z))


def features(calibrator: FullMap | OdirMap, x: Traced) -> GraphValue:
    """What the matrix multiplies: the logits, or floored log-probabilities."""
    return maximum(log_softmax(x.z), np.log(EPS)) if calibrator.features is log_probabilities else x.z


@lower.register
def matrix(calibrator: FullMap, x: Traced) -> Traced:
    z = features(calibrator, x) @ calibrator.weight.T + calibrator.bias[None, :]
    return by_its_largest(x, log_softmax(z))


@lower.register
def matrix_per_fold(calibrator: OdirMap, x: Traced) -> Traced:
    seen = features(calibrator, x)
    if calibrator.fold_weight is None or calibrator.fold_bias is None:
        return by_its_largest(x, log_softmax(seen @ calibrator.weight.T + calibrator.bias[None, :]))
    folds = zip(calibrator.fold_weight, calibrator.fold_bias, strict=True)
    first, *others = [softmax(seen @ weight.T + bias[None, :]) for weight, bias in folds]
    for p in others:
        first = first + p
    return by_its_largest(x, floored_log(first / len(calibrator.fold_weight)))
