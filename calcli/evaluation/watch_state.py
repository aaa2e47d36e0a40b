"""State file of ``calcli watch``: settings, batches, and the evidence of the current
episode."""

import hashlib
import math
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_args

import msgspec
import numpy as np

from calcli import __version__
from calcli.errors import DataError, UsageError
from calcli.evaluation.rounded_copies import ScoreCounts
from calcli.io.atomic import (
    lock,
    open_job_file,
    real_place,
    unlock,
    write_bytes,
)
from calcli.io.inputs import open_document
from calcli.io.rows_seen import RowSketch
from calcli.records import JsonObject
from calcli.statistics.betting import ALTERNATIVES, Evidence

Watched = Literal["top", "positive"]

FORMAT = 1
FORMER_ALTERNATIVES = 41  # those of calcli 0.2

LARGEST_LOG = 700.0
BY_QUESTION = b'"questions": {'
"""What stands in the state file of a log of decisions alone."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the monitoring. tolerance : largest overconfidence or
    underconfidence, in any row, that is accepted without an alarm. level : probability
    of a false alarm, ever, within an episode. label : ``top`` (confidence of the
    prediction) or ``positive`` (P(class 1)). calibrator : SHA-256 of method and
    parameters of every calibrator that the scores have been through, joined by ``+``,
    None for uncalibrated scores. units : are factors taken per unit?"""

    tolerance: float = 0.02
    level: float = 0.05
    label: Watched = "top"
    calibrator: str | None = None
    units: bool = False

    def __post_init__(self) -> None:
        if self.label not in get_args(Watched):
            raise UsageError(f"label is {self.label}, expected top or positive")
        if not 0.0 <= self.tolerance < 0.5:
            raise UsageError(
                f"tolerance is {self.tolerance:g}, expected a number from 0 to below"
                " 0.5"
            )
        if not 0.0 < self.level < 1.0:
            raise UsageError(
                f"level is {self.level:g}, expected a number between 0 and 1, both"
                " excluded"
            )

    def differences(self, other: "Settings") -> list[str]:
        """Names of the settings in which these differ."""
        names = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            other_value = getattr(other, name)
            is_same = value == other_value
            if name == "calibrator":
                is_same = is_same_chain(value, other_value)
            if not is_same:
                names.append(name)
        return names


