"""Pages that the code itself writes: methods, metrics, commands, formats, Python API, glossary, schemas.

``write(folder)`` needs calcli alone, no Sphinx. Everything said in these pages stands once, in the code.
"""

import contextlib
import inspect
import json
import math
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import calcli
from calcli.calibrator import Laws
from calcli.cli.app import COMMANDS, EPILOG, load
from calcli.cli.commands.methods import describe, preserving
from calcli.cli.manual_page import flags
from calcli.errors import EXIT_CODES
from calcli.evaluation.term_meanings import REPORT
from calcli.importers.formats import commands as format_commands
from calcli.importers.formats import formats
from calcli.metrics.catalog import describe_metric, metric, metric_names
from calcli.metrics.registry import Metric
from calcli.registry import method, method_names
from calcli.reporting.glossary import GLOSSARY

HERE = Path(__file__).parent
EXPORTS = HERE / "exports.json"
FORMULAS = tomllib.loads((HERE / "formulas.toml").read_text(encoding="utf-8"))
SCHEMAS = HERE / "schemas"
FOLDER = HERE.parent / "benchmarks"
LEVELS = FOLDER / "levels.json"
BENCHMARKS = {
    "speed": (
        "speed.py",
        ["--table", "benchmarks/speed.json"],
        "python benchmarks/speed.py --full --peers PEERS --json benchmarks/speed.json",
        "Processor time of whole commands, start-up included, beside reading the file, bare NumPy scripts and other"
        " programs that do the same. Empty: not run at this size.",
    ),
    "question_thresholds": (
        "_stored.py",
        ["benchmarks/question_thresholds.json"],
        "python benchmarks/question_thresholds.py --record"
        " benchmarks/question_thresholds.json",
        "How often fewer of the accepted answers are right than was asked for (.9, of"
        " whole records .72), at level .95: at most .05 is promised. In 1000 labelled"
        " sets, against 100 000 fresh records of simulated chances; flat: every answer"
        " is right with chance .895, and nothing keeps the promise.",
    ),
    "few_labels": (
        "_stored.py",
        ["benchmarks/few_labels.json"],
        "python benchmarks/few_labels.py FOLDER 60 --record benchmarks/few_labels.json",
        "Logs of questions made of saved scores, cut to so many labels a question: mean"
        " NLL on other rows of the answers as they are minus that under the calibrator"
        " by question, and under one temperature for the whole log, in 1e-3 nats"
        " (positive: better than the answers as they are); as many logs as stated, alone and"
        " alike from 20 runs, different with nothing to gain too. calibrated: nothing is to be"
        " gained. worst: mean of the worst log.",
    ),
    "quality": (
        "quality.py",
        ["-o", "benchmarks/quality.json"],
        "python benchmarks/quality.py FILE.npz … --simulated --trained --rows 250,500,1000,2500 --peers-python PYTHON"
        " -o benchmarks/quality.json",
        "Mean NLL on test rows minus that of `auto`, in 1e-3 nats (positive: `auto` is better), and in brackets the"
        " mean rank among the peers. The calibration rows are the same for everybody; the columns say how many tasks,"
        " one split for each model and several where a group is one model."
        " Empty: not for so many classes, or broken on some model of the group.",
    ),
    "default": (
        "default.py",
        [],
        "python benchmarks/default.py FILE.npz … --trained; for the other version"
        " PYTHONPATH=CHECKOUT python benchmarks/default.py FILE.npz … --trained --name NAME",
        "The default on models of other people (three splits of each) and on models"
        " trained here (two): mean NLL on test samples minus that of the others, in 1e-3"
        " nats (negative: the default is better), and accuracy in points; Venn-Abers and"
        " the smoothed sigmoid for two classes; the other version on two splits of eight"
        " models of other people and one of those trained here. Below, the share of test"
        " sets that a verdict calls calibrated, and the tasks more than .002 behind in the"
        " mean over splits, with every split.",
    ),
    "few_rows": (
        "few_rows.py",
        [],
        "python benchmarks/few_rows.py FOLDER; for the other version"
        " PYTHONPATH=CHECKOUT python benchmarks/few_rows.py FOLDER --name NAME",
        "Near-perfect scores and rare positives, made of public files (one class against"
        " all others; a few classes among themselves) and drawn from a known truth,"
        " neither of which the default was tuned on; six splits, of the other version"
        " two: mean NLL on test samples minus that of the others, in 1e-3 nats"
        " (negative: the default is better), in brackets of the worst task. Below,"
        " tasks more than .002 behind, with the standard error over splits.",
    ),
    "watch": (
        "_stored.py",
        ["benchmarks/watch.json"],
        "python benchmarks/watch.py 200 FILE.npz … --record benchmarks/watch.json",
        "Proportion of streams of 60 batches of 100 samples with a false alarm; after a semicolon the proportion in"
        " which a change at batch 20 was found, and the median delay in batches.",
    ),
    "adapt": (
        "_stored.py",
        ["benchmarks/adapt.json"],
        "python benchmarks/adapt.py 200 FILE.npz … --quapy PYTHON --record benchmarks/adapt.json",
        "Change of the NLL in 1e-3 nats against `svs` fitted to 2000 samples, mean and standard error over runs that"
        " draw these samples anew; `changed` and `refused` are proportions of the runs.",
    ),
    "by": (
        "_stored.py",
        ["benchmarks/by.json"],
        "python benchmarks/by.py 12 FILE.npz … --record benchmarks/by.json",
        "Change of the NLL on new samples in 1e-3 nats against one temperature for all, mean and standard error over"
        " runs. bound: temperatures that are fitted to the new samples themselves; kept: proportion of runs in which"
        " `--by` kept the groups.",
    ),
    "risk": (
        "_stored.py",
        ["benchmarks/risk.json"],
        "python benchmarks/risk.py 1000 --record benchmarks/risk.json",
        "Proportion of 1000 samples whose 95 % interval holds the true value; of the joint test of intercept 0 and"
        " slope 1 the proportion that is rejected at 5 %; no interval: proportion of the samples without one of the"
        " slope. Units hold 1 to 20 rows. Another link: complementary log-log.",
    ),
    "group_remedy": (
        "_stored.py",
        ["benchmarks/group_remedy.json"],
        "python benchmarks/group_remedy.py 100 --record benchmarks/group_remedy.json",
        "Proportion of 100 samples in which the cross-fitted comparison names `fit --by`, and in which following it"
        " raises the NLL of 20,000 new samples against one map for all; mean change of that NLL in 1e-3 nats where it"
        " is named. Groups of uneven sizes; log slopes and offsets of groups with standard deviation .15 (a little) or"
        " .4. Units hold 1 to 20 rows of a group and share half of their luck.",
    ),
    "by_mcgrad": (
        "_stored.py",
        ["benchmarks/by_mcgrad.json"],
        "python benchmarks/by.py 4 FILE.npz … --mcgrad PYTHON --record benchmarks/by_mcgrad.json",
        "The same of two classes, the confidence and whether the prediction is right, against one Platt scaling for"
        " all, beside MCGrad with its own settings.",
    ),
}
"""Stored run -> the script that prints it, with which words, how it is made, and what it shows."""

