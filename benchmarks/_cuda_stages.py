"""The stages of ``cuda.py``: each takes a ``Session`` and fills a ``Report``."""

import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import h5py
import numpy as np
from cuda import Record

begun = time.perf_counter()
import torch  # noqa: E402

IMPORT_SECONDS = time.perf_counter() - begun

from calcli.kernels import numpy as kernels  # noqa: E402
from calcli.kernels import torch as twins  # noqa: E402
from calcli.kernels.device import (  # noqa: E402
    CPU_SECONDS,
    GPU_SECONDS,
    gpu_pays,
    resolve,
)
from calcli.kernels.numpy.hoki_draws import standard_noise  # noqa: E402
from calcli.kernels.torch.device_rows import Device  # noqa: E402
from calcli.rows import ArrayRows  # noqa: E402

MIB = 2**20
GIB = 2**30
SEARCH = [3.0 * 2 ** (i / 2) for i in range(-6, 7)]  # scales, as Hoki searches them
WORKING_PEAK = 1600 * MIB  # of the work on one chunk, as the tests of fake tensors say


@dataclass
class Session:
    """What the stages share. small : a rehearsal. earlier : results of other stages."""

    repo: Path
    device: str
    small: bool
    earlier: dict

    @property
    def is_cuda(self):
        return self.device == "cuda"

    def wait(self):
        """Wait until the device has done what it was asked for."""
        if self.is_cuda:
            torch.cuda.synchronize()

    def seconds(self, work, repeats=3):
        """Shortest time of some runs, after one that warms up."""
        work()
        times = []
        for _ in range(repeats):
            self.wait()
            start = time.perf_counter()
            work()
            self.wait()
            times.append(time.perf_counter() - start)
        return min(times)


def discard(result):
    """Store a result nowhere."""


@dataclass
class Report:
    """Result of a stage. checks : whether they hold, with the figure that decided.

    store : called with the result so far whenever there is more of it, so that a stage
    that is stopped leaves what it had.
    """

    store: Callable = discard
    figures: dict = field(default_factory=dict)
    checks: dict = field(default_factory=dict)

    def check(self, name, holds, figure):
        self.checks[name] = {"holds": bool(holds), "figure": figure}
        self.store(self.result)

    def add(self, name, figure):
        self.figures[name] = figure
        self.store(self.result)

    @property
    def result(self):
        return {"checks": self.checks, "figures": self.figures}


