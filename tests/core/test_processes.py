"""Processes that calcli starts, and that start calcli: what they import, how their ends are noticed."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from synthetic import truth

from calcli.errors import UsageError
from calcli.evaluation.watch_state import loads, locked_state
from calcli.extracting import run as run_of_models
from calcli.extracting.model_inputs import ModelJob
from calcli.importers.building.dealing import Splitting
from calcli.io.atomic import discard_abandoned, lock, new_file, open_job_file

pytestmark = pytest.mark.slow

SCRIPT = "from calcli.cli.main import main\nmain()\n"
"""What pip installs as the command ``calcli``; the folder of a script is the first that Python looks into."""

HEAVY = [
    "calcli",
    "numpy",
    "h5py",
    "scipy",
    "torch",
    "matplotlib",
    "typer",
    "msgspec",
    "rich",
    "pyarrow",
    "PIL",
]

NETS = """
import torch
def net():
    torch.manual_seed(0)
    return torch.nn.Linear(6, 3)
"""

COMMANDS = [
    "fit -m ts a.h5 -o {}.json",
    "fit -m all b.h5 -o {}.all",
    "evaluate a.h5 b.h5 -c t.json --json",
    "apply t.json a.h5 b.h5 -o {}.applied",
    "apply t.json a.h5 -o {}.parquet",
    "diagram a.h5 -c t.json -o {}.png",
    "report a.h5 -o {}.html",
    "compare a.h5 b.h5 -m ts,platt --diagram {}.svg -o {}.result.json",
    "threshold a.h5 --accuracy 0.1",
    "extract --model nets:net --inputs in-*.npz --layout rows -o {}.scores",
]
ALONE = [
    "extract s.npz -o s.h5",
    "inspect a.h5",
    "methods",
    "metrics",
    "export t.json --to python -o t.py",
    "watch b.h5 --state watched.json",
    "run a.h5 b.h5 -o ran",
    "adapt v.json b.h5 -o adapted.json",
]


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    """A folder with scores, and a file of the name of every module; each leaves a mark when it is run."""
    folder = tmp_path_factory.mktemp("downloads")
    mark = f"open({str(folder / 'mark')!r}, 'a').write(__name__ + chr(10))\n"
    for name in {*sys.stdlib_module_names, *HEAVY, "sitecustomize", "usercustomize"}:
        (folder / f"{name}.py").write_text(mark)
    z, y = truth(300, 4, temperature=1.5, seed=1)
    for name in "ab":
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["logits"], file["labels"] = z, y
    rng = np.random.default_rng(0)
    for i in range(2):
        np.savez(
            folder / f"in-{i}.npz",
            inputs=rng.normal(size=(20, 6)).astype("f4"),
            labels=rng.integers(0, 3, 20),
        )
    np.savez(folder / "s.npz", logits=z, labels=y)
    (folder / "nets.py").write_text(NETS)
    (folder / "bin").mkdir()
    (folder / "bin" / "calcli").write_text(SCRIPT)
    for method, output in (("ts", "t.json"), ("svs", "v.json")):
        command(folder, "fit", "-m", method, "a.h5", "-o", output)
    return folder


def command(folder, *words, **how):
    """Run calcli as it is installed, from a folder."""
    done = subprocess.run(
        [sys.executable, folder / "bin" / "calcli", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        **how,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("workers", [[], ["--workers", "2"]], ids=["alone", "workers"])
@pytest.mark.parametrize("words", [*COMMANDS, *ALONE])
def test_nothing_is_run_from_the_working_folder(downloads, words, workers):
    if words in ALONE and workers:
        return
    if "--model" in words:
        pytest.importorskip("torch")
    command(downloads, *words.format(*[f"w{len(workers)}"] * 2).split(), *workers)
    assert not (downloads / "mark").exists(), (downloads / "mark").read_text()


PROBED = """
import threading, os, sys
sys.path.insert(0, {folder!r}) if {on_path} else None
over = threading.Event()
threading.Thread(target=over.wait).start()
from calcli.io import hdf5_crash_test as probe
from pathlib import Path
print(probe._spawned(Path("a.h5"), 20))
over.set()
"""


@pytest.mark.parametrize("flags", [["-P"], ["-P", "-I"], ["-P", "-E"]], ids=" ".join)
@pytest.mark.parametrize("python_path", [None, "", ".", os.pathsep])
def test_an_interpreter_beside_threads_runs_nothing_either(
    downloads, flags, python_path
):
    """Whatever PYTHONPATH says: an empty entry is the working folder."""
    code = (
        "import os; os.environ.pop('PYTHONPATH', None)\n" if python_path is None else ""
    )
    code += (
        f"import os; os.environ['PYTHONPATH'] = {python_path!r}\n"
        if python_path is not None
        else ""
    )
    code += PROBED.format(folder="", on_path=False)
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        cwd=downloads,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert not (downloads / "mark").exists(), (downloads / "mark").read_text()


# ---- children that nobody waits for


DAMAGED = """
import json, signal, sys, threading, os
signal.signal(signal.SIGCHLD, {handler})
import calcli, numpy as np
from calcli.io import hdf5_crash_test as probe
if {threads}:
    over = threading.Event()
    threading.Thread(target=over.wait).start()
