"""Trace a fitted calibrator: its ``apply`` is run on graph values; few methods need a
version of their own.
"""

from collections.abc import Mapping, Sequence
from functools import reduce, singledispatch

import numpy as np

from calcli.binning import width_edges
from calcli.block import Block, Codes
from calcli.calibrator import Calibrator, Prediction
from calcli.composition import Composition
from calcli.errors import UsageError
from calcli.exporting.graph import Graph, Operand
from calcli.exporting.isotonic_and_binning import curve, nudged, search
from calcli.io.artifact import Artifact
from calcli.kernels.numpy.hoki_retention import CELLS_PER_FOLD, DEGREE, gap_table
from calcli.mapped_rows import argmax_at_prediction
from calcli.methods._binary import maps as binary
from calcli.methods._binary.log_odds import top_log_odds
from calcli.methods._binary.marginals import logs, normalize, share_rest
from calcli.methods._hoki.rounds import SLACK
from calcli.methods.hoki import Hoki
from calcli.methods.iop import IntraOrderPreserving
from calcli.methods.keep import Keep
from calcli.methods.recal import ReCal
from calcli.mixture import Mixture
from calcli.numerics import (
    LEAD,
    FloatArray,
    entries,
    in_column,
    log_softmax,
    mixed_with_uniform,
    sigmoid,
)


@singledispatch
def lower(calibrator: Calibrator, block: Block) -> Prediction:
    """Log-probabilities and prediction of traced rows.

    Raises UsageError for methods that no graph can express.
    """
    return calibrator.apply(block)


@lower.register
def composition(calibrator: Composition, block: Block) -> Prediction:
    first, *others = calibrator.stages
    done = lower(first.calibrator, block)
    for stage in others:
        seen = block.calibrated(argmax_at_prediction(done))
        done = lower(stage.calibrator, seen)
    return done


@lower.register
def mixture(calibrator: Mixture, block: Block) -> Prediction:
    parts = []
    for member in calibrator.members:
        log_p = lower(member.calibrator, block).log_probs
        parts.append(log_p + np.log(member.weight))
    log_p = mixed_with_uniform(reduce(np.logaddexp, parts), calibrator.uniform)
    label = block.prediction
    if not calibrator.members_keep_argmax:
        label = log_p.argmax(axis=1)
    done = Prediction(log_p, label)
    for stage in calibrator.then:
        block = block.calibrated(argmax_at_prediction(done))
        done = lower(stage.calibrator, block)
    return done


@lower.register
def keep(calibrator: Keep, block: Block) -> Prediction:
    """``numerics.kept_on_top`` of all rows, where ``apply`` takes only those that it
    moves.
    """
    label = block.original_prediction
    log_p: Operand = log_softmax(block.z)
    k = log_p.width
    op = log_p.graph.op
    is_label = label[:, None] == np.arange(k)
    of_label = in_column(log_p, label)
    others = np.where(is_label, 0.0, np.exp(log_p))
    ascending = op("descending", -others, dtype=np.int64)
    # the m largest others are the last m, and their sum is a sum from the right
    sums = op("sum_from_right", np.take_along_axis(others, ascending, axis=1))
    means = (sums + np.exp(of_label)[:, None]) / np.arange(k + 1, 1, -1)
    pooled = np.maximum(means.max(axis=1), np.exp(of_label))
    # log_p is at most 0: far below all others, the label's own entry is none of them
    capped = np.minimum(log_p, np.log(pooled)[:, None])
    largest = np.where(is_label, -1e30, capped).max(axis=1)
    lead = np.maximum(of_label, largest + LEAD)
    moved = log_softmax(np.where(is_label, lead[:, None], capped))
    is_moved = of_label < np.where(is_label, -1e30, log_p).max(axis=1) + LEAD
    return Prediction(np.where(is_moved[:, None], moved, log_p), label)


# ---- one-vs-rest maps: all classes are evaluated together, where ``apply`` goes class by class


@lower.register
def one_vs_rest(calibrator: binary.BinaryCalibrator, block: Block) -> Prediction:
    """``BinaryCalibrator.apply`` of all classes together."""
    if len(calibrator.maps) == 1:
        return calibrator.apply(block)
    inputs = calibrator.inputs(calibrator.seen(block))
    return normalize(
        curve(calibrator, inputs, calibrator.maps), block.z, block.prediction
    )


