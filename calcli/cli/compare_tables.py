"""Leaderboard of calcli compare as text, for terminals, papers and spreadsheets."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any

from calcli.cli.render import (
    Cell,
    Column,
    Table,
    number,
    print_line,
    print_sentence,
    print_table,
)
from calcli.evaluation.json_output import difference_json
from calcli.evaluation.leaderboard import (
    COMPARED,
    LEADERBOARD_METRICS,
    LeaderboardEntry,
    Ranking,
)
from calcli.evaluation.metric_limits import end_of
from calcli.number_words import samples
from calcli.rows import classes
from calcli.statistics.friedman import not_told_apart
from calcli.statistics.p_values import holm

MOST_TABLES = 3
"""Bundles up to which each has a table in the terminal, before the summary."""


@dataclass(frozen=True)
class Leaderboard:
    """Results of a comparison.

    how : how rows were held out, in words. models : true if two models are compared.
    """

    entries: Sequence[LeaderboardEntry]
    ranks: Ranking | None
    baseline: str
    how: str
    level: float
    models: bool

    def of(self, bundle: str) -> list[LeaderboardEntry]:
        """The entries of a bundle, the smallest NLL first, failures last."""
        entries = [entry for entry in self.entries if entry.bundle == bundle]
        return sorted(entries, key=_nll_or_infinity)

    @property
    def bundles(self) -> list[str]:
        return list(dict.fromkeys(entry.bundle for entry in self.entries))

    def tables(self) -> list[Table]:
        """Tables for a paper: one a bundle, or the summary of ranked bundles."""
        if self.models or len(self.bundles) == 1 or self.ranks is None:
            return [self.table(bundle) for bundle in self.bundles]
        return [self.summary()]

    def table(self, bundle: str) -> Table:
        """Table of a bundle: a line per method, best first."""
        entries = self.of(bundle)
        return Table.of(self._columns(entries), entries)

    def _columns(self, entries: Sequence[LeaderboardEntry]) -> list[Column]:
        """Columns of the table of the entries of a bundle."""
        significant = self._significant(entries)
        reference = self._reference(entries)
        columns = [Column("method", self._called), Column("nll", _value_of("nll"))]
        if reference is not None:
            difference = partial(_difference, significant)
            columns.append(Column(f"minus {reference}", difference))
        expected = partial(_metric_cell, "ece.null")
        columns += [
            Column("brier", _value_of("brier"), drop_order=1),
            Column("ece", _value_of("ece"), drop_order=5),
            Column("(expected)", expected, drop_order=3),
            Column("accuracy", _value_of("accuracy"), drop_order=4),
            Column("CPU s", attrgetter("seconds"), drop_order=2),
        ]
        return columns

    def _reference(self, entries: Sequence[LeaderboardEntry]) -> str | None:
        """Name of what the entries are compared with; None where there is nothing."""
        for entry in entries:
            if not entry.against:
                continue
            bundle, method = entry.against
            return bundle if self.models else entry.called(method)
        return None

    def _called(self, entry: LeaderboardEntry) -> str:
        """Name of an entry, with what is to be said of it in brackets."""
        notes = [status for status in entry.fits if status != "ok"]
        if not self.models and entry.method == self.baseline:
            notes.insert(0, "baseline")
        name = entry.called(entry.method)
        return f"{name} ({', '.join(notes)})" if notes else name

    def _significant(self, entries: Sequence[LeaderboardEntry]) -> set[str]:
        """Methods whose NLL differs significantly from that of the baseline.

        entries : of one bundle, whose comparisons are all considered.
        """
        methods = []
        p_values = []
        for entry in entries:
            if entry.differences is None:
                continue
            difference = entry.differences["nll"]
            if difference.p_value is not None:
                methods.append(entry.method)
                p_values.append(difference.p_value)
        significant = set()
        for method, p_value in zip(methods, holm(p_values), strict=True):
            if p_value <= 1.0 - self.level:
                significant.add(method)
        return significant

    def summary(self) -> Table:
        """Table over all bundles: a line per method, by average rank."""
        return Table.of(self._summary_columns(), self._ranked_methods())

    def _summary_columns(self) -> list[Column]:
        assert self.ranks is not None
        columns = [Column("method", attrgetter("called"))]
        for name in self.ranks.tests:
            rank = partial(_rank_by, name)
            drop_order = 1 if name == "brier" else 0
            columns.append(Column(f"rank by {name}", rank, drop_order))
        columns += [
            Column("mean nll", attrgetter("nll")),
            Column(f"better than {self.baseline}", attrgetter("n_better")),
            Column("worse", attrgetter("n_worse")),
            Column("CPU s", attrgetter("seconds"), drop_order=2),
        ]
        return columns

    def _ranked_methods(self) -> list["RankedMethod"]:
        """The methods by their average rank of the NLL."""
        assert self.ranks is not None
        tests = self.ranks.tests
        significant = {}
        for bundle in self.bundles:
            significant[bundle] = self._significant(self.of(bundle))
        nll_ranks = list(map(float, tests["nll"].ranks))
        order = sorted(range(len(nll_ranks)), key=nll_ranks.__getitem__)
        methods = []
        for place in order:
            name = self.ranks.calibrators[place]
            entries = [entry for entry in self.entries if entry.method == name]
            n_better = n_worse = 0
            for entry in entries:
                if entry.differences and name in significant[entry.bundle]:
                    change = entry.differences["nll"].value
                    n_better += int(change < 0)
                    n_worse += int(change > 0)
            ranks = {}
            for metric, test in tests.items():
                ranks[metric] = float(test.ranks[place])
            is_baseline = name == self.baseline
            method = RankedMethod(
                called=self._called(entries[0]),
                ranks=ranks,
                nll=sum(entry.value("nll") for entry in entries) / len(entries),
                n_better=None if is_baseline else n_better,
                n_worse=None if is_baseline else n_worse,
                seconds=sum(entry.seconds for entry in entries),
            )
            methods.append(method)
        return methods

    def whole(self) -> Table:
        """Table of every number: a line per bundle and method."""
        columns: list[Column] = []
        for name in ("bundle", "method", "n", "n_classes", "seconds"):
            columns.append(Column(name, attrgetter(name)))
        for name in LEADERBOARD_METRICS:
            for end in ("", ".lo", ".hi", ".p", ".null"):
                cell = partial(_metric_cell, f"{name}{end}")
                if any(cell(entry) is not None for entry in self.entries):
                    columns.append(Column(f"{name}{end}", cell))
        columns.append(Column("baseline", _against))
        for name in COMPARED:
            for end in ("", ".lo", ".hi", ".p"):
                head = f"{name}_minus_baseline{end}"
                columns.append(Column(head, partial(_change_cell, head)))
        columns.append(Column("reason", attrgetter("reason")))
        return Table.of(columns, self.entries)

    def print(self) -> None:
        """Print the tables of a few bundles, and the ranks."""
        bundles = self.bundles
        if len(bundles) <= MOST_TABLES or self.ranks is None:
            for bundle in bundles:
                self._print_bundle(bundle)
                print_line()
            self._print_legend()
        if self.ranks is not None:
            self._print_ranks(self.ranks)

    def _print_bundle(self, bundle: str) -> None:
        """Print the table of a bundle, and what failed in it."""
        entries = self.of(bundle)
        size = f"{samples(entries[0].n)}, {classes(entries[0].n_classes)}"
        print_sentence(f"{bundle}: {size}, {self.how}")
        print_table(*Table.fitting(self._columns(entries), entries))
        for entry in entries:
            name = entry.method
            if entry.reason is not None:
                print_line(f"{name}: failed: {entry.reason}")
            n_fits = sum(entry.fits.values())
            for status, count in entry.fits.items():
                if status != "ok":
                    print_line(f"{name}: {count} of {n_fits} fits ended {status}")

    def _print_legend(self) -> None:
        """What signs and columns of the tables of bundles mean."""
        interval = f"[ ]: {self.level:.0%} interval of the difference on the same rows"
        parts = [
            interval,
            "* significant, adjusted (Holm)",
            "no bound: few rows carry the loss",
            "(expected): ECE under calibration",
            "CPU s: all fits and their scoring",
        ]
        print_sentence("; ".join(parts))

    def _print_ranks(self, ranks: Ranking) -> None:
        print_line()
        title = f"average ranks over {ranks.n_bundles} bundles (1 is best), {self.how}"
        print_sentence(title)
        columns = self._summary_columns()
        print_table(*Table.fitting(columns, self._ranked_methods()))
        against = f"differs from {self.baseline}'s significantly (Holm)"
        print_sentence(f"better, worse: bundles on which the NLL {against}")
        for name, test in ranks.tests.items():
            f = "infinite" if math.isinf(test.f) else f"{test.f:.2f}"
            chi2 = f"Friedman chi2 {test.chi2:.2f}, p {number(test.p_value)}"
            f_test = f"Iman-Davenport F {f}, p {number(test.f_p_value)}"
            print_sentence(f"{name}: all alike? {chi2}; {f_test}")
        distance = ranks.critical_difference
        apart = f"ranks less than {distance:.2f} apart do not differ significantly"
        print_sentence(f"{apart} (Nemenyi, {ranks.level:.0%}); by nll:")
        for alike in not_told_apart(ranks.tests["nll"].ranks, distance):
            print_line(f"  {' = '.join(ranks.calibrators[i] for i in alike)}")
        absent: list[str] = []
        for entry in self.entries:
            if entry.method not in (*ranks.calibrators, *absent):
                absent.append(entry.method)
        if absent:
            print_sentence(
                f"not ranked, as they failed on some bundle: {', '.join(absent)}"
            )


@dataclass(frozen=True)
class RankedMethod:
    """A method over all bundles.

    ranks : average rank by metric. nll : mean. n_better, n_worse : bundles on which it
    differs significantly from the baseline; None for the baseline itself.
    """

    called: str
    ranks: Mapping[str, float]
    nll: float
    n_better: int | None
    n_worse: int | None
    seconds: float


def _rank_by(name: str, method: RankedMethod) -> float:
    return method.ranks[name]


def _nll_or_infinity(entry: LeaderboardEntry) -> float:
    """The NLL of an entry; infinity for one that failed, which comes last."""
    nll = entry.value("nll")
    return math.inf if math.isnan(nll) else nll


def _value_of(name: str) -> Callable[[LeaderboardEntry], Cell]:
    return methodcaller("value", name)


def _against(entry: LeaderboardEntry) -> str | None:
    return None if entry.against is None else ":".join(entry.against)


def _difference(significant: Collection[str], entry: LeaderboardEntry) -> str | None:
    """Difference of the NLL to the baseline with its interval; None for no baseline.

    significant : methods that differ significantly.
    """
    if entry.reason is not None:
        return "failed"
    if entry.differences is None:
        return None
    difference = entry.differences["nll"]
    text = f"{difference.value:+.4f}"
    if difference.reason is not None:
        text += " no bound"
    elif difference.interval is not None:
        interval = difference.interval
        text += f" [{interval.low:+.4f}, {interval.high:+.4f}]"
    return f"{text}*" if entry.method in significant else text


def _metric_cell(column: str, entry: LeaderboardEntry) -> Cell:
    """Number of a metric, for a column such as ``nll`` or ``ece.lo``."""
    name = column.partition(".")[0]
    return _number_of(entry.metrics.get(name), column)


def _change_cell(column: str, entry: LeaderboardEntry) -> Cell:
    """Number of a difference, for a column such as ``nll_minus_baseline.p``."""
    name = column.partition("_minus_")[0]
    if entry.differences is None:
        return None
    return _number_of(difference_json(entry.differences[name]), column)


def _number_of(facts: Mapping[str, Any] | None, column: str) -> Cell:
    """Number that a column shows, by the suffix of its name (.lo, .hi, .p, .null)."""
    value = end_of(facts or {}, column.rpartition(".")[2])
    return None if value is None else float(value)
