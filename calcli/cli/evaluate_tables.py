"""Evaluation as text. For people: verdicts, then the table, then the evidence. For other programs and for papers:
JUnit, a table, the block of a model card, a line to quote. Every number is in the JSON too."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from calcli import __version__
from calcli.cli.render import Cell, Table, number, plain, print_line, print_table
from calcli.evaluation.evaluate_bundle import Plan
from calcli.evaluation.metric_limits import Outcome
from calcli.evaluation.results import (
    ClassLine,
    Difference,
    Evaluation,
    GroupLine,
    Ranks,
    Result,
    Score,
    end_of,
)
from calcli.evaluation.term_meanings import meaning as meaning_of
from calcli.metrics.catalog import metric
from calcli.metrics.significance import p_cell, p_text
from calcli.rows import classes

SIDE_BY_SIDE = 4  # most results of a bundle beside each other; more continue below
ONE_BY_ONE = 3  # bundles up to which each has a table of its own; more are a line each
WIDTH = 10_000  # columns of an output that is not a terminal: files scroll


def print_report(evaluation: Evaluation, plan: Plan, full: bool = False) -> None:
    """Print everything that was evaluated; full : with the evidence behind each verdict."""
    if plan.report and not full and len(evaluation.bundles) > ONE_BY_ONE:
        _print_overview(evaluation)
    else:
        if plan.report:
            print_verdicts(evaluation, plan)
            print_line()
        for results in evaluation.bundles:
            _print_bundle(results, plan)
    for result in evaluation.results if plan.report and full else ():
        print_line(f"evidence: {result.bundle}, {result.title}")
        for line in (*_evidence(result), result.p_legend(result.shown)):
            print_line(f"  {line}")
    for result in evaluation.results:
        if result.per_class is not None:
            _print_per_class(result, result.per_class)
        if result.per_group is not None and not plan.ordered:
            _print_per_group(result, result.per_group)
    if evaluation.ranks is not None:
        _print_ranks(evaluation.ranks)


def print_verdicts(evaluation: Evaluation, plan: Plan) -> None:
    """Print the verdict of every result, where the plan has one: a line each."""
    for result in evaluation.results if plan.report else ():
        where = (
            f"{result.bundle}, {result.title}"
            if len(evaluation.results) > 1
            else result.bundle
        )
        assert result.report is not None
        print_line(f"verdict: {where}: {result.report.verdict}")


def _print_overview(evaluation: Evaluation) -> None:
    """Print a line per result, or a line per fact if the terminal is too narrow for the table."""
    several = len(evaluation.results) > len(evaluation.bundles)
    body: list[list[Cell]] = []
    for result in evaluation.results:
        report = result.report
        assert report is not None
        facts = [
            _cell(result.scores[name]) if name in result.scores else "-"
            for name in ("accuracy", "ece", "nll")
        ]
        verdict: list[Cell] = [
            report.word,
            result.n,
            facts[0],
            str(report.overconfidence),
        ]
        advice = report.advice
        what = report.doubt or advice.lead.rstrip(".,") * (
            bool(advice.command) or report.verdict_kind == "too_few"
        )
        body.append(
            [result.bundle, *[result.title] * several, *verdict, *facts[1:], what]
        )
    head = [
        "bundle",
        *["version"] * several,
        "verdict",
        "n",
        "accuracy",
        "overconfidence",
        "ECE",
        "NLL",
        "what to do",
    ]
    if _width(head, body) <= _room():
        print_table(head, body)
    else:
        for line in body:
            for name, cell in zip(head, line, strict=True):
                print_line(f"{'  ' * (name != 'bundle')}{name}: {cell}")
    print_line(
        _legend(
            [str(cell) for line in body for cell in line],
            "evidence with --full, terms with --explain",
        )
    )


SIGNS = {
    "±": "±: one standard error",
    " (": "( ): expected under calibration",
    "[": "[ ]: interval",
}
SIGNS["p "] = "p: p-value (null: perfect calibration)"


def _legend(cells: Sequence[str], *more: str) -> str:
    """Legend of the signs in the cells of a table, and of p-values bounded by the number of draws."""
    found = [
        words for sign, words in SIGNS.items() if any(sign in cell for cell in cells)
    ]
    bounds = sorted(
        {bound for cell in cells for bound in re.findall(r"p < (0[.]\d+)", cell)}
    )
    least = [
        f"p < {', '.join(bounds)}: the least that the draws of a test can show"
    ] * (bounds[-1:] > ["0.001"])
    return "; ".join([*found, *least, *more])


def _room() -> int:
    """Columns of the terminal, or those that ``COLUMNS`` gives; without either, WIDTH."""
    return (
        shutil.get_terminal_size((WIDTH, 24)).columns
        if sys.stdout.isatty() or "COLUMNS" in os.environ
        else WIDTH
    )


def _width(head: Sequence[str], body: Sequence[Sequence[Cell]]) -> int:
    """Characters in a line of a printed table."""
    return (
        sum(
            max(len(str(cell)) for cell in column) + 2
            for column in zip(head, *body, strict=True)
        )
        - 2
    )


def _print_columns(
    first: Sequence[str], columns: Sequence[Sequence[str]], last: Sequence[str] = ()
) -> None:
    """Print a table with ``first`` as its first column, as many columns side by side as fit, and ``last`` if it fits
    too. A column is a head with a cell per line."""
    longest = max(len(cell) for column in columns for cell in column) + 2
    at_once = max(1, min(SIDE_BY_SIDE, (_room() - max(map(len, first))) // longest))
    for at in range(0, len(columns), at_once):
        some = [first, *columns[at : at + at_once]]
        head, *body = zip(*some, strict=True)
        wider = [*zip(*some, last, strict=True)] if last else []
        if wider and _width(wider[0], wider) <= _room():
            head, *body = wider
        print_line()
        print_table(head, body)


def _print_bundle(results: Sequence[Result], plan: Plan) -> None:
    """Print the table of one bundle: a metric per line, a calibrator per column."""
    print_line(_data_sentence(results[0]))
    if results[0].units_words:
        print_line(results[0].units_words)
    shown = results[0].shown
    meaning = (
        ["meaning", *(meaning_of(name, plan.settings) for name in shown)]
        if plan.report
        else ()
    )
    columns = [
        [result.title, *(_cell(result.scores[name]) for name in shown)]
        for result in results
    ]
    _print_columns(["metric", *shown], columns, meaning)
    for result in results:
        for name, score in result.scores.items():
            if score.reason is not None and name in shown:
                print_line(f"{name}: undefined for {result.title}: {score.reason}")
        few = {
            name: str(s.more["ci_reason"])
            for name, s in result.scores.items()
            if "ci_reason" in s.more
        }
        for reason in dict.fromkeys(few.values()):
            print_line(
                f"{', '.join(name for name in few if few[name] == reason)} of {result.title}: {reason}"
            )
    tests = [result.report.p_text for result in results if result.report is not None]
    if legend := _legend(
        [*(cell for column in columns for cell in column[1:]), *tests]
    ):
        print_line(legend)
    _print_paired(results, None if plan.report else plan.metrics)
    print_line()


def _data_sentence(result: Result) -> str:
    text = f"{result.bundle}: {result.n} sample{'s'[: result.n != 1]}, {classes(result.n_classes)}"
    if result.report is None:
        return text
    d, parts = result.report.data, [text]
    if d.smallest_class_share is not None:
        named = [] if d.class_1 is None else [f"class 1 = {d.class_1}"]
        shares = f"class frequencies {d.smallest_class_share:.2%} to {d.largest_class_share:.2%}"
        parts = [f"{text}, {d.kind}", *named, shares]
    if d.absent_classes:
        parts.append(
            f"{d.absent_classes} class{'es' * (d.absent_classes > 1)} without a sample"
        )
    if d.weighted:
        parts.append("weighted")
    if d.distinct_confidences < d.n // 2:
        parts.append(
            f"only {d.distinct_confidences} distinct confidence{'s'[: d.distinct_confidences != 1]}"
        )
    return "; ".join(parts)


def _cell(score: Score) -> str:
    if score.value is None:
        return "-"
    text = number(score.value)
    if score.se and "ci_reason" not in score.more:
        return f"{text} ±{number(score.se)}"
    if score.interval is not None and score.p_value is None:
        return f"{text} [{number(score.interval.low)}, {number(score.interval.high)}]"
    null = "" if score.null is None else f" ({number(score.null.mean)})"
    return (
        text
        + null
        + ("" if score.p_value is None else f" {p_text(score.p_value, score.draws)}")
    )


def _print_paired(results: Sequence[Result], chosen: Sequence[str] | None) -> None:
    """Print the differences of mean losses to the baseline on the same rows. chosen : only these metrics."""
    pairs = [
        (result.title, result.paired) for result in results if result.paired is not None
    ]
    names = [
        name
        for name in (pairs[0][1].differences if pairs else ())
        if chosen is None or name in chosen
    ]
    if not names:
        return
    against = pairs[0][1].baseline or results[0].given
    columns = []
    for title, paired in pairs:
        column = [title]
        for name in names:
            d = paired.differences[name]
            ends = (
                f" [{number(d.interval.low)}, {number(d.interval.high)}]"
                if d.interval
                else ""
            )
            ends = ends if d.reason is None else f" ({d.reason.partition(':')[0]})"
            column.append(
                f"{d.value:+.4f}{ends}{f' {p_text(d.p_value)}' if d.p_value is not None else ''}"
            )
        columns.append(column)
    _print_columns([f"minus {against}", *names], columns)
    if pairs[0][1].baseline is not None:
        for title, paired in pairs:
            if title not in (against, results[0].given) and "nll" in paired.differences:
                print_line(advice(title, against, paired.differences["nll"]))
    intervals = [
        d.interval for d in pairs[0][1].differences.values() if d.interval is not None
    ]
    if intervals:
        few = "; no bound: few rows carry the loss" * any(
            d.reason for _, p in pairs for d in p.differences.values()
        )
        print_line(
            f"[ ]: {intervals[0].level:.0%} interval of the difference on the same rows; p: two-sided{few}"
        )


def advice(new: str, old: str, change: Difference) -> str:
    """Advice on replacing the calibrator old by new, from the change in NLL on the same rows."""
    if change.interval is None:
        return f"{new} instead of {old}: too few samples to tell which is better"
    low, high = change.interval.low, change.interval.high
    by = f"{abs(change.value):.4f} [{min(abs(low), abs(high)):.4f}, {max(abs(low), abs(high)):.4f}]"
    if high < 0:
        return f"{new} instead of {old} helps: NLL is lower by {by}"
    if low > 0:
        return f"keep {old}: with {new} NLL is higher by {by}"
    by = f"{change.value:+.4f} [{low:+.4f}, {high:+.4f}]"
    return f"keep {old}: with {new} NLL changes by {by}, which is not significant"


def _evidence(result: Result) -> Iterator[str]:
    report = result.report
    assert report is not None
    d = report.direction
    entropy = f"NLL minus the entropy of the probabilities {d.entropy_gap:+.4f} (z {d.entropy_z:+.1f})"
    yield f"overconfidence {report.overconfidence} (z {d.gap_z:+.1f}); {entropy}: {d.words}"
    for name in ("ece", "ece_positive", "ece_mass", "smece"):
        if (score := result.scores.get(name)) is not None and score.null is not None:
            p = p_text(score.null.p_value, score.draws)
            null = (
                f"{number(score.null.mean)}, 95th percentile {number(score.null.q95)}"
            )
            yield f"{name} {number(score.value)} (expected under calibration {null}, {p})"
    if (score := result.scores.get("tce2")) is not None and score.interval is not None:
        i = score.interval
        ends = f"{i.level:.0%} interval [{number(i.low)}, {number(i.high)}]"
        debiased = f"debiased squared error {number(score.more['signed_square'])}"
        why = f": {score.end_words}" if score.end_words else ""
        yield f"tce2 {number(score.value)}, {ends} ({debiased}){why}"
    if report.positive is not None:
        yield f"mean P(class 1) minus the frequency of class 1 {report.positive_gap} (z {report.positive.z:+.1f})"
    elif report.classwise is not None:
        c = report.classwise
        verb = "is" if c.n_significant == 1 else "are"
        off = f"{c.n_significant} of {result.n_classes} {verb} significantly miscalibrated"
        error = f"root-mean-square error {number(c.value)}"
        yield f"frequency of the classes: {error}; {off} ({p_text(c.p_value)}, adjusted)"
    if report.groups is not None:
        g = report.groups
        off = f"{g.n_significant} of {g.n_groups} significantly miscalibrated"
        by = f"{g.worst_gap:+.4f}{' of P(class 1)' * g.of_positive} ({p_text(g.p_value)}, adjusted)"
        yield f"groups: {off}; most significant {g.worst} ({g.worst_n} rows) by {by}"
    if report.split is not None:
        for loss, part in (
            ("NLL", report.split.nll),
            ("Brier score", report.split.brier),
        ):
            found = f"calibration {number(part.calibration)} ±{number(part.se)} (cross-validated {report.split.method})"
            split = f"{loss} {number(part.loss)} = refinement {number(part.refinement)} + {found}"
            yield (
                split
                if part.detected
                else f"{loss} {number(part.loss)}: no calibration loss detected ({found})"
            )


def _say_which(result: Result, one: str, all_of_them: str) -> None:
    verdict = " and the verdict" * (result.report is not None)
    told = f"p: adjusted for all {all_of_them}{verdict}; * significant"
    print_line(f"\n{result.bundle}, {result.title}, by {one} ({told})")


def _print_per_class(result: Result, lines: Sequence[ClassLine]) -> None:
    _say_which(result, "class", "classes")
    named = lines[0].name is not None
    first, then = (
        ["class", *["name"] * named],
        ["rows", "predicted", "share", "mean p", "gap", "p"],
    )
    body: list[list[Cell]] = []
    for line in lines:
        gap = f"{line.gap:+.4f}{'*' if line.significant else ' '}"
        row: list[Cell] = [
            line.index,
            *[line.name] * named,
            line.n,
            line.predicted,
            line.share,
            line.mean_probability,
        ]
        body.append(
            [*row, gap, p_cell(line.p_adjusted), line.precision, line.recall, line.ece]
        )
    print_table([*first, *then, "precision", "recall", "ECE"], body)


def _print_per_group(result: Result, lines: Sequence[GroupLine]) -> None:
    _say_which(result, "group", "groups")
    positive = lines[0].of_positive
    gaps = [
        "mean confidence minus accuracy",
        "mean P(class 1) minus the frequency of class 1",
    ]
    print_line(f"gap: {gaps[positive]}, with its interval")
    if also := [
        f"{x.group} {x.other.gap:+.4f} ({p_text(x.other.p_adjusted)})"
        for x in lines
        if x.other is not None
    ]:
        way = "top" if positive else "positive"
        print_line(
            f"significant is also {gaps[not positive]}: {', '.join(also)}; --label {way} shows it"
        )
    two = ["frequency of class 1", "mean P(class 1)"] * positive
    names = [name for name in lines[0].scores if metric(name).in_table]
    for some in (
        names[at : at + SIDE_BY_SIDE] for at in range(0, len(names), SIDE_BY_SIDE)
    ):
        print_line()
        body: list[list[Cell]] = []
        for line in lines:
            means = [line.frequency, line.mean] if positive else []
            gap = f"{line.gap:+.4f}{'*' if line.significant else ' '} {line.interval}"
            cells = (_cell(line.scores[name]) for name in some)
            body.append(
                [str(line.group), line.n, *means, gap, p_cell(line.p_adjusted), *cells]
            )
        print_table(["group", "rows", *two, "gap", "p", *some], body)


def _print_ranks(ranks: Ranks) -> None:
    print_line(
        f"\naverage ranks over {ranks.n_bundles} bundles (1 is best), Friedman test"
    )
    body: list[list[Cell]] = []
    for name, test in ranks.tests.items():
        found = f"{test.chi2:.2f}", p_cell(test.p_value), p_cell(test.f_p_value)
        body.append([name, *(f"{rank:.2f}" for rank in test.ranks), *found])
    print_table(["metric", *ranks.calibrators, "chi2", "p", "p (Iman-Davenport)"], body)


# ---- for other programs and for papers


def result_table(evaluation: Evaluation, form: str) -> Table:
    """Table with a line per bundle and calibrator, a column per metric. ``csv`` has every metric, with intervals,
    p-values and expected values named as in limits: ``nll.lo``, ``ece.p``. Other forms have the metrics of the table
    for people, and the bundle only where there are several."""
    results, whole = evaluation.results, form == "csv"
    names = list(
        dict.fromkeys(
            name
            for result in results
            for name in (result.scores if whole else result.shown)
        )
    )
    several = whole or len(evaluation.bundles) > 1
    ends = ("", ".lo", ".hi", ".p", ".null") if whole else ("",)
    held = {
        (name, end)
        for result in results
        for name in names
        for end in ends
        if _fact(result, name, end) is not None
    }
    facts = [
        (name, end) for name in names for end in ends if not end or (name, end) in held
    ]
    head = [*["bundle"] * several, "calibrator", *["method", "n", "n_classes"] * whole]
    rows: list[list[Cell]] = []
    for result in results:
        about: list[Cell] = [result.method, result.n, result.n_classes]
        values = [_fact(result, name, end) for name, end in facts]
        rows.append([*[result.bundle] * several, result.title, *about * whole, *values])
    return Table([*head, *(name + end for name, end in facts)], rows)


def _fact(result: Result, name: str, end: str) -> float | None:
    """Value of a score, or the part that the suffix names (.lo, .hi, .p, .null)."""
    return (
        end_of(result.scores[name].to_dict(), end[1:])
        if name in result.scores
        else None
    )


def batch_table(evaluation: Evaluation, form: str) -> Table:
    """Table with a line per bundle, calibrator and batch, in order of time; overconfidence with its interval. ECE and
    its value expected under calibration stand beside each other: small batches have a large one by chance."""
    several = len(evaluation.bundles) > 1
    ends = ["overconfidence.lo", "overconfidence.hi"] if form == "csv" else ["interval"]
    head = [
        "batch",
        "rows",
        "accuracy",
        "overconfidence",
        *ends,
        "p",
        "ECE",
        "expected",
        "NLL",
    ]
    rows: list[list[Cell]] = []
    for result in evaluation.results:
        for line in result.per_group or ():
            ece = line.scores.get("ece")
            values = {name: score.value for name, score in line.scores.items()}
            low, high, p = line.interval.low, line.interval.high, line.p_adjusted
            gap: list[Cell] = [line.gap, low, high, p]
            if form != "csv":
                gap = [
                    f"{line.gap:+.4f}{'*' * line.significant}",
                    f"[{low:+.4f}, {high:+.4f}]",
                    p_cell(p),
                ]
            expected = None if ece is None or ece.null is None else ece.null.mean
            row: list[Cell] = [
                *[result.bundle] * several,
                result.title,
                str(line.group),
                line.n,
            ]
            rows.append(
                [
                    *row,
                    values.get("accuracy"),
                    *gap,
                    values.get("ece"),
                    expected,
                    values.get("nll"),
                ]
            )
    return Table([*["bundle"] * several, "calibrator", *head], rows)


def model_index(evaluation: Evaluation) -> str:
    """The ``model-index`` block for the front matter of a model card, in YAML.

    A model per bundle; every calibrator's metrics stand in it under their own names, with their signatures as ``args``.

    Reference: Hugging Face Hub documentation, model cards, "model-index".
    """
    lines = [
        "# task and dataset: put the Hub's own names, e.g. image-classification and cifar10",
        "model-index:",
    ]
    for results in evaluation.bundles:
        where = results[0].bundle
        lines += [
            f"- name: {_quoted(Path(where.partition(':')[0]).stem)}",
            "  results:",
            "  - task:",
        ]
        lines += ['      type: "classification"', "    dataset:"]
        lines += [
            f"      name: {_quoted(where)}",
            f"      type: {_quoted(where)}",
            "    metrics:",
        ]
        for result in results:
            for name in result.shown:
                score = result.scores[name]
                if score.value is not None:
                    lines += [
                        f"    - type: {_quoted(name)}",
                        f"      value: {_number(score.value)}",
                    ]
                    lines += [f"      name: {_quoted(f'{name}, {result.title}')}"]
                    lines += [
                        "      args:",
                        f"        signature: {_quoted(score.signature)}",
                    ]
            if (report := result.report) is not None:
                over, known = report.overconfidence, report.overconfidence.interval
                lines += [
                    '    - type: "overconfidence"',
                    f"      value: {_number(over.value)}",
                ]
                lines += [
                    f"      name: {_quoted(f'overconfidence, {result.title}')}",
                    "      args:",
                ]
                if known.known:
                    lines += [
                        f"        ci: [{_number(known.low)}, {_number(known.high)}]"
                    ]
                    lines += [f"        ci_level: {known.level}"]
                lines += [f'        verdict_kind: "{report.verdict_kind}"']
                lines += [f"        verdict: {_quoted(report.verdict)}"]
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """A double-quoted scalar, which JSON and YAML write alike: the line ends in which they differ are spelt out."""
    return json.dumps(plain(text), ensure_ascii=False)


def _number(value: float) -> str:
    """Format a number with all digits and a point, without which readers of YAML 1.1 read 1e-05 as a string."""
    digits, e, exponent = repr(float(value)).partition("e")
    return f"{digits}{'.0' * ('.' not in digits)}{e}{exponent}"


def quotable(evaluation: Evaluation, name: str) -> Iterator[str]:
    """Yield a line per bundle to quote in a paper: a metric's values with definition, rows, floor and version."""
    for results in evaluation.bundles:
        where = (
            f"{results[0].bundle} ({results[0].n} rows, {results[0].n_classes} classes)"
        )
        shown = []
        for score, title in ((result.scores[name], result.title) for result in results):
            floor = "" if score.null is None else f" (floor {number(score.null.mean)})"
            shown.append(f"{number(score.value)}{floor} {title}")
        values = ", ".join(shown)
        settings = " ".join(results[0].scores[name].signature.split("|")[1:-1])
        floor = (
            "floor: the value expected under calibration; "
            if "(floor" in values
            else ""
        )
        yield f"signature: {where}: {name} {values}; {settings}{'; ' * bool(settings)}{floor}calcli {__version__}"


