"""Lines of a table by class."""

import numpy as np

from calcli.evaluation.levels import LEVEL
from calcli.evaluation.p_values import widened_p_value
from calcli.evaluation.results import ClassSummary
from calcli.metrics.binned_errors import per_class_errors
from calcli.metrics.context import MetricContext
from calcli.metrics.debiased import class_p_values_of
from calcli.numerics import AnyArray
from calcli.statistics.p_values import adjusted


def class_lines(
    context: MetricContext,
    names: list[str] | None,
    gate: float = 0.0,
    factor: float = 1.0,
) -> list[ClassSummary]:
    """Lines by class, the most significant gap first.

    gate : p-value that a class must pass before it is called significant. factor : by
    which the error of a calibrator's fit widens the gaps.
    """
    table = context.table
    stats = table.classes
    exact = class_p_values_of(context)
    assert stats is not None and exact is not None
    p_values = np.array([widened_p_value(p, factor) for p in exact.tolist()])
    p_adjusted = np.maximum(adjusted(p_values), gate)
    mean, labels, _ = stats.whole
    total = stats.weight.sum(axis=1)
    gaps = (mean - labels) / total

    right_weight = table.weights * context.right
    right = np.bincount(table.y, weights=right_weight, minlength=table.k)
    predicted_weight = np.bincount(
        context.predicted, weights=table.weights, minlength=table.k
    )
    label_weight = np.bincount(table.y, weights=table.weights, minlength=table.k)
    n_labels = np.bincount(table.y, minlength=table.k)
    n_predicted = np.bincount(context.predicted, minlength=table.k)
    errors = per_class_errors(context, "width", context.settings.norm)

    lines = []
    for c in range(table.k):
        lines.append(
            ClassSummary(
                index=c,
                name=None if names is None else names[c],
                n=int(n_labels[c]),
                predicted=int(n_predicted[c]),
                share=float(labels[c] / total[c]),
                mean_probability=float(mean[c] / total[c]),
                gap=float(gaps[c]),
                p_value=float(p_values[c]),
                p_adjusted=float(p_adjusted[c]),
                significant=bool(p_adjusted[c] <= LEVEL),
                precision=_share(right, predicted_weight, c),
                recall=_share(right, label_weight, c),
                ece=float(errors[c]),
            )
        )
    return sorted(lines, key=_rank)


def _rank(line: ClassSummary) -> tuple[float, float, int]:
    """Order of lines, which rounding does not change."""
    return round(line.p_value, 12), -round(abs(line.gap), 12), line.index


def _share(part: AnyArray, whole: AnyArray, c: int) -> float | None:
    """Proportion of a class, None where it has no rows."""
    if not whole[c] > 0.0:
        return None
    return float(part[c] / whole[c])
