"""What the tests decide together: direction, classes, groups, verdict. Rules, not moods."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calcli.evaluation.joint_test import joint_test
from calcli.evaluation.verdict_results import Classwise, DataSummary, Direction, Groupwise, Report, Split
from calcli.evaluation.verdict_text import clean_text, direction_words, wrong_text
from calcli.fast_dataclass import dataclass
from calcli.metrics.context import MetricContext
from calcli.metrics.debiased import cwece2
from calcli.metrics.intervals import normal_tail
from calcli.metrics.rowtable import RowTable
from calcli.metrics.significance import (
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

FEW = 30
"""Rows below which nothing is said."""

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


def judge(data: DataSummary, context: MetricContext, split: Split | None) -> Report:
    """Direction, findings by class and group, and the verdict on one set of rows.

    The verdict calls calibrated rows calibrated 95 times in 100: its three tests of the
    confidence share ``MAIN`` of the 5 %, and each of its clauses (classes, groups, the split
    of the loss) has ``CLAUSE``. What is said beside it follows the same decisions. Of fewer
    than ``FEW`` rows nothing is said.
    """
    test, k = joint_test(context), data.n_classes
    classes, groups = _class_findings(context), _group_findings(context)
    positive = None if context.table.positive is None else direction_of(context, "positive")
    few = data.n < FEW
    rejected = test.p_value <= MAIN and not few
    clauses = {
        "classes": 1.0 if classes is None else classes.p_value,
        "groups": 1.0 if groups is None else groups.p_value,
        "split": 1.0 if split is None else normal_tail(split.nll.z),
    }
    found = tuple(name for name, p in clauses.items() if p <= CLAUSE and not few)
    p = 1.0 if few else min(1.0, test.p_value * LEVEL / MAIN)
    overall = 1.0 if few else min(p, *(own * LEVEL / CLAUSE for own in clauses.values()))
    if classes is not None and not rejected and "classes" not in found:
        classes = replace(classes, n_significant=0, significant_classes=())
    if groups is not None and not rejected and "groups" not in found:
        groups = replace(groups, n_significant=0)
    off = positive if "classes" in found else None
    apart = groups if "groups" in found else None
    if few:
        verdict = f"too few rows to say anything: {data.n}"
    elif rejected:
        verdict = wrong_text(test, k, split, context.settings.level, positive=off, groups=apart)
    else:
        each, gain = classes if "classes" in found else None, split if "split" in found else None
        verdict = clean_text(data.n, k, p, positive=off, classes=each, groups=apart, split=gain)
    words = "too few rows to say" if few else direction_words(test, k, rejected)
    direction = Direction(test.gap.gap, test.gap.z, test.entropy.gap, test.entropy.z, words)
    findings = ("confidence", *found) if rejected else found
    return Report(data, direction, classes, split, verdict, p, overall, groups, positive, findings)


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
    """gap : the worse of mean confidence minus accuracy and, of two classes, mean P(class 1) minus its share."""

    gap: float
    p_value: float
    of_positive: bool


def group_gap(part: RowTable) -> GroupGap:
    """How far one group of rows is off on average; the p-value counts both gaps that two classes have."""
    found = [(sum_p_value(part.confidence, part.correct, part.weight), confidence_direction(part).gap)]
    if part.positive is not None:
        y = (part.y == 1).astype(np.float64)
        found.append((sum_p_value(part.positive, y, part.weight), positive_direction(part).gap))
    at = min(range(len(found)), key=lambda each: found[each][0])
    return GroupGap(found[at][1], min(1.0, len(found) * found[at][0]), at == 1)


def _group_findings(context: MetricContext) -> Groupwise | None:
    """Simes' test that in every group the confidence (of two classes also P(class 1)) is right on average."""
    table = context.table
    if table.group is None:
        return None
    names, which = np.unique(table.group, return_inverse=True)
    if not 2 <= len(names) <= MOST_GROUPS:
        return None
    gaps = [group_gap(table.take(which == g)) for g in range(len(names))]
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
