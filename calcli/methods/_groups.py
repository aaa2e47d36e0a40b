"""Partial pooling: a map for every group, shrunk towards the common map as far as the groups are alike."""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from msgspec import Meta

from calcli.calibrator import Calibrator, Context, Fit, Options
from calcli.errors import DataError
from calcli.fast_dataclass import Sums, dataclass
from calcli.folds import by_content, content_folds, random_folds
from calcli.names import places_of_groups
from calcli.numerics import FloatArray, IntArray, entries, floored_log
from calcli.rows import Block, Codes, Rows

PREDICTION = "prediction"  # grouping by predicted class, which needs no column
FOLDS = 5
ROUNDS = 3
START, LEAST = 0.1, 1e-7
"""Variance between groups at which the search begins, and the one that stands for 0. Variances up to ten times as
large become 0 too: towards 0 the EM takes ever smaller steps."""
STEPS, UPDATES = 100, 100
LARGEST_STEP = 1.0
LONGEST, FAR = (
    1e4,
    10.0,
)  # upper bounds of a SQUAREM step (in EM steps) and of a log variance
EXACT, SETTLED, CHANGE = 1e-11, 1e-6, 1e-4
"""Tolerances of a search: step of a parameter, relative change of a variance between updates, and between walks."""
EARLY, LEAST_START = 1e-7, 1e-5
"""For the fit to a fold, which starts at the result of all rows: its last step, and the least variance at its start."""
CREEPS, LATE = 0.99, 90
"""A variance that hardly moves is fixed when its last three changes between walks agree within this factor, or after
so many walks: otherwise theta would follow it for hundreds of walks."""


class ByOptions(Options, frozen=True):
    by: Annotated[
        str,
        Meta(
            min_length=1,
            description="column with the group of every row, or prediction",
        ),
    ] = PREDICTION
    tau: Annotated[
        float,
        Meta(
            ge=0,
            description="standard deviation between groups; 0 estimates it (1e3 fits every group by itself)",
        ),
    ] = 0.0
    guard: Annotated[
        bool,
        Meta(
            description="keep the common map unless held-out rows of the calibration data speak for the groups"
        ),
    ] = True


def groups_of(block: Block, by: str) -> Codes:
    """Groups of a block's rows. Raises DataError if the block lacks the column."""
    if by == PREDICTION:
        return Codes(tuple(map(str, range(block.scores.shape[1]))), block.prediction)
    if by not in block.columns:
        raise DataError(
            f"these rows do not say their {by!r}, by which the calibrator is"
        )
    return block.columns[by]


def places(by: str, names: Sequence[str], block: Block) -> IntArray:
    """Index in ``names`` of the group of every row, (b,); ``len(names)`` for a group
    that is not among them (see ``places_of_groups``)."""
    groups = groups_of(block, by)
    known = places_of_groups(tuple(names), tuple(groups.names))
    return entries(groups.code, np.where(known < 0, len(names), known))


@dataclass(frozen=True)
class GroupSums(Sums):
    """Sums over the rows of every group: weight (g,), gradient (g, m) and information (g, m, m) of the NLL."""

    weight: FloatArray
    gradient: FloatArray
    information: FloatArray

    @classmethod
    def of(
        cls,
        code: IntArray,
        g: int,
        weight: FloatArray,
        gradient: FloatArray,
        information: FloatArray,
    ) -> Self:
        """Sum rows with gradient (m, b) and information (m, m, b) by group."""

        def total(values: FloatArray) -> FloatArray:
            return np.asarray(
                np.bincount(code, weights=weight * values, minlength=g),
                dtype=np.float64,
            )

        slopes = np.stack([total(each) for each in gradient], axis=1)
        bends = np.stack(
            [total(each) for each in information.reshape(-1, len(code))], axis=1
        )
        return cls(
            total(np.ones(len(code))), slopes, bends.reshape(g, *information.shape[:2])
        )


class Pooled(NamedTuple):
    """Parameters of the groups. centre : (m,). theta : (g, m) differences from it. variance : (m,) between groups."""

    centre: FloatArray
    theta: FloatArray
    variance: FloatArray
    converged: bool
    passes: int


