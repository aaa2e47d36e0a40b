"""The evaluation for other programs and for papers: JUnit, a table, the block of a model card, a line to quote."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from calcli import __version__
from calcli.cli.tables import Cell, Table, number, plain
from calcli.evaluation.metric_limits import Outcome
from calcli.evaluation.results import Evaluation, Result, Score, end_of
from calcli.metrics.significance import p_cell


def result_table(evaluation: Evaluation, form: str) -> Table:
    """A line per bundle and calibrator, a column per metric. For ``csv`` every metric, with what belongs to it under
    the names that limits have: ``nll.lo``, ``ece.p``. Else the metrics of the table for people, and the bundle only
    where there are several."""
    results, whole = evaluation.results, form == "csv"
    names = list(dict.fromkeys(name for result in results for name in (result.scores if whole else result.shown)))
    several = whole or len(evaluation.bundles) > 1
    facts = {name: _facts(name, results) if whole else [name] for name in names}
    head = [*(["bundle"] if several else []), "calibrator", *(["method", "n", "n_classes"] if whole else [])]
    rows: list[list[Cell]] = []
    for result in results:
        row: list[Cell] = [*([result.bundle] if several else []), result.title]
        row += [result.method, result.n, result.n_classes] if whole else []
        rows.append([*row, *(_fact(result.scores.get(name), fact) for name in names for fact in facts[name])])
    return Table([*head, *(fact for each in facts.values() for fact in each)], rows)


def batch_table(evaluation: Evaluation, form: str) -> Table:
    """A line per bundle, calibrator and batch, in order of time; overconfidence with its interval. ECE and its value
    expected under calibration stand beside each other: small batches have a large one by chance."""
    several = len(evaluation.bundles) > 1
    ends = ["overconfidence.lo", "overconfidence.hi"] if form == "csv" else ["interval"]
    head = ["batch", "rows", "accuracy", "overconfidence", *ends, "p", "ECE", "expected", "NLL"]
    rows: list[list[Cell]] = []
    for result in evaluation.results:
        for line in result.per_group or ():
            ece = line.scores.get("ece")
            values = {name: score.value for name, score in line.scores.items()}
            low, high, p = line.interval.low, line.interval.high, line.p_adjusted
            gap: list[Cell] = [line.gap, low, high, p]
            if form != "csv":
                gap = [f"{line.gap:+.4f}{'*' * line.significant}", f"[{low:+.4f}, {high:+.4f}]", p_cell(p)]
            expected = None if ece is None or ece.null is None else ece.null.mean
            row: list[Cell] = [*([result.bundle] if several else []), result.title, str(line.group), line.n]
            rows.append([*row, values.get("accuracy"), *gap, values.get("ece"), expected, values.get("nll")])
    return Table([*(["bundle"] if several else []), "calibrator", *head], rows)


def _facts(name: str, results: Sequence[Result]) -> list[str]:
    held = [result.scores[name] for result in results if name in result.scores]
    ends = [f"{name}.{end}" for end in ("lo", "hi", "p", "null")]
    return [name, *(end for end in ends if any(_fact(score, end) is not None for score in held))]


def _fact(score: Score | None, fact: str) -> float | None:
    """The value of a score, or what its column's name asks for after the dot."""
    return None if score is None else end_of(score.to_dict(), fact.rpartition(".")[2])


