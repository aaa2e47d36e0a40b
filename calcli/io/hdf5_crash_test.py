"""Test of HDF5 files in a short-lived child process, because HDF5 may crash or loop
forever on a damaged one.

The child visits every HDF5 structure that opening and reading will use. If it survives,
the parent can open the file. A fork costs a few milliseconds; without fork, files are
opened directly. A fork copies one thread and the state of every lock: h5py's own is
held across it, and if a child of a multi-threaded process makes no progress, a new
interpreter, which takes a few tenths of a second, does the test instead.
"""

import faulthandler
import os
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from math import prod
from pathlib import Path

import h5py
import numpy as np

with suppress(ImportError):
    import resource  # imported here, as an import in a child could wait for a lock

from calcli.errors import DataError
from calcli.io.inputs import stamp
from calcli.io.interpreter import start

SECONDS = 5
BYTES_PER_SECOND = 20 << 20
"""Time limit of a child: ``SECONDS``, plus time for a large file, whose strings it
reads.
"""

MEMORY = 1 << 30  # bytes that a child may use beyond the memory of this process
OBJECTS = 10_000  # most datasets and groups visited; more would take too long
PATIENCE = 2.0  # seconds after which the child of a multi-threaded process may be stuck
FINE = 0
NO_MEMORY = 7
OWN_FILTERS = {
    h5py.h5z.FILTER_DEFLATE,
    h5py.h5z.FILTER_SHUFFLE,
    h5py.h5z.FILTER_FLETCHER32,
    h5py.h5z.FILTER_LZF,
}

_survived: set[tuple[int, ...]] = set()
"""Stamps of the files that a child has read without a crash."""


def probe_together(paths: Sequence[Path]) -> None:
    """Test many HDF5 files in one child.

    If it fails, ``probe`` finds the file that caused it.
    """
    waiting = {}
    for path in paths:
        known = stamp(path)
        if known not in _survived:
            waiting[known] = path
    if len(waiting) > 1 and threading.active_count() == 1 and hasattr(os, "fork"):
        seconds = sum(map(_seconds, waiting))
        if _forked(list(waiting.values()), seconds, seconds + 2) == FINE:
            _survived.update(waiting)


def probe(path: Path) -> None:
    """Test an HDF5 file in a child process.

    Raises DataError if the child crashes or exceeds a limit.
    """
    known = stamp(path)
    if known in _survived or not hasattr(os, "fork"):
        return
    seconds = _seconds(known)
    alone = threading.active_count() == 1
    status = _forked([path], seconds, seconds + 2 if alone else PATIENCE)
    # It waits for a lock of a thread that was not copied.
    if status is None and not alone and sys.executable:
        status = _spawned(path, seconds)
    if status == FINE:
        _survived.add(known)
        return
    how = "HDF5 crashes on it"
    if status in (None, -signal.SIGXCPU):
        how = "reading it never ends"
    if status == NO_MEMORY:
        how = f"reading it takes more than {MEMORY >> 20} MiB of memory"
    raise DataError(
        f"{path}: is damaged: {how}; copy it anew or run again what made it"
    )


def _seconds(known: tuple[int, ...]) -> int:
    return SECONDS + known[2] // BYTES_PER_SECOND


def _forked(paths: Sequence[Path], seconds: int, patience: float) -> int | None:
    """Test files in a fork; returns its exit status (see ``_exit_status``).

    patience : seconds that it may sleep.
    """
    alive, status_pipe = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 and later warn about threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _child_main(paths, seconds, status_pipe)
    os.close(status_pipe)
    return _exit_status(
        alive,
        patience,
        child,
        lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]),
    )


def _spawned(path: Path, seconds: int) -> int | None:
    """Test a file in a new interpreter.

    Returns its exit status (see ``_exit_status``).
    """
    from subprocess import DEVNULL

    alive, status_pipe = os.pipe()
    look = f"_child_main([Path({str(path)!r})], {seconds}, {status_pipe})"
    code = f"from pathlib import Path; from calcli.io.hdf5_crash_test import _child_main; {look}"
    try:
        child = start(
            code, [status_pipe], stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
        )
    except OSError:  # cannot start an interpreter: skip the test
        os.close(alive)
        return FINE
    finally:
        os.close(status_pipe)
    status = _exit_status(alive, seconds + 10, child.pid, child.wait)
    has_failed_alone = status is not None and status > 0 and status != NO_MEMORY
    return FINE if has_failed_alone else status