LAWS = {
    law: " ".join(words.split())
    for law, words in re.findall(
        r"^(\w+) : (.+?)\.?$(?=\n\w+ :|\n*\Z)",
        inspect.getdoc(Laws) or "",
        re.DOTALL | re.MULTILINE,
    )
    if law != "memory"
}
"""What each law promises, from its own docstring."""
MEMORY = {
    "stream": "constant, whatever the number of rows",
    "row": "some numbers per row",
    "array": "the whole array of scores",
}
REPORTS = {
    "default": "in every report",
    "two classes": "in the report of two classes",
    "ordered levels": "in the report of ordered classes",
    "full": "with `--full` or `--metric`",
    None: "with `--metric` only",
}


def shown(own: Metric) -> str:
    """Which reports a metric is in."""
    return (
        REPORTS[own.report]
        if own.in_table
        else "in `--json` and `--format` of every report, not in its text"
    )


def write(folder: Path) -> None:
    """Write every page below ``folder``, which holds nothing else."""
    pages = {
        **{f"methods/{name}.md": method_page(name) for name in method_names()},
        **{f"metrics/{name}.md": metric_page(name) for name in metric_names()},
        **{f"commands/{name}.md": command_page(name) for name in COMMANDS},
        "methods.md": methods_table(),
        "metrics.md": metrics_table(),
        "commands.md": commands_table(),
        "exit_codes.md": exit_codes_table(),
        "formats.md": formats_table(),
        "exports.md": exports_table(),
        "python.md": python_api(),
        "glossary.md": glossary(),
        "levels.md": levels(),
        "schemas.md": schemas(),
        **{f"benchmark_{name}.md": benchmark(name) for name in BENCHMARKS},
    }
    for room in ("methods", "metrics", "commands"):
        shutil.rmtree(
            folder / room, ignore_errors=True
        )  # a method that is gone leaves no page behind
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# ---- text


