"""Order-preserving networks: what sorts the classes of a row."""

import numpy as np

from calcli.calibrator import Prediction
from calcli.export.calibrator_graph import lower
from calcli.export.graph import Operand
from calcli.methods.iop import IntraOrderPreserving
from calcli.numerics import log_softmax, mixed_with_uniform
from calcli.rows import Block


@lower.register
def intra_order_preserving(calibrator: IntraOrderPreserving, block: Block) -> Prediction:
    if calibrator.variant == "diag":
        return calibrator.apply(block)
    log_p = mixed_with_uniform(log_softmax(by_networks(calibrator, block.z)), calibrator.uniform)
    return Prediction(log_p, block.prediction)


def by_networks(calibrator: IntraOrderPreserving, z: Operand) -> Operand:
    """``_iop_net.mapped_logits``; the last class gets a gap of 0, so that all arrays have k columns."""
    k, op = z.width, z.graph.op
    order = op("descending", z, dtype=np.int64)
    ranked = np.take_along_axis(z, order, axis=1)
    gaps = ranked - ranked[:, np.minimum(np.arange(1, k + 1), k - 1)]
    assert calibrator.center is not None
    assert calibrator.spread is not None
    seen = ((ranked if calibrator.variant == "oi" else z) - calibrator.center) / calibrator.spread
    nets = calibrator._nets()
    total: Operand = 0.0
    for w1, b1, w2, b2, w3, b3 in nets:
        h = np.maximum(np.maximum(seen @ w1 + b1, 0.0) @ w2 + b2, 0.0)
        a = h @ np.pad(w3, ((0, 0), (0, 1))) + np.append(b3, 0.0)
        total = np.maximum(a, 0.0) + np.log1p(np.exp(-np.abs(a))) + total
    climbed = op("sum_from_right", gaps * (total / len(nets)))
    return np.take_along_axis(climbed, op("descending", -order.floats(), dtype=np.int64), axis=1)
