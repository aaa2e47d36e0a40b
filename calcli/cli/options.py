"""Options that several commands share, declared once: as types, and as bases of their structs."""

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar

from calcli.cli.render import print_json
from calcli.cli.tables import TEXTS, Table, print_table
from calcli.errors import UsageError, check_choice
from calcli.fast_dataclass import cached_property, dataclass
from calcli.importers.open_any_file import expand
from calcli.io.locate import CALIBRATION as CALIBRATION
from calcli.io.locate import ByName, Layout, bundle_names, note_bundles
from calcli.options import argument, flag, same, taken
from calcli.options import seed as seed

force = partial(flag, False, "Replace an output that exists.")
device = partial(
    flag, "auto", "Where the heavy loops run; auto by a model of the cost, not measured on a GPU.", "auto|cpu|cuda"
)
kind = partial(same, Layout, "kind")
ignore_label = partial(flag, None, "Leave out rows with this label (repeatable).", "L", shown=False)
ordered = partial(flag, False, "Groups are batches, a line each in order of time: --group-by month --ordered.")
again = partial(flag, False, "Allow scores that are already calibrated.")
json = partial(flag, False, "Print one JSON object on stdout.")


def bundles(words: str) -> Any:
    """The argument BUNDLE…; words : its help."""
    return argument(None, f"{words} Quoted patterns are expanded.", "BUNDLE…")


split = partial(flag, None, "Cross-fitted split of the losses.", None, "--split/--no-split", shown="up to 2e6 scores")


@dataclass(frozen=True, kw_only=True)
class Reading(ByName):
    scores: str | None = same(Layout, "scores")
    labels: str | None = same(Layout, "labels")
    kind: str | None = kind()
    ignore_label: list[int] | None = ignore_label()
    allow_external: bool = same(Layout, "external")
    unit: str | None = same(Layout, "unit")

    @property
    def where(self) -> Layout:
        """Where in a file the scores, labels and columns are."""
        return Layout(self.scores, self.labels, self.kind, self.allow_external, **taken(ByName, self))

    @property
    def ignored(self) -> tuple[int, ...]:
        return tuple(self.ignore_label or ())


@dataclass(frozen=True, kw_only=True)
class ReadingSeveral(Reading):
    files_from: str | None = flag(None, "Read names of bundles from a file, one a line; - is stdin.", "LIST")

    @cached_property
    def given(self) -> list[str]:
        """The names as typed and listed, patterns and all. Raises UsageError, DataError."""
        return bundle_names(getattr(self, "bundles", None) or (), self.files_from)

    @cached_property
    def expanded(self) -> list[str]:
        """The bundles that the names stand for. Raises DataError."""
        found = [bundle for name in self.given for bundle in expand(name, self.where, self.ignored)]
        note_bundles(found)
        return found


@dataclass(frozen=True, kw_only=True)
class Pooling(ReadingSeveral):
    """How a command that has a result per bundle reads them."""

    pool: bool = flag(False, "Take all bundles as one data set.")

    @property
    def sets(self) -> list[Sequence[str]]:
        """The bundles of every result."""
        return [self.expanded] if self.pool else [[name] for name in self.expanded]


def names_of(struct: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(struct))


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    workers: int | None = flag(None, "Spread shards and ranges of rows over N processes.", "N", min=1, max=4096)
    cluster: str | None = flag(
        None, "Spread them over a Dask cluster that is there: tcp://HOST:8786 or a scheduler's JSON file.", "ADDRESS"
    )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    json: bool = json()
    quiet: bool = flag(False, "Only errors, verdicts, and what machines read.", None, "-q")


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a command writes the table that it is about. FORMATS : what ``--format`` takes."""

    FORMATS: ClassVar[tuple[str, ...]] = (*TEXTS, "json", "jsonl")

    json: bool = json()
    jsonl: bool = flag(False, "Print one JSON object per line of the table.")
    form: str = flag("table", "How the table is written.", "table|markdown|latex|csv|json|jsonl", "--format")

    def __post_init__(self) -> None:
        check_choice("--format", self.form, self.FORMATS)
        if len({self.form, self.wanted, "jsonl" if self.jsonl else self.wanted} - {"table"}) > 1:
            raise UsageError("--json, --jsonl and --format exclude each other")

    @property
    def wanted(self) -> str:
        """The format, short forms included."""
        return "json" if self.json else "jsonl" if self.jsonl else self.form

    @property
    def people(self) -> bool:
        return self.wanted == "table"

    def print(self, name: str, tables: Sequence[Table], lines: list[dict[str, Any]], whole: Any = None) -> None:
        """Write the tables; as JSON: their lines, each marked calcli_<name>, or all of them together. whole : what is
        written for json, where it is more than the lines under ``name``."""
        if self.wanted == "json":
            print_json({f"calcli_{name}": 1, name: lines} if whole is None else whole)
        elif self.wanted == "jsonl":
            for line in lines:
                print_json({f"calcli_{name}": 1, **line})
        elif self.people:
            for table in tables:
                print_table(table.columns, table.rows)
        else:
            print("\n".join(TEXTS[self.wanted](table) for table in tables), end="")
