"""Monitor a deployed calibrator on batches of labelled rows, with an alarm of known
false-alarm rate.

The evidence after each batch is kept in a state file (``watch_state.py``). See
``calcli.statistics.betting`` for the test.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from calcli import __version__
from calcli.errors import DataError, UsageError
from calcli.evaluation.watch_repeats import (
    EarlierBatch,
    NewBatch,
    check_new,
    is_no_chance,
    longest_run,
)
from calcli.evaluation.watch_state import (
    FORMAT,
    Batch,
    Settings,
    State,
    loads,
    locked_state,
    read,
    save_state,
)
from calcli.fitting.rows_of_fit import fitted_on
from calcli.io.artifact import Artifact
from calcli.io.dataset import DataSet
from calcli.io.provenance import in_sample, link_to
from calcli.metrics.collect import collect
from calcli.numerics import BoolArray, FloatArray, IntArray
from calcli.statistics.betting import batch_log_factors
from calcli.statistics.units import Units

Tell = Callable[[str], None]


class CountedBefore(DataError):
    """All rows of a batch were counted before."""


def check_state_path(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse a state file that is an input of the command. Raises UsageError."""
    for source in inputs:
        try:
            is_same = path.samefile(source)
        except OSError:  # one of them does not exist
            continue
        if is_same:
            raise UsageError(
                f"--state {path}: is {source}, which this command reads; the evidence"
                " is kept in a file of its own, such as watch.json"
            )


def watch(
    path: Path,
    rows: DataSet | None,
    artifact: Artifact | None,
    chosen: Mapping[str, Any],
    *,
    new_episode: bool = False,
    tell: Tell = lambda text: None,
) -> State:
    """Take a batch of labelled rows into a state file, or only read it where rows is
    None.

    artifact : the calibrator of the rows, None for the uncalibrated scores. chosen :
    ``tolerance``, ``level`` and ``label`` as far as given; the others are those of the
    batches before. new_episode : evidence starts anew. tell : receives what was left
    out of the batch, and why.

    Raises UsageError for settings out of range, DataError for a batch that was there
    before, one that the calibrator was fitted to, weighted rows, and where calibrator
    or settings are others than before; the file is then unchanged.
    """
    if rows is None and not new_episode:
        state = read(str(path))
        _check_same_settings(path, state, replace(state.settings, **chosen), artifact)
        return state
    with locked_state(path, loads) as former:
        batch = None if rows is None else LabelledBatch(rows, artifact, tell)
        state = next_state(path, former, batch, chosen, new_episode=new_episode)
        if rows is not None or new_episode:
            save_state(path, state, is_new=former is None)
        return state


@dataclass(frozen=True)
class LabelledBatch:
    """Labelled rows and their calibrator. tell : receives what is left out, and why."""

    rows: DataSet
    artifact: Artifact | None
    tell: Tell


def next_state(
    path: Path,
    former: State | None,
    batch: LabelledBatch | None,
    chosen: Mapping[str, Any],
    *,
    new_episode: bool,
) -> State:
    """State after one more batch, or at the beginning of an episode.

    path : of the state file, for messages. Raises as ``watch``.
    """
    rows = artifact = None
    if batch is not None:
        rows = batch.rows
        artifact = batch.artifact
    settings = _settings(former, rows, artifact, chosen)
    if former is None:
        state = _first_state(settings)
    elif new_episode:
        state = _new_episode(former, settings)
    else:
        _check_same_settings(path, former, settings, artifact)
        state = former
    if batch is not None:
        state = _with_batch(state, batch.rows, batch.artifact, batch.tell)
    return replace(state, calcli_version=__version__)


def _first_state(settings: Settings) -> State:
    return State(
        calcli_watch=FORMAT,
        calcli_version=__version__,
        settings=settings,
        episode=1,
        log_sums=[],
        log_best=[],
        best_start=[],
        batches=[],
    )


def _new_episode(former: State, settings: Settings) -> State:
    """State with evidence 1, its own level and perhaps another calibrator; earlier
    batches are kept."""
    episode = former.episode + 1 if former.current.batches else former.episode
    return replace(
        former,
        settings=settings,
        episode=episode,
        log_sums=[],
        log_best=[],
        best_start=[],
    )


