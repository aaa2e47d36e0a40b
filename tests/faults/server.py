"""Runs calcli in forked children of one warm process, so that a run costs milliseconds.

One JSON object per line on stdin: argv, cwd, out and err (files for stdout and stderr),
limits ({name: bytes or number}), kill (seconds after which SIGKILL comes, or null). The
answer is one line: the exit code, negative for a signal. A child ends as any Python
process does, HDF5's exit handlers included.
"""

import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import signal
import sys
import time


def warm():
    """Import what the commands import and build the parser, so that no child has to."""
    import matplotlib.backends.backend_agg
    import pyarrow.parquet
    import scipy.special
    import typer

    import calcli
    from calcli.cli.main import run

    for module in pkgutil.walk_packages(calcli.__path__, "calcli."):
        if not {"torch", "sklearn", "__main__"} & set(module.name.split(".")):
            importlib.import_module(module.name)
    typer.main.get_command = functools.cache(typer.main.get_command)
    with contextlib.redirect_stdout(io.StringIO()):
        run(["methods"])
    gc.freeze()  # a collection in a child would copy every page
    return matplotlib, pyarrow, scipy


def child(job):
    os.chdir(job["cwd"])
    for number, name in ((1, job["out"]), (2, job["err"])):
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    for name, value in job["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    sys.argv = ["calcli", *job["argv"]]
    from calcli.cli.main import main

    main()


def serve():
    """Answer until stdin ends; returns, in a child, the job that it has to do."""
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            return job
        if job["kill"] is not None:
            time.sleep(job["kill"])
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


if __name__ == "__main__":
    warm()
    print("ready", flush=True)
    if (job := serve()) is not None:
        child(job)
