"""Process blocks of rows in parallel threads: NumPy releases the interpreter lock while
it computes.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future


Item = TypeVar("Item")
Result = TypeVar("Result")

WORKERS = min(4, os.cpu_count() or 1)
AHEAD = 2  # items queued per worker thread: one in progress, and the next
WAITING = 2  # most results per thread that wait for an earlier one

_shared_threads: ContextVar["_Threads | None"] = ContextVar("threads", default=None)


class _Threads:
    """Pool of worker threads, started at the first item."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.pool: Executor | None = None

    def submit(self, work: Callable[[Item], Result], item: Item) -> "Future[Result]":
        if self.pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self.pool = ThreadPoolExecutor(WORKERS - 1)
        return self.pool.submit(copy_context().run, work, item)

    def end(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()


@contextmanager
def same_threads() -> Iterator[None]:
    """Keep the threads of ``in_order`` for all calls inside: starting one can take as
    long as a block.
    """
    if _shared_threads.get() is not None:
        yield
        return
    threads = _Threads()
    token = _shared_threads.set(threads)
    try:
        yield
    finally:
        _shared_threads.reset(token)
        threads.end()


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield the results of ``work`` on every item, in the order of the items.

    Items are drawn by the caller's thread, a few ahead of the results: files are read
    in one thread, and memory holds only some blocks. That thread also works on items
    that no other has begun: waiting for every result can cost more than a block, and
    ``work`` may itself call ``in_order`` without deadlock. A single item starts no
    threads.
    """
    items = iter(items)
    first = list(islice(items, 2))
    if len(first) < 2 or WORKERS == 1:
        yield from map(work, chain(first, items))
        return
    shared = _shared_threads.get()
    if shared is not None and shared.process == os.getpid():
        yield from _results(work, chain(first, items), shared)
        return
    threads = _Threads()
    try:
        yield from _results(work, chain(first, items), threads)
    finally:
        threads.end()


def _results(
    work: Callable[[Item], Result], items: Iterable[Item], threads: _Threads
) -> Iterator[Result]:
    """Results of the work, in the order of the items, by the threads and this one."""
    # Results not yet yielded, each with its item, in the order of the items.
    waiting: deque[tuple[Future[Result], Item]] = deque()
    submitted: list[Future[Result]] = []
    try:
        for item in items:
            submitted = [future for future in submitted if not future.done()]
            if len(submitted) < AHEAD * (WORKERS - 1):
                future = threads.submit(work, item)
                submitted.append(future)
            else:
                future = _done_here(work, item)
            waiting.append((future, item))
            while waiting and _is_due(waiting):
                yield _first_result(work, waiting)
        while waiting:
            yield _first_result(work, waiting)
    finally:
        for future, _ in waiting:
            if not future.cancel():
                future.exception()  # wait: no work continues after the caller leaves


def _is_due(waiting: "deque[tuple[Future[Result], Item]]") -> bool:
    """True where the first result is there, or so many wait that it must come now."""
    return waiting[0][0].done() or len(waiting) > WAITING * WORKERS


def _first_result(
    work: Callable[[Item], Result], waiting: "deque[tuple[Future[Result], Item]]"
) -> Result:
    """Take the first result; until it is there, work here on items not yet begun."""
    for place, (future, item) in enumerate(waiting):
        if waiting[0][0].done():
            break
        if future.cancel():
            waiting[place] = (_done_here(work, item), item)
    return waiting.popleft()[0].result()


def _done_here(work: Callable[[Item], Result], item: Item) -> "Future[Result]":
    """Do the work in this thread. An error is raised in turn, as results are."""
    from concurrent.futures import Future  # not needed for a single item

    future: Future[Result] = Future()
    try:
        future.set_result(work(item))
    except Exception as error:
        future.set_exception(error)
    return future
