"""Leaderboard of methods: scores on held-out rows, compared with a baseline, over bundles."""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from calcli.calibrator import Calibrator, Context, Fit, Progress
from calcli.errors import CalcliError, UsageError
from calcli.evaluation.cross_validation import Fold, fold_fits, held_out_table
from calcli.evaluation.differences import compared, friedman_tests
from calcli.evaluation.evaluate_bundle import unit_facts
from calcli.evaluation.facts import Difference
from calcli.evaluation.json_output import (
    difference_of,
    difference_output,
    friedman_outputs,
    scores_json,
    unit_facts_of,
    units_output,
    where_known,
)
from calcli.evaluation.json_structs import (
    DifferenceOutput,
    FriedmanOutput,
    ScoreObject,
    UnitsOutput,
)
from calcli.evaluation.overlapping_fits import over_folds
from calcli.evaluation.results import Ranks, UnitFacts
from calcli.evaluation.scores import measured
from calcli.fitting.fit import for_options_of_rows, treats_options_alike
from calcli.io.dataset import DataSet
from calcli.items import present
from calcli.kernels.device import resolve
from calcli.metrics.context import MetricContext
from calcli.metrics.rowtable import RowTable
from calcli.metrics.settings import MetricSettings
from calcli.mixture import Mixture
from calcli.number_words import noun
from calcli.output import Output
from calcli.registry import method, method_names, parse_method, spelled, split_list
from calcli.rows import Rows
from calcli.statistics.friedman import nemenyi_distance
from calcli.statistics.units import Units

UNCALIBRATED = "uncalibrated"


@dataclass(frozen=True, kw_only=True)
class CompareSettings:
    """Settings of a comparison of methods, for Python and the command line."""

    baseline: str | None = None
    folds: Annotated[int, Meta(ge=2, le=1000)] = 5
    seed: Annotated[int, Meta(ge=0)] = 0
    level: Annotated[float, Meta(ge=0.5, le=0.9999)] = MetricSettings.level
    thorough: bool = False


LEADERBOARD_METRICS = ("nll", "brier", "ece", "accuracy")
# means over rows, which have paired differences
COMPARED = ("nll", "brier", "accuracy")
# ``list_order`` below which methods are compared by default
FIRST = 30
FIRST_OF_TWO = 34  # of two classes


# ---- participating methods


def entrants(
    asked: str | None, rows: Rows, thorough: bool, group_column: str = ""
) -> tuple[list[str], dict[str, str]]:
    """Names of the methods to score, the uncalibrated scores first, and reasons for
    omitted ones. asked : a list with commas, in which ``all`` is every applicable
    method; None for those that ``calcli methods`` lists first and that fit fast.
    group_column : for methods by group that name none. Raises UsageError for unknown names.
    """
    if asked is not None and not split_list(asked):
        raise UsageError(
            f"no method is named by {asked!r}: name some, such as ts,vs, or all"
        )
    fit, left_out = applicable(rows, thorough)
    names = [UNCALIBRATED]
    if asked is None:
        last = FIRST_OF_TWO if rows.k == 2 else FIRST
        names += [name for name in fit if method(name).list_order < last]
        return [title_of(name, group_column) for name in names], {}
    takes_all = False
    for text in split_list(asked):
        if text.lower() == "all":
            takes_all = True
            names += [title_of(name, group_column) for name in fit]
        else:
            names.append(title_of(text, group_column))
    if not takes_all:
        left_out = {}
    return list(dict.fromkeys(names)), left_out


def title_of(text: str, group_column: str = "") -> str:
    """Name of a method with its options in the leaderboard.

    group_column : as of ``entrants``. Raises UsageError for an unknown one.
    """
    if parse_method(text)[0] == "identity":
        return UNCALIBRATED
    return spelled(text, group_column)


def columns_of_methods(
    asked: str | None, baseline: str | None, group_column: str
) -> list[str]:
    """Columns that the methods need beside scores and labels.

    asked, group_column : as of ``entrants``. baseline : a method, or None.
    """
    needed = [group_column] if group_column else []
    for text in split_list(f"{asked or ''},{baseline or ''}"):
        if text.lower() != "all":
            name, options = parse_method(spelled(text, group_column))
            needed += method(name).columns_to_fit(options)
    return list(dict.fromkeys(needed))


