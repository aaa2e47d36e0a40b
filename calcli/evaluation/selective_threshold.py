"""Confidence thresholds of a data set under a calibrator, for ``calcli threshold``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import UNSET, UnsetType

from calcli.errors import DataError
from calcli.evaluation.threshold_search import Choice, ThresholdSearch
from calcli.fitting.apply import calibrated_blocks
from calcli.io.artifact import Artifact
from calcli.io.dataset import DataSet
from calcli.io.provenance import identity
from calcli.methods.compared.identity import Identity
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.output import Ends, Output
from calcli.rows import ScoreKind
from calcli.statistics.acceptance import Accepted
from calcli.statistics.intervals import exact_interval
from calcli.statistics.units import Units

COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.5)  # coverages of the table


class ThresholdUnits(Output, kw_only=True):
    """Units of the rows; the name alone where rows are declared independent."""

    name: str
    n: int | UnsetType = UNSET
    largest: int | UnsetType = UNSET
    design_effect: float | UnsetType = UNSET
    effective_rows: float | UnsetType = UNSET


class CoveragePoint(Output, kw_only=True):
    """Accuracy at a coverage; its interval is for this point alone.

    accuracy_ci : null where rows are not independent.
    """

    coverage: float
    threshold: float
    accuracy: float
    accuracy_ci: Ends | None


class AcceptedGroup(Output, kw_only=True):
    """Rows of a group that the threshold accepts; accuracy is null where it is none."""

    group: str | int | float | bool
    n: int
    accepted: int
    right: int
    accuracy: float | None


class ThresholdOutput(Output, kw_only=True):
    """The JSON of ``calcli threshold``.

    From threshold to right the numbers are null where there is no threshold.
    """

    calcli_threshold: int
    bundle: str
    calibrator: str | None
    calibrator_sha256: str | None
    target: float
    level: float
    n: int
    threshold: float | None
    coverage: float | None
    coverage_ci: list[float] | None
    accuracy: float | None
    accuracy_lower: float | None
    accepted: float | None
    right: float | None
    tests: int
    guarantee: str
    accuracy_at_coverage: list[CoveragePoint]
    groups: list[AcceptedGroup] | UnsetType = UNSET
    units: ThresholdUnits | UnsetType = UNSET


@dataclass(frozen=True)
class SearchedThreshold:
    """Search on the rows of a data set.

    output : the JSON of ``calcli threshold``. why_not : the reason where there is no
    threshold. offered : accuracies that can be guaranteed instead.
    """

    choice: Choice
    output: ThresholdOutput
    why_not: str
    offered: Sequence[tuple[float, Accepted]] = ()


def check_unweighted(rows: DataSet) -> None:
    """Refuse weighted rows. Raises DataError."""
    if rows.weights() is not None:
        raise DataError(
            f"{rows.name}: has sample weights; the bound is exact for counts only; pass"
            " --sample-weight none to count each row once"
        )


@dataclass(frozen=True)
class CountedRows:
    """Rows that a search counts, (n,) each: those of a data set without copies.

    group : None where the data set has no groups. units : None where rows are
    independent.
    """

    confidence: FloatArray
    correct: FloatArray
    group: AnyArray | None
    units: Units | None

    @classmethod
    def of(cls, rows: DataSet, artifact: Artifact | None) -> "CountedRows":
        """The rows of a data set, uncalibrated or under a calibrator that fits them."""
        confidence, correct = _confidences(artifact, rows)
        kept = _without_copies(rows)
        group = rows.column("group")
        units = rows.given_units
        return cls(
            confidence=confidence[kept],
            correct=correct[kept],
            group=None if group is None else group[kept],
            units=None if units is None else Units.of(units.code[kept]),
        )

    @property
    def are_independent(self) -> bool:
        """True without units, and where each unit is a row."""
        return self.units is None or self.units.single


def search_threshold(
    rows: DataSet,
    artifact: Artifact | None,
    accuracy: float,
    level: float,
    calibrator: str | None,
) -> SearchedThreshold:
    """Search a threshold on labelled rows, uncalibrated or under a calibrator that fits
    them. calibrator : its name in the JSON. Raises DataError for weighted rows,
    UsageError for an accuracy or a level that is no proportion.
    """
    check_unweighted(rows)
    counted = CountedRows.of(rows, artifact)
    search = ThresholdSearch.of(counted.confidence, counted.correct, counted.units)
    choice = search.choose(accuracy, level)
    best = choice.best
    independent = counted.are_independent
    coverage_ci = None
    groups: list[AcceptedGroup] | UnsetType = UNSET
    if best is not None and independent:
        coverage_ci = list(exact_interval(best.accepted, best.n, level))
    if best is not None and counted.group is not None:
        accepted = counted.confidence >= best.threshold
        groups = _by_group(counted.group, counted.correct, accepted)
    points = []
    for coverage in COVERAGES:
        accepted_rows = search.curve.at_coverage(coverage)
        points.append(_coverage_point(accepted_rows, level if independent else None))
    output = ThresholdOutput(
        calcli_threshold=1,
        bundle=rows.name,
        calibrator=calibrator,
        calibrator_sha256=None if artifact is None else identity(artifact),
        target=accuracy,
        level=level,
        n=len(counted.confidence),
        coverage_ci=coverage_ci,
        threshold=choice.threshold,
        coverage=choice.coverage,
        accuracy=choice.accuracy,
        accuracy_lower=choice.lower,
        accepted=None if best is None else best.accepted,
        right=None if best is None else best.right,
        tests=choice.tests,
        guarantee=_guarantee(accuracy, level, independent),
        accuracy_at_coverage=points,
        groups=groups,
        units=_units_output(rows, counted.units, choice),
    )
    if best is None:
        why_not = search.why_not(choice, rows.name, accuracy, level)
        return SearchedThreshold(choice, output, why_not, search.offered(level))
    return SearchedThreshold(choice, output, "")


def _without_copies(rows: DataSet) -> IntArray:
    """Indices of the rows without the copies that every row has inside its unit.

    All rows where some have more copies than others: the guarantee is of rows, and the
    design effect counts the copies.
    """
    first = rows.first_copies
    if first is None:
        return np.arange(rows.n)
    kept, times = np.unique(first, return_counts=True)
    return kept if times.min() == times.max() else np.arange(rows.n)


def _units_output(
    rows: DataSet, units: Units | None, choice: Choice
) -> ThresholdUnits | UnsetType:
    """Units of the rows in the JSON. units : of those that count."""
    if units is None:
        return UNSET if rows.unit is None else ThresholdUnits(name=rows.unit)
    design_effect: float | UnsetType = UNSET
    effective: float | UnsetType = UNSET
    if choice.best is not None and choice.design_effect is not None:
        design_effect = choice.design_effect
        effective = choice.best.accepted / choice.design_effect
    return ThresholdUnits(
        name=rows.own_name("unit"),
        n=units.n,
        largest=int(units.count.max()),
        design_effect=design_effect,
        effective_rows=effective,
    )


def _confidences(
    artifact: Artifact | None, rows: DataSet
) -> tuple[FloatArray, FloatArray]:
    """Confidence of every row, and 1.0 where its prediction is the label, as ``calcli
    apply`` computes them.
    """
    if rows.kind == "confidence":  # labels are then whether the answer is right
        confidence, right = calibrated_columns(artifact, rows, ("scores", "correct"))
    else:
        names = ("confidence", "prediction", "labels")
        confidence, prediction, label = calibrated_columns(artifact, rows, names)
        right = prediction == label
    return confidence, right.astype(np.float64)


def calibrated_columns(
    artifact: Artifact | None, rows: DataSet, names: Sequence[str]
) -> list[AnyArray]:
    """Columns of every row as ``calcli apply`` writes them, ``scores`` among them.

    artifact : None leaves the scores uncalibrated.
    """
    calibrator = Identity() if artifact is None else artifact.calibrator
    transforms = rows.places_of(calibrator.required_transforms, rows.name)
    kind: ScoreKind = "confidence" if rows.kind == "confidence" else "probs"
    blocks = []
    for _, scores, columns, _ in calibrated_blocks(calibrator, rows, kind, transforms):
        known = {"scores": scores, **columns}
        blocks.append([known[name] for name in names])
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _guarantee(accuracy: float, level: float, independent: bool) -> str:
    """The guarantee in a sentence.

    independent : are rows independent, or else units?
    """
    right = f"right at least {accuracy:g} of the time"
    if not independent:
        return (
            f"With probability {level:g} if units are drawn independently (approximate:"
            " binomial at the effective number of rows), new rows that are accepted are"
            f" {right}."
        )
    return (
        f"With probability {level:g} over the draw of these rows, new rows of the same"
        f" kind that are accepted are {right} (exact binomial tests, corrected for the"
        " search)."
    )


def _by_group(
    group: AnyArray, correct: FloatArray, accepted: AnyArray
) -> list[AcceptedGroup]:
    """Counts by group, the least accurate first: rows, accepted, and right among the
    accepted.
    """
    names, code = np.unique(group, return_inverse=True)
    n = np.bincount(code).tolist()
    n_accepted = np.bincount(code, weights=accepted).tolist()
    n_right = np.bincount(code, weights=accepted * correct).tolist()
    lines = []
    for g, name in enumerate(names.tolist()):
        accuracy = None
        if n_accepted[g]:
            accuracy = n_right[g] / n_accepted[g]
        line = AcceptedGroup(
            group=name,
            n=n[g],
            accepted=int(n_accepted[g]),
            right=int(n_right[g]),
            accuracy=accuracy,
        )
        lines.append(line)
    return sorted(lines, key=_accuracy_or_infinity)


def _accuracy_or_infinity(line: AcceptedGroup) -> float:
    """Accuracy of a group; infinity without accepted rows, which comes last."""
    return math.inf if line.accuracy is None else line.accuracy


def _coverage_point(accepted: Accepted, level: float | None) -> CoveragePoint:
    """One point of the curve; no interval without a level."""
    interval = None
    if level is not None:
        interval = list(exact_interval(accepted.right, accepted.accepted, level))
    return CoveragePoint(
        coverage=accepted.coverage,
        threshold=accepted.threshold,
        accuracy=accepted.accuracy,
        accuracy_ci=interval,
    )
