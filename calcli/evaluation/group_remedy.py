"""Would a calibrator by group help? Measured on the rows at hand, before it is named.

``calcli fit --by`` is a remedy for miscalibrated groups only where the groups differ by
more than one map for all corrects, and hold enough rows to tell. Both are seen by
cross-fitting: every row is scored by a map of its group and by one map for all, each
fitted without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.block import Codes
from calcli.calibrator import Context, Progress
from calcli.errors import FitError
from calcli.evaluation.cross_validation import fold_fits, folds_of, held_out_table
from calcli.evaluation.differences import compared
from calcli.evaluation.facts import LOSS_WORDS, ONE_SIDED, Difference, deciding_loss
from calcli.evaluation.findings import Finding
from calcli.evaluation.levels import LEVEL
from calcli.evaluation.overlapping_fits import over_folds
from calcli.io.locate import columns_in, columns_joined
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.numerics import BREAKDOWNS, AnyArray
from calcli.registry import by_group, parse_options
from calcli.rows import ArrayRows, Rows
from calcli.statistics.intervals import ends_of, normal_quantile
from calcli.statistics.p_values import adjusted

FOLDS = 5

MOST_SCORES = 2_000_000
"""Rows times classes times choices of columns up to which calibrators by group are
tried.
"""

LEAST_CLASSES = 20
"""Least number of classes to count with: of few classes the groups cost the time, not
the classes. 100 000 rows of two classes took 1.4 seconds (``benchmarks/group_remedy.py
--cost``).
"""


@dataclass(frozen=True)
class Trial:
    """A calibrator by group, cross-fitted.

    method : of the maps, ``ts`` or ``platt``. by : the column, or several joined.
    change : of the loss against one map for all, cross-fitted likewise. held_out : the
    rows under it. p_value : of a loss that is not lower (one-sided), adjusted for all
    choices of columns. n_folds : folds, each left out of one fit.
    """

    method: str
    by: str
    change: Difference
    held_out: MetricContext
    p_value: float
    n_folds: int

    @property
    def columns(self) -> list[str]:
        return columns_in(self.by)

    @property
    def helps(self) -> bool:
        """True if the loss is significantly below that of one map for all."""
        return _is_reduced(self.change, self.p_value)


def is_affordable(rows: Rows, choices: int) -> bool:
    """True if trying so many choices of columns takes seconds."""
    return rows.n * max(rows.k, LEAST_CLASSES) * choices <= MOST_SCORES


def choices_of(
    name: str, group: AnyArray, margins: Mapping[str, AnyArray]
) -> dict[str, AnyArray]:
    """The group of every row by each choice of columns: each alone, and all together.

    name : of the column of ``group``. margins : see ``Subject``; empty for one column.
    """
    if not margins:
        return {name: group}
    return {**margins, columns_joined(margins): group}


def method_for(rows: Rows) -> str:
    """Method whose maps are tried by group."""
    return "ts" if rows.k > 2 else "platt"


def best_by_group(
    rows: Rows,
    choices: Mapping[str, AnyArray],
    settings: MetricSettings,
    progress: Progress | None = None,
) -> Trial | None:
    """The calibrator by group with the least cross-fitted loss.

    None where it cannot be fitted, or nothing can be told from the rows. choices : see
    ``choices_of``. settings : of the evaluation.
    """
    name = method_for(rows)
    context = Context(settings.seed)
    whole = _in_memory(rows, choices)
    folds = folds_of(whole, context, FOLDS)
    if len(folds) < 2:
        return None
    try:
        plain = fold_fits(name, parse_options(name, {}), folds, context)
        one_map = held_out_table(plain, folds, units=whole.units())
        trials = []
        for done, by in enumerate(choices):
            if progress is not None:
                progress("trying calibrators by group", done, len(choices))
            # whether groups are worth it is what the folds tell, not a guard inside them
            options = parse_options(by_group(name), {"by": by, "guard": "false"})
            fits = fold_fits(by_group(name), options, folds, context)
            against = []
            for (_, held_rows, _), fit in zip(folds, plain, strict=True):
                against.append((held_rows, fit))
            table = held_out_table(fits, folds, against, units=whole.units())
            held_out = MetricContext(table, settings)
            changes = compared(held_out, MetricContext(one_map, settings))
            changes = over_folds(changes, len(folds), held_out)
            change = changes[deciding_loss(rows.k > 1)]
            p_value = _p_value_of_reduction(change)
            trials.append(Trial(name, by, change, held_out, p_value, len(folds)))
    except (FitError, *BREAKDOWNS):
        return None
    p_values = adjusted(np.array([trial.p_value for trial in trials])).tolist()
    judged = []
    for trial, p_value in zip(trials, p_values, strict=True):
        judged.append(replace(trial, p_value=p_value))
    helping = [trial for trial in judged if trial.helps]
    return min(helping or judged, key=lambda trial: trial.change.value)


def _p_value_of_reduction(change: Difference) -> float:
    """One-sided p-value: that the loss is not lower. 1 where nothing can be told."""
    if change.p_value is None:
        return 1.0
    if change.value < 0.0:
        return change.p_value / 2.0
    return 1.0 - change.p_value / 2.0


def _at_least(change: Difference) -> float | None:
    """Lower one-sided bound of the reduction, of the same level as its test.

    The interval's half on that side is brought from its two-sided deviate (1.96 at 95
    %) to the one-sided (1.645), whatever the level of the interval. None without one.
    """
    if change.interval is None:
        return None
    two_sided = normal_quantile(0.5 + change.interval.level / 2.0)
    half = change.interval.high - change.value
    return -(change.value + half * ONE_SIDED / two_sided)


def _in_memory(rows: Rows, choices: Mapping[str, AnyArray]) -> ArrayRows:
    """The rows with their groups, which fits read many times."""
    copied = ArrayRows(
        rows.array(),
        rows.labels(),
        rows.kind,
        weight=rows.weights(),
        units=rows.units(),
    )
    copied.columns = {by: Codes.of(group) for by, group in choices.items()}
    return copied.counting(rows.zeros)


# ---- findings


def remedy_finding(trial: Trial, evaluated: MetricContext) -> Finding:
    """What a calibrator by group does, beside a version of the scores on the same rows.

    It helps where its loss is significantly below that of one map for all, and below
    that of the evaluated version: else whoever has a better calibrator would lose by
    it.
    """
    loss = deciding_loss(evaluated.table.k > 1)
    # The table's expected moments are of the comparison with one map for all.
    table = replace(trial.held_out.table, expected={})
    changes = compared(MetricContext(table, evaluated.settings), evaluated)
    here = over_folds(changes, trial.n_folds, evaluated)[loss]
    helps = trial.helps and _is_reduced(here, _p_value_of_reduction(here))
    low, high = ends_of(trial.change.interval)
    return Finding(
        "by_group",
        {
            "helps": helps,
            "method": trial.method,
            "by": trial.columns,
            "loss": LOSS_WORDS[loss],
            "change": trial.change.value,
            "low": low,
            "high": high,
            "at_least": _at_least(trial.change),
            "p": trial.p_value,
            "change_here": here.value,
            "folds": FOLDS,
        },
    )


def _is_reduced(change: Difference, p_value: float) -> bool:
    return change.value < 0.0 and p_value <= LEVEL


def too_expensive(rows: Rows, choices: Mapping[str, AnyArray]) -> Finding:
    """Make the finding that calibrators by group were not tried, as it takes too long."""
    *_, together = choices
    return Finding(
        "by_group_untried",
        {
            "method": method_for(rows),
            "by": columns_in(together),
            "n": rows.n,
        },
    )


def with_remedy(findings: Sequence[Finding], remedy: Finding) -> list[Finding]:
    """Findings with a remedy: beside the groups where it helps, else at the end."""
    if not remedy.numbers.get("helps"):
        return [*findings, remedy]
    place = [finding.kind for finding in findings].index("groups") + 1
    return [*findings[:place], remedy, *findings[place:]]
