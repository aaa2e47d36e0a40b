"""List the calibration methods, or describe one: options, formula, reference.

\b
calcli methods
calcli methods hb
calcli methods ts --json
"""

from dataclasses import asdict, dataclass
from inspect import getdoc
from typing import Annotated, Any

import typer

from calcli.cli import options as o
from calcli.cli.render import print_json, print_table
from calcli.registry import method, method_names, option_facts

ORDER = 70


@dataclass(frozen=True)
class MethodsArgs:
    """What was typed after ``calcli methods``."""

    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Describe this method.")] = None
    json: o.Json = False


def run(args: MethodsArgs) -> int:
    """Print one line a method, or everything about one."""
    found = [describe(name) for name in ([args.name] if args.name else method_names())]
    if args.json:
        print_json({"calcli_methods": 1, "methods": found})
    elif args.name:
        _print_one(found[0])
    else:
        head = ["method", "keeps predictions", "memory", "what it does"]
        print_table(head, [[m["name"], "yes" if m["keeps_argmax"] else "no", m["memory"], m["summary"]] for m in found])
        print("\nMethods compose with +, left to right, e.g. ts+hb. calcli methods NAME describes one.")
    return 0


def _print_one(facts: dict[str, Any]) -> None:
    print(f"{facts['name']}: {facts['title']}\n\n{facts['description']}\n")
    if facts["options"]:
        print_table(
            ["option (--set)", "default", "allowed", "meaning"],
            [[f["name"], _default(f["default"]), f["allowed"], f["description"]] for f in facts["options"]],
        )
    else:
        print("This method has no options.")


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)


def describe(name: str) -> dict[str, Any]:
    """Everything known about a method, from its class."""
    cls = method(name)
    text = getdoc(cls) or ""
    return {
        "name": name,
        "title": cls.title,
        "summary": text.split("\n", 1)[0],
        "description": text,
        **asdict(cls.laws),
        "options": option_facts(cls.Options),
    }
