"""Intra-order-preserving maps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from msgspec import Meta

from calcli.block import Block
from calcli.calibrator import Calibrator, Context, Fit, Laws, Options, Prediction, param
from calcli.errors import DataError
from calcli.folds import content_folds, content_order
from calcli.free_memory import check_memory
from calcli.methods._monotone import (
    check_map,
    ended,
    evaluate,
    minimise_map,
    pull_together,
)
from calcli.methods._temperature import LaterPrior, Mixing, sharpening
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import (
    FloatArray,
    IntArray,
    in_column,
    log_softmax,
    mixed_with_uniform,
    row_max,
    row_weights,
)
from calcli.rows import Rows, rows_per_block
from calcli.solvers import Quadratic

# ---- order-preserving networks: positive weights on the gaps between sorted logits,
# summed and put back in the order of classes. Equal logits stay equal and every rank is
# kept, whatever the weights.


class Net(NamedTuple):
    """Two hidden layers (ReLU) and an output per gap: x -> h -> h -> softplus."""

    w1: FloatArray
    b1: FloatArray
    w2: FloatArray
    b2: FloatArray
    w3: FloatArray
    b3: FloatArray


def initial_net(k: int, hidden: int, scale: float, rng: np.random.Generator) -> Net:
    """Draw random hidden layers; the outputs start at ``scale`` = 1/T.

    That is temperature scaling.
    """

    def layer(n_in: int, n_out: int) -> FloatArray:
        return rng.uniform(-1.0, 1.0, (n_in, n_out)) / np.sqrt(n_in)

    bias = scale + np.log(-np.expm1(-scale))  # softplus(bias) = scale
    return Net(
        w1=layer(k, hidden),
        b1=np.zeros(hidden),
        w2=layer(hidden, hidden),
        b2=np.zeros(hidden),
        w3=np.zeros((hidden, k - 1)),
        b3=np.full(k - 1, bias),
    )


def gap_weights(
    x: FloatArray, net: Net
) -> tuple[FloatArray, tuple[FloatArray, FloatArray, FloatArray]]:
    """Compute positive weights (n, k-1) for standardised inputs x (n, k).

    Also the hidden layers and d weights / d outputs.
    """
    h1 = np.maximum(x @ net.w1 + net.b1, 0.0)
    h2 = np.maximum(h1 @ net.w2 + net.b2, 0.0)
    a = h2 @ net.w3 + net.b3
    tail = np.exp(-np.abs(a))
    weights = np.maximum(a, 0.0) + np.log1p(tail)
    rise = np.where(a >= 0, 1.0, tail) / (1.0 + tail)
    return weights, (h1, h2, rise)


def climb(gaps: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum gaps times weights (n, k-1) to sorted output logits (n, k).

    The sums run from the last, which is 0.
    """
    out = np.zeros((len(gaps), gaps.shape[1] + 1))
    out[:, :-1] = (gaps * weights)[:, ::-1].cumsum(axis=1)[:, ::-1]
    return out


def loss_and_gradient(
    net: Net, x: FloatArray, gaps: FloatArray, rank: IntArray, weight: FloatArray
) -> tuple[float, Net]:
    """Weighted mean NLL and its gradient by back-propagation.

    x : (n, k) standardised inputs; gaps : (n, k-1); rank : (n,) index of the label in
    the sorted row; weight : (n,) with sum 1.
    """
    m, (h1, h2, rise) = gap_weights(x, net)
    log_p = log_softmax(climb(gaps, m))
    here = np.arange(len(x))
    d_out = np.exp(log_p)
    d_out[here, rank] -= 1.0
    d_out *= weight[:, None]
    # out_(j) sums the products from j on, so the gradient of product j sums the slopes
    # up to j.
    d_a = np.cumsum(d_out, axis=1)[:, :-1] * gaps * rise
    d_h2 = (d_a @ net.w3.T) * (h2 > 0)
    d_h1 = (d_h2 @ net.w2.T) * (h1 > 0)
    gradient = Net(
        w1=x.T @ d_h1,
        b1=d_h1.sum(axis=0),
        w2=h1.T @ d_h2,
        b2=d_h2.sum(axis=0),
        w3=h2.T @ d_a,
        b3=d_a.sum(axis=0),
    )
    return -float(weight @ log_p[here, rank]), gradient


