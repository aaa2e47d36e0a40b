"""Show what a file of scores or a calibrator holds, and check all of it.

Every file that calcli evaluate reads is described: what was read as what, sizes, classes,
and what is odd.

\b
calcli inspect scores.npz
calcli inspect logits.auto.json

\f
\b
calcli inspect logits.h5:test --json
"""

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer

from calcli.cli import options as o
from calcli.cli.render import plain, print_json, print_line, print_table
from calcli.errors import CalcliError, DataError
from calcli.importers.formats import open_table
from calcli.importers.looks import looks_like
from calcli.importers.names import parse_name, real_names
from calcli.importers.open_any_file import expand, importing_once, open_rows
from calcli.importers.source_file import SourceFile
from calcli.importers.sources import settle_sources
from calcli.importers.table import unite
from calcli.io.artifact import encode_params, load
from calcli.io.bundle import BundleRows
from calcli.io.locate import split_where
from calcli.io.question_artifact import QuestionsArtifact, read_questions
from calcli.io.validate import doubts
from calcli.records import cached_property

LONGEST_WORD = 200  # characters of a text without a blank that are printed in full; longer ones are base64


@dataclass(frozen=True, kw_only=True)
class InspectArgs(o.Reading):
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="File of scores (FILE or FILE:GROUP) or artifact (JSON), - for stdin.",
        ),
    ]
    json: o.Json = False

    @cached_property
    def artifact(self) -> bool:
        """True if the file begins as JSON that calcli has written, so that it is read as an artifact."""
        if split_where(self.file)[1] is not None:
            return False
        with (
            suppress(DataError),
            ExitStack() as stack,
        ):  # its reader reports what is wrong with it
            source = SourceFile(settle_sources([Path(self.file)], stack).files[0])
            return source.is_json and b'"calcli_' in source.head
        return False

    @property
    def unused_options(self) -> dict[str, str]:
        why = f"{self.file} is read as an artifact, it says how bundles are read"
        return o.unused((self.artifact, " ".join(o.names_of(o.Reading)), why))


def run(args: InspectArgs) -> int:
    try:
        content = _artifact(args.file) if args.artifact else _bundles(args)
    except CalcliError as problem:
        if args.artifact or "; it has " not in str(problem):
            raise
        if not args.json:
            _list_arrays(split_where(args.file)[0])
        then = [("calcli", "inspect", words[-1]) for words in problem.commands[-1:]]
        raise problem.advising(*problem.commands, *then) from None
    if args.json:
        print_json(content)
        return 0
    for note in content.get("notes", ()):
        print_line(note)
    for facts in content.get("bundles", [content.get("artifact")]):
        _print_facts(facts)
    return 0


def _artifact(file: str) -> dict[str, Any]:
    by_question = read_questions(file)
    if by_question is not None:
        return {
            "calcli_inspect": 1,
            "file": file,
            "artifact": _facts_by_question(by_question),
        }
    with ExitStack() as stack:  # keeps standard input, whose beginning was read before
        settled = settle_sources([Path(file)], stack)
        try:
            artifact = load(str(settled.files[0]))
        except DataError as problem:
            raise DataError(settled.translated(str(problem))) from None
    params = encode_params(artifact.calibrator)
    for name, value in params.items():  # describe long ones
        if isinstance(value, dict) and "base64" in value:
            params[name] = f"{value['dtype']} {tuple(value['shape'])}"
        elif isinstance(value, list) and len(str(value)) > 200:
            params[name] = f"list of {len(value)}"
    facts: dict[str, Any] = {
        "method": artifact.method,
        "options": artifact.options,
        "params": params,
    }
    facts["n_classes"] = (
        artifact.n_classes if artifact.input_kind != "confidence" else None
    )
    facts |= {
        name: getattr(artifact, name)
        for name in ("input_kind", "class_names", "calcli_version")
    }
    facts["fit"] = msgspec.to_builtins(artifact.fit)
    return {"calcli_inspect": 1, "file": file, "artifact": facts}


def _facts_by_question(artifact: QuestionsArtifact) -> dict[str, Any]:
    """What a calibrator by question holds: a line for each question."""
    questions = {}
    for name, entry in artifact.questions.items():
        questions[name] = {
            "type": entry.type,
            "method": entry.method,
            "params": entry.params,
            "n_classes": entry.n_classes,
            "confidence": entry.confidence,
            "n": entry.fit.n,
        }
    return {
        "method": artifact.method,
        "questions": questions,
        "calcli_version": artifact.calcli_version,
        "sha256": artifact.answers.sha256,
        "fit": msgspec.to_builtins(artifact.fit),
    }


def _bundles(args: InspectArgs) -> dict[str, Any]:
    path, group = split_where(args.file)
    found, notes = [], list[str]()
    with importing_once():
        whole = group is None and args.scores is None
        for name in expand(
            f"{path}:*" if whole else args.file, args.where, args.ignored
        ):
            with open_rows(
                name, tell=notes.append, need_labels=False, **args.opening
            ) as rows:
                found.append(_facts(rows))
    return {
        "calcli_inspect": 1,
        "file": args.file,
        **({"notes": notes} if notes else {}),
        "bundles": found,
    }