def made_up(n, k, transforms=0, dtype=np.float32, kind="logits"):
    """Rows like a trained network's: one strong class, right in 80 % of the rows."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, k), dtype=np.float32) * np.float32(2)
    y = rng.integers(0, k, n)
    z[np.arange(n), y] += rng.gamma(4.0, 2.2, n).astype(np.float32)
    wrong = rng.random(n) < 0.2
    y[wrong] = rng.integers(0, k, int(wrong.sum()))
    moved = None
    if transforms:
        noise = rng.standard_normal((transforms, n, k), dtype=np.float32)
        moved = (z * np.float32(0.7) + noise).astype(dtype)
    scores = z
    if kind == "probs":
        scores = np.exp(z - z.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
    names = [f"zoom:0.{i + 10}" for i in range(transforms)]
    return ArrayRows(scores.astype(dtype), y, kind, transformed=moved, transforms=names)


# ---- facts of the machine


def facts(session, report):
    """Versions, the card, its bandwidth and its speed at what the loops do most."""
    figures = report.figures
    figures["torch"] = torch.__version__
    figures["numpy"] = np.__version__
    figures["cpus"] = os.cpu_count()
    figures["import_seconds"] = IMPORT_SECONDS
    start = time.perf_counter()
    torch.ones(1, device=session.device).sum().item()
    figures["first_kernel_seconds"] = time.perf_counter() - start
    if session.is_cuda:
        card = torch.cuda.get_device_properties(0)
        figures["card"] = card.name
        figures["cuda"] = torch.version.cuda
        figures["capability"] = f"{card.major}.{card.minor}"
        figures["free_gib"] = torch.cuda.mem_get_info()[0] / GIB
    size = 1 << (20 if session.small else 26)
    on_host = np.ones(size, dtype=np.float32)
    device = Device(session.device)
    doubles = device.empty(size).fill_(0.5)
    target = torch.empty_like(doubles)
    copy = session.seconds(partial(target.copy_, doubles))
    figures["copy_gb_per_s"] = 2 * 8 * size / copy / 1e9
    upload = session.seconds(partial(device.send, on_host))
    figures["upload_gb_per_s"] = on_host.nbytes / upload / 1e9
    download = session.seconds(partial(device.fetch, doubles))
    figures["download_gb_per_s"] = 8 * size / download / 1e9
    figures["float64_exp_per_s"] = size / session.seconds(doubles.exp)
    figures["float32_exp_per_s"] = size / session.seconds(doubles.float().exp)
    places = torch.arange(size, device=session.device) // 50
    ones = torch.ones(size, dtype=torch.int64, device=session.device)
    sums = torch.zeros(size, dtype=torch.int64, device=session.device)
    adding = session.seconds(partial(sums.scatter_add_, 0, places, ones))
    figures["int64_additions_per_s"] = size / adding


# ---- results against NumPy


def sources(session):
    """Rows by name: few and many classes, each precision, probabilities."""
    n = 200 if session.small else 3000
    many = 20_000 if session.small else 50_000
    return {
        "2 classes": made_up(n, 2, 2),
        "10 classes": made_up(n, 10, 2),
        "1000 classes": made_up(n // 3, 1000, 2),
        f"{many} classes": made_up(20, many, 1),
        "float16": made_up(n, 30, 2, np.float16),
        "float64": made_up(n, 30, 2, np.float64),
        "probabilities": made_up(n, 10, 2, kind="probs"),
        "float16 probabilities": made_up(n, 10, 2, np.float16, "probs"),
    }


def results(session, report):
    """Every twin against NumPy, on every kind of rows."""
    for name, rows in sources(session).items():
        check_retention(session, report, name, rows)
        check_draws(session, report, name, rows)
        check_recal(session, report, name, rows)


def check_retention(session, report, name, rows):
    for noise in ("gaussian", "uniform", "gumbel"):
        expected = kernels.retention_rates(rows, noise, [0.7, 2.0])
        rates = twins.retention_rates(rows, noise, [0.7, 2.0], device=session.device)
        error = float(np.abs(rates - expected).max())
        report.check(f"hoki {noise}, {name}", error < 1e-9, error)


def check_draws(session, report, name, rows):
    draws = standard_noise("gaussian", 100, rows.k, 1)
    expected = kernels.retention_rates(rows, "gaussian", [2.0], draws)
    rates = twins.retention_rates(rows, "gaussian", [2.0], draws, device=session.device)
    different = int((rates != expected).sum())
    report.check(f"hoki draws, {name}", different == 0, different)


def check_recal(session, report, name, rows):
    plain = kernels.RowSharpness(rows)
    twin = twins.RowSharpness(rows, device=session.device)
    scale = np.random.default_rng(2).uniform(0.2, 3.0, rows.n)
    for wanted in (None, scale > 1.0):
        expected = plain.tilt(scale, wanted)
        tilt = twin.tilt(scale, wanted)
        error = float(np.abs(tilt.log_top - expected.log_top).max())
        size = 1.0 + np.abs(expected.cumulants)
        distance = np.abs(tilt.cumulants - expected.cumulants) / size
        error = max(error, float(distance.max()))
        rows_in_words = "all rows" if wanted is None else "some rows"
        report.check(f"recal tilt of {rows_in_words}, {name}", error < 1e-9, error)
    for with_own in (True, False):
        expected_share, expected_agreement = plain.response(0, scale, with_own)
        share, agreement = twin.response(0, scale, with_own)
        error = float(np.abs(share - expected_share).max())
        same = bool((agreement == expected_agreement).all())
        class_in_words = "own class" if with_own else "predicted class"
        holds = error < 1e-9 and same
        report.check(f"recal response of {class_in_words}, {name}", holds, error)


def same_bytes(session, report):
    """Results have the same bytes every time, with rows that are kept or streamed."""
    rows = made_up(500 if session.small else 20_000, 100, 1)
    runs = {
        "gaussian": partial(twins.retention_rates, rows, "gaussian", SEARCH),
        "gumbel": partial(twins.retention_rates, rows, "gumbel", SEARCH),
        "tilt": partial(tilt_bytes, rows),
    }
    for name, run in runs.items():
        compute = partial(run, device=session.device)
        outcomes = {compute().tobytes() for _ in range(4)}
        report.check(f"{name}, four times", len(outcomes) == 1, len(outcomes))
        with replaced(Device, "free_bytes", no_memory):
            streamed = compute().tobytes()
        report.check(f"{name}, streamed", streamed in outcomes, len(streamed))


def tilt_bytes(rows, device):
    tilt = twins.RowSharpness(rows, device=device).tilt(np.ones(rows.n))
    return np.concatenate([tilt.log_top[None], tilt.cumulants])


def no_memory(device):
    return 0.0


class replaced:
    """Context in which an attribute has another value."""

    def __init__(self, owner, name, value):
        self.owner, self.name, self.value = owner, name, value

    def __enter__(self):
        self.former = getattr(self.owner, self.name)
        setattr(self.owner, self.name, self.value)

    def __exit__(self, *problem):
        setattr(self.owner, self.name, self.former)


# ---- waits, memory


class CountingDevice(Device):
    """A device that counts its uploads and downloads."""

    uploads = 0
    downloads = 0

    def send(self, array):
        CountingDevice.uploads += 1
        return super().send(array)

    def fetch(self, tensor):
        CountingDevice.downloads += 1
        return super().fetch(tensor)


def loops_of(session, rows):
    """Loops by name, each a function without arguments; uploads of ReCal are done."""
    rates = partial(twins.retention_rates, rows, device=session.device)
    draws = standard_noise("gaussian", 100 if session.small else 1000, rows.k, 0)
    sharpness = twins.RowSharpness(rows, device=session.device)
    ones = np.ones(rows.n)
    return {
        "hoki 1 scale": partial(rates, "gaussian", [2.0]),
        "hoki 13 scales": partial(rates, "gaussian", SEARCH),
        "gumbel 13 scales": partial(rates, "gumbel", SEARCH),
        "hoki draws": partial(rates, "gaussian", [2.0], draws),
        "recal tilt": partial(sharpness.tilt, ones),
        "recal response": partial(sharpness.response, 0, ones, False),
    }


def waits(session, report):
    """Uploads and downloads of each loop; on a GPU all calls that wait."""
    rows = profiled_rows(session)
    with (
        replaced(twins.hoki_retention, "Device", CountingDevice),
        replaced(twins.recal, "Device", CountingDevice),
    ):
        for name, loop in loops_of(session, rows).items():
            report.add(name, waits_of(session, loop))
    for name, counts in report.figures.items():
        if session.is_cuda:
            crossings = counts["uploads"] + counts["downloads"]
            warned = counts["waiting_calls"]
            report.check(f"{name}: waits for copies only", warned <= crossings, warned)
        downloads = counts["downloads"]
        report.check(f"{name}: one download", downloads == 1, downloads)


def profiled_rows(session):
    n, k = (500, 100) if session.small else (40_000, 1000)
    return made_up(n, k, 2)


def waits_of(session, loop):
    loop()
    CountingDevice.uploads = 0
    CountingDevice.downloads = 0
    loop()
    counts = {
        "uploads": CountingDevice.uploads,
        "downloads": CountingDevice.downloads,
    }
    if session.is_cuda:
        counts["waiting_calls"] = waiting_calls(loop)
    return counts


def waiting_calls(loop):
    """Number of synchronising calls, as torch's debug mode counts them."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            loop()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(message.message) for message in messages)


