"""ReCal: recalibration in rounds, by lossy transforms of the input.

Their effect on the scores decides.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from calcli.binning import BinStats, width_edges
from calcli.block import Block
from calcli.calibrator import (
    Calibrator,
    Context,
    Fit,
    Options,
    Prediction,
    Status,
    param,
)
from calcli.kernels.device import kernels
from calcli.kernels.numpy.recal import (
    RowSharpness,
    TiltedRows,
    log_confidence,
    log_share,
)
from calcli.methods._transforms import choose_pool
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import (
    TINY,
    BoolArray,
    FloatArray,
    IntArray,
    log_softmax,
    row_weights,
)
from calcli.rows import Rows

# ---- ReCal's groups of rows and the inverse temperature of each


GROUPS = 4
BETA_LOW = 1e-2
BETA_HIGH = 1e2
# size of the last step, times the group's share of the rows, that ends a search
STEP = 1e-10
SERIES = 1e-8
"""Estimated error that ends a search. The estimate is that of one order less: the
multipliers it leads to were within 2e-10 of the exact ones over 200 rounds."""
TRUST = 0.5  # longest relative step for which the series of four cumulants is trusted
PASSES = 60


def group_of(agree: BoolArray, log_p: FloatArray, log_q: FloatArray) -> IntArray:
    """Find the group 0..3 of every row.

    By whether predictions agree and whether the original is less confident. (Jang, Lee,
    Weimer 2020, equation 3, groups 1 to 4: different and p < q; different and p >= q;
    same and p < q; same and p >= q.)
    """
    return (2 * agree + (log_p >= log_q)).astype(np.int64)


def series_root(derivatives: FloatArray) -> tuple[float, float]:
    """Find the root of g1 + g2 e + g3 e^2/2 + g4 e^3/6 nearest to e = 0.

    Also an estimate of its error. The error is the effect of the last term. The root is
    NaN if the slope vanishes or the iteration leaves the trusted range.
    """
    g1, g2, g3, g4 = derivatives
    if not g2 > 0:
        return np.nan, np.inf
    roots = []
    for last in (0.0, g4):
        e = 0.0
        for _ in range(50):
            slope = g2 + g3 * e + last * e * e / 2
            if not slope > 0 or abs(e) > TRUST:
                return np.nan, np.inf
            step = (g1 + g2 * e + g3 * e * e / 2 + last * e**3 / 6) / slope
            e -= step
            if abs(step) <= 1e-14:
                break
        roots.append(e)
    of_three_terms, of_all = roots
    return of_all, abs(of_all - of_three_terms)


def fit_groups(
    start: FloatArray,
    evaluate: Callable[[FloatArray, BoolArray], FloatArray],
    share: FloatArray,
    sure: BoolArray,
) -> tuple[FloatArray, BoolArray]:
    """Minimise the NLL of every group over its inverse temperature, all groups at once.

    start : (4 groups, 4 orders) derivatives of the NLL in relative beta, of order 1 to
    4, at beta = 1. evaluate : walks over the rows, and returns these derivatives at
    beta (4,) for the groups wanted (4,). share : (4,) proportion of rows in each group.
    sure : (4,) groups whose loss falls for ever as beta grows (every row right). The
    loss is convex in beta: its derivative increases, so its sign shrinks a bracket;
    steps come from the cumulants (order five near the root), or halve log beta where
    those are not trusted. Returns inverse temperatures (4,), and a mask of those that
    ran into the bracket.
    """
    # a zero slope: the rows say nothing, or beta is 1
    moving = (share > 0) & (start[:, 0] != 0)
    bounded = moving & sure
    active = moving & ~sure
    beta = np.where(bounded, BETA_HIGH, 1.0)
    low = np.zeros(GROUPS)  # largest beta at which the slope was negative
    high = np.full(GROUPS, np.inf)  # least beta at which it was positive
    derivatives = start
    for _ in range(PASSES):
        for g in np.flatnonzero(active):
            # Shrink the bracket; a slope that leads out of the bounds ends the search.
            falls = derivatives[g, 0] < 0
            rises = derivatives[g, 0] > 0
            if falls:
                low[g] = beta[g]
            else:
                high[g] = beta[g]
            if (falls and beta[g] >= BETA_HIGH) or (rises and beta[g] <= BETA_LOW):
                bounded[g] = True
                active[g] = False
                continue
            # Step to the root of the series; where it is not trusted, into the bracket.
            step, error = series_root(derivatives[g])
            following = beta[g] * (1 + step)
            least = max(low[g], BETA_LOW)
            most = min(high[g], BETA_HIGH)
            if not least <= following <= most:  # NaN included
                error = np.inf
                if low[g] > 0 and high[g] < np.inf:
                    following = np.sqrt(low[g] * high[g])
                elif falls:
                    following = min(2 * beta[g], BETA_HIGH)
                else:
                    following = max(beta[g] / 2, BETA_LOW)
            small_step = abs(following / beta[g] - 1) * share[g] <= STEP
            narrow = high[g] - low[g] <= STEP * low[g]
            exact = error * share[g] <= SERIES
            beta[g] = following
            active[g] = not (small_step or narrow or exact)
        if not active.any():
            break
        derivatives = evaluate(beta, active)
    return beta, bounded


# bounds of the product of a row's inverse temperatures, so that it stays finite
SCALE_LOW = 1e-6
SCALE_HIGH = 1e6
WORSE = 1e-9  # differences of an NLL below this are rounding
# least share of rows of a group at a bound that matters: its multiplier can then reach
# 2
BOUND_SHARE = 0.01

START = Meta(
    description=(
        "where the rounds start: at one temperature (ts), or at the uncalibrated"
        " scores (none)"
    )
)
GUARD = (
    "undo a round that raises the calibration ECE, and a group that raises its own"
    " (authors' code)"
)
CONF_AT = Meta(
    description=(
        "confidence under the transform: at the original's predicted class, or at its"
        " own"
    )
)
POOL = Meta(
    description=(
        "transforms to draw from: all, or names and specs with commas"
        " (zoom,brightness:0.35)"
    )
)


class RecalOptions(Options, frozen=True):
    init: Annotated[Literal["ts", "none"], START] = "ts"
    guard: Annotated[bool, Meta(description=GUARD)] = False
    conf_at: Annotated[Literal["original", "own"], CONF_AT] = "original"
    delta: Annotated[
        float,
        Meta(ge=0.0, le=1.0, description="stop when the ECE changes by less than this"),
    ] = 0.0
    rounds: Annotated[int, Meta(ge=1, le=100_000, description="most rounds")] = 100
    pool: Annotated[str, POOL] = "all"


@dataclass(frozen=True)
class ReCal(Calibrator):
    """Scale the scores of a row by how much lossy transforms of its input change them.

    Needs scores of the same rows under transforms that lose information but keep the
    label (zooming out, darkening, ...). With a = log softmax(z / T) and b_m = log
    softmax(z_m / T) for transform m, each of at most L rounds draws a transform m
    (uniformly, with replacement) and

    1. sorts the rows into four groups: does the transform change the predicted class,
       and is p = max softmax(a) below q, the transform's probability of the same class?
    2. finds for each group k the inverse temperature beta_k that minimises the NLL of
       softmax(beta_k a), and shrinks it by the group's share of the rows:
       sigma_k = 1 + (n_k / n) (beta_k - 1);
    3. multiplies a and b_m of the group's rows by sigma_k.

    T is that of temperature scaling (``init=ts``), which the paper's rounds by
    themselves do not reach: ``init=none``, T = 1, is Algorithm 2 as printed, and
    usually ends with a worse NLL than T alone. All L rounds are played unless ``delta``
    is given: then they stop when the ECE (15 width bins) changes by less, which can be
    a coincidence, as it jitters. New rows walk through the same rounds with their own
    groups. beta_k is kept in [0.01, 100], so that sigma_k > 0 and the prediction never
    changes; the released code lets it go negative. As the NLL of a group is convex in
    beta and sigma_k lies between 1 and beta_k, the NLL on the calibration data never
    rises.

    ``guard=true`` is the released code (with ``init=none delta=1e-5 rounds=200``): all
    four sigma go back to 1 when the round raises the ECE on the calibration data, else
    those of the groups whose own ECE rises; a round undone as a whole does not count
    for stopping. The default is the paper, which ends with the better Brier score. The
    paper's formula takes q at ``conf_at=own`` class, its code at ``original``.

    A row's scores only ever get multiplied, so that any number of rounds amounts to
    softmax(s z) with one number s per row; the fit keeps s and never a copy of the
    scores. ``details.groups`` of the artifact has every round's groups: rows, ECE
    before and after, sigma_k.

    Reference: Jang, Lee, Weimer (2020), arXiv 2011.04182, algorithms 1 and 2, equations
    3 and 4.
    """

    inverse_temperatures: FloatArray = param("l", GROUPS, within="positive")
    transforms: NDArray[np.str_] = param("l", dtype="str")
    own: bool = param()
    _: KW_ONLY
    temperature: float = param(default=1.0, within="positive")

    list_order = 51
    use = "when scores under transforms of the input are at hand"
    title = "ReCal (lossy label-invariant transformations)"
    Options = RecalOptions
    laws = replace(TemperatureScaling.laws, memory="row", needs_transforms=True)

    @classmethod
    def fit(cls, rows: Rows, options: RecalOptions, context: Context) -> Fit[Self]:
        pool = choose_pool(rows.transforms, options.pool, "recal")
        drawn = np.asarray(pool)[context.rng().integers(len(pool), size=options.rounds)]
        return cls.play(rows, options, context, drawn)

    @classmethod
    def play(
        cls, rows: Rows, options: RecalOptions, context: Context, drawn: IntArray
    ) -> Fit[Self]:
        """Fit with given draws, indices of transforms."""
        scaled = TemperatureScaling.fit(rows, TemperatureOptions(), context)
        temperature = scaled.calibrator.temperature
        # At a bound the temperature is not informative (e.g. every row is right): no
        # start there.
        start = 1.0
        if options.init == "ts" and scaled.status == "ok":
            start = temperature
        run = Rounds(rows, options, context, start)
        sigmas: list[FloatArray] = []
        for done, transform in enumerate(drawn):
            context.progress("ReCal round", done, len(drawn))
            sigmas.append(run.round(int(transform)))
            if run.settled:
                break
        specs = np.asarray([table["transform"] for table in run.tables])
        fitted = cls(
            inverse_temperatures=np.asarray(sigmas),
            transforms=specs,
            own=options.conf_at == "own",
            temperature=start,
        )
        status, warnings = run.verdict(fitted)
        scale = np.full(rows.n, 1.0 / temperature)
        nll = run.nll(run.now, run.scale)
        nll_of_ts = run.nll(run.tilt(scale), scale)
        if nll > nll_of_ts + WORSE:
            better = "ts, or recal with init=ts," if options.init == "none" else "ts"
            warning = (
                f"NLL on these rows is {nll:.5f}, one temperature reaches"
                f" {nll_of_ts:.5f}: {better} would serve better"
            )
            warnings = (*warnings, warning)
        details = {
            "rounds": len(sigmas),
            "stopped_by": "delta" if run.settled else "rounds",
            "rejected_rounds": run.rejected,
            "ece": run.ece,
            "bounded_groups": len(run.bounded),
            "nll": nll,
            "nll_of_ts": nll_of_ts,
            "passes": run.passes,
            "groups": run.tables,
        }
        return Fit(fitted, status, warnings, details)

    @property
    def required_transforms(self) -> Sequence[str]:
        # A round of four ones changes nothing, so its transform is not needed.
        acting = (self.inverse_temperatures != 1).any(axis=1)
        return tuple(dict.fromkeys(map(str, self.transforms[acting])))

    def apply(self, block: Block) -> Prediction:
        z = block.z
        predicted = z.argmax(axis=1)
        gaps = z - z.max(axis=1, keepdims=True)
        scale = np.full(len(z), 1.0 / self.temperature)
        scales = dict.fromkeys(self.required_transforms, scale)
        transformed = {}
        for slot, spec in enumerate(scales):
            z_m = block.transformed_z(slot)
            gaps_m = z_m - z_m.max(axis=1, keepdims=True)
            agree = z_m.argmax(axis=1) == predicted
            transformed[spec] = (gaps_m, agree)
        # Walk through the rounds of the fit, each row with its own groups.
        log_p = log_confidence(gaps, scale)
        rounds = zip(self.transforms, self.inverse_temperatures, strict=True)
        for name, sigma in rounds:
            if (sigma == 1).all():
                continue
            spec = str(name)
            gaps_m, agree = transformed[spec]
            log_q = log_share(gaps_m, scales[spec], None if self.own else predicted)
            factor = sigma[group_of(agree, log_p, log_q)]
            scale = rescaled(scale, factor)
            scales[spec] = rescaled(scales[spec], factor)
            log_p = log_confidence(gaps, scale)
        return Prediction(log_softmax(gaps * scale[:, None]), block.prediction)


def rescaled(scale: FloatArray, factor: FloatArray) -> FloatArray:
    """Inverse temperatures of the rows times a factor, kept finite."""
    return np.clip(scale * factor, SCALE_LOW, SCALE_HIGH)


def six_digits(values: FloatArray) -> list[float]:
    """Round to six digits, as Python does, which is not always as NumPy does."""
    return [round(value, 6) for value in values.tolist()]


class Rounds:
    """State between the rounds of a fit: one inverse temperature per row and transform.

    ece : the ECE now. rejected : rounds undone as a whole. settled : the ECE changes no
    more. bounded : shares of the groups that ran into a bound. tables : of every round
    the groups' rows, ECE before and after, and multipliers.
    """

    def __init__(
        self, rows: Rows, options: RecalOptions, context: Context, temperature: float
    ) -> None:
        self.options = options
        self.transforms = rows.transforms
        self.sharpness: RowSharpness = kernels(context).RowSharpness(rows)
        weight = rows.weights()
        self.weight = row_weights(weight, rows.n)
        self.total = float(self.weight.sum())
        self.right = self.sharpness.predicted == rows.labels()
        self.scale = self.start = np.full(rows.n, 1.0 / temperature)
        self.scales: dict[int, FloatArray] = {}
        self.passes = 1
        self.now = self.tilt(self.scale)
        self.ece = self._ece(self.now.log_top)
        # as in the released code, so that the first round never counts as settled
        self.previous = 1.0
        self.rejected = 0
        self.settled = False
        self.bounded: list[float] = []
        self.tables: list[dict[str, Any]] = []

    def round(self, transform: int) -> FloatArray:
        """Play one round; returns the four multipliers that were kept."""
        scales = self.scales.get(transform, self.start)
        log_share, agree = self.sharpness.response(
            transform, scales, self.options.conf_at == "own"
        )
        self.passes += 1
        group = group_of(agree, self.now.log_top, log_share)
        share = np.bincount(group, self.weight, GROUPS) / self.total
        beta, bounded = self._fit(group, share)
        sigma = 1.0 + share * (beta - 1.0)
        scale = rescaled(self.scale, sigma[group])
        new = self.tilt(scale)
        before = self._by_group(group, self.now)
        after = self._by_group(group, new)
        ece = self._ece(new.log_top)
        rejected = False
        if self.options.guard:
            # Undo the round where the ECE rises, else the groups whose own ECE rises.
            rejected = ece > self.ece
            sigma = np.where(rejected | (after > before), 1.0, sigma)
            undone = (sigma == 1)[group]
            pairs = zip(self.now, new, strict=True)
            new = TiltedRows(*(np.where(undone, old, moved) for old, moved in pairs))
            scale = np.where(undone, self.scale, scale)
            after = self._by_group(group, new)
            ece = self._ece(new.log_top)
        self.rejected += rejected
        mass = np.maximum(share, TINY)
        table = {
            "round": len(self.tables) + 1,
            "transform": self.transforms[transform],
            "rows": np.bincount(group, minlength=GROUPS).tolist(),
            "ece_before": six_digits(before / mass),
            "ece_after": six_digits(after / mass),
            "multiplier": np.round(sigma, 6).tolist(),
        }
        self.tables.append(table)
        self.bounded += list(share[bounded & (sigma != 1)])
        self.scale = scale
        self.now = new
        self.ece = ece
        self.scales[transform] = rescaled(scales, sigma[group])
        if not rejected:
            self.settled = abs(ece - self.previous) < self.options.delta
            self.previous = ece
        return sigma

    def verdict(self, fitted: ReCal) -> tuple[Status, tuple[str, ...]]:
        """Status of the fit and its warnings."""
        if max(self.bounded, default=0.0) >= BOUND_SHARE:
            return "at_bound", (
                f"the inverse temperature of a group with {max(self.bounded):.0%} of"
                f" the rows ran into a bound of [{BETA_LOW:g}, {BETA_HIGH:g}], as it"
                " does when every prediction in it is right: the result is over- or"
                " underconfident on such rows; calibrate on more rows, or use ts",
            )
        if not fitted.required_transforms:
            return "degenerate", (
                "no round was kept: every one would have raised the ECE on these rows,"
                " the scores are left as"
                " they are; guard=false follows the paper, which has no such rule",
            )
        return "ok", ()

    def nll(self, tilted: TiltedRows, scale: FloatArray) -> float:
        """Mean NLL of rows tilted to these inverse temperatures."""
        log_p_of_labels = tilted.log_top + scale * self.sharpness.label_gap
        return -float(self.weight @ log_p_of_labels) / self.total

    def tilt(self, scale: FloatArray, wanted: BoolArray | None = None) -> TiltedRows:
        """One more pass over the rows (see ``RowSharpness.tilt``)."""
        self.passes += 1
        return self.sharpness.tilt(scale, wanted)

    def _sums(
        self, tilted: TiltedRows, scale: FloatArray, group: IntArray
    ) -> FloatArray:
        """Sum the derivatives of each group's NLL, (4, 4).

        They are by its relative inverse temperature.
        """
        k1, *higher = tilted.cumulants
        terms = [k1 - scale * self.sharpness.label_gap, *higher]
        sums = [np.bincount(group, self.weight * term, GROUPS) for term in terms]
        return np.stack(sums, axis=1)

    def _fit(self, group: IntArray, share: FloatArray) -> tuple[FloatArray, BoolArray]:
        wrong = np.bincount(group, self.weight * ~self.right, GROUPS)

        def evaluate(beta: FloatArray, wanted: BoolArray) -> FloatArray:
            scale = self.scale * beta[group]
            rows = wanted[group]
            tilted = self.tilt(scale, None if rows.all() else rows)
            return self._sums(tilted, np.where(rows, scale, 0.0), group)

        start = self._sums(self.now, self.scale, group)
        return fit_groups(start, evaluate, share, wrong == 0)

    def _ece(self, log_top: FloatArray, rows: BoolArray | slice = slice(None)) -> float:
        """Compute the ECE with 15 width bins, of all rows or some.

        It is only compared, so never normalised.
        """
        right = self.right[rows].astype(np.float64)
        confidence = np.exp(log_top[rows])
        bins = BinStats.of(confidence, right, width_edges(15), self.weight[rows])
        return float(np.abs(bins.score - bins.outcome).sum() / self.total)

    def _by_group(self, group: IntArray, tilted: TiltedRows) -> FloatArray:
        """``_ece`` of each group by itself, (4,); 0 for an empty one."""
        return np.array([self._ece(tilted.log_top, group == g) for g in range(GROUPS)])
