"""Adapt a calibrator to class frequencies that changed, from unlabelled rows or known
frequencies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from calcli.calibrator import Calibrator, Context
from calcli.composition import Composition, Stage
from calcli.errors import DataError, FitError, UsageError
from calcli.fitting.compatibility import check_fits
from calcli.fitting.rows_of_fit import fitted_on, is_whole_fit
from calcli.folds import content_folds
from calcli.io.artifact import Artifact, FitRecord
from calcli.io.dataset import DataSet
from calcli.methods.compared.identity import Identity
from calcli.methods.prior import LEAST, PriorShift
from calcli.metrics.collect import predicted
from calcli.numerics import FloatArray
from calcli.registry import method
from calcli.rows import Rows, ScoreKind
from calcli.statistics.intervals import normal_quantile
from calcli.statistics.label_shift import Sampling, Shift, Source, estimate_shift

FOLDS = 5
RESAMPLES = 200
OPEN = 0.05  # the calibrator is changed where the p-value of no shift is at most this
# nothing is changed where the p-value of the assumption of label shift is at most this
REFUSED = 0.01
SMALL = 0.0005  # least difference of two frequencies that three decimals show
ROWS_A_CLASS = 5  # fewest unlabelled rows per class


@dataclass(frozen=True)
class Adapted:
    """Result of an adaptation.

    artifact : the adapted calibrator, or the original where no shift was found. changed
    : was it adapted? source, target : (k,) class frequencies before and now. shift :
    the estimate from the rows, None where only the frequencies were given. n : number
    of unlabelled rows of positive weight.
    """

    artifact: Artifact
    changed: bool
    source: FloatArray
    target: FloatArray
    shift: Shift | None
    n: int

    @property
    def holds(self) -> bool:
        """True unless the rows contradict label shift from the source."""
        return self.shift is None or self.shift.distance_p > REFUSED

    @property
    def contradicted(self) -> list[int]:
        """Classes whose frequency now is not what the rows show, most distant first.

        The intervals are widened so that all of them hold together (Bonferroni). A
        difference below ``SMALL`` does not count.
        """
        if self.shift is None:
            return []
        estimate = self.shift.shares
        wider = normal_quantile(1.0 - 0.025 / len(estimate)) / normal_quantile(0.975)
        low = estimate - wider * (estimate - self.shift.low)
        high = estimate + wider * (self.shift.high - estimate)
        distance = np.abs(self.target - estimate)
        is_outside = (self.target < low) | (self.target > high)
        classes = np.flatnonzero(is_outside & (distance >= SMALL))
        return list(map(int, classes[np.argsort(-distance[classes], kind="stable")]))


def adapt(
    artifact: Artifact,
    where: str,
    rows: DataSet | None,
    source: DataSet | None,
    prior: Sequence[float] | None,
    context: Context,
    *,
    force: bool,
    is_of_fit: bool,
) -> Adapted:
    """Adapt a calibrator to rows whose class frequencies differ from those of its fit.

    artifact : with class biases (``Laws.class_shares``); where : its name. rows :
    unlabelled, of the model as it is now. source : labelled rows of the model as it
    was: those of the fit (which are then cross-fitted), or others. prior : class
    frequencies now, if known. force : adapt even where the rows contradict label shift.
    is_of_fit : source must hold the rows of the fit.

    Raises UsageError for a calibrator without class biases and for invalid shares;
    DataError for rows of other scores, and for a calibrator that lacks the class
    frequencies of its fit; FitError for fewer than 5 rows a class, and where the rows
    contradict label shift.
    """
    k = artifact.n_classes
    _check_has_shares(artifact, where)
    _check_have_classes([rows, source])
    n = 0 if rows is None else _count_weighted(rows)
    shift: Shift | None = None
    if rows is not None and source is not None:
        for samples in (rows, source):
            check_fits(artifact, where, samples)
            samples.check_weights()
        shift, shares = _estimated(artifact, rows, source, context, is_of_fit)
    else:
        shares = _shares_before(artifact, where, source)
    shares = _normalised(shares)
    target = shares if shift is None else _normalised(shift.shares)
    if prior is not None:
        target = checked_shares("--prior", prior, k)
    changed = prior is not None or (shift is not None and shift.ratio_p <= OPEN)
    adapted = with_prior(artifact, shares, target, n) if changed else artifact
    result = Adapted(adapted, changed, shares, target, shift, n)
    if not result.holds and not force:
        assert rows is not None and source is not None and shift is not None
        raise _contradiction(rows.name, source, shift.distance_p)
    return result


def _check_have_classes(samples: Sequence[DataSet | None]) -> None:
    """Refuse rows whose columns are options. Raises DataError."""
    for rows in samples:
        if rows is not None and rows.n_options is not None:
            raise DataError(
                f"{rows.name}: its columns are the options of the row, no classes:"
                " there are no class frequencies to adapt to"
            )


def _shares_before(
    artifact: Artifact, where: str, source: DataSet | None
) -> FloatArray:
    """Class frequencies before the change, (k,) not normalised: the mean probabilities
    of the source, or those of the fit. Raises DataError.
    """
    if source is None:
        return _shares_of_fit(artifact, where)
    p = _probabilities(artifact.calibrator, source)
    return np.average(p, axis=0, weights=source.weights())


def _check_has_shares(artifact: Artifact, where: str) -> None:
    """Refuse a calibrator that shows no class frequencies. Raises UsageError."""
    if artifact.method.endswith("+prior"):
        raise UsageError(
            f"{where}: is adapted already; adapt the calibrator that it was made from"
        )
    laws = artifact.calibrator.laws
    is_top_only = laws.top_label_only and artifact.n_classes != 2
    is_confidence = artifact.input_kind == "confidence"
    if not laws.class_shares or is_top_only or is_confidence:
        lacks = "has no class biases, so it shows no class frequencies"
        raise UsageError(
            f"{where}: method {artifact.method} {lacks}; fit svs (or vs, auto) and"
            " adapt that"
        )


def _estimated(
    artifact: Artifact,
    rows: DataSet,
    source: DataSet,
    context: Context,
    is_of_fit: bool,
) -> tuple[Shift, FloatArray]:
    """The shift from labelled to unlabelled rows, and the class frequencies before it.

    Raises FitError for fewer than 5 unlabelled rows a class.
    """
    k = artifact.n_classes
    new = _weighted_rows(rows)
    if new.n < ROWS_A_CLASS * k:
        raise FitError(
            f"{rows.name}: {new.n} rows say too little of {k} class frequencies; at"
            f" least {ROWS_A_CLASS * k}"
        )
    old = _weighted_rows(source)
    uncalibrated = Identity()
    before = Source(
        _held_out(artifact, source, old, context, is_of_fit),
        old.labels(),
        _probabilities(uncalibrated, old),
        Sampling.of(old.n, old.units(), old.weights()),
    )
    shift = estimate_shift(
        _probabilities(artifact.calibrator, new),
        _probabilities(uncalibrated, new),
        before,
        RESAMPLES,
        context.rng(),
        Sampling.of(new.n, new.units(), new.weights()),
    )
    return shift, before.shares


def _count_weighted(rows: DataSet) -> int:
    """Count the rows of positive weight."""
    weight = rows.weights()
    return rows.n if weight is None else int(np.count_nonzero(weight))


def _weighted_rows(rows: DataSet) -> Rows:
    """Select the rows of positive weight, which unlike ``counted`` need no labels."""
    weight = rows.weights()
    if weight is None or weight.all():
        return rows
    return rows.take(np.flatnonzero(weight))


def _shares_of_fit(artifact: Artifact, where: str) -> FloatArray:
    """Class frequencies that the artifact has from its fit, (k,) not normalised.

    Raises DataError where it has none.
    """
    if artifact.fit.effective_rows is not msgspec.UNSET:
        raise DataError(
            f"{where}: was fitted with sample weights, and stores no weighted class"
            " frequencies; name labelled rows of the model before: --source BUNDLE"
        )
    if not artifact.fit.label_counts:
        raise DataError(
            f"{where}: lacks the class frequencies of its fit, as calibrators of older"
            " versions do; fit again, or name labelled rows of the model before:"
            " --source BUNDLE"
        )
    return np.array(artifact.fit.label_counts, dtype=float) + 0.5


def known_shift(
    source: Sequence[float], target: Sequence[float], kind: ScoreKind
) -> Adapted:
    """Correct scores of a model for class frequencies that are known, without any rows.

    source, target : frequencies in training and now. kind : of the scores to apply it
    to. Raises UsageError for shares that are none.
    """
    k = max(2, len(source))
    before = checked_shares("--from", source, k)
    now = checked_shares("--prior", target, k)
    artifact = Artifact(
        method="prior",
        options={},
        calibrator=PriorShift(before, now),
        n_classes=k,
        input_kind=kind,
        class_names=None,
        fit=FitRecord(n=0, status="ok"),
    )
    return Adapted(artifact, True, before, now, None, 0)


def checked_shares(option: str, shares: Sequence[float], k: int) -> FloatArray:
    """Shares of k classes, (k,).

    Raises UsageError unless they are positive and sum to 1.
    """
    numbers = np.array(shares, dtype=float)
    are_positive = len(numbers) == k and bool(np.all(numbers > 0))
    if are_positive and abs(numbers.sum() - 1.0) <= 1e-6:
        return _normalised(numbers)
    words = ",".join(f"{share:g}" for share in shares)
    raise UsageError(f"{option} {words}: expected {k} positive shares that sum to 1")


def _normalised(shares: FloatArray) -> FloatArray:
    """Shares with sum 1, none of them 0."""
    return np.maximum(shares / shares.sum(), LEAST)


def _contradiction(name: str, source: DataSet, p_value: float) -> FitError:
    absent = np.flatnonzero(np.bincount(source.labels(), minlength=source.k) == 0)
    lacks = ""
    if len(absent):
        lacks = f" or are of class {absent[0]}, which {source.name} lacks"
    return FitError(
        f"{name}: is not what other class frequencies would make of {source.name}"
        f" (p = {p_value:.3f}): the inputs have changed too{lacks}, and shares"
        " estimated from such rows do harm; label some rows and refit, or adapt all the"
        " same with --again"
    )


def with_prior(
    artifact: Artifact, source: FloatArray, target: FloatArray, n: int
) -> Artifact:
    """Append the prior shift as a last stage.

    The record of the fit is kept, with the number of rows adapted to.
    """
    old = artifact.calibrator
    options = artifact.options
    name = f"{artifact.method}+prior"
    if isinstance(old, Composition):
        stages = old.stages
    else:
        stages = (Stage(artifact.method, _options(artifact), old),)
        options = {f"{artifact.method}.{key}": value for key, value in options.items()}
    last = Stage("prior", PriorShift.Options(), PriorShift(source, target))
    calibrator = method(name)((*stages, last))  # type: ignore[call-arg]
    calibrator = calibrator.counting(old.zeros)
    fit = msgspec.structs.replace(
        artifact.fit, details={**artifact.fit.details, "adapted_to": n}
    )
    return msgspec.structs.replace(
        artifact, method=name, options=options, calibrator=calibrator, fit=fit
    )


def _options(artifact: Artifact) -> Any:
    return msgspec.convert(artifact.options, method(artifact.method).Options)


def _probabilities(calibrator: Calibrator, rows: Rows) -> FloatArray:
    return np.exp(predicted(rows, calibrator).log_probs)


def _held_out(
    artifact: Artifact, source: DataSet, old: Rows, context: Context, is_of_fit: bool
) -> FloatArray:
    """Calibrated probabilities of labelled rows, (n, k).

    Cross-fitted in 5 folds where rows of the fit are among them, in any order. old :
    the rows of the source that have a weight.
    """
    p = _probabilities(artifact.calibrator, old)
    if is_of_fit and not is_whole_fit(artifact, source):
        raise DataError(
            f"{source.name}: holds other rows than at the fit; name labelled rows of"
            " the model before: --source BUNDLE"
        )
    if not is_of_fit and fitted_on(artifact, source) is None:
        return p
    fold = content_folds(old, FOLDS, context.seed)
    for f in np.unique(fold):
        context.progress("cross-fitting", int(f), FOLDS)
        kept = np.flatnonzero(fold != f)
        left_out = np.flatnonzero(fold == f)
        fit = method(artifact.method).fit(
            old.take(kept), _options(artifact), Context(context.seed)
        )
        p[left_out] = _probabilities(fit.calibrator, old.take(left_out))
    return p
