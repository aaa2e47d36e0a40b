"""Options that several commands share, declared once."""

from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of every random draw.")]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where the heavy loops run.")]
Scores = Annotated[
    str | None, typer.Option("--scores", metavar="PATH", help="Dataset with the scores, when it has another name.")
]
Labels = Annotated[
    str | None, typer.Option("--labels", metavar="PATH", help="Dataset with the labels, when it has another name.")
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--kind", metavar="logits|log_probs|probs", help="What the scores are, when the name does not say it."
    ),
]
IgnoreLabel = Annotated[
    list[int] | None,
    typer.Option(
        "--ignore-label", metavar="L", help="Leave out rows with this label (repeatable).", show_default=False
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Option of the method (repeatable).", show_default=False),
]


def settings(assignments: list[str] | None) -> dict[str, str]:
    """Turn ``["bins=20"]`` into ``{"bins": "20"}``. Raises UsageError."""
    from calcli.errors import UsageError

    parsed: dict[str, str] = {}
    for text in assignments or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {text}: expected NAME=VALUE, e.g. --set bins=20")
        if name.strip() in parsed:
            raise UsageError(f"--set {name.strip()} is given twice")
        parsed[name.strip()] = value.strip()
    return parsed