def model_index(evaluation: Evaluation) -> str:
    """The ``model-index`` block for the front matter of a model card, in YAML.

    A model per bundle; every calibrator's metrics stand in it under their own names, with their signatures as ``args``.

    Reference: Hugging Face Hub documentation, model cards, "model-index".
    """
    lines = ["# task and dataset: put the Hub's own names, e.g. image-classification and cifar10", "model-index:"]
    for results in evaluation.bundles:
        where = results[0].bundle
        lines += [f"- name: {_quoted(Path(where.partition(':')[0]).stem)}", "  results:", "  - task:"]
        lines += ['      type: "classification"', "    dataset:"]
        lines += [f"      name: {_quoted(where)}", f"      type: {_quoted(where)}", "    metrics:"]
        for result in results:
            for name in result.shown:
                score = result.scores[name]
                if score.value is not None:
                    lines += [f"    - type: {_quoted(name)}", f"      value: {_number(score.value)}"]
                    lines += [f"      name: {_quoted(f'{name}, {result.title}')}"]
                    lines += ["      args:", f"        signature: {_quoted(score.signature)}"]
            if (report := result.report) is not None:
                over, known = report.overconfidence, report.overconfidence.interval
                lines += ['    - type: "overconfidence"', f"      value: {_number(over.value)}"]
                lines += [f"      name: {_quoted(f'overconfidence, {result.title}')}", "      args:"]
                if known.known:
                    lines += [f"        ci: [{_number(known.low)}, {_number(known.high)}]"]
                    lines += [f"        ci_level: {known.level}"]
                lines += [f'        verdict_kind: "{report.verdict_kind}"']
                lines += [f"        verdict: {_quoted(report.verdict)}"]
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """A double-quoted scalar, which JSON and YAML write alike: the line ends in which they differ are spelt out."""
    return json.dumps(plain(text), ensure_ascii=False)


def _number(value: float) -> str:
    """All digits of a number; with a point, without which readers of YAML 1.1 take 1e-05 for a word."""
    digits, e, exponent = repr(float(value)).partition("e")
    return f"{digits}{'.0' * ('.' not in digits)}{e}{exponent}"


def quotable(evaluation: Evaluation, name: str) -> Iterator[str]:
    """Per bundle one line for a paper: a metric's values with definition, rows, floor and version."""
    for results in evaluation.bundles:
        where = f"{results[0].bundle} ({results[0].n} rows, {results[0].n_classes} classes)"
        shown = []
        for score, title in ((result.scores[name], result.title) for result in results):
            floor = "" if score.null is None else f" (floor {number(score.null.mean)})"
            shown.append(f"{number(score.value)}{floor} {title}")
        values = ", ".join(shown)
        settings = " ".join(results[0].scores[name].signature.split("|")[1:-1])
        floor = "floor: the value expected under calibration; " if "(floor" in values else ""
        yield f"signature: {where}: {name} {values}; {settings}{'; ' * bool(settings)}{floor}calcli {__version__}"


NOT_IN_XML = r"[^\t\n\r -~\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""Compiled where it is needed: so wide a class takes longer than all that a small command computes."""


def _xml(text: str) -> str:
    """Text as XML can hold it, in quotes or between tags: control characters and lone bytes are spelt out."""
    from xml.sax.saxutils import escape

    named = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
    spelt = re.sub(NOT_IN_XML, lambda found: found.group().encode("unicode_escape").decode(), text)
    return escape(spelt, named)


def junit(outcomes: Sequence[Outcome], results: Sequence[Result] = ()) -> str:
    """Limits as a JUnit XML document, one test case each; the verdicts on the results are its properties."""
    failures = sum(o.crossed for o in outcomes)
    suite = f'<testsuite name="calcli evaluate" tests="{len(outcomes)}" failures="{failures}">'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', suite]
    for r in results:
        facts = () if r.report is None else (("verdict_kind", r.report.verdict_kind), ("verdict", r.report.verdict))
        for what, words in facts:
            lines.append(f'    <property name="{_xml(f"{what}: {r.bundle} {r.title}")}" value="{_xml(words)}"/>')
    if len(lines) > 2:
        lines[2:] = ["  <properties>", *lines[2:], "  </properties>"]
    for o in outcomes:
        where = f"{o.bundle} {o.title}{o.where}"
        head = f'  <testcase classname="{_xml(where)}" name="{_xml(o.limit.text)}"'
        if o.crossed:
            told = _xml(o.sentence)
            lines.append(f'{head}><failure message="{told}">{told}</failure></testcase>')
        else:
            lines.append(f"{head}/>")
    return "\n".join([*lines, "</testsuite>", ""])
