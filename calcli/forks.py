"""Delay forks until no other thread is in the middle of an import.

In the child the import would never finish, and any use of the module would wait for ever: first calls of the API
import much. The module locks are internals of importlib; on a Python that lacks them, forks are not delayed.
"""

import _imp
import os
import sys
import time
from _thread import get_ident
from importlib import _bootstrap
from typing import Any

PATIENCE = 5.0  # most seconds that a fork waits: the importing thread may itself wait for the one that forks

LOCKS = [("h5py._objects", "phil"), ("logging", "_lock")]
"""Locks that these modules hold across a fork; an import in progress may wait for one, or have created it."""

_holder: int | None = (
    None  # the thread that forks; it holds the import lock, so that no import begins
)


def _wait() -> None:
    """Wait before a fork, releasing meanwhile the ``LOCKS`` that other fork hooks have taken."""
    global _holder
    me, end, taken = get_ident(), time.monotonic() + PATIENCE, _locks()
    while _holder != me:
        _imp.acquire_lock()
        if time.monotonic() > end or not _are_importing(me):
            new = [lock for lock in _locks() if lock not in taken]
            had = [
                lock for lock in new if lock.acquire(False)
            ]  # after the fork their own hooks release them
            if had == new or time.monotonic() > end:
                _holder = me
                return
            _let_go(had)
        _imp.release_lock()
        _take(_let_go(taken))


def _locks() -> list[Any]:
    found = [getattr(sys.modules.get(where), name, None) for where, name in LOCKS]
    return [lock for lock in found if lock is not None]


def _take(locks: list[Any]) -> None:
    """Take locks again, all or none at a time: another forking thread takes them in the order of its hooks."""
    while True:
        time.sleep(0.001)
        got = [lock for lock in locks if lock.acquire(False)]
        if got == locks:
            return
        _let_go(got)


def _let_go(locks: list[Any]) -> list[Any]:
    """Release the locks that this thread holds; returns them."""
    released = []
    for lock in locks:
        try:
            lock.release()
        except RuntimeError:
            continue
        released.append(lock)
    return released


def _are_importing(me: int) -> bool:
    """Check whether another thread holds a module's import lock."""
    locks = [
        known() for known in list(getattr(_bootstrap, "_module_locks", {}).values())
    ]
    return any(getattr(lock, "owner", None) not in (None, me) for lock in locks)


def _go_on() -> None:
    global _holder
    if _holder == get_ident():
        _holder = None
        _imp.release_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_go_on)
