"""``auto``: weigh compositions by cross-validation inside the calibration data."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from calcli.calibrator import Calibrator, Context, Fit, Laws, Options
from calcli.composition import STATUSES, Composition, FittedPrefixes, Member, Mixture
from calcli.errors import CalcliError, FitError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.folds import sampled_folds
from calcli.methods._temperature import USUAL_PRIOR
from calcli.numerics import BoolArray, FloatArray, IntArray
from calcli.parallel import in_order
from calcli.registry import method, parse_options, spelled, split_list, split_method
from calcli.rows import ArrayRows, Rows, ScoreKind

# ---- candidates of ``auto``: which methods a problem of a given size can carry, fitted and scored fold by fold


TWO = (
    "ts, platt(smooth=true), mline, mline(shape=beta), mline(shape=bend), venn-abers, logit-spline, mono, ft, iop,"
    " svs(lambda=0.1)"
)
CANDIDATES = (
    "ts, mono, iop, iop+mono(iop.knots=6), svs, svs(lambda=0.1), sms, sms(lambda=0.1), iop+ft+svs, iop+ft+sms,"
    " mono+ft+svs, mono+ft+sms(sms.lambda=0.2), iop+mono+sms(iop.knots=6;sms.lambda=0.2), ms-odir(lambda=1;final=refit)"
)
LONG = "ts, mono, iop, svs(lambda=0.1), sms(lambda=0.1), iop+ft+svs, iop+ft+sms, ms-odir(lambda=1;final=refit)"
"""From ``LONG_SCORES`` scores on: with many rows the strength of a ridge hardly matters, but time does."""
MANY = "ts, ft, mono, iop, iop+mono(iop.knots=4), iop+mono(iop.knots=6), ft+svs, iop+ft+svs, ft+svs+beta"
"""``mono`` bends log-probabilities, ``iop`` logits. Few rows cannot tell which is right, so the lists, also for few
classes, hold both in sequence too: a stiff curve of the logits, then one of the log-probabilities."""
MATRIX = (
    "ts, mono, iop, iop+mono(iop.knots=4), iop+mono(iop.knots=6), sms(lambda=1), ft+sms(sms.lambda=1),"
    " iop+ft+sms(sms.lambda=1)"
)
"""With matrix scaling in place of vector scaling, up to ``MATRIX_CLASSES``: beyond, it costs more than all else."""
FEW_CLASSES, MATRIX_CLASSES, LONG_SCORES = 12, 50, 40_000

KEPT_BYTES = (
    1 << 27
)  # logits in float64 up to this size are held in memory, for hundreds of walks

Candidate = tuple[str, Options]  # name and options of a method


@dataclass(frozen=True)
class Trial:
    """Result of cross-validating one candidate.

    log_p, brier : log-probabilities of the labels and Brier scores of held-out rows, in all draws (draws, n). failed :
    reason why it could not be fitted, or empty. seconds : time spent on it, by this machine's clock.
    """

    name: str
    candidate: Candidate
    fit: Fit[Any] | None = None
    failed: str = ""
    seconds: float = field(default=0.0, compare=False)
    log_p: FloatArray = field(default_factory=lambda: np.empty(0))
    brier: FloatArray = field(default_factory=lambda: np.empty(0))

    def attempt(
        self,
        rows: Rows,
        known: FittedPrefixes,
        context: Context,
        test: Rows | None = None,
    ) -> "Trial":
        """Fit the candidate, from its earlier fit if any, and score it on ``test``; records errors in ``failed``."""
        began, start = (
            time.monotonic(),
            None if self.fit is None else self.fit.calibrator,
        )
        fit, failed, losses = None, "", tuple[FloatArray, ...]()
        try:
            fit = fit_candidate(self.candidate, rows, known, context, start)
            losses = () if test is None else held_out(fit.calibrator, test)
        except (CalcliError, np.linalg.LinAlgError, FloatingPointError) as error:
            failed = str(error)
        return Trial(
            self.name, self.candidate, fit, failed, time.monotonic() - began, *losses
        )


def listed(candidates: str) -> list[str]:
    """Methods of a comma-separated list in order, without duplicates."""
    return list(dict.fromkeys(map(spelled, split_list(candidates))))


def default_candidates(n: int, k: int) -> list[str]:
    """Default candidates of ``auto`` for n rows of k classes, the cheapest and safest first."""
    if k == 2:
        return listed(TWO)
    if k <= FEW_CLASSES:
        return listed(CANDIDATES if n * k < LONG_SCORES else LONG)
    return listed(MATRIX if k <= MATRIX_CLASSES else MANY)


@lru_cache(maxsize=256)
def parse_candidate(text: str, alone: bool = False) -> Candidate:
    """Method and options of ``svs`` or ``svs(lambda=0.1;...)``. Raises UsageError for unknown names and options.

    Candidates get the usual prior, so that few rows do not sharpen them without end. alone : for the chosen candidate
    of ``rule=best`` or ``one-se``, with its own ``mixture``; an average mixes in the uniform distribution once.
    """
    name, typed = split_method(text)
    given: dict[str, Any] = dict(typed)
    usual = {"mixture": alone, "prior": USUAL_PRIOR}
    for option in msgspec.structs.fields(method(name).Options):
        short = option.encode_name.split(".")[-1]
        if short in usual and not any(short in key for key in given):
            given[option.encode_name] = usual[short]
    return name, parse_options(name, given)


def fit_candidate(
    candidate: Candidate,
    rows: Rows,
    known: FittedPrefixes,
    context: Context,
    start: Calibrator | None = None,
) -> Fit[Any]:
    """Fit a candidate; ``known`` holds earlier fits to these rows, ``start`` a calibrator to start the search at."""
    name, options = candidate
    cls = method(name)
    quiet = Context(context.seed, context.device, start=start)
    if issubclass(cls, Composition):
        return cls.fit_reusing(rows, options, quiet, known)
    options = cls.resolve_options(options, rows.k)
    key = ((name, options),)
    if key not in known.fits:
        known.fits[key] = cls.fit(rows, options, quiet)
    return known.fits[key]


def in_memory(rows: Rows) -> Rows:
    """Rows as float64 logits in memory if they are small and have no transforms, else unchanged."""
    if rows.transforms or 8 * rows.n * rows.k > KEPT_BYTES:
        return rows
    kind: ScoreKind = "logits" if rows.kind == "logits" else "log_probs"
    held = ArrayRows(
        rows.logits(), rows.labels(), kind, weight=rows.weights(), units=rows.units()
    )
    return held.counting(rows.zeros)


def cross_validate(
    candidates: Mapping[str, Candidate],
    rows: Rows,
    draws: IntArray,
    context: Context,
    budget: float | None,
) -> list[Trial]:
    """Fit every candidate to all rows, then to all folds but one, and score the rows left out.

    draws : (draws, n) fold of every row, in each draw of folds. The fits to all rows come first, so that each fit to a
    part starts near its optimum. Folds run in parallel where there are processors; results do not depend on that.

    budget : seconds for everything; candidates that would exceed it, in the order of the
    list, are left out (the first never is).
    """
    parts_of = [
        (draw, i) for draw, fold in enumerate(draws) for i in range(int(fold.max()) + 1)
    ]
    chains = [list(candidates)] if budget is not None else chained(candidates)
    started = time.monotonic()

    def fit(chain: list[str]) -> list[Trial]:
        """Fit candidates with the same first stage to all rows."""
        known, found = FittedPrefixes(), list[Trial]()
        for name in chain:
            trial = Trial(name, candidates[name])
            if (
                budget is not None
                and found
                and (time.monotonic() - started) * (len(parts_of) + 1) > budget
            ):
                found.append(
                    replace(
                        trial, failed=f"left out: the budget of {budget:g} s was spent"
                    )
                )
            else:
                found.append(trial.attempt(rows, known, context))
        return found

    def score(task: tuple[Callable[[], tuple[Rows, ...]], list[str]]) -> list[Trial]:
        """Fit candidates with the same first stage without one fold, and score them on it."""
        (learn, test), known = task[0](), FittedPrefixes()
        begun = (trials[name] for name in task[1])
        return [
            trial.attempt(learn, known, context, test)
            for trial in begun
            if trial.fit is not None
        ]

    trials: dict[str, Trial] = {}
    for done, (chain, found) in enumerate(
        zip(chains, in_order(fit, chains), strict=True)
    ):
        context.progress(f"fitting {chain[0]}", done, len(chains))
        trials |= {trial.name: trial for trial in found}
    log_p, brier = ({name: np.empty(draws.shape) for name in trials} for _ in range(2))
    tasks = (
        (halves, chain)
        for halves in (parted(rows, draws[d] == i) for d, i in parts_of)
        for chain in chains
    )
    places = [(draw, i) for draw, i in parts_of for _ in chains]
    for done, ((draw, i), parts) in enumerate(
        zip(places, in_order(score, tasks), strict=True)
    ):
        context.progress("cross-validating", done + 1, len(places))
        held = draws[draw] == i
        for part in parts:
            whole = trials[part.name]
            if not part.failed:
                log_p[part.name][draw, held], brier[part.name][draw, held] = (
                    part.log_p,
                    part.brier,
                )
            failed, seconds = whole.failed or part.failed, whole.seconds + part.seconds
            trials[part.name] = replace(whole, failed=failed, seconds=seconds)
    return [
        replace(trials[name], log_p=log_p[name], brier=brier[name])
        for name in candidates
    ]


def chained(candidates: Mapping[str, Candidate]) -> list[list[str]]:
    """Group candidates by their first stage, so that it is fitted once; the longest groups first.

    After ``floor``, which takes no time, the second stage counts too.
    """
    found: dict[Any, list[str]] = {}
    for name, (bare, options) in candidates.items():
        cls, stages = method(bare), [(bare, options)]
        if issubclass(cls, Composition):
            stages = list(zip(cls.names, cls.split(options), strict=True))
        found.setdefault(tuple(stages[: 1 + (stages[0][0] == "floor")]), []).append(
            name
        )
    return sorted(found.values(), key=len, reverse=True)


def parted(rows: Rows, held: BoolArray) -> Callable[[], tuple[Rows, ...]]:
    """Function that returns the training rows and the held-out rows, split at its first call."""
    return cache(
        lambda: tuple(
            in_memory(rows.take(np.flatnonzero(part))) for part in (~held, held)
        )
    )


def held_out(calibrator: Calibrator, rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Log-probability of the label and Brier score (summed over classes) of every row."""
    log_p_y, brier = np.empty(rows.n), np.empty(rows.n)
    for block in rows.blocks(rows.places_of(calibrator.required_transforms)):
        to = slice(block.start, block.start + len(block))
        log_p = calibrator.apply(block).log_probs
        log_p_y[to] = log_p[np.arange(len(block)), block.labels]
        brier[to] = np.exp(2 * log_p).sum(axis=1) - 2 * np.exp(log_p_y[to]) + 1
    return log_p_y, brier


