"""Rules for the verdict (calibrated, overconfident, mixed, …), from the tests, and for its wording and advice."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from calcli.evaluation.results import (
    SIZES,
    Advice,
    Classwise,
    DataSummary,
    Direction,
    Estimate,
    Groupwise,
    Judgement,
    LossSplit,
    Result,
    Score,
    VerdictKind,
    sentence,
)
from calcli.io.locate import Location
from calcli.io.score_files import calibrated_name
from calcli.metrics.confidence_bins import ConfidenceBin, confidence_bins
from calcli.metrics.context import Label, MetricContext
from calcli.metrics.debiased import class_p_values_of, cwece2
from calcli.metrics.intervals import normal_quantile, normal_tail
from calcli.metrics.joint_test import JointTest, joint_test
from calcli.metrics.losses import (
    FEW,
    few_rows_carry,
    gap_interval,
    group_gaps,
    mean_named,
    samples_for_a_point,
)
from calcli.metrics.significance import MeanGap, adjusted, direction_of, p_text
from calcli.numerics import FloatArray
from calcli.rows import class_words
from calcli.statistics.units import FEWEST_UNITS

LEVEL = 0.05  # probability of a finding on calibrated rows

MAIN, CLAUSE = 0.045, 0.004
"""Level of the joint test, and of each clause. They sum to more than ``LEVEL`` (.065 with all five clauses), but are
correlated: .02 to .06 of simulated calibrated sets are rejected (``benchmarks/levels.json``), without a bound."""

WIDE = 0.02  # half width of the overconfidence's interval above which "no significant difference" means too few rows
MOST_GROUPS = 1000

Parts = TypeVar("Parts", Classwise | None, Groupwise | None)

ERRORS = ("ece", "ece_positive", "ece_mass", "tce2", "smece")
"""Calibration errors of the default report, which the verdict must mention where they are significant."""


def data_summary(
    kind: str, context: MetricContext, names: Sequence[str] | None = None
) -> DataSummary:
    """Summarise the evaluated rows. names : of the classes, if known."""
    n, k, weighted = context.n, context.table.k, context.table.weight is not None
    if k == 1:
        return DataSummary(
            n, None, kind, weighted, None, None, 0, context.distinct, None, names
        )
    count, class_1 = (
        context.table.label_counts,
        names[1] if names is not None and k == 2 else None,
    )
    shares = float(count.max() / n), float(count.min() / n)
    return DataSummary(
        n,
        k,
        kind,
        weighted,
        *shares,
        int((count == 0).sum()),
        context.distinct,
        class_1,
        names,
    )


def judge(
    data: DataSummary,
    context: MetricContext,
    split: LossSplit | None,
    *,
    about: Label | None = None,
    doubt: str = "",
    where: Location = Location(),
    tried: Sequence[str] = (),
    scores: Mapping[str, Score] = MappingProxyType({}),
) -> Judgement:
    """Judge one set of rows: verdict, interval, p-value, findings, and advice.

    Calibrated rows get the verdict ``calibrated`` with probability about 95 %. The joint test of three statistics of
    the confidence (for two classes of P(class 1), unless ``about`` is the top label) has the level ``MAIN``, each of
    the clauses (classes, if more than two; groups; bins of confidence; the split of the loss; the calibration errors
    among the ``scores``) ``CLAUSE``. Fewer than ``FEW`` rows, or ``FEWEST_UNITS`` units, have no findings. Without a
    finding the verdict is ``calibrated`` if the mean gap is known to within ``WIDE``, else ``too_few``. doubt : why
    labels may not belong to scores. where : the rows. tried : methods applied to the rows, or evaluated on them.
    """
    table, k = context.table, data.n_classes
    units = None if table.units is None else table.units.n
    few = context.effective_n < FEW or (units is not None and units < FEWEST_UNITS)
    over, test = (
        _estimate(context, "top"),
        joint_test(context, positive=k == 2 and about != "top"),
    )
    test = replace(
        test,
        gap=_sided(test.gap, context.labelled("positive" if test.positive else "top")),
    )
    classes, groups, bins = (
        _class_findings(context),
        _group_findings(context, about),
        confidence_bins(context),
    )
    half, coin = (
        (over.interval.high - over.interval.low) / 2.0,
        0.98 / math.sqrt(units or context.effective_n),
    )
    if few or not math.isfinite(
        half
    ):  # half width of the interval of a proportion of one half
        half = coin if few else max(coin, 2.0 * WIDE)
    errors, rejected = _error_findings(scores), test.p_value <= MAIN
    clauses = {
        "classes": 1.0 if classes is None or test.positive else classes.p_value,
        "groups": 1.0 if groups is None else groups.p_value,
        "bins": min(each.p_adjusted for each in bins),
        "split": _split_p_value(context, split),
        "errors": min(errors.values(), default=1.0),
    }
    found = ["confidence"] * rejected + [
        clause for clause, p in clauses.items() if p <= CLAUSE
    ]
    findings, p = (
        () if few else tuple(found),
        1.0 if few else min(1.0, test.p_value * LEVEL / MAIN),
    )
    gates = {
        clause: 1.0 if few else min(p, own * LEVEL / CLAUSE)
        for clause, own in clauses.items()
    }
    classes = _gated(classes, gates["classes"], n_significant=0, significant_classes=())
    groups = _gated(groups, gates["groups"], n_significant=0)
    bins = tuple(
        replace(
            b,
            p_adjusted=(q := max(b.p_adjusted, gates["bins"])),
            significant=q <= LEVEL,
        )
        for b in bins
    )
    own, entropy = direction_of(context, "confidence"), direction_of(context, "entropy")
    words = "too few samples to say" if few else direction_words(test, k, rejected)
    direction = Direction(own.gap, own.z, entropy.gap, entropy.z, words)
    kind = _kind(
        test, _sided(own, context.labelled("top")), findings, doubt, few or half > WIDE
    )
    wanted = samples_for_a_point(context, half)
    needed = max(math.ceil(wanted / 100 - 1e-9) * 100, 100)
    draws = 0 if few else (test.draws + 1) * MAIN / LEVEL - 1
    tests: dict[str, Any] = {
        "p_value": p,
        "p_overall": min(gates.values()),
        "draws": draws,
        "gates": gates,
    }
    tests |= {
        "tested": "P(class 1)" if test.positive else "confidence",
        "findings": findings,
    }
    parts: dict[str, Any] = {
        "classwise": classes,
        "groups": groups,
        "bins": bins,
        "split": split,
    }
    parts |= {
        "errors": {} if few else {name: q for name, q in errors.items() if q <= LEVEL}
    }
    if table.positive is not None:
        parts |= {
            "positive": direction_of(context, "positive"),
            "positive_gap": _estimate(context, "positive"),
        }
    if test.positive and "confidence" in findings:
        held = [b for b in confidence_bins(context, "positive") if b.n]
        parts["worst"] = max(held, key=lambda b: (b.significant, abs(b.gap) * b.n))
    report = Judgement(
        data,
        direction,
        kind,
        over,
        **tests,
        **parts,
        rows_needed=needed,
        doubt=doubt,
        units=units,
    )
    what = advice_on(report, test, where, tried, max(table.clipped, table.certain))
    return replace(report, found=findings_words(report, test), advice=what)


def _split_p_value(context: MetricContext, split: LossSplit | None) -> float:
    """One-sided p-value of the calibration part of the NLL; 1 where few rows carry the NLL, of which a
    cross-validated gain is no normal variable."""
    if split is None:
        return 1.0
    own = context.labelled("top")
    if few_rows_carry(own, "nll", mean_named(own, "nll")) is not None:
        return 1.0
    return normal_tail(split.nll.z)


def _gated(found: Parts, gate: float, **nothing: Any) -> Parts:
    """Raise the p-value of findings on classes or groups to its gate; reset them by ``nothing`` if not significant."""
    if found is None:
        return found
    p = max(found.p_value, gate)
    return replace(found, p_value=p, **(nothing if p > LEVEL else {}))


def _estimate(context: MetricContext, label: Label) -> Estimate:
    own = context.labelled(label)
    return Estimate(
        direction_of(own, "confidence" if label == "top" else "positive").gap,
        gap_interval(own),
    )


def _sided(gap: MeanGap, own: MetricContext) -> MeanGap:
    """Set z of a mean gap to 0 where its 95 % interval contains 0, for the wording."""
    return replace(gap, z=0.0) if gap_interval(own, 1.0 - LEVEL).holds(0.0) else gap


def _kind(
    test: JointTest, top: MeanGap, findings: Sequence[str], doubt: str, unknown: bool
) -> VerdictKind:
    """Kind of the verdict. top : overconfidence with its z. unknown : is its interval too wide to call it small?"""
    if doubt:
        return "check_labels"
    if not findings:
        return "too_few" if unknown else "calibrated"
    against = (
        test.positive
        and abs(test.sharpness.z) > TWO_SIDED
        and test.sharpness.z * top.z < 0.0
    )
    if "confidence" not in findings or abs(top.z) <= TWO_SIDED or against:
        return "mixed"
    return "overconfident" if top.z > 0.0 else "underconfident"


def _error_findings(scores: Mapping[str, Score]) -> dict[str, float]:
    """Adjusted p-values of calibration errors. Equal-mass bins detect what the joint test misses: scores that are
    nearly all equal, and outcomes that depend on their small differences."""
    p = {
        name: null.p_value
        for name in ERRORS
        if name in scores and (null := scores[name].null) is not None
    }
    return (
        dict(zip(p, adjusted(np.array([*p.values()])).tolist(), strict=True))
        if p
        else {}
    )


def _class_findings(context: MetricContext) -> Classwise | None:
    """Debiased error by class, and Simes' test that every class's mean probability equals its frequency."""
    p = class_p_values_of(context)
    if p is None:
        return None
    value, together = cwece2(context), adjusted(p)
    off = [c for c in np.argsort(p, kind="stable").tolist() if together[c] <= LEVEL]
    square = value.more["signed_square"]
    return Classwise(
        value.value, square, float(together.min()), len(off), tuple(off[:20])
    )


def _group_findings(context: MetricContext, about: Label | None) -> Groupwise | None:
    """Groups with a significant mean gap of the confidence, and for two classes also of P(class 1)."""
    table = context.table
    if table.group is None:
        return None
    names, parts = table.groups()
    if not 2 <= len(names) <= MOST_GROUPS:
        return None
    found = group_gaps(
        [MetricContext(each, context.settings) for each in parts], about
    ).values()
    g, worst = min(
        (each for gaps in found for each in enumerate(gaps)),
        key=lambda each: each[1].rank,
    )
    label = names[g].decode() if isinstance(names[g], bytes) else str(names[g])
    adjusted_p = np.array([[gap.p_adjusted for gap in gaps] for gaps in found])
    off, least = int((adjusted_p <= LEVEL).any(axis=0).sum()), float(adjusted_p.min())
    return Groupwise(
        len(names), off, label, parts[g].n, worst.gap, least, worst.of_positive
    )


def label_shift_p_value(fitted: FloatArray, seen: FloatArray) -> float:
    """Chi-square p-value of equal class frequencies in two sets of counts (k,). Classes with fewer than five
    expected rows in either set are pooled. Tail : Wilson, Hilferty (1931), the cube root."""
    counts = np.stack([fitted, seen])
    size = counts.sum(axis=1)
    if not size.all():
        return 1.0
    enough = counts.sum(axis=0) * size.min() / size.sum() >= 5.0
    counts = np.column_stack([counts[:, enough], counts[:, ~enough].sum(axis=1)])
    counts = counts[:, counts.any(axis=0)]
    df = counts.shape[1] - 1
    if df < 1:
        return 1.0
    expected = np.outer(size, counts.sum(axis=0)) / size.sum()
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    h = 2.0 / (9.0 * df)
    return 0.5 * math.erfc(
        ((chi2 / df) ** (1.0 / 3.0) - (1.0 - h)) / math.sqrt(2.0 * h)
    )


# ---- the verdict in words: one sentence about one set of rows, and advice
# For two classes it is about P(class 1), which determines all probabilities; for more, about the confidence first,
# then about the other probabilities.


TWO_SIDED = normal_quantile(0.975)
EVERYWHERE = "P(class 1) is right on average, but not at every probability"
MENDS = 0.9  # proportion of the calibration loss that a temperature must remove to be advised


def direction_words(test: JointTest, k: int | None, rejected: bool) -> str:
    """Words for the direction of a miscalibration, over- or underconfidence. k : None for confidences alone."""
    if not rejected:
        return "neither significantly over- nor underconfident"
    if test.positive:
        return _of_positive(test, "mixed", "on average")
    gap_z, sharp_z = test.gap.z, test.sharpness.z
    sharp = abs(sharp_z) > TWO_SIDED
    if abs(gap_z) <= TWO_SIDED:
        if not sharp:
            return "right on average, not at every confidence"
        what = (
            "single confidences are"
            if k is None
            else "NLL shows that the probabilities as a whole are"
        )
        return f"confidence is calibrated on average, but {what} {'over' if sharp_z > 0 else 'under'}confident"
    way, alone = "overconfident" if gap_z > 0 else "underconfident", k in (None, 2)
    others = "about the predicted class, the opposite about the others"
    rest = "on average, not at every confidence" if alone else others
    return f"{way} {rest}" if sharp and (sharp_z > 0) != (gap_z > 0) else way


def _of_positive(test: JointTest, kind: str, by: str) -> str:
    """Words for the miscalibration of P(class 1), on average and near 0 and 1. by : words for the mean gap."""
    ends = {
        "overconfident": "too close to 0 and 1",
        "underconfident": "too far from 0 and 1",
    }
    found = [ends[kind]] if kind in ends else []
    if abs(test.gap.z) > TWO_SIDED:
        found.append(f"too {'high' if test.gap.z > 0 else 'low'} {by}")
    if kind not in ends and abs(test.sharpness.z) > TWO_SIDED:
        found.append(
            f"often too {'close to' if test.sharpness.z > 0 else 'far from'} 0 and 1"
        )
    return f"P(class 1) is {', and '.join(found)}" if found else EVERYWHERE


def findings_words(report: Judgement, test: JointTest) -> tuple[str, ...]:
    """Clauses of the verdict: kind, size with interval, p-value, and further findings."""
    kind, over, n = report.verdict_kind, report.overconfidence, report.data.n
    p = report.p_text
    if kind == "check_labels":
        return (f"check the labels first: {report.doubt}",)
    if kind == "too_few":
        size = f"n = {n}{f', {report.units} units' if report.units else ''}"
        few = (
            f"units to test: {report.units} units"
            if report.units and report.units < FEWEST_UNITS
            else ""
        )
        few = f"too few {few or f'samples to test: {n}'}"
        tested, but = (
            f"no evidence of miscalibration ({size})" if report.draws else few,
            errors_words(report),
        )
        if not over.interval.known:
            return tested, *but, f"{over.interval.method} of the overconfidence"
        if report.draws and (but or not over.interval.holds(0.0)):  # weak evidence
            tested = f"no significant miscalibration ({size}, {p})"
        ends = (round(100 * end) for end in (over.interval.low, over.interval.high))
        low, high = (f"{points:+d}" if points else "0" for points in ends)
        needed = f"about {report.rows_needed:,} samples give it to within 1 point"
        return (
            tested,
            *but,
            f"the overconfidence lies between {low} and {high} points ({needed})",
        )
    if kind == "calibrated":
        what = " of P(class 1)" if test.positive else ""
        told = f"calibrated: no significant miscalibration{what} (n = {n}, {p})"
        return told, *errors_words(report), f"overconfidence {over}"
    return *_gaps(report, test), *_clauses(report)


def _gaps(report: Judgement, test: JointTest) -> list[str]:
    """Clauses on the joint test, first the gap that gives the verdict its name."""
    k, over, positive = (
        report.data.n_classes,
        report.overconfidence,
        report.positive_gap,
    )
    if "confidence" not in report.findings:
        what = "P(class 1)" if test.positive else "the confidence"
        return [
            f"mixed: no significant miscalibration of {what} overall ({report.p_text})"
        ]
    words, kind = "", report.verdict_kind
    if test.positive and positive is not None:
        words = _of_positive(
            test,
            kind,
            f"by {positive if positive.value > 0 else positive.turned} on average",
        )
    if kind != "mixed":
        size = over if kind == "overconfident" else over.turned
        return [
            f"{kind} by {size} ({report.size}, {report.p_text})"
            + f": {words}" * bool(words)
        ]
    return [
        f"mixed: {words or direction_words(test, k, True)} ({report.p_text})",
        *worst_words(report),
    ]


def worst_words(report: Judgement) -> list[str]:
    """Clause on the worst bin of P(class 1) where it is right on average; else empty."""
    if (
        (b := report.worst) is None
        or report.verdict_kind != "mixed"
        or report.direction.words != EVERYWHERE
    ):
        return []
    return [f"most clearly, {_bin_words(b, 'P(class 1)', 'of class 1')}"]


def _bin_words(b: ConfidenceBin, score: str, outcome: str) -> str:
    found = f"{b.accuracy:.4f} [{b.chosen_low:.4f}, {b.chosen_high:.4f}] are {outcome}"
    than = f"{'fewer' if b.gap > 0 else 'more'} than the {b.confidence:.4f} stated"
    return f"of {b.n} samples with {score} {b.low:g} to {b.high:g}, {found}, {than}"


def _clauses(report: Judgement) -> list[str]:
    """Clauses on single classes, groups, bins and calibration errors."""
    found, classes = [], report.classwise
    if (
        "classes" in report.findings
        and classes is not None
        and "confidence" not in report.findings
    ):
        are = (
            "is miscalibrated:"
            if classes.n_significant == 1
            else "are miscalibrated, most clearly"
        )
        worst = "class " + class_words(
            classes.significant_classes[0], report.data.names
        )
        found.append(
            f"{classes.n_significant} of {report.data.n_classes} classes {are} {worst}"
        )
    if "groups" in report.findings and report.groups is not None:
        off, worst = (
            report.groups,
            f"{report.groups.worst} by {report.groups.worst_gap:+.4f}",
        )
        are = "is" if off.n_significant == 1 else "are"
        count = f"{off.n_significant} of {off.n_groups} groups {are} miscalibrated"
        of = (
            " of P(class 1)"
            if off.of_positive
            else " of the confidence" * (report.data.n_classes == 2)
        )
        found.append(f"{count}, most clearly {worst}{of}")
    if (
        "bins" in report.findings
        and report.size in ("", SIZES[0][1])
        and not worst_words(report)
    ):
        found += [_bin_words(b, "confidence", "right") for b in worst_bin(report)]
    return found + errors_words(report) * (
        "errors" in report.findings and "confidence" not in report.findings
    )


def errors_words(report: Judgement) -> list[str]:
    """Clause on significant calibration errors, for where the joint test finds nothing; empty without any."""
    if not report.errors:
        return []
    *most, last = report.errors
    names, p = (
        f"{', '.join(most)} and {last}" if most else last,
        p_text(min(report.errors.values())),
    )
    if "errors" in report.findings:
        return [f"but {names} {'are' if most else 'is'} above chance ({p}, adjusted)"]
    return [
        f"{names} give{'' if most else 's'} weak evidence of miscalibration ({p}, adjusted)"
    ]


def worst_bin(report: Judgement, way: int = 0, fewest: int = 1) -> list[ConfidenceBin]:
    """The significant bin with the largest number of samples times gap; empty if none is significant. way : 1
    overconfident, -1 underconfident, 0 either. fewest : samples that it must hold."""
    found = [
        b
        for b in report.bins
        if b.significant and b.n >= fewest and (way == 0 or b.gap * way > 0)
    ]
    return [max(found, key=lambda b: abs(b.gap) * b.n)] if found else []


def remedy_method(split: LossSplit | None, k: int | None, biased: bool) -> str:
    """Method to fit: by the split of the loss, or else the one for the commonest miscalibration."""
    if split is None or not split.nll.detected:
        return "platt" if k in (None, 2) or biased else "ts"
    if (
        split.temperature_nll.calibration >= MENDS * split.nll.calibration
        or split.method == "ts"
    ):
        return "ts"
    # A scale and a bias of each of two log-probabilities are beta calibration's two slopes and its bias.
    return "beta" if k == 2 else split.method


def strongest_of(k: int | None) -> str:
    """Strongest method, after which none is advised."""
    return "venn-abers" if k is None else "auto"


def remedy_words(
    split: LossSplit | None, k: int | None, tried: Sequence[str] = ()
) -> str:
    """Words for the reduction of the NLL by recalibration, where held-out rows show a significant one; else empty.
    tried : see ``judge``; if there are any, temperature scaling is not mentioned."""
    if split is None or not split.nll.detected:
        return ""
    by_temperature = split.temperature_nll.calibration
    alone = remedy_method(split, k, False) == "ts"
    method, gain = (
        ("ts", by_temperature) if alone else (split.method, split.nll.calibration)
    )
    share = f"{max(by_temperature / gain, 0.0):.0%}"
    of_it = "does not help here" if share == "0%" else f"achieves {share} of it"
    clause = "" if alone or tried else f"; temperature scaling {of_it}"
    return f"recalibration could reduce NLL by {small(gain)} (cross-validated {method}){clause}"


def advice_on(
    report: Judgement,
    test: JointTest,
    where: Location,
    tried: Sequence[str],
    zeros: int = 0,
) -> Advice:
    """Advice from the rows alone. zeros : number of labels or confidences without log-odds. tried : see ``judge``.
    After a calibrator the strongest method is advised; after that, none."""
    kind, split, k = report.verdict_kind, report.split, report.data.n_classes
    if kind == "check_labels":
        command = command_line("inspect", where.name, where) if where.name else ""
        clause = "what the file holds" if command else ""
        return Advice(
            "Check the labels first.", sentence(report.doubt), command, clause=clause
        )
    if kind == "too_few":
        why = "which give the overconfidence to within 1 point. Until then do not rely on it."
        return Advice(f"Label about {report.rows_needed:,} samples,", why)
    if kind == "calibrated":
        return Advice("Nothing.", "Measure again when the data change.")
    apart, words = apart_words(report, where), remedy_words(split, k, tried)
    strongest = strongest_of(k)
    spent = any(strongest in each.split("+") for each in tried)
    if not {"confidence", "split", "errors"} & set(report.findings):
        if "groups" in report.findings or spent:
            rest = "or collect more of them."
        elif "classes" in report.findings:
            rest = "or calibrate with a per-class method (svs, vs), or collect more such samples."
        else:
            rest = f"or fit a calibrator that bends ({strongest})."
        return Advice("Do not use it there,", rest + apart, clause=words)
    if spent:
        if words:  # these samples hold information that those of its fit lacked
            again = f"fit {strongest} anew on samples like these"
            return Advice(
                f"{sentence(again)}:", f"{words}.{apart}", clause=f"{words}; {again}"
            )
        most = f"no method here is stronger than {strongest}"
        still = f"its bins, classes and groups show where it is off.{apart}"
        return Advice(f"{sentence(most)}:", still, clause=most)
    method, words = _advised(report, test, words, zeros)
    place, known = "", not tried or (bool(words) and method not in tried)
    if tried:
        if split is not None and not words:
            after = "ts" if split.method == "ts" else f"{split.method} or ts"
            words = f"{after} on top of it would not reduce its NLL (cross-validated)"
        method, place = strongest, f" in place of {' and '.join(dict.fromkeys(tried))}"
    then = f"fit another{place}" if known else f"{method}{place} may help"
    others = f"other labelled samples of this model{place}"
    if where.name and where.to_fit == where.name:
        others = f"these samples{place}, and evaluate it on {where.to_evaluate}"
    told = [
        words,
        "auto averages several methods, weighted by cross-validation"
        * (method == "auto"),
    ]
    rest = " ".join([f"on {others}.", *(f"{sentence(each)}." for each in told if each)])
    command = command_line(f"fit --method {method}", where.to_fit, where)
    clause = "; ".join(
        filter(None, [words, then if place else "fit a calibrator" * (not words)])
    )
    return Advice(
        f"{'Fit' if known else 'Try'} a calibrator ({method})",
        f"{rest}{apart}",
        command,
        None,
        clause,
    )


def _advised(
    report: Judgement, test: JointTest, words: str, zeros: int
) -> tuple[str, str]:
    """Method to fit to uncalibrated scores, and the reason. words : ``remedy_words``."""
    split, k, kind = report.split, report.data.n_classes, report.verdict_kind
    method = remedy_method(split, k, test.positive and abs(test.gap.z) > TWO_SIDED)
    blind = (
        "confidence" not in report.findings
        or (kind == "mixed" and method == "ts")
        or bool(worst_words(report))
    )
    if blind and (split is None or not split.nll.detected):
        method = strongest_of(
            k
        )  # the mean gap is not significant: a temperature cannot correct it
    if words and split is not None and split.brier.z < -TWO_SIDED:
        method, words = (
            strongest_of(k),
            f"{words}; {split.method} raises the Brier score",
        )
    if zeros and k is None:
        are = " is" if zeros == 1 else "s are"
        return (
            "venn-abers",
            f"{zeros} confidence{are} exactly 0 or 1, which have no log-odds",
        )
    if zeros:  # as from forests, trees and neighbours: ts and svs run to their bounds
        method, badly = strongest_of(k), "ts and platt" if k == 2 else "ts and svs"
        give = "1 sample gives its" if zeros == 1 else f"{zeros} samples give their"
        words = f"{give} label a probability of exactly 0, which {badly} handle badly"
    return method, words


def typed_name(name: str) -> str:
    """File name quoted for a shell, and prefixed by ./ where it would read as an option."""
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def command_line(command: str, known: str, where: Location, *rest: str) -> str:
    """Command line to suggest. known : samples for it, or empty for a placeholder. where : the samples, whose options
    apply to others too. rest : further words."""
    rows = typed_name(known) if known else "<other labelled samples>"
    return " ".join(
        ["calcli", command, rows, *map(shlex.quote, (*where.options, *rest))]
    )


class Given(NamedTuple):
    """Calibrator evaluated on the same rows. result : with differences to the uncalibrated scores. path : of its file,
    for commands; None without one. seen : description of the rows that it was fitted on, None if none."""

    result: Result
    path: str | None
    seen: str | None


def advice_among(
    report: Judgement, given: Sequence[Given], where: Location, in_sample: str = ""
) -> Advice:
    """Advice where calibrators were evaluated: apply one of them, or else the advice from the rows alone. report : the
    judgement on the uncalibrated scores. in_sample : rows of the fits of calibrators already applied to these. To be
    advised a calibrator must have a significantly lower loss, adjusted for all of them, and no higher Brier score;
    failing that, a lower loss and no miscalibration on held-out rows. Preferred are those fitted on other rows, then
    those whose accuracy is not significantly lower, then the one of least loss."""
    if in_sample and report.verdict_kind == "calibrated":
        return _on_other_samples(in_sample, where)
    told = [
        (g, d)
        for g in given
        if (d := g.result.loss) is not None and d.p_value is not None
    ]
    if (
        not told
        or not {"confidence", "split"} & set(report.findings)
        or report.verdict_kind == "check_labels"
    ):
        return report.advice
    p_values = adjusted(np.array([d.p_value for _, d in told]))
    significant = [
        (g, d) for (g, d), p in zip(told, p_values.tolist(), strict=True) if p <= LEVEL
    ]
    lower = [
        (g, d) for g, d in told if d.value < 0.0 and _change(g.result, "brier") <= 0.0
    ]
    helpful = [each for each in lower if each in significant]
    calibrated = [
        (g, d)
        for g, d in lower
        if g.seen is None and g.result.report and not g.result.report.findings
    ]
    if not helpful and not calibrated:
        how, a = (
            {True: "makes it worse", False: "reduces NLL and raises the Brier score"},
            report.advice,
        )
        out = [f"{g.result.title} {how[d.value > 0.0]}" for g, d in significant]
        rest, clause = (
            "".join(f"{each}. " for each in out),
            "".join(f"{each}; " for each in out),
        )
        return replace(
            a,
            lead="None of these helps.",
            rest=f"{rest}{a.lead} {a.rest}",
            clause=f"{clause}{a.clause}",
        )
    best, change = min(
        helpful or calibrated,
        key=lambda each: (
            each[0].seen is not None,
            _change(each[0].result, "accuracy") < 0.0,
            each[1].value,
        ),
    )
    title, file = best.result.title, best.path
    if best.seen is not None:
        return _on_other_samples(f"{title} was fitted on {best.seen}", where, file)
    reach = (
        change.interval
        and f" [{-change.interval.high:.4f}, {-change.interval.low:.4f}]"
    )
    loss = "NLL" if report.data.n_classes else "squared error"
    gain = f"{title} reduces {loss} by {small(-change.value)}{reach or ''}"
    if not helpful:
        gain = f"{title} leaves no significant miscalibration (its change in {loss} is not significant)"
    points = 100.0 * _change(best.result, "accuracy")
    if points > 0.0:
        gain += f", accuracy rises by {points:.1f} points"
    if points < 0.0:
        gain += f", accuracy falls by {-points:.1f} points (auto --set keep_argmax=true is accuracy-preserving)"
    left = (
        ""
        if best.result.report is None
        else f" With it: {'; '.join(best.result.report.found)}."
    )
    rest = f"{gain}. {answers_words(best.result)}{left}{apart_words(report, where)}"
    command = ""
    if file and where.name:
        command = command_line(
            f"apply {typed_name(file)}",
            where.name,
            where,
            "-o",
            calibrated_name(where.name, file),
        )
    return Advice("Apply the calibrator.", rest, command, title, gain)


def _on_other_samples(seen: str, where: Location, file: str | None = "") -> Advice:
    """Advice to evaluate on other rows what was fitted on these. file : of the calibrator, empty if already applied."""
    why = f"{seen}, which do not show what it does on others"
    options = ["--calibrator", file] if file else []
    command = (
        ""
        if file is None
        else command_line("evaluate", where.to_evaluate, where, *options)
    )
    return Advice(
        "Evaluate the calibrator on other samples:", f"{why}.", command, None, why
    )


def _change(result: Result, name: str) -> float:
    """Change of a metric by a calibrator; 0 if not significant."""
    change = result.change(name)
    if change is None or change.interval is None or change.interval.holds(0.0):
        return 0.0
    return change.value


def apart_words(report: Judgement, where: Location) -> str:
    """Hint that groups can be calibrated separately, with the option for it if one column holds them."""
    if "groups" not in report.findings:
        return ""
    columns = [
        name for option, name in pairwise(where.options) if option == "--group-by"
    ] or ["group"]
    how = (
        f" (calcli fit --by {shlex.quote(columns[0])})"
        if where.name and len(columns) == 1
        else ""
    )
    return f" Groups can have calibrators of their own{how}."


def answers_words(result: Result) -> str:
    """Sentence on the numbers of answers that a calibrator makes right and wrong, and on the change in accuracy."""
    change = result.change("accuracy")
    if change is None or change.answers is None:
        return ""
    right, wrong = change.answers
    if not right and not wrong:
        return "No answer becomes right or wrong."
    reach = (
        change.interval
        and f" [{100 * change.interval.low:+.1f}, {100 * change.interval.high:+.1f}]"
    )
    gain = f"accuracy {100 * change.value:+.1f} points{reach or ''}"
    return f"{right:,} answers become right, {wrong:,} wrong; {gain}."


def small(x: float) -> str:
    return f"{x:.4f}" if abs(x) >= 1e-4 else f"{x:.1e}"
