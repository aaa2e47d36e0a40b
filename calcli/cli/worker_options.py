"""Options and words of commands that spread their work over processes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calcli.cli.render import Talk
from calcli.errors import FitError, UsageError, WorkersLost
from calcli.fast_dataclass import dataclass
from calcli.flags import flag
from calcli.importers.open_any_file import open_data
from calcli.io.atomic import real_place

if TYPE_CHECKING:
    from calcli.cli.options import Reading
    from calcli.io.dataset import DataSet
    from calcli.workers.executor import Executor
    from calcli.workers.journal import Journal

MOST_WORKERS = 4096


@dataclass(frozen=True, kw_only=True)
class Working:
    """Who does the work."""

    workers: int | None = flag(None, "Spread shards and ranges of rows over N processes.", "N", min=1, max=MOST_WORKERS)
    cluster: str | None = flag(
        None, "Spread them over a Dask cluster that is there: tcp://HOST:8786 or a scheduler's JSON file.", "ADDRESS"
    )

    @contextmanager
    def executor(self, talk: Talk) -> "Iterator[Executor | None]":
        """The workers asked for, None for this process alone. Raises UsageError."""
        if self.workers is not None and self.cluster is not None:
            raise UsageError("--workers and --cluster exclude each other: the cluster has workers of its own")
        found: Executor | None = None
        if self.cluster is not None:
            from calcli.workers.dask_cluster import DaskCluster

            found = DaskCluster(self.cluster, talk.say)
        elif self.workers is not None:
            from calcli.workers.processes import Processes

            found = Processes(self.workers, talk.say)
        try:
            yield found
        finally:
            if found is not None:
                found.close()


def spread(
    rows: "DataSet",
    names: Sequence[str],
    executor: "Executor | None",
    journal: "Journal | None" = None,
    **opening: Any,
) -> None:
    """Let workers, where there are some, walk over rows that these names and arguments have opened."""
    if executor is not None:
        from calcli.workers.task import spread_over

        spread_over(rows, names, executor, opening, journal)


@contextmanager
def opened(
    args: "Reading",
    names: Sequence[str],
    executor: "Executor | None",
    talk: Talk,
    prefer: tuple[str, ...] = ("test",),
    journal: "Journal | None" = None,
) -> "Iterator[DataSet]":
    """The rows of bundles as one data set, over which workers walk where there are some; says what it took for what."""
    opening: dict[str, Any] = {"prefer": prefer, "layout": args.where, "ignore_labels": args.ignored}
    with open_data(names, tell=talk.say, **opening) as rows:
        spread(rows, names, executor, journal, **opening)
        yield rows


@contextmanager
def job_file(target: str | None) -> "Iterator[Journal | None]":
    """Where finished parts of an output are kept beside it while it is made, by one process at a time; None for none.

    Left there when the work was cut short or an input was bad, for the same command to go on from.
    Raises UsageError while another process makes the output.
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
        raise WorkersLost(f"{problem}{f'; what is done is kept in {path}' if len(journal) else ''}") from None
    except (FitError, UsageError):
        done = True
        raise
    finally:
        journal.close(done=done)
