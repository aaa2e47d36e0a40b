"""`benchmarks/cuda.py`: rehearsed on the CPU, and whatever happens to a stage."""

import argparse
import json
import subprocess
import sys
import time

import pytest
from conftest import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.mark.slow
def test_the_rehearsal_holds(tmp_path):
    """Every stage runs without a GPU, and every check holds; some 25 s on two cores."""
    pytest.importorskip("torch")
    out = tmp_path / "gpu.json"
    command = [sys.executable, str(BENCHMARKS / "cuda.py"), str(REPOSITORY)]
    command += ["--device", "cpu", "--small", "--out", str(out)]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    content = json.loads(out.read_text("utf-8"))
    assert content["failed"] == content["skipped"] == []
    assert list(content["stages"])[:3] == ["facts", "results", "same_bytes"]
    assert len(content["stages"]["results"]["checks"]) == 8 * 8
    assert content["seconds"] < 225


STAND_IN = """
import os, sys, time
sys.path.insert(0, {folder!r})
from cuda import Record
from pathlib import Path
repo, out, device, small, last_start, *names = sys.argv[1:]
record = Record(Path(out))
for name in names:
    record.begin(name)
    if name == "dies":
        os._exit(7)
    if name == "hangs":
        record.store(name, {{"figures": {{"half": 1}}}})
        time.sleep(60)
    if name == "breaks":
        record.end(name, {{"error": "CUDA error", "seconds": 0}})
        sys.exit(3)
    if name == "misses":
        checks = {{"sum": {{"holds": False, "figure": 0.5}}}}
        record.end(name, {{"checks": checks}})
        continue
    record.end(name, {{"process": os.getpid()}})
"""


@pytest.fixture
def cuda(tmp_path, monkeypatch):
    """The benchmark, with a program in place of the stages."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "cuda", raising=False)
    import cuda

    program = tmp_path / "stages.py"
    program.write_text(STAND_IN.format(folder=str(BENCHMARKS)), "utf-8")
    monkeypatch.setattr(cuda, "PROGRAM", program)
    yield cuda
    sys.modules.pop("cuda", None)


def outcome(cuda, path, stages, budget=60.0):
    """What the record holds after these stages."""
    record = cuda.Record(path)
    record.write({"stages": {}, "running": None})
    cuda.STAGES = stages
    args = argparse.Namespace(repo=REPOSITORY, device="cpu", small=True)
    cuda.run_stages(args, record, time.time() + budget)
    return record.read()


def test_a_stage_that_fails_is_recorded_and_the_next_goes_on(cuda, tmp_path):
    names = ["first", "dies", "hangs", "breaks", "misses", "last"]
    limits = dict.fromkeys(names, 30.0) | {"hangs": 0.5}
    stages = [cuda.Stage(name, limits[name]) for name in names]
    content = outcome(cuda, tmp_path / "gpu.json", stages)
    assert list(content["stages"]) == names
    assert content["skipped"] == []
    assert cuda.failures(content) == [
        "dies: its process ended with code 7",
        "hangs: stopped at its time limit",
        "breaks: CUDA error",
        "misses: sum: 0.5",
    ]
    assert content["stages"]["hangs"]["figures"] == {"half": 1}
    processes = {content["stages"][name]["process"] for name in ("first", "last")}
    assert len(processes) == 2


def test_stages_without_time_are_skipped(cuda, tmp_path):
    stages = [cuda.Stage("hangs", 30.0), cuda.Stage("last", 30.0)]
    budget = cuda.LEAST + 1.0
    content = outcome(cuda, tmp_path / "gpu.json", stages, budget)
    assert content["stages"]["hangs"]["error"] == "stopped at its time limit"
    assert content["skipped"] == ["last"]


def test_a_program_that_does_not_start_is_recorded(cuda, tmp_path):
    cuda.PROGRAM.write_text("import no_such_module", "utf-8")
    content = outcome(cuda, tmp_path / "gpu.json", [cuda.Stage("first", 9.0)])
    error = {"error": "its process ended with code 1"}
    assert content["stages"] == {"start": error}
    assert content["skipped"] == ["first"]


# ---- the lines that only a GPU runs, with a CPU in its place


@pytest.fixture
def card(monkeypatch):
    """Functions of ``torch.cuda`` for a card that is the CPU."""
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("cuda", "_cuda_stages"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import _cuda_stages as stages

    def set_fraction(fraction):
        send = stages.refuse if fraction < 1.0 else stages.Device.former_send
        stages.Device.send = send

    properties = argparse.Namespace(name="a card", major=9, minor=0)
    stand_ins = {
        "synchronize": lambda: None,
        "empty_cache": lambda: None,
        "reset_peak_memory_stats": lambda: None,
        "max_memory_allocated": lambda: 1 << 20,
        "mem_get_info": lambda: (1 << 36, 1 << 36),
        "get_device_properties": lambda index: properties,
        "set_sync_debug_mode": lambda mode: None,
        "set_per_process_memory_fraction": set_fraction,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(stages.Device, "former_send", stages.Device.send, raising=False)
    monkeypatch.setattr(stages.Device, "send", stages.Device.send)
    monkeypatch.setattr(stages.Session, "is_cuda", True)
    yield stages
    for name in ("cuda", "_cuda_stages"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["facts", "waits", "memory", "profile"])
def test_the_lines_for_a_gpu_run(card, name):
    session = card.Session(REPOSITORY, "cpu", True, {})
    report = card.Report()
    card.STAGES[name](session, report)
    failed = [name for name, check in report.checks.items() if not check["holds"]]
    assert failed == []
    if name == "facts":
        assert report.figures["card"] == "a card"
    if name == "waits":
        assert report.checks["recal tilt: waits for copies only"]["figure"] == 0
    if name == "memory":
        assert report.checks["60 x 1000, 0 transforms, kept: peak"]["figure"] == 1.0
        assert report.checks["without memory: said"]["figure"] == 2
