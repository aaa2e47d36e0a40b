"""From numbers to words: direction, classes, verdict. Rules, not moods."""

import math
from dataclasses import replace

import numpy as np

from calcli.evaluation.joint import JointTest, joint_test
from calcli.evaluation.results import Classwise, DataSummary, Direction, Groupwise, Report, Split
from calcli.metrics.context import MetricContext
from calcli.metrics.debiased import cwece2
from calcli.metrics.means import normal_quantile
from calcli.metrics.rowtable import RowTable
from calcli.metrics.significance import (
    benjamini_hochberg,
    class_p_values,
    confidence_direction,
    positive_direction,
    simes,
)
from calcli.numerics import FloatArray

__all__ = ["data_summary", "judge", "label_shift_p_value"]

LEVEL = 0.05
"""How often a verdict on calibrated rows may be anything but clean."""

MAIN, CLAUSE = 0.045, 0.004
"""How the level is shared by the joint test of the confidence and by each clause."""

TWO_SIDED = normal_quantile(1.0 - LEVEL / 2.0)
CLEAN_DIRECTION = "neither over- nor underconfident beyond chance"
ALONE = "the probabilities as a whole are", "single confidences are"
"""What the entropy gap is called, and how where only confidences are known."""
MOST_GROUPS = 1000
MENDS, HELPS = 0.9, 0.5
"""Shares of the calibration loss that a temperature must remove to be the remedy, or to be of use."""


def data_summary(kind: str, table: RowTable) -> DataSummary:
    """What was evaluated."""
    alone = table.k == 1
    count = np.bincount(table.y, minlength=table.k)
    return DataSummary(
        n=table.n,
        n_classes=None if alone else table.k,
        kind=kind,
        weighted=table.weight is not None,
        largest_class_share=None if alone else float(count.max() / table.n),
        smallest_class_share=None if alone else float(count.min() / table.n),
        absent_classes=0 if alone else int((count == 0).sum()),
        distinct_confidences=len(np.unique(table.confidence)),
    )


def judge(data: DataSummary, context: MetricContext, split: Split | None) -> Report:
    """Direction, findings by class and group, and the verdict on one set of rows.

    The verdict calls calibrated rows calibrated 95 times in 100: its three tests of the
    confidence share ``MAIN`` of the 5 %, and each of its clauses (classes, groups, the split
    of the loss) has ``CLAUSE``. What is said beside it follows the same decisions.
    """
    test = joint_test(context)
    classes, groups = _class_findings(context), _group_findings(context)
    rejected = test.p_value <= MAIN
    p = min(1.0, test.p_value * LEVEL / MAIN)
    overall = min(
        p,
        *(found.p_value * LEVEL / CLAUSE for found in (classes, groups) if found is not None),
        1.0 if split is None else normal_tail(split.nll.z) * LEVEL / CLAUSE,
    )
    direction = Direction(
        test.gap.gap,
        test.gap.z,
        test.entropy.gap,
        test.entropy.z,
        _direction_words(test.gap.z, test.entropy.z) if rejected else CLEAN_DIRECTION,
    )
    if classes is not None and not rejected and classes.p_value > CLAUSE:
        classes = replace(classes, n_significant=0, significant_classes=())
    if groups is not None and groups.p_value > CLAUSE:
        groups = replace(groups, n_significant=0)
    if data.n < 30:
        verdict, p, overall = f"too few rows to say anything: {data.n}", 1.0, 1.0
    elif rejected:
        verdict = _wrong(test, split, context.settings.level)
        if data.n_classes is None:
            verdict, direction = verdict.replace(*ALONE), replace(direction, words=direction.words.replace(*ALONE))
    else:
        clauses = [_split_clause(split), _class_clause(classes, data.n_classes), _group_clause(groups)]
        verdict = f"calibrated within noise: {data.n} rows cannot tell the confidence from a calibrated one"
        verdict += f" (p = {p:.2g}){next(filter(None, clauses), '')}"
    return Report(data, direction, classes, split, verdict, p, overall, groups)


