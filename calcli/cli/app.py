"""Command line application: find the commands, load the one that is asked for, and group its options in the help."""

import dataclasses
import inspect
import os
import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from inspect import getdoc
from pkgutil import get_data, iter_modules
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from calcli import __version__
from calcli.errors import UsageError, has_file

PACKAGE = "calcli.cli.commands"
EPILOG = (
    "Exit codes: 0 ok, 1 internal error, 2 usage, 3 bad input file or artifact, 4 fit failed,"
    " 5 a limit was crossed, 130 interrupted. Several files: all are tried, the worst code is returned."
)
OUTPUTS = ("output", "junit", "diagram")  # options that name a file to write

INPUTS = (
    "artifact bundle bundles calibration calibrator baseline baseline_bundle check"
    " files_from gold source sources test"
)
"""Options that name an input file (- for standard input), which no output may overwrite."""

HEADINGS = {
    "Input": "scores all_scores labels no_labels kind percent gold join files_from pool external"
    " group confidence correct per_label class_names classes",
    "Columns": "ids unit group_by ordered sample_weight",
    "Rows": "ignore_label drop_duplicates drop_missing",
    "Split": "stratify",
    "Language models": "normalize choices filter reduce",
    "Running a model": "model inputs weights layout scale resize grey transform transforms mean std batch device dtype",
    "Metrics": "metric bins norm scheme label threshold compat level resamples interval",
    "Limits": "max_ min_ junit",
    "Output": "output form force json jsonl quiet value_only signature explain full",
    "Workers": "workers cluster",
}
"""Heading in the help -> field names of its options; all other options are listed first, under Options."""

OWN = {
    "apply": {"threshold": ""},
    "diagram": {"layout": "", "label": "", "bins": "", "scheme": "", "level": ""},
    "extract": {"split": "Split", "seed": "Split", "ordered": "Split"},
    "fit": {"device": ""},
    "threshold": {"confidence": ""},
}
"""Command -> {field name of an option: its heading there, instead of that in HEADINGS; "" for Options}."""

HOW: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}
HOW["context_settings"] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}


@cache
def summaries() -> dict[str, str]:
    """Command -> summary, in the order of the help; read from the files without importing them."""
    found = []
    for module in iter_modules(import_module(PACKAGE).__path__):
        text = (get_data(PACKAGE, f"{module.name}.py") or b"").decode()
        summary, order = (
            re.match(r'"""(.+)\n', text),
            re.search(r"^ORDER = (\d+)$", text, re.MULTILINE),
        )
        if summary is None or order is None:
            raise TypeError(f"{PACKAGE}.{module.name} lacks its docstring or its ORDER")
        found.append(
            (
                int(order[1]),
                module.name.replace("_", "-"),
                summary[1].removesuffix('"""'),
            )
        )
    return {name: line for _, name, line in sorted(found)}


@cache
def load(name: str) -> TyperCommand:
    """Import the module of a command and build its parser."""
    module = import_module(f"{PACKAGE}.{name.replace('-', '_')}")
    alone = typer.Typer(**HOW)
    struct = get_type_hints(module.run)["args"]

    def made(**typed: Any) -> Any:
        return struct(**typed)

    made.__signature__ = inspect.Signature(_parameters(struct))  # type: ignore[attr-defined]
    alone.command(
        name, cls=Command, help=getdoc(module), epilog=getattr(module, "EPILOG", None)
    )(made)
    command = typer.main.get_command(alone)
    assert isinstance(command, Command)
    command.work, command.struct = module.run, struct
    return command


def _parameters(struct: type) -> list[inspect.Parameter]:
    """Convert the fields of a struct to parameters for typer (see ``calcli.options``), keyword-only fields last."""
    hints, parameters = get_type_hints(struct), []
    for each in sorted(dataclasses.fields(struct), key=lambda each: bool(each.kw_only)):
        kind, default = hints[each.name], each.default
        if "argument" in each.metadata:
            option: Any = typer.Argument(**each.metadata["argument"])
        else:
            told = each.metadata["flag"]
            kind, default = (told["typed"], None) if told["typed"] else (kind, default)
            names = list(told["names"])
            if not any(name.startswith("--") for name in names):
                names.insert(0, _spelt(each.name))
            about: Any = {
                "help": told["help"],
                "metavar": told["metavar"],
                **told["bounds"],
            }
            option = typer.Option(*names, show_default=told["shown"], **about)
        default = inspect.Parameter.empty if default is dataclasses.MISSING else default
        keyword, annotation = inspect.Parameter.KEYWORD_ONLY, Annotated[kind, option]
        parameters.append(
            inspect.Parameter(
                each.name, keyword, default=default, annotation=annotation
            )
        )
    return parameters


def _spelt(field: str) -> str:
    return f"--{field.strip('_').replace('_', '-')}"


