"""Every registered file format: told by content, listed with commands, alone in its file."""

import re
from pathlib import Path

import pytest

import calcli.importers.readers
from calcli.importers.formats import commands, formats, suffixes

FOLDER = Path(calcli.importers.readers.__file__).parent


def test_every_module_of_readers_registers_a_format():
    registered = {Path(format.read.__code__.co_filename).name for format in formats()}
    assert registered == {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}


@pytest.mark.parametrize("format", formats(), ids=lambda format: format.name)
def test_every_format_says_what_it_is(format):
    assert re.fullmatch(r"[a-z][a-z0-9-]*", format.name)
    assert format.about and not format.about.endswith(".")
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in format.suffixes)
    assert format.read.__doc__, "the docstring says what is taken for what"
    assert format.examples, "the table of the docs shows a command for it"


def test_commands_name_a_file_and_an_output():
    rows = commands()
    assert {name for name, _, _ in rows} == {format.name for format in formats()}
    assert all(
        command.startswith(f"calcli extract {file}") and command.endswith(" -o OUT.h5") for _, file, command in rows
    )
    assert suffixes()[".npz"] == "npz"
