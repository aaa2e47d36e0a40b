"""Maps that keep the order of a row's classes: bent curves, order-preserving networks, pooled isotonic regression."""

from dataclasses import replace

import numpy as np

from calcli.export.calibrator_graph import Traced, lower
from calcli.export.functions import (
    Pieces,
    at,
    is_class,
    log_softmax,
    maximum,
    minimum,
    mixed_with_uniform,
    normalize,
    piecewise,
    probabilities,
    row_argmax,
    row_max,
    softplus,
    where,
)
from calcli.export.graph import GraphValue
from calcli.methods.compared.irova import TIE_BREAK
from calcli.methods.iop import IntraOrderPreserving
from calcli.methods.irm import IsotonicMulticlass
from calcli.methods.mono import SharedMonotone
from calcli.numerics import FloatArray


def bent(edges: FloatArray, slopes: FloatArray) -> Pieces:
    """``_monotone.evaluate`` as pieces."""
    base = np.concatenate([[0.0, 0.0], np.cumsum(slopes[1:-1] * np.diff(edges))])
    return Pieces(edges, np.append(edges[0], edges), base, slopes)


@lower.register
def monotone(calibrator: SharedMonotone, x: Traced) -> Traced:
    log_p = log_softmax(piecewise(log_softmax(x.z), [bent(calibrator.edges, calibrator.slopes)]))
    return replace(x, z=mixed_with_uniform(log_p, calibrator.uniform, x.k))


@lower.register
def intra_order_preserving(calibrator: IntraOrderPreserving, x: Traced) -> Traced:
    if calibrator.edges is not None and calibrator.slopes is not None:
        mapped = piecewise(x.z, [bent(calibrator.edges, calibrator.slopes)])
    else:
        mapped = by_networks(calibrator, x.z, x.k)
    return replace(x, z=mixed_with_uniform(log_softmax(mapped), calibrator.uniform, x.k))


def by_networks(calibrator: IntraOrderPreserving, z: GraphValue, k: int) -> GraphValue:
    """``_iop_net.mapped_logits``; the last class gets a gap of 0, so that all arrays have k columns."""
    order = z.graph.op("descending", z)
    ranked = at(z, order)
    gaps = ranked - z.graph.op("columns", ranked, np.minimum(np.arange(1, k + 1), k - 1))
    seen = ((ranked if calibrator.variant == "oi" else z) - calibrator.center) / calibrator.spread
    layers = [w for w in (getattr(calibrator, n) for n in ("w1", "b1", "w2", "b2", "w3", "b3")) if w is not None]
    total: GraphValue | None = None
    for w1, b1, w2, b2, w3, b3 in zip(*layers, strict=True):
        h = maximum(seen @ w1 + b1[None, :], 0.0)
        h = maximum(h @ w2 + b2[None, :], 0.0)
        weight = softplus(h @ np.pad(w3, ((0, 0), (0, 1))) + np.append(b3, 0.0)[None, :])
        total = weight if total is None else total + weight
    assert total is not None
    climbed = z.graph.op("sum_from_right", gaps * (total / len(layers[0])))
    back = z.graph.op("descending", -z.graph.op("float", order))
    return at(climbed, back)


@lower.register
def isotonic_multiclass(calibrator: IsotonicMulticlass, x: Traced) -> Traced:
    x.z.graph.jumps = True
    p = probabilities(x.z)
    q = minimum(maximum(piecewise(p, [Pieces.line(*calibrator.knots)], closed=True), 0.0), 1.0) + p * TIE_BREAK
    log_p, _ = normalize(q, x.z, x.label)
    first = row_argmax(p)
    top = row_max(log_p)
    tied = is_class(first, x.k)
    agrees = x.z.graph.op("equal", row_argmax(log_p), first)
    return replace(x, z=where(tied, where(agrees, log_p, top), log_p))