from pathlib import Path
print(json.dumps([probe._forked([Path("a.h5")], 20, 20), probe._spawned(Path("a.h5"), 20)]))
walk = probe._walk
probe._walk = lambda file: os.kill(os.getpid(), 11)
print(probe._forked([Path("a.h5")], 20, 20) < 0)
def no_memory(file):
    raise MemoryError
probe._walk = no_memory
print(probe._forked([Path("a.h5")], 20, 20))
probe._walk = walk
print(calcli.fit("a.h5").method)
if {threads}:
    over.set()
"""


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize(
    "handler", ["signal.SIG_IGN", "lambda *_: os.waitpid(-1, os.WNOHANG)"]
)
def test_the_end_of_a_child_is_noticed_where_another_takes_it(
    downloads, handler, threads
):
    code = DAMAGED.format(handler=handler, threads=threads)
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=downloads,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[0, 0]\nTrue\n7\nauto\n", done.stderr


IGNORING = """
import signal, os, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    "words", ["fit -m ts a.h5", "compare a.h5 -m platt", "evaluate a.h5 b.h5 --pool"]
)
def test_commands_of_a_parent_that_ignores_its_children(downloads, words, tmp_path):
    outputs = []
    for more in (), ("--workers", "2"):
        asked = [
            *words.split(),
            *more,
            "-q",
            *(["-o", "-"] if words.startswith("fit") else ["--json"]),
        ]
        script = str(downloads / "bin" / "calcli")
        done = subprocess.run(
            [sys.executable, "-P", "-c", IGNORING, script, *asked],
            cwd=downloads,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        outputs.append(json.loads(done.stdout))
    for output in outputs:
        for result in output.get("results", ()):
            result.pop("seconds", None)
    assert outputs[0] == outputs[1]


# ---- two at once


@pytest.mark.parametrize(
    ("words", "busy"),
    [
        ("compare a.h5 -m platt -o two.json", "two.json.job"),
        ("compare a.h5 -m platt -o link.json", "two.json.job"),
        ("compare a.h5 -m platt -o two.json --force", "two.json.job"),
        ("fit -m ts a.h5 -o two.fit.json --workers 1", "two.fit.json.job"),
        ("apply t.json a.h5 b.h5 -o two.out --workers 1", "two.out.job"),
        (
            "extract --model nets:net --inputs in-0.npz --layout rows -o two.h5",
            "two.h5.job",
        ),
        (
            "extract --model nets:net --inputs in-*.npz --layout rows -o two.parts --workers 1",
            "two.parts.job",
        ),
        ("watch a.h5 --state two.state", "two.state"),
    ],
)
def test_an_output_that_grows_has_one_writer(downloads, words, busy):
    """The second one is refused; what the first has written stays as it is."""
    if "--model" in words:
        pytest.importorskip("torch")
    if "link" in words and not (downloads / "link.json").is_symlink():
        (downloads / "link.json").symlink_to("two.json")
    path = downloads / busy
    path.parent.mkdir(exist_ok=True)
    with os.fdopen(open_job_file(path), "r+b") as file:
        lock(file.fileno(), path)
        before = path.read_bytes()
        program = [sys.executable, downloads / "bin" / "calcli", *words.split()]
        done = subprocess.run(program, cwd=downloads, capture_output=True, text=True)
        assert (done.returncode, "another calcli is writing it" in done.stderr) == (
            2,
            True,
        ), done.stderr
        assert path.read_bytes() == before
        path.unlink()


def test_a_job_that_ended_in_between_is_no_job_to_enter(tmp_path):
    """Its file is gone, or another's by now: locked by who has opened it before, it would keep nobody off."""
    path = tmp_path / "a.job"
    for then in (lambda: None, lambda: path.write_text("of another")):
        with os.fdopen(open_job_file(path), "r+b") as late:
            path.unlink()
            then()
            with pytest.raises(UsageError, match="another calcli is writing it"):
                lock(late.fileno(), path)


def test_what_another_is_writing_is_not_abandoned(tmp_path):
    """Workers that died leave unfinished files; another command may be at one whose name begins alike."""
    one, other = (
        tmp_path / f"calibrated_scores_of_the_test_split_of_2026_part_{i}.h5"
        for i in "12"
    )
    left = tmp_path / f".{one.name[:40]}.0123456789ab.tmp"
    left.write_bytes(b"left by one that was killed")
    with new_file(one) as file:
        file.write(b"abc")
        discard_abandoned(other)
    assert one.read_bytes() == b"abc" and not left.exists()


@pytest.mark.parametrize("written", [False, True])
def test_a_child_forked_meanwhile_keeps_no_state_locked(tmp_path, written):
    """It shares the descriptors of all threads, for as long as it lives."""
    path, child = tmp_path / "s.json", 0
    state = (
        REPOSITORY / "tests" / "golden" / "watch" / "quiet_0.2.0.json"
    ).read_bytes()
    path.write_bytes(state)
    try:
        with locked_state(path, loads):
            if written:
                with new_file(path, force=True) as file:
                    child = child or os.fork() or wait_to_be_killed()
                    file.write(state)
            child = child or os.fork() or wait_to_be_killed()
        with locked_state(path, loads):
            pass
    finally:
        if child:  # 0 would be all processes of this group
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def wait_to_be_killed():
    while True:
        signal.pause()


def test_a_model_is_not_run_for_an_output_that_another_has_just_made(
    tmp_path, monkeypatch
):
    """It was not there when the command began; nor is a job file left for it."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(tmp_path))
    np.savez(
        tmp_path / "in.npz", inputs=np.zeros((4, 6), "f4"), labels=np.zeros(4, int)
    )
    made = tmp_path / "made.h5"
    # Made while the model is loaded, which would fail on these inputs.
    (tmp_path / "late_nets.py").write_text(
        f"{NETS.replace('Linear(6', 'Linear(5')}open({str(made)!r}, 'wb').write(b'x')\n"
    )
    job = ModelJob(
        model="late_nets:net", inputs=str(tmp_path / "in.npz"), layout="rows"
    )
    with pytest.raises(UsageError, match="exists already"):
        run_of_models.run_model(job, made, Splitting())
    assert sorted(path.name for path in tmp_path.glob("made*")) == ["made.h5"]


AT_ONCE = """
import json, os, sys, time
import h5py, numpy as np
import calcli
import calcli.cli.main as entry

def live(at, words):
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.dup2(os.open("said", os.O_RDWR | os.O_CREAT | os.O_APPEND), 2)
    time.sleep(max(0.0, at - time.time()))
    code = 99
    try:
        sys.argv = ["calcli", *words, "-q"]
        entry.main()
    except SystemExit as end:
        code = end.code or 0
        sys.stderr.flush()
    finally:
        os._exit(code)

def together(commands):
    at, children = time.time() + 0.05, []
    for words in commands:
        at += 0.0005
        child = os.fork()
        if child == 0:
            live(at, words)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

rng = np.random.default_rng(0)
names = [f"now{i}.h5" for i in range(4)]
for name in names:
    with h5py.File(name, "w") as file:
        z = rng.normal(size=(50, 3))
        file["logits"], file["labels"] = z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)
