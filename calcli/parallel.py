"""Work on blocks of rows side by side: NumPy lets other threads run while it computes."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")

WORKERS = min(4, os.cpu_count() or 1)


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results of ``work`` on every item, in the order of the items, whichever is done first.

    Items are drawn by the caller's thread, a few ahead of the results: what reads a file
    stays in one thread, and memory for some blocks is enough. A single item is worked on
    without starting threads.
    """
    items = iter(items)
    first = list(islice(items, 2))
    if len(first) < 2 or WORKERS == 1:
        yield from map(work, chain(first, items))
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(WORKERS) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in chain(first, items):
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
