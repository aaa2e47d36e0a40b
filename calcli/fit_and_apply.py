"""Fit and apply calibrators.

Fitting goes from rows to an artifact with its record of the fit, applying from an
artifact to calibrated rows.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from calcli.calibrator import Calibrator, Context, Fit, Laws, Options
from calcli.errors import DataError, FitError
from calcli.fit_summary import Summary
from calcli.io.artifact import Artifact, FitRecord
from calcli.io.bundle import open_bundle
from calcli.io.cells import texts_of_names
from calcli.io.dataset import DataSet
from calcli.io.locate import Layout, split_where
from calcli.io.provenance import check_chain, check_upstream
from calcli.io.row_facts import (
    ALL,
    SignatureSet,
    chance_of_equal,
    facts_of,
    matches_by_chance,
    overlap,
    part_in_words,
    sketch,
    some_signed_rows,
    unwritten,
)
from calcli.kernels.device import idle
from calcli.kernels.numpy.temperature import softmax_at, summaries_at, summary_at
from calcli.methods.compared.identity import Identity
from calcli.metrics.collect import CALIBRATED, reduced, summarise
from calcli.metrics.intervals import mean_of, t_p_value
from calcli.metrics.rowtable import RowTable
from calcli.metrics.significance import p_text
from calcli.metrics.warnings import data_warnings, zero_warnings
from calcli.names import places_of_groups
from calcli.numerics import BREAKDOWNS, AnyArray, FloatArray
from calcli.parallel import same_threads
from calcli.registry import (
    method,
    method_names,
    with_predictions_free,
    with_predictions_kept,
)
from calcli.rows import Block, Rows, ScoreKind
from calcli.statistics.paired import PairedSums, fair_signs
from calcli.statistics.units import Units, label_effect

BELOW_CHANCE = 4.0
"""Standard errors from which an accuracy below 1/k is significant."""

LEAP = 0.1
"""Gain in accuracy that no miscalibration explains, where it at least doubles."""

CHANCE_OF_EQUAL = 0.005
"""Chance above which equal rows may be others of the same source."""

LEVEL = 0.05
"""Significance level of a lower accuracy."""

WORSE = 1e-9
"""Increase of the NLL above which it is worse; a smaller one is rounding."""

HURT = 1.01
"""Factor above which the Brier score is worse."""


@same_threads()
def fit_artifact(
    name: str,
    options: Options,
    rows: DataSet,
    context: Context,
    keep_predictions: bool | None = None,
) -> Artifact:
    """Fit a method and describe what it did to the calibration data.

    options : the method's own, from ``parse_options``. keep_predictions : of a method
    that moves predictions, keep them by a projection; False lets ``auto`` change them;
    None leaves the method as it is.

    Raises DataError for bad rows, FitError for a fit that is impossible. A fit that
    merely failed to help has a status and warnings.
    """
    try:
        if rows.kind == "confidence":
            _check_fits_confidences(name)
        if rows.n_options is not None:
            options = for_options_of_rows(name, options)
        name, options = resolved(name, options, rows, keep_predictions)
        for column in method(name).columns_to_fit(options):
            rows.carry(column)
        counted = rows.counted()
        fitted = method(name).fit(counted, options, context)
        if fitted.chosen is not None:
            name, options = fitted.chosen
            options = method(name).resolve_options(options, rows.k)
        before, after = _before_and_after(counted, fitted, context)
    except FitError as problem:
        raise FitError(f"{rows.name}: {problem}") from None
    except BREAKDOWNS as problem:
        raise _breakdown(name, rows, str(problem)) from problem
    metrics_before = before.values()
    metrics_after = after.values()
    if not np.isfinite(list(metrics_after.values())).all():
        raise _breakdown(name, rows, "its probabilities are not finite")
    accuracy_warnings: list[str] = []
    if metrics_after["accuracy"] < metrics_before["accuracy"] - WORSE:
        accuracy_warnings = fallen(
            counted, fitted.calibrator, metrics_before, metrics_after
        )
    start = before
    if rows.kind == "probs" and after.nll > before.nll:
        # What zeros count as is more than rows sum to; calibrated rows sum to 1.
        floored = summarise(counted, Identity(), context.progress)
        start = replace(before, nll=floored.nll)
    worse = worsening(fitted, name, options, counted, start, after)
    status = fitted.status
    if status == "ok" and (worse or unwritten(rows)):
        status = "degenerate"
    warnings = [
        *fit_warnings(rows, before, fitted.calibrator.laws),
        *fitted.warnings,
        *idle(name, context),
        *context.notes,
        *accuracy_warnings,
    ]
    if worse:
        warnings.append(worse)
    warnings += harm(name, rows, start, after, worse=bool(worse))
    resolution: float | list[float] | UnsetType = UNSET
    clip: float | UnsetType = UNSET
    zeros = rows.zeros
    if zeros is not None:
        resolution = zeros.resolution
        if zeros.clip:
            clip = zeros.clip
    units = counted.units()
    effect: float | UnsetType = UNSET
    details = dict(fitted.details)
    if units is not None:
        details["units"] = units.n
        if rows.k > 1:
            effect = label_effect(counted.labels(), rows.k, units)
    record = FitRecord(
        n=before.n,
        status=status,
        warnings=warnings,
        source=rows.name,
        data_sha256=rows.data_sha256,
        row_sketch=sketch(facts_of(rows)),
        label_counts=before.label_counts.tolist() if rows.k > 1 else [],
        label_effect=effect,
        effective_rows=float(before.weight) if before.weighted else UNSET,
        ignored=rows.ignored,
        seed=context.seed,
        resolution=resolution,
        clip=clip,
        before={**metrics_before},
        after={**metrics_after},
        details=details,
        upstream=list(rows.upstream) or None,
    )
    return Artifact(
        method=name,
        options=options.recorded(),
        calibrator=fitted.calibrator.counting(zeros),
        n_classes=rows.k,
        input_kind=rows.kind,
        class_names=rows.class_names,
        fit=record,
        seconds=context.seconds,
    )


def _check_fits_confidences(name: str) -> None:
    """Refuse a method that needs the scores of every class. Raises FitError."""
    if method(name).laws.confidence:
        return
    others = [other for other in method_names() if method(other).laws.confidence]
    others.sort(key=lambda other: method(other).list_order)
    raise FitError(
        f"method {name} needs the scores of every class, this bundle holds one"
        f" confidence a row; these methods need no more: {', '.join(others)}"
    )


def resolved(
    name: str, options: Options, rows: Rows, keep_predictions: bool | None
) -> tuple[str, Options]:
    """The method for these rows, with all options explicit.

    keep_predictions : as for ``fit_artifact``. Raises FitError.
    """
    options = method(name).resolve_options(options, rows.k)
    if keep_predictions is None or rows.kind == "confidence":
        return name, options
    if keep_predictions:
        return with_predictions_kept(name, options)
    return with_predictions_free(name, options)


FOR_OPTIONS = "ts,ft,mono,iop"
"""Candidates of ``auto`` where columns are the options of the row."""


def for_options_of_rows(name: str, options: Options) -> Options:
    """Options of a method for rows whose columns are the options of the row.

    Raises FitError for a method with parameters of classes.
    """
    if name == "auto":
        if not getattr(options, "candidates", ""):
            return msgspec.structs.replace(options, candidates=FOR_OPTIONS)
        return options
    for part in name.split("+"):
        laws = method(part).laws
        is_of_rows = laws.keeps_argmax or laws.top_label_only
        if not (laws.equivariant and is_of_rows) or laws.needs_transforms:
            raise FitError(
                f"method {part} has parameters of classes, and columns are the"
                " options of the row here; ts, ec, ets, ft, mono, iop, auto and maps of"
                " the confidence treat all options alike"
            )
    return options


def _breakdown(name: str, rows: Rows, reason: str) -> FitError:
    lowest: list[float] = []
    highest: list[float] = []
    for block in rows.blocks():
        lowest.append(float(block.scores.min()))
        highest.append(float(block.scores.max()))
    reach = f"their {rows.kind} go from {min(lowest):.3g} to {max(highest):.3g}"
    masks = "are some of them masks? ts and ec stand any range"
    return FitError(
        f"method {name} broke down on these rows ({reason}); {reach}: {masks}"
    )


def _before_and_after(
    rows: Rows, fitted: Fit[Any], context: Context
) -> tuple[Summary, Summary]:
    """Summaries of the rows without and with a fitted calibrator."""
    scale = fitted.calibrator.logit_scale
    if scale is not None and _are_logits(rows):
        both = summaries_at(rows, scale)
        return both.before, both.after
    before = _summary_before(rows, context)
    if fitted.after is not None:
        return before, fitted.after()
    return before, summarise(rows, fitted.calibrator, context.progress)


def _summary_before(rows: Rows, context: Context) -> Summary:
    """Summary of the rows without a calibrator, by the faster loop if there is one."""
    if _are_logits(rows):
        return summary_at(rows, 1.0)
    return summarise(rows, None, context.progress)


def _are_logits(rows: Rows) -> bool:
    return rows.kind in ("logits", "log_probs")


def fit_warnings(rows: DataSet, before: Summary, laws: Laws) -> list[str]:
    """Warnings about the calibration data, and about the method on them."""
    classes = int((before.label_counts > 0).sum()) if rows.k > 1 else None
    warnings = [*rows.caveats, *data_warnings(before.n, classes, before.spread)]
    accuracy = before.correct / before.weight
    chance = 1.0 / rows.k
    standard_error = np.sqrt(chance * (1.0 - chance) / before.n)
    if rows.k > 1 and accuracy + BELOW_CHANCE * standard_error < chance:
        warnings.append(
            f"accuracy {accuracy:.4f} is below chance ({chance:.4f}): do labels and"
            " scores belong to the same rows and the same order of classes?"
        )
    absent = np.flatnonzero(before.label_counts == 0)
    if len(absent):
        have = "class has" if len(absent) == 1 else "classes have"
        warnings.append(
            f"{len(absent)} of {rows.k} {have} no row in the calibration data:"
            f" {rows.called(absent)}"
        )
    if before.weighted and not laws.weights:
        warnings.append("the bundle has sample weights, which this method does not use")
    return warnings


def fallen(
    rows: Rows,
    calibrator: Calibrator,
    before: dict[str, float],
    after: dict[str, float],
) -> list[str]:
    """Warning where the accuracy fell significantly.

    By McNemar's test on the same rows. Where these have units it must be significant by Student's test over units, too.
    before, after : values of the summaries.
    """
    both = [None, calibrator]
    units = rows.units()
    if units is None:
        sums = reduced(rows, both, _change_of_right, top_only=True, add_up=True)
        p = fair_signs(reduce(add, sums))
    else:
        changes = reduced(rows, both, _changes_of_right, top_only=True)
        p = _fall_by_unit(np.concatenate(list(changes)), rows.weights(), units)
    if p > LEVEL:
        return []
    fell = (
        "accuracy on the calibration data fell from"
        f" {before['accuracy']:.4f} to {after['accuracy']:.4f}"
    )
    kept = "--keep-predictions keeps it; ts, ec, ets and ft are accuracy-preserving"
    return [f"{fell} ({p_text(p)}, McNemar's test); {kept}"]


def _changes_of_right(tables: Sequence[RowTable]) -> FloatArray:
    """1.0 where a row becomes right, -1.0 where it becomes wrong, else 0."""
    before, after = tables
    return after.correct - before.correct


def _change_of_right(tables: Sequence[RowTable]) -> PairedSums:
    return PairedSums.of(_changes_of_right(tables), tables[1].weight)


def _fall_by_unit(
    changes: FloatArray, weight: FloatArray | None, units: Units
) -> float:
    """P-value of changes (n,).

    The larger of McNemar's of rows and Student's over units.
    """
    of_rows = fair_signs(PairedSums.of(changes, weight))
    mean = mean_of(changes, weight, units)
    if not mean.reach > 0.0:
        return of_rows
    return max(of_rows, t_p_value(mean.value / mean.reach, mean.freedom))


OWN_NOISE = 1.0
"""Rise of a total loss that priors and mixed-in uniform probabilities may cost.

