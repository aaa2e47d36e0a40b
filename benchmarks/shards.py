"""One file, 40 shards, worker processes and a local Dask cluster: processor time, clock and memory of each, as JSON.

python benchmarks/shards.py [--rows 200000] [--classes 100] [--shards 40] [-o shards.json]

Memory is the largest of any process of the command; of a cluster, what a worker holds at the end. Every row says
whether its artifact, or its metrics, are those of the one file.
"""

import argparse
import json
import resource
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
from _measure import calcli, make_bundle, workspace

METRICS = ("accuracy", "nll", "ece", "ece_mass", "auroc")


def cut(path, folder, count):
    """The rows of a bundle as several."""
    folder.mkdir()
    with h5py.File(path) as file:
        ends = np.linspace(0, len(file["labels"]), count + 1).astype(int)
        for i, (start, stop) in enumerate(pairwise(ends)):
            with h5py.File(folder / f"shard{i}.h5", "w") as out:
                out["logits"], out["labels"] = file["logits"][start:stop], file["labels"][start:stop]


@contextmanager
def cluster(workers):
    """A scheduler and workers on this machine: its address and the processes; None without Dask."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    start = lambda *words: subprocess.Popen([sys.executable, "-m", *words], **quiet)  # noqa: E731
    address = f"tcp://127.0.0.1:{port}"
    every = [start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")]
    one = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
    every += [start("distributed.cli.dask_worker", address, *one) for _ in range(workers)]
    try:
        yield address, every
    finally:
        for each in every:
            each.kill()
            each.wait()


def used(processes):
    """Processor seconds so far, and the largest memory in MiB, of processes that run on."""
    import psutil

    seen = [psutil.Process(p.pid) for p in processes]
    return sum(sum(p.cpu_times()[:2]) for p in seen), max(p.memory_info().rss for p in seen) / 2**20


def measured(command, folder, running=()):
    """What a command prints and costs, with what it costs processes that run anyway."""
    cpu, _ = used(running) if running else (0.0, 0.0)
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # A process in between: its children's peak is the command's alone.
    script = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(done.returncode)"
    )
    done = subprocess.run([sys.executable, "-c", script, *command], cwd=folder, capture_output=True, text=True)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    more, peak = used(running) if running else (0.0, 0.0)
    return done.stdout, {
        "cpu_s": round(spent + more - cpu, 2),
        "clock_s": round(wall, 2),
        "peak_mib": round(max(int(done.stderr.split()[-1]) / 1024, peak)),
    }


def artifact(path):
    """An artifact without the name of what it was fitted on."""
    content = json.loads(path.read_text())
    content["fit"].pop("source")
    return content


def rows_of(folder, dask):
    """Every way of doing it: name, bundles, options, processes that run anyway."""
    one, many = ["one.h5"], ["shards/*.h5"]
    yield "one file", one, [], ()
    yield "shards", many, [], ()
    yield "shards, 1 worker", many, ["--workers", "1"], ()
    yield "shards, 2 workers", many, ["--workers", "2"], ()
    if dask is not None:
        yield "shards, Dask with 2 workers", many, ["--cluster", dask[0]], tuple(dask[1])


def bench(folder, dask):
    """One line per way and command."""
    expected = {}
    for at, (name, bundles, options, running) in enumerate(rows_of(folder, dask)):
        several = bundles != ["one.h5"]
        asked = [word for metric in METRICS for word in ("--metric", metric)]
        pool = ["--pool"] if several else []
        for what, words in {
            "fit ts": ["fit", "-m", "ts", *bundles, "-o", f"ts{at}.json", "-q"],
            "fit vs": ["fit", "-m", "vs", *bundles, "-o", f"vs{at}.json", "-q"],
            "evaluate": ["evaluate", *bundles, *pool, "-c", "ts0.json", *asked, "--json", "-q"],
            "apply": ["apply", "ts0.json", *bundles, "-o", f"out{at}" if several else f"out{at}.h5", "-q"],
        }.items():
            text, cost = measured(calcli(*words, *options), folder, running)
            line = {"data": name, "command": what, **cost}
            if what.startswith("fit"):
                found = artifact(folder / f"{what[4:]}{at}.json")
                line["same"] = found == expected.setdefault(what, found)
            if what == "evaluate":
                results = json.loads(text)["results"]
                found = [result["metrics"][metric]["value"] for result in results for metric in METRICS]
                line["same"] = bool(np.allclose(found, expected.setdefault(what, found), rtol=1e-12, atol=0))
            yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--shards", type=int, default=40)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    with workspace() as name, cluster(2) as dask:
        folder = Path(name)
        cut(make_bundle(folder / "one.h5", args.rows, args.classes), folder / "shards", args.shards)
        facts = {"rows": args.rows, "classes": args.classes, "shards": args.shards, "dask": dask is not None}
        content = {**facts, "runs": list(bench(folder, dask))}
    text = json.dumps(content, indent=1)
    print(text)
    if args.output is not None:
        args.output.write_text(text + "\n")
    return 0 if all(run.get("same", True) for run in content["runs"]) else 1


if __name__ == "__main__":
    sys.exit(main())
