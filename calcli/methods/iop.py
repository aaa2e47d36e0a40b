"""Intra-order-preserving maps."""

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from msgspec import Meta

from calcli.calibrator import Calibrator, Context, Fit, Laws, Options, Prediction, param
from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.methods._checks import check_positive, check_uniform
from calcli.methods._iop_net import Net, TrainingPlan, TrainingRows, mapped_logits, train_folds
from calcli.methods._monotone import ALL_AT_BOUND, check_map, evaluate, minimise_map, nll_in_slopes, pull_together
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import FloatArray, log_softmax, mixed_with_uniform, row_max
from calcli.rows import Block, Rows
from calcli.solvers import Quadratic

LOW, HIGH = 0.01, 100.0
REACH = 20.0


class IntraOrderPreservingOptions(Options, frozen=True):
    """Options of the intra-order-preserving maps."""

    variant: Annotated[
        Literal["diag", "oi", "op"],
        Meta(description="one curve for all logits, or a network on the sorted (oi) or plain (op) logits"),
    ] = "diag"
    knots: Annotated[int, Meta(ge=2, le=1000, description="diag: knots of the curve")] = 16
    hidden: Annotated[int, Meta(ge=1, le=1000, description="oi, op: units in each of the two hidden layers")] = 50
    epochs: Annotated[int, Meta(ge=1, le=10_000, description="oi, op: passes over the training folds")] = 40
    folds: Annotated[int, Meta(ge=2, le=50, description="oi, op: held-out folds, one network each")] = 5
    rate: Annotated[float, Meta(gt=0, le=1, description="oi, op: step size of Adam")] = 5e-3
    decay: Annotated[float, Meta(ge=0, description="oi, op: weight decay")] = 5e-4
    batch: Annotated[int, Meta(ge=1, description="oi, op: rows in a batch")] = 256
    mixture: Annotated[
        bool,
        Meta(description="mix in 1/(n+1) of the uniform distribution, so that no row can cost more than log((n+1)C)"),
    ] = False