def escaped(text: str) -> str:
    """Plain text as Markdown that shows it unchanged; what stands in backticks stays code."""
    parts = re.split(r"(``.+?``|`[^`]+`)", text)
    return "".join(
        p if i % 2 else re.sub(r"([\\*_<>\[\]{}$#|~])", r"\\\1", p)
        for i, p in enumerate(parts)
    )


PARAMETER = r"[a-z_]\w*(?:, [a-z_]\w*)* : "
"""Names with which a description of parameters begins."""


def parameters(paragraph: str) -> Iterator[str]:
    """Parameters that follow each other in a paragraph, as a list."""
    for each in re.split(rf"(?<=[.)]) (?={PARAMETER})", paragraph):
        names, _, words = each.partition(" : ")
        yield f"- `{names}`: {escaped(words)}"
    yield ""


def prose(text: str) -> Iterator[str]:
    """A docstring as Markdown: paragraphs; what is indented or a session stays as it is."""
    for paragraph in filter(str.strip, re.split(r"\n\s*\n", text.strip("\n"))):
        lines = paragraph.splitlines()
        if lines[0].startswith(">>>"):
            yield from ["```python", *lines, "```", ""]
        elif any(line.startswith("  ") for line in lines):
            yield from ["```text", *textwrap.dedent(paragraph).splitlines(), "```", ""]
        else:
            joined = " ".join(line.strip() for line in lines)
            if re.match(PARAMETER, joined):
                yield from parameters(joined)
                continue
            head, found, rest = joined.partition("Reference: ")
            marked = (
                f"**Reference.** {escaped(rest)}"
                if found and not head
                else escaped(joined)
            )
            yield from [
                re.sub(r"^(\d+)([.)])", r"\1\\\2", re.sub(r"^([-+])", r"\\\1", marked)),
                "",
            ]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A Markdown table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return [
        f"| {' | '.join(str(cell).replace(chr(10), ' ') for cell in row)} |"
        for row in lines
    ] + [""]


def code(text: object) -> str:
    """A code span, also inside a table."""
    return f"`{str(text).replace('|', chr(92) + '|')}`" if str(text) else ""


def toctree(entries: Iterable[str]) -> list[str]:
    """A table of contents that only the sidebar shows."""
    return ["```{toctree}", ":hidden:", *entries, "```", ""]


# ---- methods and metrics


def method_page(name: str) -> str:
    """One method: what it does, its formula, options, laws and reference."""
    facts = describe(name)
    lines = [f"# {name}: {escaped(facts.title)}", ""]
    lines += ["```console", f"$ calcli fit --method {name} logits.h5", "```", ""]
    if facts.use:
        lines += [f"*When to use it:* {escaped(facts.use)}.", ""]
    if facts.aliases:
        lines += [f"*Also called* {', '.join(map(code, facts.aliases))}.", ""]
    lines += [
        *formula("methods", name),
        *prose(facts.description),
        *fitted(name),
        "## Options",
        "",
    ]
    if facts.options:
        lines += table(
            ["`--set`", "default", "allowed", "meaning"],
            [
                [
                    code(o.name),
                    code(spelt(o.default)),
                    spaced(o.allowed),
                    escaped(o.description),
                ]
                for o in facts.options
            ],
        )
    else:
        lines += ["None.", ""]
    lines += [
        "## What it promises",
        "",
        *(f"- {escaped(words)}" for law, words in LAWS.items() if getattr(facts, law)),
    ]
    return "\n".join([*lines, f"- memory: {MEMORY[facts.memory]}", ""])


