"""Run the command line in this process, or for real."""

import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import calcli.cli.main as entry

RUNS: Counter[tuple[str, str]] = Counter()
"""Commands run so far, by file and test: ``make fuzz`` ends with them."""


def count():
    """One more run of the test that is at work."""
    file, _, test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")
    RUNS[Path(file).stem, test.partition("[")[0].partition(" ")[0]] += 1


@dataclass
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def line(self):
        """The one error line."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("calcli: ")
        assert "Traceback" not in self.err
        return lines[0]


def runner(monkeypatch, capsys):
    """A function that runs ``calcli`` with the given words, fast."""
    monkeypatch.setenv(
        "PYTHONSAFEPATH", ""
    )  # the command sets it for its process, which this is not

    def run(*words):
        count()
        monkeypatch.setattr(sys, "argv", ["calcli", *map(str, words)])
        capsys.readouterr()
        code = 0
        handlers = {number: signal.getsignal(number) for number in entry.SIGNALS}
        hook, threshold = sys.unraisablehook, gc.get_threshold()
        try:
            entry.main()
        except SystemExit as end:
            code = end.code or 0
        finally:  # the command leaves them ignored, as its process is about to end
            for number, handler in handlers.items():
                signal.signal(number, handler)
            sys.unraisablehook = hook
            gc.set_threshold(*threshold)
            gc.enable()
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


def process(*words, cwd, stdin=None, timeout=None):
    """Run ``calcli`` as a process of its own."""
    count()
    done = subprocess.run(
        [sys.executable, "-m", "calcli", *map(str, words)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    return Result(done.returncode, done.stdout, done.stderr)