@dataclass(frozen=True)
class IntraOrderPreserving(Calibrator):
    """Map the logits by a function that never changes their order within a row.

    ``diag``: p = softmax(g(z_1), ..., g(z_C)), one increasing curve g, piecewise linear with
    evenly spaced knots over the logits at most 20 nats below their row's largest, slopes
    in [0.01, 100]. The NLL is convex in the slopes; we add 1/n sum (s_{j+1} - s_j)^2, zero
    at the identity, and find the one minimum by projected Newton steps. The authors
    integrate a positive network by quadrature: the same functions up to resolution.

    ``oi``, ``op``: out_(C) = 0, out_(j) = out_(j+1) + m_j (z_(j) - z_(j+1)) over the sorted
    logits, weights m = softplus(network), which sees the sorted logits (order-invariant)
    or the logits by class (order-preserving). One network per held-out fold, its best
    epoch by NLL on that fold (epoch 0 is temperature scaling), logits averaged. The
    authors choose the epoch anew for each metric they report; we choose once. Inputs are
    standardised by one mean and one deviation. Relabelling classes commutes with
    ``diag`` and ``oi``, not with ``op``.

    All variants read the raw logits: a constant added to a row is not without effect. The
    curve streams; the networks hold the sorted scores (op: and the scores) in memory.

    ``mixture`` mixes in 1/(n+1) of the uniform distribution (``uniform``) after the fit.

    Reference: Rahimi, Shaban, Cheng, Hartley, Boots (2020), "Intra order-preserving functions
    for calibration of multi-class neural networks" (arXiv 2003.06820).
    """

    variant: str = param()
    edges: FloatArray | None = param("edges", optional=True)
    slopes: FloatArray | None = param("segments", optional=True)
    center: float | None = param(optional=True)
    spread: float | None = param(optional=True)
    w1: FloatArray | None = param("folds", "k", "hidden", optional=True)
    b1: FloatArray | None = param("folds", "hidden", optional=True)
    w2: FloatArray | None = param("folds", "hidden", "hidden", optional=True)
    b2: FloatArray | None = param("folds", "hidden", optional=True)
    w3: FloatArray | None = param("folds", "hidden", "gaps", optional=True)
    b3: FloatArray | None = param("folds", "gaps", optional=True)
    uniform: float = param(default=0.0)

    place = 25
    aliases = ("intra-order-preserving",)
    use = "when nothing may change the order of the classes in a row"
    title = "intra-order-preserving map"
    Options = IntraOrderPreservingOptions
    laws = Laws(keeps_argmax=True, monotone=True, equivariant=True, improves_nll=True, weights=True, memory="stream")

    @classmethod
    def fit(cls, rows: Rows, options: IntraOrderPreservingOptions, context: Context) -> Fit[Self]:
        if options.variant == "diag":
            fit = cls._fit_curve(rows, options.knots, context)
        else:
            fit = cls._fit_networks(rows, options, context)
        uniform = 1.0 / (rows.n + 1) if options.mixture else 0.0
        return replace(fit, calibrator=replace(fit.calibrator, uniform=uniform))

    @classmethod
    def _fit_curve(cls, rows: Rows, knots: int, context: Context) -> Fit[Self]:
        edges = np.linspace(*logit_range(rows), knots + 2)[1:-1]

        def objective_of(some: Rows) -> Quadratic:
            nll = nll_in_slopes(some, edges, np.asarray)

            def objective(slopes: FloatArray) -> tuple[float, FloatArray, FloatArray]:
                value, gradient, hessian = nll(slopes)
                penalty, pull, stiffness = pull_together(slopes, 1.0 / some.n)
                return value + penalty, gradient + pull, hessian + stiffness

            return objective

        begin = np.ones(knots + 1)
        if isinstance(context.start, cls) and context.start.slopes is not None:
            begin = context.start.slopes if len(context.start.slopes) == len(begin) else begin
        found = minimise_map(rows, objective_of, begin, context, low=LOW, high=HIGH)
        unused: list[Any] = [None] * 8
        fitted = cls("diag", edges, found.x, *unused)
        details = {"evaluations": found.evaluations, "gradient": found.gradient}
        if found.status == "not_converged":
            return Fit(fitted, "not_converged", ("the search for the slopes did not converge",), details)
        if np.all(found.x >= HIGH) or np.all(found.x <= LOW):
            return Fit(fitted, "at_bound", (ALL_AT_BOUND,), details)
        return Fit(fitted, "ok", (), details)

    @classmethod
    def _fit_networks(cls, rows: Rows, options: IntraOrderPreservingOptions, context: Context) -> Fit[Self]:
        first = TemperatureScaling.fit(rows, TemperatureOptions(), context)
        sorted_rows = TrainingRows(rows, sorted_input=options.variant == "oi")
        plan = TrainingPlan(
            options.hidden, options.epochs, options.folds, options.rate, options.decay, options.batch
        )  # fmt: skip
        nets, held_out, epochs = train_folds(
            sorted_rows,
            1.0 / first.calibrator.temperature,
            plan,
            context.rng(),
            lambda done, total: context.progress("training networks", done, total),
        )
        stacked: list[Any] = [np.stack(layers) for layers in zip(*nets, strict=True)]
        fitted = cls(options.variant, None, None, sorted_rows.center, sorted_rows.spread, *stacked)
        warnings = list(first.warnings)
        size = sum(w.size for w in nets[0])
        if size > rows.n:
            warnings.append(
                f"each network has {size} weights for {rows.n} rows; the held-out epochs guard it, but variant=diag"
                " or ts are safer with so few rows"
            )
        details = {"held_out_nll": held_out, "epochs": epochs, "temperature": first.calibrator.temperature}
        return Fit(fitted, first.status, tuple(warnings), details, before=first.before)

    def apply(self, block: Block) -> Prediction:
        z = block.z
        if self.variant == "diag":
            assert self.edges is not None
            assert self.slopes is not None
            mapped = evaluate(z, self.edges, self.slopes)
        else:
            assert self.center is not None
            assert self.spread is not None
            mapped = mapped_logits(z, self._nets(), self.center, self.spread, sorted_input=self.variant == "oi")
        return Prediction(mixed_with_uniform(log_softmax(mapped), self.uniform), block.prediction)

    def _nets(self) -> list[Net]:
        layers = [w for w in (self.w1, self.b1, self.w2, self.b2, self.w3, self.b3) if w is not None]
        return [Net(*fold) for fold in zip(*layers, strict=True)]

    def check(self, k: int) -> None:
        check_uniform(self.uniform)
        layers = (self.center, self.spread, self.w1, self.b1, self.w2, self.b2, self.w3, self.b3)
        if self.variant == "diag":
            if self.edges is None or self.slopes is None:
                raise DataError("variant is 'diag', expected edges and slopes")
            check_map(self.edges, self.slopes)
        elif self.variant in ("oi", "op"):
            if any(w is None for w in layers):
                raise DataError(f"variant is {self.variant!r}, expected center, spread and the layers w1 .. b3")
            if not all(np.all(np.isfinite(w)) for w in layers if w is not None):
                raise DataError("the layers hold numbers that are not finite")
            if self.w3 is not None and self.w3.shape[2] != k - 1:
                raise DataError(f"w3 gives {self.w3.shape[2]} weights, expected one per gap: {k - 1}")
            check_positive(spread=self.spread)
        else:
            raise DataError(f"variant is {self.variant!r}, expected diag, oi or op")


def logit_range(rows: Rows) -> tuple[float, float]:
    """Least and largest of the logits that matter: at most 20 nats below their row's largest."""
    ends = list(rows.each(_range))
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    if not high - low > 1e-9 * max(1.0, abs(low), abs(high)):
        # All logits are equal: any curve will do.
        width = max(1.0, abs(high))
        return low - width, high + width
    return low, high


def _range(block: Block) -> tuple[float, float]:
    z = block.z
    top = row_max(z)[:, None]
    return float(z.min(where=z >= top - REACH, initial=np.inf)), float(top.max())


METHOD = IntraOrderPreserving
