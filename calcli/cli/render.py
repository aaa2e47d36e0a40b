"""What people see: words on stderr, tables and JSON on stdout, progress on a terminal."""

import json
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

__all__ = ["Talk", "fail", "number", "plain", "print_json", "print_table"]

Cell = str | float | int | None

CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def plain(text: str) -> str:
    """Text from a file in which nothing steers a terminal or breaks a line."""
    return text.translate(CONTROL)


def fail(message: str, code: int) -> int:
    """Write one line to stderr, and hand the exit code on."""
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


def number(value: Any, digits: int = 4) -> str:
    """A number for a table: ``digits`` decimals, or significant digits when it is small or large."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, str | bool | int):
        return str(value)
    if value != 0 and (abs(value) < 10**-digits or abs(value) >= 1e6):
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits}f}"


def print_json(value: Any) -> None:
    """Write one JSON object to stdout; a number that is not finite becomes null."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    if not unicode or any("\ud800" <= c <= "\udfff" for c in text):  # a file name that is no text
        text = json.dumps(_finite(value), allow_nan=False)
    print(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(head: Sequence[str], body: Sequence[Sequence[Cell]], *, file: TextIO | None = None) -> None:
    """Write a table: plain text, or with rules and colour when ``file`` (stdout) is a terminal.

    Columns whose body is all numbers are aligned right.
    """
    out = file or sys.stdout
    text = [[plain(number(cell)) for cell in row] for row in body]
    right = [all(not isinstance(row[j], str) for row in body) for j in range(len(head))]
    widths = [max(len(row[j]) for row in [list(head), *text]) for j in range(len(head))]
    if out.isatty() and not os.environ.get("CALCLI_PLAIN"):
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for name, to_right in zip(head, right, strict=True):
            table.add_column(name, justify="right" if to_right else "left", no_wrap=to_right, overflow="fold")
        for row in text:
            table.add_row(*row)
        # Names are not markup. Words may be folded, numbers not: rather too wide than cut in two.
        console = Console(file=out, markup=False, emoji=False, highlight=False)
        least = sum(w if r else min(w, 12) for w, r in zip(widths, right, strict=True)) + 2 * len(widths)
        console.width = max(console.width, least)
        console.print(table)
        return
    for row in [list(head), *text]:
        cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        print("  ".join(cells).rstrip(), file=out)