def profile(session, report):
    """Operators of each loop, the share of the time that they take, and the longest."""
    for name, loop in loops_of(session, profiled_rows(session)).items():
        loop()
        report.add(name, profile_of(session, loop))


def profile_of(session, loop):
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if session.is_cuda:
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as profiler:
        start = time.perf_counter()
        loop()
        session.wait()
        wall = time.perf_counter() - start
    field_name = "self_device_time_total"
    if not session.is_cuda:
        field_name = "self_cpu_time_total"
    microseconds = {}
    for event in profiler.key_averages():
        if getattr(event, field_name) > 0:
            microseconds[event.key[:60]] = getattr(event, field_name)
    longest = sorted(microseconds, key=microseconds.__getitem__, reverse=True)[:8]
    return {
        "wall_ms": wall * 1e3,
        "busy_share": sum(microseconds.values()) / 1e6 / wall,
        "longest_ms": {key: microseconds[key] / 1e3 for key in longest},
    }


def memory(session, report):
    """Peaks as rows, classes and transforms grow, and what happens without memory."""
    shapes = [(60, 1000, 0), (600, 10, 2)]
    if not session.small:
        shapes = [
            (100_000, 2, 2),
            (10_000, 1000, 2),
            (100_000, 1000, 0),
            (10_000, 1000, 20),
            (400, 50_000, 2),
        ]
    for n, k, transforms in shapes:
        measure_peak(session, report, made_up(n, k, transforms, np.float16))
    if session.is_cuda and not session.small:
        few = made_up(20_000, 1000, 0, np.float16)
        scores = np.tile(few.scores, (50, 1))
        million = ArrayRows(scores, np.tile(few.y, 50))
        measure_peak(session, report, million)
    check_exhausted(session, report)


