"""What people see: words on stderr, tables and JSON on stdout, progress on a terminal."""

import json
import math
import sys
import time
from contextlib import suppress
from typing import Any

from calcli.cli.tables import number, plain, print_table

__all__ = ["Talk", "fail", "number", "plain", "print_json", "print_table"]


def fail(message: str, code: int) -> int:
    """Write one line to stderr, and hand the exit code on."""
    with suppress(OSError):  # a full disk under stderr too leaves the exit code to tell
        print("calcli:", plain(" ".join(message.split())), file=sys.stderr)
    return code


class Talk:
    """Words to the user, on stderr; silent with ``quiet``."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bar: _Bar | None = None

    def say(self, text: str = "") -> None:
        """A line of information."""
        if not self.quiet:
            self.clear()
            print(plain(text), file=sys.stderr)

    def warn(self, text: str) -> None:
        """A warning: one line, so that logs can be searched for it."""
        self.say(f"warning: {text}")

    def progress(self, what: str, done: int, total: int) -> None:
        """Report progress; drawn only on a terminal and only when it takes long."""
        if self.quiet or not sys.stderr.isatty():
            return
        if self._bar is None or self._bar.what != what:
            self.clear()
            self._bar = _Bar(what)
        self._bar.update(done, total)

    def clear(self) -> None:
        """Remove the progress line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _Bar:
    """One line that is rewritten, after a second, at most ten times a second."""

    def __init__(self, what: str) -> None:
        self.what, self.begun, self.last, self.drawn = what, time.monotonic(), 0.0, False

    def update(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.begun < 1.0 or now - self.last < 0.1:
            return
        self.last, self.drawn = now, True
        seconds = now - self.begun
        if total:
            left = seconds * (total - done) / max(done, 1)
            text = f"{self.what}: {done}/{total} ({done / total:.0%}), {done / seconds:.3g}/s, {_clock(left)} left"
        else:
            text = f"{self.what}: {done}, {_clock(seconds)}"
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def print_json(value: Any) -> None:
    """Write one JSON object to stdout; a number that is not finite becomes null."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    if not unicode or any("\ud800" <= c <= "\udfff" for c in text):  # a file name that is no text
        text = json.dumps(_finite(value), allow_nan=False)
    print(text.translate(CONTROL))


CONTROL = {code: f"\\u{code:04x}" for code in range(127, 160)}
"""What JSON may hold as it is and a terminal obeys; only in strings, as all else is ASCII."""


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