def stored_numbers(calibrator: Calibrator) -> int:
    """Number of parameters that a calibrator stores, to compare calibrators by simplicity."""
    if isinstance(calibrator, Composition):
        return sum(stored_numbers(stage.calibrator) for stage in calibrator.stages)
    total = 0
    for parameter in fields(calibrator):
        value = getattr(calibrator, parameter.name)
        if not (isinstance(value, float) and value == parameter.default):
            several = value if isinstance(value, tuple) else (value,)
            total += sum(
                np.size(one)
                for one in several
                if isinstance(one, int | float | np.ndarray)
            )
    return total


MEMBERS = 6
LEAST_WEIGHT = 0.01
PRIOR_ROWS, PRIOR_ROWS_PER_CLASS, FADED = 1.0, 10.0, 1.5
"""Prior weight of the first candidate (temperature scaling) in rows, 1 + 10 k / n for n rows of k classes. It falls
from one standard error above the best held-out NLL on, to 0 at ``FADED`` standard errors."""
FLOOR_ROWS, UNIFORM_ROWS = 0.1, 0.25
"""Weight of the uniform distribution in rows of n + 1: in the held-out probabilities that determine the weights, so
that none of them can cost 20 nats, and in the average."""
REPEATED_ROWS = 1000
"""Most rows for which the folds are drawn twice: weights from one draw are half noise, and few rows cost little."""
LEAST_STEPS, MOST_STEPS, ROWS_PER_STEP = 200, 1000, 5
"""Steps of EM, one for five rows. It starts at equal weights and moves slowly: stopping early shrinks towards them,
which more rows need less."""

