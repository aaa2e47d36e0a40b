"""What evaluate and report do bundle by bundle: open, load, assess, warn."""

from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path

import numpy as np

from calcli.cli.context import CommandContext, not_held_out
from calcli.errors import DataError
from calcli.evaluation.evaluate_bundle import Candidate, Plan, Subject, assess, rank_table
from calcli.evaluation.metric_limits import Outcome
from calcli.evaluation.results import Evaluation, Result
from calcli.evaluation.verdict_rules import label_shift_p_value
from calcli.fast_dataclass import dataclass
from calcli.fit_and_apply import fitted_on
from calcli.io.artifact import Artifact, load
from calcli.io.dataset import DataSet
from calcli.io.locate import split_where
from calcli.io.provenance import check_upstream
from calcli.metrics.collect import collect
from calcli.metrics.out_of_core import LONG, RunningSums
from calcli.metrics.rowtable import RowTable
from calcli.metrics.warnings import data_warnings, label_doubts, unit_warnings, zero_warnings
from calcli.rows import ArrayRows


def _filled(template: str, bundle: str) -> str:
    """The path of an artifact, with {stem} and {group} of a bundle in their places."""
    path, group = split_where(bundle)
    return template.replace("{stem}", path.stem).replace("{group}", group or "")


@dataclass
class Job:
    """What stays the same from bundle to bundle. baseline : artifact as typed; none is the uncalibrated scores."""

    command: CommandContext
    plan: Plan
    baseline: str | None = None
    loaded: dict[str, Artifact] = field(default_factory=dict)
    noted: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.baseline in ("identity", "uncalibrated"):  # no artifact
            self.baseline = None

    @property
    def calibrators(self) -> Sequence[str]:
        return self.command.args.calibrator or []

    def evaluation(self, evaluated: Sequence[list[Result]], outcomes: Sequence[Outcome]) -> Evaluation:
        """All results with the ranks of the calibrators, and what became of the limits."""
        ranks = None
        if self.calibrators:
            ranks = rank_table(evaluated, ["uncalibrated", *self.calibrators], self.plan.metrics)
        return Evaluation(evaluated, ranks, [outcome.to_dict() for outcome in outcomes])

    def artifact(self, template: str, bundle: str) -> tuple[str, Artifact]:
        """The artifact that a path stands for at a bundle, loaded once."""
        name = _filled(template, bundle)
        if name not in self.loaded:
            self.loaded[name] = load(name)
        return ("<stdin>" if name == "-" else name), self.loaded[name]

    def evaluate(self, bundles: Sequence[str]) -> tuple[list[Result], Result | None]:
        """Results of bundles taken as one data set, and the result that changes are taken to."""
        bundle = bundles[0]
        artifacts = [self.artifact(template, bundle) for template in self.calibrators]
        with self.command.rows(bundles) as rows:
            rows.progress = self.command.progress
            rows.hashed = bool(artifacts)  # to tell rows that a calibrator was fitted on
            candidates = self.candidates(artifacts, rows)
            against = None
            if self.baseline is not None:
                against = self.candidates([self.artifact(self.baseline, bundle)], rows)[1]
            if rows.upstream and any(name.endswith("_raw") for name in self.plan.metrics):
                told = "these rows were calibrated and divided by their sums, and the values before that are gone"
                advice = "marginal2_raw and mse_raw are of what is stored; give the scores with --calibrator"
                self.command.warn(f"{rows.name}: {told}: {advice}")
            group = rows.column("group") if self.plan.per_group or self.plan.report else None
            if self.plan.per_group and group is None:
                raise DataError(f"{rows.name}: has no dataset 'group' to group by; name one with --group-by COLUMN")
            subject = Subject.of(rows, group)
            done = assess(subject, candidates, self.plan, baseline=against, progress=self.command.progress)
            results = self.warned(rows, artifacts, done.seen, done.results)
        if against is None or done.baseline is None:
            return results, results[0]
        return results, Result(rows.name, against.name, against.method, rows.n, results[0].n_classes, done.baseline)

    def candidates(self, artifacts: Sequence[tuple[str, Artifact]], rows: DataSet) -> list[Candidate]:
        """The uncalibrated scores, then the calibrators; warnings are said. Raises DataError where one does not fit."""
        found = [Candidate(None, "uncalibrated", None)]
        for name, artifact in artifacts:
            self.noted[name] = self.command.check_fits(artifact, name, rows)
            try:
                check_upstream(artifact, name, rows.name, rows.upstream)
            except DataError as error:  # which --again lets pass, for the results to say
                self.noted[name].append(str(error).rpartition("; ")[0])
            rows.places_of(artifact.calibrator.required_transforms, rows.name)
            path = "-" if name == "<stdin>" else name
            seen = partial(fitted_on, artifact, rows)
            places = [folder / (artifact.fit.source or "-") for folder in (Path(path).parent, rows.path.parent, Path())]
            fit = next((str(place) for place in places if split_where(str(place))[0].is_file()), "")
            found.append(Candidate(name, artifact.method, artifact.calibrator, path, fit, seen))
        return found

    def warned(
        self, rows: DataSet, artifacts: list[tuple[str, Artifact]], table: RowTable | RunningSums, results: list[Result]
    ) -> list[Result]:
        """The results with warnings about the data, the fit's data, and both together, which are also said."""
        binned = any("|bins:" in score.signature for score in results[0].scores.values())
        bins = self.plan.settings.bins if binned else None
        classes = int((table.label_counts > 0).sum()) if table.k > 1 else None
        common = [*rows.caveats, *label_doubts(table, rows.class_names)]
        if rows.unit_name is None:  # are rows independent?
            some = table
            if not isinstance(some, RowTable):  # of very many the first ones tell
                first = rows.run(0, LONG)
                some = collect(ArrayRows(first.scores, first.labels, rows.kind))
            common += unit_warnings(some)
        common += data_warnings(table.n, classes, table.spread, bins)
        clipped = [each.scores["nll"].more.get("clipped", 0) if "nll" in each.scores else 0 for each in results]
        zeros = [zero_warnings(n, each.n, rows.kind) for n, each in zip(clipped, results, strict=True)]
        each = [[*common, *zeros[0]]]
        for text in each[0]:
            self.command.warn(text, about=rows.name)
        seen = table.label_counts.astype(np.float64)
        for (name, artifact), found in zip(artifacts, zeros[1:], strict=True):
            if (told := not_held_out(artifact, rows)) is not None:
                found.append(told)
            counts = np.asarray(getattr(artifact.fit, "label_counts", []), dtype=np.float64)
            adapted = artifact.method.endswith("+prior")  # to shares that are not those of its fit
            if len(counts) == table.k and not adapted and label_shift_p_value(counts, seen) < 1e-3:
                told = "the label frequencies differ significantly from those of the calibrator's fit"
                found.append(f"{told}: expect its class probabilities to be off")
            each.append([*common, *self.noted.get(name, ()), *found])
            for text in found:
                self.command.warn(text, about=f"{rows.name} with {name}")
        return [replace(result, warnings=warnings) for result, warnings in zip(results, each, strict=True)]
