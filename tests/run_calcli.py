"""Run the command line in this process, or for real."""

import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import calcli.cli.main as entry

RUNS: Counter[tuple[str, str]] = Counter()
"""Commands run so far, by file and test: ``make fuzz`` ends with them."""


def count():
    """One more run of the test that is at work."""
    # As "tests/cli/test_app.py::test_name[case] (call)".
    file, _, test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")
    name = test.partition("[")[0].partition(" ")[0]
    RUNS[Path(file).stem, name] += 1


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


@contextmanager
def process_state_kept():
    """Restore what the command changes in its process, as that is about to end there."""
    handlers = {number: signal.getsignal(number) for number in entry.SIGNALS}
    hook = sys.unraisablehook
    threshold = gc.get_threshold()
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook
        gc.set_threshold(*threshold)
        gc.enable()


def runner(monkeypatch, capsys):
    """A function that runs ``calcli`` with the given words, fast."""
    # The command sets it for its process, which this is not.
    monkeypatch.setenv("PYTHONSAFEPATH", "")

    def run(*words):
        count()
        monkeypatch.setattr(sys, "argv", ["calcli", *map(str, words)])
        capsys.readouterr()
        code = 0
        with process_state_kept():
            try:
                entry.main()
            except SystemExit as end:
                code = end.code or 0
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


def process(*words, cwd, stdin=None, timeout=None):
    """Run ``calcli`` as a process of its own."""
    count()
    finished = subprocess.run(
        [sys.executable, "-m", "calcli", *map(str, words)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    return Result(finished.returncode, finished.stdout, finished.stderr)
