"""Scaling-binning."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from msgspec import Meta

from calcli.binning import BinStats
from calcli.block import Block
from calcli.calibrator import Calibrator, Context, Curves, Fit, param
from calcli.composition import behind
from calcli.errors import FitError
from calcli.folds import content_order
from calcli.mapped_rows import mapped
from calcli.methods._affine.fitting import identity_map, split_map
from calcli.methods._affine.maps import OdirOptions, log_probabilities, odir_ridge
from calcli.methods._affine.objective import Features, affine_logits, logits_as
from calcli.methods._binary.log_odds import (
    Loss,
    MapFit,
    Sample,
    counted_rows,
    log_sigmoid,
)
from calcli.methods._binary.maps import EMPTY, TOP_LABEL, BinaryCalibrator, ModeOptions
from calcli.methods._binary.tables import Steps, step
from calcli.methods.beta import fit_beta
from calcli.methods.compared.dir import DirichletCalibration
from calcli.methods.compared.identity import Identity
from calcli.methods.dir_odir import RegularisedDirichlet
from calcli.methods.hb import Bins, Scheme, fit_edges, ruined_by_mass, thin_bins
from calcli.methods.platt import fit_platt
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.methods.vs import VectorScaling
from calcli.numerics import FloatArray, IntArray, log_softmax, ratio, shares_of, sigmoid
from calcli.records import cached_property
from calcli.rows import Rows

# lambda and mu of base=dirichlet. Without a penalty its fit to a thousand rows has no
# optimum
DIRICHLET_PENALTY = 1e-2
# keeps its diagonal, which they leave free, finite on separable rows; elsewhere of no
# effect
DIRICHLET_RIDGE = 1e-8
# where and when the search for the least squared loss ends
GRADIENT = 1e-9
STEPS = 2000
# parameters of the bases that calibrate whole rows
WHOLE = ("temperature", "scale", "weight", "bias")
Parts = Sequence[IntArray]  # rows for the three steps


class ScalingBinningOptions(ModeOptions, frozen=True):
    base: Annotated[
        Literal["platt", "beta", "temperature", "vector", "dirichlet", "ts"],
        Meta(
            description=(
                "the smooth map that is fitted first: platt or beta (of the one"
                " probability, or of each class's), temperature (or ts), vector or"
                " dirichlet (of whole rows; these two may change predictions)"
            )
        ),
    ] = "platt"
    loss: Annotated[
        Loss,
        Meta(
            description=(
                "what the base minimises: log loss, or squared error as printed"
                " (summed over classes)"
            )
        ),
    ] = "log"
    bins: Bins = 15
    scheme: Annotated[
        Scheme, Meta(description="bins holding equally many rows, or of equal width")
    ] = "mass"
    split: Annotated[
        Literal["shared", "thirds"],
        Meta(
            description=(
                "rows for the three steps (fit, cut into bins, average): all rows for"
                " each, or three random disjoint thirds"
            )
        ),
    ] = "shared"


@dataclass(frozen=True)
class ScalingBinning(BinaryCalibrator):
    """Fit a smooth map, then replace its values by their mean in each of a few bins.

    1. g is fitted (``base``), 2. bins of g hold equally many rows, 3. q = mean of g,
    not of the outcomes, over the bin that g falls into; an empty bin gives its
    midpoint. The output takes at most ``bins`` values, so its calibration error can be
    measured, with less variance than histogram binning's means of outcomes. The paper's
    analysis takes three disjoint parts of the rows (``split=thirds``), the authors'
    code all rows for every step (``shared``). The paper prints the squared loss for g
    (``loss=brier``), the code minimises the log loss. The squared loss is not convex:
    we take the minimum beside the log loss's optimum, not the steep step that may fit
    few rows better and new ones worse. base=dirichlet has penalties lambda = mu = 0.01
    (as ``dir-odir``, penalty=mean), because without any its fit to a thousand rows has
    no optimum.

    In mode=marginal (or ova, the same here) each class has its own g and bins. The
    paper measures these values as they are; the output vector is divided by its sum.

    Reference: Kumar, Liang, Ma (2019), section 4; "Platt-binning" in Li's reproduction.
    """

    slope: FloatArray = param("maps")
    intercept: FloatArray = param("maps")
    edges: Curves = param()
    values: Curves = param(within="0 to 1")
    temperature: float | None = param(optional=True, within="positive")
    _: KW_ONLY
    slope_rest: FloatArray | None = param("maps", optional=True, default=None)
    scale: FloatArray | None = param("k", optional=True, default=None)
    weight: FloatArray | None = param("k", "k", optional=True, default=None)
    bias: FloatArray | None = param("k", optional=True, default=None)

    list_order = 34
    aliases = ("platt-binning",)
    use = "the confidence alone, when its error must be certified afterwards"
    title = "scaling-binning"
    laws = TOP_LABEL
    Options = ScalingBinningOptions
    identity = (1.0, 0.0, EMPTY, EMPTY, 1.0)
    takes_log_odds = True

    @classmethod
    def fit(
        cls, rows: Rows, options: ScalingBinningOptions, context: Context
    ) -> Fit[Self]:
        counted = counted_rows(rows.n, rows.weights())
        n = len(counted)
        if options.split == "shared" or n < 3:
            return cls.fit_parts(rows, options, context, [np.arange(n)] * 3)
        order = content_order(rows.take(counted), context.seed)
        parts = [np.sort(part) for part in np.array_split(order, 3)]
        return cls.fit_parts(rows, options, context, parts)

    @classmethod
    def fit_parts(
        cls, rows: Rows, options: ScalingBinningOptions, context: Context, parts: Parts
    ) -> Fit[Self]:
        """Fit with given rows for the three steps.

        parts : indices among the rows of positive weight.
        """
        options = cls.resolve_options(options, rows.k)
        counted = counted_rows(rows.n, rows.weights())
        inner = rows
        first = None
        whole = dict[str, Any]()
        if options.base not in ("platt", "beta"):
            if rows.kind == "confidence":
                raise FitError(
                    f"base={options.base} needs the scores of every class, these rows"
                    " hold confidences"
                )
            if options.base == "vector":
                inner = mapped(rows, Identity())
            first = fit_whole_rows(inner.take(counted[parts[0]]), options, context)
            inner = mapped(inner, first.calibrator)
            for name in WHOLE:
                if hasattr(first.calibrator, name):
                    whole[name] = getattr(first.calibrator, name)
        whole.setdefault("temperature", None)
        fit_map = partial(cls.fit_map, options=options, parts=parts)
        fit = cls.fit_maps(inner, options, context, fit_map, **whole)
        return fit if first is None else behind(first, fit)

    @classmethod
    def fit_map(cls, sample: Sample, options: Any, parts: Parts = ()) -> MapFit:
        # rows for the fit of g, for the cuts into bins, and for their means
        to_fit = to_cut = to_average = sample
        if parts:
            to_fit, to_cut, to_average = map(sample.part, parts)
        one_map = options.mode == "top"
        base = MapFit((1.0, 1.0, 0.0))
        if options.base == "platt":
            platt = fit_platt(to_fit, loss=options.loss, constant_if_separable=one_map)
            base = platt._replace(params=(platt.params[0], *platt.params))
        elif options.base == "beta":
            base = fit_beta(to_fit, loss=options.loss, constant_if_separable=one_map)
        a, b, c = base.params
        cut_scores = smooth(to_cut.s, a, b, c)
        edges = fit_edges(cut_scores, to_cut.weight, options.bins, options.scheme)
        scores = smooth(to_average.s, a, b, c)
        bins = BinStats.of(scores, to_average.hit, edges, to_average.weight)
        middle = 0.5 * (edges[:-1] + edges[1:])
        means = ratio(bins.score, bins.weight, otherwise=middle)
        values = np.clip(means, 0.0, 1.0)
        record = base.record | {"empty_bins": float((bins.count == 0).sum())}
        return base._replace(params=(a, c, edges, values, b), record=record)

    @staticmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        slope, intercept, edges, values, *slope_rest = params
        if not len(edges):
            return sigmoid(x)
        b = slope_rest[0] if slope_rest else slope
        return step(smooth(x, slope, b, intercept), edges, values)

    @cached_property
    def upstream(self) -> Calibrator | None:
        if self.weight is not None and self.bias is not None:
            return DirichletCalibration(self.weight, self.bias)
        if self.scale is not None and self.bias is not None:
            return VectorScaling(self.scale, self.bias)
        if self.temperature is not None:
            return TemperatureScaling(self.temperature)
        return None

    def seen(self, block: Block) -> Block:
        if self.scale is not None:  # vector scaling is of log-probabilities here
            block = replace(block, scores=log_softmax(block.z), kind="log_probs")
        return super().seen(block)

    @classmethod
    def advice(cls, rows: Rows, options: Any) -> Iterator[str]:
        n = rows.n if options.split == "shared" else rows.n // 3
        yield from thin_bins(n, options.bins)
        yield from ruined_by_mass(rows, options)

    def check_own(self, k: int) -> None:
        super().check_own(k)
        for _, _, edges, values, *_ in self.maps:
            Steps.check_map(edges, values)


def fit_whole_rows(
    rows: Rows, options: ScalingBinningOptions, context: Context
) -> Fit[Any]:
    """Fit the base of whole rows.

    The least squared loss is searched from the map of least log loss (ts: see there).
    """
    features: Features
    if options.base == "vector":
        light: Any = VectorScaling.Options()
        fitted: Fit[Any] = VectorScaling.fit(rows, light, context)
        scale = fitted.calibrator.scale
        features = logits_as
        ridge = np.asarray(light.ridge)
    elif options.base == "dirichlet":
        penalised = OdirOptions(
            lambda_=DIRICHLET_PENALTY,
            mu=DIRICHLET_PENALTY,
            final="refit",
            ridge=DIRICHLET_RIDGE,
        )
        full = RegularisedDirichlet.fit(rows, penalised, context)
        scale = full.calibrator.weight
        features = log_probabilities
        fitted = Fit(
            DirichletCalibration(scale, full.calibrator.bias),
            full.status,
            full.warnings,
            full.details,
        )
        penalty = odir_ridge(
            rows.k, penalised, 1.0, DIRICHLET_PENALTY, rows.effective_n
        )
        ridge = penalty.weight
    else:
        loss: Literal["nll", "brier"] = "brier" if options.loss == "brier" else "nll"
        return TemperatureScaling.fit(rows, TemperatureOptions(loss=loss), context)
    if options.loss != "brier":
        return fitted
    x = np.concatenate([features(block) for block in rows.blocks()])
    start = np.column_stack([scale, fitted.calibrator.bias])
    theta, stationary = least_squares(x, rows, start, ridge)
    fitted = replace(fitted, calibrator=type(fitted.calibrator)(*split_map(theta)))
    if stationary:
        return fitted
    warning = "the search for the least squared loss did not reach a stationary point"
    warnings = (*fitted.warnings, warning)
    return replace(fitted, status="not_converged", warnings=warnings)


def smooth(s: FloatArray, a: float, b: float, c: float) -> FloatArray:
    """Evaluate g of log-odds: sigmoid(c + a log p - b log(1 - p)).

    It is a straight line in s when a = b.
    """
    if a == b:
        return sigmoid(a * s + c)
    return sigmoid(c + a * log_sigmoid(s) - b * log_sigmoid(-s))


# ---- affine maps of whole rows by the squared loss, which is not convex: down from the
# log loss's optimum


def least_squares(
    x: FloatArray, rows: Rows, start: FloatArray, ridge: FloatArray
) -> tuple[FloatArray, bool]:
    """Fit the affine map of least squared loss under a ridge.

    It minimises mean_n sum_c (p_nc - 1[y_n = c])^2 + sum ridge (theta - identity)^2. x
    : (n, k) what is mapped. start : (k, 2) or (k, k + 1). Returns parameters, never
    worse than the start, and whether they are stationary. Classes without a row keep
    theirs: the loss would drive them away for ever.
    """
    from scipy.optimize import minimize

    y = rows.labels()
    share = shares_of(rows.weights(), len(y))
    is_present = np.bincount(y, weights=share, minlength=len(start)) > 0
    hit = np.eye(len(start))[y]
    centre = identity_map(*start.shape)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        theta = flat.reshape(start.shape)
        p = np.exp(log_softmax(affine_logits(x, theta)))
        miss = p - hit
        away = theta - centre
        # by the logits, then by the scales or weights and the biases
        mean_miss = (p * miss).sum(axis=1, keepdims=True)
        pull = p * (miss - mean_miss) * (2.0 * share[:, None])
        back = (pull * x).sum(axis=0) if start.shape[1] == 2 else pull.T @ x
        gradient = np.column_stack([back, pull.sum(axis=0)]) + 2.0 * ridge * away
        gradient = gradient * is_present[:, None]
        # A ridge of one number multiplies the sum, which rounds otherwise.
        penalty = (ridge * away**2).sum() if ridge.ndim else ridge * (away**2).sum()
        value = float(share @ (miss**2).sum(axis=1)) + float(penalty)
        return value, gradient.ravel()

    options = {
        "maxiter": STEPS,
        "maxfun": 2 * STEPS,
        "gtol": GRADIENT,
        "ftol": 0.0,
        "maxcor": 30,
    }
    minimum = minimize(
        loss, start.ravel(), jac=True, method="L-BFGS-B", options=options
    )
    if not minimum.fun < loss(start.ravel())[0]:
        return start, True
    # L-BFGS ends in its line search where rounding leaves no step; far from stationary
    # it has not arrived.
    return minimum.x.reshape(start.shape), bool(
        np.abs(minimum.jac).max() <= 1e3 * GRADIENT
    )