def is_same_chain(first: str | None, second: str | None) -> bool:
    """True for the hashes of the same calibrators; of those from a table only the first
    digits are known."""
    if first is None or second is None:
        return first is second
    hashes = first.split("+")
    others = second.split("+")
    if len(hashes) != len(others):
        return False
    for sha256, other in zip(hashes, others, strict=True):
        digits = min(len(sha256), len(other))
        if sha256[:digits] != other[:digits]:
            return False
    return True


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One batch: name, numbers of rows and units, and the evidence of its episode after
    it. sha256 : of its sorted scores and outcomes. overconfidence : mean score minus
    frequency of outcome 1.

    row_sketch, score_sketch, id_sketch : to recognise the rows by the scores of all
    classes and the label, by what is bet on, and by their ids if they have any.
    score_counts : rows by cells of what is bet on, which rounding leaves alone.
    left_out : first rows of the file that were in earlier batches, which are not
    counted in n. repeated : rows behind them of units that were, in the sketches but
    not in n. calcli 0.2 wrote none of these.
    """

    name: str
    sha256: str
    episode: int
    n: int
    units: int | None
    accuracy: float
    overconfidence: float
    log_e: float
    row_sketch: RowSketch | msgspec.UnsetType = msgspec.UNSET
    score_sketch: RowSketch | msgspec.UnsetType = msgspec.UNSET
    id_sketch: RowSketch | msgspec.UnsetType = msgspec.UNSET
    score_counts: ScoreCounts | msgspec.UnsetType = msgspec.UNSET
    left_out: int | msgspec.UnsetType = msgspec.UNSET
    repeated: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def e(self) -> float:
        """Evidence E, at most e^700."""
        return math.exp(min(self.log_e, LARGEST_LOG))


class Stored(Protocol):
    """Content of a state file, a struct.

    batches : of all episodes, each with the evidence after it. level : chance of a
    false alarm in an episode. sha256 : of all the rest.
    """

    calcli_watch: int
    episode: int
    sha256: str

    @property
    def batches(self) -> Sequence[Any]: ...
    @property
    def level(self) -> float: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def current(self) -> list[Any]: ...
    @property
    def alarm_at(self) -> int | None: ...
    def to_dict(self) -> JsonObject: ...
    def numbers(self, counted: str, facts: JsonObject) -> str: ...
    def alarm_words(self, numbers: str, facts: JsonObject) -> str: ...


class EpisodeState(msgspec.Struct, forbid_unknown_fields=True):
    """What the state of one bundle and that of a log say of the current episode."""

    @property
    def current(self: Stored) -> list[Any]:
        """Batches of the current episode."""
        return [batch for batch in self.batches if batch.episode == self.episode]

    @property
    def alarm_at(self: Stored) -> int | None:
        """Batch of the current episode, counted from 1, at which the alarm was raised;
        it stays until a reset."""
        least = -math.log(self.level)
        for number, batch in enumerate(self.current, start=1):
            if batch.log_e >= least:
                return number
        return None

    def facts(self: Stored, log_e: float, **own: Any) -> JsonObject:
        """Content of ``calcli watch --json``.

        own : what the state of one bundle and that of a log say each in its own way.
        """
        return {
            "alarm": self.alarm_at is not None,
            "e": math.exp(min(log_e, LARGEST_LOG)),
            "log_e": log_e,
            "alarm_at_e": 1.0 / self.level,
            "batches": len(self.current),
            "rows": sum(batch.n for batch in self.current),
            **own,
            "alarm_batch": self.alarm_at,
            "episode": self.episode,
        }

    def sentence(self: Stored) -> str:
        """One line for people."""
        if not self.current:
            return f"episode {self.episode}: no batch yet"
        facts = self.to_dict()
        batches = "1 batch" if facts["batches"] == 1 else f"{facts['batches']} batches"
        evidence = f"evidence {facts['e']:.3g} (alarm at {facts['alarm_at_e']:g})"
        numbers = self.numbers(f"{batches}, {facts['rows']} samples; {evidence}", facts)
        if not facts["alarm"]:
            return f"no alarm: {numbers}"
        return (
            f"ALARM since batch {facts['alarm_batch']}: no longer calibrated within"
            f" {self.tolerance:g}{self.alarm_words(numbers, facts)}; refit, then --reset"
        )


class State(EpisodeState, forbid_unknown_fields=True):
    """Content of the state file. log_sums, log_best, best_start : as in ``Evidence``,
    for the current episode."""

    calcli_watch: int
    calcli_version: str
    settings: Settings
    episode: int
    log_sums: list[float]
    log_best: list[float]
    best_start: list[int]
    batches: list[Batch]
    sha256: str = ""

    @property
    def level(self) -> float:
        return self.settings.level

    @property
    def tolerance(self) -> float:
        return self.settings.tolerance

    @property
    def is_of_former_version(self) -> bool:
        """True where calcli 0.2 has counted the newest batch."""
        return bool(self.batches) and not isinstance(
            self.batches[-1].row_sketch, RowSketch
        )

    @property
    def evidence(self) -> Evidence:
        """Evidence of the current episode."""
        if not self.log_sums:
            return Evidence.none()
        return Evidence(
            len(self.current),
            np.array(self.log_sums, dtype=float),
            np.array(self.log_best, dtype=float),
            np.array(self.best_start, dtype=float),
        ).extended()

    def to_dict(self) -> JsonObject:
        """Content of ``calcli watch --json``."""
        log_e = self.evidence.log_e
        last = self.current[-1] if self.current else None
        facts = self.facts(
            log_e,
            overconfidence=getattr(last, "overconfidence", None),
            accuracy=getattr(last, "accuracy", None),
            left_out=getattr(last, "left_out", 0) or 0,
            repeated=getattr(last, "repeated", 0) or 0,
            since=self.evidence.since if last is not None and log_e > 0.0 else None,
        )
        return {**facts, "settings": msgspec.to_builtins(self.settings)}

    def numbers(self, counted: str, facts: JsonObject) -> str:
        return f"{counted}; newest overconfidence {facts['overconfidence']:+.4f}"

    def alarm_words(self, numbers: str, facts: JsonObject) -> str:
        start = self.current[self.evidence.since - 1].name
        return f" ({numbers}; the change is estimated to start at {start})"


# ---- the file


AnyState = TypeVar("AnyState", bound=Stored)


def dumps(state: Stored) -> bytes:
    """The bytes of a state file."""
    state.sha256 = digest(state)
    return msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n"


def digest(state: Stored) -> str:
    """SHA-256 of a state without its ``sha256``."""
    content = copy(state)
    content.sha256 = ""
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def check_whole(state: Stored, parts: Collection["State"], where: str) -> None:
    """Refuse a file of another format, or one that was edited. Raises DataError.

    parts : the states of single bundles in it.
    """
    if state.calcli_watch != FORMAT:
        raise DataError(
            f"{where}: format {state.calcli_watch} is not known to calcli"
            f" {__version__}; upgrade calcli"
        )
    are_whole = len(parts) > 0 and all(map(_is_whole, parts))
    if state.sha256 != digest(state) or not are_whole:
        raise DataError(
            f"{where}: was edited or damaged (its checksum differs); restore it, or"
            " start a new state file"
        )


def read(path: str) -> State:
    """Read the state file of one bundle. Raises DataError."""
    return read_state(path, loads)


def read_state(path: str, parse: Callable[[bytes, str], AnyState]) -> AnyState:
    """Read a state file, which need not be writable. Raises DataError."""
    with open_document(path, "the state file of calcli watch") as file:
        return parse(file.read(), path)


def loads(data: bytes, where: str) -> State:
    """Parse a state file. Raises DataError if it is not exactly as written."""
    if not data.strip():
        raise DataError(
            f"{where}: is empty (a full disk, a failed copy?); restore it, or remove it"
            " to start anew"
        )
    try:
        state = msgspec.json.decode(data, type=State)
    except msgspec.DecodeError as problem:
        if BY_QUESTION in data:
            raise DataError(
                f"{where}: keeps the evidence of a log of decisions by question; calcli"
                " watch takes it for whole logs; name another --state"
            ) from None
        raise DataError(f"{where}: is no state of calcli watch: {problem}") from None
    check_whole(state, [state], where)
    return state


def _is_whole(state: State) -> bool:
    """True where the numbers of the evidence belong to the batches."""
    known = (FORMER_ALTERNATIVES, len(ALTERNATIVES)) if state.current else (0,)
    sizes = {len(state.log_sums), len(state.log_best), len(state.best_start)}
    return len(sizes) == 1 and sizes <= set(known) and bool(state.batches)


@contextmanager
def locked_state(
    path: Path, parse: Callable[[bytes, str], AnyState]
) -> Iterator[AnyState | None]:
    """Open a state file, or a link to one, and lock it until the block ends. Yields
    None where there is none yet: ``save_state`` then refuses to replace one.

    parse : reads the content, given the name of the file.

    Raises DataError for a file that is no state, UsageError while another process holds
    the lock.
    """
    place = real_place(path)
    if not os.path.lexists(place):
        yield None
        return
    descriptor = open_job_file(place, create=False)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        lock(descriptor, place, "run this command again when it is done")
        try:
            yield parse(file.read(), str(path))
        finally:
            unlock(descriptor)


def save_state(path: Path, state: Stored, *, is_new: bool) -> None:
    """Write a state file in one step. is_new : there was none. Raises UsageError where
    another process has made it meanwhile, CalcliError where it cannot be written."""
    try:
        write_bytes(real_place(path), dumps(state), force=not is_new)
    except UsageError:
        if not (is_new and os.path.exists(path)):
            raise
        raise UsageError(
            f"{path}: another calcli has made it meanwhile; run this command again"
        ) from None
