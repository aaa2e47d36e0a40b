"""Work on blocks of rows side by side: NumPy lets other threads run while it computes."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from calcli.errors import FitError

if TYPE_CHECKING:
    from concurrent.futures import Future


Item = TypeVar("Item")
Result = TypeVar("Result")

WORKERS = min(4, os.cpu_count() or 1)

AHEAD = 2
"""Items given to each of the other threads: one to work on, and the next."""

WAITING = 2
"""Results per thread that wait for an earlier one, at most."""


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results of ``work`` on every item, in the order of the items, whichever is done first.

    Items are drawn by the caller's thread, a few ahead of the results: what reads a file
    stays in one thread, and memory for some blocks is enough. That thread works too, on what
    the others have no time for: to fall asleep and be woken by every result costs more than
    many a block. A single item is worked on without starting threads.
    """
    items = iter(items)
    first = list(islice(items, 2))
    if len(first) < 2 or WORKERS == 1:
        yield from map(work, chain(first, items))
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    others = WORKERS - 1
    with ThreadPoolExecutor(others) as pool:
        waiting: deque[Future[Result]] = deque()
        given: list[Future[Result]] = []
        for item in chain(first, items):
            given = [one for one in given if not one.done()]
            if len(given) < AHEAD * others:
                given.append(pool.submit(work, item))
                waiting.append(given[-1])
            else:
                waiting.append(_done_here(Future(), work, item))
            while waiting and (waiting[0].done() or len(waiting) > WAITING * WORKERS):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _done_here(future: "Future[Result]", work: Callable[[Item], Result], item: Item) -> "Future[Result]":
    """The future, with what came of the work: an error waits for its turn as results do."""
    try:
        future.set_result(work(item))
    except Exception as error:
        future.set_exception(error)
    return future


# ---- what fits into the memory that is free


def check_memory(needed: int, what: str) -> None:
    """Refuse in advance what would not fit into the memory that is free.

    needed : bytes. Raises FitError that names the needed and the available amount.
    """
    available = available_memory()
    if available is not None and needed > 0.9 * available:
        raise FitError(
            f"{what} need {needed / 2**20:.0f} MiB of memory, {available / 2**20:.0f} MiB are free;"
            " use a method that streams (calcli methods lists them) or fewer rows"
        )


def available_memory() -> int | None:
    """Bytes of memory that a new allocation can have, or None where nobody says."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None
