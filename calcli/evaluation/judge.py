"""From numbers to words: direction, classes, verdict. Rules, not moods."""

import math
from collections.abc import Mapping

import numpy as np

from calcli.evaluation.results import Classwise, DataSummary, Direction, Report, Score, Split
from calcli.metrics.context import MetricContext
from calcli.metrics.debiased import cwece2
from calcli.metrics.means import normal_quantile
from calcli.metrics.rowtable import RowTable
from calcli.metrics.significance import (
    benjamini_hochberg,
    class_p_values,
    confidence_direction,
    entropy_direction,
)
from calcli.numerics import FloatArray

__all__ = ["data_summary", "judge", "label_shift_p_value"]

LEVEL = 0.05
MENDS, HELPS = 0.9, 0.5
"""Shares of the calibration loss that a temperature must remove to be the remedy, or to be of use."""


def data_summary(kind: str, table: RowTable) -> DataSummary:
    """What was evaluated."""
    count = np.bincount(table.y, minlength=table.k)
    return DataSummary(
        n=table.n,
        n_classes=table.k,
        kind=kind,
        weighted=table.weight is not None,
        largest_class_share=float(count.max() / table.n),
        smallest_class_share=float(count.min() / table.n),
        absent_classes=int((count == 0).sum()),
        distinct_confidences=len(np.unique(table.confidence)),
    )


def judge(data: DataSummary, context: MetricContext, scores: Mapping[str, Score], split: Split | None) -> Report:
    """Direction, class-wise findings and the verdict on one set of rows.

    scores : at least ``tce2`` and ``smece``. The three tests (mean confidence against
    accuracy, debiased squared error, smooth error) share the 5 % level.
    """
    gap, entropy = confidence_direction(context.table), entropy_direction(context.table)
    direction = Direction(gap.gap, gap.z, entropy.gap, entropy.z, _direction_words(gap.z, entropy.z))
    classwise = _classwise(context)
    p_values = [gap.p_value]
    for name in ("tce2", "smece"):
        p = scores[name].p_value if name in scores else None
        if p is not None:
            p_values.append(p)
    p = min(1.0, len(p_values) * min(p_values))
    level = context.settings.level
    reach = normal_quantile(0.5 + level / 2.0) * (abs(gap.gap / gap.z) if gap.z else 0.0)
    verdict = _verdict(context.table, p, gap.gap, gap.z, reach, classwise, split, level)
    return Report(data, direction, classwise, split, verdict, p)


def _direction_words(gap_z: float, entropy_z: float) -> str:
    reach = normal_quantile(1.0 - LEVEL / 2.0)
    if abs(gap_z) <= reach and abs(entropy_z) <= reach:
        return "neither over- nor underconfident beyond chance"
    if abs(gap_z) <= reach:
        way = "too sure" if entropy_z > 0 else "not sure enough"
        return f"the confidence is right on average, but the probabilities as a whole are {way}"
    way = "overconfident" if gap_z > 0 else "underconfident"
    if abs(entropy_z) > reach and (entropy_z > 0) != (gap_z > 0):
        return f"{way} about the predicted class, the opposite about the others"
    return way


def _classwise(context: MetricContext) -> Classwise | None:
    stats = context.table.classes
    if stats is None:
        return None
    value = cwece2(context)
    off = benjamini_hochberg(class_p_values(stats, context.table.weight is not None), LEVEL).tolist()
    return Classwise(value.value, value.more["signed_square"], value.p_value, len(off), tuple(off[:20]))


def _verdict(
    table: RowTable,
    p: float,
    gap: float,
    z: float,
    reach: float,
    classwise: Classwise | None,
    split: Split | None,
    level: float,
) -> str:
    if table.n < 30:
        return f"too few rows to say anything: {table.n}"
    loss = split.nll if split is not None and split.nll.z > normal_quantile(1.0 - LEVEL) else None
    if p > LEVEL:
        text = f"calibrated within noise: {table.n} rows cannot tell the confidence from a calibrated one (p = {p:.2g})"
        if loss is not None and split is not None:
            return (
                f"{text}, but the whole vector can be improved: {split.method} would take {_small(loss.calibration)}"
                f" off an NLL of {loss.loss:.4f}"
            )
        if classwise and classwise.n_significant:
            return f"{text}, but {classwise.n_significant} of {table.k} classes get too much or too little probability"
        return text
    if abs(z) > normal_quantile(1.0 - LEVEL / 2.0):
        text = f"{'overconfident' if gap > 0 else 'underconfident'} by {abs(gap):.4f}"
        text += f" +- {reach:.4f} ({level:.0%})" if math.isfinite(z) else ""
    else:
        text = "right on average, but too sure at some confidences and not sure enough at others"
    if loss is None or split is None:
        return text
    by_temperature = split.temperature_nll.calibration
    share = by_temperature / loss.calibration
    if share >= MENDS or split.method == "ts":
        return f"{text}; a temperature would remove {_small(by_temperature)} of the NLL (calcli fit --method ts)"
    rest = f"{max(share, 0.0):.0%} of the {_small(loss.calibration)} of NLL that {split.method} would remove"
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
