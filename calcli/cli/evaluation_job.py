"""Work of evaluate, report and run on bundles: open, load calibrators, assess, warn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from calcli.cli.context import CommandContext
from calcli.errors import DataError
from calcli.evaluation.caveats import TriedArtifact, with_caveats
from calcli.evaluation.differences import rank_table
from calcli.evaluation.evaluate_bundle import Assessed, assess
from calcli.evaluation.evaluation import Evaluation
from calcli.evaluation.metric_limits import Outcome
from calcli.evaluation.requests import (
    Candidate,
    Plan,
    Subject,
    fit_size_of,
    scores_as_given,
)
from calcli.evaluation.results import Result
from calcli.evaluation.verdict_limits import VerdictOutcome
from calcli.fitting.rows_of_fit import fitted_on
from calcli.io.artifact import Artifact
from calcli.io.dataset import DataSet
from calcli.io.locate import split_where
from calcli.io.provenance import check_upstream
from calcli.io.question_artifact import QuestionsArtifact, is_file_by_question, load


@dataclass(frozen=True)
class NamedArtifact:
    """A calibrator with its name for people (``<stdin>``, or as typed).

    by_question : its file holds one for every question of a log.
    """

    name: str
    artifact: Artifact
    by_question: bool = False

    @property
    def path(self) -> str:
        """Path for commands."""
        return "-" if self.name == "<stdin>" else self.name


@dataclass
class EvaluationJob:
    """Settings and loaded calibrators for all bundles.

    templates : paths of calibrators as typed. baseline : another one, None for the
    uncalibrated scores. prints_warnings : print warnings that are findings, too.
    notes : doubts about calibrators on the rows, by name. made : calibrator that is not
    yet in its file, where an older one may lie, in place of that of ``templates``.
    """

    command: CommandContext
    plan: Plan
    templates: Sequence[str]
    baseline: str | None = None
    prints_warnings: bool = True
    load: Callable[[str], Artifact] = field(default_factory=lambda: cache(load))
    notes: dict[str, list[str]] = field(default_factory=dict)
    made: Artifact | QuestionsArtifact | None = None

    # ---- calibrators

    def artifact(self, template: str, bundle: str) -> NamedArtifact:
        """Artifact that a path with {stem} and {group} stands for at a bundle."""
        path, group = split_where(bundle)
        name = template.replace("{stem}", path.stem).replace("{group}", group or "")
        shown = "<stdin>" if name == "-" else name
        if isinstance(self.made, QuestionsArtifact):
            entry = self.made.map_of(group or "", name)
            return NamedArtifact(shown, entry.artifact(name), by_question=True)
        if self.made is not None:
            return NamedArtifact(shown, self.made)
        if group is not None and is_file_by_question(name):
            question = self.load(f"{name}:{group}")
            return NamedArtifact(shown, question, by_question=True)
        return NamedArtifact(shown, self.load(name))

    def artifacts(self, bundle: str) -> list[NamedArtifact]:
        """All calibrators to evaluate on a bundle."""
        return [self.artifact(template, bundle) for template in self.templates]

    def candidates(
        self, artifacts: Sequence[NamedArtifact], rows: DataSet
    ) -> list[Candidate]:
        """The uncalibrated scores, then the calibrators.

        Warns of doubts about calibrators. Raises DataError where one does not fit.
        """
        candidates = [scores_as_given(rows)]
        for named in artifacts:
            candidates.append(self._candidate(named, rows))
        return candidates

    def _candidate(self, named: NamedArtifact, rows: DataSet) -> Candidate:
        artifact = named.artifact
        notes = self.command.check_fits(artifact, named.name, rows)
        try:
            check_upstream(artifact, named.name, rows.name, rows.upstream)
        except DataError as error:  # --again allows it; the results report it
            notes.append(str(error).rpartition("; ")[0])
        self.notes[named.name] = notes
        rows.places_of(artifact.calibrator.required_transforms, rows.name)
        return Candidate(
            name=named.name,
            method=artifact.method,
            calibrator=artifact.calibrator,
            path=named.path,
            fitted_on=_rows_of_fit(named, rows),
            fit_size=fit_size_of(artifact),
            fitted_rows_here=partial(fitted_on, artifact, rows),
            takes_whole_logs=named.by_question,
        )

    # ---- evaluation

    def evaluate(self, bundles: Sequence[str]) -> tuple[list[Result], Result]:
        """Evaluate bundles as one data set.

        Returns the results, and the one that changes are measured against.
        """
        artifacts = self.artifacts(bundles[0])
        with self.command.rows(bundles) as rows:
            rows.progress = self.command.progress
            # to recognise rows that a calibrator was fitted on
            rows.hashed = bool(artifacts)
            candidates = self.candidates(artifacts, rows)
            against = None
            if self.baseline is not None:
                named = self.artifact(self.baseline, bundles[0])
                against = self._candidate(named, rows)
            self._warn_of_raw_metrics(rows)
            assessed = assess(
                self.subject(rows),
                candidates,
                self.plan,
                baseline=against,
                progress=self.command.progress,
            )
            results = self.with_warnings(rows, artifacts, assessed)
        if against is None or assessed.baseline is None:
            return results, results[0]
        baseline = Result(
            bundle=rows.name,
            calibrator=against.name,
            method=against.method,
            n=rows.n,
            n_classes=results[0].n_classes,
            scores=assessed.baseline,
        )
        return results, baseline

    def subject(self, rows: DataSet) -> Subject:
        """The rows to evaluate, with their groups if these are asked for."""
        group = None
        if self.plan.per_group or self.plan.report:
            group = rows.column("group")
        if self.plan.per_group and group is None:
            raise DataError(
                f"{rows.name}: has no dataset 'group' to group by; name one with"
                " --group-by COLUMN"
            )
        if self.plan.ordered and group is not None:
            self.command.tell_order(rows, group)
        return Subject.of(rows, group)

    def evaluation(
        self,
        evaluated: Sequence[list[Result]],
        outcomes: Sequence[Outcome | VerdictOutcome],
    ) -> Evaluation:
        """All results, the ranks of the calibrators, and the outcomes of limits."""
        ranks = None
        if self.templates:
            names = ["uncalibrated", *self.templates]
            ranks = rank_table(evaluated, names, self.plan.metrics)
        return Evaluation(evaluated, ranks, [outcome.output() for outcome in outcomes])

    # ---- warnings

    def with_warnings(
        self,
        rows: DataSet,
        artifacts: Sequence[NamedArtifact],
        assessed: Assessed,
    ) -> list[Result]:
        """The results with warnings about their data and their calibrators' fits.

        In a judged result they are findings, too; else they are printed.
        """
        tried = [
            TriedArtifact(named.artifact, self.notes.get(named.name, []))
            for named in artifacts
        ]
        bins = self.plan.settings.bins
        results = with_caveats(
            assessed.results, rows, assessed.uncalibrated, tried, bins
        )
        for result in results:
            self._print_warnings(result)
        return results

    def _print_warnings(self, result: Result) -> None:
        """Print the warnings of a result, unless its findings say them."""
        if result.report is not None and not self.prints_warnings:
            return
        about = result.bundle
        if result.calibrator is not None:
            about = f"{about} with {result.calibrator}"
        for text in result.warnings:
            self.command.warn(text, about=about)

    def _warn_of_raw_metrics(self, rows: DataSet) -> None:
        raw = any(name.endswith("_raw") for name in self.plan.metrics)
        if not rows.upstream or not raw:
            return
        self.command.warn(
            f"{rows.name}: these rows were calibrated and divided by their sums, and"
            " the values before that are gone: marginal2_raw and mse_raw are of what is"
            " stored; give the scores with --calibrator"
        )


def _rows_of_fit(named: NamedArtifact, rows: DataSet) -> str:
    """Rows of a calibrator's fit as commands name them, empty if they are not found."""
    source = named.artifact.fit.source or "-"
    for folder in (Path(named.path).parent, rows.path.parent, Path()):
        place = str(folder / source)
        if split_where(place)[0].is_file():
            return place
    return ""
