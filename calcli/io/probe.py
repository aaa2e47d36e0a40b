"""A short-lived child that opens a file first, because HDF5 may crash or loop for ever on a damaged one.

It walks over everything that opening and reading will ask HDF5's own structures for. What it survives, the parent can
open. A fork costs a few milliseconds; where there is none, files are opened at once. A fork takes one thread along and
every lock as it is: h5py's own is held across it, and where a child of several threads makes no progress, a new
interpreter, which takes a few tenths of a second, looks in its place.
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
    import resource  # here, as an import in a child could wait for a lock

from calcli.errors import DataError
from calcli.io.inputs import stamp
from calcli.io.interpreter import start

SECONDS = 5
BYTES_PER_SECOND = 20 << 20
"""Time a child may take: some seconds, and more for a large file, of which it reads the strings."""

MEMORY = 1 << 30  # memory a child may take beyond what this process has
OBJECTS = 10_000  # so many datasets and groups are looked at: a file of more would cost too much
PATIENCE = 2.0  # seconds after which a child of several threads may be stuck
FINE, NO_MEMORY = 0, 7
OWN_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_LZF}

_survived: set[tuple[int, ...]] = set()  # files that a child has walked through, by their stamps


def probe_together(paths: Sequence[Path]) -> None:
    """Let one child walk through many HDF5 files. Where it does not come back, ``probe`` finds which."""
    waiting = {known: path for path in paths if (known := stamp(path)) not in _survived}
    if len(waiting) > 1 and threading.active_count() == 1 and hasattr(os, "fork"):
        seconds = sum(map(_seconds, waiting))
        if _forked(list(waiting.values()), seconds, seconds + 2) == FINE:
            _survived.update(waiting)


def probe(path: Path) -> None:
    """Let a child walk through an HDF5 file. Raises DataError when it does not come back."""
    known = stamp(path)
    if known in _survived or not hasattr(os, "fork"):
        return
    seconds, alone = _seconds(known), threading.active_count() == 1
    status = _forked([path], seconds, seconds + 2 if alone else PATIENCE)
    if status is None and not alone and sys.executable:  # it waits for a lock of a thread that it does not have
        status = _spawned(path, seconds)
    if status == FINE:
        _survived.add(known)
        return
    how = "reading it never ends" if status in (None, -signal.SIGXCPU) else "HDF5 crashes on it"
    if status == NO_MEMORY:
        how = f"reading it takes more than {MEMORY >> 20} MiB of memory"
    raise DataError(f"{path}: is damaged: {how}; copy it anew or run again what made it")


def _seconds(known: tuple[int, ...]) -> int:
    return SECONDS + known[2] // BYTES_PER_SECOND


def _forked(paths: Sequence[Path], seconds: int, patience: float) -> int | None:
    """What becomes of a fork of this process that looks (see ``_became``). patience : seconds that it may sleep."""
    alive, held = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of threads
        child = os.fork()
    if child == 0:
        _live(paths, seconds, held)
    os.close(held)
    return _became(alive, patience, child, lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _spawned(path: Path, seconds: int) -> int | None:
    """What becomes of a new interpreter that looks (see ``_became``)."""
    from subprocess import DEVNULL

    alive, held = os.pipe()
    look = f"_live([Path({str(path)!r})], {seconds}, {held})"
    code = f"from pathlib import Path; from calcli.io.probe import _live; {look}"
    try:
        child = start(code, [held], stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)
    except OSError:  # no interpreter, no memory for one: then without it
        os.close(alive)
        return FINE
    finally:
        os.close(held)
    became = _became(alive, seconds + 10, child.pid, child.wait)
    return FINE if became is not None and became > 0 and became != NO_MEMORY else became


def _became(alive: int, patience: float, child: int, reap: Callable[[], int]) -> int | None:
    """What a child says at its end, the signal that ended it as a negative number, or None when it took too long. alive
    : a pipe of which the child has the other end. reap : waits for the child, and returns its exit code. Where somebody
    else waits for all children, or nobody is to (SIGCHLD ignored), nobody knows what a child died of."""
    try:
        ended = select.select([alive], [], [], patience)[0]
        while not ended and _at_work(child):  # a busy machine is no reason: what takes long is ended by its limit
            ended = select.select([alive], [], [], patience)[0]
        said = os.read(alive, 1) if ended else b""
    except BaseException:
        ended, said = [], b""
        raise
    finally:
        os.close(alive)
        code = -signal.SIGKILL
        with suppress(ChildProcessError, ProcessLookupError):
            if not ended:
                os.kill(child, signal.SIGKILL)
            code = reap() or code
    return None if not ended else said[0] if said else code


def _at_work(child: int) -> bool:
    """Whether a child runs, would if it had a processor, or waits for a disk."""
    with suppress(OSError):
        about = Path(f"/proc/{child}/stat").read_bytes()
        return about.rpartition(b") ")[2][:1] in (b"R", b"D")
    return False


def _live(paths: Sequence[Path], seconds: int, held: int) -> None:
    """All of a child's life. What h5py raises, the parent can bear too. held : the pipe to say so."""
    code = FINE
    faulthandler.disable()  # its death is expected, and told by the parent
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
        with suppress(OSError):  # nobody asks any more
            os.write(held, bytes([code]))
        os._exit(code)


def _limit(seconds: int) -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        present = int(file.read().split()[0]) * resource.getpagesize()
    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_AS: present + MEMORY, resource.RLIMIT_CORE: 0}
    for what, most in limits.items():
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, hard))


def _walk(file: h5py.File) -> None:
    seen = count(1)

    def visit(name: object, node: object) -> bool | None:
        _touch(node)
        return True if next(seen) == OBJECTS else None

    _touch(file)
    file.visititems(visit)


def _touch(node: object) -> None:
    """Read what HDF5 keeps about an object, and the strings that lie in its heaps."""
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
        if dataset.id.get_num_chunks() < prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True)):
            return  # refused as not whole
        plist = dataset.id.get_create_plist()
        filters = {plist.get_filter(i)[0] for i in range(plist.get_nfilters())}
        strange = not filters <= OWN_FILTERS
    if dataset.dtype.kind != "O" and not strange:
        return  # h5py raises what numbers and zlib have to say
    height = dataset.chunks[0] if dataset.chunks else 1
    row = int(np.prod(dataset.shape[1:], dtype=float)) * dataset.dtype.itemsize
    step = max(height, (1 << 20) // max(row, 1))
    if step * row > MEMORY // 4:
        return
    for at in range(0, dataset.shape[0], step):
        dataset[at : at + step]