calcli.watch(names[0], state="warm.json")  # imports what all need
for at in range(int(sys.argv[1])):
    codes = together([["watch", name, "--state", f"{at}.json"] for name in names])
    with open(f"{at}.json") as file:
        there = {batch["name"] for batch in json.load(file)["batches"]}
    print(set(codes) <= {0, 2}, there == {name for name, code in zip(names, codes) if code == 0})
codes = together([["compare", *names[: i + 1], "-m", "platt", "-o", "r.json"] for i in range(4)])
with open("r.json") as file:
    there = {result["bundle"] for result in json.load(file)["results"]}
print(set(codes) <= {0, 2}, there >= {name for i, code in enumerate(codes) if code == 0 for name in names[: i + 1]})
print(not [name for name in os.listdir() if name.endswith((".job", ".tmp"))])
"""


def test_commands_that_begin_within_a_millisecond(tmp_path):
    """Of four that write one output, each ends with 0 and its part is there, or with 2 and a sentence."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", AT_ONCE, "8"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.stdout.split("\n"), done.stderr) == (
        ["True True"] * 9 + ["True", ""],
        "",
    )


def test_two_comparisons_at_once_lose_nothing(downloads, tmp_path):
    """Whoever ends with 0 finds all of its results in the file; the other says why not."""
    wait = "import time, sys; time.sleep(max(0, {at} - time.time()))\n"
    for _ in range(3):
        output = str(tmp_path / "r.json")
        (tmp_path / "calcli").write_text(wait.format(at=time.time() + 2) + SCRIPT)
        asked = [("a.h5", "-m", "platt"), ("a.h5", "b.h5", "-m", "platt")]
        both = [
            subprocess.Popen(
                [
                    sys.executable,
                    tmp_path / "calcli",
                    "compare",
                    *words,
                    "-o",
                    output,
                    "-q",
                ],
                cwd=downloads,
                stderr=subprocess.PIPE,
                text=True,
            )
            for words in asked
        ]
        ends = [(child.communicate()[1], child.returncode) for child in both]
        names_of_results = {
            (r["bundle"], r["method"])
            for r in json.loads((tmp_path / "r.json").read_text())["results"]
        }
        assert 0 in [code for _, code in ends]
        for (said, code), words in zip(ends, asked, strict=True):
            if code == 0:
                bundles = {word for word in words if word.endswith(".h5")}
                assert {(bundle, "platt") for bundle in bundles} <= names_of_results
            else:
                assert (
                    code == 2
                    and said.startswith("calcli: ")
                    and len(said.splitlines()) == 1
                )
        (tmp_path / "r.json").unlink()
        assert not (tmp_path / "r.json.job").exists()


def test_a_killed_comparison_is_gone_on_from(downloads, tmp_path):
    """Nothing is under the final name before all is there; what was done is not done again."""
    words = ["compare", "a.h5", "b.h5", "-m", "platt,hb,spline", "--folds", "60"]
    words += ["-o", str(tmp_path / "r.json")]
    done = command(downloads, *words[:-1], str(tmp_path / "whole.json"), "--json")
    process = subprocess.Popen(
        [sys.executable, downloads / "bin" / "calcli", *words, "-q"], cwd=downloads
    )
    end = time.monotonic() + 60
    while (
        not (tmp_path / "r.json.job").exists()
        or (tmp_path / "r.json.job").stat().st_size < 100
    ):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not (tmp_path / "r.json").exists()
    again = command(downloads, *words, "--json")
    message = " ".join(again.stderr.split())  # a long path wraps it
    match = re.search(r"(\d+) of (\d+) results are there already", message)
    kept, total = map(int, match.groups())
    assert 0 < kept < total
    comparisons = [json.loads(child.stdout) for child in (done, again)]
    for comparison in comparisons:
        for result in comparison["results"]:
            del result["seconds"]
    assert comparisons[0] == comparisons[1]
    assert not (tmp_path / "r.json.job").exists()