def measure_peak(session, report, rows):
    """Time and peak memory of a pass, with rows that are kept and that are streamed."""
    name = f"{rows.n} x {rows.k}, {len(rows.transforms)} transforms"
    kept = rows.scores.nbytes * (1 + len(rows.transforms)) + 8 * 16 * rows.n
    for way, uploaded in (("kept", kept), ("streamed", 0)):
        if session.is_cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        if way == "kept":
            one_pass(session, rows)
        else:
            with replaced(Device, "free_bytes", no_memory):
                one_pass(session, rows)
        session.wait()
        figures = {"seconds": time.perf_counter() - start}
        if session.is_cuda:
            peak = torch.cuda.max_memory_allocated()
            figures["peak_mib"] = peak / MIB
            bound = uploaded + WORKING_PEAK
            report.check(f"{name}, {way}: peak", peak <= bound, peak / MIB)
        report.add(f"{name}, {way}", figures)


def one_pass(session, rows):
    twins.retention_rates(rows, "gaussian", [2.0], device=session.device)
    if rows.transforms:
        sharpness = twins.RowSharpness(rows, device=session.device)
        sharpness.tilt(np.ones(rows.n))
        sharpness.response(0, np.ones(rows.n), False)


def check_exhausted(session, report):
    """Without memory the loops go on in NumPy, and say so."""
    rows = made_up(200 if session.small else 20_000, 200, 1)
    messages = []
    exhausted = partial(messages.append, "exhausted")
    with exhausted_memory(session):
        rates = twins.retention_rates(
            rows, "gaussian", [2.0], device=session.device, exhausted=exhausted
        )
        twin = twins.RowSharpness(rows, device=session.device, exhausted=exhausted)
        tilt = twin.tilt(np.ones(rows.n))
    expected = kernels.retention_rates(rows, "gaussian", [2.0])
    same = bool((rates == expected).all())
    report.check("without memory: hoki is NumPy's", same, same)
    expected_tilt = kernels.RowSharpness(rows).tilt(np.ones(rows.n))
    same = bool((tilt.log_top == expected_tilt.log_top).all())
    report.check("without memory: recal is NumPy's", same, same)
    report.check("without memory: said", len(messages) == 2, len(messages))


class exhausted_memory:
    """Context in which this process may use 0.02 % of the card's memory, or none."""

    def __init__(self, session):
        self.is_cuda = session.is_cuda
        self.refusal = replaced(Device, "send", refuse)

    def __enter__(self):
        if self.is_cuda:
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(0.0002)
        else:
            self.refusal.__enter__()

    def __exit__(self, *problem):
        if self.is_cuda:
            torch.cuda.set_per_process_memory_fraction(1.0)
        else:
            self.refusal.__exit__()


def refuse(device, array):
    raise torch.cuda.OutOfMemoryError("CUDA out of memory (rehearsed)")


# ---- speed, and what follows for auto


