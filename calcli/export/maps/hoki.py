"""Hoki with the exact retention under Gaussian or Gumbel noise; what needs transforms or draws says so."""

from dataclasses import replace

import numpy as np

from calcli.binning import width_edges
from calcli.errors import UsageError
from calcli.export.calibrator_graph import Traced, lower
from calcli.export.functions import (
    at,
    exp,
    is_class,
    log,
    logs,
    maximum,
    minimum,
    nudged,
    row_argmax,
    row_sum,
    search,
    share_rest,
    sigmoid,
    take,
    top_log_odds,
    where,
)
from calcli.export.graph import GraphValue
from calcli.kernels.numpy.hoki_retention import CELLS_PER_FOLD, DEGREE, gap_table
from calcli.methods._hoki.rounds import SLACK
from calcli.methods.hoki import Hoki
from calcli.methods.recal import ReCal
from calcli.numerics import FloatArray

BY_TRANSFORMS = "reads the scores of the same rows under transforms of the input, which a serving graph does not see"


@lower.register
def recal(calibrator: ReCal, x: Traced) -> Traced:
    raise UsageError(f"recal {BY_TRANSFORMS}; export ts or ft instead")


@lower.register
def hoki(calibrator: Hoki, x: Traced) -> Traced:
    if calibrator.transforms is not None:
        how = f"mix={calibrator.mix:g}" if calibrator.mix else "noise=transforms"
        raise UsageError(f"hoki with {how} {BY_TRANSFORMS}; fit it with noise=gaussian or gumbel")
    if calibrator.samples:
        raise UsageError("hoki with gamma=mc counts recorded draws, which no graph holds; fit it with gamma=exact")
    if calibrator.noise == "uniform":
        raise UsageError(
            "hoki with noise=uniform integrates a product with a kink at every class's gap, which a graph of a fixed"
            " length cannot do to 1e-6; fit it with noise=gaussian or gumbel"
        )
    x.z.graph.jumps = True
    gamma = (gaussian if calibrator.noise == "gaussian" else gumbel)(x, calibrator.scale)
    if calibrator.init == "accuracy":
        start = gamma * 0.0 + calibrator.accuracy
    else:
        start = sigmoid(top_log_odds(x.z, x.label, x.k))
    q = start
    for alpha, beta in zip(calibrator.alpha, calibrator.beta, strict=True):
        q = follow(q, gamma, alpha, beta)
    return replace(x, z=share_rest(x.z, x.label, *logs(q), x.k))


def follow(q: GraphValue, gamma: GraphValue, alpha: FloatArray, beta: FloatArray) -> GraphValue:
    """``rounds.follow``: the line of each row's bin; an empty bin leaves the row as it is."""
    empty = np.isnan(alpha)
    tables = np.stack([np.where(empty, 0.0, alpha), np.where(empty, 0.0, beta), empty.astype(np.float64)])
    found, size = search(nudged(q - SLACK, 1), [width_edges(len(alpha))[1:-1]], closed=False)
    if found is None:
        a, b, none = (table[None, :] for table in tables)
        line = minimum(maximum(gamma * (a - b) + b, 0.0), 1.0)
        return q if none.any() else line
    a, b, none = (take(np.pad(table, (0, size - len(alpha))), found) for table in tables)
    return where(none > 0.5, q, minimum(maximum((a - b) * gamma + b, 0.0), 1.0))


def gumbel(x: Traced, scale: float) -> GraphValue:
    """``hoki_retention.gumbel_retention``."""
    top = row_argmax(x.z)
    d = at(x.z, top) - x.z
    closeness = where(is_class(top, x.k), 0.0, exp(d / -scale))
    return 1.0 / (row_sum(closeness) + 1.0)


def gaussian(x: Traced, scale: float) -> GraphValue:
    """``hoki_retention.gaussian_retention``: power sums of the gaps within the cells of a grid, times one table."""
    table = gap_table((scale,), x.k)
    top = row_argmax(x.z)
    d = where(is_class(top, x.k), 2.0 * table.far, at(x.z, top) - x.z)
    place = log(minimum(d, table.far) / table.knee + 1.0) * CELLS_PER_FOLD
    cell = place.graph.op("float", place.graph.op("whole", place))
    dropped = d >= table.far
    cell = where(dropped, float(table.cells), cell)
    t = (place - cell) * 2.0 - 1.0
    g = x.z.graph
    member = g.op("float", g.op("equal", g.op("whole", g.op("expand", cell)), np.arange(table.cells)[None, None, :]))
    coefficients = table.per_scale[0].reshape(table.cells, DEGREE + 1, -1)
    power, total = t * 0.0 + 1.0, row_sum(t) * 0.0
    for degree in range(DEGREE + 1):
        sums = row_sum(g.op("swap", member * g.op("expand", power)))
        total = total + g.op("squeeze", sums) @ np.ascontiguousarray(coefficients[:, degree])
        power = power * t
    return minimum(row_sum(exp(total + table.log_weight[None, :])), 1.0)
