"""Order-preserving networks: softplus weights on the gaps between sorted logits. NumPy only.

A row is sorted, z_(1) >= ... >= z_(k). A small network looks at the row and gives one
positive weight m_j per gap u_j = z_(j) - z_(j+1); the new logits are out_(k) = 0 and
out_(j) = out_(j+1) + u_j m_j, put back in place. Equal logits stay equal and every rank
is kept, whatever the weights.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calcli.numerics import FloatArray, IntArray, log_softmax

__all__ = ["Net", "TrainingPlan", "mapped_logits", "train_folds"]


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


def train_folds(
    x: FloatArray,
    gaps: FloatArray,
    rank: IntArray,
    weight: FloatArray,
    scale: float,
    plan: TrainingPlan,
    rng: np.random.Generator,
    progress: Callable[[int, int], None],
) -> tuple[list[Net], list[float], list[int]]:
    """One network per fold, each the epoch with the least NLL on its held-out fold.

    Epoch 0, temperature scaling, takes part. Returns networks, held-out NLLs, epochs.
    With too few rows for folds there is one network, chosen on its own rows.
    """
    n = len(x)
    folds = min(plan.folds, n // 2) if n >= 4 else 1
    parts = np.array_split(rng.permutation(n), folds)
    nets, values, epochs = [], [], []
    for fold, held in enumerate(parts):
        learn = np.setdiff1d(np.arange(n), held) if folds > 1 else held
        net = best = initial_net(x.shape[1], plan.hidden, scale, rng)
        mass = weight[held].sum()

        def held_out(net: Net, held: IntArray = held, mass: float = mass) -> float:
            log_p = log_softmax(climb(gaps[held], gap_weights(x[held], net)[0]))
            return -float(weight[held] @ log_p[np.arange(len(held)), rank[held]]) / max(mass, 1e-300)

        least, when, adam = held_out(net), 0, Adam(plan.rate, plan.decay)
        for epoch in range(1, plan.epochs + 1):
            progress(fold * plan.epochs + epoch, folds * plan.epochs)
            order = rng.permutation(learn)
            for at in range(0, len(order), plan.batch):
                b = order[at : at + plan.batch]
                total = weight[b].sum()
                if total > 0:
                    _, gradient = loss_and_gradient(net, x[b], gaps[b], rank[b], weight[b] / total)
                    net = adam.step(net, gradient)
            value = held_out(net)
            if value < least:
                best, least, when = net, value, epoch
        nets.append(best)
        values.append(float(least))
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
