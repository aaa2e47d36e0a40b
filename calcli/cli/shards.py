"""Bundles that are made one by one, here or by workers, and not made again when the same command goes on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from calcli.cli.context import CommandContext, job_file
from calcli.cli.render import Console
from calcli.errors import CalcliError, DataError, WorkersLost
from calcli.fast_dataclass import dataclass
from calcli.io.atomic import discard_abandoned
from calcli.io.inputs import noting

if TYPE_CHECKING:
    from calcli.workers.journal import Journal
    from calcli.workers.task import Executor


class Shard(Protocol):
    """One bundle to be made: a task for a worker, and what determines its output."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> Path: ...
    @property
    def key(self) -> bytes: ...
    def __call__(self) -> "ShardOutcome": ...


@dataclass(frozen=True)
class ShardOutcome:
    """What came of one bundle: facts or an error, and the words on the way; kept : it was done before."""

    facts: Any
    error: CalcliError | None = None
    words: tuple[str, ...] = ()
    kept: bool = False

    def told(self, talk: Console) -> Any:
        """Say the words; returns the facts. Raises the error."""
        talk.clear()
        for word in self.words:
            talk.say(word)
        if self.error is not None:
            raise self.error
        return self.facts


class Heard(CommandContext):
    """Keeps what is said."""

    def __init__(self, args: Any) -> None:
        super().__init__(args, quiet=True)
        self.words: list[str] = []

    def say(self, text: str = "") -> None:
        self.words.append(text)


def tried(work: Callable[[], Any]) -> ShardOutcome:
    """What comes of work in this process. Raises WorkersLost."""
    try:
        return ShardOutcome(work())
    except WorkersLost:
        raise
    except CalcliError as error:
        return ShardOutcome(None, error)


def attempted(args: Any, work: Callable[[CommandContext], Any]) -> ShardOutcome:
    """What comes of work in a worker, which talks to nobody. args : options of the command."""
    heard = Heard(args)
    with noting():
        found = tried(lambda: work(heard))
    return replace(found, words=tuple(heard.words))


def dealt_out(shards: Sequence[Shard], executor: "Executor", output: str, talk: Console) -> Iterator[ShardOutcome]:
    """What came of every shard, made by workers; those that an earlier run of the command has made are kept.

    output : the folder of all, beside which the job file lies until everything is made.
    """
    with job_file(output) as journal:
        assert journal is not None
        failed = kept = 0
        for outcome in _outcomes(shards, executor, journal, talk):
            failed += outcome.error is not None
            kept += outcome.kept
            yield outcome
        if kept:
            talk.say(f"kept {kept} of {len(shards)} outputs that were whole already")
        journal.keep = bool(failed)


def _outcomes(
    shards: Sequence[Shard], executor: "Executor", journal: "Journal", talk: Console
) -> Iterator[ShardOutcome]:
    """What came of every shard, in their order; those that the journal knows to be whole are not done again."""
    from calcli.workers.task import mark

    known: dict[int, ShardOutcome] = {}
    for at, shard in enumerate(shards):
        with suppress(KeyError, DataError, TypeError, ValueError):  # not there, changed; no such three things
            facts, words, was = journal[shard.key]
            if mark(str(shard.target)) == was:
                known[at] = ShardOutcome(facts, None, tuple(words), kept=True)
    fresh = [shard for at, shard in enumerate(shards) if at not in known]
    answers: Iterator[Any] = executor.run(fresh)
    try:
        for done, shard in enumerate(shards):
            talk.progress("bundles made", done, len(shards))
            if done in known:
                yield known[done]
                continue
            outcome = next(answers)
            if outcome.error is None:
                journal[shard.key] = outcome.facts, list(outcome.words), mark(str(shard.target))
            yield outcome
    finally:
        answers.close()  # type: ignore[attr-defined]
        for shard in fresh:
            discard_abandoned(shard.target)