def speed(session, report):
    """Every loop against the CPU, which works on a part of the rows."""
    shapes = [(50_000, 1000), (100_000, 10), (400_000, 2)]
    if session.small:
        shapes = [(1000, 50)]
    for n, k in shapes:
        rows = made_up(n, k, 1)
        part = made_up(max(200, n // 20), k, 1)
        on_cpu = loops_on_cpu(session, part)
        for name, loop in loops_of(session, rows).items():
            start, start_cpu = time.perf_counter(), time.process_time()
            on_cpu[name]()
            wall = (time.perf_counter() - start) * n / part.n
            cpu = (time.process_time() - start_cpu) * n / part.n
            gpu = session.seconds(loop, 2)
            figures = {
                "scores": n * k,
                "cpu_wall_seconds": wall,
                "cpu_seconds": cpu,
                "gpu_seconds": gpu,
                "times_faster": wall / gpu,
            }
            report.add(f"{name}, {n} x {k}", figures)


def loops_on_cpu(session, rows):
    """The loops of ``loops_of``, in NumPy."""
    rates = partial(kernels.retention_rates, rows)
    draws = standard_noise("gaussian", 100 if session.small else 1000, rows.k, 0)
    sharpness = kernels.RowSharpness(rows)
    ones = np.ones(rows.n)
    return {
        "hoki 1 scale": partial(rates, "gaussian", [2.0]),
        "hoki 13 scales": partial(rates, "gaussian", SEARCH),
        "gumbel 13 scales": partial(rates, "gumbel", SEARCH),
        "hoki draws": partial(rates, "gaussian", [2.0], draws),
        "recal tilt": partial(sharpness.tilt, ones),
        "recal response": partial(sharpness.response, 0, ones, False),
    }


LOOP_OF_METHOD = {"hoki": "hoki 13 scales", "recal": "recal tilt"}


def choice_of_auto(session, report):
    """From which size on a GPU pays, by the times above, and from which auto takes it.

    A GPU costs the import of torch and the first kernel. It pays by the clock: the CPU
    has all its cores, and ``CPU_SECONDS`` counts the time of one.
    """
    times = session.earlier["speed"]["figures"]
    start = session.earlier["facts"]["figures"]
    start_seconds = start["import_seconds"] + start["first_kernel_seconds"]
    report.figures["start_seconds"] = start_seconds
    for method, loop in LOOP_OF_METHOD.items():
        auto_from = GPU_SECONDS / CPU_SECONDS[method]
        for name, row in times.items():
            if not name.startswith(loop):
                continue
            saved = (row["cpu_wall_seconds"] - row["gpu_seconds"]) / row["scores"]
            pays_from = start_seconds / saved if saved > 0 else None
            report.figures[f"{method}: {name}"] = {
                "cpu_seconds_per_score": row["cpu_seconds"] / row["scores"],
                "gpu_seconds_per_score": row["gpu_seconds"] / row["scores"],
                "pays_from_scores": pays_from,
                "auto_from_scores": auto_from,
            }
        below, above = int(auto_from * 0.9), int(auto_from * 1.1)
        choices = resolve("auto", method, below), resolve("auto", method, above)
        has_gpu = torch.cuda.is_available()
        expected = ("cpu", "cuda" if has_gpu else "cpu")
        report.check(f"{method}: auto's choices", choices == expected, choices)
        border = gpu_pays(method, below), gpu_pays(method, above)
        report.check(f"{method}: auto's border", border == (False, True), border)


# ---- whole commands


def commands(session, report):
    """Fit on both devices, apply and evaluate: artifacts and numbers agree."""
    n, k = (800, 10) if session.small else (20_000, 200)
    with tempfile.TemporaryDirectory() as folder:
        write_bundle(Path(folder) / "rows.h5", made_up(n, k, 3))
        for method, option in (("hoki", "noise=auto"), ("recal", "rounds=10")):
            for device in ("cpu", session.device):
                name = f"{method}.{device}.json"
                fit = ["fit", "-m", method, "--set", option, "--device", device]
                fit += ["rows.h5", "-o", name, "--force", "-q"]
                run_command(report, f"fit {method} {device}", fit, folder)
                apply = ["apply", name, "rows.h5", "-o", f"{method}.{device}.npz"]
                apply.append("--force")
                run_command(report, f"apply {method} {device}", apply, folder)
            compare_outputs(session, report, method, Path(folder))
        for method in LOOP_OF_METHOD:
            compare_metrics(session, report, method, Path(folder))


def write_bundle(path, rows):
    with h5py.File(path, "w") as file:
        file["logits"] = rows.scores
        file["labels"] = rows.y
        file["transforms/logits"] = rows.transformed
        file["transforms/specs"] = list(rows.transforms)


def run_command(report, name, words, folder):
    """Run a command of calcli; returns what it prints."""
    command = [sys.executable, "-m", "calcli", *words]
    start = time.perf_counter()
    process = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    report.figures[name] = {"seconds": time.perf_counter() - start}
    message = process.stderr.strip()[-300:]
    report.check(name, process.returncode == 0, message)
    return process.stdout


def compare_outputs(session, report, method, folder):
    expected = np.load(folder / f"{method}.cpu.npz")
    outputs = np.load(folder / f"{method}.{session.device}.npz")
    probs = "probs" if "probs" in expected else expected.files[0]
    error = float(np.abs(outputs[probs] - expected[probs]).max())
    report.check(f"apply {method}: same probabilities", error < 1e-6, error)


def compare_metrics(session, report, method, folder):
    values = {}
    for device in {"cpu", session.device}:
        words = ["evaluate", "rows.h5", "-c", f"{method}.{device}.json"]
        words += ["-m", "nll", "-m", "ece", "--format", "json"]
        name = f"evaluate {method} {device}"
        text = run_command(report, name, words, folder)
        values[device] = numbers_in(json.loads(text))
    first, second = values["cpu"], values[session.device]
    error = max(abs(a - b) for a, b in zip(first, second, strict=True))
    report.check(f"evaluate {method}: same numbers", error < 1e-6, error)


def numbers_in(tree):
    """All numbers of metrics in a tree of JSON, in order."""
    if isinstance(tree, dict):
        return [number for branch in tree.values() for number in numbers_in(branch)]
    if isinstance(tree, list):
        return [number for branch in tree for number in numbers_in(branch)]
    if isinstance(tree, float):
        return [tree]
    return []


FACTORY = """
import torch

def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(16 * 32 * 32, 10),
    )
"""


def model(session, report):
    """Run a model over images and their transforms, on both devices."""
    n = 64 if session.small else 4096
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "factory.py").write_text(FACTORY, encoding="utf-8")
        np.savez(home / "images.npz", images=images, labels=rng.integers(0, 10, n))
        outputs = {}
        for device in ("cpu", session.device):
            words = ["extract", "--model", "factory:net", "--inputs", "images.npz"]
            words += ["--transform", "zoom:0.7", "--transform", "brightness:0.3"]
            words += ["--device", device, "--force", "-o", f"{device}.h5"]
            run_command(report, f"extract {device}", words, folder)
            with h5py.File(home / f"{device}.h5") as file:
                outputs[device] = (
                    file["logits"][()],
                    file["transforms/logits"][()],
                )
    pairs = zip(outputs["cpu"], outputs[session.device], strict=True)
    error = max(float(np.abs(a - b).max()) for a, b in pairs)
    # Convolutions of float32 are computed in TF32 on a GPU: 10 bits.
    report.check("same scores", error < 5e-3, error)


def tests(session, report):
    """The tests that need a GPU; without one all of them are skipped."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-m", "cuda", "tests/kernels", "tests/methods/test_recal.py"]
    command += ["tests/extracting/test_extract_model.py"]
    process = subprocess.run(command, capture_output=True, text=True, cwd=session.repo)
    last_lines = process.stdout[-600:]
    report.figures["last lines"] = last_lines
    report.check("pytest -m cuda", process.returncode == 0, last_lines)


STAGES = {
    "facts": facts,
    "results": results,
    "same_bytes": same_bytes,
    "waits": waits,
    "memory": memory,
    "speed": speed,
    "choice_of_auto": choice_of_auto,
    "profile": profile,
    "commands": commands,
    "model": model,
    "tests": tests,
}

NO_DEVICE = 2  # exit code without a GPU
BROKEN = 3  # exit code after an error of CUDA: the process can compute no more


def run(session, record, name):
    """Run a stage and store what it found, also where it fails."""
    record.begin(name)
    report = Report(partial(record.store, name))
    start = time.perf_counter()
    result = {}
    try:
        STAGES[name](session, report)
    except Exception as problem:
        result["error"] = repr(problem)
        result["where"] = traceback.format_exc(limit=-4)
    result["seconds"] = round(time.perf_counter() - start, 2)
    record.end(name, result | report.result)
    print(f"{name}: {result['seconds']} s {result.get('error', '')}", flush=True)
    return result


def main():
    repo, out, device, small, last_start, *names = sys.argv[1:]
    if device == "cuda" and not torch.cuda.is_available():
        print("torch finds no CUDA device here; rehearse: --device cpu --small")
        sys.exit(NO_DEVICE)
    record = Record(Path(out))
    for name in names:
        if time.time() > float(last_start):
            return
        earlier = record.read()["stages"]
        session = Session(Path(repo), device, small == "True", earlier)
        result = run(session, record, name)
        if "CUDA error" in result.get("error", ""):
            sys.exit(BROKEN)


if __name__ == "__main__":
    main()
