"""Start of other interpreters, which import nothing from the working folder."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import calcli

if TYPE_CHECKING:
    from subprocess import Popen


def start(code: str, keep: Sequence[int] = (), **streams: Any) -> "Popen[bytes]":
    """Start an interpreter that runs ``code`` and uses this process's module path
    without the working folder, where a download may hold a ``struct.py``.

    calcli itself is always found. keep : descriptors that the interpreter inherits.
    streams : arguments of ``subprocess.Popen``. Raises OSError where no process can be
    started.
    """
    import subprocess

    path = _elsewhere(sys.path)
    root = str(Path(calcli.__file__).parents[1])
    if root not in path:
        path.append(root)
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    if "PYTHONPATH" in environment:
        environment["PYTHONPATH"] = os.pathsep.join(
            _elsewhere(environment["PYTHONPATH"].split(os.pathsep))
        )
    # As multiprocessing does.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    words = [
        sys.executable,
        *flags,
        "-P",
        "-c",
        f"import sys; sys.path[:] = {path!r}; {code}",
    ]
    return subprocess.Popen(words, env=environment, pass_fds=keep, **streams)


def _elsewhere(folders: Sequence[str]) -> list[str]:
    """Folders other than the working folder, however it is written."""
    kept = []
    for folder in folders:
        with suppress(OSError):
            if os.path.samefile(folder or ".", "."):
                continue
        kept.append(folder)
    return kept
