"""Benchmarks: every script that `make bench` runs can be imported here and begins where it says."""

import importlib.util
import json
import runpy
import sys

import pytest
from conftest import REPOSITORY

pytestmark = pytest.mark.slow

SCRIPTS = sorted((REPOSITORY / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_benchmark_can_be_imported(script, monkeypatch):
    monkeypatch.syspath_prepend(str(script.parent))
    spec = importlib.util.spec_from_file_location(f"benchmark_{script.stem}", script)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(
        sys.modules, spec.name, module
    )  # dataclasses look their module up
    spec.loader.exec_module(module)
    assert callable(module.main)


SMALL = {
    "adapt": (["2", "--rows", "200"], "| simulated | Dirichlet(1) | 200 | 2 |"),
    "affine": (["size", "--rows", "200", "--classes", "5"], "vs 200 x 5"),
    "hoki": (
        ["--rows", "60", "--classes", "8"],
        "largest error against adaptive quadrature",
    ),
    "recal": (
        ["--rows", "200", "--classes", "5", "--transforms", "2", "--rounds", "3"],
        "fit: ",
    ),
    "threshold": (["3"], "overconfident"),
    "watch": (["2"], "exactly calibrated"),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs_to_its_end_on_little(name, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(SCRIPTS[0].parent))
    words, said = SMALL[name]
    monkeypatch.setattr(sys, "argv", [name, *words])
    runpy.run_path(str(SCRIPTS[0].parent / f"{name}.py"), run_name="__main__")
    assert said in capsys.readouterr().out


def test_the_readme_says_of_auto_what_the_stored_results_do(monkeypatch):
    folder = SCRIPTS[0].parent
    monkeypatch.syspath_prepend(str(folder))
    from quality import table

    tasks = json.loads((folder / "quality.json").read_text(encoding="utf-8"))
    (line,) = [
        line for line in table(tasks).splitlines() if line.startswith("| `auto` |")
    ]
    worse = line.split(" | ")[-2]
    assert f"than temperature scaling on {worse} tasks" in (
        folder.parent / "README.md"
    ).read_text(encoding="utf-8")
