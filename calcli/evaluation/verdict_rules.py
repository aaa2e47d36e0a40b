"""What the tests decide together: direction, classes, groups, verdict. Rules, not moods."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calcli.evaluation.joint_test import JointTest, joint_test
from calcli.evaluation.verdict_results import (
    Advice,
    Classwise,
    DataSummary,
    Direction,
    Estimate,
    Groupwise,
    Kind,
    Report,
    Split,
)
from calcli.evaluation.verdict_text import TWO_SIDED, advice_on, direction_words, sentence
from calcli.fast_dataclass import dataclass
from calcli.metrics.confidence_bins import confidence_bins
from calcli.metrics.context import Label, MetricContext
from calcli.metrics.debiased import cwece2
from calcli.metrics.intervals import normal_tail
from calcli.metrics.losses import FEW, gap_interval
from calcli.metrics.rowtable import RowTable
from calcli.metrics.significance import (
    MeanGap,
    benjamini_hochberg,
    class_p_values,
    confidence_direction,
    direction_of,
    positive_direction,
    simes,
    sum_p_value,
)
from calcli.numerics import FloatArray, distinct

LEVEL = 0.05
"""How often a verdict on calibrated rows may be anything but clean."""

MAIN, CLAUSE = 0.045, 0.004
"""How the level is shared by the joint test of the confidence and by each clause."""

WIDE = 0.02
"""Half width of the overconfidence's interval above which "no difference found" says nothing."""

MOST_GROUPS = 1000


def data_summary(kind: str, context: MetricContext, names: Sequence[str] | None = None) -> DataSummary:
    """What was evaluated. names : of the classes, where they are known."""
    table, n = context.table, context.n
    alone = table.k == 1
    count = context.once(("label counts",), lambda: table.label_counts)
    return DataSummary(
        n=n,
        n_classes=None if alone else table.k,
        kind=kind,
        weighted=table.weight is not None,
        largest_class_share=None if alone else float(count.max() / n),
        smallest_class_share=None if alone else float(count.min() / n),
        absent_classes=0 if alone else int((count == 0).sum()),
        distinct_confidences=context.once(("distinct",), lambda: len(distinct(table.confidence))),
        class_1=names[1] if names is not None and table.k == 2 else None,
    )


def judge(
    data: DataSummary,
    context: MetricContext,
    split: Split | None,
    *,
    about: Label | None = None,
    doubt: str = "",
    name: str = "",
) -> Report:
    """The one judgement on one set of rows: kind, interval, p-value, what is off, and what to do.

    The verdict calls calibrated rows calibrated 95 times in 100: its three tests of the
    confidence, or of two classes of P(class 1) unless the question is ``about`` the top label, share
    ``MAIN`` of the 5 %, and each of its clauses (classes, of more than two; groups; bins of confidence; the
    split of the loss) has ``CLAUSE``. What is said beside it follows the same decisions. Of fewer
    than ``FEW`` rows nothing is said; nor is what cannot be told apart called calibrated where the mean gap is known
    to no better than ``WIDE``. doubt : why the labels may not belong to the scores. name : of the rows, in commands.
    """
    few, k = data.n < FEW, data.n_classes
    test = joint_test(context, positive=k == 2 and about != "top")
    classes, groups, bins = _class_findings(context), _group_findings(context, about), confidence_bins(context)
    clauses = {
        "classes": 1.0 if classes is None or test.positive else classes.p_value,
        "groups": 1.0 if groups is None else groups.p_value,
        "bins": min(each.p_adjusted for each in bins),
        "split": 1.0 if split is None else normal_tail(split.nll.z),
    }
    found = ["confidence"] * (test.p_value <= MAIN) + [clause for clause, p in clauses.items() if p <= CLAUSE]
    findings = () if few else tuple(found)
    p = 1.0 if few else min(1.0, test.p_value * LEVEL / MAIN)
    rejected = "confidence" in findings
    if classes is not None and not rejected and "classes" not in findings:
        classes = replace(classes, n_significant=0, significant_classes=())
    if groups is not None and not rejected and "groups" not in findings:
        groups = replace(groups, n_significant=0)
    gates = {clause: 1.0 if few else min(p, own * LEVEL / CLAUSE) for clause, own in clauses.items()}
    told = (max(each.p_adjusted, gates["bins"]) for each in bins)
    bins = tuple(replace(b, p_adjusted=own, significant=own <= LEVEL) for b, own in zip(bins, told, strict=True))
    top, entropy = direction_of(context, "confidence"), direction_of(context, "entropy")
    over = _estimate(context, "top")
    half = max((over.interval.high - over.interval.low) / 2.0, 0.98 / math.sqrt(data.n) if few else 0.0)
    words = "too few rows to say" if few else direction_words(test, k, rejected)
    report = Report(
        data,
        Direction(top.gap, top.z, entropy.gap, entropy.z, words),
        classes,
        split,
        "",
        _kind(test, top, findings, doubt, few or half > WIDE),
        over,
        Advice(""),
        "P(class 1)" if test.positive else "confidence",
        p,
        min(gates.values()),
        0 if few else (test.draws + 1) * MAIN / LEVEL - 1,
        groups,
        None if context.table.positive is None else direction_of(context, "positive"),
        None if context.table.positive is None else _estimate(context, "positive"),
        findings,
        bins,
        max(math.ceil(data.n * (half / 0.01) ** 2 / 100 - 1e-9) * 100, 100),
        gates,
        doubt,
    )
    report = replace(report, advice=advice_on(report, test, name))
    return replace(report, verdict=sentence(report, test))