def _exit_status(
    alive: int, patience: float, child: int, reap: Callable[[], int]
) -> int | None:
    """Wait for a child: returns the byte it sent, else its exit code (negative for a
    signal), or None if it took too long.

    alive : pipe whose other end the child holds. reap : waits for the child, and
    returns its exit code. If other code reaps all children, or SIGCHLD is ignored, the
    cause of death is unknown and SIGKILL is assumed.
    """
    try:
        ended = select.select([alive], [], [], patience)[0]
        # On a busy machine go on waiting: the child has limits of its own.
        while not ended and _at_work(child):
            ended = select.select([alive], [], [], patience)[0]
        said = os.read(alive, 1) if ended else b""
    except BaseException:
        ended = []
        said = b""
        raise
    finally:
        os.close(alive)
        code = -signal.SIGKILL
        with suppress(ChildProcessError, ProcessLookupError):
            if not ended:
                os.kill(child, signal.SIGKILL)
            code = reap() or code
    if not ended:
        return None
    return said[0] if said else code


def _at_work(child: int) -> bool:
    """Return True if a child is running, runnable, or waiting for a disk."""
    with suppress(OSError):
        about = Path(f"/proc/{child}/stat").read_bytes()
        return about.rpartition(b") ")[2][:1] in (b"R", b"D")
    return False


def _child_main(paths: Sequence[Path], seconds: int, status_pipe: int) -> None:
    """Main function of the child.

    Exceptions of h5py are harmless in the parent. status_pipe : pipe for the status.
    """
    code = FINE
    faulthandler.disable()  # a crash is expected, and reported by the parent
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        _limit(seconds)
        for path in paths:
            try:
                with h5py.File(path, "r", locking=False) as file:
                    _walk(file)
            except MemoryError:
                raise
            except Exception:
                continue
    except MemoryError:
        code = NO_MEMORY
    except BaseException:
        code = FINE
    finally:
        with suppress(OSError):  # the parent has closed the pipe
            os.write(status_pipe, bytes([code]))
        os._exit(code)


def _limit(seconds: int) -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        present = int(file.read().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: present + MEMORY,
        resource.RLIMIT_CORE: 0,
    }
    for what, most in limits.items():
        _, hard = resource.getrlimit(what)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(what, (most, hard))


def _walk(file: h5py.File) -> None:
    counter = count(1)

    def visit(name: object, node: object) -> bool | None:
        _touch(node)
        return True if next(counter) == OBJECTS else None

    _touch(file)
    file.visititems(visit)


def _touch(node: object) -> None:
    """Read the metadata of an object, and the strings in its heaps."""
    with suppress(Exception):
        for name in node.attrs:  # type: ignore[attr-defined]
            with suppress(Exception):
                node.attrs[name]  # type: ignore[attr-defined]
    if isinstance(node, h5py.Dataset):
        with suppress(Exception):
            _touch_dataset(node)


def _touch_dataset(dataset: h5py.Dataset) -> None:
    if not dataset.shape or dataset.is_virtual or dataset.external is not None:
        return
    strange = False
    if dataset.chunks is not None:
        if dataset.id.get_num_chunks() < prod(
            -(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True)
        ):
            return  # refused as not whole
        plist = dataset.id.get_create_plist()
        filters = {plist.get_filter(i)[0] for i in range(plist.get_nfilters())}
        strange = not filters <= OWN_FILTERS
    if dataset.dtype.kind != "O" and not strange:
        return  # numeric types and zlib errors: h5py raises these without a crash
    height = dataset.chunks[0] if dataset.chunks else 1
    row = int(np.prod(dataset.shape[1:], dtype=float)) * dataset.dtype.itemsize
    step = max(height, (1 << 20) // max(row, 1))
    if step * row > MEMORY // 4:
        return
    for first in range(0, dataset.shape[0], step):
        dataset[first : first + step]
