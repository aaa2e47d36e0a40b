"""The options of calcli extract that say how files of others are read."""

from typing import Annotated, Any

import typer

from calcli.errors import UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.import_request import REDUCE


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What to make of arrays whose meaning their names do not tell."""

    class_names: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Names of the classes, in the order of the scores."),
    ] = None
    views: Annotated[
        str | None,
        typer.Option(
            metavar="take=I|mean|transforms",
            help="Of scores with an axis of views (prompts, crops): one, their mean, or the others as transforms.",
        ),
    ] = None
    normalize: Annotated[
        str,
        typer.Option(
            metavar="none|chars|bytes|mutual",
            help="Log-likelihoods of choices: as they are, per character, per byte, or minus the unconditional ones.",
        ),
    ] = "none"
    choices: Annotated[int | None, typer.Option(metavar="N", help="Take the questions with N candidates only.")] = None
    filter_: Annotated[
        str | None, typer.Option("--filter", metavar="NAME", help="Take the answers after this filter.")
    ] = None
    classes: Annotated[
        int | None,
        typer.Option(metavar="C", min=2, help="Of top-k tables: how many classes there are."),
    ] = None
    reduce: Annotated[
        str | None,
        typer.Option(metavar="none|mean|sum|min|first", help="Of token sequences: how positions become one."),
    ] = None
    gold: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Another file with the right answers, joined by ids."),
    ] = None
    join: Annotated[bool, typer.Option("--join", help="The sources are parts of one data set: shards, ranks.")] = False
    drop_duplicates: Annotated[
        bool, typer.Option("--drop-duplicates", help="Of rows with the same id keep the first, and count the others.")
    ] = False
    per_label: Annotated[
        bool, typer.Option("--per-label", help="Labels of which several may hold: a two-class bundle for each.")
    ] = False
    confidence: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Array that says how sure, instead of scores of classes."),
    ] = None
    correct: Annotated[
        str | None,
        typer.Option(metavar="NAME|A=B", help="Array that says whether right, or where two agree."),
    ] = None

    corrupt_labels: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Make the labels of this share of classes random.",
            show_default=False,
        ),
    ] = 0.0
    draw: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=10_000_000, help="Draw N rows with replacement, by --seed."),
    ] = None

    @property
    def reading(self) -> dict[str, Any]:
        """These options as fields of ``ImportRequest``. Raises UsageError."""
        if self.normalize not in ("none", "chars", "bytes", "mutual"):
            raise UsageError(f"--normalize {self.normalize}: expected none, chars, bytes or mutual")
        if self.reduce not in (None, *REDUCE):
            raise UsageError(f"--reduce {self.reduce}: expected one of {', '.join(REDUCE)}")
        names = tuple(name.strip() for name in (self.class_names or "").split(",") if name.strip())
        return {
            "class_names": names, "views": self.views, "normalize": self.normalize, "choices": self.choices,
            "filter": self.filter_, "join": self.join, "gold": self.gold, "classes": self.classes,
            "reduce": self.reduce, "per_label": self.per_label,
            "drop_duplicates": self.drop_duplicates,
            "confidence": self.confidence, "correct": self.correct,
            "corrupt_labels": self.corrupt_labels, "draw": self.draw,
        }  # fmt: skip