def pool(
    walk: Callable[[FloatArray], GroupSums],
    g: int,
    m: int,
    tau: float,
    start: Pooled | None = None,
) -> Pooled:
    """Minimise NLL + sum_g theta_g^2 / (2 variance), with the variance between groups by EM.

    walk : sums over the rows at parameters (g, m). tau : standard deviation between groups, 0 to estimate it. start :
    result on much the same rows, where the search begins; it then ends early. Steps are Fisher scoring: of the centre
    alone, then of theta, where after each walk the EM runs on that walk's quadratic; both repeat until they agree.
    Three times theta is centred (weighted by the rows) and its mean is added to the centre.
    """
    centre, theta = np.zeros(m), np.zeros((g, m))
    variance, passes, converged, exact = np.full(m, tau**2 or START), 0, False, EXACT
    if start is not None:
        theta, exact = start.theta, EARLY
        variance = variance if tau else np.maximum(start.variance, LEAST_START)
    for _ in range(STEPS):
        sums, passes = walk(np.broadcast_to(centre, (g, m))), passes + 1
        step = np.linalg.pinv(sums.information.sum(axis=0)) @ sums.gradient.sum(axis=0)
        centre = centre - np.clip(step, -LARGEST_STEP, LARGEST_STEP)
        if np.abs(step).max() <= exact:
            break
    for rounds in range(ROUNDS + 1):
        held, changes = bool(tau), list[float]()
        for _ in range(STEPS):
            sums, passes, before = walk(centre + theta), passes + 1, variance
            variance = variance if held else between(sums, theta, variance)
            bend, slope = (
                sums.information + np.diag(1.0 / variance),
                sums.gradient + theta / variance,
            )
            step = np.linalg.solve(bend, slope[..., None])[..., 0]
            theta = theta - np.clip(step, -LARGEST_STEP, LARGEST_STEP)
            moved = np.abs(variance - before)
            still = (moved <= CHANGE * variance + LEAST).all()
            converged = bool(still and np.abs(step).max() <= exact)
            if converged:
                break
            changes.append(float((moved / variance).max()))
            creeps = len(changes) > 2 and min(changes[-3:]) > CREEPS * max(changes[-3:])
            held = held or bool(still and (creeps or len(changes) >= LATE))
        mean = sums.weight @ theta / sums.weight.sum()
        if rounds == ROUNDS or np.abs(mean).max() <= exact:
            break
        centre, theta = centre + mean, theta - mean
    return Pooled(centre, theta, variance, converged, passes)


def between(sums: GroupSums, theta: FloatArray, variance: FloatArray) -> FloatArray:
    """Variance between groups (m,): the fixed point of variance = mean(theta^2 + posterior variance).

    EM is slow where the variance is small, so SQUAREM replaces three of its steps by one (Varadhan, Roland 2008, S3).
    """
    target = np.einsum("gij,gj->gi", sums.information, theta) - sums.gradient

    def step(log_variance: FloatArray) -> FloatArray:
        inverse = np.linalg.inv(sums.information + np.diag(np.exp(-log_variance)))
        mode = np.einsum("gij,gj->gi", inverse, target)
        found = (mode**2 + np.diagonal(inverse, axis1=1, axis2=2)).mean(axis=0)
        return np.asarray(np.log(np.where(found < 10.0 * LEAST, LEAST, found)))

    at = np.log(variance)
    for _ in range(UPDATES):
        once = step(at)
        first, second = once - at, step(once) - once
        if np.abs(second).max() <= SETTLED:
            return np.asarray(np.exp(once + second))
        bend = second - first
        square = float(first @ first) / max(float(bend @ bend), 1e-300)
        length = min(max(math.sqrt(square), 1.0), LONGEST)
        at = step(
            np.clip(at + 2.0 * length * first + length**2 * bend, math.log(LEAST), FAR)
        )
    return np.asarray(np.exp(at))


