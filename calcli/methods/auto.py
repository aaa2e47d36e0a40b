"""``auto``: weigh compositions by trying them inside the calibration data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from calcli.calibrator import (
    Context,
    CrossFits,
    CrossFitting,
    Fit,
    Laws,
    Options,
    Progress,
)
from calcli.composition import STATUSES, FittedPrefixes
from calcli.errors import FitError, UsageError
from calcli.methods._auto.after_averaging import (
    Predictions,
    judged_predictions,
    last_step,
    out_of_fold,
)
from calcli.methods._auto.candidates import (
    Candidate,
    candidates_for,
    default_candidates,
    fit_candidate,
    lacking_classes,
    listed,
    parse_candidate,
    that_hold_classes,
)
from calcli.methods._auto.held_out import (
    Part,
    Plan,
    shuffled_in_memory,
)
from calcli.methods._auto.members import (
    FEW_ROWS,
    joint_warnings,
    refitted,
    safe_candidates,
    weighed,
)
from calcli.methods._auto.progress import Work, cost_of
from calcli.methods._auto.trials import (
    Trial,
    Trying,
)
from calcli.methods._auto.weights import (
    pick,
    table_of,
)
from calcli.mixture import Member, Mixture
from calcli.numerics import IntArray, shares_of
from calcli.registry import method, with_predictions_kept
from calcli.rows import Rows

UNIFORM_ROWS = 0.25  # weight of the uniform distribution in the average, of n + 1 rows

LONG_TO_FIT = 100_000
"""With at least this many scores the trials are used as cross-fits, instead of new fits.
The weights of a fold's average then come from fits that saw the fold, whose luck they
undo: this adds some 1.5 / n nats to the loss that cross-fitting states, and to its noise.
"""

LISTED = Meta(
    description=(
        "methods and compositions, separated by commas, options in brackets: ts,"
        " svs(lambda=0.1); empty: a list that fits the size of the problem"
    )
)
CRITERION = Meta(
    description="mean loss of held-out rows by which best and one-se choose"
)
RULE = Meta(
    description=(
        "a weighted mean of candidates, the best one, or the simplest within one"
        " standard error"
    )
)
KEEP = Meta(
    description=(
        "change no prediction, by a projection; auto: for three and more classes"
        " unless changing predictions is shown to help"
    )
)
FOLDED = Meta(
    description="random parts of the cross-validation; none: 5, with many scores fewer"
)
BUDGET = Meta(
    description=(
        "seconds; candidates that would exceed them are left out, the last of the"
        " list first"
    )
)


class AutoOptions(Options, frozen=True):
    candidates: Annotated[str, LISTED] = ""
    folds: Annotated[Annotated[int, Meta(ge=2, le=50)] | None, FOLDED] = None
    criterion: Annotated[Literal["nll", "brier"], CRITERION] = "nll"
    rule: Annotated[Literal["average", "best", "one-se"], RULE] = "average"
    keep_argmax: Annotated[bool | Literal["auto"], KEEP] = "auto"
    budget: Annotated[Annotated[float, Meta(gt=0)] | None, BUDGET] = None

    @property
    def keep(self) -> bool | None:
        """Whether predictions are kept, where the user has decided it."""
        return None if self.keep_argmax == "auto" else self.keep_argmax


@dataclass(frozen=True)
class Auto(Mixture):
    """Average methods and compositions by cross-validation within the calibration data.

    Every candidate is fitted on all folds but one and gives log-probabilities for the
    rows left out. The contents of the rows decide their folds, so that their order
    changes nothing; copies of a row share a fold. The folds are random, since
    stratified ones would tell the training rows how many rows of each class are held
    out; unless the classes are as even as only design makes them. Up to 1000 rows the
    folds are drawn twice; beyond 2e6 scores only as many folds are held out as give
    5000 rows, and all candidates are tried on a sample first. Candidates that are
    behind by more than 4 standard errors of the paired difference are left out; up to
    2e6 scores not those that an average of all gives 1 % or more.

    Weights w on the simplex then maximise sum_i log sum_j w_j p_ij over the held-out
    rows by EM, started at equal weights, with 1 + 10 C/n rows' worth of prior weight on
    the first candidate, which fade where it is 1 to 1.5 standard errors worse.

    Up to 2000 rows a safe candidate takes over weight where the average's gain over it
    is unsure. For three and more classes it is temperature scaling, with the prior or
    without, whichever is better on the held-out rows; its share is (5 / (5 + wrong
    rows))^2 where the gain is at most 1 standard error, none from 3 on. For two classes
    it is the smoothed sigmoid; its share is .4 where the gain is at most half a
    standard error, none from 2 on.

    Classes without a row, where the scores expect some, are held: the candidates are
    those that can leave their probability as maps without parameters of classes make
    it, and there are no temperatures by predicted class.

    The members of weight 1 % and more are refitted on all rows; p = (1-a) sum_j w_j p_j
    + a/C with a = 1/(4 (n+1)); the weights see 1/(10 (n+1)) of it in every p_ij.
    Averaging beats choosing: the choice among near equals is itself noise.

    For three and more classes every prediction is then kept by a projection (``keep``),
    unless changing predictions lowers the held-out Brier score by more than 3.5
    standard errors, or makes them right more often (McNemar's exact test, one-sided, p
    < .001). From 2000 held-out rows on a last step is fitted to these, under the
    average of the fits that did not see them: temperatures by predicted class, with a
    ridge, where cross-fitting shows a gain, and ``mono(smooth=30; prior=0.25)``.

    ``rule=best`` refits the candidate of the least mean loss instead; ``rule=one-se``
    the one with the fewest stored numbers whose paired difference to it is at most one
    standard error (without the row that makes more than half of that error's square).
    The artifact is then that of the chosen method. The table is recorded under ``auto``
    in the details.

    Candidates unless given depend on the number of classes: confidences; two; up to 12,
    fewer of them from 40000 scores on; up to 50; more. Methods with the option
    ``prior`` have it at .25, and with ``mixture`` have that off: the average mixes in
    the uniform distribution once, a chosen candidate for itself. Where one row, one
    unit or one class leaves nothing to weigh, the first candidate is taken.

    Reference: Wolpert (1992), "Stacked generalization"; Dempster, Laird, Rubin (1977),
    section 4.3 (mixture weights); Breiman, Friedman, Olshen, Stone (1984), section
    3.4.3 (the one-standard-error rule).
    """

    list_order = 12
    aliases = ("automatic",)
    use = "the default: cross-validation weighs the best few methods"
    title = "average by cross-validation"
    Options = AutoOptions
    laws = Laws(confidence=True, weights=True, class_shares=True)

    @classmethod
    def takes_logarithms(cls) -> bool:
        return False  # it puts the floor first where it is needed

    @classmethod
    def moves_predictions(cls, options: AutoOptions) -> bool:
        return options.keep_argmax is not True

    @classmethod
    def is_stage(cls, options: AutoOptions) -> bool:
        return options.rule == "average"

    @classmethod
    def check_options(cls, options: AutoOptions) -> None:
        for candidate in listed(options.candidates):
            name, stage_options = parse_candidate(candidate)
            if "auto" in name.split("+"):
                raise UsageError(
                    f"option candidates of method 'auto': {name} cannot choose itself"
                )
            if not method(name).is_stage(stage_options):
                raise UsageError(
                    f"option candidates of method 'auto': {name} keeps a choice of its"
                    " own, so it is no candidate"
                )

    @classmethod
    def fit(cls, rows: Rows, options: AutoOptions, context: Context) -> Fit[Any]:
        is_average = options.rule == "average"
        rows, order = shuffled_in_memory(rows, context.seed)
        names = listed(options.candidates) or usual_candidates(rows)
        candidates = candidates_for(names, rows, alone=not is_average)
        lacking = [] if options.candidates else lacking_classes(rows)
        if lacking:
            candidates = that_hold_classes(candidates)
            context = replace(context, held=tuple(lacking))
        fit = cls.tried(candidates, rows, options, context)
        if fit.cross_fits is not None:
            fit = replace(fit, cross_fits=partial(in_source, fit.cross_fits, order))
        if not lacking:
            return fit
        which = "class has" if len(lacking) == 1 else "classes have"
        warning = (
            f"{len(lacking)} {which} no row, where the scores expect some"
            f" ({rows.called(lacking)}): parameters of classes move probability among"
            " the others only"
        )
        return replace(fit, warnings=(warning, *fit.warnings))

    @classmethod
    def tried(
        cls,
        candidates: dict[str, Candidate],
        rows: Rows,
        options: AutoOptions,
        context: Context,
    ) -> Fit[Any]:
        """Fit of these candidates, weighed or chosen by cross-validation."""
        is_average = options.rule == "average"
        plan = Plan.of(rows, options.folds, context.seed)
        why_not = reason_not_to_weigh(rows, plan)
        if why_not:
            return cls.first_of(candidates, rows, options, context, why_not)
        if is_average and not options.candidates:
            safe = safe_candidates(next(iter(candidates)), rows)
            candidates = candidates | safe
        work = Trying(candidates, rows, plan, context, options.budget)
        trials = work.results()
        context.seconds.update({trial.name: trial.seconds for trial in trials})
        if all(trial.failed for trial in trials):
            raise FitError(
                f"no candidate could be fitted; {trials[0].name}: {trials[0].failed}"
            )
        if is_average:
            return cls.averaged(trials, rows, plan, options, work.work, context)
        return chosen(trials, rows, plan, options, context)

    @classmethod
    def first_of(
        cls,
        candidates: dict[str, Candidate],
        rows: Rows,
        options: AutoOptions,
        context: Context,
        reason: str,
    ) -> Fit[Any]:
        """Fit of the first candidate alone, where nothing can be weighed."""
        name, candidate = next(iter(candidates.items()))
        if options.keep and rows.k > 1:
            candidate = with_predictions_kept(*candidate)
        fit = fit_candidate(candidate, rows, FittedPrefixes(), context)
        warnings = (*fit.warnings, f"{reason}; auto takes {name}")
        details = {**fit.details, "auto": {"fallback": reason, "chosen": name}}
        if options.rule != "average":
            return replace(alone(fit, candidate), warnings=warnings, details=details)
        member = Member(*candidate, fit.calibrator, 1.0)
        calibrator = cls((member,), UNIFORM_ROWS / (rows.effective_n + 1))
        return Fit(calibrator, fit.status, warnings, details)

    @classmethod
    def averaged(
        cls,
        trials: Sequence[Trial],
        rows: Rows,
        plan: Plan,
        options: AutoOptions,
        work: Work,
        context: Context,
    ) -> Fit["Auto"]:
        """Weigh the candidates, and fit what follows their average."""
        held_rows = rows.take(plan.index)
        share = shares_of(held_rows.weights(), held_rows.n)
        table = table_of(trials, share, options.criterion)
        members, weights = weighed(trials, rows, held_rows)
        for member, weight in zip(members, weights.tolist(), strict=True):
            table[member.name]["weight"] = weight
        work.expect(cost_of(member.candidate) for member in members)
        uniform = UNIFORM_ROWS / (rows.effective_n + 1)
        fits = refitted(members, rows, work, context)
        weighted = []
        for member, weight in zip(members, weights, strict=True):
            fitted = fits[member.name].calibrator
            weighted.append(Member(*member.candidate, fitted, float(weight)))
        calibrator = cls(tuple(weighted), uniform)
        status = max((fit.status for fit in fits.values()), key=STATUSES.index)
        warnings = joint_warnings(fits)
        record: dict[str, Any] = {"rule": "average", "table": list(table.values())}
        cross_fits: CrossFitting | None = None
        if can_cross_fit(rows, plan):
            cross_fits = partial(cls.cross_fits, trials, rows, plan, options, context)
        if rows.kind == "confidence":
            return Fit(
                calibrator,
                status,
                warnings,
                {"auto": record},
                cross_fits=cross_fits,
            )
        of_draw = partial(out_of_fold, cls, members, weights, uniform, rows, plan)
        draws = list(map(of_draw, range(len(plan.fold))))
        predictions = judged_predictions(draws, options.keep)
        moves = not calibrator.members_keep_argmax
        ending = last_step(draws[0], keep=predictions.kept and moves, context=context)
        record["predictions"] = predictions.record()
        record["last_step"] = dict(ending.record)
        return Fit(
            replace(calibrator, then=ending.stages),
            status,
            warnings,
            {"auto": record},
            out_of_fold=ending.rows,
            held_out=ending.unfitted_rows,
            cross_fits=cross_fits,
        )

    @classmethod
    def cross_fits(
        cls,
        trials: Sequence[Trial],
        rows: Rows,
        plan: Plan,
        options: AutoOptions,
        context: Context,
        progress: Progress,
    ) -> CrossFits:
        """Averages without each fold, of the members that were tried on it.

        Weights, predictions and last step are those of the other folds.
        """
        parts = []
        for number, part in enumerate(plan.parts):
            progress("cross-fitting", number, len(plan.parts))
            parts.append(cls.without(part, trials, rows, plan, options, context))
        return CrossFits(parts, plan.fold[0])

    @classmethod
    def without(
        cls,
        part: Part,
        trials: Sequence[Trial],
        rows: Rows,
        plan: Plan,
        options: AutoOptions,
        context: Context,
    ) -> "Auto":
        """The average as it would be without the rows of a part."""
        others = plan.without(part)
        learned = rows.take(others.index)
        places = np.searchsorted(plan.index, others.index)
        found = [trial.on(places) for trial in trials]
        members, weights = weighed(found, learned, learned)
        uniform = UNIFORM_ROWS / (learned.effective_n + 1)
        weighted = []
        for member, weight in zip(members, weights.tolist(), strict=True):
            weighted.append(Member(*member.candidate, member.fits[part], weight))
        average = cls(tuple(weighted), uniform)
        if rows.kind == "confidence":
            return average
        held = out_of_fold(cls, members, weights, uniform, rows, others, part[0])
        kept = judged_predictions([held], options.keep).kept
        moves = not average.members_keep_argmax
        ending = last_step(held, keep=kept and moves, context=context)
        return replace(average, then=ending.stages)


def can_cross_fit(rows: Rows, plan: Plan) -> bool:
    """Test whether trials can also judge the average, see ``Auto.cross_fits``.

    Every row is held out, once; there are so many that their own part in the weights of
    the others hardly matters, and so many scores that fitting anew would take long.
    """
    is_each_held_out = len(plan.index) == rows.n and len(plan.fold) == 1
    is_long = rows.n * rows.k >= LONG_TO_FIT
    return is_each_held_out and is_long and rows.n > FEW_ROWS


def in_source(
    cross_fits: CrossFitting, order: IntArray, progress: Progress
) -> CrossFits:
    """Cross-fits of rows in the order of their source. order : index of each there."""
    return cross_fits(progress).in_order(order)


def usual_candidates(rows: Rows) -> list[str]:
    """List the default candidates for these rows.

    They are behind a floor where probabilities are stored as 0.
    """
    names = default_candidates(rows.n, rows.k)
    if rows.kind == "confidence":
        return names
    if needs_floor(rows):
        return [f"floor+{name}" for name in names]
    return names


def needs_floor(rows: Rows) -> bool:
    """Test whether probabilities are stored as 0, of unknown rounding."""
    if rows.zeros is not None and rows.zeros.is_rounded:
        return False
    return bool(method("floor").fit(rows, None, Context()).details["zeros"])


def reason_not_to_weigh(rows: Rows, plan: Plan) -> str:
    """Why these rows cannot weigh candidates; empty where they can."""
    if rows.n < 2:
        return "there is one row only"
    if plan.fold.max() == 0:
        return "all rows belong to one unit"
    labels = np.unique(rows.labels())
    if len(labels) == 1:
        if rows.kind == "confidence":
            what = "right" if labels[0] else "wrong"
            return f"all answers are {what}"
        return f"all labels are {rows.called(labels)}"
    return ""


# ---- the choice of one candidate


def alone(fit: Fit[Any], candidate: Candidate) -> Fit[Any]:
    """Fit of a chosen candidate, as a method by itself."""
    return replace(fit, chosen=candidate, after=None)


def chosen(
    trials: Sequence[Trial],
    rows: Rows,
    plan: Plan,
    options: AutoOptions,
    context: Context,
) -> Fit[Any]:
    """Fit of the one candidate that the rule chooses, to all rows."""
    held_rows = rows.take(plan.index)
    table = table_of(
        trials, shares_of(held_rows.weights(), held_rows.n), options.criterion
    )
    name = pick(table, options.rule, options.criterion)
    table[name]["chosen"] = True
    trial = next(trial for trial in trials if trial.name == name)
    candidate = trial.candidate
    record: dict[str, Any] = {"rule": options.rule, "table": list(table.values())}
    if options.keep and rows.k > 1:
        candidate = with_predictions_kept(*candidate)
    if method(candidate[0]).moves_predictions(candidate[1]) and rows.k > 1:
        predictions = predictions_of(trial, rows, plan, options.keep)
        record["predictions"] = predictions.record()
        if predictions.kept:
            candidate = with_predictions_kept(*candidate)
    fit = fit_candidate(candidate, rows, FittedPrefixes(), context)
    record["chosen"] = candidate[0]
    return replace(alone(fit, candidate), details={**fit.details, "auto": record})


def predictions_of(
    trial: Trial, rows: Rows, plan: Plan, keep: bool | None
) -> Predictions:
    """Decide whether predictions are kept after one candidate."""
    of_draw = partial(out_of_fold, Auto, [trial], np.ones(1), 0.0, rows, plan)
    return judged_predictions(list(map(of_draw, range(len(plan.fold)))), keep)
