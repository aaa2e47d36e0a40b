"""A command at work: its words, its workers, the bundles that it opens and makes, the worst of its exit codes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from calcli.cli.render import Console, fail, print_json, print_path
from calcli.errors import CalcliError, DataError, UsageError, WorkersLost
from calcli.fast_dataclass import dataclass
from calcli.fit_and_apply import check_fits, fitted_on
from calcli.importers.open_any_file import open_data
from calcli.io.artifact import Artifact
from calcli.io.atomic import discard_abandoned, real_place
from calcli.io.dataset import DataSet
from calcli.io.inputs import noting
from calcli.io.provenance import NOT_HELD_OUT

if TYPE_CHECKING:
    from calcli.workers.journal import Journal
    from calcli.workers.task import Executor


class CommandContext(Console):
    """A command at work, from which it speaks. Entered, it has the workers that were asked for, until it is left.
    args : the options. executor : the workers, None for this process alone. code : the worst exit code so far."""

    def __init__(self, args: Any) -> None:
        super().__init__(args.quiet)
        self.args, self.code = args, 0
        self.executor: Executor | None = None

    def __enter__(self) -> Self:
        workers, cluster = getattr(self.args, "workers", None), getattr(self.args, "cluster", None)
        if workers is not None and cluster is not None:
            raise UsageError("--workers and --cluster exclude each other: the cluster has workers of its own")
        if cluster is not None:
            from calcli.workers.dask_cluster import DaskCluster

            self.executor = DaskCluster(cluster, self.say)
        elif workers is not None:
            from calcli.workers.processes import Processes

            self.executor = Processes(workers, self.say)
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        if self.executor is not None:
            self.executor.close()

    # ---- what is opened

    @contextmanager
    def rows(
        self,
        names: Sequence[str],
        prefer: tuple[str, ...] = ("test",),
        journal: "Journal | None" = None,
        need_labels: bool = True,
    ) -> Iterator[DataSet]:
        """The rows of bundles as one data set, over which workers walk where there are some. Says what was read as
        what, and how many rows are left out by their label."""
        how = {"prefer": prefer, "need_labels": need_labels, **self.args.opening}
        with open_data(names, tell=self.say, **how) as rows:
            if self.executor is not None:
                from calcli.workers.task import spread_over

                spread_over(rows, names, self.executor, how, journal)
            if rows.ignored:
                self.say(f"{rows.name}: left out {rows.ignored} of {rows.total} rows by their label")
            yield rows

    def caveats(self, rows: DataSet) -> None:
        """Warn of what every report of these rows must say; after a walk over them."""
        for caveat in rows.caveats:
            self.warn(f"{rows.name}: {caveat}")

    def check_fits(self, artifact: Artifact | None, name: str | None, rows: DataSet) -> list[str]:
        """Warn of what is odd about a calibrator on these rows; returns it. Raises DataError where it does not fit."""
        again, where = getattr(self.args, "again", False), "<stdin>" if name == "-" else str(name)
        notes = [] if artifact is None else check_fits(artifact, where, rows, again=again)
        for note in notes:
            self.warn(note)
        return notes

    def written(self, path: object, facts: Any) -> None:
        """Print what was found out as JSON where that was asked for, else the name of the output; nothing where the
        output itself went to stdout."""
        if self.args.json and path != "-":
            print_json(facts)
        elif path != "-":
            print_path(path)

    # ---- what fails

    def fail(self, problem: object, code: int) -> None:
        """Say what has failed, and remember the exit code if it is the worst so far."""
        self.clear()
        self.code = max(self.code, fail(str(problem), code))

    @contextmanager
    def trying(self, several: bool, kind: type[CalcliError] = CalcliError) -> Iterator[None]:
        """One of several things to do: where it fails, that is said, and the others are done. Alone, it raises."""
        try:
            yield
        except kind as problem:
            if not several or isinstance(problem, WorkersLost):
                raise
            self.fail(problem, problem.exit_code)
        finally:
            self.clear()


def check_weights(rows: DataSet) -> None:
    """Refuse rows of which none counts. Raises DataError."""
    weights = rows.weights()
    if weights is not None and not weights.any():
        raise DataError(f"{rows.name}: all rows that are left have weight 0, expected one above; nothing can be shown")


def not_held_out(artifact: Artifact | None, rows: DataSet) -> str | None:
    """What a calibrator shows on rows that it was fitted on, in a sentence; None where it was not."""
    own = None if artifact is None else fitted_on(artifact, rows)
    return None if own is None else f"the calibrator was fitted on {own}: {NOT_HELD_OUT}"


@contextmanager
def job_file(target: str | None) -> "Iterator[Journal | None]":
    """Where finished parts of an output are kept beside it while it is made, by one process at a time; None for none.
    Left there when the work was cut short or an input was bad, for the same command to go on from. Raises UsageError
    while another process makes the output."""
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
        raise WorkersLost(f"{problem}{f'; what is done is kept in {path}' if len(journal) else ''}") from None
    except CalcliError as problem:  # a full disk, too, has no room for what is done
        done = not isinstance(problem, DataError)
        raise
    finally:
        journal.close(done=done)


# ---- bundles that are made one by one, here or by workers, and not made again when the same command goes on

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
