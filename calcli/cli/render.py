"""What people see: words on stderr, tables and JSON on stdout, progress on a terminal."""

import json
import re
import sys
import time
from contextlib import suppress
from typing import Any

from calcli.cli.tables import plain
from calcli.io.cells import HIDDEN, finite

LONGEST_LINE = 2000  # characters of an error; what a file or a user wrote may be far longer


def fail(message: str, code: int) -> int:
    """Write one line to stderr, and hand the exit code on."""
    text = " ".join(message.split())
    text = text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE // 2]} … {text[-LONGEST_LINE // 2 :]}"
    with suppress(OSError):  # a full disk under stderr too leaves the exit code to tell
        print("calcli:", plain(text), file=sys.stderr)
    return code


class Console:
    """Words to the user, on stderr; silent with ``quiet``."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._rates: dict[str, tuple[float, int, int]] = {}  # since when, from how much, to how much is done
        self._due, self._drawn, self._step = 0.0, False, ""
        self._kept: dict[str, list[str]] = {}

    def say(self, text: str = "") -> None:
        if not self.quiet:
            self._close()
            print(plain(text), file=sys.stderr)

    def warn(self, text: str, about: str = "") -> None:
        """A warning: one line, so that logs can be searched for it. One about a thing of several is kept until
        ``tell_warnings``, which joins equal ones."""
        if about:
            self._kept.setdefault(text, []).append(about)
        else:
            self.say(f"warning: {text}")

    def tell_warnings(self) -> None:
        """Write the warnings that were kept: equal ones, and many that differ in numbers alone, as one line."""
        alike: dict[str, list[str]] = {}
        for text in self._kept:
            alike.setdefault(re.sub(r"\d[\d.]*", "0", text), []).append(text)
        for texts in alike.values():
            joined = [texts] if len(texts) > ALIKE else [[text] for text in texts]
            for text, *others in joined:
                things = [thing for each in (text, *others) for thing in self._kept[each]]
                shown = ", ".join(things[:3]) + (f" and {len(things) - 3} more" if len(things) > 3 else "")
                self.say(f"warning: {shown}: {text}{' (numbers of the first)' if others else ''}")
        self._kept = {}

    def step(self, text: str) -> None:
        """Say which step begins: in the line that progress rewrites, elsewhere in the line of the minute."""
        self._step = text
        if not self.quiet and (sys.stderr.isatty() or self._is_due(time.monotonic())):
            self._draw(text)

    def progress(self, what: str, done: int, total: int) -> None:
        """Report progress: rewritten on a terminal when it takes long, a line a minute elsewhere."""
        now = time.monotonic()
        begun, first, before = self._rates.get(what, (now, done, done))
        if done < before:  # it begins again, as walks over rows do
            begun, first = now, done
        self._rates[what] = begun, first, done
        if not self.quiet and self._is_due(now):
            self._draw(f"{self._step} {what}: {_rate(done, done - first, total, now - begun)}".strip())

    def _draw(self, text: str) -> None:
        self._drawn = sys.stderr.isatty()
        before, end = (ERASE, "") if self._drawn else ("", "\n")
        print(f"{before}{plain(text)}", end=end, file=sys.stderr, flush=True)

    def _is_due(self, now: float) -> bool:
        """Is it time for a line of progress? A second after the first work, or a minute where lines stay."""
        terminal = sys.stderr.isatty()
        self._due = self._due or now + (1.0 if terminal else 60.0)
        if now < self._due:
            return False
        self._due = now + (0.1 if terminal else 60.0)
        return True

    def clear(self) -> None:
        """Remove the line of progress; the step is over."""
        self._close()
        self._step, self._rates = "", {}

    def _close(self) -> None:
        if self._drawn:
            print(ERASE, end="", file=sys.stderr, flush=True)
        self._drawn = False


ERASE = "\r\x1b[K"
ALIKE = 3  # kept warnings that differ in numbers alone are joined where there are more than this


def _rate(done: int, fresh: int, total: int, seconds: float) -> str:
    """How much of one kind of work is done, how fast, how long still. fresh : done in these seconds; total : 0 where
    nobody knows."""
    seconds = max(seconds, 1e-9)
    if not total:
        return f"{done}, {_clock(seconds)}"
    share = f"{done}/{total} ({done / total:.0%})"
    if fresh <= 0:  # no speed is known yet
        return share
    left = seconds * (total - done) / fresh
    return f"{share}, {float(f'{fresh / seconds:.3g}'):.9g}/s, {_clock(left)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def print_path(path: object) -> None:
    """Write the name of an output: as it is for a program, with nothing that steers it on a terminal."""
    print(plain(str(path)) if sys.stdout.isatty() else path, flush=True)


def print_json(value: Any) -> None:
    """Write one JSON object to stdout; a number that is not finite becomes null."""
    text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    if not unicode or len(text.encode(errors="ignore")) < len(text.encode(errors="surrogatepass")):  # no text
        text = json.dumps(finite(value), allow_nan=False)
    print(text.translate(CONTROL))


CONTROL = {code: f"\\u{code:04x}" for code in (*range(127, 160), *HIDDEN)}
"""What JSON may hold as it is and a terminal obeys; only in strings, as all else is ASCII."""
