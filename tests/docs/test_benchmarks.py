"""Benchmarks: every script that `make bench` runs can be imported here and begins where it says."""

import importlib.util
import json
import runpy
import sys

import pytest
from conftest import REPOSITORY

pytestmark = pytest.mark.slow

BENCHMARKS = REPOSITORY / "benchmarks"
SCRIPTS = sorted(BENCHMARKS.glob("[a-z]*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_benchmark_can_be_imported(script, monkeypatch):
    monkeypatch.syspath_prepend(str(script.parent))
    spec = importlib.util.spec_from_file_location(f"benchmark_{script.stem}", script)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert callable(module.main)


SMALL = {
    "adapt": (["2", "--rows", "200"], "| simulated | Dirichlet(1) | 200 | 2 |"),
    "affine": (["--splits", "2"], "two classes, bias and curvature: test NLL over 2"),
    "bootstrap": (["--resamples", "20"], "simulated, 10 classes"),
    "hoki": (
        ["--rows", "60", "--classes", "8"],
        "largest error against adaptive quadrature",
    ),
    "question_thresholds": (["2"], "| flat | 1000 | record |"),
    "recal": (
        ["--rows", "200", "--classes", "5", "--transforms", "2", "--rounds", "3"],
        "fit: ",
    ),
    "risk": (["2", "--rows", "200"], "| 200 | 0.02 | independent | calibrated |"),
    "threshold": (["3"], "overconfident"),
    "watch": (["2"], "exactly calibrated"),
    "zeros": (["2"], "half a digit"),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs_to_its_end_on_little(name, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    words, expected = SMALL[name]
    monkeypatch.setattr(sys, "argv", [name, *words])
    runpy.run_path(str(BENCHMARKS / f"{name}.py"), run_name="__main__")
    assert expected in capsys.readouterr().out


def test_the_readme_says_of_auto_what_the_stored_results_do(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from quality import table

    tasks = json.loads((BENCHMARKS / "quality.json").read_text(encoding="utf-8"))
    lines = table(tasks).splitlines()
    (line,) = [line for line in lines if line.startswith("| `auto` |")]
    worse = line.split(" | ")[-2]
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert f"than temperature scaling on {worse} tasks" in readme


STORED_RISK = json.loads((BENCHMARKS / "risk.json").read_text("utf-8"))


def test_the_stored_intervals_hold_the_truth():
    """24 cells of 1000 samples: 95 % intervals in .91 and more, the joint test in .07."""
    cells = {(line["rows"], line["frequency"]) for line in STORED_RISK}
    assert cells == {(n, f) for n in (200, 1000, 5000) for f in (0.02, 0.2, 0.5)}
    for line in STORED_RISK:
        if line["no interval"] == 1.0:  # ten units of events: no interval is given
            assert line["rows are"] == "in units" and line["rows"] == 200
            continue
        for name in ("slope", "intercept", "oe_ratio", "net_benefit"):
            assert 0.91 <= line[name][0] <= 0.995, (line, name)
        if line["truth"] == "calibrated":
            assert line["joint test"][0] <= 0.07, line
        else:
            assert line["joint test"][0] >= 0.4, line


@pytest.mark.parametrize("kind", ["independent", "in units"])
def test_the_stored_coverage_is_that_of_today(kind, monkeypatch):
    """Of 60 intervals that hold with probability .95, nine or more miss in .003."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from risk import coverage

    line = coverage(200, 0.5, kind, "calibrated", 60)
    for name in ("slope", "intercept", "oe_ratio", "net_benefit"):
        assert line[name][0] >= 1.0 - 8.5 / 60.0, (line, name)
