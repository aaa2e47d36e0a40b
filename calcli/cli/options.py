"""Options that several commands share, declared once: as types, and as bases of commands.

A command is a frozen dataclass whose fields are annotated with ``typer.Option`` or
``typer.Argument``, as Typer reads them from a function. Bounds of a setting that Python
takes too stand with its field (``MetricSettings``, ``CurveSettings``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from msgspec import Meta

from calcli.cli.render import TEXTS, Table, print_json, print_made, print_table
from calcli.errors import UsageError, check_choice
from calcli.importers.open_any_file import expand
from calcli.io.locate import CALIBRATION as CALIBRATION
from calcli.io.locate import (
    Layout,
    absolute,
    bundle_names,
    columns_joined,
    note_bundles,
)
from calcli.metrics.settings import MetricSettings
from calcli.records import JsonObject, cached_property
from calcli.registry import method_names, split_list
from calcli.rows import SCORE_KINDS
from calcli.settings import common_fields

# ---- options


def limits(settings: type, name: str) -> dict[str, Any]:
    """Bounds of a field of settings, for ``typer.Option``."""
    hint = get_type_hints(settings, include_extras=True)[name]
    bounds = next(meta for meta in hint.__metadata__ if isinstance(meta, Meta))
    return {"min": bounds.ge, "max": bounds.le}


def bundles(words: str) -> Any:
    """The argument BUNDLE…; words : its help."""
    help_text = f"{words} Quoted patterns are expanded."
    return typer.Argument(metavar="BUNDLE…", help=help_text)


def output(metavar: str, words: str, **more: Any) -> Any:
    """The option -o; words : its help."""
    return typer.Option(
        "--output", "-o", metavar=metavar, help=words, rich_help_panel="Output", **more
    )


def calibrators(words: str) -> Any:
    """The option -c that can be repeated; words : its help."""
    return typer.Option("--calibrator", "-c", metavar="ART.json", help=words)


def method(words: str, default: str) -> Any:
    """The option -m of a method to be fitted; words : its help. default : in words."""
    return typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        autocompletion=complete_methods,
        help=words,
        show_default=default,
    )


def metric_limit(name: str, words: str) -> Any:
    """The option --max or --min; words : its help."""
    return typer.Option(
        name, metavar="NAME=VALUE", help=words, rich_help_panel="Limits"
    )


def complete_methods(incomplete: str) -> list[str]:
    """Names of methods that begin so, for the completion of a shell."""
    names = [*method_names(), "all"]
    return [name for name in names if name.startswith(incomplete)]


def complete_metrics(incomplete: str) -> list[str]:
    """Names of metrics that begin so, for the completion of a shell."""
    from calcli.metrics.catalog import metric_names

    return [name for name in metric_names() if name.startswith(incomplete)]


ArtifactPath = Annotated[
    str,
    typer.Argument(
        metavar="ART.json", help="Artifact written by calcli fit, - for stdin."
    ),
]
Again = Annotated[
    bool,
    typer.Option("--again", help="Go on although the scores are already calibrated."),
]
Bins = Annotated[
    int,
    typer.Option(
        "--bins",
        metavar="N",
        help="Number of bins.",
        **limits(MetricSettings, "bins"),
        rich_help_panel="Metrics",
    ),
]
ClassThreshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        metavar="P",
        help="P(class 1) above which class 1 is predicted.",
        **limits(MetricSettings, "threshold"),
        rich_help_panel="Metrics",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Replace an output that exists.", rich_help_panel="Output"
    ),
]
IgnoreLabel = Annotated[
    list[float] | None,
    typer.Option(
        "--ignore-label",
        metavar="L",
        help="Leave out rows with this label (repeatable).",
        show_default=False,
        rich_help_panel="Rows",
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object on stdout.", rich_help_panel="Output"
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="|".join(SCORE_KINDS),
        help="Type of the scores, where their name and values do not say it.",
        rich_help_panel="Input",
    ),
]
Level = Annotated[
    float,
    typer.Option(
        "--level",
        metavar="P",
        help="Level of intervals.",
        **limits(MetricSettings, "level"),
        rich_help_panel="Metrics",
    ),
]
Ordered = Annotated[
    bool,
    typer.Option(
        "--ordered",
        help="Groups are batches, a line each in order of time: --group-by month"
        " --ordered.",
        rich_help_panel="Columns",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Only errors, verdicts, and what machines read.",
        rich_help_panel="Output",
    ),
]
Resamples = Annotated[
    int,
    typer.Option(
        "--resamples",
        metavar="N",
        help="Draws under calibration.",
        **limits(MetricSettings, "resamples"),
        rich_help_panel="Metrics",
    ),
]
OneCalibrator = Annotated[
    str | None,
    typer.Option(
        "--calibrator",
        "-c",
        metavar="ART.json",
        help="Calibrator; else the uncalibrated scores.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of every random draw.", min=0)
]
Decomposition = Annotated[
    bool | None,
    typer.Option(
        "--decomposition/--no-decomposition",
        help="Cross-fitted decomposition of the losses: refinement and calibration.",
        show_default="up to 2e6 scores",
    ),
]


def whole_where_possible(labels: Iterable[float]) -> tuple[float, ...]:
    """Numbers as integers where they are whole: the label 1 of ``1``, 0.5 of ``0.5``."""
    numbers: list[float] = []
    for label in labels:
        is_whole = float(label).is_integer()
        numbers.append(int(label) if is_whole else label)
    return tuple(numbers)


def names_in(values: Iterable[str] | None) -> list[str] | None:
    """The names in an option of names of calcli's own (metrics, methods, verdicts).

    They come with commas or with the option repeated, in every command alike. Options
    of names that users choose (columns, files, NAME=VALUE) are repeated only.
    """
    if values is None:
        return None
    names: list[str] = []
    for value in values:
        names += split_list(value) or [value]
    return names


# ---- bases of commands


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the per-row columns in a file; None for the standard names."""

    group_by: Annotated[
        list[str] | None,
        typer.Option(
            "--group-by",
            metavar="COLUMN|none",
            help="Column of groups (repeatable: their intersections).",
            rich_help_panel="Columns",
        ),
    ] = None
    sample_weight: Annotated[
        str | None,
        typer.Option(
            "--sample-weight",
            metavar="COLUMN|none",
            help="Column of weights; none: all rows count 1.",
            rich_help_panel="Columns",
        ),
    ] = None
    ids: Annotated[
        str | None,
        typer.Option(
            "--ids",
            metavar="COLUMN|none",
            help="Column of ids of the rows.",
            rich_help_panel="Columns",
        ),
    ] = None
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit",
            metavar="COLUMN|none",
            help="Column that says which rows belong together (a patient, an image,"
            " a question); none: rows are independent.",
            show_default="unit, where it exists",
            rich_help_panel="Columns",
        ),
    ] = None

    @property
    def group_column(self) -> str:
        """Name of the column of ``--group-by``, or of several's intersections."""
        named = [name for name in self.group_by or () if name != "none"]
        return columns_joined(named)


