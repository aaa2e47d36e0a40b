"""Help pages: short by default, complete with --help-all, and true of the parser."""

import json
import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest

import calcli.cli
from calcli.cli.app import COMMANDS, PACKAGE, load
from calcli.cli.former_names import FORMER, with_present_names
from calcli.cli.help_pages import COMMON
from calcli.diagrams.curve import CurveSettings
from calcli.evaluation.requests import Plan
from calcli.extracting.model_inputs import ModelOptions
from calcli.importers.import_request import ImportOptions
from calcli.io.locate import Layout
from calcli.metrics.catalog import metric_names
from calcli.metrics.settings import MetricSettings
from calcli.registry import method_names

MOST_LINES = 60
MOST_OPTIONS = {"extract": 20, "evaluate": 20, "diagram": 20}  # 12 for the others


@pytest.fixture
def help_page(run, monkeypatch):
    """A function that prints a page of help as a terminal of 80 columns shows it."""
    monkeypatch.setenv("COLUMNS", "80")

    def page(*words: str) -> str:
        result = run(*words)
        assert result.code == 0, result.err
        return result.out

    return page


def options_of(page: str) -> list[str]:
    """Spellings of the options that a page lists."""
    listed = re.findall(r"^ {2,4}(-\S.*?)(?:  |$)", page, re.MULTILINE)
    return [name for line in listed for name in re.findall(r"--[a-z][a-z-]*", line)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_help_page_is_short(command: str, help_page):
    page = help_page(command, "--help")
    lines = page.splitlines()
    assert len(lines) <= MOST_LINES
    examples = [line for line in lines if line.startswith("  calcli ")]
    assert len(examples) <= 3
    assert all(len(line) <= 80 for line in lines if line not in examples)
    assert all(len(line) <= 80 for line in examples)
    rows = re.findall(r"^ {2,4}-", page, re.MULTILINE)
    assert len(rows) <= MOST_OPTIONS.get(command, 12)


@pytest.mark.parametrize("command", COMMANDS)
def test_all_options_are_on_the_page_of_all_options(command: str, help_page):
    page = help_page(command, "--help-all")
    listed = set(options_of(page))
    for parameter in load(command).params:
        names = [name for name in parameter.opts if name.startswith("--")]
        assert set(names) <= listed
    short = help_page(command, "--help")
    assert set(options_of(short)) <= listed | {"--scores"}


@pytest.mark.parametrize("command", COMMANDS)
def test_common_options_exist(command: str):
    fields = {parameter.name for parameter in load(command).params}
    assert set(COMMON[command].split()) <= fields


COPIED_BY_NAME = (
    *(Layout, ImportOptions, ModelOptions, MetricSettings, CurveSettings, Plan),
)
"""Settings that take options of their own names (``common_fields``)."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_read(command: str):
    """In the module of its command or in what commands share, or copied by name."""
    module = import_module(f"{PACKAGE}.{command}")
    folder = Path(calcli.cli.__file__).parent
    sources = [Path(module.__file__), *folder.glob("*.py")]
    sources += (folder / "decision_logs").glob("*.py")
    text = "\n".join(source.read_text("utf-8") for source in sources)
    known = set(re.findall(r"\b(?:args|self|options|job|typed)\.(\w+)", text))
    for settings in COPIED_BY_NAME:
        known |= {field.name for field in fields(settings)}
    options = {field.name for field in fields(get_type_hints(module.run)["args"])}
    assert not options - known, "taken, and read nowhere"


def test_the_list_of_commands_says_what_their_modules_say():
    for command, summary in COMMANDS.items():
        text = import_module(f"{PACKAGE}.{command}").__doc__
        assert text is not None
        assert text.splitlines()[0] == summary


def test_help_command_prints_the_help_of_a_command(help_page):
    assert help_page("help", "fit") == help_page("fit", "--help")
    assert help_page("help") == help_page("--help")


def test_every_former_name_is_no_option_any_more_and_its_replacement_is_one():
    for command, names in FORMER.items():
        options = set()
        for parameter in load(command).params:
            options |= {*parameter.opts, *parameter.secondary_opts}
        for former, words in names.items():
            assert former not in options
            assert words[0] in options


def test_a_former_name_works_and_says_the_new_one(run):
    former = run("methods", "--jsonl")
    present = run("methods", "--format", "jsonl")
    assert former.code == present.code == 0
    assert former.out == present.out
    assert former.err == "calcli: --jsonl is now --format jsonl\n"
    assert present.err == ""


def test_a_value_stands_behind_the_words_that_a_former_name_became():
    words = ["--mean", ".5,.4", "--std=.2", "--transform", "zoom:.5:.9+blur:1"]
    present, notes = with_present_names("extract", [*words, "--transforms", "4"])
    assert present == [
        *("--normalize", "mean=.5,.4", "--normalize", "std=.2"),
        *("--transform", "zoom:.5:.9:4+blur:1"),
    ]
    assert notes == [
        "--mean is now --normalize mean=",
        "--std is now --normalize std=",
        "--transforms N is now --transform NAME:FROM:TO:N",
    ]
    assert with_present_names("extract", ["--", "--mean"])[0] == ["--", "--mean"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--transform=a:0:1", "--transforms=3"], ["--transform", "a:0:1:3"]),
        (["--transforms", "3", "--transform", "a:0:1"], ["--transform", "a:0:1:3"]),
        (["--transform=a:0:1", "--", "--transforms", "4"], None),
        (["--transform=a:0:1", "--transforms"], None),
    ],
)
def test_the_number_of_draws_stands_behind_the_range(words, expected):
    present, notes = with_present_names("extract", words)
    assert present == (words if expected is None else expected)
    assert bool(notes) == (expected is not None)


MEANINGS = {
    "--confidence": "extract",  # an array; of threshold it was the level
    "--layout": "extract",
    "--split": "extract",
    "--weights": "extract",
}
"""Option that one command alone has, as other commands used the name for another thing."""


def test_these_names_have_one_meaning():
    for option, command in MEANINGS.items():
        having = []
        for name in COMMANDS:
            if any(option in parameter.opts for parameter in load(name).params):
                having.append(name)
        assert having == [command]


def too_wide(text: str, columns: int) -> list[str]:
    """Lines that do not fit; a signature is one word, which is not cut."""
    lines = [line for line in text.splitlines() if not line.startswith("signature: ")]
    return [line for line in lines if len(line) > columns]


@pytest.mark.parametrize("columns", [80, 100])
def test_lists_and_descriptions_of_methods_and_metrics_fit(
    columns: int, run, monkeypatch
):
    monkeypatch.setenv("COLUMNS", str(columns))
    pages = [run("methods"), run("metrics")]
    pages += [run("methods", name) for name in method_names()]
    pages += [run("metrics", name) for name in metric_names()]
    for page in pages:
        assert page.code == 0
        assert too_wide(page.out, columns) == []


def test_a_description_keeps_its_words_formulas_and_items(run, monkeypatch):
    """Folding moves line ends alone: the words are those of the JSON, in order."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("bbq", "recal", "ts"):
        description = json.loads(run("methods", name, "--json").out)["methods"][0]
        page = run("methods", name).out
        assert " ".join(description["description"].split()) in " ".join(page.split())
    assert "\n3. multiplies " in run("methods", "recal").out
    assert "\nq = sum_M P(M | D)" in run("methods", "bbq").out
