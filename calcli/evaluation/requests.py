"""What an evaluation is asked for: ``Subject`` (rows), ``Candidate`` (a calibrator)
and ``Plan`` (metrics and settings).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import UNSET

from calcli.calibrator import Calibrator
from calcli.evaluation.facts import FitSize
from calcli.io.artifact import Artifact, Link
from calcli.io.dataset import NO_UNIT, DataSet
from calcli.io.locate import Location, columns_in, columns_of
from calcli.metrics.catalog import (
    metric,
    metric_names,
    report_metrics,
)
from calcli.metrics.settings import Label, MetricSettings
from calcli.numerics import AnyArray
from calcli.registry import is_by_group
from calcli.rows import Rows, SubsetRows
from calcli.statistics.weights import effective_number


@dataclass(frozen=True)
class Subject:
    """Rows to evaluate.

    name : for display. group : of every row, (n,), from the column ``group_name``.
    margins : where groups are intersections of several columns, the group of every row
    by each column. class_names : one per class. unit : name of the units, ``none``
    where rows are declared independent. location : of the rows, for suggested commands.
    upstream : calibrators applied to the rows before.
    """

    rows: Rows
    name: str = ""
    group: AnyArray | None = None
    margins: Mapping[str, AnyArray] = field(default_factory=dict)
    class_names: Sequence[str] | None = None
    unit: str | None = None
    location: Location = Location()
    upstream: Sequence[Link] = ()
    group_name: str = "group"

    @classmethod
    def of(cls, rows: DataSet, group: AnyArray | None) -> "Subject":
        margins = {}
        if group is not None:
            margins = columns_of(group, columns_in(rows.own_name("group")))
        return cls(
            rows=rows,
            name=rows.name,
            group=group,
            margins=margins,
            class_names=rows.class_names,
            unit=rows.unit_name,
            location=rows.location,
            upstream=rows.upstream,
            group_name=rows.own_name("group"),
        )

    def counted(self) -> "Subject":
        """Subject of the rows that count (see ``Rows.counted``)."""
        rows = self.rows.counted()
        if not isinstance(rows, SubsetRows) or rows is self.rows:
            return self
        unit = self.unit
        if unit != NO_UNIT and rows.units() is None:
            unit = None
        return replace(
            self,
            rows=rows,
            unit=unit,
            group=None if self.group is None else self.group[rows.index],
            margins={name: values[rows.index] for name, values in self.margins.items()},
        )


@dataclass(frozen=True)
class Candidate:
    """Calibrator to evaluate.

    name : artifact as the user wrote it, None for uncalibrated scores. path : of its
    file, for suggested commands. fitted_on : rows of its fit as commands name them, if
    the file exists. fit_size : of its fit, if known. fitted_rows_here : once the rows
    have been read, returns a description of those that it was fitted on. n_folds :
    folds of cross-fitting, each scored by a fit to the others; 0 where one calibrator
    scores all rows. Means of folds run against their labels, which is no reason to
    doubt these. takes_whole_logs : its file calibrates all questions of a log.
    """

    name: str | None
    method: str
    calibrator: Calibrator | None
    path: str | None = None
    fitted_on: str = ""
    fit_size: FitSize | None = None
    fitted_rows_here: Callable[[], str | None] = lambda: None
    n_folds: int = 0
    takes_whole_logs: bool = False

    @property
    def is_cross_fitted(self) -> bool:
        return self.n_folds > 0


UNCALIBRATED = Candidate(None, "uncalibrated", None)
"""The scores as given."""


def scores_as_given(rows: DataSet) -> Candidate:
    """The scores of rows as they are.

    Those that a calibrator wrote, whose record the file holds, are judged up to the
    error of its fit, as the calibrator itself is.
    """
    artifact = rows.last_calibrator
    if artifact is None:
        return UNCALIBRATED
    return replace(UNCALIBRATED, fit_size=fit_size_of(artifact))


def fit_size_of(artifact: Artifact) -> FitSize | None:
    """Size of a calibrator's fit; None for one that was not fitted to rows."""
    if artifact.method == "identity" or artifact.method.split("+")[-1] == "prior":
        return None
    units: Mapping[str, object] = artifact.fit.details
    n_units = units.get("units")
    effective_rows = artifact.fit.effective_rows
    return FitSize(
        n=artifact.fit.n,
        units=n_units if isinstance(n_units, int) else None,
        effective_rows=effective_rows if effective_rows is not UNSET else None,
        by_group=is_by_group(artifact.method),
    )


def cross_fitted_candidate(
    path: str, method: str, calibrator: Calibrator, n_folds: int, rows: DataSet
) -> Candidate:
    """The candidate of which every row is scored by a fit to the other folds."""
    units = rows.units()
    weight = rows.weights()
    effective_rows = None
    if weight is not None:
        effective_rows = effective_number(weight) * (n_folds - 1) / n_folds
    return Candidate(
        name=path,
        method=method,
        calibrator=calibrator,
        path=path,
        fit_size=FitSize(
            n=max(1, rows.n * (n_folds - 1) // n_folds),
            units=None if units is None else units.n * (n_folds - 1) // n_folds,
            effective_rows=effective_rows,
            by_group=is_by_group(method),
            n_folds=n_folds,
        ),
        n_folds=n_folds,
    )


@dataclass(frozen=True)
class Plan:
    """Plan of an evaluation.

    metrics : names, in order; ``report`` adds those for two classes. report : compute
    the judgement too. decomposition : decompose the losses by cross-fitting; None: only
    if that is cheap. about : quantity judged, ``top`` or ``positive``; None: by the number of
    classes. per_class, per_group : lines by class and by group. ordered : groups are
    batches in order of time, judged by their overconfidence. tables : are row tables
    needed afterwards? limited : metrics with limits, which are kept even for rows on
    which they are undefined.
    """

    metrics: Sequence[str]
    settings: MetricSettings = field(default_factory=MetricSettings)
    report: bool = True
    decomposition: bool | None = None
    about: Label | None = None
    per_class: bool = False
    per_group: bool = False
    ordered: bool = False
    tables: bool = False
    limited: Sequence[str] = ()

    def metrics_for(self, k: int) -> list[str]:
        """Names of the metrics for rows of k classes, in order."""
        if not self.report:
            return list(self.metrics)
        if k == 1:
            return [name for name in self.metrics if self._is_for_confidences(name)]
        ordered = self.settings.ordered_levels
        if k != 2 and not ordered:
            return list(self.metrics)
        label = self.settings.label
        wanted = {*self.metrics, *report_metrics(k=k, ordered=ordered, label=label)}
        known = [name for name in metric_names() if name in wanted]
        at_numbers = [name for name in self.metrics if name not in metric_names()]
        return known + at_numbers

    def _is_for_confidences(self, name: str) -> bool:
        return not metric(name).whole or name in self.limited
