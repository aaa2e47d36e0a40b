"""Benchmarks: every script that `make bench` runs can be imported here and begins where it says."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).resolve().parent.parent / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_benchmark_can_be_imported(script, monkeypatch):
    monkeypatch.syspath_prepend(str(script.parent))
    spec = importlib.util.spec_from_file_location(f"benchmark_{script.stem}", script)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    assert callable(module.main)


def test_the_table_of_the_readme_is_that_of_the_stored_results(monkeypatch):
    folder = SCRIPTS[0].parent
    monkeypatch.syspath_prepend(str(folder))
    from quality import table

    tasks = json.loads((folder / "quality.json").read_text(encoding="utf-8"))
    assert table(tasks) in (folder.parent / "README.md").read_text(encoding="utf-8")
