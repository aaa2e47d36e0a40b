"""Workers of a Dask cluster that is there already."""

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
from calcli.errors import CalcliError, DataError, UsageError, WorkersLost, needed
from calcli.io.inputs import read_document
from calcli.workers.task import Executor, Named, given_up

PATIENCE = 30.0  # seconds that a scheduler may take to answer, and a cluster to have its first worker
BEAT = 1.0  # seconds between two looks at whether the scheduler is still there
MINUTE = 60.0  # seconds between two questions whether it has workers, and two words about having none
LONELY = 600.0  # seconds without a worker, or without an answer, after which the work is given up
LARGEST_FILE = 1 << 20  # bytes of a scheduler's file
AHEAD = 2  # tasks per thread of a worker that the scheduler has at a time


class DaskCluster(Executor):
    """The workers of the scheduler at an address, such as ``tcp://10.0.0.1:8786``.

    They need the same calcli, and see the files under the same names. say : told once a minute where
    they are all gone. Raises UsageError where Dask is not installed, nobody answers, or a worker has another calcli.
    """

    remote = True

    def __init__(self, address: str, say: Callable[[str], None] = lambda text: None) -> None:
        with needed("--cluster needs Dask", "dask"):
            import distributed
        for name in ("distributed", *(n for n in logging.root.manager.loggerDict if n.startswith("distributed."))):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what there is to say is said here
        self.address, self._dask, self._say = address, distributed, say
        self._asked = time.monotonic()

        class Client(distributed.Client):  # type: ignore[misc]  # Dask is untyped
            def __del__(self) -> None:
                """Nothing: Dask would wait a minute for a scheduler that never answered; ``close`` is called."""

            async def _start(self, **how: Any) -> None:
                """As ever, but not for ever where a server takes the call and is silent."""
                await asyncio.wait_for(super()._start(**how), 2 * PATIENCE)

        try:
            where = distributed.comm.resolve_address(_scheduler(address))
            self._client = Client(where, timeout=PATIENCE, set_as_default=False, name="calcli")
        except DataError:
            raise
        except Exception as problem:  # also what Dask makes of the words of another server
            text = str(problem).split("\n")[0] or "no word of it"
            expected = "expected an address such as tcp://HOST:8786, as dask scheduler prints it"
            raise self._refused(f"no Dask scheduler answers there ({text}); {expected}") from None
        try:
            self._meet()
        except BaseException:
            self.close()
            raise

    def _refused(self, why: str) -> UsageError:
        return UsageError(f"--cluster {self.address}: {why}")

    def _meet(self) -> None:
        """Wait for the first worker, and compare versions."""
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise self._refused("the cluster has no worker; start some (dask worker)") from None
        try:
            versions = self._asked_of(self._client._run, _version, on_error="return")
            self.count = max(1, sum(self._asked_of(self._client.scheduler.ncores).values()))
        except TimeoutError:
            who = "a worker, or the scheduler,"
            raise self._refused(f"{who} does not answer within {PATIENCE:.0f} s; end those that hang") from None
        for worker, found in versions.items():
            if found != __version__:
                told = found if isinstance(found, str) else "cannot import calcli"
                other = f"worker {worker} has another calcli ({told}, here {__version__})"
                raise self._refused(f"{other}; install the same everywhere")

    def _asked_of(self, whom: Callable[..., Any], *words: Any, **how: Any) -> Any:
        """The answer of a coroutine of the client. Raises TimeoutError: Dask itself would wait for ever."""
        return self._client.sync(whom, *words, callback_timeout=PATIENCE, **how)

    def run(self, tasks: Sequence[Named], lost: Callable[[WorkersLost], Any] | None = None) -> Iterator[Any]:
        todo, waiting = deque(tasks), deque[tuple[Named, Any]]()
        self._met = time.monotonic()
        try:
            while todo or waiting:
                while todo and len(waiting) < AHEAD * self.count:
                    try:
                        future = self._client.submit(operator.call, todo[0], pure=False, key=None)
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
            with suppress(Exception):  # those that nobody waits for any more
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
        """Ask once a minute whether there are workers. Raises WorkersLost where there have been none for long."""
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
        what, long = f"the Dask scheduler at {self.address} {trouble}", now - self._met
        if long >= LONELY:
            raise WorkersLost(f"{what}, for {long / 60:.0f} minutes; start workers and repeat the command")
        self._say(f"{what}; waiting for workers, {(LONELY - long) / 60:.0f} more minutes")

    def _lost(self) -> WorkersLost:
        return WorkersLost(f"the Dask scheduler at {self.address} is gone; start it again and repeat the command")

    def close(self) -> None:
        with suppress(Exception):
            self._client.close(timeout=BEAT)


def _scheduler(address: str) -> str:
    """The address, also where a scheduler's file holds it; Dask would wait for ever for one that is not there."""
    if not address.endswith(".json"):
        return address
    what = "the JSON file of a Dask scheduler (dask scheduler --scheduler-file)"
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        found = json.loads(read_document(address, LARGEST_FILE, what))["address"]
        if isinstance(found, str):
            return found
    raise DataError(f"{address}: holds no address, expected {what}")


def _version() -> str:
    return __version__
