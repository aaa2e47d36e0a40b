"""Groups of rows: their gaps, tested together, and their lines in a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calcli.evaluation.facts import FitSize, GroupFindings
from calcli.evaluation.levels import LEVEL, MOST_GROUPS
from calcli.evaluation.p_values import widened_p_value
from calcli.evaluation.results import GroupSummary
from calcli.evaluation.scores import measured
from calcli.metrics.catalog import metric
from calcli.metrics.context import MetricContext
from calcli.metrics.losses import GroupGap, gap_interval, group_gaps
from calcli.metrics.settings import Label
from calcli.metrics.smooth import solve_together
from calcli.numerics import AnyArray, in_order
from calcli.statistics.p_values import adjusted

MOST_DRAWS = 200_000
"""Most resamples and draws under calibration for all groups together."""

FEWEST_DRAWS = 200
"""Fewest resamples and draws under calibration per group."""

AT_ONCE = 64
"""Groups whose null distributions of bins are computed together."""


@dataclass(frozen=True)
class GroupPart:
    """Rows of one group. is_margin : a group of one column where there are several."""

    name: Any
    context: MetricContext
    is_margin: bool = False

    @property
    def text(self) -> str:
        """Name of the group, which HDF5 may hold as bytes."""
        if isinstance(self.name, bytes):
            return self.name.decode()
        return str(self.name)


@dataclass(frozen=True)
class TestedGroup:
    """One group with its gap. p_adjusted : adjusted for all groups."""

    part: GroupPart
    gap: GroupGap
    p_value: float
    p_adjusted: float

    @property
    def observed(self) -> float:
        """Frequency of class 1, or accuracy."""
        labelled = self.part.context.labelled(_label(self.gap.of_positive))
        weight = labelled.table.weight
        if weight is None:
            return float(labelled.outcomes.mean())
        return float(weight @ labelled.outcomes) / float(weight.sum())

    @property
    def predicted(self) -> float:
        """Mean P(class 1), or mean confidence."""
        return self.observed + self.gap.gap


def group_parts(
    context: MetricContext, margins: Mapping[str, AnyArray]
) -> list[GroupPart]:
    """Groups of the rows, those of single columns first.

    margins : group of every row by one column, by the column's name, where groups are
    intersections of several; else empty.
    """
    table = context.table
    if table.group is None:
        return []
    parts = []
    for column, values in margins.items():
        for value in np.unique(values):
            rows = np.flatnonzero(values == value)
            margin = MetricContext(table.take(rows), context.settings)
            parts.append(GroupPart(f"{column}={value}", margin, is_margin=True))
    names, tables = table.groups()
    for name, rows_of_group in zip(names, tables, strict=True):
        of_group = MetricContext(rows_of_group, context.settings)
        parts.append(GroupPart(_plain(name), of_group))
    return parts


def gaps_of_groups(
    context: MetricContext,
    margins: Mapping[str, AnyArray],
    positive: bool,
    fit: FitSize | None = None,
) -> list[TestedGroup]:
    """Test the gap of every group, of P(class 1) where ``positive``, else of
    confidence.

    margins : see ``group_parts``. fit : of the calibrator, up to whose error the gaps
    are tested; None for exact tests.
    """
    parts = group_parts(context, margins)
    if not parts:
        return []
    label = _label(positive)
    gaps = group_gaps([part.context for part in parts], label)[label]
    widened = []
    for part, gap in zip(parts, gaps, strict=True):
        factor = fit_factor(part.context, context, fit)
        widened.append(widened_p_value(gap.p_value, factor))
    p_adjusted = adjusted(np.array(widened)).tolist()
    tested = []
    for g, part in enumerate(parts):
        tested.append(TestedGroup(part, gaps[g], widened[g], p_adjusted[g]))
    return tested


def fit_factor(
    group: MetricContext, whole: MetricContext, fit: FitSize | None
) -> float:
    """Factor by which the error of a calibrator's fit widens the gap of a group.

    The error of one map for all rows shrinks with all rows of the fit; that of a map of
    the group's own with the group's share of them.
    """
    if fit is None:
        return 1.0
    rows = whole if fit.by_group else group
    units = rows.table.units
    return fit.error_factor(rows.effective_n, None if units is None else units.n)


def _label(positive: bool) -> Label:
    return "positive" if positive else "top"


def group_findings(groups: Sequence[TestedGroup]) -> GroupFindings | None:
    """Number of groups with a significant gap, and the clearest of them."""
    if not 2 <= len(groups) <= MOST_GROUPS:
        return None
    worst = min(groups, key=lambda group: group.gap.rank)
    return GroupFindings(
        n_groups=len(groups),
        n_significant=sum(group.p_adjusted <= LEVEL for group in groups),
        worst=worst.part.text,
        worst_n=worst.part.context.n,
        worst_gap=worst.gap.gap,
        worst_predicted=worst.predicted,
        worst_observed=worst.observed,
        p_value=min(group.p_adjusted for group in groups),
        of_positive=worst.gap.of_positive,
    )


# ---- lines of a table


def group_lines(
    groups: Sequence[TestedGroup],
    metric_names: Sequence[str],
    gate: float = 0.0,
    order: AnyArray | None = None,
) -> list[GroupSummary]:
    """Lines by group with the metrics that need no class sums.

    gate : p-value that a group must pass before it is called significant. order : the
    group of every row where groups are batches in order of time, whose lines come in
    that order; else the most significant lines come first, single columns before
    intersections.
    """
    names = [name for name in metric_names if not metric(name).needs]
    contexts = _contexts_with_fewer_draws([group.part.context for group in groups])
    if "smece" in names and contexts and contexts[0].settings.compat is None:
        solve_together(contexts)
    lines = []
    for group, context in zip(groups, contexts, strict=True):
        p_adjusted = max(group.p_adjusted, gate)
        lines.append(
            GroupSummary(
                group=group.part.name,
                n=context.table.n,
                gap=group.gap.gap,
                of_positive=group.gap.of_positive,
                p_value=group.p_value,
                p_adjusted=p_adjusted,
                significant=p_adjusted <= LEVEL,
                predicted=group.predicted,
                observed=group.observed,
                interval=gap_interval(context.labelled(_label(group.gap.of_positive))),
                scores=measured(context, names),
                margin=group.part.is_margin,
            )
        )
    if order is not None:
        by_name = {line.group: line for line in lines}
        return [by_name[_plain(name)] for name in in_order(order)]
    ranked = sorted(
        range(len(lines)),
        key=lambda g: (not lines[g].margin, groups[g].gap.rank),
    )
    return [lines[g] for g in ranked]


def _plain(name: Any) -> Any:
    """Name of a group as a value of Python."""
    return name.item() if hasattr(name, "item") else str(name)


def _contexts_with_fewer_draws(
    contexts: Sequence[MetricContext],
) -> list[MetricContext]:
    """Contexts of groups whose draws together are bounded, and made together."""
    if not contexts:
        return []
    draws = max(FEWEST_DRAWS, MOST_DRAWS // len(contexts))
    draws = min(contexts[0].settings.resamples, draws)
    fewer = []
    for context in contexts:
        settings = replace(context.settings, resamples=draws)
        fewer.append(MetricContext(context.table, settings))
    for g, context in enumerate(fewer):
        first = g - g % AT_ONCE
        context.neighbours = fewer[first : first + AT_ONCE]
    return fewer
