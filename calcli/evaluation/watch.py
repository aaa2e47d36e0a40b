"""Monitor a deployed calibrator on batches of labelled rows, with an alarm of known false-alarm rate.

The evidence after each batch is kept in a state file. See ``calcli.statistics.betting`` for the test.
"""

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from calcli import __version__
from calcli.errors import DataError, UsageError
from calcli.fit_and_apply import fitted_on
from calcli.io.artifact import Artifact
from calcli.io.atomic import in_use, lock, open_job_file, remove, write_bytes
from calcli.io.dataset import DataSet
from calcli.io.inputs import open_document
from calcli.io.provenance import in_sample, link_to
from calcli.metrics.collect import collect
from calcli.statistics.betting import ALTERNATIVES, Evidence, batch_log_factors

Watched = Literal["top", "positive"]

FORMAT = 1
LARGEST_LOG = 700.0


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the monitoring. tolerance : largest overconfidence or underconfidence, in any row, that is accepted
    without an alarm. level : probability of a false alarm, ever, within an episode. label : ``top`` (confidence of the
    prediction) or ``positive`` (P(class 1)). calibrator : SHA-256 of method and parameters, None for the uncalibrated
    scores. units : are factors taken per unit?"""

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
                f"tolerance is {self.tolerance:g}, expected a number from 0 to below 0.5"
            )
        if not 0.0 < self.level < 1.0:
            raise UsageError(
                f"level is {self.level:g}, expected a number between 0 and 1, both excluded"
            )


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One batch: name, numbers of rows and units, and the evidence of its episode after it. sha256 : of its sorted
    scores and outcomes. overconfidence : mean score minus frequency of outcome 1."""

    name: str
    sha256: str
    episode: int
    n: int
    units: int | None
    accuracy: float
    overconfidence: float
    log_e: float

    @property
    def e(self) -> float:
        """Evidence E, at most e^700."""
        return math.exp(min(self.log_e, LARGEST_LOG))


class State(msgspec.Struct, forbid_unknown_fields=True):
    """Content of the state file. log_sums, log_best, best_start : as in ``Evidence``, for the current episode."""

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
    def current(self) -> list[Batch]:
        return [batch for batch in self.batches if batch.episode == self.episode]

    @property
    def evidence(self) -> Evidence:
        """Evidence of the current episode."""
        if not self.log_sums:
            return Evidence.none()
        sums, best, start = (
            np.array(each, dtype=float)
            for each in (self.log_sums, self.log_best, self.best_start)
        )
        return Evidence(len(self.current), sums, best, start)

    @property
    def alarm_at(self) -> int | None:
        """Batch of the current episode, counted from 1, at which the alarm was raised; it stays until a reset."""
        least = -math.log(self.settings.level)
        return next(
            (at for at, batch in enumerate(self.current, 1) if batch.log_e >= least),
            None,
        )

    def digest(self) -> str:
        """SHA-256 of the state without its ``sha256``."""
        content = msgspec.structs.replace(self, sha256="")
        return hashlib.sha256(msgspec.json.encode(content)).hexdigest()

    def dumps(self) -> bytes:
        self.sha256 = self.digest()
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def to_dict(self) -> dict[str, Any]:
        """Content of ``calcli watch --json``."""
        now, here = self.evidence, self.current
        last = here[-1] if here else None
        facts: dict[str, Any] = {
            "alarm": self.alarm_at is not None,
            "e": math.exp(min(now.log_e, LARGEST_LOG)),
        }
        facts |= {"log_e": now.log_e, "alarm_at_e": 1.0 / self.settings.level}
        facts |= {"batches": len(here), "rows": sum(each.n for each in here)}
        facts |= {
            "overconfidence": last and last.overconfidence,
            "accuracy": last and last.accuracy,
        }
        facts |= {
            "since": now.since if here and now.log_e > 0.0 else None,
            "alarm_batch": self.alarm_at,
        }
        return facts | {
            "episode": self.episode,
            "settings": msgspec.to_builtins(self.settings),
        }

    def sentence(self) -> str:
        """One line for people."""
        facts = self.to_dict()
        if not self.current:
            return f"episode {self.episode}: no batch yet"
        evidence = f"evidence {facts['e']:.3g} of the {facts['alarm_at_e']:g} that raise an alarm"
        seen = f"{facts['batches']} batch{'es' * (facts['batches'] > 1)}, {facts['rows']} samples"
        newest = f"overconfidence of the newest batch {facts['overconfidence']:+.4f}"
        if facts["alarm"]:
            since = f"the change is estimated to start at {self.current[self.evidence.since - 1].name}"
            within = f"no longer calibrated within {self.settings.tolerance:g} ({seen}; {evidence}; {newest}; {since})"
            return f"ALARM since batch {facts['alarm_batch']}: {within}; refit, then --reset"
        return f"no alarm: {seen}; {evidence}; {newest}"


def read(path: str) -> State:
    with open_document(path, "the state file of calcli watch") as file:
        return loads(file.read(), path)


