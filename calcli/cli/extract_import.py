"""The options of calcli extract that say how files of others are read."""

from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What to make of arrays whose meaning their names do not tell."""

    class_names: Annotated[
        str | None,
        typer.Option("--class-names", metavar="A,B,…", help="Names of the classes, in the order of the scores."),
    ] = None
    views: Annotated[
        str | None,
        typer.Option(
            "--views",
            metavar="take=I|mean|transforms",
            help="Of scores with an axis of views (prompts, crops): one, their mean, or the others as transforms.",
        ),
    ] = None