# Compiled at its first use: so large a character class takes longer than a small command.
NOT_IN_XML = r"[^\t\n\r -~\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


def _xml(text: str) -> str:
    """Escape text for XML, in quotes or between tags; control characters and lone bytes are spelt out."""
    from xml.sax.saxutils import escape

    named = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
    spelt = re.sub(
        NOT_IN_XML, lambda found: found.group().encode("unicode_escape").decode(), text
    )
    return escape(spelt, named)


def junit(outcomes: Sequence[Outcome], results: Sequence[Result] = ()) -> str:
    """Limits as a JUnit XML document, one test case each; the verdicts on the results are its properties."""
    failures = sum(o.crossed for o in outcomes)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(
        f'<testsuite name="calcli evaluate" tests="{len(outcomes)}" failures="{failures}">'
    )
    properties = []
    for r in results:
        facts = (
            ()
            if r.report is None
            else (
                ("verdict_kind", r.report.verdict_kind),
                ("verdict", r.report.verdict),
            )
        )
        for what, words in facts:
            properties.append(
                f'    <property name="{_xml(f"{what}: {r.bundle} {r.title}")}" value="{_xml(words)}"/>'
            )
    if properties:
        lines += ["  <properties>", *properties, "  </properties>"]
    for o in outcomes:
        case = f'  <testcase classname="{_xml(f"{o.bundle} {o.title}{o.where}")}" name="{_xml(o.limit.text)}"'
        told = _xml(o.sentence)
        lines.append(
            f'{case}><failure message="{told}">{told}</failure></testcase>'
            if o.crossed
            else f"{case}/>"
        )
    return "\n".join([*lines, "</testsuite>", ""])
