"""Bundles that are made one by one, here or by workers, and not made again when the same command goes on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from calcli.cli.context import CommandContext, job_file
from calcli.cli.render import Console
from calcli.errors import CalcliError, DataError, WorkersLost
from calcli.fast_dataclass import dataclass
from calcli.io.atomic import discard_abandoned
from calcli.io.inputs import noting


@dataclass(frozen=True)
class ShardOutcome:
    """What came of one bundle: facts or an error, and the words on the way."""

    facts: Any
    error: CalcliError | None = None
    words: tuple[str, ...] = ()

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


@dataclass(frozen=True)
class Shard:
    """One bundle to be made: a task for a worker, who talks to nobody. name : what people call it. work : makes it for
    a command, of these args. asked, files : what determines the output, and the files that it is made of."""

    name: str
    target: Path
    work: Callable[[CommandContext], Any]
    args: Any
    asked: Any
    files: tuple[str, ...]

    def __call__(self) -> ShardOutcome:
        heard = Heard(self.args)
        with noting():
            found = tried(partial(self.work, heard))
        return replace(found, words=tuple(heard.words))

    @property
    def key(self) -> bytes:
        """What determines the output. Raises DataError for a file that is gone."""
        from calcli.workers.journal import key_of
        from calcli.workers.task import mark

        return key_of(repr((self.asked, self.target, [mark(name) for name in self.files])).encode())


def tried(work: Callable[[], Any]) -> ShardOutcome:
    """What comes of work in this process. Raises WorkersLost."""
    try:
        return ShardOutcome(work())
    except WorkersLost:
        raise
    except CalcliError as error:
        return ShardOutcome(None, error)


def made(shards: Sequence[Shard], command: CommandContext, output: str) -> Iterator[ShardOutcome]:
    """What came of every shard, in their order: made here, or several by workers where there are some. output : the
    folder of all, beside which the job file lies until everything is made: what an earlier run of the command has made,
    and is whole, is kept."""
    if command.executor is None or len(shards) == 1:
        for shard in shards:
            yield tried(partial(shard.work, command))
        return
    from calcli.workers.task import mark

    with job_file(output) as journal:
        assert journal is not None
        known: dict[int, ShardOutcome] = {}
        for at, shard in enumerate(shards):
            with suppress(KeyError, DataError, TypeError, ValueError):  # not there, changed; no such three things
                facts, words, was = journal[shard.key]
                if mark(str(shard.target)) == was:
                    known[at] = ShardOutcome(facts, None, tuple(words))
        fresh = [shard for at, shard in enumerate(shards) if at not in known]
        answers: Iterator[Any] = command.executor.run(fresh)
        failed = False
        try:
            for done, shard in enumerate(shards):
                command.progress("bundles made", done, len(shards))
                outcome = known[done] if done in known else next(answers)
                if done not in known and outcome.error is None:
                    journal[shard.key] = outcome.facts, list(outcome.words), mark(str(shard.target))
                failed = failed or outcome.error is not None
                yield outcome
        finally:
            answers.close()  # type: ignore[attr-defined]
            for shard in fresh:
                discard_abandoned(shard.target)
        if known:
            command.say(f"kept {len(known)} of {len(shards)} outputs that were whole already")
        journal.keep = failed