def applicable(rows: Rows, thorough: bool) -> tuple[list[str], dict[str, str]]:
    """Methods that can be fitted to such rows, recommended ones first, and reasons for
    omitted ones. thorough : include methods with more parameters than rows.
    """
    names = []
    left_out = {}
    is_of_options = isinstance(rows, DataSet) and rows.n_options is not None
    for name in filter(is_entrant, method_names()):
        laws = method(name).laws
        if rows.kind == "confidence" and not laws.confidence:
            continue
        if is_of_options and not treats_options_alike(name):
            left_out[name] = "it has parameters of classes, and columns are options"
            continue
        numbers = _numbers(method(name), rows.k)
        if laws.needs_transforms and not rows.transforms:
            left_out[name] = (
                "it needs the scores under transforms and this bundle has none"
            )
        elif numbers > rows.n and not thorough:
            left_out[name] = (
                f"its {numbers} parameters outnumber the {rows.n} rows; --thorough"
                " fits it too"
            )
        else:
            names.append(name)
    names.sort(key=lambda name: method(name).list_order)
    return names, left_out


def is_entrant(name: str) -> bool:
    """True for a method that maps scores by itself, and is not named only by whoever
    wants it.

    ``auto`` weighs the others, ``keep`` and ``identity`` change nothing.
    """
    cls = method(name)
    selects = not cls.composable or issubclass(cls, Mixture)
    return name != "identity" and not selects and not cls.laws.restores_argmax


def _numbers(cls: type[Calibrator], k: int) -> int:
    """Number of parameters that a method declares; those whose size depends on the data
    count as 0.
    """
    total = 0
    for parameter in fields(cls):
        if parameter.metadata["optional"]:
            continue
        count = 1
        for size in parameter.metadata["shape"]:
            if size == "k":
                count *= k
            elif isinstance(size, int):
                count *= size
            else:
                count = 0
        total += count
    return total


# ---- scores


class EntryOutput(Output, kw_only=True):
    """The JSON of one method on one bundle."""

    bundle: str
    method: str
    n: int
    n_classes: int
    status: str
    metrics: dict[str, ScoreObject]
    seconds: float
    data_sha256: str
    fits: dict[str, int]
    units: UnitsOutput | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    exit_code: int | UnsetType = UNSET


class DifferencesOutput(Output, kw_only=True):
    """The JSON of one method's paired differences to the baseline."""

    bundle: str
    method: str
    baseline: str
    baseline_bundle: str
    metrics: dict[str, DifferenceOutput]


class NemenyiOutput(Output, kw_only=True):
    """Difference of two average ranks that is significant, by Nemenyi's test."""

    critical_difference: float
    level: float


class RankingOutput(Output, kw_only=True):
    """Average ranks of the methods over bundles, by metric; 1 is best."""

    methods: list[str]
    n_bundles: int
    metrics: dict[str, FriedmanOutput]
    nemenyi: NemenyiOutput


class SharedSettings(Output, kw_only=True):
    """Settings that all results of a comparison share.

    folds : null where the group ``test`` is scored. unit : as typed, absent where it
    was not. baseline : a method, or the bundle of the other model.
    """

    folds: int | None
    test: str | None
    seed: int
    level: float
    unit: str | UnsetType = UNSET
    baseline: str
    calcli_version: str


class ComparisonOutput(Output, kw_only=True):
    """The JSON of ``calcli compare``."""

    calcli_compare: int
    settings: SharedSettings
    data: dict[str, str]
    results: list[EntryOutput]
    differences: list[DifferencesOutput]
    ranks: RankingOutput | None


