"""Recognise a log of decision models, and read it with the labels of another file."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from calcli import __version__
from calcli.decisions.log import LOOKED_AT, Log, looks_like_log, read_log
from calcli.decisions.log_plan import GOLD, plan_log
from calcli.decisions.records import Numbered, begins_like_json, records
from calcli.importers.decision_logs.gold_labels import GoldLabels
from calcli.importers.import_request import ImportRequest
from calcli.io.inputs import file_sha256

FORMAT = "decisions"
LOG_SUFFIXES = (".jsonl", ".ndjson", ".jevl", ".json")


def is_decision_log(files: Sequence[Path], request: ImportRequest) -> bool:
    """True for one file of records of decision models, and no arrays named in it."""
    if len(files) != 1 or not files[0].is_file():
        return False
    is_about_arrays = request.scores or request.confidence or request.correct
    if is_about_arrays or request.votes or request.join or request.kind is not None:
        return False
    return begins_like_json(files[0]) and looks_like_log(files[0])


@dataclass(frozen=True)
class DecisionLog:
    """A log that was read, and where it came from."""

    path: Path
    log: Log
    source: Mapping[str, Any]


def read_decision_log(
    path: Path, gold: Path | None = None, labels: Sequence[str] = ()
) -> DecisionLog:
    """Read a log. gold : another file with its labels. Raises DataError."""
    source = _source(path, gold)
    plan = plan_log(source, str(path), labels)
    log = read_log(source, plan)
    files = [{"name": path.name, "format": FORMAT, "sha256": file_sha256(path)}]
    if gold is not None:
        files.append({"name": gold.name, "format": FORMAT, "sha256": file_sha256(gold)})
    about = {"calcli_version": __version__, "files": files, "kind_given": False}
    return DecisionLog(path, log, about)


def _source(path: Path, gold: Path | None) -> Callable[[], Iterable[Numbered]]:
    """Function that iterates over the records, with the labels of another file."""
    if gold is None:
        return lambda: records(path)
    first = [record for _, record in islice(records(path), LOOKED_AT)]
    known = GoldLabels.read(gold, first)

    def joined() -> Iterator[Numbered]:
        for place, (number, record) in enumerate(records(path)):
            yield number, {**record, GOLD: known.of(place, record)}

    return joined
