"""What people type and read: other names of methods, tables in several formats."""

import csv
import json

import pytest
from cli import runner

from calcli.cli.tables import TEXTS, Table
from calcli.registry import canonical, method, method_names


@pytest.fixture
def run(monkeypatch, capsys):
    return runner(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("TS", "ts"),
        ("temperature", "ts"),
        ("Temperature_Scaling", "ts"),
        ("isotonic", "ir"),
        ("TS+histogram", "ts+hb"),
        ("scaling-binning", "sb"),
        ("vector+Platt", "vs+platt"),
        ("MS_ODIR", "ms-odir"),
        ("nothing such", "nothing such"),
    ],
)
def test_methods_go_by_their_other_names(typed, name):
    assert canonical(typed) == name


def test_no_alias_names_two_methods():
    taken = {}
    for name in method_names():
        for alias in vars(method(name)).get("aliases", ()):
            assert alias == alias.lower() and "_" not in alias
            assert taken.setdefault(alias, name) == name
            assert canonical(alias) == name, f"{alias} is a method's own name"


TABLE = Table(["method", "n", "ece"], [["a_b|c", 3, 0.123456], ["50%", None, float("nan")]])


def test_a_table_in_every_format():
    assert TEXTS["table"](TABLE) == "method  n     ece\na_b|c   3  0.1235\n50%     -       -\n"
    markdown = TEXTS["markdown"](TABLE).splitlines()
    assert markdown[1:3] == ["| --- | ---: | ---: |", r"| a_b\|c | 3 | 0.1235 |"]
    latex = TEXTS["latex"](TABLE).splitlines()
    assert latex[:2] == [r"\begin{tabular}{lrr}", r"\toprule"]
    assert latex[4:6] == [r"a\_b|c & 3 & 0.1235 \\", r"50\% & - & - \\"]
    assert list(csv.reader(TEXTS["csv"](TABLE).splitlines()))[1:] == [["a_b|c", "3", "0.123456"], ["50%", "", ""]]


@pytest.mark.parametrize("command", ["methods", "metrics"])
def test_lists_come_in_every_format(run, command):
    whole = json.loads(run(command, "--json").out)[command]
    assert json.loads(run(command, "--format", "json").out)[command] == whole
    lines = [json.loads(line) for line in run(command, "--format", "jsonl").out.splitlines()]
    assert [line["name"] for line in lines] == [each["name"] for each in whole]
    assert len(run(command, "--format", "csv").out.splitlines()) == len(whole) + 1
    assert run(command, "--format", "html").code == 2
    assert run(command, "--json", "--format", "csv").code == 2
