"""List the calibration methods, or describe one: options, formula, reference.

\b
calcli methods
calcli methods hb
calcli methods ts --json
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from inspect import getdoc
from typing import Annotated, Any

import typer

from calcli.cli import options as o
from calcli.cli.render import (
    Table,
    print_folded,
    print_line,
    print_made,
    print_sentence,
    reflowed,
)
from calcli.records import JsonObject
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
    """Print the methods, or one of them."""
    names = sorted(method_names(), key=lambda name: method(name).list_order)
    if args.name:
        names = [canonical(args.name)]
    described = [describe(name) for name in names]
    if args.name and args.people:
        _print_one(described[0])
        return 0
    if args.people:
        _print_list(described)
        return 0
    head = ["method", "name", "accuracy-preserving", "when to use it"]
    rows = []
    for facts in described:
        rows.append([facts["name"], facts["title"], preserving(facts), facts["use"]])
    args.print("methods", [Table(head, rows)], described)
    return 0


SHORT_PRESERVING = {"except with two classes": "3+ classes"}
"""Words of ``preserving`` -> those of the list, which has no room for them."""


def _print_list(described: Sequence[Mapping[str, Any]]) -> None:
    """Print the methods, names and uses folded to the width of the output."""
    rows = []
    for facts in described:
        kept = preserving(facts)
        words = facts["title"]
        if facts["use"]:
            words += f". {facts['use'][0].upper()}{facts['use'][1:]}"
        rows.append([facts["name"], SHORT_PRESERVING.get(kept, kept), words])
    print_folded(["method", "preserving", "name. When to use it"], rows)
    print_line()
    print_sentence(
        "preserving: predictions, and so the accuracy, stay as they are; 3+ classes:"
        " unless there are two."
    )
    print_sentence(
        "Methods compose with +, left to right, e.g. ts+hb. calcli methods NAME"
        " describes one."
    )


def _print_one(facts: JsonObject) -> None:
    print_sentence(f"{facts['name']}: {facts['title']}")
    print_made(f"\n{reflowed(facts['description'])}\n\n")
    if facts["aliases"]:
        print_sentence(f"also called: {', '.join(facts['aliases'])}")
    if facts["use"]:
        print_sentence(f"when to use it: {facts['use']}")
    if facts["memory"]:
        print_line(f"memory: {facts['memory']}")
    print_made(f"accuracy-preserving: {preserving(facts)}\n\n")
    if not facts["options"]:
        print_line("This method has no options.")
        return
    rows = []
    for option in facts["options"]:
        default = str(option["default"])
        if default in ("None", "True", "False"):
            default = default.lower()
        meaning = f"{option['description']} ({option['allowed']})"
        rows.append([option["name"], default, meaning])
    print_folded(["option (--set)", "default", "meaning (allowed)"], rows)


def preserving(facts: Mapping[str, Any]) -> str:
    """Accuracy-preserving, in words.

    With two classes, top-label methods move P(class 1) of some rows across 1/2.
    """
    if facts["keeps_argmax"]:
        return "yes"
    if facts["top_label_only"]:
        return "except with two classes"
    return "no"


def describe(name: str) -> JsonObject:
    """Facts about a method, from its class."""
    cls = method(name)
    text = getdoc(cls) or ""
    return {
        "name": name,
        "title": cls.title,
        "summary": text.split("\n", 1)[0],
        "description": text,
        "aliases": list(vars(cls).get("aliases", ())),
        "use": vars(cls).get("use", ""),
        **asdict(cls.laws),
        "options": option_facts(cls.Options),
    }
