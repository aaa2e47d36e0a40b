"""Leaderboard of calcli compare as text, for terminals, papers and spreadsheets."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calcli.cli.render import (
    Cell,
    Table,
    number,
    print_line,
    print_table,
    width_of_output,
    wrapped,
)
from calcli.evaluation.leaderboard import (
    COMPARED,
    LEADERBOARD_METRICS,
    LeaderboardEntry,
    Ranking,
    holm,
)
from calcli.evaluation.metric_limits import end_of
from calcli.metrics.friedman import not_told_apart

MOST_TABLES = (
    3  # bundles up to which each has a table in the terminal, before the summary
)


@dataclass(frozen=True)
class Leaderboard:
    """Results of a comparison. how : how rows were held out, in words. models : true if two models are compared."""

    entries: Sequence[LeaderboardEntry]
    ranks: Ranking | None
    baseline: str
    how: str
    level: float
    models: bool = False

    def of(self, bundle: str) -> list[LeaderboardEntry]:
        """The entries of a bundle, the smallest NLL first, failures last."""
        own = [entry for entry in self.entries if entry.bundle == bundle]
        return sorted(
            own,
            key=lambda e: math.inf if math.isnan(e.value("nll")) else e.value("nll"),
        )

    @property
    def bundles(self) -> list[str]:
        return list(dict.fromkeys(entry.bundle for entry in self.entries))

    def tables(self) -> list[Table]:
        """Tables for a paper: that of each bundle, or the summary of several bundles that are ranked."""
        if self.models or len(self.bundles) == 1 or self.ranks is None:
            return [self.table(bundle) for bundle in self.bundles]
        return [self.summary()]

    def table(self, bundle: str) -> Table:
        """Table of a bundle: a line per method, best first."""
        own = self.of(bundle)
        beyond = self._significant(own)
        against = next(
            (
                e.against[0] if self.models else e.called(e.against[1])
                for e in own
                if e.against
            ),
            None,
        )
        title = "" if against is None else f"minus {against}"
        head = [
            "method",
            "nll",
            *[title] * bool(title),
            "brier",
            "ece",
            "ece floor",
            "accuracy",
            "CPU s",
        ]
        rows: list[list[Cell]] = []
        for e in own:
            change = [_difference(e, e.method in beyond)] if title else []
            floor = e.metrics.get("ece", {}).get("null_mean")
            values: list[Cell] = [
                e.value("brier"),
                e.value("ece"),
                floor,
                e.value("accuracy"),
                e.seconds,
            ]
            rows.append([self._called(e), e.value("nll"), *change, *values])
        return Table(head, rows)

    def _called(self, entry: LeaderboardEntry) -> str:
        notes = ["baseline"] * (not self.models and entry.method == self.baseline)
        notes += [status for status in entry.fits if status != "ok"]
        return entry.called(entry.method) + (f" ({', '.join(notes)})" if notes else "")

    def _significant(self, own: Sequence[LeaderboardEntry]) -> set[str]:
        """Methods whose NLL differs significantly, all comparisons of the bundle considered."""
        compared = [
            e
            for e in own
            if e.differences is not None and "p_value" in e.differences["nll"]
        ]
        p_values = holm(
            [
                e.differences["nll"]["p_value"]
                for e in compared
                if e.differences is not None
            ]
        )
        return {
            e.method
            for e, p in zip(compared, p_values, strict=True)
            if p <= 1.0 - self.level
        }

    def summary(self) -> Table:
        """Table over all bundles: a line per method, by average rank."""
        assert self.ranks is not None
        tests = self.ranks.tests
        head = [
            "method",
            *(f"rank by {name}" for name in tests),
            "mean nll",
            f"better than {self.baseline}",
            "worse",
        ]
        rows: list[list[Cell]] = []
        beyond = {bundle: self._significant(self.of(bundle)) for bundle in self.bundles}
        for at in sorted(
            range(len(self.ranks.calibrators)),
            key=lambda i: float(tests["nll"].ranks[i]),
        ):
            name = self.ranks.calibrators[at]
            own = [e for e in self.entries if e.method == name]
            signs = [
                e.differences["nll"]["value"]
                for e in own
                if e.differences and name in beyond[e.bundle]
            ]
            against: list[Cell] = [sum(s < 0 for s in signs), sum(s > 0 for s in signs)]
            against = [None, None] if name == self.baseline else against
            means = sum(e.value("nll") for e in own) / len(own)
            ranks = [float(test.ranks[at]) for test in tests.values()]
            rows.append(
                [
                    self._called(own[0]),
                    *ranks,
                    means,
                    *against,
                    sum(e.seconds for e in own),
                ]
            )
        return Table([*head, "CPU s"], rows)

    def whole(self) -> Table:
        """Table of every number: a line per bundle and method."""
        facts = [
            f"{name}{end}"
            for name in LEADERBOARD_METRICS
            for end in ("", ".lo", ".hi", ".p", ".null")
        ]
        minus = [
            f"{name}_minus_baseline{end}"
            for name in COMPARED
            for end in ("", ".lo", ".hi", ".p")
        ]
        own = [
            f
            for f in facts
            if any(
                _fact(e.metrics.get(f.partition(".")[0]), f) is not None
                for e in self.entries
            )
        ]
        rows: list[list[Cell]] = []
        for e in self.entries:
            cells = [_fact(e.metrics.get(f.partition(".")[0]), f) for f in own]
            changes = [
                _fact((e.differences or {}).get(f.partition("_minus_")[0]), f)
                for f in minus
            ]
            against = ":".join(e.against) if e.against is not None else None
            rows.append(
                [
                    e.bundle,
                    e.method,
                    e.n,
                    e.n_classes,
                    e.seconds,
                    *cells,
                    against,
                    *changes,
                    e.reason,
                ]
            )
        return Table(
            [
                "bundle",
                "method",
                "n",
                "n_classes",
                "seconds",
                *own,
                "baseline",
                *minus,
                "reason",
            ],
            rows,
        )

    def print(self) -> None:
        bundles = self.bundles
        if len(bundles) <= MOST_TABLES or self.ranks is None:
            for bundle in bundles:
                own = self.of(bundle)
                size = f"{own[0].n} rows x {own[0].n_classes} classes"
                print_sentence(f"{bundle}: {size}, {self.how}")
                print_table(*fitting(self.table(bundle)))
                for e in own:
                    if e.reason is not None:
                        print_line(f"{e.method}: failed: {e.reason}")
                    for status, count in e.fits.items():
                        if status != "ok":
                            print_line(
                                f"{e.method}: {count} of {sum(e.fits.values())} fits ended {status}"
                            )
                print_line()
            self._print_legend()
        if self.ranks is not None:
            self._print_ranks(self.ranks)

    def _print_legend(self) -> None:
        """What signs and columns of the tables of bundles mean."""
        interval = f"[ ]: {self.level:.0%} interval of the difference on the same rows"
        parts = [
            interval,
            "* significant, adjusted (Holm)",
            "no bound: few rows carry the loss",
            "ece floor: expected under calibration",
            "CPU s: all fits and their scoring",
        ]
        print_sentence("; ".join(parts))

    def _print_ranks(self, ranks: Ranking) -> None:
        print_line()
        title = f"average ranks over {ranks.n_bundles} bundles (1 is best), {self.how}"
        print_sentence(title)
        print_table(*fitting(self.summary()))
        against = f"differs from {self.baseline}'s significantly (Holm)"
        print_sentence(f"better, worse: bundles on which the NLL {against}")
        for name, t in ranks.tests.items():
            f = "infinite" if math.isinf(t.f) else f"{t.f:.2f}"
            chi2 = f"Friedman chi2 {t.chi2:.2f}, p {number(t.p_value)}"
            f_test = f"Iman-Davenport F {f}, p {number(t.f_p_value)}"
            print_sentence(f"{name}: all alike? {chi2}; {f_test}")
        distance, level = ranks.nemenyi["critical_difference"], ranks.nemenyi["level"]
        apart = f"ranks less than {distance:.2f} apart do not differ significantly"
        print_sentence(f"{apart} (Nemenyi, {level:.0%}); by nll:")
        for alike in not_told_apart(ranks.tests["nll"].ranks, distance):
            print_line(f"  {' = '.join(ranks.calibrators[i] for i in alike)}")
        absent = [
            m
            for m in dict.fromkeys(e.method for e in self.entries)
            if m not in ranks.calibrators
        ]
        if absent:
            print_sentence(
                f"not ranked, as they failed on some bundle: {', '.join(absent)}"
            )


DROPPED = ("brier", "rank by brier", "CPU s", "ece floor", "accuracy", "ece")
"""Columns that a narrow table drops, the least important first."""


def fitting(table: Table) -> Table:
    """The table without columns for which there is no room."""
    for head in DROPPED:
        if table.width <= width_of_output():
            break
        kept = [at for at, name in enumerate(table.columns) if name != head]
        table = Table(
            [table.columns[at] for at in kept],
            [[row[at] for at in kept] for row in table.rows],
        )
    return table


def print_sentence(text: str) -> None:
    """Print a sentence in as many lines as it takes."""
    for line in wrapped(text):
        print_line(line)


def _difference(entry: LeaderboardEntry, beyond: bool) -> str | None:
    if entry.reason is not None:
        return "failed"
    if entry.differences is None:
        return None
    d = entry.differences["nll"]
    ends = (
        f" [{d['ci'][0]:+.4f}, {d['ci'][1]:+.4f}]"
        if d.get("ci")
        else " no bound" * ("ci_reason" in d)
    )
    return f"{d['value']:+.4f}{ends}{'*' if beyond else ''}"


def _fact(found: Mapping[str, Any] | None, fact: str) -> Cell:
    """Number of a score or difference that a column shows, by the suffix of its name (.lo, .hi, .p, .null)."""
    value = end_of(found or {}, fact.rpartition(".")[2])
    return None if value is None else float(value)
