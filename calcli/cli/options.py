"""Options that several commands share, declared once: as types, and as bases of their structs.

An option that Python takes too is a field of its settings: ``MetricSettings`` (``metrics/context.py``: --bins),
``CurveSettings`` (``diagrams/curve.py``), ``Layout`` (``io/locate.py``: --kind), ``CompareSettings``; any other stands
in the command's own file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar

from calcli.cli.render import TEXTS, Table, print_json, print_made, print_table
from calcli.errors import UsageError, check_choice
from calcli.fast_dataclass import cached_property, dataclass
from calcli.importers.open_any_file import expand
from calcli.io.locate import CALIBRATION as CALIBRATION
from calcli.io.locate import Layout, absolute, bundle_names, note_bundles
from calcli.options import argument, flag, taken
from calcli.options import seed as seed

force = partial(flag, False, "Replace an output that exists.")
ignore_label = partial(
    flag, None, "Leave out rows with this label (repeatable).", "L", shown=False
)
ordered = partial(
    flag,
    False,
    "Groups are batches, a line each in order of time: --group-by month --ordered.",
)
again = partial(flag, False, "Allow scores that are already calibrated.")
json = partial(flag, False, "Print one JSON object on stdout.")


def bundles(words: str) -> Any:
    """Declare the argument BUNDLE…; words : its help."""
    return argument(None, f"{words} Quoted patterns are expanded.", "BUNDLE…")


split = partial(
    flag,
    None,
    "Cross-fitted split of the losses.",
    None,
    "--split/--no-split",
    shown="up to 2e6 scores",
)


def whole_where_possible(labels: Iterable[float]) -> tuple[float, ...]:
    """Numbers as integers where they are whole: the label 1 of ``1``, 0.5 of ``0.5``."""
    return tuple(int(label) if float(label).is_integer() else label for label in labels)


@dataclass(frozen=True, kw_only=True)
class Reading(Layout):
    ignore_label: list[float] | None = ignore_label()

    @property
    def where(self) -> Layout:
        """Layout of a file: the names of its scores, labels and columns."""
        return Layout(**taken(Layout, self))

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
    files_from: str | None = flag(
        None, "Read names of bundles from a file, one a line; - is stdin.", "LIST"
    )

    @cached_property
    def given(self) -> list[str]:
        """Names as typed and listed, patterns included; empty if a state of calcli watch is given instead. Raises
        UsageError, DataError."""
        names, state = (
            getattr(self, "bundles", None) or (),
            getattr(self, "state", None),
        )
        return (
            []
            if state and not names and not self.files_from
            else bundle_names(names, self.files_from)
        )

    @cached_property
    def expanded(self) -> list[str]:
        """The bundles that the names stand for. Raises DataError."""
        return [bundle for name in self.given for bundle in self.expand(name)]

    def expand(self, name: str) -> list[str]:
        """Expand a name into bundles, with absolute paths for the workers of a cluster. Raises DataError."""
        found = expand(name, self.where, self.ignored)
        note_bundles(found)
        return (
            found
            if getattr(self, "cluster", None) is None
            else [absolute(bundle) for bundle in found]
        )


@dataclass(frozen=True, kw_only=True)
class Pooling(ReadingSeveral):
    """Options for reading bundles, of a command that has a result per bundle."""

    pool: bool = flag(False, "Evaluate all bundles as one data set.")

    @property
    def sets(self) -> list[Sequence[str]]:
        """The bundles of every result."""
        return [self.expanded] if self.pool else [[name] for name in self.expanded]


def unused(*cases: tuple[object, str, str]) -> dict[str, str]:
    """Field name -> reason, of options that have no effect. cases : (condition, field names, reason)."""
    return {name: why for so, names, why in cases if so for name in names.split()}


NO_BATCHES = (
    "it puts batches in order of time: name their column, e.g. --group-by month"
)


def names_of(struct: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(struct))


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    workers: int | None = flag(
        None, "Spread shards and ranges of rows over N processes.", "N", min=1, max=4096
    )
    cluster: str | None = flag(
        None,
        "Spread them over a Dask cluster that is there: tcp://HOST:8786 or a scheduler's JSON file.",
        "ADDRESS",
    )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    json: bool = json()
    quiet: bool = flag(
        False, "Only errors, verdicts, and what machines read.", None, "-q"
    )


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Output options of a command that prints a table. FORMATS : values of ``--format``."""

    FORMATS: ClassVar[tuple[str, ...]] = (*TEXTS, "json", "jsonl")

    json: bool = json()
    form: str = flag(
        "table",
        "How the table is written.",
        "table|markdown|latex|csv|json|jsonl",
        "--format",
    )

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
        whole: Any = None,
    ) -> None:
        """Print the tables; for jsonl ``lines``, each marked calcli_<name>; for json all of them together. whole : the
        object printed for json, if it is more than the lines under ``name``."""
        if self.wanted == "json":
            print_json({f"calcli_{name}": 1, name: lines} if whole is None else whole)
        elif self.wanted == "jsonl":
            for line in lines:
                print_json({f"calcli_{name}": 1, **line})
        elif self.people:
            for table in tables:
                print_table(*table)
        else:
            print_made("\n".join(TEXTS[self.wanted](table) for table in tables))