# ---- hoki with the exact retention under Gaussian or Gumbel noise; variants with transforms or draws are refused

BY_TRANSFORMS = (
    "reads the scores of the same rows under transforms of the input,"
    " which a serving graph does not see"
)


@lower.register
def recal(calibrator: ReCal, block: Block) -> Prediction:
    raise UsageError(f"recal {BY_TRANSFORMS}; export ts or ft instead")


@lower.register
def hoki(calibrator: Hoki, block: Block) -> Prediction:
    if calibrator.transforms is not None:
        how = f"mix={calibrator.mix:g}" if calibrator.mix else "noise=transforms"
        raise UsageError(
            f"hoki with {how} {BY_TRANSFORMS}; fit it with noise=gaussian or gumbel"
        )
    if calibrator.samples:
        raise UsageError(
            "hoki with gamma=mc counts recorded draws, which no graph holds; fit it"
            " with gamma=exact"
        )
    if calibrator.noise == "uniform":
        kinks = "integrates a product with a kink at every class's gap"
        never = "which a graph of a fixed length cannot do to 1e-6"
        raise UsageError(
            f"hoki with noise=uniform {kinks}, {never}; fit it with noise=gaussian or"
            " gumbel"
        )
    z: Operand = block.z
    label = block.prediction
    z.graph.jumps = True
    distribution = gaussian if calibrator.noise == "gaussian" else gumbel
    gamma = distribution(z, calibrator.scale)
    if calibrator.init == "accuracy":
        q = np.full_like(gamma, calibrator.accuracy)
    else:
        q = sigmoid(top_log_odds(z, label, block.stored_zeros))
    for alpha, beta in zip(calibrator.alpha, calibrator.beta, strict=True):
        q = follow(q, gamma, alpha, beta)
    return Prediction(share_rest(z, label, *logs(q)), label)


def follow(q: Operand, gamma: Operand, alpha: FloatArray, beta: FloatArray) -> Operand:
    """``hoki.follow``: the linear map of each row's bin; rows of an empty bin are
    unchanged.
    """
    empty = np.isnan(alpha)
    tables = np.stack(
        [
            np.where(empty, 0.0, alpha),
            np.where(empty, 0.0, beta),
            empty.astype(np.float64),
        ]
    )
    edges = width_edges(len(alpha))[1:-1]
    bins, size = search(nudged(q - SLACK, 1), [edges], closed=False)
    a, b, none = (
        entries(bins, np.pad(table, (0, size - len(alpha)))) for table in tables
    )
    return np.where(none > 0.5, q, np.clip((a - b) * gamma + b, 0.0, 1.0))


def gaps(z: Operand) -> tuple[Operand, Operand]:
    """Gap of each class to the largest score of its row, and mask of the largest,
    (rows, k).
    """
    top = z.argmax(axis=1)
    return in_column(z, top)[:, None] - z, top[:, None] == np.arange(z.width)


def gumbel(z: Operand, scale: float) -> Operand:
    """``hoki_retention.gumbel_retention``."""
    d, is_top = gaps(z)
    closeness = np.where(is_top, 0.0, np.exp(d / -scale))
    return 1.0 / (closeness.sum(axis=1) + 1.0)


def gaussian(z: Operand, scale: float) -> Operand:
    """``hoki_retention.gaussian_retention``: power sums of the gaps within the cells of
    a grid, times one table.
    """
    table = gap_table((scale,), z.width)
    d, is_top = gaps(z)
    d = np.where(is_top, 2.0 * table.far, d)
    place = np.log(np.minimum(d, table.far) / table.knee + 1.0) * CELLS_PER_FOLD
    cell = np.where(d >= table.far, float(table.cells), place.astype(np.int64))
    t = (place - cell) * 2.0 - 1.0
    op = z.graph.op
    member = op(
        "float",
        op(
            "equal",
            op("whole", op("expand", cell)),
            np.arange(table.cells)[None, None, :],
        ),
    )
    coefficients = table.per_scale[0].reshape(table.cells, DEGREE + 1, -1)
    power = np.ones_like(t)
    total = table.log_weight
    for degree in range(DEGREE + 1):
        sums = op(
            "squeeze",
            op("row_sum", op("swap", op("multiply", member, op("expand", power)))),
        )
        total = total + sums @ np.ascontiguousarray(coefficients[:, degree])
        power = power * t
    return np.minimum(np.exp(total).sum(axis=1), 1.0)


