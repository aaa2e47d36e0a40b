"""Give a running command its messages, workers, bundles and exit code."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from calcli.cli.render import Console, fail, print_json, print_path
from calcli.errors import CalcliError, DataError, UsageError, WorkersLost
from calcli.fitting.compatibility import check_fits
from calcli.importers.open_any_file import open_data
from calcli.io.artifact import Artifact
from calcli.io.atomic import check_output, discard_abandoned, real_place
from calcli.io.dataset import DataSet
from calcli.io.inputs import noting
from calcli.io.read_line import read_line
from calcli.numerics import AnyArray, time_order

if TYPE_CHECKING:
    from calcli.workers.executor import Executor
    from calcli.workers.journal import Journal


class CommandContext(Console):
    """Context and console of a running command.

    In a ``with`` block it has the workers that were asked for. args : the options.
    executor : the workers, None for this process alone. code : the worst exit code so
    far.
    """

    def __init__(self, args: Any) -> None:
        super().__init__(args.quiet)
        self.args = args
        self.code = 0
        self.executor: Executor | None = None
        self._names_said: set[str] = set()

    def __enter__(self) -> Self:
        workers = getattr(self.args, "workers", None)
        cluster = getattr(self.args, "cluster", None)
        if workers is not None and cluster is not None:
            raise UsageError(
                "--workers and --cluster exclude each other: the cluster has workers"
                " of its own"
            )
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

    # ---- opening bundles

    @contextmanager
    def rows(
        self,
        names: Sequence[str],
        prefer: tuple[str, ...] = ("test",),
        journal: "Journal | None" = None,
        need_labels: bool = True,
    ) -> Iterator[DataSet]:
        """Open bundles as one data set, read by the workers if there are any.

        Prints how arrays were read, and how many rows are left out by their label.
        """
        how = {"prefer": prefer, "need_labels": need_labels, **self.args.opening}
        with open_data(names, tell=self.say, **how) as rows:
            if rows.arrays:
                self._names_said.add(rows.name)
            if self.executor is not None:
                from calcli.workers.passes import spread_over

                spread_over(rows, names, self.executor, how, journal)
            if rows.ignored:
                self.say(
                    f"{rows.name}: left out {rows.ignored} of {rows.total} rows by"
                    " their label"
                )
            yield rows

    def say_read(self, rows: DataSet) -> None:
        """Say what was read: file, samples and classes."""
        self.say_read_name(rows.name, rows.n, rows.k)

    def say_read_name(self, name: str, n: int, k: int) -> None:
        """Say what was read: file, samples and classes.

        Of an imported file it was said when it was opened.
        """
        if name not in self._names_said:
            self.say(read_line(name, n, k))

    def caveats(self, rows: DataSet) -> None:
        """Print the caveats of these rows, complete after a pass over them."""
        for caveat in rows.caveats:
            self.warn(f"{rows.name}: {caveat}")

    def tell_order(self, rows: DataSet, column: AnyArray) -> None:
        """Say in which order batches are shown. column : batch of every row."""
        order = time_order(column)
        first = str(order.values[0])
        last = str(order.values[-1])
        how = "in the order of their numbers"
        if not order.by_numbers:
            how = "as they first occur in the file"
        text = f"{rows.name}: batches {how}, from {first} to {last}"
        if not order.by_numbers:
            text += " (dates such as 2024-01-31 would be sorted)"
        self.say(text)

    def check_fits(
        self, artifact: Artifact | None, name: str | None, rows: DataSet
    ) -> list[str]:
        """Warn of doubts about a calibrator on these rows; returns them.

        Raises DataError where it does not fit.
        """
        if artifact is None:
            return []
        where = "<stdin>" if name == "-" else str(name)
        again = getattr(self.args, "again", False)
        notes = check_fits(artifact, where, rows, again=again)
        for note in notes:
            self.warn(note)
        return notes

    def written(self, path: object, facts: Any) -> None:
        """Print facts as JSON with --json, else the path of the output.

        Prints nothing if the output went to stdout.
        """
        if path == "-":
            return
        if self.args.json:
            print_json(facts)
        else:
            print_path(path)

    # ---- failures

    def fail(self, problem: object, code: int) -> None:
        """Print an error, and keep its exit code if it is the worst so far."""
        self.clear()
        self.code = max(self.code, fail(str(problem), code))

    @contextmanager
    def trying(
        self, several: bool, kind: type[CalcliError] = CalcliError
    ) -> Iterator[None]:
        """Print the failure of one of several items and go on to the others.

        A single item or WorkersLost raises.
        """
        try:
            yield
        except kind as problem:
            if not several or isinstance(problem, WorkersLost):
                raise
            self.fail(problem, problem.exit_code)
        finally:
            self.clear()


def check_weights(rows: DataSet) -> None:
    """Refuse rows whose weights are all 0. Raises DataError."""
    weights = rows.weights()
    if weights is not None and not weights.any():
        raise DataError(
            f"{rows.name}: all rows that are left have weight 0, expected one above;"
            " nothing can be shown"
        )


def artifact_target(default: str, output: str | None, *, force: bool) -> str:
    """Path of the one artifact that a command writes, - for stdout. Raises UsageError."""
    target = default if output is None else output
    if target in ("-", "/dev/stdout"):
        return "-"
    if target.endswith("/"):
        raise UsageError(
            f"-o {target!r}: expected a file's name, e.g. -o {target}{default}"
        )
    check_output(Path(target), force=force)
    return target


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
        # A full disk, too, has no room for what is done.
        done = not isinstance(problem, DataError)
        raise
    finally:
        journal.close(done=done)


# ---- bundles that are made one by one, here or by workers
#
# They are not made again when the same command resumes.

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

    The call makes the bundle, unless there are workers and several shards: then they
    have made it. output : folder of the bundles. The job file lies beside it until all
    are made; bundles that an earlier run of the command has completed are kept.
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