class TrainingRows:
    """Training rows of the networks, sorted once.

    Logits keep the precision of the source, logarithms of probabilities are float64.
    The rows lie in an order that their contents decide, so that mini-batches do not
    depend on the order of the source. center, spread : mean and standard deviation of
    all logits, by which inputs are standardised. fold : (n,) fold of each row.
    """

    def __init__(
        self, rows: Rows, folds: int, seed: int, *, sorted_input: bool
    ) -> None:
        self.n = rows.n
        self.k = rows.k
        source = content_order(rows, seed)
        place = np.empty(rows.n, dtype=np.int64)
        place[source] = np.arange(rows.n)
        logarithms = rows.kind == "probs"
        dtype = next(iter(rows.blocks())).scores.dtype
        if logarithms:
            dtype = np.dtype(np.float64)
        check_memory(
            rows.n * rows.k * dtype.itemsize, f"{rows.n} x {rows.k} sorted scores"
        )
        self.ranked = np.empty((rows.n, rows.k), dtype=dtype)
        self.rank = np.empty(rows.n, dtype=np.int64)
        total = square = 0.0
        for block in rows.blocks():
            places = place[block.span]
            order = np.argsort(-block.scores, axis=1, kind="stable")
            values = block.z if logarithms else block.scores
            self.ranked[places] = np.take_along_axis(values, order, axis=1)
            self.rank[places] = (order == block.labels[:, None]).argmax(axis=1)
            total += float(block.z.sum())
            square += float(np.square(block.z).sum())
        self.center = total / (rows.n * rows.k)
        variance = max(0.0, square / (rows.n * rows.k) - self.center**2)
        self.spread = float(np.sqrt(variance)) or 1.0
        self.inputs = self.ranked
        if not sorted_input:
            inputs = rows.logits() if logarithms else rows.array()
            self.inputs = inputs[source]
        self.weight = row_weights(rows.weights(), rows.n)[source]
        self.fold = np.zeros(rows.n, dtype=np.int64)
        if folds > 1:
            self.fold = content_folds(rows, folds, seed)[source]

    def part(
        self, index: IntArray
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
        """Collect what a training step needs of some rows.

        Standardised inputs (b, k), gaps (b, k-1), ranks of the labels (b,) and weights
        (b,).
        """
        ranked = self.ranked[index].astype(np.float64, copy=False)
        inputs = self.inputs[index].astype(np.float64, copy=False)
        x = (inputs - self.center) / self.spread
        return x, ranked[:, :-1] - ranked[:, 1:], self.rank[index], self.weight[index]

    def nll(self, net: Net, index: IntArray) -> float:
        """Mean NLL of a network on some rows."""
        total = mass = 0.0
        step = rows_per_block(self.k)
        for start in range(0, len(index), step):
            x, gaps, rank, weight = self.part(index[start : start + step])
            log_p = log_softmax(climb(gaps, gap_weights(x, net)[0]))
            total -= float(weight @ in_column(log_p, rank))
            mass += float(weight.sum())
        return total / max(mass, 1e-300)


def train_folds(
    rows: TrainingRows,
    scale: float,
    options: Any,
    rng: np.random.Generator,
    progress: Callable[[int, int], None],
) -> tuple[list[Net], list[float], list[int]]:
    """Train one network per fold by Adam on mini-batches.

    The epoch with the least NLL on the held-out fold is kept. Epoch 0 is temperature
    scaling with 1/T = ``scale``. Returns networks, held-out NLLs, epochs. With too few
    rows for folds there is one network, chosen on its own rows.
    """
    n_folds = int(rows.fold.max()) + 1
    all_epochs = n_folds * options.epochs
    nets = []
    values = []
    epochs = []
    for fold in range(n_folds):
        held_out = np.flatnonzero(rows.fold == fold)
        train = held_out
        if n_folds > 1:
            train = np.setdiff1d(np.arange(rows.n), held_out)
        net = initial_net(rows.k, options.hidden, scale, rng)
        best = (rows.nll(net, held_out), 0, net)
        adam = Adam(net, options.rate, options.decay)
        for epoch in range(1, options.epochs + 1):
            progress(fold * options.epochs + epoch, all_epochs)
            order = rng.permutation(train)
            for start in range(0, len(order), options.batch):
                batch = order[start : start + options.batch]
                x, gaps, rank, weight = rows.part(batch)
                total = weight.sum()
                if total > 0:
                    _, gradient = loss_and_gradient(net, x, gaps, rank, weight / total)
                    net = adam.step(net, gradient)
            best = min(best, (rows.nll(net, held_out), epoch, net))
        values.append(best[0])
        epochs.append(best[1])
        nets.append(best[2])
    return nets, values, epochs


class Adam:
    """Adam with an L2 penalty in the gradient (Kingma and Ba 2015, algorithm 1)."""

    def __init__(self, net: Net, rate: float, decay: float) -> None:
        self.rate = rate
        self.decay = decay
        self.steps = 0
        self.moments = [(np.zeros_like(w), np.zeros_like(w)) for w in net]

    def step(self, net: Net, gradient: Net) -> Net:
        """The network after one step."""
        self.steps += 1
        moved = []
        for w, slope, (first, second) in zip(net, gradient, self.moments, strict=True):
            g = slope + self.decay * w
            # moving averages of the gradient and of its square
            first += 0.1 * (g - first)
            second += 0.001 * (g * g - second)
            mean = first / (1 - 0.9**self.steps)
            square = second / (1 - 0.999**self.steps)
            moved.append(w - self.rate * mean / (np.sqrt(square) + 1e-8))
        return Net(*moved)


def mapped_logits(
    z: FloatArray, nets: list[Net], center: float, spread: float, *, sorted_input: bool
) -> FloatArray:
    """Compute the mean logits of the networks, (n, k).

    Their inputs are (z - center) / spread, sorted if ``sorted_input``.
    """
    order = np.argsort(-z, axis=1, kind="stable")
    ranked = np.take_along_axis(z, order, axis=1)
    inputs = ranked if sorted_input else z
    x = (inputs - center) / spread
    gaps = ranked[:, :-1] - ranked[:, 1:]
    total = np.zeros_like(gaps)
    for net in nets:
        total = total + gap_weights(x, net)[0]
    weights = total / len(nets)
    out = np.empty_like(z)
    # Mean logits of the networks are logits of the mean weights: the map is linear in
    # them.
    np.put_along_axis(out, order, climb(gaps, weights), axis=1)
    return out


SLOPES = {"low": 0.01, "high": 100.0}
REACH = 20.0


class IntraOrderPreservingOptions(Options, frozen=True):
    variant: Annotated[
        Literal["diag", "oi", "op"],
        Meta(
            description=(
                "one curve for all logits, or a network on the sorted (oi) or plain"
                " (op) logits"
            )
        ),
    ] = "diag"
    knots: Annotated[
        int, Meta(ge=2, le=1000, description="diag: knots of the curve")
    ] = 16
    prior: LaterPrior = 0.0
    hidden: Annotated[
        int,
        Meta(
            ge=1, le=1000, description="oi, op: units in each of the two hidden layers"
        ),
    ] = 50
    epochs: Annotated[
        int, Meta(ge=1, le=10_000, description="oi, op: passes over the training folds")
    ] = 40
    folds: Annotated[
        int, Meta(ge=2, le=50, description="oi, op: held-out folds, one network each")
    ] = 5
    rate: Annotated[
        float, Meta(gt=0, le=1, description="oi, op: step size of Adam")
    ] = 5e-3
    decay: Annotated[float, Meta(ge=0, description="oi, op: weight decay")] = 5e-4
    batch: Annotated[int, Meta(ge=1, description="oi, op: rows in a batch")] = 256
    mixture: Mixing = False


@dataclass(frozen=True)
class IntraOrderPreserving(Calibrator):
    """Map the logits by a function that never changes their order within a row.

    ``diag``: p = softmax(g(z_1), ..., g(z_C)), one increasing curve g, piecewise linear
    with evenly spaced knots over the logits at most 20 nats below their row's largest,
    slopes in [0.01, 100]. The NLL is convex in the slopes; we add 1/n sum (s_{j+1} -
    s_j)^2, zero at the identity, and find the one minimum by projected Newton steps.
    The authors integrate a positive network by quadrature: the same functions up to
    resolution.

    ``oi``, ``op``: out_(C) = 0, out_(j) = out_(j+1) + m_j (z_(j) - z_(j+1)) over the
    sorted logits, weights m = softplus(network), which sees the sorted logits
    (order-invariant) or the logits by class (order-preserving). One network per
    held-out fold, its best epoch by NLL on that fold (epoch 0 is temperature scaling),
    logits averaged. The authors choose the epoch anew for each metric they report; we
    choose once. Inputs are standardised by one mean and one deviation. Relabelling
    classes commutes with ``diag`` and ``oi``, not with ``op``.

    All variants read the raw logits: a constant added to a row is not without effect.
    The curve streams; the networks hold the sorted scores (op: and the scores) in
    memory.

    ``mixture`` mixes in 1/(n+1) of the uniform distribution (``uniform``) after the
    fit.

    Reference: Rahimi, Shaban, Cheng, Hartley, Boots (2020), "Intra order-preserving
    functions for calibration of multi-class neural networks" (arXiv 2003.06820).
    """

    variant: str = param(within="diag|oi|op")
    edges: FloatArray | None = param("edges", optional=True, within="rising")
    slopes: FloatArray | None = param("segments", within="positive", optional=True)
    center: float | None = param(optional=True)
    spread: float | None = param(optional=True, within="positive")
    w1: FloatArray | None = param("folds", "k", "hidden", optional=True)
    b1: FloatArray | None = param("folds", "hidden", optional=True)
    w2: FloatArray | None = param("folds", "hidden", "hidden", optional=True)
    b2: FloatArray | None = param("folds", "hidden", optional=True)
    w3: FloatArray | None = param("folds", "hidden", "gaps", optional=True)
    b3: FloatArray | None = param("folds", "gaps", optional=True)
    uniform: float = param(default=0.0, within="share")

    list_order = 25
    aliases = ("intra-order-preserving",)
    use = "when nothing may change the order of the classes in a row"
    title = "intra-order-preserving map"
    Options = IntraOrderPreservingOptions
    laws = Laws(
        keeps_argmax=True,
        monotone=True,
        equivariant=True,
        improves_nll=True,
        weights=True,
        memory="stream",
    )

    @classmethod
    def fit(
        cls, rows: Rows, options: IntraOrderPreservingOptions, context: Context
    ) -> Fit[Self]:
        if options.variant == "diag":
            fit = cls._fit_curve(rows, options.knots, options.prior, context)
        else:
            fit = cls._fit_networks(rows, options, context)
        uniform = rows.share_of_one_more if options.mixture else 0.0
        return replace(fit, calibrator=replace(fit.calibrator, uniform=uniform))

    @classmethod
    def _fit_curve(
        cls, rows: Rows, knots: int, prior: float, context: Context
    ) -> Fit[Self]:
        edges = np.linspace(*logit_range(rows), knots + 2)[1:-1]

        def loss(
            nll: Quadratic, n: float, slopes: FloatArray
        ) -> tuple[float, FloatArray, FloatArray]:
            """The NLL, the pull of neighbours towards each other, and the prior."""
            value, gradient, hessian = nll(slopes)
            penalty, pull, stiffness = pull_together(slopes, 1.0 / n)
            mean_log_slope = float(np.log(slopes).mean())
            cost, push, curvature = sharpening(mean_log_slope, prior, n)
            # derivative of the mean log slope in every slope
            rise = 1.0 / (len(slopes) * slopes)
            penalty = penalty + cost
            pull = pull + push * rise
            stiffness = (
                stiffness
                + curvature * np.outer(rise, rise)
                - push * np.diag(rise / slopes)
            )
            return value + penalty, gradient + pull, hessian + stiffness

        begin = np.ones(knots + 1)
        near_slopes = getattr(context.start, "slopes", None)
        if near_slopes is not None and len(near_slopes) == len(begin):
            begin = near_slopes
        minimum = minimise_map(rows, edges, np.asarray, loss, begin, context, SLOPES)
        no_networks: list[Any] = [None] * 8  # center, spread and the six layers
        fitted = cls("diag", edges, minimum.x, *no_networks)
        return ended(fitted, minimum, SLOPES)

    @classmethod
    def _fit_networks(
        cls, rows: Rows, options: IntraOrderPreservingOptions, context: Context
    ) -> Fit[Self]:
        first = TemperatureScaling.fit(
            rows, TemperatureOptions(prior=options.prior), context
        )
        temperature = first.calibrator.temperature
        warnings = list(first.warnings)
        folds = min(options.folds, rows.n // 2) if rows.n >= 4 else 1
        training = TrainingRows(
            rows, folds, context.seed, sorted_input=options.variant == "oi"
        )
        progress = partial(context.progress, "training networks")
        nets, held_out, epochs = train_folds(
            training, 1.0 / temperature, options, context.rng(), progress
        )
        stacked: list[Any] = [np.stack(layers) for layers in zip(*nets, strict=True)]
        fitted = cls(
            options.variant, None, None, training.center, training.spread, *stacked
        )
        size = sum(w.size for w in nets[0])
        if size > rows.n:
            safer = (
                "the held-out epochs guard it, but variant=diag or ts are safer with"
                " so few rows"
            )
            warnings.append(
                f"each network has {size} weights for {rows.n} rows; {safer}"
            )
        details = {
            "held_out_nll": held_out,
            "epochs": epochs,
            "temperature": temperature,
        }
        return Fit(fitted, first.status, tuple(warnings), details)

    def apply(self, block: Block) -> Prediction:
        if self.edges is not None and self.slopes is not None:
            mapped = evaluate(block.z, self.edges, self.slopes)
        else:
            assert self.center is not None and self.spread is not None
            mapped = mapped_logits(
                block.z,
                self.nets,
                self.center,
                self.spread,
                sorted_input=self.variant == "oi",
            )
        return Prediction(
            mixed_with_uniform(log_softmax(mapped), self.uniform), block.prediction
        )

    @property
    def nets(self) -> list[Net]:
        """The network of every fold."""
        stored = (self.w1, self.b1, self.w2, self.b2, self.w3, self.b3)
        layers = [layer for layer in stored if layer is not None]
        return [Net(*fold) for fold in zip(*layers, strict=True)]

    def check_own(self, k: int) -> None:
        layers = (
            self.center,
            self.spread,
            self.w1,
            self.b1,
            self.w2,
            self.b2,
            self.w3,
            self.b3,
        )
        if self.variant == "diag":
            if self.edges is None or self.slopes is None:
                raise DataError("variant is 'diag', expected edges and slopes")
            check_map(self.edges, self.slopes)
        elif self.w3 is None or any(w is None for w in layers):
            raise DataError(
                f"variant is {self.variant!r}, expected center, spread and the layers"
                " w1 .. b3"
            )
        elif self.w3.shape[2] != k - 1:
            raise DataError(
                f"w3 gives {self.w3.shape[2]} weights, expected one per gap: {k - 1}"
            )


def logit_range(rows: Rows) -> tuple[float, float]:
    """Find the least and largest of the logits that matter.

    These are at most 20 nats below their row's largest.
    """
    ranges = list(rows.each(_range))
    low = min(low for low, _ in ranges)
    high = max(high for _, high in ranges)
    if not high - low > 1e-9 * max(1.0, abs(low), abs(high)):
        # All logits are equal: any curve will do.
        width = max(1.0, abs(high))
        return low - width, high + width
    return low, high


def _range(block: Block) -> tuple[float, float]:
    z = block.z
    top = row_max(z)[:, None]
    return float(z.min(where=z >= top - REACH, initial=np.inf)), float(top.max())
