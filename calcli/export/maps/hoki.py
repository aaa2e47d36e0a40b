"""Hoki with the exact retention under Gaussian or Gumbel noise; what needs transforms or draws says so."""

import numpy as np

from calcli.binning import width_edges
from calcli.calibrator import Prediction
from calcli.errors import UsageError
from calcli.export.calibrator_graph import lower
from calcli.export.functions import nudged, search, take
from calcli.export.graph import Operand
from calcli.kernels.numpy.hoki_retention import CELLS_PER_FOLD, DEGREE, gap_table
from calcli.methods._binary.log_odds import top_log_odds
from calcli.methods._binary.vectors import logs, share_rest
from calcli.methods._hoki.rounds import SLACK
from calcli.methods.hoki import Hoki
from calcli.methods.recal import ReCal
from calcli.numerics import FloatArray, sigmoid
from calcli.rows import Block

BY_TRANSFORMS = "reads the scores of the same rows under transforms of the input, which a serving graph does not see"


@lower.register
def recal(calibrator: ReCal, block: Block) -> Prediction:
    raise UsageError(f"recal {BY_TRANSFORMS}; export ts or ft instead")


@lower.register
def hoki(calibrator: Hoki, block: Block) -> Prediction:
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
    z: Operand = block.z
    label = block.prediction
    z.graph.jumps = True
    gamma = (gaussian if calibrator.noise == "gaussian" else gumbel)(z, calibrator.scale)
    if calibrator.init == "accuracy":
        start = np.full_like(gamma, calibrator.accuracy)
    else:
        start = sigmoid(top_log_odds(z, label))
    q = start
    for alpha, beta in zip(calibrator.alpha, calibrator.beta, strict=True):
        q = follow(q, gamma, alpha, beta)
    return Prediction(share_rest(z, label, *logs(q)), label)


def follow(q: Operand, gamma: Operand, alpha: FloatArray, beta: FloatArray) -> Operand:
    """``rounds.follow``: the line of each row's bin; an empty bin leaves the row as it is."""
    empty = np.isnan(alpha)
    tables = np.stack([np.where(empty, 0.0, alpha), np.where(empty, 0.0, beta), empty.astype(np.float64)])
    found, size = search(nudged(q - SLACK, 1), [width_edges(len(alpha))[1:-1]], closed=False)
    if found is None:
        a, b, none = (table[None, :] for table in tables)
        line = np.clip(gamma * (a - b) + b, 0.0, 1.0)
        return q if none.any() else line
    a, b, none = (take(np.pad(table, (0, size - len(alpha))), found) for table in tables)
    return np.where(none > 0.5, q, np.clip((a - b) * gamma + b, 0.0, 1.0))


def gaps(z: Operand) -> tuple[Operand, Operand]:
    """How far each class lies below the largest of its row, and whether it is that, (rows, k)."""
    top = z.argmax(axis=1)
    return z[np.arange(len(z)), top][:, None] - z, top[:, None] == np.arange(z.width)


def gumbel(z: Operand, scale: float) -> Operand:
    """``hoki_retention.gumbel_retention``."""
    d, is_top = gaps(z)
    closeness = np.where(is_top, 0.0, np.exp(d / -scale))
    return 1.0 / (closeness.sum(axis=1) + 1.0)


def gaussian(z: Operand, scale: float) -> Operand:
    """``hoki_retention.gaussian_retention``: power sums of the gaps within the cells of a grid, times one table."""
    table = gap_table((scale,), z.width)
    d, is_top = gaps(z)
    d = np.where(is_top, 2.0 * table.far, d)
    place = np.log(np.minimum(d, table.far) / table.knee + 1.0) * CELLS_PER_FOLD
    cell = np.where(d >= table.far, float(table.cells), place.astype(np.int64))
    t = (place - cell) * 2.0 - 1.0
    op = z.graph.op
    member = op("float", op("equal", op("whole", op("expand", cell)), np.arange(table.cells)[None, None, :]))
    coefficients = table.per_scale[0].reshape(table.cells, DEGREE + 1, -1)
    power, total = np.ones_like(t), table.log_weight
    for degree in range(DEGREE + 1):
        sums = op("squeeze", op("row_sum", op("swap", op("mul", member, op("expand", power)))))
        total = total + sums @ np.ascontiguousarray(coefficients[:, degree])
        power = power * t
    return np.minimum(np.exp(total).sum(axis=1), 1.0)
