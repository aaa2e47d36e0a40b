"""Give a running command its messages, workers, bundles and exit code."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from calcli.cli.render import Console, fail, print_json, print_path
from calcli.errors import CalcliError, UsageError, WorkersLost
from calcli.fitting.compatibility import check_fits
from calcli.importers.open_any_file import open_data
from calcli.io.artifact import Artifact
from calcli.io.atomic import check_output
from calcli.io.dataset import DataSet
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
        known_classes: Sequence[str] | None = None,
        opening: Mapping[str, Any] | None = None,
    ) -> Iterator[DataSet]:
        """Open bundles as one data set, read by the workers if there are any.

        Prints how arrays were read, and how many rows are left out by their label.
        known_classes : of a calibrator, after which columns may be named. opening :
        options of reading in place of those of the command.
        """
        if opening is None:
            opening = self.args.opening
        how = {"prefer": prefer, "need_labels": need_labels, **opening}
        if known_classes:
            how["known_classes"] = known_classes
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
