"""Processes that calcli starts, and that start calcli: what they import, how their ends are noticed."""

import json
import os
import re
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from synthetic import truth

from calcli.errors import UsageError
from calcli.io.job_files import lock, open_job_file

SCRIPT = "from calcli.cli.main import process\nprocess()\n"
"""What pip installs as ``calcli``; the folder of a script is the first that Python looks into."""

HEAVY = ["calcli", "numpy", "h5py", "scipy", "torch", "matplotlib", "typer", "msgspec", "rich", "pyarrow", "PIL"]

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
ALONE = ["extract s.npz -o s.h5", "inspect a.h5", "methods", "metrics", "export t.json --to python -o t.py"]


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
        np.savez(folder / f"in-{i}.npz", inputs=rng.normal(size=(20, 6)).astype("f4"), labels=rng.integers(0, 3, 20))
    np.savez(folder / "s.npz", logits=z, labels=y)
    (folder / "nets.py").write_text(NETS)
    (folder / "bin").mkdir()
    (folder / "bin" / "calcli").write_text(SCRIPT)
    command(folder, "fit", "-m", "ts", "a.h5", "-o", "t.json")
    return folder


def command(folder, *words, **how):
    """Run calcli as it is installed, from a folder."""
    done = subprocess.run(
        [sys.executable, folder / "bin" / "calcli", *words], cwd=folder, capture_output=True, text=True, **how
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
from calcli.io import probe
from pathlib import Path
print(probe._spawned(Path("a.h5"), 20))
over.set()
"""


@pytest.mark.parametrize("flags", [["-P"], ["-P", "-I"], ["-P", "-E"]], ids=" ".join)
@pytest.mark.parametrize("given", [None, "", ".", os.pathsep])
def test_an_interpreter_beside_threads_runs_nothing_either(downloads, flags, given):
    """Whatever PYTHONPATH says: an empty entry is the working folder."""
    code = "import os; os.environ.pop('PYTHONPATH', None)\n" if given is None else ""
    code += f"import os; os.environ['PYTHONPATH'] = {given!r}\n" if given is not None else ""
    code += PROBED.format(folder="", on_path=False)
    done = subprocess.run([sys.executable, *flags, "-c", code], cwd=downloads, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert not (downloads / "mark").exists(), (downloads / "mark").read_text()


# ---- children that nobody waits for


DAMAGED = """
import json, signal, sys, threading, os
signal.signal(signal.SIGCHLD, {handler})
import calcli, numpy as np
from calcli.io import probe
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
@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda *_: os.waitpid(-1, os.WNOHANG)"])
def test_the_end_of_a_child_is_noticed_where_another_takes_it(downloads, handler, threads):
    code = DAMAGED.format(handler=handler, threads=threads)
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=downloads, capture_output=True, text=True)
    assert done.stdout == "[0, 0]\nTrue\n7\nts\n", done.stderr


IGNORING = """
import signal, os, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize("words", ["fit -m ts a.h5", "compare a.h5 -m platt", "evaluate a.h5 b.h5 --pool"])
def test_commands_of_a_parent_that_ignores_its_children(downloads, words, tmp_path):
    outputs = []
    for more in (), ("--workers", "2"):
        asked = [*words.split(), *more, "-q", *(["-o", "-"] if words.startswith("fit") else ["--json"])]
        script = str(downloads / "bin" / "calcli")
        done = subprocess.run(
            [sys.executable, "-P", "-c", IGNORING, script, *asked], cwd=downloads, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        outputs.append(json.loads(done.stdout))
    for result in (result for found in outputs for result in found.get("results", ())):
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
        ("extract --model nets:net --inputs in-0.npz --layout rows -o two.h5", "two.h5.job"),
        ("extract --model nets:net --inputs in-*.npz --layout rows -o two.parts --workers 1", "two.parts.job"),
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
    with os.fdopen(open_job_file(path), "r+b") as file:
        lock(file.fileno(), path)
        before = path.read_bytes()
        program = [sys.executable, downloads / "bin" / "calcli", *words.split()]
        done = subprocess.run(program, cwd=downloads, capture_output=True, text=True)
        assert (done.returncode, "another calcli is writing it" in done.stderr) == (2, True), done.stderr
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


def test_two_comparisons_at_once_lose_nothing(downloads, tmp_path):
    """Whoever ends with 0 finds all of its results in the file; the other says why not."""
    wait = "import time, sys; time.sleep(max(0, {at} - time.time()))\n"
    for _ in range(3):
        output = str(tmp_path / "r.json")
        (tmp_path / "calcli").write_text(wait.format(at=time.time() + 2) + SCRIPT)
        asked = [("a.h5", "-m", "platt"), ("a.h5", "b.h5", "-m", "platt")]
        both = [
            subprocess.Popen(
                [sys.executable, tmp_path / "calcli", "compare", *words, "-o", output, "-q"],
                cwd=downloads,
                stderr=subprocess.PIPE,
                text=True,
            )
            for words in asked
        ]
        ends = [(each.communicate()[1], each.returncode) for each in both]
        found = {(r["bundle"], r["method"]) for r in json.loads((tmp_path / "r.json").read_text())["results"]}
        assert 0 in [code for _, code in ends]
        for (said, code), words in zip(ends, asked, strict=True):
            if code == 0:
                bundles = {word for word in words if word.endswith(".h5")}
                assert {(bundle, "platt") for bundle in bundles} <= found
            else:
                assert code == 2 and said.startswith("calcli: ") and len(said.splitlines()) == 1
        (tmp_path / "r.json").unlink()
        assert not (tmp_path / "r.json.job").exists()


def test_a_killed_comparison_is_gone_on_from(downloads, tmp_path):
    """Nothing is under the final name before all is there; what was done is not done again."""
    words = ["compare", "a.h5", "b.h5", "-m", "platt,hb,spline", "--folds", "60", "-o", str(tmp_path / "r.json")]
    done = command(downloads, *words[:-1], str(tmp_path / "whole.json"), "--json")
    process = subprocess.Popen([sys.executable, downloads / "bin" / "calcli", *words, "-q"], cwd=downloads)
    end = time.monotonic() + 60
    while not (tmp_path / "r.json.job").exists() or (tmp_path / "r.json.job").stat().st_size < 100:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not (tmp_path / "r.json").exists()
    again = command(downloads, *words, "--json")
    kept, total = map(int, re.findall(r"(\d+) of (\d+) results are there already", again.stderr)[0])
    assert 0 < kept < total
    results = [json.loads(each.stdout) for each in (done, again)]
    for result in (result for found in results for result in found["results"]):
        del result["seconds"]
    assert results[0] == results[1]
    assert not (tmp_path / "r.json.job").exists()