def spaced(choices: str) -> str:
    """Choices with room to break a line between them."""
    return escaped(choices.replace("|", " | "))


def spelt(value: Any) -> str:
    """A default as it is typed."""
    return (
        str(value).lower()
        if isinstance(value, bool)
        else "none"
        if value is None
        else str(value)
    )


def methods_table() -> str:
    """All methods, what to try first at the top."""
    names = sorted(method_names(), key=lambda name: method(name).list_order)
    rows = []
    for name in names:
        facts = describe(name)
        rows.append(
            [
                f"[{name}](generated/methods/{name}.md)",
                escaped(facts.title),
                preserving(facts),
                escaped(facts.use),
            ]
        )
    return "\n".join(
        [
            *table(["method", "name", "accuracy-preserving", "when to use it"], rows),
            *toctree(f"generated/methods/{name}" for name in names),
        ]
    )


def formula(kind: str, name: str) -> list[str]:
    """The formula of a method or metric, and where its letters are said.

    Nothing where there is none yet: the tests ask for it.
    """
    if name not in FORMULAS[kind]:
        return []
    parts = FORMULAS[kind][name].split(
        r", \qquad "
    )  # one below the other: telephones are narrow
    lines = [line for part in parts for line in ("$$", part, "$$", "")]
    return [*lines, f"[The letters of the formulas](../../{kind}.md#formulas)", ""]


def metric_page(name: str) -> str:
    """One metric: definition, direction, signature, reference."""
    facts, own = describe_metric(name), metric(name)
    lines = [
        f"# {name}",
        "",
        f"{escaped(facts.summary)}.",
        "",
        *formula("metrics", name),
    ]
    lines += ["```console", f"$ calcli evaluate logits.h5 --metric {name}", "```", ""]
    rows = [
        ["in a line", code(facts.formula)],
        ["direction", facts.direction],
        ["shown", shown(own)],
    ]
    rows += [["also called", ", ".join(map(code, own.aliases))]] if own.aliases else []
    rows += [
        ["signature", code(facts.signature)],
        ["reference", escaped(facts.reference)],
    ]
    lines += table(["", ""], rows)
    near = [
        other
        for other in metric_names()
        if other != name and metric(other).measure.__module__ == own.measure.__module__
    ]
    beside = (
        ["## See also", "", ", ".join(f"[{other}]({other}.md)" for other in near), ""]
        if near
        else []
    )
    return "\n".join([*lines, *worked(name), *beside])


ROWS = (
    """probabilities = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]])
labels = [0, 1, 0]  # predictions 0, 1, 2 with confidences .8, .7, .4: right, right, wrong""",
    """probabilities = np.array([0.8, 0.3, 0.4])  # of class 1
labels = [1, 0, 1]""",
    """probabilities = np.array([[0.6, 0.2, 0.08, 0.06, 0.04, 0.02]] * 2 + [[0.3, 0.4, 0.1, 0.1, 0.06, 0.04]] * 2)
labels = [0, 5, 1, 1]  # two rows of confidence .6: right, wrong; two of .4: both right""",
)
"""Rows of worked examples: three classes, two, and what needs equal confidences or more classes."""


RISKS = """probabilities = np.array([0.2] * 4 + [0.8] * 4)  # of class 1
labels = [0, 0, 1, 1, 0, 1, 1, 1]"""
OF_RISKS = (
    "slope",
    "intercept",
    "oe_ratio",
    "ici",
    "e50",
    "e90",
    "emax",
    "net_benefit",
)
"""Metrics of two classes whose example has two distinct probabilities, and its rows."""

OF_LEVELS = ("rps", "level_bias", "level_error", "within_one")
"""Metrics of classes that are levels from low to high."""