# ---- settings


def _settings(
    former: State | None,
    rows: DataSet | None,
    artifact: Artifact | None,
    chosen: Mapping[str, Any],
) -> Settings:
    """Settings of the batches before, with those given, and those that follow from the
    rows."""
    settings = Settings() if former is None else former.settings
    settings = replace(settings, **chosen)
    if rows is None:
        return settings
    return replace(
        settings,
        calibrator=_chain_of(rows, artifact),
        units=chosen.get("units", rows.given_units is not None),
    )


def _chain_of(rows: DataSet, artifact: Artifact | None) -> str | None:
    """Hashes of all calibrators that the scores have been through: those applied
    before, and the one given; None for uncalibrated scores."""
    links = list(rows.upstream)
    if artifact is not None:
        links.append(link_to(artifact))
    return "+".join(link.sha256 for link in links) or None


def _check_same_settings(
    path: Path, former: State, settings: Settings, artifact: Artifact | None
) -> None:
    """Refuse a batch with other settings than those before. Raises DataError."""
    before = former.settings
    is_unknown = former.is_of_former_version and before.calibrator is None
    if is_unknown and artifact is None:
        # calcli 0.2 did not look whether the rows of a file were calibrated.
        before = replace(before, calibrator=settings.calibrator)
    check_no_difference(path, settings.differences(before))


def check_no_difference(path: Path, names: Sequence[str]) -> None:
    """Refuse settings that differ from those before. Raises DataError."""
    if names:
        raise DataError(
            f"{path}: the batches before had another {' and '.join(names)}; a reset"
            " opens a new episode"
        )


# ---- one more batch


@dataclass(frozen=True)
class Bets:
    """What is bet on: the score of every row, (n,), its outcome, and the units."""

    score: FloatArray
    outcome: FloatArray
    units: Units | None

    @classmethod
    def of(cls, rows: DataSet, artifact: Artifact | None, label: str) -> "Bets":
        """Scores and outcomes through the calibrator. Raises DataError for more than
        two classes where P(class 1) is watched."""
        calibrator = None if artifact is None else artifact.calibrator
        table = collect(rows, calibrator, top_only=label == "top")
        units = rows.given_units
        if label == "top":
            return cls(table.confidence, table.correct, units)
        if table.positive is None:
            raise DataError(
                f"{rows.name}: label positive is for two classes, {table.known}"
            )
        return cls(table.positive, (table.y == 1).astype(np.float64), units)

    @property
    def sha256(self) -> str:
        """Hash that does not depend on the order of the rows."""
        order = np.lexsort((self.outcome, self.score))
        outcome = self.outcome[order].astype(np.uint8)
        return hashlib.sha256(
            self.score[order].tobytes() + outcome.tobytes()
        ).hexdigest()

    def take(self, rows: IntArray) -> "Bets":
        """Some of the rows."""
        units = None if self.units is None else Units.of(self.units.code[rows])
        return Bets(self.score[rows], self.outcome[rows], units)

    def repeated_from(self, first: int) -> BoolArray:
        """True for the rows from this one on whose unit has rows before it."""
        if self.units is None:
            return np.zeros(len(self.score) - first, dtype=bool)
        return np.isin(self.units.code[first:], self.units.code[:first])


