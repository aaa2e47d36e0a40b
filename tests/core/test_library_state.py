"""What calcli does to the process of a program that imports it: nothing that stays."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import gc, json, locale, os, random, signal, sys, tempfile, threading, warnings
import matplotlib, numpy as np, scipy.special, sklearn.base  # what they change on import is theirs

def state():
    return {
        "garbage collector": (gc.isenabled(), gc.get_threshold()),
        "path": list(sys.path),
        "environment": dict(os.environ),
        "signals": {n.name: str(signal.getsignal(n)) for n in signal.valid_signals() if hasattr(n, "name")},
        "warnings": [repr(entry) for entry in warnings.filters],
        "numpy errors": np.geterr(),
        "numpy printing": str(np.get_printoptions()),
        "random": (hash(random.getstate()), hash(np.random.get_state()[1].tobytes())),
        "locale": locale.setlocale(locale.LC_ALL),
        "threads": threading.active_count(),
        "streams": [str(s) for s in (sys.stdin, sys.stdout, sys.stderr, sys.excepthook)],
        "recursion": sys.getrecursionlimit(),
        "folder": os.getcwd(),
        "matplotlib": str(dict(matplotlib.rcParams)),
    }

def differing(before):
    now = state()
    return [name for name in now if now[name] != before[name]]

before, found = state(), {}
import calcli
from calcli.sklearn import ScoreCalibrator
found["import"] = differing(before)
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 300)
z = 3 * (rng.normal(size=(300, 3)) + 1.5 * np.eye(3)[y])
fitted = [calcli.fit(z, y, method=name) for name in ("ts", "hb", "svs", "hoki", "ts+ir")]
ScoreCalibrator().fit(z, y).predict_proba(z)
found["fit"] = differing(before)
calcli.evaluate(z, y, fitted)._repr_html_()
found["evaluate"] = differing(before)
picture = calcli.diagram(z, y, fitted[:2], resamples=100)
with tempfile.TemporaryDirectory() as folder:
    picture.save(folder + "/d.svg")
    fitted[0].save(folder + "/c.json")
    calcli.load(folder + "/c.json").predict_proba(z)
found["diagram and files"] = differing(before)
for wrong in (lambda: calcli.fit("nothing.h5"), lambda: calcli.fit(z, y + 1), lambda: calcli.fit(z, y, method="no")):
    try:
        wrong()
    except Exception:
        pass
found["errors"] = differing(before)
print(json.dumps(found))
"""


def test_a_program_that_uses_the_api_is_left_as_it_was(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    stored = json.loads(done.stdout)
    assert set(stored) == {"import", "fit", "evaluate", "diagram and files", "errors"}
    assert not any(stored.values()), stored
    assert list(tmp_path.iterdir()) == []