def worked(name: str) -> list[str]:
    """A few rows, the value of the metric on them, and the same by hand."""
    words = ", ordered_levels=True" if name in OF_LEVELS else ""
    given = f'probabilities, labels, kind="probs", metrics=["{name}"]{words}'
    for rows in [RISKS] if name in OF_RISKS else ROWS:
        call = f"calcli.evaluate({given})"
        lines = [
            *rows.splitlines(),
            f"found = {call}",
            f'found.results[0].scores["{metric(name).name}"].value',
        ]
        value = last_value(lines)
        if value is not None and not math.isnan(value):
            by_hand = (
                [f"By hand: `{FORMULAS['by_hand'][name]}`", ""]
                if name in FORMULAS["by_hand"]
                else []
            )
            return [
                "## Worked example",
                "",
                "```python",
                *lines[:-1],
                f"{lines[-1]}  # {value:.6g}",
                "```",
                "",
                *by_hand,
            ]
    raise LookupError(f"{name}: no worked example has a value")


def last_value(lines: Sequence[str]) -> Any:
    """The value of the last of some lines of Python, so that what a page shows is what was computed."""
    known: dict[str, Any] = {"np": np, "calcli": calcli}
    with warnings.catch_warnings(), contextlib.chdir(HERE.parent):
        warnings.simplefilter("ignore")
        exec("\n".join(lines[:-1]), known)
        return eval(lines[-1], known)


LOGITS = """scores = np.array([[4, 0, 0], [6, 2, 0], [2, 0, 0], [4, 2, 0], [0, 4, 2], [0, 6, 0],
                   [2, 4, 0], [0, 2, 0], [0, 0, 4], [2, 0, 6], [0, 2, 4], [2, 0, 4]], dtype=float)
labels = [0, 0, 1, 0, 1, 1, 0, 2, 2, 2, 2, 1]"""
LOG_ODDS = """scores = np.array([-3, -2, -2, -1, -1, -1, 1, 1, 1, 2, 2, 3], dtype=float)  # of class 1
labels = [0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1]"""


def fitted(name: str) -> list[str]:
    """Twelve rows, what is fitted to them, and what becomes of one more."""
    laws, words, row = method(name).laws, "", "np.array([[2.0, 1.0, 0.0]])"
    lines = LOGITS.splitlines()
    if laws.confidence:
        lines, row = LOG_ODDS.splitlines(), "np.array([2.0])"
    if name.endswith("-by"):
        words, row = ', groups=["a"] * 6 + ["b"] * 6', f'{row}, groups=["a"]'
    lines.append(
        f'found = calcli.fit(scores, labels, method="{name}", kind="logits"{words})'
    )
    if laws.needs_transforms:
        lines, row = (
            [f'found = calcli.fit("sample_data/digits.h5:cal", method="{name}")'],
            '"sample_data/digits.h5:test"',
        )
    call = f"found.predict_proba({row})[0]"
    params, after = last_value([*lines, f"(found.params, {call})"])
    shown = str(rounded(params))
    told = [f"found.params  # {shown}"] if len(shown) <= 90 else []
    return [
        "## Worked example",
        "",
        "```python",
        *lines,
        *told,
        f"{call}  # {rounded(after)}",
        "```",
        "",
    ]