def _with_batch(
    state: State, rows: DataSet, artifact: Artifact | None, tell: Tell
) -> State:
    """State after one more batch of labelled rows. Raises DataError."""
    _check_usable(rows, artifact)
    bets = Bets.of(rows, artifact, state.settings.label)
    batch = NewBatch.of(rows, bets.score, bets.outcome)
    earlier = [_earlier(member) for member in state.batches]
    first = _first_new_row(batch, bets, earlier, state.batches, tell)
    repeated = bets.repeated_from(first)
    new_rows = first + np.flatnonzero(~repeated)
    if first:
        batch = batch.after(first)
    check_new(batch, earlier)
    if repeated.any():
        _say_repeated(rows.name, repeated, tell)
    bets = bets.take(new_rows)
    log_factors = batch_log_factors(
        bets.score, bets.outcome, state.settings.tolerance, bets.units
    )
    evidence = state.evidence.after(log_factors)
    record = Batch(
        name=rows.name,
        sha256=bets.sha256,
        episode=state.episode,
        n=len(bets.score),
        units=None if bets.units is None else bets.units.n,
        accuracy=float(bets.outcome.mean()),
        overconfidence=float((bets.score - bets.outcome).mean()),
        log_e=evidence.log_e,
        row_sketch=batch.row_sketch,
        score_sketch=batch.score_sketch,
        id_sketch=batch.id_sketch or UNSET,
        score_counts=batch.counted.counts,
        left_out=first or UNSET,
        repeated=int(repeated.sum()) or UNSET,
    )
    # Of rows from a table only the first digits of a hash are known.
    chain = state.settings.calibrator or _chain_of(rows, artifact)
    return replace(
        state,
        settings=replace(state.settings, calibrator=chain),
        log_sums=evidence.log_sums.tolist(),
        log_best=evidence.log_best.tolist(),
        best_start=list(map(int, evidence.best_start)),
        batches=[*state.batches, record],
    )


def _say_repeated(name: str, repeated: BoolArray, tell: Tell) -> None:
    """Say how many new rows are of units that were counted, which show no new outcome.

    Raises CountedBefore where all are.
    """
    n = int(repeated.sum())
    if n == len(repeated):
        raise CountedBefore(
            f"{name}: all {n} new rows are of units that were already counted"
        )
    tell(
        f"{name}: {n} of {len(repeated)} new rows are of units that were already"
        " counted: left out"
    )


def _check_usable(rows: DataSet, artifact: Artifact | None) -> None:
    """Refuse weighted rows, and those of the calibrator's fit. Raises DataError."""
    if rows.weights() is not None:
        raise DataError(
            f"{rows.name}: has sample weights; the evidence is exact for rows that"
            " count alike; pass --sample-weight none to count each of them once"
        )
    reason = in_sample(rows.upstream)
    if not reason and artifact is not None:
        rows_of_fit = fitted_on(artifact, rows)
        if rows_of_fit:
            reason = f"the calibrator was fitted on {rows_of_fit}"
    if reason:
        raise DataError(f"{rows.name}: {reason}; watch rows that it has not seen")


def _earlier(batch: Batch) -> EarlierBatch:
    return EarlierBatch(
        name=batch.name,
        n=batch.n + (batch.repeated or 0),
        rows=batch.row_sketch or None,
        scores=batch.score_sketch or None,
        ids=batch.id_sketch or None,
        counts=batch.score_counts or None,
    )


def _first_new_row(
    batch: NewBatch,
    bets: Bets,
    earlier: Sequence[EarlierBatch],
    records: Sequence[Batch],
    tell: Tell,
) -> int:
    """Number of the rows at the start of a file that were in earlier batches: 0, or
    those of a log that grows. Raises DataError where all of them were."""
    n = len(batch.rows)
    run = longest_run(batch, earlier)
    if run is not None and run.n < n:
        if not is_no_chance(batch, run.n, earlier):
            return 0
        tell(
            f"{batch.name}: the first {run.n} of {n} rows were already counted"
            f" ({run.called}); the other {n - run.n} are new"
        )
        return run.n
    if run is not None:
        same: str | None = run.called
    else:
        same = _batch_with(bets, batch, records)
    if same is None:
        return 0
    if is_no_chance(batch, n, earlier):
        raise CountedBefore(f"{batch.name}: this batch was already counted ({same})")
    tell(
        f"{batch.name}: the rows are equal to those of {same}; they have few values,"
        " and chance makes that likely: they count as new"
    )
    return 0


def _batch_with(bets: Bets, batch: NewBatch, records: Sequence[Batch]) -> str | None:
    """Name of the batch with the same scores and outcomes; None if there is none, or
    ids tell them apart."""
    sha256 = bets.sha256
    for record in records:
        have_ids = batch.ids is not None and bool(record.id_sketch)
        if record.sha256 == sha256 and not have_ids:
            return record.name
    return None