@dataclass(frozen=True)
class LeaderboardEntry:
    """One method on one bundle: metrics, or the reason why there are none. differences : paired, this minus baseline,
    by metric; None for the baseline itself. against : bundle and method of the baseline. fits : number of fits by
    status; empty for the uncalibrated scores. unit : name of the units. units : facts about them. given_name : as in
    ``Result``."""

    bundle: str
    method: str
    n: int
    n_classes: int
    data_sha256: str
    seconds: float
    metrics: Mapping[str, ScoreObject]
    differences: Mapping[str, Difference] | None = None
    against: tuple[str, str] | None = None
    reason: str | None = None
    exit_code: int = 0
    fits: Mapping[str, int] = field(default_factory=dict)
    unit: str | None = None
    units: UnitFacts | None = None
    given_name: str = UNCALIBRATED

    def called(self, name: str) -> str:
        return self.given_name if name == UNCALIBRATED else name

    def value(self, name: str) -> float:
        """Value of a metric, NaN where undefined."""
        value = self.metrics.get(name, {}).get("value")
        return math.nan if value is None else float(value)

    def finished_before(
        self, result: EntryOutput, pair: DifferencesOutput | None
    ) -> "LeaderboardEntry":
        """Copy with the numbers of an earlier run.

        pair : its differences to the baseline, None for the baseline itself.
        """
        differences = None
        if pair is not None:
            differences = {}
            for name, difference in pair.metrics.items():
                differences[name] = difference_of(difference)
        return replace(
            self,
            seconds=result.seconds,
            metrics=result.metrics,
            differences=differences,
            fits=result.fits,
            units=None if result.units is UNSET else unit_facts_of(result.units),
        )

    def output(self) -> EntryOutput:
        """The struct of its JSON."""
        return EntryOutput.of(
            self,
            status="ok" if self.reason is None else "failed",
            exit_code=UNSET if self.reason is None else self.exit_code,
            units=where_known(units_output, self.units),
        )

    def differences_output(self) -> DifferencesOutput | None:
        """The struct of the JSON of its differences; None for the baseline itself."""
        if self.differences is None or self.against is None:
            return None
        baseline_bundle, baseline = self.against
        metrics = {}
        for name, difference in self.differences.items():
            metrics[name] = difference_output(difference)
        return DifferencesOutput(
            bundle=self.bundle,
            method=self.method,
            baseline=baseline,
            baseline_bundle=baseline_bundle,
            metrics=metrics,
        )


class OpenedFolds(NamedTuple):
    """Open bundle with its folds. rows : to fit to. scored : to score, the same rows in the same folds."""

    rows: DataSet
    scored: DataSet
    folds: Sequence[Fold]

    @property
    def units(self) -> Units | None:
        """Units of the rows in the folds, which lack those of weight 0 in a
        cross-validation."""
        in_folds = sum(len(index) for _, _, index in self.folds)
        if in_folds == self.scored.n:
            return self.scored.units()
        return self.scored.counted().units()


@dataclass(frozen=True)
class HeldOut:
    """Held-out row table and fits of one method on one bundle, or the reason why there are none. seconds : CPU time."""

    seconds: float
    table: RowTable | None = None
    reason: str | None = None
    exit_code: int = 0
    fits: Sequence[Fit[Any] | None] = ()


def check_folds(folds: Sequence[Fold], asked: int, rows: DataSet) -> None:
    """Refuse a number of folds that the rows do not make. Raises UsageError."""
    made = len(folds)
    if made < asked and asked > CompareSettings.folds:
        raise UsageError(
            f"--folds {asked}: the {rows.n} {noun(rows.n, 'row')} of {rows.name} make"
            f" {made} folds at most (rows of a unit and copies stay together); ask for"
            " fewer"
        )


def digest_of(rows: DataSet) -> str:
    """Hash of rows already read once, including weights, units, predictions, groups
    and transforms that a comparison uses.
    """
    digest = sha256()
    units = rows.units()
    unit = None if units is None else units.code
    columns = {"w": rows.weights(), "unit": unit, "p": rows.column("prediction")}
    for name, groups in rows.columns.items():
        columns[f"by {name}"] = np.array(groups.names)[groups.code]
    has_more = False
    for name, column in columns.items():
        if column is not None:
            has_more = True
            digest.update(f"{name} {column.tolist()}".encode())
    transforms = range(len(rows.transforms))
    if transforms:
        has_more = True
        for block in rows.blocks(transforms):
            digest.update(np.ascontiguousarray(block.transformed).data)
    if not has_more:
        return str(rows.data_sha256)
    return f"{rows.data_sha256}/{digest.hexdigest()}"


def held_out(
    entrant: str,
    opened: OpenedFolds,
    seed: int,
    others: AbstractContextManager[Sequence[tuple[Rows, Fit[Any] | None]]],
    progress: Progress | None = None,
) -> HeldOut:
    """Fit a method to every fold and return its held-out rows; a failure is recorded,
    not raised. others : per fold the held-out rows of the baseline, and its fit.
    """
    begun = time.process_time()
    try:
        name, options = parse_method(entrant)
        if opened.rows.n_options is not None:
            options = for_options_of_rows(name, options)
        context = Context(seed, resolve("auto", name, opened.rows.n * opened.rows.k))
        fits = fold_fits(name, options, opened.folds, context, progress)
        with others as against:
            table = held_out_table(fits, opened.folds, against, opened.units)
        return HeldOut(time.process_time() - begun, table, fits=fits)
    except Exception as error:
        code = getattr(error, "exit_code", CalcliError.exit_code)
        words = " ".join(str(error).split()) or type(error).__name__
        return HeldOut(time.process_time() - begun, reason=words, exit_code=code)