def _list_arrays(path: Path) -> None:
    """Print the arrays of a file that cannot be read as a bundle without more options."""
    table = []
    with suppress(CalcliError), ExitStack() as stack:
        entries = unite(
            [open_table(file, stack) for file in settle_sources([path], stack).files]
        )
        for name in real_names([*map(parse_name, entries)]):
            array, look = entries[name].load(), looks_like(name, entries[name])
            shape = " x ".join(map(str, getattr(array, "shape", ()))) or "1"
            table.append(
                [
                    plain(name),
                    shape,
                    str(getattr(array, "dtype", "")),
                    f"{look}?" if look else "",
                ]
            )
    print_table(["array", "shape", "type", "looks like"], table)


def _facts(rows: BundleRows) -> dict[str, Any]:
    low, high, ties, sure, confidences = (
        np.inf,
        -np.inf,
        0,
        0,
        rows.kind == "confidence",
    )
    for block in rows.blocks():
        low, high = (
            min(low, float(block.scores.min())),
            max(high, float(block.scores.max())),
        )
        if confidences:
            sure += int((block.scores == 1).sum())
        else:
            z = block.z
            ties += int(((z == z.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum())
            sure += (
                int((block.scores.max(axis=1) >= 1).sum())
                if rows.kind == "probs"
                else 0
            )
    for transform in range(len(rows.transforms)):
        for _ in rows.blocks([transform]):
            pass
    facts: dict[str, Any] = {"bundle": rows.name, "kind": rows.kind, "n": rows.n}
    facts |= {
        "n_classes": None if confidences else rows.k,
        "dtype": str(rows.dtype),
        "ignored": rows.ignored,
    }
    facts |= {"min": low, "max": high, "tied_rows": ties}
    facts |= {
        "labels": rows.has_labels,
        "weights": rows.given_weights is not None,
        "class_names": rows.class_names,
    }
    facts |= {"transforms": list(rows.transforms), "data_sha256": rows.data_sha256}
    facts |= {
        "calibrated_by": [msgspec.to_builtins(link) for link in rows.upstream],
        "source": rows.source,
    }
    facts |= {"corrupted_labels": rows.corrupted_labels, "warnings": []}
    if rows.ordered:
        facts["ordered"] = True
    for role in ("unit", "group"):
        if (values := rows.column(role)) is not None:
            count = np.unique(values, return_counts=True)[1]
            facts[f"{role}s"] = {
                "name": rows.own_name(role),
                "n": len(count),
                "largest": int(count.max()),
            }
    if confidences:
        facts["correct"] = facts.pop("labels")
        for absent in ("tied_rows", "class_names", "transforms"):
            del facts[absent]
        facts["mean_confidence"] = float(rows.array().mean(dtype=np.float64))
        if rows.has_labels:
            facts["accuracy"] = float(rows.labels().mean())
        told = (
            f"{sure} confidences are 1, which have no log-odds: venn-abers takes them"
        )
    else:
        if rows.has_labels:
            counts = np.bincount(rows.labels(), minlength=rows.k)
            ends = {
                "min": int(counts.min()),
                "median": float(np.median(counts)),
                "max": int(counts.max()),
            }
            facts["rows_per_class"], facts["absent_classes"] = (
                ends,
                np.flatnonzero(counts == 0).tolist(),
            )
        facts["warnings"] += doubts(rows)
        told = f"{sure} rows give their class probability 1: rounding has removed information"
    facts["warnings"] += [told] * bool(sure)
    return facts


def _print_facts(facts: dict[str, Any], indent: str = "") -> None:
    width = max((len(plain(name)) for name in facts), default=0)
    for name, value in facts.items():
        if isinstance(value, dict) and any(
            isinstance(v, dict | list) for v in value.values()
        ):
            print_line(f"{indent}{name}:")
            _print_facts(value, indent + "  ")
        elif (
            isinstance(value, list)
            and len(value) > 1
            and all(isinstance(row, dict) for row in value)
        ):
            print_line(f"{indent}{name}:")
            head = list(dict.fromkeys(key for row in value for key in row))
            body = [[_words(row.get(key)) for key in head] for row in value]
            print_table([key.replace("_", " ") for key in head], body)
        elif name == "warnings":
            for warning in value:
                print_line(f"{indent}warning: {warning}")
        else:
            shown = plain(name).replace("_", " ").ljust(width)
            print_line(f"{indent}{shown}  {_words(value)}")


def _words(value: Any) -> str:
    """Format a value for people: numbers in six digits, long lists and texts without a blank cut."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return (
            ", ".join(
                f"{name.replace('_', ' ')} {_words(v)}" for name, v in value.items()
            )
            or "none"
        )
    if isinstance(value, list):
        shown = ", ".join(map(_words, value[:12]))
        return f"{shown}, … ({len(value)})" if len(value) > 12 else shown or "none"
    text = str(value)
    return (
        f"{text[:24]}… ({len(text)} characters)"
        if len(text) > LONGEST_WORD and " " not in text
        else text
    )