@dataclass(frozen=True, kw_only=True)
class Reading(Columns):
    """Names and kinds of what a file of scores holds."""

    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores",
            metavar="PATH",
            help="Dataset with the scores, when it has another name.",
            rich_help_panel="Input",
        ),
    ] = None
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--labels",
            metavar="PATH",
            help="Dataset with the labels, when it has another name.",
            rich_help_panel="Input",
        ),
    ] = None
    kind: Kind = None
    allow_external: Annotated[
        bool,
        typer.Option(
            "--allow-external",
            help="Allow HDF5 external storage outside the bundle's folder.",
            rich_help_panel="Input",
        ),
    ] = False
    ignore_label: IgnoreLabel = None

    @property
    def where(self) -> Layout:
        """Layout of a file: the names of its scores, labels and columns."""
        return Layout(**common_fields(Layout, self))

    @property
    def names_groups(self) -> bool:
        """True where the user has named a column of groups."""
        return self.where.names_groups

    @property
    def opening(self) -> dict[str, Any]:
        """Arguments of ``open_rows`` except the name of the bundle."""
        return {"layout": self.where, "ignore_labels": self.ignored}

    @property
    def ignored(self) -> tuple[float, ...]:
        """Labels to leave out, whole numbers as such."""
        return whole_where_possible(self.ignore_label or ())


