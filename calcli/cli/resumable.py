"""The job file of a command, and bundles made one by one with it, here or by workers.

After a stop the command goes on where it was.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calcli.cli.context import CommandContext
from calcli.errors import CalcliError, DataError, WorkersLost
from calcli.io.atomic import discard_abandoned, real_place
from calcli.io.inputs import noting

if TYPE_CHECKING:
    from calcli.workers.journal import Journal


@contextmanager
def job_file(target: str | None) -> "Iterator[Journal | None]":
    """Open the job file, which keeps finished parts while an output is made.

    It lies beside the output, and is left there when the work was cut short or an input
    was bad: the same command resumes from it. Yields None without a target. Raises
    UsageError while another process makes the output.
    """
    if target is None or target == "-":
        yield None
        return
    from calcli.workers.journal import Journal

    path = Path(f"{real_place(Path(target))}.job")
    journal = Journal(path)
    done = False
    try:
        yield journal
        done = True
    except WorkersLost as problem:
        message = str(problem)
        if len(journal):
            message += f"; what is done is kept in {path}"
        raise WorkersLost(message) from None
    except CalcliError as problem:
        # Bad input can be put right and resumed; after another error, such as a full
        # disk, the job file goes.
        done = not isinstance(problem, DataError)
        raise
    finally:
        journal.close(done=done)


ShardOutcome = tuple[Any, list[str], CalcliError | None]
"""Outcome of one bundle: facts (None on failure), messages, and the error or None."""


class RecordingContext(CommandContext):
    """Context that keeps messages instead of printing them."""

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        self.quiet = True
        self.messages: list[str] = []

    def say(self, text: str = "") -> None:
        """Keep a message."""
        self.messages.append(text)


@dataclass(frozen=True)
class Shard:
    """Task of making one bundle, for a worker, which prints nothing.

    name : shown to users. work : makes the bundle, given a context with args. asked,
    files : the settings and input files that determine the output.
    """

    name: str
    target: Path
    work: Callable[[CommandContext], Any]
    args: Any
    asked: Any
    files: tuple[str, ...]

    def __call__(self) -> ShardOutcome:
        recording = RecordingContext(self.args)
        try:
            with noting():
                return self.work(recording), recording.messages, None
        except CalcliError as error:
            return None, recording.messages, error

    @property
    def key(self) -> bytes:
        """Key in the job file: a hash of settings, target and input files.

        Raises DataError for a file that is gone.
        """
        from calcli.workers.journal import key_of
        from calcli.workers.shared_bundles import file_stamp

        stamps = [file_stamp(name) for name in self.files]
        return key_of(repr((self.asked, self.target, stamps)).encode())


def made(
    shards: Sequence[Shard], command: CommandContext, output: str
) -> Iterator[Callable[[], Any]]:
    """Yield, per shard in order, a call that returns its facts or raises its error.

    Without workers, or for one shard, the call makes the bundle; else workers have made
    it, and the call reports it. output : folder of the bundles. The job file lies beside
    it until all are made; bundles that an earlier run of the command has completed are
    kept.
    """
    if command.executor is None or len(shards) == 1:
        for shard in shards:
            yield partial(shard.work, command)
        return
    from calcli.workers.shared_bundles import file_stamp

    with job_file(output) as journal:
        assert journal is not None
        known = _completed(shards, journal)
        fresh = [shard for shard in shards if shard.target not in known]
        answers: Iterator[ShardOutcome] = command.executor.run(fresh)
        try:
            for done, shard in enumerate(shards):
                command.progress("bundles made", done, len(shards))
                if shard.target in known:
                    outcome = known[shard.target]
                else:
                    outcome = next(answers)
                    facts, messages, error = outcome
                    if error is not None:
                        journal.keep = True
                    else:
                        target_stamp = tuple(file_stamp(str(shard.target)))
                        journal[shard.key] = (facts, messages, target_stamp)
                yield partial(_facts_of, command, outcome)
        finally:
            answers.close()  # type: ignore[attr-defined]
            for shard in fresh:
                discard_abandoned(shard.target)
        if known:
            command.say(
                f"kept {len(known)} of {len(shards)} outputs that were whole already"
            )


def _completed(shards: Sequence[Shard], journal: "Journal") -> dict[Path, ShardOutcome]:
    """Outcomes of the shards that an earlier run has completed, by target."""
    from calcli.workers.shared_bundles import file_stamp

    outcomes: dict[Path, ShardOutcome] = {}
    for shard in shards:
        # A file may be absent or changed, an entry may not be these three values.
        with suppress(KeyError, DataError, TypeError, ValueError):
            facts, messages, target_stamp = journal[shard.key]
            if file_stamp(str(shard.target)) == target_stamp:
                outcomes[shard.target] = (facts, list(messages), None)
    return outcomes


def _facts_of(command: CommandContext, outcome: ShardOutcome) -> Any:
    """Print the messages of a shard; returns its facts, or raises its error."""
    facts, messages, error = outcome
    command.clear()
    for message in messages:
        command.say(message)
    if error is not None:
        raise error
    return facts