def entered(
    entry: LeaderboardEntry,
    outcome: HeldOut,
    baseline: HeldOut | None,
    settings: MetricSettings,
) -> LeaderboardEntry:
    """Complete a planned entry by its metrics and differences.

    Intervals and p-values of differences allow for the fits, whose rows overlap from
    fold to fold (``over_folds``); those of metrics are conditional on the fits.
    """
    entry = replace(
        entry,
        seconds=outcome.seconds,
        reason=outcome.reason,
        exit_code=outcome.exit_code,
    )
    if outcome.table is None:
        return entry
    context = MetricContext(outcome.table, replace(settings, unit=entry.unit))
    scores = measured(context, LEADERBOARD_METRICS)
    metrics = scores_json(scores)
    fits: Counter[str] = Counter()
    for fit in outcome.fits:
        if fit is not None:
            fits[str(fit.status)] += 1
    entry = replace(entry, metrics=metrics, fits=fits, units=unit_facts(context))
    if baseline is None or baseline.table is None:
        return entry
    paired = compared(context, MetricContext(baseline.table, settings))
    if any(fit is not None for fit in (*outcome.fits, *baseline.fits)):
        paired = over_folds(paired, len(outcome.fits), context)
    differences = {name: paired[name] for name in COMPARED}
    return replace(entry, differences=differences)


def comparison(
    entries: Sequence[LeaderboardEntry],
    settings: SharedSettings,
    ranks: "Ranking | None",
) -> ComparisonOutput:
    """The struct of the JSON of ``calcli compare``."""
    return ComparisonOutput(
        calcli_compare=1,
        settings=settings,
        data={entry.bundle: entry.data_sha256 for entry in entries},
        results=[entry.output() for entry in entries],
        differences=present(entry.differences_output() for entry in entries),
        ranks=None if ranks is None else ranks.output(),
    )


def baseline_of(asked: str | None, names: Sequence[str], group_column: str = "") -> str:
    """Baseline of the differences: as asked, else ``ts`` if it takes part, else the
    uncalibrated scores. group_column : as of ``entrants``.
    """
    if asked:
        return title_of(asked, group_column)
    if "ts" in names:
        return "ts"
    return UNCALIBRATED


# ---- ranks


@dataclass(frozen=True)
class Ranking(Ranks):
    """Average ranks of methods over bundles.

    critical_difference : of two ranks, by Nemenyi's test at a confidence level.
    """

    critical_difference: float
    level: float

    def output(self) -> RankingOutput:
        """The struct of its JSON."""
        return RankingOutput(
            methods=list(self.calibrators),
            n_bundles=self.n_bundles,
            metrics=friedman_outputs(self),
            nemenyi=NemenyiOutput(
                critical_difference=self.critical_difference, level=self.level
            ),
        )


def ranking(entries: Sequence[LeaderboardEntry], level: float) -> Ranking | None:
    """Rank the methods that have values on every bundle; None for fewer than two
    bundles or methods.
    """
    bundles = list(dict.fromkeys(entry.bundle for entry in entries))
    by_method: dict[str, dict[str, LeaderboardEntry]] = {}
    for entry in entries:
        of_method = by_method.setdefault(entry.method, {})
        if entry.reason is None:
            of_method[entry.bundle] = entry
    methods = []
    for name, of_bundles in by_method.items():
        if len(of_bundles) == len(bundles):
            methods.append(name)
    if len(bundles) < 2 or len(methods) < 2:
        return None

    def value_of(name: str, bundle: int, version: int) -> float:
        return by_method[methods[version]][bundles[bundle]].value(name)

    shape = (len(bundles), len(methods))
    tests = friedman_tests(LEADERBOARD_METRICS, shape, value_of)
    if "nll" not in tests:
        return None
    return Ranking(
        calibrators=tuple(methods),
        n_bundles=len(bundles),
        tests=tests,
        critical_difference=nemenyi_distance(len(methods), len(bundles), level),
        level=level,
    )
