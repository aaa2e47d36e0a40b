"""Order-preserving networks: softplus weights on the gaps between sorted logits. NumPy only.

A row is sorted, z_(1) >= ... >= z_(k). A small network looks at the row and gives one
positive weight m_j per gap u_j = z_(j) - z_(j+1); the new logits are out_(k) = 0 and
out_(j) = out_(j+1) + u_j m_j, put back in place. Equal logits stay equal and every rank
is kept, whatever the weights.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calcli.free_memory import check_memory
from calcli.numerics import FloatArray, IntArray, log_softmax
from calcli.rows import Rows, rows_per_block, to_logits


class Net(NamedTuple):
    """Two hidden layers (ReLU) and an output per gap: x -> h -> h -> softplus."""

    w1: FloatArray
    b1: FloatArray
    w2: FloatArray
    b2: FloatArray
    w3: FloatArray
    b3: FloatArray


class TrainingPlan(NamedTuple):
    """How the networks are trained (Adam with weight decay, mini-batches, held-out folds)."""

    hidden: int
    epochs: int
    folds: int
    rate: float
    decay: float
    batch: int


def initial_net(k: int, hidden: int, scale: float, rng: np.random.Generator) -> Net:
    """Random hidden layers; the outputs start at ``scale`` = 1/T, i.e. at temperature scaling."""

    def layer(n_in: int, n_out: int) -> FloatArray:
        return rng.uniform(-1.0, 1.0, (n_in, n_out)) / np.sqrt(n_in)

    bias = scale + np.log(-np.expm1(-scale))  # softplus(bias) = scale
    return Net(
        layer(k, hidden),
        np.zeros(hidden),
        layer(hidden, hidden),
        np.zeros(hidden),
        np.zeros((hidden, k - 1)),
        np.full(k - 1, bias),
    )


def gap_weights(x: FloatArray, net: Net) -> tuple[FloatArray, tuple[FloatArray, FloatArray, FloatArray]]:
    """Positive weights (n, k-1) for standardised inputs x (n, k), and the hidden layers and d weights / d outputs."""
    h1 = np.maximum(x @ net.w1 + net.b1, 0.0)
    h2 = np.maximum(h1 @ net.w2 + net.b2, 0.0)
    a = h2 @ net.w3 + net.b3
    tail = np.exp(-np.abs(a))
    return np.maximum(a, 0.0) + np.log1p(tail), (h1, h2, np.where(a >= 0, 1.0, tail) / (1.0 + tail))


def climb(gaps: FloatArray, weights: FloatArray) -> FloatArray:
    """Sorted output logits (n, k) from gaps and weights (n, k-1); the last is 0."""
    out = np.zeros((len(gaps), gaps.shape[1] + 1))
    out[:, :-1] = (gaps * weights)[:, ::-1].cumsum(axis=1)[:, ::-1]
    return out


def loss_and_gradient(
    net: Net, x: FloatArray, gaps: FloatArray, rank: IntArray, weight: FloatArray
) -> tuple[float, Net]:
    """Weighted mean NLL and its gradient by back-propagation.

    x : (n, k) standardised inputs; gaps : (n, k-1); rank : (n,) place of the label in the
    sorted row; weight : (n,) with sum 1.
    """
    m, (h1, h2, rise) = gap_weights(x, net)
    log_p = log_softmax(climb(gaps, m))
    here = np.arange(len(x))
    d_out = np.exp(log_p)
    d_out[here, rank] -= 1.0
    d_out *= weight[:, None]
    # out_(j) holds every product from j on, so a product collects the slopes up to its place.
    d_a = np.cumsum(d_out, axis=1)[:, :-1] * gaps * rise
    d_h2 = (d_a @ net.w3.T) * (h2 > 0)
    d_h1 = (d_h2 @ net.w2.T) * (h1 > 0)
    gradient = Net(x.T @ d_h1, d_h1.sum(axis=0), h1.T @ d_h2, d_h2.sum(axis=0), h2.T @ d_a, d_a.sum(axis=0))
    return -float(weight @ log_p[here, rank]), gradient


class TrainingRows:
    """Rows as the networks are trained on them: sorted once, in the precision of the source.

    center, spread : mean and standard deviation of all logits, by which inputs are standardised.
    """

    def __init__(self, rows: Rows, *, sorted_input: bool) -> None:
        self.n, self.k, self.kind = rows.n, rows.k, rows.kind
        first = next(iter(rows.blocks())).scores
        check_memory(rows.n * rows.k * first.itemsize, f"{rows.n} x {rows.k} sorted scores")
        self.ranked = np.empty((rows.n, rows.k), dtype=first.dtype)
        self.rank = np.empty(rows.n, dtype=np.int64)
        total = square = 0.0
        for block in rows.blocks():
            to = slice(block.start, block.start + len(block))
            order = np.argsort(-block.scores, axis=1, kind="stable")
            self.ranked[to] = np.take_along_axis(block.scores, order, axis=1)
            self.rank[to] = (order == block.labels[:, None]).argmax(axis=1)
            total += float(block.z.sum())
            square += float(np.square(block.z).sum())
        self.center = total / (rows.n * rows.k)
        self.spread = float(np.sqrt(max(0.0, square / (rows.n * rows.k) - self.center**2))) or 1.0
        self.inputs = self.ranked if sorted_input else rows.array()
        weight = rows.weights()
        self.weight = np.ones(rows.n) if weight is None else weight

    def part(self, index: IntArray) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
        """Standardised inputs (b, k), gaps (b, k-1), places of the labels (b,) and weights (b,)."""
        ranked = to_logits(self.ranked[index], self.kind)
        x = (to_logits(self.inputs[index], self.kind) - self.center) / self.spread
        return x, ranked[:, :-1] - ranked[:, 1:], self.rank[index], self.weight[index]

    def nll(self, net: Net, index: IntArray) -> float:
        """Mean NLL of a network on some rows."""
        total = mass = 0.0
        step = rows_per_block(self.k)
        for at in range(0, len(index), step):
            x, gaps, rank, weight = self.part(index[at : at + step])
            log_p = log_softmax(climb(gaps, gap_weights(x, net)[0]))
            total -= float(weight @ log_p[np.arange(len(x)), rank])
            mass += float(weight.sum())
        return total / max(mass, 1e-300)


def train_folds(
    rows: TrainingRows,
    scale: float,
    plan: TrainingPlan,
    rng: np.random.Generator,
    progress: Callable[[int, int], None],
) -> tuple[list[Net], list[float], list[int]]:
    """One network per fold, each the epoch with the least NLL on its held-out fold.

    Epoch 0, temperature scaling with 1/T = ``scale``, takes part. Returns networks,
    held-out NLLs, epochs. With too few rows for folds there is one network, chosen on its
    own rows.
    """
    folds = min(plan.folds, rows.n // 2) if rows.n >= 4 else 1
    parts = np.array_split(rng.permutation(rows.n), folds)
    nets, values, epochs = [], [], []
    for fold, held in enumerate(parts):
        learn = np.setdiff1d(np.arange(rows.n), held) if folds > 1 else held
        net = best = initial_net(rows.k, plan.hidden, scale, rng)
        least, when, adam = rows.nll(net, held), 0, Adam(plan.rate, plan.decay)
        for epoch in range(1, plan.epochs + 1):
            progress(fold * plan.epochs + epoch, folds * plan.epochs)
            order = rng.permutation(learn)
            for at in range(0, len(order), plan.batch):
                x, gaps, rank, weight = rows.part(order[at : at + plan.batch])
                total = weight.sum()
                if total > 0:
                    _, gradient = loss_and_gradient(net, x, gaps, rank, weight / total)
                    net = adam.step(net, gradient)
            value = rows.nll(net, held)
            if value < least:
                best, least, when = net, value, epoch
        nets.append(best)
        values.append(least)
        epochs.append(when)
    return nets, values, epochs


class Adam:
    """Adam with an L2 penalty in the gradient (Kingma and Ba 2015, algorithm 1)."""

    def __init__(self, rate: float, decay: float) -> None:
        self.rate, self.decay, self.steps = rate, decay, 0
        self.first: list[FloatArray] = []
        self.second: list[FloatArray] = []

    def step(self, net: Net, gradient: Net) -> Net:
        """The network after one step."""
        if not self.first:
            self.first = [np.zeros_like(w) for w in net]
            self.second = [np.zeros_like(w) for w in net]
        self.steps += 1
        moved = []
        for i, (w, slope) in enumerate(zip(net, gradient, strict=True)):
            g = slope + self.decay * w
            self.first[i] += 0.1 * (g - self.first[i])
            self.second[i] += 0.001 * (g * g - self.second[i])
            mean = self.first[i] / (1 - 0.9**self.steps)
            square = self.second[i] / (1 - 0.999**self.steps)
            moved.append(w - self.rate * mean / (np.sqrt(square) + 1e-8))
        return Net(*moved)


def mapped_logits(z: FloatArray, nets: list[Net], center: float, spread: float, *, sorted_input: bool) -> FloatArray:
    """Logits of the mean of the networks, (n, k), in the classes' own order.

    z : (n, k). The networks see (z - center) / spread, sorted if ``sorted_input``.
    """
    order = np.argsort(-z, axis=1, kind="stable")
    ranked = np.take_along_axis(z, order, axis=1)
    x = ((ranked if sorted_input else z) - center) / spread
    gaps = ranked[:, :-1] - ranked[:, 1:]
    weights = sum((gap_weights(x, net)[0] for net in nets), np.zeros_like(gaps)) / len(nets)
    out = np.empty_like(z)
    # Mean logits of the networks are logits of the mean weights: the map is linear in them.
    np.put_along_axis(out, order, climb(gaps, weights), axis=1)
    return out
