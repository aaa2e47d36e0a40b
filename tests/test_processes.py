"""Processes that calcli starts, and that start calcli: what they import, how their ends are noticed."""

import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
from synthetic import truth

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
