"""All that a GPU can tell about calcli, in one call of at most four minutes.

    python benchmarks/cuda.py [REPO] --out gpu.json
    python benchmarks/cuda.py --device cpu --small --out rehearsal.json

Stages run in order of worth (see ``STAGES``), each only while time is left. The JSON is
written after every stage. A stage that fails, hangs or ends its process is recorded, and
a fresh process goes on with the next one. ``--device cpu --small`` rehearses all stages
without a GPU: what it checks must hold, its times say nothing. Needs calcli's
dependencies and torch. Ends with code 0 if every check held, else with code 2.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Stage:
    """A stage of ``_cuda_stages``. limit : seconds after which it is stopped."""

    name: str
    limit: float


STAGES = (
    Stage("facts", 25),
    Stage("results", 45),
    Stage("same_bytes", 15),
    Stage("waits", 25),
    Stage("memory", 45),
    Stage("speed", 60),
    Stage("choice_of_auto", 10),
    Stage("commands", 60),
    Stage("profile", 25),
    Stage("model", 40),
    Stage("tests", 60),
)
BUDGET = 225.0  # seconds in all
LEAST = 4.0  # seconds that must be left for a stage to begin
POLL = 0.1  # seconds between looks at the running stage
PROGRAM = Path(__file__).parent / "_cuda_stages.py"


class Record:
    """The JSON file, which this process and the one that runs the stages write in turn."""

    def __init__(self, path):
        self.path = path

    def read(self):
        return json.loads(self.path.read_text(encoding="utf-8"))

    def write(self, content):
        """Replace the file at once, so that nobody reads half of it."""
        part = self.path.with_suffix(".part")
        text = json.dumps(content, indent=1, default=str)
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(self.path)

    def begin(self, stage):
        """Note that a stage runs."""
        content = self.read()
        content["running"] = stage
        content["running_since"] = time.time()
        self.write(content)

    def store(self, stage, result):
        """Store what a stage has so far."""
        content = self.read()
        content["stages"][stage] = result
        self.write(content)

    def end(self, stage, result):
        """Store the result of a stage that runs no more, with what it had."""
        content = self.read()
        content["stages"][stage] = content["stages"].get(stage, {}) | result
        content["running"] = None
        self.write(content)


def run_stages(args, record, ends_at):
    """Run stages, in a fresh process after each one that failed, while time is left."""
    waiting = list(STAGES)
    while waiting and ends_at - time.time() > LEAST:
        problem = run_process(args, waiting, record, ends_at)
        content = record.read()
        stopped = content["running"]
        if stopped is not None:
            seconds = round(time.time() - content["running_since"], 1)
            record.end(stopped, {"error": problem, "seconds": seconds})
        finished = record.read()["stages"]
        left = [stage for stage in waiting if stage.name not in finished]
        if len(left) == len(waiting):
            if problem is not None:
                # As calcli or torch were imported.
                record.store("start", {"error": problem})
            break
        waiting = left
    content = record.read()
    content["skipped"] = [stage.name for stage in waiting]
    record.write(content)


def run_process(args, stages, record, ends_at):
    """Run stages in one process; returns why it failed, None where it did not."""
    names = [stage.name for stage in stages]
    command = [sys.executable, str(PROGRAM), str(args.repo), str(record.path)]
    command += [args.device, str(args.small), str(ends_at - LEAST), *names]
    environment = dict(os.environ)
    paths = [str(args.repo), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    limits = {stage.name: stage.limit for stage in stages}
    while process.poll() is None:
        time.sleep(POLL)
        content = record.read()
        stage_ends = ends_at
        if content["running"] is not None:
            stage_ends = content["running_since"] + limits[content["running"]]
        if time.time() > min(stage_ends, ends_at):
            stop(process)
            return "stopped at its time limit"
    if process.returncode != 0:
        return f"its process ended with code {process.returncode}"
    return None


def stop(process):
    """End a process and those that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def failures(content):
    """Names of the stages that failed, and of the checks that did not hold."""
    names = []
    for stage, result in content["stages"].items():
        if "error" in result:
            names.append(f"{stage}: {result['error']}")
        for check, outcome in result.get("checks", {}).items():
            if not outcome["holds"]:
                names.append(f"{stage}: {check}: {outcome['figure']}")
    return names


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("repo", type=Path, nargs="?", default=here)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--budget", type=float, default=BUDGET)
    args = parser.parse_args()
    args.repo = args.repo.resolve()
    args.out = args.out.resolve()
    return args


def main():
    args = parsed()
    begun = time.time()
    record = Record(args.out)
    record.write({"device": args.device, "stages": {}, "running": None})
    run_stages(args, record, begun + args.budget)
    content = record.read()
    content.pop("running")
    content.pop("running_since", None)
    content["seconds"] = round(time.time() - begun, 1)
    content["failed"] = failures(content)
    record.write(content)
    checks = [len(s.get("checks", {})) for s in content["stages"].values()]
    print(f"{content['seconds']} s, {sum(checks)} checks in {len(checks)} stages")
    print("failed:", "; ".join(content["failed"]) or "none")
    print("skipped:", ", ".join(content["skipped"]) or "none")
    sys.exit(2 if content["failed"] else 0)


if __name__ == "__main__":
    main()
