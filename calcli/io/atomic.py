"""Atomic writing of files: no output is ever seen half written, and nothing is
overwritten without ``force``.

Every output of every command goes through ``new_file``: a temporary file in the same
folder is written, synced and read back, then renamed. A full disk, or any other
OSError, becomes an error that names the output (``_naming_output``).
"""

import errno
import io
import json
import math
import os
import stat
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, NoReturn

from calcli.errors import ResourceError, UsageError
from calcli.io.harmless import finite
from calcli.io.inputs import PIECE, is_read

DAY = 86400.0  # seconds
LARGE = 2000
"""Entries of a folder beyond which abandoned files are not looked for every time.

A command may write thousands of outputs to one folder.
"""

MINUTE = 60.0
"""Seconds after which a large folder is looked through again."""

_unfinished: set[Path] = set()  # temporary files of this process
_looked_through: dict[Path, float] = {}  # large folders, and when


def check_output(path: Path, *, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuse an output path before any work is done for it.

    inputs : files known to be read; links are followed. Files that the command has
    opened so far (``io.inputs``) count too. Raises UsageError when the path exists
    (unless ``force``), is a folder, is one of the inputs, or lies in a folder that does
    not exist or cannot be written. A pipe or a device may be written to.
    """
    try:
        if path.is_dir():
            advice = f"name a file in it, such as {path / 'NAME'}"
            if path.suffix:
                advice = "choose another name"
            raise UsageError(f"{path}: is a folder, expected a file; {advice}")
        if path.is_symlink():
            with suppress(FileNotFoundError):
                path.stat()  # raises where links go round in circles
        refuse_input(path, inputs)
        if is_stream(path):
            return
        if os.path.lexists(path) and not force:
            raise UsageError(
                f"{path}: exists already; choose another name or pass --force to"
                " replace it"
            )
        folder = real_place(path).parent
        if not folder.is_dir():
            raise UsageError(f"{path}: folder {folder} does not exist; create it first")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"{path}: folder {folder} is not writable; choose another")
    except OSError as problem:  # a name too long, a folder that may not be entered
        raise UsageError(
            f"{path}: cannot be written: {problem.strerror}; choose another name"
        ) from None


def refuse_input(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse an output path that is one of ``inputs``, or a file that this command has
    read. Raises UsageError.
    """
    if path.exists() and (
        is_read(path) or any(s.exists() and os.path.samefile(path, s) for s in inputs)
    ):
        raise UsageError(
            f"{path}: is an input; inputs are never overwritten, choose another name"
        )


def is_stream(path: Path) -> bool:
    """True for a pipe or a device, which is written to directly, never replaced."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def check_outputs_in(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """Refuse outputs in a folder that may not exist yet (see ``check_output``).

    Raises UsageError where the folder could not be made.
    """
    if folder.is_dir():
        for name in names:
            check_output(folder / name, force=force)
        return
    parent = folder.absolute()
    while not os.path.lexists(parent):
        parent = parent.parent
    problem = ""
    if not parent.is_dir():
        problem = f"{parent} is no folder"
    elif not os.access(parent, os.W_OK):
        problem = f"{parent} is not writable"
    if problem:
        raise UsageError(
            f"{folder}: folder cannot be made: {problem}; choose another name"
        )


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Create a folder and its parents.

    Those that were created are removed again if the block fails. Raises UsageError
    where it cannot be created.
    """
    missing = []
    parent = path.absolute()
    while not parent.exists():
        missing.append(parent)
        parent = parent.parent
    make_folder(path)
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # another process has put a file into it
                folder.rmdir()
        raise


def make_folder(path: Path) -> None:
    """Create a folder and its parents. Raises UsageError on failure."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(
            f"{path}: folder cannot be made: {problem.strerror}; choose another name"
        ) from None


def refuse(path: Path, reason: str | None) -> NoReturn:
    """Raise ResourceError for an output that could not be written."""
    raise ResourceError(
        f"{path}: cannot be written: {reason}; no part of it was kept"
    ) from None


class NewFile(io.RawIOBase):
    """Unfinished output file: writes are unbuffered.

    Size and checksum of the bytes are kept.

    path : final name. temporary : current name. has_final_name : whether it has been
    renamed. Writing raises ResourceError that names the file. Callers that write
    through ``descriptor`` instead set ``checked`` and verify the content themselves.
    """

    def __init__(self, path: Path, temporary: Path, descriptor: int) -> None:
        self.path = path
        self.temporary = temporary
        self.descriptor = descriptor
        self.size = 0
        self.crc = 0
        self.checked = False
        self.has_final_name = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        with _naming_output(self.path):
            done = 0
            while done < len(view):
                done += os.write(self.descriptor, view[done:])
        self.size += len(view)
        self.crc = zlib.crc32(view, self.crc)
        return len(view)

    def sync(self) -> None:
        """Flush written data to the disk (fsync). Raises ResourceError."""
        with _naming_output(self.path):
            os.fsync(self.descriptor)

    def read_back(self) -> None:
        """Compare size and checksum of the temporary file with the data written.

        Raises ResourceError.
        """
        size = crc = 0
        with _naming_output(self.path), self.temporary.open("rb", buffering=0) as file:
            while piece := file.read(PIECE):
                size += len(piece)
                crc = zlib.crc32(piece, crc)
        if (size, crc) != (self.size, self.crc):
            refuse(
                self.path,
                f"{size} bytes read back differ from the {self.size} written (is the"
                " disk failing?)",
            )


@contextmanager
def new_file(
    path: Path, *, force: bool = False, inputs: Iterable[Path] = ()
) -> Iterator[NewFile]:
    """Open a file to write bytes to, which appears under its name only when all of it
    is on the disk.

    After any error, an interruption included, no partial file remains and an old file
    is unchanged. A symbolic link is followed. A pipe or a device is written to
    directly. Raises UsageError as ``check_output`` does, also when the file has
    appeared in the meantime, and ResourceError when writing fails.
    """
    check_output(path, force=force, inputs=inputs)
    if is_stream(path):
        with _naming_output(path):
            descriptor = os.open(path, os.O_WRONLY)
        try:
            yield NewFile(path, path, descriptor)
        finally:
            os.close(descriptor)
        return
    place = real_place(path)
    _look_for_abandoned(place)
    temporary = place
    descriptor = -1
    try:
        while descriptor < 0:
            temporary = _temporary_name(place)
            _unfinished.add(temporary)
            with _naming_output(path):
                descriptor = _open_locked(temporary)
        file = NewFile(path, temporary, descriptor)
        yield file
        file.sync()
        if not file.checked:
            file.read_back()
        refuse_input(path)  # it may have been opened as an input since
        with _naming_output(path):
            if force:
                os.replace(temporary, place)
            else:
                _rename_to_new(temporary, place)
        file.has_final_name = True
        with suppress(OSError):  # where the file system supports it
            folder = os.open(place.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    finally:
        if temporary != place:
            with suppress(OSError):
                temporary.unlink()
        if descriptor >= 0:
            unlock(descriptor)
            with suppress(OSError):
                os.close(descriptor)
        _unfinished.discard(temporary)


def _temporary_name(place: Path) -> Path:
    """Name of a temporary file beside a file."""
    # Only part of the name, as a name may have the maximum length already.
    return place.with_name(f".{place.name[:40]}.{os.urandom(6).hex()}.tmp")


def _open_locked(temporary: Path) -> int:
    """Create a temporary file with a lock, which is held until it is closed, so that it
    does not count as abandoned.

    Returns -1 where another process has taken it for abandoned before it was locked.
    Raises OSError.
    """
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    if is_locked_by_another(descriptor, "LOCK_SH") or not _has_name(
        descriptor, temporary
    ):
        os.close(descriptor)
        return -1
    return descriptor


def write_bytes(path: Path, data: bytes | str, *, force: bool = False) -> None:
    """Write a whole file at once (see ``new_file``); text is UTF-8."""
    if isinstance(data, str):
        data = data.encode()
    with new_file(path, force=force) as file:
        file.write(data)


def write_json(path: Path, content: Any, *, force: bool) -> None:
    """Write a JSON value with its parts on lines of their own; no NaN is in it."""
    text = json.dumps(finite(content), indent=1, allow_nan=False) + "\n"
    write_bytes(path, text, force=force)


def write_together(texts: Mapping[Path, str], *, force: bool = False) -> None:
    """Write several files into one folder: all of them or none (see ``new_file``).

    If the process is killed while they get their names, the first is old or new and
    others may be missing; old and new are never mixed. Of processes that write the same
    names at once, all files are those of one.
    """
    (folder,) = {path.parent for path in texts}
    files: list[NewFile] = []
    replaced: dict[Path, Path] = {}
    try:
        with ExitStack() as stack:
            stack.enter_context(_alone_in(folder))
            existed = {path for path in texts if os.path.lexists(path)}
            # The file that is opened last gets its name first.
            for path, text in reversed(list(texts.items())):
                file = stack.enter_context(new_file(path, force=force))
                files.append(file)
                file.write(text.encode())
            for file in files:
                file.sync()
            old = [path for path in texts if path in existed and not is_stream(path)]
            for path in old:
                is_first_to_appear = path == files[-1].path
                _set_aside(path, replaced, stays=is_first_to_appear)
    except BaseException:
        for file in files:
            if file.has_final_name and file.path not in existed:
                file.path.unlink(missing_ok=True)
        for place, aside in replaced.items():
            os.replace(aside, place)
        raise
    finally:
        for aside in replaced.values():
            _discard(aside)


def _set_aside(path: Path, replaced: dict[Path, Path], *, stays: bool) -> None:
    """Rename a file that is to be replaced, as a temporary one.

    replaced : gets both names. stays : keep the old name too, where the file system can.
    """
    place = real_place(path)
    aside = _temporary_name(place)
    _unfinished.add(aside)
    with _naming_output(path):
        if stays:
            with suppress(OSError):
                os.link(place, aside)
        if not os.path.lexists(aside):
            os.replace(place, aside)
    replaced[place] = aside


def _discard(aside: Path) -> None:
    with suppress(OSError):
        aside.unlink()
    _unfinished.discard(aside)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait for other processes that write files together into this folder.

    Where the system has no locks on folders there is no waiting.
    """
    descriptor = -1
    with suppress(ImportError, OSError):
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def discard_unfinished() -> None:
    """Remove every temporary file of this process, before an exit that skips
    ``finally`` blocks.
    """
    for path in list(_unfinished):
        with suppress(OSError):
            path.unlink()


def discard_abandoned(path: Path) -> None:
    """Remove temporary files that killed processes have left for a path (or one with
    its first 40 characters).
    """
    place = real_place(path)
    for left in place.parent.glob(f".{escape(place.name[:40])}.????????????.tmp"):
        with suppress(OSError), left.open("r+b") as file:
            if _is_abandoned(file.fileno()):
                left.unlink()


def _is_abandoned(descriptor: int) -> bool:
    """True for a temporary file whose lock no process holds, as its writer would.

    Where the system has no locks, one that has not changed for a day.
    """
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return time.time() - os.fstat(descriptor).st_mtime > DAY
    return True


def _look_for_abandoned(place: Path) -> None:
    """As ``discard_abandoned``, but rarely in a large folder."""
    folder = place.parent
    now = time.monotonic()
    if now - _looked_through.get(folder, -math.inf) < MINUTE:
        return
    try:
        names = os.listdir(folder)
    except OSError:  # a folder that may be entered only
        return
    if len(names) > LARGE:
        _looked_through[folder] = now
    start = f".{place.name[:40]}."
    if any(name.startswith(start) and name.endswith(".tmp") for name in names):
        discard_abandoned(place)


@contextmanager
def _naming_output(path: Path) -> Iterator[None]:
    """Turn an OSError into a ResourceError that names the output."""
    try:
        yield
    except OSError as problem:
        refuse(path, problem.strerror)


def real_place(path: Path) -> Path:
    """Resolve a symbolic link, so that the link stays and its target is replaced."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else path


def _rename_to_new(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # unlike a rename it fails when the name is taken
    except FileExistsError:
        raise UsageError(
            f"{path}: appeared while it was being made; pass --force to replace it"
        ) from None
    except OSError:  # a file system without hard links
        os.replace(temporary, path)


# ---- job files beside an output until it is complete
#
# Only ordinary files, locked by one process.


NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE}
"""Errors of resources (space, quota, I/O, open files), which another path would not
avoid.
"""

NOT_ALLOWED = {errno.EROFS, errno.EACCES, errno.EPERM}
"""Errors of places that may not be written to, whatever stands there."""


def open_job_file(path: Path, mode: int = 0o666, *, create: bool = True) -> int:
    """Open an ordinary file, not a link, or create it; returns its descriptor.

    Raises UsageError, ResourceError.
    """
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    # A blocking open of a pipe would wait for its other end.
    flags |= getattr(os, "O_NONBLOCK", 0)
    if create:
        flags |= os.O_CREAT
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as problem:
        if os.path.lexists(path) and problem.errno not in NOT_ALLOWED:
            what = "a symbolic link" if path.is_symlink() else problem.strerror
            raise UsageError(
                f"{path}: is in the way ({what}); move it or choose another name"
            ) from None
        message = f"{path}: cannot be written: {problem.strerror}; choose another name"
        if problem.errno in NO_ROOM:
            raise ResourceError(message) from None
        raise UsageError(message) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(
            f"{path}: is in the way (no ordinary file); move it or choose another name"
        )
    return descriptor


def lock(
    descriptor: int, path: Path, advice: str = "wait for it or choose another name"
) -> None:
    """Lock a file against other processes, where the system can.

    Raises UsageError if another holds the lock.
    """
    # Name gone or changed: the other process has ended meanwhile and removed or
    # replaced the file.
    if is_locked_by_another(descriptor, "LOCK_EX") or not _has_name(descriptor, path):
        raise UsageError(f"{path}: another calcli is writing it; {advice}")


def unlock(descriptor: int) -> None:
    """Unlock an open file, where the system can.

    Closing does not unlock while a process lives that was forked meanwhile.
    """
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_locked_by_another(descriptor: int, how: str) -> bool:
    """Lock an open file in a way of ``flock``, where the system can.

    Returns True if another process holds a lock, and this one has none.
    """
    try:
        import fcntl

        fcntl.flock(descriptor, getattr(fcntl, how) | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):  # a system or a file system without locks
        pass
    return False


def _has_name(descriptor: int, path: Path) -> bool:
    """Return True if the path still leads to this open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def remove(file: io.FileIO, path: Path) -> None:
    """Close and delete a file, unless its name has passed to another file."""
    # While the lock is held: later the name may belong to another process.
    if _has_name(file.fileno(), path):
        path.unlink(missing_ok=True)
    file.close()
