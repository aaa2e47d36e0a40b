"""Work on blocks of rows side by side: NumPy lets other threads run while it computes."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from calcli.errors import FitError

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future


Item = TypeVar("Item")
Result = TypeVar("Result")

WORKERS = min(4, os.cpu_count() or 1)
AHEAD = 2  # items given to each of the other threads: one to work on, and the next
WAITING = 2  # results per thread that wait for an earlier one, at most

_kept: ContextVar["_Threads | None"] = ContextVar("threads", default=None)


class _Threads:
    """The other threads, begun when there is work for them."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.pool: Executor | None = None

    def give(self, work: Callable[[Item], Result], item: Item) -> "Future[Result]":
        if self.pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self.pool = ThreadPoolExecutor(WORKERS - 1)
        return self.pool.submit(copy_context().run, work, item)

    def end(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()


@contextmanager
def same_threads() -> Iterator[None]:
    """Keep the threads of ``in_order`` for all calls inside: to begin one takes as long as many a block."""
    if _kept.get() is not None:
        yield
        return
    threads = _Threads()
    token = _kept.set(threads)
    try:
        yield
    finally:
        _kept.reset(token)
        threads.end()


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results of ``work`` on every item, in the order of the items, whichever is done first. Items are drawn by the
    caller's thread, a few ahead of the results: what reads a file stays in one thread, and memory for some blocks is
    enough. That thread works too, on what the others have not begun: to fall asleep and be woken by every result costs
    more than many a block, and work may itself be cut into items without waiting for threads that wait for it. A single
    item is worked on without starting threads."""
    items = iter(items)
    first = list(islice(items, 2))
    if len(first) < 2 or WORKERS == 1:
        yield from map(work, chain(first, items))
        return
    from concurrent.futures import Future

    kept = _kept.get()
    threads = kept if kept is not None and kept.process == os.getpid() else _Threads()
    others = WORKERS - 1
    waiting: deque[tuple[Future[Result], Item]] = deque()
    given: list[Future[Result]] = []

    def first_result() -> Result:
        """Until another thread has it, what none has begun is done here."""
        for at, (future, item) in enumerate(waiting):
            if waiting[0][0].done():
                break
            if future.cancel():
                waiting[at] = _done_here(Future(), work, item), item
        return waiting.popleft()[0].result()

    try:
        for item in chain(first, items):
            given = [one for one in given if not one.done()]
            if len(given) < AHEAD * others:
                given.append(threads.give(work, item))
                waiting.append((given[-1], item))
            else:
                waiting.append((_done_here(Future(), work, item), item))
            while waiting and (waiting[0][0].done() or len(waiting) > WAITING * WORKERS):
                yield first_result()
        while waiting:
            yield first_result()
    finally:
        for future, _ in waiting:
            if not future.cancel():
                future.exception()  # nothing goes on behind the caller's back
        if threads is not kept:
            threads.end()


def _done_here(future: "Future[Result]", work: Callable[[Item], Result], item: Item) -> "Future[Result]":
    """The future, with what came of the work: an error waits for its turn as results do."""
    try:
        future.set_result(work(item))
    except Exception as error:
        future.set_exception(error)
    return future


# ---- what fits into the memory that is free


STREAM = "use a method that streams (calcli methods lists them) or fewer rows"


def check_memory(needed: int, what: str, instead: str = STREAM) -> None:
    """Refuse in advance what would not fit into the memory that is free. needed : bytes. instead : what to do. Raises
    FitError that names the needed and the available amount."""
    available = available_memory()
    if available is not None and needed > 0.9 * available:
        free = f"{available / 2**20:.0f} MiB are free"
        raise FitError(f"{what} need {needed / 2**20:.0f} MiB of memory, {free}; {instead}")


def available_memory() -> int | None:
    """Bytes of memory that a new allocation can have, or None where nobody says."""
    with suppress(OSError), open("/proc/meminfo", encoding="ascii") as lines:
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
    return None
