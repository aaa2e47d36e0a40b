"""Evaluation for other programs and for papers: tables, model cards, JUnit, a line to
quote.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from calcli import __version__
from calcli.cli.render import Column, Table, number, plain
from calcli.evaluation.evaluation import Evaluation
from calcli.evaluation.json_output import score_json
from calcli.evaluation.metric_limits import Outcome, end_of
from calcli.evaluation.results import GroupSummary, Result
from calcli.evaluation.verdict_limits import VerdictOutcome
from calcli.number_words import noun
from calcli.statistics.p_values import p_cell

# ---- tables


def result_table(evaluation: Evaluation, form: str) -> Table:
    """Table with a line per bundle and calibrator, a column per metric.

    ``csv`` has every metric, with intervals, p-values and expected values named as in
    limits: ``nll.lo``, ``ece.p``. Other forms have the metrics of the table for people,
    and the bundle only where there are several.
    """
    results = evaluation.results
    whole = form == "csv"
    columns: list[Column] = []
    if whole or len(evaluation.bundles) > 1:
        columns.append(Column("bundle", attrgetter("bundle")))
    columns.append(Column("calibrator", attrgetter("title")))
    if whole:
        for fact in ("method", "n", "n_classes"):
            columns.append(Column(fact, attrgetter(fact)))
    names: dict[str, None] = {}
    for result in results:
        names |= dict.fromkeys(result.scores if whole else result.shown)
    ends = ("", ".lo", ".hi", ".p", ".null") if whole else ("",)
    for name in names:
        for end in ends:
            cell = partial(_fact, name, end)
            if not end or any(cell(result) is not None for result in results):
                columns.append(Column(name + end, cell))
    return Table.of(columns, results)


def _fact(name: str, end: str, result: Result) -> float | None:
    """Value of a score, or the part that the suffix names (.lo, .hi, .p, .null)."""
    score = result.scores.get(name)
    return None if score is None else end_of(score_json(score), end[1:])


class Batch(NamedTuple):
    """Numbers of a batch, and of which result they are."""

    result: Result
    line: GroupSummary


def batch_table(evaluation: Evaluation, form: str) -> Table:
    """Table with a line per bundle, calibrator and batch, in order of time.

    ECE and its value expected under calibration stand beside each other: small batches
    have a large one by chance.
    """
    columns: list[Column] = []
    if len(evaluation.bundles) > 1:
        columns.append(Column("bundle", attrgetter("result.bundle")))
    columns += [
        Column("calibrator", attrgetter("result.title")),
        Column("batch", lambda batch: str(batch.line.group)),
        Column("rows", attrgetter("line.n")),
        Column("accuracy", partial(_of_batch, "accuracy")),
    ]
    if form == "csv":
        columns += [
            Column("overconfidence", attrgetter("line.gap")),
            Column("overconfidence.lo", attrgetter("line.interval.low")),
            Column("overconfidence.hi", attrgetter("line.interval.high")),
            Column("p", attrgetter("line.p_adjusted")),
        ]
    else:
        columns += [
            Column("overconfidence", _batch_gap),
            Column("interval", _batch_interval),
            Column("p", lambda batch: p_cell(batch.line.p_adjusted)),
        ]
    columns += [
        Column("ECE", partial(_of_batch, "ece")),
        Column("expected", _batch_expected),
        Column("NLL", partial(_of_batch, "nll")),
    ]
    batches = []
    for result in evaluation.results:
        for line in result.per_group or ():
            batches.append(Batch(result, line))
    return Table.of(columns, batches)


def _of_batch(name: str, batch: Batch) -> float | None:
    """Value of a metric in a batch."""
    score = batch.line.scores.get(name)
    return None if score is None else score.value


def _batch_gap(batch: Batch) -> str:
    star = "*" if batch.line.significant else ""
    return f"{batch.line.gap:+.4f}{star}"


def _batch_interval(batch: Batch) -> str:
    interval = batch.line.interval
    if not interval.known:
        return "-"
    return f"[{interval.low:+.4f}, {interval.high:+.4f}]"


def _batch_expected(batch: Batch) -> float | None:
    """ECE of a batch that is expected under calibration."""
    ece = batch.line.scores.get("ece")
    if ece is None or ece.null is None:
        return None
    return ece.null.mean


# ---- model cards


def model_index(evaluation: Evaluation) -> str:
    """The ``model-index`` block for the front matter of a model card, in YAML.

    A model per bundle; every calibrator's metrics stand in it under their own names,
    with their signatures as ``args``.

    Reference: Hugging Face Hub documentation, model cards, "model-index".
    """
    lines = [
        "# task and dataset: put the Hub's own names, e.g. image-classification"
        " and cifar10",
        "model-index:",
    ]
    for results in evaluation.bundles:
        bundle = results[0].bundle
        lines += [
            f"- name: {_quoted(Path(bundle.partition(':')[0]).stem)}",
            "  results:",
            "  - task:",
            '      type: "classification"',
            "    dataset:",
            f"      name: {_quoted(bundle)}",
            f"      type: {_quoted(bundle)}",
            "    metrics:",
        ]
        for result in results:
            lines += _model_index_metrics(result)
            lines += _model_index_verdict(result)
    return "\n".join([*lines, ""])


def _model_index_metrics(result: Result) -> Iterator[str]:
    for name in result.shown:
        score = result.scores[name]
        if score.value is None:
            continue
        yield f"    - type: {_quoted(name)}"
        yield f"      value: {_yaml_number(score.value)}"
        yield f"      name: {_quoted(f'{name}, {result.title}')}"
        yield "      args:"
        yield f"        signature: {_quoted(score.signature)}"


def _model_index_verdict(result: Result) -> Iterator[str]:
    report = result.report
    if report is None:
        return
    gap = report.facts.overconfidence
    yield '    - type: "overconfidence"'
    yield f"      value: {_yaml_number(gap.value)}"
    yield f"      name: {_quoted(f'overconfidence, {result.title}')}"
    yield "      args:"
    if gap.interval.known:
        low = _yaml_number(gap.interval.low)
        high = _yaml_number(gap.interval.high)
        yield f"        ci: [{low}, {high}]"
        yield f"        ci_level: {gap.interval.level}"
    yield f'        verdict_kind: "{report.kind}"'
    yield f"        verdict: {_quoted(report.headline)}"


def _quoted(text: str) -> str:
    """A double-quoted scalar, which JSON and YAML write alike."""
    return json.dumps(plain(text), ensure_ascii=False)


def _yaml_number(value: float) -> str:
    """A number with all digits and a point, without which YAML 1.1 reads a string."""
    digits, e, exponent = repr(float(value)).partition("e")
    if "." not in digits:
        digits = f"{digits}.0"
    return f"{digits}{e}{exponent}"


# ---- a line to quote


def quotable(evaluation: Evaluation, name: str) -> Iterator[str]:
    """A line per bundle to quote in a paper: values with definition and version."""
    for results in evaluation.bundles:
        first = results[0]
        rows = f"{first.n} {noun(first.n, 'row')}"
        classes = f"{first.n_classes} classes"
        where = f"{first.bundle} ({rows}, {classes})"
        values = []
        for result in results:
            score = result.scores[name]
            expected = ""
            if score.null is not None:
                expected = f" (expected {number(score.null.mean)})"
            values.append(f"{number(score.value)}{expected} {result.title}")
        parts = [f"{name} {', '.join(values)}"]
        settings = " ".join(first.scores[name].signature.split("|")[1:-1])
        if settings:
            parts.append(settings)
        if any("(expected" in value for value in values):
            parts.append("expected: under calibration")
        parts.append(f"calcli {__version__}")
        yield f"signature: {where}: {'; '.join(parts)}"


# ---- JUnit

# Compiled at its first use: so large a character class takes longer than a small command.
NOT_IN_XML = r"[^\t\n\r -~\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


def junit(
    outcomes: Sequence[Outcome | VerdictOutcome], results: Sequence[Result] = ()
) -> str:
    """Limits as a JUnit XML document, one test case each.

    The verdicts on the results, their findings and the next command are its properties.
    """
    failures = sum(outcome.crossed for outcome in outcomes)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="calcli evaluate" tests="{len(outcomes)}"'
        f' failures="{failures}">',
    ]
    properties: list[str] = []
    for result in results:
        properties += _junit_properties(result)
    if properties:
        lines += ["  <properties>", *properties, "  </properties>"]
    for outcome in outcomes:
        classname = _xml(f"{outcome.bundle} {outcome.title}{outcome.where}")
        name = _xml(outcome.limit.text)
        case = f'  <testcase classname="{classname}" name="{name}"'
        if outcome.crossed:
            words = _xml(outcome.sentence)
            failure = f'<failure message="{words}">{words}</failure>'
            lines.append(f"{case}>{failure}</testcase>")
        else:
            lines.append(f"{case}/>")
    return "\n".join([*lines, "</testsuite>", ""])


def _junit_properties(result: Result) -> Iterator[str]:
    report = result.report
    if report is None:
        return
    facts = [("verdict_kind", report.kind), ("verdict", report.headline)]
    facts += [("finding", line) for line in report.lines]
    if report.next_step.command is not None:
        facts.append(("next", report.next_step.command))
    for name, words in facts:
        named = _xml(f"{name}: {result.bundle} {result.title}")
        yield f'    <property name="{named}" value="{_xml(words)}"/>'


def _xml(text: str) -> str:
    """Escape text for XML; control characters and lone bytes are spelt out."""
    from xml.sax.saxutils import escape

    def spelt(match: re.Match[str]) -> str:
        return match.group().encode("unicode_escape").decode()

    named = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
    return escape(re.sub(NOT_IN_XML, spelt, text), named)
