"""A whole evaluation: all results, as Python shows them and as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from typing import Any

from calcli.evaluation.json_output import evaluation_output
from calcli.evaluation.json_structs import EvaluationOutput, LimitOutput
from calcli.evaluation.results import Ranks, Result
from calcli.evaluation.scores import Score
from calcli.number_words import noun
from calcli.optional_packages import optional_import
from calcli.records import JsonObject
from calcli.rows import classes
from calcli.statistics.intervals import ends_of


@dataclass(frozen=True)
class Evaluation:
    """All results of one evaluation.

    bundles : per bundle its results, uncalibrated first. limits : outcomes of limits,
    as JSON.
    """

    bundles: Sequence[Sequence[Result]]
    ranks: Ranks | None = None
    limits: Sequence[LimitOutput] = ()

    @property
    def results(self) -> list[Result]:
        """All results in order."""
        return list(chain(*self.bundles))

    @property
    def verdict(self) -> str:
        """The headline; of several results one line each, headed by their names."""
        judged = [result for result in self.results if result.report is not None]
        if len(judged) == 1 and judged[0].report is not None:
            return judged[0].report.headline
        return "\n".join(map(titled_headline, judged))

    def to_frame(self) -> Any:
        """Pandas DataFrame with a row per bundle, version and metric.

        Columns: value, interval, p-value, expected value. Raises UsageError without
        pandas, which nothing else needs.
        """
        with optional_import("pandas", "to_frame"):
            from pandas import DataFrame

        lines = []
        for result in self.results:
            for name, score in result.scores.items():
                low, high = ends_of(score.interval)
                line = {
                    "bundle": result.bundle,
                    "version": result.title,
                    "metric": name,
                    "value": score.value,
                    "low": low,
                    "high": high,
                    "p_value": score.p_value,
                    "expected": None if score.null is None else score.null.mean,
                }
                lines.append(line)
        return DataFrame(lines)

    def __repr__(self) -> str:
        count = len(self.results)
        versions = "1 version" if count == 1 else f"{count} versions"
        lines = [f"<calcli evaluation of {versions}>"]
        for result in self.results:
            if result.report is None:
                values = (f"{n} {value_text(s)}" for n, s in result.scores.items())
                lines.append(f"{result.title}: {', '.join(values)}")
            else:
                lines.append(titled_headline(result))
                lines += [f"  {line}" for line in result.report.lines]
        return "\n".join(lines)

    def output(self) -> EvaluationOutput:
        """The JSON of ``calcli evaluate``."""
        return evaluation_output(self.results, self.ranks, self.limits)

    def to_dict(self) -> JsonObject:
        """The JSON output, whose keys other programs read."""
        return self.output().to_dict()

    def _repr_html_(self) -> str:
        """HTML tables for notebooks: per bundle the metrics of each version."""
        parts = []
        for results in self.bundles:
            first = results[0]
            rows = f"{first.n} {noun(first.n, 'row')}"
            title = f"{first.bundle}: {rows}, {classes(first.n_classes)}"
            names: dict[str, None] = {}
            notes = []
            for result in results:
                names |= dict.fromkeys(result.scores)
                if result.report is not None:
                    notes.append(f"{result.title}: {result.report.headline}")
            lines = {}
            for name in names:
                scores = [result.scores.get(name) for result in results]
                lines[name] = list(map(value_text, scores))
            titles = [result.title for result in results]
            parts.append(html_table(title, titles, lines, notes))
        return "".join(parts)


def titled_headline(result: Result) -> str:
    """The headline of a result, headed by the names of rows and version."""
    assert result.report is not None
    return f"{result.bundle}, {result.title}: {result.report.headline}"


def html_table(
    title: str,
    head: Sequence[str],
    lines: Mapping[str, Sequence[str]],
    notes: Sequence[str],
) -> str:
    """HTML table for notebooks.

    lines : cells under ``head``, by row header. notes : list above the table.
    """
    rows = [f"<tr>{_cells('th', ['', *head])}</tr>"]
    for name, line in lines.items():
        rows.append(f"<tr>{_cells('th', [name])}{_cells('td', line)}</tr>")
    table = f"<table>{''.join(rows)}</table>"
    return f"<div>{_cells('b', [title])}<ul>{_cells('li', notes)}</ul>{table}</div>"


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)


def value_text(score: Score | None) -> str:
    """Value of a score with its standard error or interval, ``-`` for none."""
    if score is None or score.value is None:
        return "-"
    text = f"{score.value:.4f}"
    if score.se:
        return f"{text} ± {score.se:.4f}"
    if score.interval is not None:
        return f"{text} [{score.interval.low:.4f}, {score.interval.high:.4f}]"
    return text