In nats, or Brier points.
"""

CLEARLY = 1.645
"""Standard errors from which the rise of a mean is significant (one-sided, .05)."""


def worsening(
    fitted: Fit[Any],
    name: str,
    options: Options,
    rows: Rows,
    before: Summary,
    after: Summary,
) -> str:
    """Warning where a fit made its own rows worse; empty where it did not.

    The status of such a fit is never ``ok``.

    By the NLL, also where a method fits something else. A map of bins (hb, sb, ir) or
    of the mean confidence (ec) that makes the log loss of its own rows significantly
    larger takes more than it gives. By the Brier score where the method minimises that
    (``loss=brier``), and where labels have a stored zero of unknown size, as the NLL
    then depends on that more than on all else. There any rise beyond ``OWN_NOISE``
    counts.

    Methods that guarantee it raise the NLL by rounding only. Others have noise of their
    own. Priors, smoothed targets and mixed-in uniform probabilities cost about what one
    row weighs, a nat in total. Where scores are right already, a map of another kind
    ends a little above as often as below. Their rise must be more than ``OWN_NOISE`` in
    total and ``CLEARLY`` standard errors on average (paired rows, by unit). A label
    that gets the probability 0 is no noise: no other row makes up for it.

    before, after : summaries of the rows.
    """
    zeros = rows.zeros
    is_unknown = before.zeros > 0 and zeros is not None and not zeros.is_rounded
    by_brier = is_unknown or getattr(options, "loss", "nll") == "brier"
    loss = "brier" if by_brier else "nll"
    low = getattr(before, loss) / before.weight
    high = getattr(after, loss) / after.weight
    if not high > low + WORSE * max(1.0, low):
        return ""
    rules_out_labels = not by_brier and after.zeros > before.zeros
    is_guaranteed = not by_brier and method(name).laws.improves_nll
    if not (rules_out_labels or is_guaranteed):
        total, errors = _rise(rows, fitted.calibrator, loss)
        is_clear = is_unknown or errors > CLEARLY
        if total <= OWN_NOISE or not is_clear:
            return ""
    what = "the Brier score" if by_brier else "the NLL"
    why = ""
    if is_unknown:
        have = "label has" if before.zeros == 1 else "labels have"
        why = f" ({before.zeros} {have} a stored 0 of unknown size)"
    elif rules_out_labels:
        get = "label gets" if after.zeros == 1 else "labels get"
        why = f" ({after.zeros} {get} the probability 0)"
    return (
        f"the fit made its own rows worse: {what} rose from {low:.4f} to"
        f" {high:.4f}{why}; leave them uncalibrated, or fit with --method auto"
    )


def _rise(rows: Rows, calibrator: Calibrator, loss: str) -> tuple[float, float]:
    """How much the total loss of some rows rises, and the rise of its mean.

    The total counts effective rows, the mean is in standard errors.
    """
    start = None if rows.kind == "confidence" else Identity()
    parts = reduced(rows, [start, calibrator], partial(_changes, loss))
    change = np.concatenate(list(parts))
    weight = rows.weights()
    if weight is None:
        weight = np.ones(rows.n)
    mean = float(np.average(change, weights=weight))
    effective = float(weight.sum() ** 2 / (weight @ weight))
    deviations = weight * (change - mean)
    count = float(rows.n)
    units = rows.units()
    if units is not None:
        deviations = units.sums(deviations)
        count = float(units.n)
    if count < 2.0 or not deviations.any():
        return mean * effective, np.inf
    total_variance = deviations @ deviations * count / (count - 1.0)
    standard_error = np.sqrt(total_variance) / weight.sum()
    return mean * effective, float(mean / standard_error)


def _changes(loss: str, tables: Sequence[RowTable]) -> FloatArray:
    """Rise of a loss of some rows, (b,)."""
    before, after = tables
    return np.asarray(getattr(after, loss) - getattr(before, loss))


def harm(
    name: str, rows: Rows, before: Summary, after: Summary, worse: bool
) -> list[str]:
    """Warnings where a method made the calibration data worse.

    worse : it is said of the loss that the method fits.
    """
    metrics_before = before.values()
    metrics_after = after.values()
    zeros = rows.zeros
    if zeros is None:
        zeros = CALIBRATED
    warnings = zero_warnings(before.zeros, before.n, rows.kind, zeros.counts_as)
    unknown = bool(warnings) and not zeros.is_rounded and rows.kind != "confidence"
    if unknown and method(name).takes_logarithms():
        warnings.append(_advice_on_zeros(name))
    rose = {}
    for metric, value in metrics_after.items():
        value_before = metrics_before[metric]
        rose[metric] = (
            f"on the calibration data rose from {value_before:.4f} to {value:.4f}"
        )
    accuracy_before = metrics_before["accuracy"]
    accuracy = metrics_after["accuracy"]
    if accuracy > max(2.0 * accuracy_before, accuracy_before + LEAP):
        warnings.append(
            f"accuracy {rose['accuracy']}, more than miscalibration explains: are the"
            " classes of scores and labels in the same order?"
        )
    nll = metrics_after.get("nll")
    if nll is not None and not worse and nll > metrics_before["nll"] + WORSE:
        hint = "" if before.zeros else "; ts, iop and mono never worsen it"
        warnings.append(f"NLL {rose['nll']}{hint}")
    brier = metrics_after.get("brier")
    if brier is not None and brier > HURT * metrics_before["brier"]:
        warnings.append(
            f"the Brier score {rose['brier']}: by it these samples are better left"
            " uncalibrated; --method auto compares methods by cross-validation"
        )
    for event, count in after.counts.items():
        if not count:
            continue
        gain = ""
        if event == "predictions_changed":
            points = 100 * (accuracy - accuracy_before)
            gain = f" (accuracy {points:+.1f} points)"
        words = event.replace("_", " ")
        warnings.append(f"{count} of {after.n} calibration rows: {words}{gain}")
    return warnings


def _advice_on_zeros(name: str) -> str:
    """What to do where a method takes logarithms and the data have zeros."""
    how = "floor+ts"
    by_all = name.removesuffix("-by")
    if by_all != name:
        how = f"floor+{by_all}, for all groups alike"
    return (
        "a probability of 0 has no logarithm: fit with --method auto, or put floor+"
        f" before the method ({how})"
    )


def check_fits(
    artifact: Artifact, where: str, rows: DataSet, *, again: bool = False
) -> list[str]:
    """Refuse a calibrator that was fitted to other scores than these.

    Returns warnings for what is allowed. Raises DataError

    - for another number of classes,
    - for logits where the calibrator knows only log-probabilities (or the reverse) and
      can tell the difference,
    - for classes in another order,
    - unless ``again``, for rows that have been through other calibrators than those
      that it was fitted on.
    """
    kind = artifact.input_kind
    k = artifact.n_classes
    calibrator = artifact.calibrator
    if (kind == "confidence") != (rows.kind == "confidence"):
        fitted = _contents(kind, k)
        contents = _contents(rows.kind, rows.k)
        advice = "fit a calibrator on rows of the same kind"
        raise DataError(
            f"{where}: was fitted on {fitted}, {rows.name} holds {contents}; {advice}"
        )
    if k != rows.k and not artifact.of_options:
        advice = "fit a calibrator on this model's own scores"
        raise DataError(
            f"{where}: was fitted for {k} classes, {rows.name} has {rows.k}; {advice}"
        )
    if not again:
        check_upstream(artifact, where, rows.name, rows.upstream)
    is_other_level = (kind == "logits") != (rows.kind == "logits")
    if is_other_level and not calibrator.laws.shift_invariant:
        level = (
            f"method {artifact.method} was fitted on {kind} and depends on their level"
        )
        advice = "fit and apply on the same kind of scores"
        raise DataError(f"{where}: {level}, {rows.name} holds {rows.kind}; {advice}")
    for column in calibrator.required_columns:
        rows.carry(column)
    warnings = []
    if kind != rows.kind:
        warnings.append(f"{rows.name}: holds {rows.kind}, {where} was fitted on {kind}")
    warnings += check_names(artifact.class_names, where, rows)
    warnings += unseen(calibrator, rows, rows.name)
    return warnings


def check_same_scores(
    calibration: DataSet, rows: DataSet, *, again: bool = False
) -> None:
    """Refuse rows to which no calibrator of the calibration rows could be applied.

    Raises DataError for another number or order of classes, for confidences beside
    scores of classes, and unless ``again`` for rows that have been through other
    calibrators.
    """
    same_kind = (calibration.kind == "confidence") == (rows.kind == "confidence")
    if rows.k != calibration.k or not same_kind:
        contents = _contents(rows.kind, rows.k)
        expected = _contents(calibration.kind, calibration.k)
        raise DataError(
            f"{rows.name}: holds {contents}, {calibration.name} {expected}; name two"
            " sets of rows of one model"
        )
    if not again:
        fit = f"the calibrator of {calibration.name} is fitted"
        check_chain(rows.upstream, calibration.upstream, rows.name, fit)
    check_names(calibration.class_names, calibration.name, rows)


def _contents(kind: ScoreKind, k: int) -> str:
    """Kind of scores and number of classes in words."""
    if kind == "confidence":
        return "confidences, of which no class is known"
    return f"the {kind} of {k} classes"


def unseen(calibrator: Calibrator, rows: Rows, where: str) -> list[str]:
    """Warnings about groups of rows that a calibrator by group was not fitted on.

    Raises DataError where it knows the group of no row.
    """
    warnings = []
    for column, known in calibrator.required_columns.items():
        names, code = rows.columns[column]
        is_new = places_of_groups(tuple(known), tuple(names)) < 0
        count = int(is_new[code].sum())
        if not count:
            continue
        groups = _groups([name for name, new in zip(names, is_new, strict=True) if new])
        if count == rows.n:
            known_groups = _groups(known) or "none"
            raise DataError(
                f"{where}: no row is of a group that the calibrator knows ({column}"
                f" here: {groups}; known: {known_groups}); name the column of these"
                " groups, or fit a calibrator to such rows"
            )
        warnings.append(
            f"{where}: {count} of {rows.n} rows are of groups that the fit has not seen"
            f" ({column}: {groups}); they get the common map"
        )
    return warnings


def check_names(class_names: list[str] | None, where: str, rows: DataSet) -> list[str]:
    """Refuse rows whose classes are in another order than those of the fit.

    Returns a warning where names differ. Names are compared without case and outer
    spaces. class_names, where : of the fit. Raises DataError.
    """
    names_of_fit = class_names or []
    names_of_rows = rows.class_names or []
    if not names_of_fit or not names_of_rows or names_of_fit == names_of_rows:
        return []
    of_fit = [name.strip().casefold() for name in names_of_fit]
    of_rows = [name.strip().casefold() for name in names_of_rows]
    differing = [c for c, name in enumerate(of_rows) if of_fit[c] != name]
    for c in differing:
        name = of_rows[c]
        if of_fit.count(name) == of_rows.count(name) == 1:
            raise DataError(
                f"{rows.name}: class {c} is {names_of_rows[c]!r}, which is class"
                f" {of_fit.index(name)} of {where}: the classes are in another order;"
                " put the columns of scores and the labels in the order"
                f" {_some(names_of_fit)}, or fit a calibrator to these rows"
            )
    if not differing:
        return []
    c = differing[0]
    return [
        f"{rows.name}: class {c} is {names_of_rows[c]!r}, {where} was fitted with"
        f" {names_of_fit[c]!r}; check the class order"
    ]


def _groups(names: Sequence[str]) -> str:
    """Names of groups, in quotes where a comma in one could part two."""
    has_comma = any("," in name or not name for name in names)
    if has_comma:
        names = [repr(name) for name in names]
    return _some(names)


def _some(names: Sequence[str]) -> str:
    """The first ten names."""
    text = ", ".join(names[:10])
    return f"{text}, …" if len(names) > 10 else text


def fitted_on(artifact: Artifact, rows: DataSet) -> str | None:
    """Which of these rows, or units, a calibrator was fitted on; None if none.

    In words, such as ``about half of these rows``. Rows are recognised by their scores
    and labels: rows without labels give None.
    """
    if not rows.has_labels:
        return None
    if rows.hashed and rows.data_sha256 is None:
        for _ in rows.blocks():
            pass  # a complete walk computes the hash and the row facts
    return _whole_fit(artifact, rows) or _part_of_fit(artifact, rows)


def _whole_fit(artifact: Artifact, rows: DataSet) -> str | None:
    """Words for rows that are those of the fit, all of them; None for others."""
    fit = artifact.fit
    facts = facts_of(rows)
    is_same = fit.data_sha256 is not None and fit.data_sha256 == rows.data_sha256
    is_same_file = bool(rows.location.name) and fit.source == rows.name
    if is_same and is_same_file:
        return "these very rows"
    total = None if fit.row_sketch is None else fit.row_sketch.sum
    is_shuffled = total is not None and total == facts.total
    if not (is_same or is_shuffled):
        return None
    chance = chance_of_equal(some_signed_rows(rows), stratified=rows.is_stratified)
    if chance > CHANCE_OF_EQUAL:
        return None
    return "these very rows" if is_same else "these very rows, in another order"


def _part_of_fit(artifact: Artifact, rows: DataSet) -> str | None:
    """Words for the part of the rows, or units, that the fit had too; None for none."""
    fit = artifact.fit
    facts = facts_of(rows)
    signatures = SignatureSet(facts.signatures, facts.n)
    shared = overlap(fit.row_sketch, fit.n, signatures)
    if shared is not None:
        by_chance = matches_by_chance(some_signed_rows(rows), fit.n)
        if not shared.is_above(by_chance * shared.rows):
            return None
        if shared.share >= ALL:
            return "these very rows, or copies of them"
        return f"{part_in_words(shared.share)} of these rows"
    return _units_of_fit(artifact, rows)


def _units_of_fit(artifact: Artifact, rows: DataSet) -> str | None:
    """Words for the units of which the fit had other rows; None for none.

    Only within one file, as other files may reuse names.
    """
    path, part = split_where(artifact.fit.source or "")
    if part is None or not rows.location.name or path.name != rows.path.name:
        return None
    with suppress(DataError):  # units that are invalid, or a file that is gone
        units = rows.given_units
        names_of_rows = rows.column("unit")
        name = f"{rows.path}:{part}"
        with open_bundle(name, layout=Layout(unit=rows.unit)) as bundle:
            names_of_fit = bundle.column("unit")
            if units is None or names_of_rows is None or names_of_fit is None:
                return None
            shared = set(texts_of_names(names_of_fit))
            shared &= set(texts_of_names(names_of_rows))
            if shared:
                return f"other rows of {len(shared)} of these {units.n} units"
    return None


# ---- apply

SUM_ERROR = 1e-6
"""How far probabilities in float64 may sum from 1.