def loads(data: bytes, where: str) -> State:
    """Parse a state file. Raises DataError if it is not exactly as written."""
    try:
        state = msgspec.json.decode(data, type=State)
    except msgspec.DecodeError as problem:
        raise DataError(f"{where}: is no state of calcli watch: {problem}") from None
    if state.calcli_watch != FORMAT:
        raise DataError(
            f"{where}: format {state.calcli_watch} is not known to calcli {__version__}; upgrade calcli"
        )
    sizes = {len(state.log_sums), len(state.log_best), len(state.best_start)}
    whole = sizes == ({len(ALTERNATIVES)} if state.current else {0}) and state.batches
    if state.sha256 != state.digest() or not whole:
        raise DataError(
            f"{where}: was edited or damaged (its checksum differs); restore it, or start a new state file"
        )
    return state


@contextmanager
def held(path: Path) -> Iterator[State | None]:
    """Open and lock a state file: yields its state, None for a new file. Raises DataError for a file that is no state,
    UsageError while another process holds the lock."""
    new = not os.path.lexists(path)
    with os.fdopen(open_job_file(path), "rb", buffering=0) as file:
        lock(file.fileno(), path)
        try:
            data = file.read()
            yield (
                loads(data, str(path)) if data else None
            )  # a process that was killed may have left an empty file
        finally:
            # Removal only under the lock: another process could be about to write this file.
            if new and not os.fstat(file.fileno()).st_size:
                remove(file, path)
            else:
                in_use(file.fileno(), "LOCK_UN")


def watch(
    path: Path,
    rows: DataSet | None,
    artifact: Artifact | None,
    given: Mapping[str, Any],
    *,
    new_episode: bool = False,
) -> State:
    """Take a batch of labelled rows into a state file, or only read it where rows is None.

    artifact : the calibrator of the rows, None for the uncalibrated scores. given : ``tolerance``, ``level`` and
    ``label`` as far as given; the others are those of the batches before. new_episode : evidence starts anew.

    Raises UsageError for settings out of range, DataError for a batch that was there before, one that the calibrator
    was fitted to, weighted rows, and where calibrator or settings are others than before; the file is then unchanged.
    """
    with held(path) as state:
        former = Settings() if state is None else state.settings
        settings = msgspec.structs.replace(former, **given)
        if rows is not None:
            sha256 = None if artifact is None else link_to(artifact).sha256
            settings = msgspec.structs.replace(
                settings, calibrator=sha256, units=rows.given_units is not None
            )
        if state is None or new_episode:
            # with its own level and perhaps another calibrator; earlier batches are kept
            episode, batches = (
                (1, [])
                if state is None
                else (state.episode + bool(state.current), state.batches)
            )
            state = State(FORMAT, __version__, settings, episode, [], [], [], batches)
        elif settings != state.settings:
            names = [
                name
                for name in settings.__struct_fields__
                if getattr(settings, name) != getattr(former, name)
            ]
            told = f"the batches before had another {' and '.join(names)}; a reset opens a new episode"
            raise DataError(f"{path}: {told}")
        if rows is not None:
            state = _with_batch(state, rows, artifact)
        if rows is not None or new_episode:
            write_bytes(path, state.dumps(), force=True)
        return state


def _with_batch(state: State, rows: DataSet, artifact: Artifact | None) -> State:
    """State after one more batch of labelled rows. Raises DataError."""
    settings = state.settings
    if rows.weights() is not None:
        raise DataError(
            f"{rows.name}: has sample weights; the evidence is exact for rows that count alike"
        )
    table = collect(
        rows,
        None if artifact is None else artifact.calibrator,
        top_only=settings.label == "top",
    )
    own = None if artifact is None else fitted_on(artifact, rows)
    if seen := in_sample(rows.upstream) or (
        own and f"the calibrator was fitted on {own}"
    ):
        raise DataError(f"{rows.name}: {seen}; watch rows that it has not seen")
    score, outcome = table.confidence, table.correct
    if settings.label == "positive":
        if table.positive is None:
            raise DataError(
                f"{rows.name}: label positive is for two classes, {table.known}"
            )
        score, outcome = table.positive, (table.y == 1).astype(np.float64)
    order = np.lexsort(
        (outcome, score)
    )  # the hash does not depend on the order of the rows
    digest = hashlib.sha256(
        score[order].tobytes() + outcome[order].astype(np.uint8).tobytes()
    ).hexdigest()
    before = next((batch for batch in state.batches if batch.sha256 == digest), None)
    if before is not None:
        raise DataError(
            f"{rows.name}: these rows were there before, as {before.name}; a batch counts once"
        )
    units = rows.given_units
    found = state.evidence.after(
        batch_log_factors(score, outcome, settings.tolerance, units)
    )
    means = float(outcome.mean()), float((score - outcome).mean())
    sizes = table.n, None if units is None else units.n
    batch = Batch(rows.name, digest, state.episode, *sizes, *means, found.log_e)
    sums, best, starts = (
        found.log_sums.tolist(),
        found.log_best.tolist(),
        [int(start) for start in found.best_start],
    )
    evidence: dict[str, Any] = {
        "log_sums": sums,
        "log_best": best,
        "best_start": starts,
    }
    batches = [*state.batches, batch]
    return msgspec.structs.replace(
        state, calcli_version=__version__, batches=batches, **evidence
    )
