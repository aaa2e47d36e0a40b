"""Bundles that are made one by one, here or by workers, and not made again when the same command goes on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from calcli.cli.context import CommandContext, job_file
from calcli.errors import CalcliError, DataError
from calcli.fast_dataclass import dataclass
from calcli.io.atomic import discard_abandoned
from calcli.io.inputs import noting

ShardOutcome = tuple[Any, list[str], CalcliError | None]
"""What came of one bundle: facts, the words on the way, and the error in place of the facts."""


class Heard(CommandContext):
    """Keeps what is said."""

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        self.quiet, self.words = True, list[str]()

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
        try:
            with noting():
                return self.work(heard), heard.words, None
        except CalcliError as error:
            return None, heard.words, error

    @property
    def key(self) -> bytes:
        """What determines the output. Raises DataError for a file that is gone."""
        from calcli.workers.journal import key_of
        from calcli.workers.task import mark

        return key_of(repr((self.asked, self.target, [mark(name) for name in self.files])).encode())


def made(shards: Sequence[Shard], command: CommandContext, output: str) -> Iterator[Callable[[], Any]]:
    """For every shard, in their order, a call that returns its facts or raises what went wrong: it is made then, or
    was by workers where there are some and several shards. output : the folder of all, beside which the job file lies
    until everything is made: what an earlier run of the command has made, and is whole, is kept."""
    if command.executor is None or len(shards) == 1:
        yield from (partial(shard.work, command) for shard in shards)
        return
    from calcli.workers.task import mark

    with job_file(output) as journal:
        assert journal is not None
        known: dict[Path, ShardOutcome] = {}
        for shard in shards:
            with suppress(KeyError, DataError, TypeError, ValueError):  # not there, changed; no such three things
                facts, words, was = journal[shard.key]
                if mark(str(shard.target)) == was:
                    known[shard.target] = facts, list(words), None
        fresh = [shard for shard in shards if shard.target not in known]
        answers: Iterator[ShardOutcome] = command.executor.run(fresh)
        try:
            for done, shard in enumerate(shards):
                command.progress("bundles made", done, len(shards))
                facts, words, error = known[shard.target] if shard.target in known else next(answers)
                if error is not None:
                    journal.keep = True
                elif shard.target not in known:
                    journal[shard.key] = facts, words, mark(str(shard.target))
                yield partial(_told, command, facts, words, error)
        finally:
            answers.close()  # type: ignore[attr-defined]
            for shard in fresh:
                discard_abandoned(shard.target)
        if known:
            command.say(f"kept {len(known)} of {len(shards)} outputs that were whole already")


def _told(command: CommandContext, facts: Any, words: list[str], error: CalcliError | None) -> Any:
    command.clear()
    for word in words:
        command.say(word)
    if error is not None:
        raise error
    return facts