# ---- order-preserving networks, which sort the classes of a row


@lower.register
def intra_order_preserving(
    calibrator: IntraOrderPreserving, block: Block
) -> Prediction:
    """``iop.mapped_logits``; the last class gets a gap of 0, so that all arrays have k
    columns.
    """
    if calibrator.variant == "diag":
        return calibrator.apply(block)
    z: Operand = block.z
    k = z.width
    op = z.graph.op
    order = op("descending", z, dtype=np.int64)
    ranked = np.take_along_axis(z, order, axis=1)
    gaps = ranked - ranked[:, np.minimum(np.arange(1, k + 1), k - 1)]
    assert calibrator.center is not None
    assert calibrator.spread is not None
    scores = ranked if calibrator.variant == "oi" else z
    inputs = (scores - calibrator.center) / calibrator.spread
    nets = calibrator.nets
    total: Operand = 0.0
    for w1, b1, w2, b2, w3, b3 in nets:
        h = np.maximum(np.maximum(inputs @ w1 + b1, 0.0) @ w2 + b2, 0.0)
        a = h @ np.pad(w3, ((0, 0), (0, 1))) + np.append(b3, 0.0)
        total = np.maximum(a, 0.0) + np.log1p(np.exp(-np.abs(a))) + total
    climbed = op("sum_from_right", gaps * (total / len(nets)))
    mapped = np.take_along_axis(
        climbed, op("descending", -order.floats(), dtype=np.int64), axis=1
    )
    return Prediction(
        mixed_with_uniform(log_softmax(mapped), calibrator.uniform), block.prediction
    )


# ---- the graph of an artifact: scores in, probabilities, prediction and confidence out

PAIR = {"logits": ([[0.0, 1.0]], [[0.0, 0.0]]), "probs": ([[-1.0, 1.0]], [[1.0, 0.0]])}
"""Weight and bias that turn a binary model's one score s into two: (0, s) or (1 - s,
s).
"""

UNSEEN = "\0"
"""Name of groups that the fit has not seen, which no real group has."""


def groups_of(artifact: Artifact) -> Mapping[str, Sequence[str]]:
    """Groups of a calibrator by group, under the name of its column: the second input
    is an index into them, any other number a group that the fit has not seen. Raises
    UsageError for a calibrator by several columns.
    """
    columns = artifact.calibrator.required_columns
    if len(columns) > 1:
        raise UsageError(
            "an export has one group as its second input, this calibrator is by"
            f" {' and '.join(columns)}"
        )
    return columns


def trace(
    artifact: Artifact, *, one_column: bool = False, nudge: FloatArray | None = None
) -> Graph:
    """Trace a calibrator. Raises UsageError for a method that no graph can hold.

    one_column : the scores are (rows, 1), a binary model's score of class 1. nudge :
    see ``Graph``.
    """
    graph = Graph(nudge=nudge)
    scores = graph.scores(1 if one_column else artifact.n_classes)
    if one_column:
        if artifact.n_classes != 2 or artifact.input_kind not in PAIR:
            raise UsageError(
                f"one column of scores is not what {artifact.n_classes} classes have"
            )
        weight, bias = PAIR[artifact.input_kind]
        scores = scores @ np.array(weight) + np.array(bias)
    columns = {}
    for column, known in groups_of(artifact).items():
        group = graph.group()
        columns[column] = Codes(
            (*known, UNSEEN),
            np.where((group >= 0) & (group < len(known)), group, len(known)),
        )
    block = Block(0, scores, artifact.input_kind, columns=columns)
    end: Operand = lower(artifact.calibrator, artifact.calibrator.reading(block))
    probs = np.exp(end.log_probs)
    confidence: Operand = np.minimum(in_column(probs, end.label), 1.0)
    graph.outputs = {
        "probs": probs.place,
        "prediction": end.label.place,
        "confidence": confidence.place,
    }
    return graph
