"""Run commands in forked children of this process, within limits of time and memory."""

import os
import resource
import signal
import sys
import time
from pathlib import Path

from run_calcli import count

import calcli.cli.main as entry

CPU = 10  # processor seconds of a command
MEMORY = 1 << 30  # bytes beyond those that the parent has
OUTPUT = Path("said")
"""The file that both streams of a command go to."""


def set_limits():
    """Limit memory and time of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        n_pages = int(file.read().split()[0])
    memory = n_pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def live(words):
    """A child's life: one command, within limits."""
    output = os.open(OUTPUT, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    set_limits()
    code = 99
    try:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        sys.argv = ["calcli", *map(str, words)]
        entry.main()
    except SystemExit as end:
        code = end.code or 0
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code)


def run(words):
    """The exit code of a command in a child (a signal as a negative number), its seconds, what it said."""
    count()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        live(words)
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - start > 6 * CPU:  # it waits for something
            os.kill(child, signal.SIGKILL)
        time.sleep(0.001)
    text = OUTPUT.read_text(encoding="utf-8", errors="replace")
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, text
