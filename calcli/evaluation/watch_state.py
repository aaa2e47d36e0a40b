"""State file of ``calcli watch``: settings, batches, and the evidence of the current
episode."""

import hashlib
import math
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeVar, get_args

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
from calcli.number_words import noun, samples
from calcli.output import Count, Output
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
        return evidence_of(self.log_e)


def evidence_of(log_e: float) -> float:
    """Evidence E of its logarithm, at most e^700."""
    return math.exp(min(log_e, LARGEST_LOG))


class EpisodeBatch(Protocol):
    """What an episode asks of a batch, of one bundle or of a log."""

    @property
    def name(self) -> str: ...
    @property
    def n(self) -> int: ...
    @property
    def log_e(self) -> float: ...


@dataclass(frozen=True)
class Episode:
    """The current episode of a state file.

    number : from 1. batches : since it began, each with the evidence after it. level :
    probability of a false alarm within it. tolerance : as in ``Settings``.
    """

    number: int
    batches: Sequence[EpisodeBatch]
    level: float
    tolerance: float

    @property
    def rows(self) -> int:
        return sum(batch.n for batch in self.batches)

    @property
    def alarm_at(self) -> int | None:
        """Batch, counted from 1, at which the alarm was raised; it stays until a
        reset."""
        least = -math.log(self.level)
        for number, batch in enumerate(self.batches, start=1):
            if batch.log_e >= least:
                return number
        return None

    @property
    def alarm_at_e(self) -> float:
        """Evidence at which the alarm is raised."""
        return 1.0 / self.level

    def numbers(self, log_e: float) -> str:
        """Its batches, samples and evidence, in words."""
        n = len(self.batches)
        batches = f"{n} {noun(n, 'batch')}"
        return (
            f"{batches}, {samples(self.rows)}; evidence {evidence_of(log_e):.3g}"
            f" (alarm at {self.alarm_at_e:g})"
        )

    def alarm_sentence(self, where: str) -> str:
        """One line for people. where : the miscalibration began, and the numbers."""
        return (
            f"ALARM since batch {self.alarm_at}: no longer calibrated within"
            f" {self.tolerance:g}{where}; refit, then --reset"
        )


class SettingsOutput(Output, kw_only=True):
    """The settings in the JSON."""

    tolerance: float
    level: float
    label: Watched
    calibrator: str | None
    units: bool


class WatchFacts(Output, kw_only=True):
    """The JSON of ``calcli watch`` without its first key.

    It is what Python returns, and what a log of decisions has for every question.
    """

    alarm: bool
    e: float
    log_e: float
    alarm_at_e: float
    batches: Count
    rows: Count
    overconfidence: float | None
    accuracy: float | None
    left_out: Annotated[
        Count,
        msgspec.Meta(
            description="First samples of the newest file that were in earlier"
            " batches, and are not counted again."
        ),
    ]
    repeated: Annotated[
        Count,
        msgspec.Meta(
            description="New samples of the newest file whose units were in earlier"
            " batches, and are not counted."
        ),
    ]
    since: int | None
    alarm_batch: int | None
    episode: Annotated[int, msgspec.Meta(ge=1)]
    settings: SettingsOutput


class WatchOutput(WatchFacts):
    """The JSON of ``calcli watch``."""

    calcli_watch: Literal[1]


class State(msgspec.Struct, forbid_unknown_fields=True):
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
    def current_batches(self) -> list[Batch]:
        """Batches of the current episode."""
        return [batch for batch in self.batches if batch.episode == self.episode]

    @property
    def current(self) -> Episode:
        """The current episode."""
        return Episode(
            self.episode,
            self.current_batches,
            self.settings.level,
            self.settings.tolerance,
        )

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
            len(self.current_batches),
            np.array(self.log_sums, dtype=float),
            np.array(self.log_best, dtype=float),
            np.array(self.best_start, dtype=float),
        ).extended()

    @property
    def facts(self) -> WatchFacts:
        """What ``calcli watch --json`` says."""
        episode = self.current
        evidence = self.evidence
        last = self.batches[-1] if episode.batches else None
        has_evidence = last is not None and evidence.log_e > 0.0
        return WatchFacts(
            alarm=episode.alarm_at is not None,
            e=evidence_of(evidence.log_e),
            log_e=evidence.log_e,
            alarm_at_e=episode.alarm_at_e,
            batches=len(episode.batches),
            rows=episode.rows,
            overconfidence=getattr(last, "overconfidence", None),
            accuracy=getattr(last, "accuracy", None),
            left_out=getattr(last, "left_out", 0) or 0,
            repeated=getattr(last, "repeated", 0) or 0,
            since=evidence.since if has_evidence else None,
            alarm_batch=episode.alarm_at,
            episode=self.episode,
            settings=SettingsOutput.of(self.settings),
        )

    def sentence(self) -> str:
        """One line for people."""
        episode = self.current
        if not episode.batches:
            return f"episode {self.episode}: no batch yet"
        newest = self.batches[-1].overconfidence
        numbers = (
            f"{episode.numbers(self.evidence.log_e)}; newest overconfidence"
            f" {newest:+.4f}"
        )
        if episode.alarm_at is None:
            return f"no alarm: {numbers}"
        start = episode.batches[self.evidence.since - 1].name
        return episode.alarm_sentence(
            f" ({numbers}; the change is estimated to start at {start})"
        )


# ---- the file


class StateFile(Protocol):
    """Content of a state file, a struct. sha256 : of all the rest."""

    calcli_watch: int
    sha256: str


AnyState = TypeVar("AnyState", bound=StateFile)


def dumps(state: StateFile) -> bytes:
    """The bytes of a state file."""
    state.sha256 = digest(state)
    return msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n"


def digest(state: StateFile) -> str:
    """SHA-256 of a state without its ``sha256``."""
    content = copy(state)
    content.sha256 = ""
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def check_whole(state: StateFile, parts: Collection["State"], where: str) -> None:
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
    known = (FORMER_ALTERNATIVES, len(ALTERNATIVES)) if state.current_batches else (0,)
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


def save_state(path: Path, state: StateFile, *, is_new: bool) -> None:
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