def rounded(value: Any) -> Any:
    """Numbers to four digits, arrays as lists."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [rounded(inner) for inner in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def metrics_table() -> str:
    """All metrics."""
    rows = [
        [
            f"[{name}](generated/metrics/{name}.md)",
            escaped(metric(name).title),
            shown(metric(name)),
        ]
        for name in metric_names()
    ]
    return "\n".join(
        table(["metric", "what it measures", "shown"], rows)
        + toctree(f"generated/metrics/{n}" for n in metric_names())
    )


# ---- what the verdict promises


def levels() -> str:
    """What ``benchmarks/levels.py`` has simulated: a table per experiment, every mean with its standard error."""
    record = json.loads(LEVELS.read_text(encoding="utf-8"))
    lines: list[str] = []
    for experiment in dict.fromkeys(entry["experiment"] for entry in record):
        own = [
            entry
            for entry in record
            if entry["experiment"] == experiment and entry["replicates"]
        ]
        cells = list(dict.fromkeys(name for entry in own for name in entry["cell"]))
        means = list(dict.fromkeys(name for entry in own for name in entry["sums"]))
        rows = [
            [
                *(str(entry["cell"].get(name, "")) for name in cells),
                str(entry["replicates"]),
                *(
                    simulated(entry["sums"].get(name), entry["replicates"])
                    for name in means
                ),
            ]
            for entry in own
        ]
        lines += [
            f"**{experiment}**",
            "",
            *table([*cells, "replicates", *means], rows),
            "",
        ]
    return "\n".join(lines)


def simulated(sums: Sequence[float] | None, count: int) -> str:
    """A mean with its standard error, of the sum and the sum of squares."""
    if sums is None:
        return ""
    mean = sums[0] / count
    return f"{mean:.4f} ±{math.sqrt(max(sums[1] / count - mean**2, 0.0) / count):.4f}"


# ---- commands


def help_text(text: str) -> Iterator[str]:
    """Help as Markdown; paragraphs that the help leaves unfilled are commands."""
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield from [
                "```console",
                *(f"$ {line}" for line in paragraph.splitlines()[1:]),
                "```",
                "",
            ]
        else:
            yield from prose(paragraph)


def command_page(name: str) -> str:
    """One command: its help, arguments and options."""
    command = load(name)
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    lines = [f"# calcli {name}", "", *help_text((command.help or "").replace("\f", ""))]
    if arguments:
        lines += ["## Arguments", ""]
        lines += table(
            ["argument", "meaning"],
            [
                [
                    code(p.metavar or (p.name or "").upper()),
                    escaped(getattr(p, "help", "") or ""),
                ]
                for p in arguments
            ],
        )
    lines += ["## Options", ""]
    own = flags(name)
    if own:
        rows = [
            [
                f"{', '.join(map(code, f.names))} {code(f.value)}".strip(),
                escaped(f.help),
            ]
            for f in own
        ]
        lines += table(["option", "meaning"], rows)
    else:
        lines += ["None.", ""]
    return "\n".join([*lines, *help_text(command.epilog or "")])


def commands_table() -> str:
    """All commands."""
    rows = [
        [f"[calcli {name}](generated/commands/{name}.md)", escaped(line)]
        for name, line in COMMANDS.items()
    ]
    return "\n".join(
        [
            *table(["command", "does"], rows),
            *prose(EPILOG),
            *toctree(f"generated/commands/{name}" for name in COMMANDS),
        ]
    )


def exit_codes_table() -> str:
    """The exit codes, and what they mean."""
    rows = []
    for code in EXIT_CODES:
        rows.append([str(code.number), escaped(code.meaning), escaped(code.more)])
    return "\n".join(table(["exit code", "means", "in detail"], rows))


# ---- files, Python, words


def formats_table() -> str:
    """The formats that are read, and a command for every kind of file."""
    kinds = [
        [
            code(f.name),
            ", ".join(map(code, f.suffixes)),
            escaped(f.about),
            code(f.extra) if f.extra else "",
        ]
        for f in sorted(formats(), key=lambda f: f.name)
    ]
    lines = table(["format", "names end in", "what it is", "extra"], kinds)
    lines += ["## From a file to its command", ""]
    return "\n".join(
        lines
        + table(
            ["file", "command"],
            [[code(file), code(line)] for _, file, line in format_commands()],
        )
    )


def exports_table() -> str:
    """How far every export is from ``apply``, as ``make exports`` has measured it on real logits."""
    found = json.loads(EXPORTS.read_text(encoding="utf-8"))
    files = list(dict.fromkeys(line["file"] for line in found))
    head = [
        "method",
        *(
            f"{file}: {target}"
            for file in files
            for target in ("ONNX", "torch", "NumPy")
        ),
    ]
    rows = []
    for name in dict.fromkeys(line["method"] for line in found):
        cells = [
            f"`{name}`" if "+" in name else f"[{name}](generated/methods/{name}.md)"
        ]
        for file in files:
            line = next(
                (
                    line
                    for line in found
                    if (line["file"], line["method"]) == (file, name)
                ),
                {},
            )
            refused = escaped(
                line.get("refused", "not measured")
                .split(";")[0]
                .removeprefix("scores: ")
            )
            cells += [
                f"{line[t]:.1e}" if t in line else refused
                for t in ("onnx", "torch", "python")
            ]
        rows.append(cells)
    tried = max((line.get("rows", 0) for line in found), default=0)
    told = f"Largest difference of a probability to `apply`, on {tried} rows: half of a file, random and extreme ones."
    return "\n".join([told, "", *table(head, rows)])


def python_api() -> str:
    """What ``import calcli`` offers: signatures and docstrings of what is public."""
    lines = []
    for name in calcli.__all__:
        thing = getattr(calcli, name)
        if not callable(thing):
            continue
        lines += [f"## calcli.{name}", ""]
        if inspect.isclass(thing):
            lines += list(prose(inspect.getdoc(thing) or ""))
            members = [(n, m) for n, m in vars(thing).items() if not n.startswith("_")]
            for member, value in members:
                function = (
                    value.fget
                    if isinstance(value, property)
                    else getattr(value, "__func__", value)
                )
                if not callable(function):
                    continue
                lines += [f"### {name}.{member}", ""]
                if not isinstance(value, property):
                    lines += signature(member, function)
                lines += list(prose(inspect.getdoc(function) or ""))
        else:
            lines += [
                *signature(f"calcli.{name}", thing),
                *prose(inspect.getdoc(thing) or ""),
            ]
    return "\n".join(lines)


SHORTER = {
    "collections.abc.": "",
    "typing.": "",
    "calcli.api.calibrators.": "",
    "calcli.api.pictures.": "",
    "calcli.evaluation.results.": "",
    "numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.float64]]": "FloatArray",
    "numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.int64]]": "IntArray",
}
"""Types as Python spells them, and as people do."""


def signature(name: str, function: Any) -> list[str]:
    """A function as it is called, with its types, a parameter a line."""
    given = inspect.signature(function)
    kept = [p for p in given.parameters.values() if p.name != "self"]
    lines, starred = [], False
    for p in kept:
        if p.kind is p.KEYWORD_ONLY and not starred:
            lines, starred = [*lines, "*"], True
        lines.append(str(p))
    back = given.return_annotation
    end = "" if back is given.empty else f" -> {inspect.formatannotation(back)}"
    whole = f"{name}({', '.join(lines)}){end}"
    if len(whole) > 80:
        whole = "\n".join([f"{name}(", *(f"    {line}," for line in lines), f"){end}"])
    for spelt, short in SHORTER.items():
        whole = whole.replace(spelt, short)
    return ["```python", whole, "```", ""]


def glossary() -> str:
    """Terms of evaluations and of the report page."""
    lines = ["## In an evaluation", ""]
    for term, meaning in REPORT.items():
        lines += [escaped(term), f": {escaped(meaning[:1].upper() + meaning[1:])}.", ""]
    lines += ["## On the report page", ""]
    for term in GLOSSARY.values():
        meaning = term.explained(level=0.95, bins=15)
        lines += [escaped(term.word), f": {escaped(meaning)}", ""]
    return "\n".join(lines)


def benchmark(name: str) -> str:
    """The table that a benchmark prints of its stored run."""
    script, words, make, shows = BENCHMARKS[name]
    if not (FOLDER / f"{name}.json").exists():
        return f"No run is stored here. `{make}` makes and stores one.\n"
    command = [sys.executable, str(FOLDER / script), *words]
    done = subprocess.run(
        command, cwd=FOLDER.parent, capture_output=True, text=True, check=True
    )
    return f"{shows}\n\n{done.stdout.strip()}\n\nRun anew: `{make}`.\n"


def schemas() -> str:
    """The JSON Schemas, a line each."""
    rows = []
    for path in sorted(SCHEMAS.glob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        rows.append(
            [
                f"{{download}}`{path.name} <schemas/{path.name}>`",
                escaped(facts["title"]),
            ]
        )
    return "\n".join(table(["schema", "of what"], rows))