Far above rounding, far below what readers allow.
"""

FLOAT64 = np.dtype(np.float64)
Calibrated = tuple[int, AnyArray, dict[str, AnyArray], dict[str, int]]


def calibrated_blocks(
    calibrator: Calibrator,
    rows: Rows,
    kind: ScoreKind,
    transforms: Sequence[int],
    dtype: np.dtype[Any] = FLOAT64,
) -> Iterator[Calibrated]:
    """Walk over calibrated rows.

    Yields the first row, scores (b, k) of ``kind``, columns with a value per row, and
    counts. The columns are prediction, confidence and, when there are some, labels. Of
    kind ``confidence`` the scores are (b,), and the only column is correct. Counts are
    the calibrator's own and ``argmax_conflicts``: rows whose largest probability is not
    that of the prediction.

    dtype : type in which the scores will be written; they come in it, or in float64.
    Raises DataError for a number that is no probability.
    """
    return rows.each(
        partial(_calibrated, calibrator, kind, dtype), transforms=transforms
    )


def _calibrated(
    calibrator: Calibrator, kind: ScoreKind, dtype: np.dtype[Any], block: Block
) -> Calibrated:
    beta = calibrator.logit_scale
    if beta is not None and kind == "probs" and block.kind in ("logits", "log_probs"):
        return _calibrated_by_scale(beta, dtype, block)
    result = calibrator.calibrate(block)
    if kind == "confidence":
        # Comparisons with NaN are false, so NaN is refused too.
        confidence = result.confidence
        if not ((confidence >= 0) & (confidence <= 1)).all():
            raise _no_probabilities(block, "")
        of_rows: dict[str, AnyArray] = {}
        if block.y is not None:
            of_rows["correct"] = block.y.astype(bool)
        return block.start, confidence, of_rows, {**result.counts}
    p = np.exp(result.log_probs)
    sums_to_1 = (np.abs(p.sum(axis=1) - 1.0) <= SUM_ERROR).all()
    if not sums_to_1 or np.isneginf(result.log_probs.min()):
        raise _no_probabilities(block, ", or fitted on scores of another size")
    columns = {
        "prediction": result.label,
        "confidence": result.confidence,
        **result.columns,
    }
    if block.y is not None:
        columns["labels"] = block.y
    conflicts = int((result.log_probs.argmax(axis=1) != result.label).sum())
    counts = {**result.counts, "argmax_conflicts": conflicts}
    scores = p if kind == "probs" else result.log_probs
    return block.start, scores, columns, counts


def _calibrated_by_scale(beta: float, dtype: np.dtype[Any], block: Block) -> Calibrated:
    """Probabilities of logits or log-probabilities times ``beta``."""
    p, confidence, label = softmax_at(block.scores, beta, block.assigned, dtype)
    conflicts = 0
    if block.assigned is not None:
        conflicts = int((block.scores.argmax(axis=1) != label).sum())
    columns: dict[str, AnyArray] = {"prediction": label, "confidence": confidence}
    if block.y is not None:
        columns["labels"] = block.y
    return block.start, p, columns, {"argmax_conflicts": conflicts}


def _no_probabilities(block: Block, cause: str) -> DataError:
    return DataError(
        "the calibrator gave numbers that are no probabilities in rows from"
        f" {block.start} on; were its parameters edited{cause}?"
    )
