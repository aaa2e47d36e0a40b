"""List the calibration methods, or describe one: options, formula, reference.

\b
calcli methods
calcli methods hb
calcli methods ts --json
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from inspect import getdoc
from typing import Annotated, Any

import typer

from calcli.cli import options as o
from calcli.cli.render import Table, print_line, print_made, print_table
from calcli.registry import canonical, method, method_names, option_facts


@dataclass(frozen=True, kw_only=True)
class MethodsArgs(o.TableOptions):
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Describe this method.",
            autocompletion=o.complete_methods,
        ),
    ] = None


def run(args: MethodsArgs) -> int:
    names = (
        [canonical(args.name)]
        if args.name
        else sorted(method_names(), key=lambda name: method(name).list_order)
    )
    found = [describe(name) for name in names]
    if args.name and args.people:
        _print_one(found[0])
        return 0
    head = ["method", "name", "accuracy-preserving", "when to use it"]
    rows = [[m["name"], m["title"], preserving(m), m["use"]] for m in found]
    args.print("methods", [Table(head, rows)], found)
    if args.people:
        print_line(
            "\nMethods compose with +, left to right, e.g. ts+hb. calcli methods NAME describes one."
        )
    return 0


def _print_one(facts: dict[str, Any]) -> None:
    print_made(f"{facts['name']}: {facts['title']}\n\n{facts['description']}\n\n")
    for key, words in (
        ("aliases", "also called"),
        ("use", "when to use it"),
        ("memory", "memory"),
    ):
        if facts[key]:
            value = ", ".join(facts[key]) if key == "aliases" else facts[key]
            print_line(f"{words}: {value}")
    print_made(f"accuracy-preserving: {preserving(facts)}\n\n")
    if facts["options"]:
        spelt = {"None": "none", "True": "true", "False": "false"}
        given = [(f, str(f["default"])) for f in facts["options"]]
        rows = [
            [f["name"], spelt.get(default, default), f["allowed"], f["description"]]
            for f, default in given
        ]
        print_table(["option (--set)", "default", "allowed", "meaning"], rows)
    else:
        print_line("This method has no options.")


def preserving(facts: Mapping[str, Any]) -> str:
    """Accuracy-preserving, in words. With two classes, top-label methods move P(class 1) of some rows across 1/2."""
    kept = facts["keeps_argmax"]
    return (
        "yes"
        if kept
        else "except with two classes"
        if facts["top_label_only"]
        else "no"
    )


def describe(name: str) -> dict[str, Any]:
    """Facts about a method, from its class."""
    cls = method(name)
    text = getdoc(cls) or ""
    facts: dict[str, Any] = {
        "name": name,
        "title": cls.title,
        "summary": text.split("\n", 1)[0],
        "description": text,
    }
    facts |= {
        "aliases": list(vars(cls).get("aliases", ())),
        "use": vars(cls).get("use", ""),
    }
    return {**facts, **asdict(cls.laws), "options": option_facts(cls.Options)}