@dataclass(frozen=True, kw_only=True)
class ReadingSeveral(Reading):
    files_from: Annotated[
        str | None,
        typer.Option(
            "--files-from",
            metavar="LIST",
            help="Read names of bundles from a file, one a line; - is stdin.",
            rich_help_panel="Input",
        ),
    ] = None

    @cached_property
    def given(self) -> list[str]:
        """Names as typed and listed, patterns included.

        Empty if a state of calcli watch is named instead. Raises UsageError, DataError.
        """
        names = getattr(self, "bundles", None) or ()
        state = getattr(self, "state", None)
        if state and not names and not self.files_from:
            return []
        return bundle_names(names, self.files_from)

    @cached_property
    def expanded(self) -> list[str]:
        """The bundles that the names stand for. Raises DataError."""
        bundles: list[str] = []
        for name in self.given:
            bundles += self.expand(name)
        return bundles

    def expand(self, name: str) -> list[str]:
        """Expand a name into bundles, with absolute paths for the workers of a cluster.

        Raises DataError.
        """
        bundles = expand(name, self.where, self.ignored)
        note_bundles(bundles)
        if getattr(self, "cluster", None) is None:
            return bundles
        return [absolute(bundle) for bundle in bundles]


@dataclass(frozen=True, kw_only=True)
class Pooling(ReadingSeveral):
    """Options for reading bundles, of a command that has a result per bundle."""

    pool: Annotated[
        bool,
        typer.Option(
            "--pool",
            help="Evaluate all bundles as one data set.",
            rich_help_panel="Input",
        ),
    ] = False

    @property
    def sets(self) -> list[Sequence[str]]:
        """The bundles of every result."""
        if self.pool:
            return [self.expanded]
        return [[name] for name in self.expanded]


def unused(*cases: tuple[object, str, str]) -> dict[str, str]:
    """Field name -> reason, of options that have no effect.

    cases : (condition, field names, reason).
    """
    reasons = {}
    for holds, names, reason in cases:
        if holds:
            reasons.update(dict.fromkeys(names.split(), reason))
    return reasons


NO_BATCHES = (
    "it puts batches in order of time: name their column, e.g. --group-by month"
)


def names_of(struct: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(struct))


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            help="Spread shards and ranges of rows over N processes.",
            min=1,
            max=4096,
            rich_help_panel="Workers",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ADDRESS",
            help="Spread them over a Dask cluster that is there: tcp://HOST:8786 or a"
            " scheduler's JSON file.",
            rich_help_panel="Workers",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """Options of the method that a command fits."""

    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Option of the method (repeatable)."
        ),
    ] = None
    keep_predictions: Annotated[
        bool,
        typer.Option(
            "--keep-predictions",
            help="Change no prediction, by a projection, whatever the method.",
        ),
    ] = False
    free_predictions: Annotated[
        bool,
        typer.Option(
            "--free-predictions",
            help="Let auto change predictions of three and more classes.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    json: Json = False
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Output options of a command that prints a table. FORMATS : values of ``--format``."""

    FORMATS: ClassVar[tuple[str, ...]] = (*TEXTS, "json", "jsonl")

    json: Json = False
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="table|markdown|latex|csv|json|jsonl",
            help="How the table is written.",
            rich_help_panel="Output",
        ),
    ] = "table"

    def __post_init__(self) -> None:
        check_choice("--format", self.form, self.FORMATS)
        if self.json and self.form not in ("table", "json"):
            raise UsageError(f"--json and --format {self.form} exclude each other")

    @property
    def wanted(self) -> str:
        """The format, short forms included."""
        return "json" if self.json else self.form

    @property
    def people(self) -> bool:
        return self.wanted == "table"

    def print(
        self,
        name: str,
        tables: Sequence[Table],
        lines: list[dict[str, Any]],
        whole: JsonObject | None = None,
    ) -> None:
        """Print the tables; for jsonl ``lines``, each marked calcli_<name>; for json
        ``whole``.
        """
        if self.wanted == "json":
            print_json(whole)
        elif self.wanted == "jsonl":
            for line in lines:
                print_json({f"calcli_{name}": 1, **line})
        elif self.people:
            for table in tables:
                print_table(*table)
        else:
            print_made("\n".join(TEXTS[self.wanted](table) for table in tables))
