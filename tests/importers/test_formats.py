"""Every registered file format: told by content, listed with commands, alone in its file."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calcli.importers.readers
from calcli.importers.formats import PLUGINS, commands, formats, suffixes

FOLDER = Path(calcli.importers.readers.__file__).parent


def test_every_module_of_readers_registers_a_format():
    registered = {Path(format.read.__code__.co_filename).name for format in formats()}
    assert registered == {path.name for path in FOLDER.rglob("*.py")} - {"__init__.py"}


PLUGIN = """
from calcli.importers.table import Table
from calcli.importers.formats import reader

@reader("mine", "a file of mine", suffixes=[".mine", ".csv"], sniff=lambda file: file.head.startswith(b"mine"), order=3)
def read_mine(file):
    return Table.held(file.path, "mine", {"logits": 2 * np.eye(3), "labels": np.arange(3)})

import numpy as np
"""


@pytest.mark.parametrize("ours", [True, False], ids=["old metadata", "plain checkout"])
def test_a_package_adds_a_reader_and_a_broken_one_is_left_out(tmp_path, ours):
    """Metadata of 0.2.0 name some of calcli's own readers: all of them are found."""
    (tmp_path / "mine_reader.py").write_text(PLUGIN)
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    points = {"mine": "mine_reader", "gone": "no.such.module"}
    points |= {"helm": "calcli.importers.readers.harnesses.helm"} if ours else {}
    (info / "entry_points.txt").write_text(
        f"[{PLUGINS}]\n"
        + "".join(f"{name} = {module}\n" for name, module in points.items())
    )
    (tmp_path / "a.csv").write_text("mine,1,2")
    (tmp_path / "samples.jsonl").write_text('{"doc_id": 0, "filtered_resps": []}\n')
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def run(*words):
        command = [sys.executable, "-m", "calcli", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    done = run("extract", "a.csv", "-o", "a.h5", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["bundles"][0]["n"] == 3
    assert (
        "the reader 'gone' (no.such.module) cannot be loaded: No module named 'no'; left out"
        in done.stderr
    )
    done = run("extract", "samples.jsonl", "-o", "b.h5")
    assert "has no filtered_resps" in done.stderr


def test_files_that_only_their_own_programs_write_are_read_without_a_look_at_what_is_installed(
    tmp_path,
):
    np.savez(tmp_path / "a.npz", logits=2 * np.eye(3), labels=np.arange(3))
    code = "import sys; from calcli.cli.main import run; print(run(['extract', 'a.npz', '-o', 'a.h5', '-q']))"
    code += "; print([name for name in sys.modules if 'harnesses' in name])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[1:] == ["0", "[]", ""]


@pytest.mark.parametrize("format", formats(), ids=lambda format: format.name)
def test_every_format_says_what_it_is(format):
    assert re.fullmatch(r"[a-z][a-z0-9-]*", format.name)
    assert format.about and not format.about.endswith(".")
    assert all(
        suffix.startswith(".") and suffix == suffix.lower()
        for suffix in format.suffixes
    )
    assert format.read.__doc__, "the docstring says what is taken for what"
    assert format.examples, "the table of the docs shows a command for it"


def test_commands_name_a_file_and_an_output():
    rows = commands()
    assert {name for name, _, _ in rows} == {format.name for format in formats()}
    assert all(
        command.startswith(f"calcli extract {file}") and command.endswith(" -o OUT.h5")
        for _, file, command in rows
    )


@pytest.mark.parametrize(
    ("suffix", "name"),
    [(".npz", "npz"), (".jsonl", "json"), (".csv", "csv"), (".parquet", "parquet")],
)
def test_a_suffix_promises_the_general_format(suffix, name):
    assert suffixes()[suffix] == name


def test_a_broken_log_is_not_said_to_promise_a_format_of_one_program(run, tmp_path):
    broken = tmp_path / "log.jsonl"
    broken.write_bytes(b"\x00\x01 no JSON")
    done = run("evaluate", str(broken))
    assert done.code == 3
    assert "kserve" not in done.err
