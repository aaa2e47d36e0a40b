"""Command line application: its commands, their parsers, and their help."""

import inspect
import os
import shlex
import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from calcli import __version__
from calcli.cli.former_names import with_present_names
from calcli.cli.help_pages import (
    HEADINGS,
    READING_LINE,
    common_options,
)
from calcli.errors import EXIT_CODES, UsageError
from calcli.io.missing import is_address

PACKAGE = "calcli.cli.commands"
MEANINGS = ", ".join(f"{code.number} {code.meaning}" for code in EXIT_CODES)
EPILOG = (
    f"Exit codes: {MEANINGS}. Several files: all are tried, the worst code is returned."
)
COMMANDS = {
    "run": "Fit a calibrator, judge it on other rows, and write an HTML report.",
    "extract": "Make a bundle of saved scores, or by running a model.",
    "fit": "Fit a calibrator to a bundle of scores with labels.",
    "adapt": "Adapt a calibrator to class frequencies that changed (label shift).",
    "apply": "Write calibrated bundles: probabilities, predictions, confidences.",
    "evaluate": "Measure calibration with its uncertainty, and check limits.",
    "threshold": (
        "Find the lowest confidence above which accuracy is at least A,"
        " with a guarantee."
    ),
    "watch": (
        "Watch a deployed calibrator, batch by batch,"
        " with a known rate of false alarms."
    ),
    "compare": "Rank methods by rows that they were not fitted on.",
    "export": "Write a calibrator for a serving stack: ONNX, torch, or a Python file.",
    "diagram": "Draw reliability diagrams with a band under calibration.",
    "report": "Write an HTML report.",
    "inspect": "Show what a file of scores or a calibrator holds, and check all of it.",
    "methods": (
        "List the calibration methods, or describe one: options, formula, reference."
    ),
    "metrics": "List the metrics, or describe one: definition, range, reference.",
    "completion": "Print the completion of commands, options and names for a shell.",
}
"""Command -> what ``calcli --help`` says of it: the first line of its module."""

OUTPUTS = ("output", "junit", "diagram")
"""Field names of options that name a file to write."""

INPUTS = (
    "artifact",
    "bundle",
    "bundles",
    "calibration",
    "calibrator",
    "baseline",
    "baseline_bundle",
    "check",
    "files_from",
    "gold",
    "source",
    "sources",
    "test",
)
"""Field names of options that name an input file, which no output may overwrite.

``-`` stands for standard input.
"""

HOW: dict[str, Any] = {"rich_markup_mode": None}
HOW["context_settings"] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}


@cache
def load(name: str) -> "Command":
    """Import the module of a command and build its parser.

    Typer reads the options from the dataclass that the module's ``run`` takes.
    """
    module = import_module(f"{PACKAGE}.{name}")
    options = get_type_hints(module.run)["args"]
    alone = typer.Typer(add_completion=False, **HOW)
    epilog = getattr(module, "EPILOG", None)
    alone.command(name, cls=Command, help=getdoc(module), epilog=epilog)(options)
    command = typer.main.get_command(alone)
    assert isinstance(command, Command)
    command.work = module.run
    return command


def _option_name(field: str) -> str:
    return f"--{field.strip('_').replace('_', '-')}"