class ByGroup(Calibrator):
    """Base of the methods by group: a map common to all rows, and every group's difference from it.

    COMMON, OF_COMMON : name and class of the common map's method. by : the column. groups : differences by group name.
    """

    by: str
    groups: Mapping[str, Any]

    composable = False
    Options: ClassVar[type[Options]] = ByOptions
    COMMON: ClassVar[str]
    OF_COMMON: ClassVar[type[Calibrator]]

    @classmethod
    @abstractmethod
    def pooled(
        cls, rows: Rows, common: Any, of: Codes, by: ByOptions, start: Pooled | None
    ) -> tuple[Self, Pooled]:
        """Fit the groups' maps around a common map already fitted to all rows; start : see ``pool``."""

    @property
    def required_columns(self) -> Mapping[str, Sequence[str]]:
        return {} if self.by == PREDICTION else {self.by: tuple(self.groups)}

    @classmethod
    def columns_to_fit(cls, options: ByOptions) -> Sequence[str]:
        return () if options.by == PREDICTION else (options.by,)

    @classmethod
    def fit(cls, rows: Rows, options: ByOptions, context: Context) -> Fit[Any]:
        plain = cls.OF_COMMON.resolve_options(cls.OF_COMMON.Options(), rows.k)
        common = cls.OF_COMMON.fit(rows, plain, context)
        names = [
            name
            for name, weight in rows.sum(partial(_weights, options.by)).items()
            if weight > 0
        ]
        kept = replace(common, chosen=(cls.COMMON, plain))
        reason = (
            f"status {common.status}"
            if common.status != "ok"
            else "there is one group" * (len(names) < 2)
        )
        if not reason:
            at = rows.each(partial(places, options.by, tuple(names)))
            groups = Codes(tuple(names), np.concatenate(list(at)))
            calibrator, found = cls.pooled(
                rows, common.calibrator, groups, options, None
            )
            reason = "the groups do not differ" * bool(
                not options.tau and (found.variance <= LEAST).all()
            )
        if reason:
            return replace(
                kept,
                warnings=(
                    *common.warnings,
                    f"by {options.by}: {reason}, so the common map is kept",
                ),
            )
        details: dict[str, Any] = {"groups": len(names), "passes": found.passes}
        if options.guard:
            start = common.calibrator, found
            own, one = cls.held_out(rows, plain, groups, options, context, start)
            details["held_out_nll"] = {"by_group": own, "common": one}
            if own >= one:
                sentence = f"by {options.by}: held-out NLL {own:.5f}, of the common map {one:.5f}, which is kept"
                return replace(
                    kept,
                    warnings=(*common.warnings, sentence),
                    details={**common.details, **details},
                )
        warnings = (
            ()
            if found.converged
            else ("the search for the groups' maps did not converge",)
        )
        return Fit(
            calibrator, "ok" if found.converged else "not_converged", warnings, details
        )

    @classmethod
    def held_out(
        cls,
        rows: Rows,
        plain: Any,
        groups: Codes,
        options: ByOptions,
        context: Context,
        start: tuple[Any, Pooled],
    ) -> tuple[float, float]:
        """Cross-validated mean NLL by group and of the common map; folds keep units together.

        start : results of the fits to all rows.
        """
        units, losses = rows.units(), np.empty((2, rows.n))
        common_loss = _losses(start[0], rows)
        if units is not None:
            dealt = random_folds(units.n, FOLDS, context.rng())
            fold = dealt[by_content(units, common_loss).code]
        else:
            fold = content_folds(groups.code, common_loss, FOLDS, context.rng())
        for f in np.unique(fold):
            context.progress("cross-validating", int(f), FOLDS)
            held, others = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
            learn = rows.take(others)
            common = cls.OF_COMMON.fit(
                learn, plain, Context(context.seed, context.device)
            ).calibrator
            pooled = cls.pooled(learn, common, groups.take(others), options, start[1])[
                0
            ]
            losses[:, held] = [
                _losses(calibrator, rows.take(held)) for calibrator in (pooled, common)
            ]
        own, one = (float(np.average(each, weights=rows.weights())) for each in losses)
        return own, one


def _weights(by: str, block: Block) -> Counter[str]:
    """Total weight of the rows of every group, by its name."""
    names, code = groups_of(block, by)
    found = np.bincount(code, weights=block.weight, minlength=len(names))
    return Counter(dict(zip(names, found.tolist(), strict=True)))


def _losses(calibrator: Calibrator, rows: Rows) -> FloatArray:
    """NLL of every row through a calibrator, (n,); for confidences, of the outcome right or wrong."""
    return np.concatenate(list(rows.each(partial(_losses_of, calibrator))))


def _losses_of(calibrator: Calibrator, block: Block) -> FloatArray:
    found = calibrator.apply(block)
    if block.kind != "confidence":
        return -found.log_probs[np.arange(len(block)), block.labels]
    q = np.where(block.labels == 1, found.confidence, 1.0 - found.confidence)
    return -floored_log(q)
