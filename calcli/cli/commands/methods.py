"""List the calibration methods, or describe one: options, formula, reference.

\b
calcli methods
calcli methods hb
calcli methods ts --json
"""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import getdoc
from typing import Annotated, Any, Literal

import msgspec
import typer

from calcli.calibrator import Memory, Options
from calcli.cli import options as o
from calcli.cli.render import (
    Table,
    print_folded,
    print_line,
    print_made,
    print_sentence,
    reflowed,
)
from calcli.output import Output
from calcli.registry import allowed_text, canonical, method, method_names


class OptionOutput(Output, kw_only=True):
    """An option of a method."""

    name: str
    default: Any
    allowed: str
    description: str


class MethodOutput(Output, kw_only=True):
    """A method: its names, its laws (see ``Laws``), its options."""

    name: str
    title: str
    summary: str
    description: str
    aliases: list[str]
    use: str
    keeps_argmax: bool
    monotone: bool
    shift_invariant: bool
    equivariant: bool
    improves_nll: bool
    confidence: bool
    top_label_only: bool
    weights: bool
    class_shares: bool
    memory: Memory
    needs_transforms: bool
    restores_argmax: bool
    options: list[OptionOutput]


class MethodsOutput(Output, kw_only=True):
    """The JSON of ``calcli methods``."""

    calcli_methods: Literal[1]
    methods: list[MethodOutput]


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
        rows.append([facts.name, facts.title, preserving(facts), facts.use])
    lines = [facts.to_dict() for facts in described]
    whole = MethodsOutput(calcli_methods=1, methods=described)
    args.print("methods", [Table(head, rows)], lines, whole.to_dict())
    return 0


SHORT_PRESERVING = {"except with two classes": "3+ classes"}
"""Words of ``preserving`` -> those of the list, which has no room for them."""


def _print_list(described: Sequence[MethodOutput]) -> None:
    """Print the methods, names and uses folded to the width of the output."""
    rows = []
    for facts in described:
        kept = preserving(facts)
        words = facts.title
        if facts.use:
            words += f". {facts.use[0].upper()}{facts.use[1:]}"
        rows.append([facts.name, SHORT_PRESERVING.get(kept, kept), words])
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


def _print_one(facts: MethodOutput) -> None:
    print_sentence(f"{facts.name}: {facts.title}")
    print_made(f"\n{reflowed(facts.description)}\n\n")
    if facts.aliases:
        print_sentence(f"also called: {', '.join(facts.aliases)}")
    if facts.use:
        print_sentence(f"when to use it: {facts.use}")
    print_line(f"memory: {facts.memory}")
    print_made(f"accuracy-preserving: {preserving(facts)}\n\n")
    if not facts.options:
        print_line("This method has no options.")
        return
    rows = []
    for option in facts.options:
        default = str(option.default)
        if default in ("None", "True", "False"):
            default = default.lower()
        meaning = f"{option.description} ({option.allowed})"
        rows.append([option.name, default, meaning])
    print_folded(["option (--set)", "default", "meaning (allowed)"], rows)


def preserving(facts: MethodOutput) -> str:
    """Accuracy-preserving, in words.

    With two classes, top-label methods move P(class 1) of some rows across 1/2.
    """
    if facts.keeps_argmax:
        return "yes"
    if facts.top_label_only:
        return "except with two classes"
    return "no"


def describe(name: str) -> MethodOutput:
    """Facts about a method, from its class."""
    cls = method(name)
    text = getdoc(cls) or ""
    return MethodOutput.of(
        cls.laws,
        name=name,
        title=cls.title,
        summary=text.split("\n", 1)[0],
        description=text,
        aliases=list(vars(cls).get("aliases", ())),
        use=vars(cls).get("use", ""),
        options=_options_of(cls.Options),
    )


def _options_of(struct: type[Options]) -> list[OptionOutput]:
    """Options of a method, from the schema of their struct."""
    schema = msgspec.json.schema(struct)["$defs"][struct.__name__]
    options = []
    for name, facts in schema["properties"].items():
        option = OptionOutput(
            name=name,
            default=facts.get("default"),
            allowed=allowed_text(facts),
            description=facts.get("description", ""),
        )
        options.append(option)
    return options