LISTED = Meta(
    description="methods and compositions, separated by commas, options in brackets: ts, svs(lambda=0.1); empty: a list"
    " that fits the size of the problem"
)
CRITERION = Meta(
    description="mean loss of held-out rows by which best and one-se choose"
)
RULE = Meta(
    description="a weighted mean of candidates, the best one, or the simplest within one standard error"
)
BUDGET = Meta(
    description="seconds; candidates that would exceed them are left out, the last of the list first"
)


class AutoOptions(Options, frozen=True):
    candidates: Annotated[str, LISTED] = ""
    folds: Annotated[
        int, Meta(ge=2, le=50, description="random parts of the cross-validation")
    ] = 5
    criterion: Annotated[Literal["nll", "brier"], CRITERION] = "nll"
    rule: Annotated[Literal["average", "best", "one-se"], RULE] = "average"
    keep_argmax: Annotated[
        bool, Meta(description="only candidates that are accuracy-preserving")
    ] = False
    budget: Annotated[Annotated[float, Meta(gt=0)] | None, BUDGET] = None


@dataclass(frozen=True)
class Auto(Mixture):
    """Average methods and compositions with weights from cross-validation inside the calibration data.

    Every candidate is fitted on all folds but one and gives log-probabilities for the rows left out. The folds are
    random, since stratified ones would tell the training rows how many rows of each class are held out; unless the
    classes are as even as only design makes them. Up to 1000 rows the folds are drawn twice. Weights w on the simplex
    then maximise sum_i log sum_j w_j p_ij over those rows by EM, started at equal weights, with 1 + 10 C/n rows' worth
    of prior weight on the first candidate, which fade where it is 1 to 1.5 standard errors worse. The (at most six)
    members of weight 1 % and more are refitted on all rows; p = (1-a) sum_j w_j p_j + a/C with a = 1/(4 (n+1)); the
    weights see 1/(10 (n+1)) of it in every p_ij. Averaging beats choosing: the choice among near equals is itself
    noise.

    ``rule=best`` refits the candidate of the least mean loss instead; ``rule=one-se`` the one
    with the fewest stored numbers whose paired difference to it is at most one standard
    error (without the row that makes more than half of that error's square). The artifact
    is then that of the chosen method. The table is recorded under ``auto`` in the details.

    Candidates unless given depend on the number of classes: two; up to 12, fewer of them from 40000 scores on; up to
    50; more. Methods with the option ``prior`` have it at .25, and with ``mixture`` have that off: the average mixes in
    the uniform distribution once, a chosen candidate for itself.

    Reference: Wolpert (1992), "Stacked generalization"; Dempster, Laird, Rubin (1977), section 4.3
    (mixture weights); Breiman, Friedman, Olshen, Stone (1984), section 3.4.3 (the one-standard-error rule).
    """

    list_order = 12
    aliases = ("automatic",)
    use = "when you do not want to choose: cross-validation weighs the best few"
    title = "average by cross-validation"
    composable = False
    Options = AutoOptions
    laws = Laws(weights=True, class_shares=True)

    @classmethod
    def takes_logarithms(cls) -> bool:
        return False  # it puts the floor first where it is needed

    @classmethod
    def fit(cls, rows: Rows, options: AutoOptions, context: Context) -> Fit[Any]:
        averaged, rows = options.rule == "average", in_memory(rows)
        names = listed(options.candidates)
        if not names:
            floored = needs_floor(rows, context)
            names = [
                f"floor+{name}" if floored else name
                for name in default_candidates(rows.n, rows.k)
            ]
        candidates = {}
        for name in usable(names, rows, options):
            bare, own = parse_candidate(name, alone=not averaged)
            candidates[name] = bare, method(bare).resolve_options(own, rows.k)
        if rows.n < 2:
            # One row cannot be held out; the first candidate is the simplest by convention.
            name, candidate = next(iter(candidates.items()))
            only = Trial(
                name,
                candidate,
                fit_candidate(candidate, rows, FittedPrefixes(), context),
            )
            fit = cls.average([only], [1.0], rows.n) if averaged else alone(only)
            warning = (
                "there is one row only, too few to weigh candidates; took the first"
            )
            return replace(fit, warnings=(*fit.warnings, warning))
        rng, y, units = context.rng(), rows.labels(), rows.units()
        folds = min(options.folds, rows.n if units is None else units.n)
        draws = [
            sampled_folds(y, rows.k, folds, rng, units)
            for _ in range(2 if rows.n <= REPEATED_ROWS else 1)
        ]
        trials = cross_validate(
            candidates, rows, np.stack(draws), context, options.budget
        )
        good = [trial for trial in trials if not trial.failed]
        if not good:
            raise FitError(
                f"no candidate could be fitted; {trials[0].name}: {trials[0].failed}"
            )
        weight = rows.weights()
        share = (
            np.full(rows.n, 1.0 / rows.n) if weight is None else weight / weight.sum()
        )
        table = compare(trials, share, options.criterion)
        if averaged:
            prior = PRIOR_ROWS + PRIOR_ROWS_PER_CLASS * rows.k / rows.n
            log_p = np.stack([trial.log_p for trial in good], axis=-1)
            floor = FLOOR_ROWS / (rows.n + 1)  # mixed in, of the uniform distribution
            log_p = np.logaddexp(log_p + np.log1p(-floor), np.log(floor / rows.k))
            kept, weights = sparse_weights(log_p, share, prior)
            for j, weight_j in zip(kept, weights.tolist(), strict=True):
                table[good[j].name]["weight"] = weight_j
            fit = cls.average([good[j] for j in kept], weights, rows.n)
        else:
            chosen = pick(table, options)
            table[chosen]["chosen"] = True
            fit = alone(next(trial for trial in good if trial.name == chosen))
        record: dict[str, Any] = {"rule": options.rule, "table": list(table.values())}
        if fit.chosen is not None:
            record["chosen"] = fit.chosen[0]
        context.seconds.update({trial.name: trial.seconds for trial in trials})
        return replace(fit, details={**fit.details, "auto": record})

    @classmethod
    def average(
        cls, trials: Sequence[Trial], weights: Iterable[float], n: int
    ) -> Fit["Auto"]:
        """Weighted mean of candidates fitted to all n rows."""
        fits = {trial.name: trial.fit for trial in trials if trial.fit is not None}
        status = max((fit.status for fit in fits.values()), key=STATUSES.index)
        warnings = tuple(
            f"{name}: {warning}"
            for name, fit in fits.items()
            for warning in fit.warnings
        )
        parts = zip(trials, fits.values(), weights, strict=True)
        members = tuple(
            Member(*trial.candidate, fit.calibrator, float(weight))
            for trial, fit, weight in parts
        )
        return Fit(cls(members, UNIFORM_ROWS / (n + 1)), status, warnings)

    @classmethod
    def check_options(cls, options: AutoOptions) -> None:
        for candidate in listed(options.candidates):
            name, _ = parse_candidate(candidate)
            if not method(name).composable:
                why = (
                    "cannot choose itself"
                    if name == "auto"
                    else "keeps a choice of its own, so it is no candidate"
                )
                raise UsageError(f"option candidates of method 'auto': {name} {why}")