def normal_tail(z: float) -> float:
    """P(Z >= z) of a standard normal."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _direction_words(gap_z: float, entropy_z: float) -> str:
    """In words what of a departure that is there is an over- or underconfidence."""
    if abs(gap_z) <= TWO_SIDED and abs(entropy_z) <= TWO_SIDED:
        return "right on average, not at every confidence"
    if abs(gap_z) <= TWO_SIDED:
        way = "too sure" if entropy_z > 0 else "not sure enough"
        return f"the confidence is right on average, but the probabilities as a whole are {way}"
    way = "overconfident" if gap_z > 0 else "underconfident"
    if abs(entropy_z) > TWO_SIDED and (entropy_z > 0) != (gap_z > 0):
        return f"{way} about the predicted class, the opposite about the others"
    return way


def _class_findings(context: MetricContext) -> Classwise | None:
    """Debiased error by class, and Simes' test that the total probability of every class is right."""
    stats = context.table.classes
    if stats is None:
        return None
    value = cwece2(context)
    p = class_p_values(stats, context.table.weight is not None)
    off = benjamini_hochberg(p, LEVEL).tolist()
    return Classwise(value.value, value.more["signed_square"], simes(p), len(off), tuple(off[:20]))


def _group_findings(context: MetricContext) -> Groupwise | None:
    """Simes' test that in every group the confidence (of two classes also P(class 1)) is right on average."""
    table = context.table
    if table.group is None:
        return None
    names, which = np.unique(table.group, return_inverse=True)
    if not 2 <= len(names) <= MOST_GROUPS:
        return None
    found = []
    for g in range(len(names)):
        part = table.take(which == g)
        gaps = [confidence_direction(part)]
        if part.positive is not None:
            gaps.append(positive_direction(part))
        worst = max(gaps, key=lambda gap: abs(gap.z))
        found.append((min(1.0, len(gaps) * worst.p_value), worst.gap))
    p = np.array([each[0] for each in found])
    worst_group = int(p.argmin())
    label = names[worst_group]
    return Groupwise(
        len(names),
        len(benjamini_hochberg(p, LEVEL)),
        str(label.decode() if isinstance(label, bytes) else label),
        int((which == worst_group).sum()),
        found[worst_group][1],
        simes(p),
    )


def _split_clause(split: Split | None) -> str:
    if split is None or normal_tail(split.nll.z) > CLAUSE:
        return ""
    return (
        f", but the whole vector can be improved: {split.method} would take {_small(split.nll.calibration)}"
        f" off a log loss of {split.nll.loss:.4f}"
    )


def _class_clause(classes: Classwise | None, k: int | None) -> str:
    if classes is None or not classes.n_significant:
        return ""
    return f", but {classes.n_significant} of {k} classes get too much or too little probability"


def _group_clause(groups: Groupwise | None) -> str:
    if groups is None or not groups.n_significant:
        return ""
    return (
        f", but {groups.n_significant} of {groups.n_groups} groups are off, most of all {groups.worst}"
        f" by {groups.worst_gap:+.4f}"
    )


def _wrong(test: JointTest, split: Split | None, level: float) -> str:
    """What is wrong, and whether a temperature mends it."""
    gap, z = test.gap.gap, test.gap.z
    if abs(z) > TWO_SIDED:
        reach = normal_quantile(0.5 + level / 2.0) * abs(gap / z)
        text = f"{'overconfident' if gap > 0 else 'underconfident'} by {abs(gap):.4f}"
        text += f" ±{reach:.4f} ({level:.0%})" if math.isfinite(z) else ""
    elif abs(test.entropy.z) > TWO_SIDED:
        way = "too sure" if test.entropy.z > 0 else "not sure enough"
        text = f"the confidence is right on average, but the probabilities as a whole are {way}"
    else:
        text = "right on average, but too sure at some confidences and not sure enough at others"
    if split is None or split.nll.z <= normal_quantile(1.0 - LEVEL):
        return text
    by_temperature = split.temperature_nll.calibration
    share = by_temperature / split.nll.calibration
    if share >= MENDS or split.method == "ts":
        return f"{text}; a temperature would remove {_small(by_temperature)} of the log loss (calcli fit --method ts)"
    rest = f"{max(share, 0.0):.0%} of the {_small(split.nll.calibration)} of log loss that {split.method} would remove"
    if share >= HELPS:
        return f"{text}; a temperature would remove only {rest}"
    return f"{text}; a temperature cannot fix this: it removes {rest}"


def _small(x: float) -> str:
    return f"{x:.4f}" if abs(x) >= 1e-4 else f"{x:.1e}"


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
