"""Executor on the workers of an existing Dask cluster."""

import asyncio
import json
import logging
import operator
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from calcli import __version__
from calcli.errors import CalcliError, DataError, UsageError, WorkersLost
from calcli.io.inputs import read_document
from calcli.optional_packages import optional_import
from calcli.workers.executor import Executor, Task, given_up

# seconds to wait for a scheduler's answer, and for a cluster's first worker
PATIENCE = 30.0
BEAT = 1.0  # seconds between checks that the scheduler is alive
# seconds between checks for workers, and between messages that there are none
MINUTE = 60.0
LONELY = 600.0  # seconds without a worker or an answer before giving up
LARGEST_FILE = 1 << 20  # maximum bytes of a scheduler's file
AHEAD = 2  # tasks submitted at a time per thread of the workers


class DaskCluster(Executor):
    """Executor on the workers of the scheduler at an address, such as
    ``tcp://10.0.0.1:8786``.

    They need the same calcli, and must see the files under the same names. say : called
    once a minute while there are none. Raises UsageError where Dask is not installed,
    nobody answers, or a worker has another calcli.
    """

    remote = True

    def __init__(
        self, address: str, say: Callable[[str], None] = lambda text: None
    ) -> None:
        with optional_import("distributed", "--cluster"):
            import distributed
        for name in (
            "distributed",
            *(
                n
                for n in logging.root.manager.loggerDict
                if n.startswith("distributed.")
            ),
        ):
            # calcli reports problems itself
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self.address = address
        self._dask = distributed
        self._say = say
        self._asked = time.monotonic()

        class Client(distributed.Client):  # type: ignore[misc]  # Dask is untyped
            def __del__(self) -> None:
                """Do nothing: Dask would wait a minute for a scheduler that never
                answered; ``close`` is called.
                """

            async def _start(self, **how: Any) -> None:
                """Start with a timeout, for a server that accepts the connection and
                never answers.
                """
                await asyncio.wait_for(super()._start(**how), 2 * PATIENCE)

        try:
            where = distributed.comm.resolve_address(_scheduler(address))
            self._client = Client(
                where, timeout=PATIENCE, set_as_default=False, name="calcli"
            )
        except DataError:
            raise
        # also errors of Dask about the answer of another kind of server
        except Exception as problem:
            text = str(problem).split("\n")[0] or "no word of it"
            raise self._refused(
                f"no Dask scheduler answers there ({text});"
                " expected an address such as tcp://HOST:8786, as dask scheduler"
                " prints it"
            ) from None
        try:
            self._meet()
        except BaseException:
            self.close()
            raise

    def _refused(self, why: str) -> UsageError:
        return UsageError(f"--cluster {self.address}: {why}")

    def _meet(self) -> None:
        """Wait for the first worker, and check versions."""
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise self._refused(
                "the cluster has no worker; start some (dask worker)"
            ) from None
        try:
            versions = self._asked_of(self._client._run, _version, on_error="return")
            self.count = max(
                1, sum(self._asked_of(self._client.scheduler.ncores).values())
            )
        except TimeoutError:
            who = "a worker, or the scheduler,"
            raise self._refused(
                f"{who} does not answer within {PATIENCE:.0f} s; end those that hang"
            ) from None
        for worker, version in versions.items():
            if version == __version__:
                continue
            there = version if isinstance(version, str) else "cannot import calcli"
            raise self._refused(
                f"worker {worker} has another calcli ({there}, here {__version__});"
                " install the same everywhere"
            )

    def _asked_of(self, whom: Callable[..., Any], *words: Any, **how: Any) -> Any:
        """Run a coroutine of the client with a timeout, as Dask would wait forever.

        Raises TimeoutError.
        """
        return self._client.sync(whom, *words, callback_timeout=PATIENCE, **how)

    def run(
        self, tasks: Sequence[Task], lost: Callable[[WorkersLost], Any] | None = None
    ) -> Iterator[Any]:
        todo = deque(tasks)
        waiting = deque[tuple[Task, Any]]()
        self._met = time.monotonic()
        try:
            while todo or waiting:
                while todo and len(waiting) < AHEAD * self.count:
                    try:
                        future = self._client.submit(
                            operator.call, todo[0], pure=False, key=None
                        )
                    except Exception as problem:
                        raise self._lost() from problem
                    waiting.append((todo.popleft(), future))
                task, future = waiting[0]
                try:
                    answer = self._result(future)
                except self._dask.KilledWorker:
                    answer = given_up(task, lost)
                waiting.popleft()
                yield answer
                self._met = time.monotonic()
        finally:
            # cancel tasks whose results are not needed any more
            with suppress(Exception):
                self._client.cancel([future for _, future in waiting], force=True)

    def _result(self, future: Any) -> Any:
        while True:
            if self._client.status != "running":
                raise self._lost()
            try:
                return future.result(timeout=BEAT)
            except TimeoutError:
                self._look()
            except CalcliError:
                raise
            except (CancelledError, self._dask.core.CommClosedError) as problem:
                raise self._lost() from problem

    def _look(self) -> None:
        """Check once a minute that there are workers.

        Raises WorkersLost if there were none for ``LONELY`` seconds.
        """
        now = time.monotonic()
        if now < self._asked + MINUTE:
            return
        self._asked = now
        trouble = "does not answer"
        with suppress(Exception):
            if self._asked_of(self._client.scheduler.ncores):
                self._met = now
                return
            trouble = "has no worker left"
        what = f"the Dask scheduler at {self.address} {trouble}"
        long = now - self._met
        if long >= LONELY:
            raise WorkersLost(
                f"{what}, for {long / 60:.0f} minutes; start workers and repeat the"
                " command"
            )
        self._say(
            f"{what}; waiting for workers, {(LONELY - long) / 60:.0f} more minutes"
        )

    def _lost(self) -> WorkersLost:
        return WorkersLost(
            f"the Dask scheduler at {self.address} is gone; start it again and repeat"
            " the command"
        )

    def close(self) -> None:
        with suppress(Exception):
            self._client.close(timeout=BEAT)


def _scheduler(address: str) -> str:
    """Return the address, read from a scheduler's JSON file if given; Dask would wait
    forever for a missing file.
    """
    if not address.endswith(".json"):
        return address
    what = "the JSON file of a Dask scheduler (dask scheduler --scheduler-file)"
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        known = json.loads(read_document(address, LARGEST_FILE, what))["address"]
        if isinstance(known, str):
            return known
    raise DataError(f"{address}: holds no address, expected {what}")


def _version() -> str:
    return __version__