class Command(TyperCommand):
    """Command whose callback builds a struct from the parsed options.

    work : runs the command, given the struct, and returns the exit code. A struct may
    define FOLDERS, true if outputs may be folders, and unused_options, field name ->
    reason for options that have no effect.
    """

    work: Callable[[Any], int]
    shows_all = False

    @property
    def command_name(self) -> str:
        return str(self.name)

    # ---- help

    def parse_args(  # type: ignore[override]
        self, ctx: typer.Context, args: list[str]
    ) -> list[str]:
        """Parse the words, former names of options included; ``--help-all`` prints."""
        words, notes = with_present_names(self.command_name, args)
        for note in notes:
            print(f"calcli: {note}", file=sys.stderr)
        if "--help-all" in words:
            self.shows_all = True
            print(self.get_help(ctx))
            ctx.exit()
        try:
            return super().parse_args(ctx, list(words))
        except Exception as problem:
            # Typer exports no class for it: errors about one option have its name.
            option = getattr(problem, "option_name", None)
            for word in words:
                if word.startswith("-") and os.path.isfile(word):
                    raise UsageError(
                        f"{word} was read as an option; of the file write ./{word}"
                    ) from None
            if option is None or self._has(option):
                raise
            if getattr(problem, "possibilities", None):
                raise  # it says which option was meant
            owners = [name for name in COMMANDS if load(name)._has(option)]
            if not owners:
                raise
            listing = ", ".join(owners[:3])
            if len(owners) > 3:
                listing += f" and {len(owners) - 3} more"
            have = "has it" if len(owners) == 1 else "have it"
            raise UsageError(
                f"{self.command_name} has no option {option} ({listing} {have}); see"
                f" calcli {self.command_name} --help-all"
            ) from None

    def _has(self, option: str) -> bool:
        """True for the name of one of the options."""
        names: list[str] = []
        for parameter in self.params:
            names += [*parameter.opts, *parameter.secondary_opts]
        return option in names

    def format_help_text(  # type: ignore[override]
        self, ctx: typer.Context, formatter: Any
    ) -> None:
        """Write what the command does and examples; all of it with ``--help-all``."""
        short, _, details = (self.help or "").partition("\f")
        parts = [short, details] if self.shows_all else [short]
        for part in parts:
            if part.strip():
                formatter.write_paragraph()
                with formatter.indentation():
                    formatter.write_text(inspect.cleandoc(part))

    def format_options(  # type: ignore[override]
        self, ctx: typer.Context, formatter: Any
    ) -> None:
        """Write the arguments and the options."""
        arguments: list[tuple[str, str]] = []
        options: dict[str, tuple[str, str]] = {}
        headings: dict[str, str] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(record)
            else:
                options[str(parameter.name)] = record
                headings[str(parameter.name)] = (
                    getattr(parameter, "rich_help_panel", None) or "Options"
                )
        options["help"] = ("-h, --help", "Show this page and exit.")
        options["help_all"] = ("--help-all", "Show all options and details, and exit.")
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        if self.shows_all:
            self._write_all_options(options, headings, formatter)
        else:
            self._write_common_options(options, formatter)

    def _write_common_options(
        self, options: dict[str, tuple[str, str]], formatter: Any
    ) -> None:
        """Write the options of the short page, in the order of use."""
        common = common_options(self.command_name)
        shown = [name for name in common if name in options]
        with formatter.section("Options"):
            formatter.write_dl([options[name] for name in (*shown, "help", "help_all")])
        # here, as the list of commands is printed without NumPy, which these need
        from calcli.cli.options import Reading, names_of

        reads_files = any(name in options for name in names_of(Reading))
        if self.command_name != "extract" and reads_files:
            formatter.write_paragraph()
            formatter.write_text(READING_LINE)

    def _write_all_options(
        self,
        options: dict[str, tuple[str, str]],
        headings: dict[str, str],
        formatter: Any,
    ) -> None:
        """Write all options under their headings."""
        listed: dict[str, list[tuple[str, str]]] = {
            heading: [] for heading in ("Options", *HEADINGS)
        }
        for name, record in options.items():
            listed[headings.get(name, "Options")].append(record)
        for heading, records in listed.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(  # type: ignore[override]
        self, ctx: typer.Context, formatter: Any
    ) -> None:
        """Write the closing words on the page of all options only."""
        if self.shows_all:
            super().format_epilog(ctx, formatter)

    # ---- running

    def invoke(self, ctx: typer.Context) -> int:  # type: ignore[override]
        """Run the command.

        Raises UsageError for invalid values, and for options that have no effect here.
        """
        assert self.callback is not None
        values: dict[str, list[Any]] = {}
        for name, value in ctx.params.items():
            values[name] = list(value) if isinstance(value, list | tuple) else [value]
        _check_numbers(values)
        _note_inputs(values)
        args = self.callback(**ctx.params)
        if not getattr(args, "FOLDERS", False):
            _check_outputs(ctx.params)
        self._check_unused(ctx, args)
        return self.work(args)

    def _check_unused(self, ctx: typer.Context, args: Any) -> None:
        """Refuse options that were typed and have no effect."""
        for name, reason in getattr(args, "unused_options", {}).items():
            source = ctx.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                option = next(p.opts[0] for p in self.params if p.name == name)
                raise UsageError(f"{option} has no effect here: {reason}")


def _check_numbers(values: dict[str, list[Any]]) -> None:
    """Refuse numbers that are not finite or too large. Raises UsageError."""
    for name, numbers in values.items():
        for number in numbers:
            is_number = isinstance(number, float | int)
            # NaN is not smaller than anything.
            if is_number and not abs(number) < 2**64:
                raise UsageError(
                    f"{_option_name(name)} {str(number)[:30]}: expected a finite number"
                    " below 2^64"
                )


def _note_inputs(values: dict[str, list[Any]]) -> None:
    """Note the input files, over which no output may be written. Raises UsageError."""
    inputs: list[str] = []
    for name in INPUTS:
        given = values.get(name, ())
        inputs += [str(value) for value in given if value is not None]
    if inputs.count("-") > 1:
        raise UsageError("standard input can be read once: only one name may be -")
    for name in inputs:
        if is_address(name):
            raise UsageError(
                f"{name}: is a web address, expected a file; download it first"
            )
    if inputs:
        # It imports h5py, which not every command needs.
        from calcli.io.locate import note_bundles

        note_bundles(inputs)


def _check_outputs(params: dict[str, Any]) -> None:
    """Refuse a folder as the name of an output. Raises UsageError."""
    for name in OUTPUTS:
        output = str(params.get(name) or "")
        if output.endswith(("/", os.sep)):
            raise UsageError(f"{output}: names a folder, expected a file to write")


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
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        return load(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, Any, list[str]]:
        """Find the command of the first word; ``help COMMAND`` shows its help."""
        name = args[0]
        if name == "help":
            if len(args) == 1:
                print(self.get_help(ctx))
                ctx.exit()
            return self.resolve_command(ctx, [*args[1:], "--help"])
        if name not in COMMANDS and not name.startswith("-"):
            ctx.fail(_unknown_command(name))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _unknown_command(name: str) -> str:
    """Say that a word is no command, and what may have been meant."""
    if Path(name).exists():
        return f"{name}: is a file, expected a command: calcli run {shlex.quote(name)}"
    near = [command for command, words in OTHER_WORDS.items() if name in words]
    near = near or get_close_matches(name, COMMANDS)
    hint = f" did you mean {' or '.join(near)}?" if near else ""
    return f"no command is named {name!r};{hint} commands: {', '.join(COMMANDS)}"


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
    calcli run val.npz test.npz -o calibration/
    calcli fit val.npz
    calcli evaluate test.npz --calibrator val.auto.json
    calcli apply val.auto.json new.npz -o calibrated.npz
    """