def _estimate(context: MetricContext, label: Label) -> Estimate:
    """The mean gap of a quantity, with its interval."""
    own = context.labelled(label)
    return Estimate(direction_of(own, "confidence" if label == "top" else "positive").gap, gap_interval(own))


def _kind(test: JointTest, top: MeanGap, findings: Sequence[str], doubt: str, unknown: bool) -> Kind:
    """The verdict in a word. top : overconfidence with its z. unknown : is it known too badly to be called small?"""
    if doubt:
        return "check_labels"
    if not findings:
        return "too_few" if unknown else "calibrated"
    against = test.positive and abs(test.sharpness.z) > TWO_SIDED and test.sharpness.z * top.z < 0.0
    if "confidence" not in findings or abs(top.z) <= TWO_SIDED or against:
        return "mixed"
    return "overconfident" if top.z > 0.0 else "underconfident"


def _class_findings(context: MetricContext) -> Classwise | None:
    """Debiased error by class, and Simes' test that the total probability of every class is right."""
    stats = context.table.classes
    if stats is None:
        return None
    value = cwece2(context)
    p = class_p_values(stats, context.table.weight is not None)
    off = benjamini_hochberg(p, LEVEL).tolist()
    return Classwise(value.value, value.more["signed_square"], simes(p), len(off), tuple(off[:20]))


@dataclass(frozen=True)
class GroupGap:
    """gap : the worse of mean confidence minus accuracy and, of two classes, mean P(class 1) minus its frequency."""

    gap: float
    p_value: float
    of_positive: bool


def group_gap(part: RowTable, about: Label | None = None) -> GroupGap:
    """How far one group of rows is off on average; the p-value counts both gaps that two classes have.

    about : ``top`` or ``positive`` for one of them alone.
    """
    found = []
    if part.positive is None or about != "positive":
        p = sum_p_value(part.confidence, part.correct, part.weight)
        found.append(GroupGap(confidence_direction(part).gap, p, False))
    if part.positive is not None and about != "top":
        y = (part.y == 1).astype(np.float64)
        found.append(GroupGap(positive_direction(part).gap, sum_p_value(part.positive, y, part.weight), True))
    least = min(found, key=lambda each: each.p_value)
    return replace(least, p_value=min(1.0, len(found) * least.p_value))


def _group_findings(context: MetricContext, about: Label | None) -> Groupwise | None:
    """Simes' test that in every group the confidence (of two classes also P(class 1)) is right on average."""
    table = context.table
    if table.group is None:
        return None
    names, which = np.unique(table.group, return_inverse=True)
    if not 2 <= len(names) <= MOST_GROUPS:
        return None
    gaps = [group_gap(table.take(which == g), about) for g in range(len(names))]
    p = np.array([gap.p_value for gap in gaps])
    worst = min(range(len(gaps)), key=lambda g: (gaps[g].p_value, -abs(gaps[g].gap)))
    label = names[worst]
    return Groupwise(
        len(names),
        len(benjamini_hochberg(p, LEVEL)),
        str(label.decode() if isinstance(label, bytes) else label),
        int((which == worst).sum()),
        gaps[worst].gap,
        simes(p),
        gaps[worst].of_positive,
    )


def label_shift_p_value(fitted: FloatArray, seen: FloatArray) -> float:
    """P-value that two sets of class counts (k,) come from the same shares (chi-square).

    Classes with fewer than five expected rows in either set are pooled. The tail is Wilson
    and Hilferty's cube-root approximation (1931).
    """
    both = fitted + seen
    total, a, b = both.sum(), fitted.sum(), seen.sum()
    if a == 0 or b == 0:
        return 1.0
    enough = both * min(a, b) / total >= 5.0
    f = np.append(fitted[enough], fitted[~enough].sum())
    s = np.append(seen[enough], seen[~enough].sum())
    held = f + s > 0
    f, s = f[held], s[held]
    df = len(f) - 1
    if df < 1:
        return 1.0
    expected_f, expected_s = (f + s) * a / total, (f + s) * b / total
    chi2 = float(((f - expected_f) ** 2 / expected_f).sum() + ((s - expected_s) ** 2 / expected_s).sum())
    h = 2.0 / (9.0 * df)
    return 0.5 * math.erfc(((chi2 / df) ** (1.0 / 3.0) - (1.0 - h)) / math.sqrt(2.0 * h))