def needs_floor(rows: Rows, context: Context) -> bool:
    """True where probabilities are stored as 0, and no rounding says how large they are."""
    if rows.zeros is not None and rows.zeros.is_rounded:
        return False
    return bool(method("floor").fit(rows, None, context).details["zeros"])


def usable(names: Sequence[str], rows: Rows, options: AutoOptions) -> list[str]:
    """Candidates that these rows and options allow. Raises FitError when none is left."""
    laws = {name: method(parse_candidate(name)[0]).laws for name in names}
    left = [
        name for name in names if rows.transforms or not laws[name].needs_transforms
    ]
    if not left:
        raise FitError(
            "no candidate is left: those listed need scores under transforms, which this bundle lacks"
        )
    if options.keep_argmax:
        left = [
            name for name in left if laws[name].keeps_argmax and laws[name].monotone
        ]
        if not left:
            raise FitError(
                "no candidate is left: none of those listed is accuracy-preserving (keep_argmax=true)"
            )
    return left


def alone(trial: Trial) -> Fit[Any]:
    """Fit of the chosen candidate, as a method by itself."""
    assert trial.fit is not None
    return replace(
        trial.fit, chosen=trial.candidate, before=None, verify=None, after=None
    )


def likelihood_weights(
    log_p: FloatArray, share: FloatArray, prior_rows: float = 0.0
) -> FloatArray:
    """Mixture weights (m,) by EM from equal ones, with ``prior_rows`` of prior weight on the first.

    log_p : (draws, n, m) held-out log-probabilities of the labels; share : (n,) row weights, sum 1.
    """
    draws, n, m = log_p.shape
    likelihood = np.exp(log_p - log_p.max(axis=2, keepdims=True)).reshape(draws * n, m)
    share = np.tile(share / draws, draws)
    w, prior = np.full(m, 1.0 / m), np.eye(m)[0] * prior_rows
    for _ in range(min(max(LEAST_STEPS, n // ROWS_PER_STEP), MOST_STEPS)):
        w = w * (likelihood.T @ (share / (likelihood @ w)))
        w = (n * w + prior) / (n + prior_rows)
    return np.asarray(w / w.sum())


def sparse_weights(
    log_p: FloatArray, share: FloatArray, prior: float
) -> tuple[list[int], FloatArray]:
    """Indices and weights of the candidates to keep: at most six, none below 1 %.

    log_p : (draws, n, m). prior : prior weight of the first candidate in rows (see ``FADED``).
    """
    mean_log_p = log_p.mean(axis=0)
    behind = mean_log_p[:, np.argmax(share @ mean_log_p)] - mean_log_p[:, 0]
    mean = float(share @ behind)
    error = max(float(np.sqrt(share**2 @ (behind - mean) ** 2)), 1e-300)
    prior_rows = prior * float(np.interp(mean, [error, FADED * error], [1.0, 0.0]))
    w = likelihood_weights(log_p, share, prior_rows)
    heaviest = sorted(np.argsort(-w, kind="stable")[:MEMBERS].tolist())
    kept = [j for j in heaviest if w[j] >= LEAST_WEIGHT]
    w = likelihood_weights(log_p[..., kept], share, prior_rows if kept[0] == 0 else 0.0)
    kept, w = (
        [j for j, one in zip(kept, w, strict=True) if one >= LEAST_WEIGHT],
        w[w >= LEAST_WEIGHT],
    )
    return kept, w / w.sum()


def compare(
    trials: Sequence[Trial], share: FloatArray, criterion: str
) -> dict[str, dict[str, Any]]:
    """Table row by name: mean held-out loss, paired difference to the best, standard errors over rows."""
    fitted = [trial for trial in trials if not trial.failed]
    losses = {t.name: -t.log_p.mean(axis=0) for t in fitted}
    if criterion == "brier":
        losses = {t.name: t.brier.mean(axis=0) for t in fitted}
    best = min(losses.values(), key=lambda loss: float(share @ loss))
    table: dict[str, dict[str, Any]] = {
        t.name: {"method": t.name, "failed": t.failed} for t in trials
    }
    for trial in trials:
        if trial.fit is None or trial.failed:
            continue
        loss = losses[trial.name]
        mean, difference = float(share @ loss), loss - best
        own = {criterion: mean, "error": float(np.sqrt(share**2 @ (loss - mean) ** 2))}
        behind = {
            "difference": float(share @ difference),
            "standard_error": guarded_error(difference, share),
        }
        about = {
            "method": trial.name,
            "parameters": stored_numbers(trial.fit.calibrator),
        }
        table[trial.name] = {**about, **own, **behind}
    return table


def guarded_error(difference: FloatArray, share: FloatArray) -> float:
    """Standard error of a weighted mean of independent rows, without a row that makes more than half its square."""
    squares = share**2 * (difference - share @ difference) ** 2
    total, largest = float(squares.sum()), float(squares.max())
    return float(np.sqrt(total - largest if largest > 0.5 * total else total))


def pick(table: dict[str, dict[str, Any]], options: AutoOptions) -> str:
    """Name of the candidate that ``best`` or ``one-se`` chooses; the first listed among equals."""
    good = [row for row in table.values() if "failed" not in row]
    by: str = options.criterion
    if options.rule == "one-se":
        good, by = (
            [row for row in good if row["difference"] <= row["standard_error"]],
            "parameters",
        )
    return str(min(good, key=lambda row: row[by])["method"])