class Command(TyperCommand):
    """Command whose callback builds a struct from the parsed options. work : runs the command, given the struct, and
    returns the exit code. A struct may define FOLDERS, true if outputs may be folders, and unused_options, field name
    -> reason for options that have no effect."""

    work: Callable[[Any], int]
    struct: type

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the arguments, then the options under their headings; the command's own come first."""
        listed: dict[str, list[tuple[str, str]]] = {
            name: [] for name in ("Arguments", "Options", *HEADINGS)
        }
        own_heading = {
            name: heading
            for heading, names in HEADINGS.items()
            for name in names.split()
        }
        own_heading |= OWN.get(str(self.name), {})
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            own = (
                "Arguments"
                if param.param_type_name == "argument"
                else own_heading.get(str(param.name))
            )
            if record is not None:
                listed[own or "Options"].append(record)
        for heading, records in listed.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def make_parser(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Build the parser, which also accepts former names of options."""
        parser = super().make_parser(ctx)
        for told in (
            each.metadata.get("flag", {}) for each in dataclasses.fields(self.struct)
        ):
            if told.get("formerly"):
                parser._long_opt.setdefault(
                    told["formerly"], parser._long_opt[told["names"][0]]
                )
        return parser

    def invoke(self, ctx: typer.Context) -> int:  # type: ignore[override]
        """Run the command. Raises UsageError for invalid values, and for options that have no effect in this call."""
        assert self.callback is not None
        typed = {
            name: value if isinstance(value, list | tuple) else [value]
            for name, value in ctx.params.items()
        }
        for name, values in typed.items():
            for number in values:
                if (
                    isinstance(number, float | int) and not abs(number) < 2**64
                ):  # NaN is not smaller either
                    raise UsageError(
                        f"{_spelt(name)} {str(number)[:30]}: expected a finite number below 2^64"
                    )
        inputs = [
            str(value)
            for name in INPUTS.split()
            for value in typed.get(name, ())
            if value is not None
        ]
        if inputs.count("-") > 1:
            raise UsageError("standard input can be read once: only one name may be -")
        if inputs:
            from calcli.io.locate import (
                note_bundles,
            )  # with h5py, which not every command needs

            note_bundles(inputs)  # no output may lie over them
        args = self.callback(**ctx.params)
        for name in () if getattr(args, "FOLDERS", False) else OUTPUTS:
            if str(ctx.params.get(name) or "").endswith(("/", os.sep)):
                raise UsageError(
                    f"{ctx.params[name]}: names a folder, expected a file to write"
                )
        for name, why in getattr(args, "unused_options", {}).items():
            source = ctx.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                option = next(p.opts[0] for p in self.params if p.name == name)
                raise UsageError(f"{option} has no effect here: {why}")
        return self.work(args)


OTHER_WORDS = {
    "apply": ("calibrate", "predict", "transform"),
    "diagram": ("draw", "figure", "plot", "show"),
    "evaluate": ("measure", "metric", "score", "test"),
    "extract": ("convert", "import", "load", "read", "split"),
    "fit": ("learn", "train"),
    "inspect": ("describe", "info", "view"),
    "watch": ("drift", "monitor"),
}
"""Command -> other words that users type for it, suggested after an unknown command."""


class Commands(TyperGroup):
    """Command group that imports a command when it is run, not to list it."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(summaries())

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        return load(cmd_name) if has_file(PACKAGE, cmd_name) else None

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, Any, list[str]]:
        name = args[0]
        if not has_file(PACKAGE, name) and not name.startswith("-"):
            near = [
                own for own, words in OTHER_WORDS.items() if name in words
            ] or get_close_matches(name, summaries())
            hint = f" did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(
                f"no command is named {name!r};{hint} commands: {', '.join(summaries())}"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(summaries().items()))


def _version(asked: bool) -> None:
    if asked:
        print(f"calcli {__version__}")
        raise typer.Exit


app = typer.Typer(name="calcli", cls=Commands, **HOW)
VERSION = typer.Option(
    "--version", callback=_version, is_eager=True, help="Print the version and exit."
)
DEBUG = typer.Option("--debug", help="Show tracebacks (allowed anywhere).")


@app.callback(epilog=EPILOG)
def calcli(
    version: Annotated[bool, VERSION] = False, debug: Annotated[bool, DEBUG] = False
) -> None:
    """Post-hoc confidence calibration of classifiers on saved logit files.

    \b
    calcli extract scores.npz -o logits.h5 --split cal=0.5 --split test=0.5
    calcli fit --method ts logits.h5
    calcli apply logits.ts.json logits.h5:test -o calibrated.h5
    calcli evaluate logits.h5 --calibrator logits.ts.json
    calcli diagram logits.h5 --calibrator logits.ts.json -o reliability.png
    """
