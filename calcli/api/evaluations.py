"""Evaluations: numbers with a verdict, and the page of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

from calcli.api.argument_words import says_arguments
from calcli.api.arguments import (
    LOG,
    Scores,
    check_free,
    checked,
    groups_of,
    open_held_out,
    path_of,
    warn_all,
)
from calcli.api.calibrators import FittedCalibrator, artifacts_of
from calcli.api.tables import check_index
from calcli.errors import UsageError, unknown_name
from calcli.evaluation.caveats import TriedArtifact, with_caveats
from calcli.evaluation.evaluate_bundle import Assessed, assess
from calcli.evaluation.evaluation import Evaluation
from calcli.evaluation.requests import (
    Candidate,
    Plan,
    Subject,
    fit_size_of,
    scores_as_given,
)
from calcli.evaluation.results import Result
from calcli.fitting.rows_of_fit import fitted_on
from calcli.io.artifact import Artifact
from calcli.io.atomic import write_bytes
from calcli.io.dataset import DataSet
from calcli.io.memory import as_names
from calcli.metrics.catalog import (
    metric,
    metric_names,
    report_metrics,
    settings_of,
)
from calcli.metrics.other_programs import PROGRAMS
from calcli.metrics.settings import MetricSettings, norm_of
from calcli.metrics.warnings import label_warnings

OF_ROWS = ("weights", "units", "class_names", "groups", "again")
"""Arguments of ``evaluate`` that say something of the rows; all others are settings."""


@says_arguments
def evaluate(
    scores: Scores,
    labels: Any = None,
    calibrators: FittedCalibrator | Sequence[FittedCalibrator] = (),
    kind: str | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    weights: Any = None,
    units: Any = None,
    groups: Any = None,
    class_names: Sequence[str] | None = None,
    again: bool = False,
    **settings: Any,
) -> Evaluation:
    """Measure scores with labels, uncalibrated and through each calibrator, with
    uncertainty.

    scores, labels, kind, weights, units, class_names : as for ``fit``. groups : (n,) of
    arrays, for findings by group and for calibrators by group. metrics : a name of
    ``calcli metrics``, or several; left out, the report with its verdict. settings :
    fields of ``MetricSettings`` (``bins``, ``norm``, ``scheme``, ``label``, ``level``,
    ``resamples``, ``seed``, ``threshold``, …). again : accept rows that a calibrator
    has been applied to. The result's ``to_dict()`` is the JSON of ``calcli evaluate``.

    Raises UsageError for metrics and settings that do not exist, DataError for bad rows
    and for calibrators of other classes.

    >>> import numpy as np
    >>> probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])
    >>> found = evaluate(probabilities, [0, 1, 1, 0], kind="probs", metrics=["accuracy", "ece"])
    >>> found.results[0].scores["accuracy"].value
    0.75
    """
    if isinstance(metrics, str):
        metrics = [metrics]
    names = None if metrics is None else [metric(name).name for name in metrics]
    plan = _plan(names, settings)
    artifacts = artifacts_of(calibrators)
    with _opened(
        scores,
        labels,
        kind,
        artifacts,
        weights=weights,
        units=units,
        class_names=class_names,
        groups=groups,
        again=again,
    ) as trial:
        subject = trial.subject
        if not plan.report:
            subject = replace(subject, group=None)
        assessed = assess(subject, trial.candidates, plan)
        results = trial.finished(assessed, plan)
    for result in results:
        if result.report is not None:
            LOG.info("%s: %s", result.title, result.report.headline)
    return Evaluation([results])


@says_arguments
def report(
    scores: Scores,
    labels: Any = None,
    calibrators: FittedCalibrator | Sequence[FittedCalibrator] = (),
    kind: str | None = None,
    *,
    path: str | PathLike[str],
    title: str = "",
    force: bool = False,
    **how: Any,
) -> Evaluation:
    """Write an HTML report of scores with labels, uncalibrated and through each
    calibrator.

    path : of the page, which ends in .html. title : its name. how : all else that
    ``evaluate`` takes but ``metrics``. Its result is returned; the page holds its JSON.
    Raises UsageError where a file exists, unless ``force``, and what ``evaluate``
    raises.

    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> page = Path(tempfile.mkdtemp()) / "report.html"
    >>> found = report(np.eye(2)[[0, 1, 1, 0]] * 3, [0, 1, 1, 1], kind="logits", path=page)
    >>> page.exists(), found.results[0].method
    (True, 'uncalibrated')
    """
    from calcli.reporting.gather import gather, metrics_of_page, with_results
    from calcli.reporting.page import page

    target = path_of(path, "path")
    artifacts = artifacts_of(calibrators)
    if target.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{target}: expected a name that ends in .html")
    check_free(target, force)
    of_rows = {}
    for name in OF_ROWS:
        if name in how:
            of_rows[name] = how.pop(name)
    plan = replace(_plan(None, how), metrics=metrics_of_page())
    files = [(f"{artifact.method}.json", artifact) for artifact in artifacts]
    with _opened(scores, labels, kind, artifacts, **of_rows) as trial:
        model, assessed = gather(trial.subject, trial.candidates, plan)
        results = trial.finished(assessed, plan)
        model = with_results(model, results, files, trial.rows)
    evaluation = Evaluation([results])
    write_bytes(target, page([model], evaluation.to_dict(), title=title), force=force)
    return evaluation


def _plan(names: Sequence[str] | None, settings: Mapping[str, Any]) -> Plan:
    """Plan of an evaluation: the metrics named, or else the report.

    Raises UsageError for unknown settings.
    """
    checked_settings = checked(MetricSettings, settings)
    norm = checked_settings.norm
    norm_of("max" if math.isinf(norm) else str(norm))  # refuses others
    _warn_of_unused(names, settings)
    program = checked_settings.compat
    if program is not None and program not in PROGRAMS:
        raise unknown_name("program", program, PROGRAMS)
    return Plan(
        tuple(names or report_metrics(label=checked_settings.label)),
        checked_settings,
        report=names is None,
        about=settings.get("label"),
    )


def _warn_of_unused(names: Sequence[str] | None, settings: Mapping[str, Any]) -> None:
    """Warn of settings on which none of the metrics named depends.

    A program may hand the same settings to every call. label : also chooses what is
    compared by group.
    """
    if not names:
        return
    unused = settings_of(metric_names()) - settings_of(names) - {"label"}
    notes = []
    for name in settings:
        if name in unused:
            notes.append(
                f"{name} has no effect here: no metric that is asked for depends on it;"
                f" see calcli metrics {names[0]}"
            )
    warn_all(notes)


@dataclass(frozen=True)
class _Trial:
    """Rows on which calibrators are tried.

    notes : warnings that are issued at the end, to append to.
    """

    rows: DataSet
    artifacts: Sequence[Artifact]
    subject: Subject
    candidates: list[Candidate]
    notes: list[str]

    def finished(self, assessed: Assessed, plan: Plan) -> list[Result]:
        """The results, with doubts about rows and fits among their findings."""
        self.notes.extend(label_warnings(assessed.uncalibrated, self.rows.class_names))
        tried = [TriedArtifact(artifact) for artifact in self.artifacts]
        bins = plan.settings.bins
        return with_caveats(
            assessed.results, self.rows, assessed.uncalibrated, tried, bins
        )


@contextmanager
def _opened(
    scores: Scores,
    labels: Any,
    kind: str | None,
    artifacts: Sequence[Artifact],
    groups: Any = None,
    **of_rows: Any,
) -> Iterator[_Trial]:
    """Open rows to evaluate the calibrators on."""
    check_index(scores=scores, labels=labels, groups=groups)
    if groups is not None:
        groups = as_names(groups, "groups", "group")  # a generator gives them once
    with open_held_out(scores, labels, kind, artifacts, groups, **of_rows) as (
        rows,
        notes,
    ):
        group = rows.column("group")
        if groups is not None:
            group = groups_of(groups, rows.n)
        subject = Subject.of(rows, group)
        trial = _Trial(rows, artifacts, subject, _candidates(artifacts, rows), [])
        yield trial
        notes += [*rows.caveats, *trial.notes]
        for artifact in artifacts:
            rows_of_fit = fitted_on(artifact, rows)
            if rows_of_fit is not None:
                notes.append(
                    f"{artifact.method} was fitted on {rows_of_fit}: evaluate it on"
                    " held-out rows"
                )


def _candidates(artifacts: Sequence[Artifact], rows: DataSet) -> list[Candidate]:
    """The uncalibrated scores, then every calibrator; several of a method numbered."""
    candidates = [scores_as_given(rows)]
    methods = [artifact.method for artifact in artifacts]
    for number, artifact in enumerate(artifacts, start=1):
        rows.places_of(artifact.calibrator.required_transforms, rows.name)
        name = artifact.method
        if methods.count(name) > 1:
            name = f"{name} {number}"
        candidate = Candidate(
            name,
            artifact.method,
            artifact.calibrator,
            fit_size=fit_size_of(artifact),
            fitted_rows_here=partial(fitted_on, artifact, rows),
        )
        candidates.append(candidate)
    return candidates
