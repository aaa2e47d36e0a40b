"""Run commands in forked children of this process, within limits of time and memory."""

import os
import resource
import signal
import sys
import time
from pathlib import Path

from run_calcli import count

import calcli.cli.main as entry

CPU, MEMORY = 10, 1 << 30


def live(words):
    """A child's life: one command, within limits."""
    sink = os.open("said", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(sink, stream)
    with open("/proc/self/statm", encoding="ascii") as file:
        present = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (present + MEMORY, present + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
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
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        live(words)
    while True:
        found, status, used = os.wait4(child, os.WNOHANG)
        if found:
            break
        if time.monotonic() - begun > 6 * CPU:  # it waits for something
            os.kill(child, signal.SIGKILL)
        time.sleep(0.001)
    said = Path("said").read_text(encoding="utf-8", errors="replace")
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, said
