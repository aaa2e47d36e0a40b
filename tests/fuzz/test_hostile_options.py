"""Every option that takes a number, with numbers that nobody means."""

import os
import sys
from pathlib import Path

import h5py
import pytest
from children import run
from synthetic import truth

from calcli.cli.app import load, summaries

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "v01"
HOSTILE = ["nan", "-1", "0", "inf", "1e308", "99999999999999999999", "999999999"]
BASE = {
    "extract": ["s.npz", "-o", "o.h5", "--force"],
    "fit": ["-m", "hb", "x.h5", "-o", "-"],
    "apply": ["ts.json", "x.h5", "-o", "o.h5", "--force"],
    "evaluate": ["x.h5", "-c", "ts.json"],
    "diagram": ["x.h5"],
    "inspect": ["x.h5"],
}
TEXTS = {  # options whose numbers are part of a text
    "extract": ["--split a="],
    "fit": ["--set bins=", "--set mode=ova --set bins="],
    "evaluate": ["--bin-sweep ", "--max ece=", "--bin-sweep 4,"],
}


def cases():
    for command in summaries():
        if command not in BASE:
            continue
        for option in load(command).params:
            kind = type(option.type).__name__.lower()
            if "int" in kind or "float" in kind:
                yield command, f"{option.opts[0]} "
        yield from ((command, text) for text in TEXTS.get(command, []))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import shutil

    import numpy as np

    path = tmp_path_factory.mktemp("options")
    z, y = truth(200, 4)
    with h5py.File(path / "x.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    np.savez(path / "s.npz", logits=z, labels=y)
    shutil.copy(GOLDEN / "rows4.ts.json", path / "ts.json")
    return path


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform != "linux", reason="limits of children as Linux has them")
@pytest.mark.parametrize(("command", "option"), list(cases()), ids=lambda text: text.strip("- "))
def test_numbers_that_nobody_means_are_refused_or_done(folder, monkeypatch, command, option):
    monkeypatch.chdir(folder)
    for value in HOSTILE:
        code, seconds, said = run([command, *BASE[command], *f"{option}{value}".split(" ")])
        told = f"{command} {option}{value}: exit {code}, {seconds:.1f} s: {said[-300:]}"
        assert code in (0, 2, 3) or (code == 5 and "ece=" in option), told
        assert "Traceback" not in said, told
        assert value != "nan" or code == 2, told
