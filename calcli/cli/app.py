"""The command line: one module per command. Parse, call, render; no arithmetic.

Modules here import only the standard library and typer at their top: what a command
needs is imported when it runs.
"""

from importlib import import_module
from typing import Annotated

import typer

app = typer.Typer(
    name="calcli",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(asked: bool) -> None:
    if asked:
        from calcli import __version__

        print(f"calcli {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 ok, 1 internal error, 2 usage, 3 bad input file or artifact, 4 fit failed,"
    " 5 a limit was crossed, 130 interrupted. Several files: all are tried, the worst code is returned."
)
def calcli(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (allowed anywhere).")] = False,
) -> None:
    """Post-hoc confidence calibration of classifiers on saved logit files.

    \b
    calcli extract scores.npz -o logits.h5 --split cal=0.5 --split test=0.5
    calcli fit --method ts logits.h5
    calcli apply logits.ts.json logits.h5:test -o calibrated.h5
    calcli evaluate logits.h5 --calibrator logits.ts.json
    calcli diagram logits.h5 --calibrator logits.ts.json -o reliability.png
    """


ORDER = ("extract", "fit", "apply", "evaluate", "diagram", "inspect", "catalog")
"""Modules of this package, in the order of the help; each has ``register(app)``."""

for _name in ORDER:
    import_module(f"calcli.cli.{_name}").register(app)
