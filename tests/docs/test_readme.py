"""Every command of the README runs, and prints what the README shows."""

import importlib.util
import re

import pytest
from conftest import REPOSITORY

from calcli.cli.app import MEANINGS
from calcli.errors import EXIT_CODES, CalcliError

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def documentation(name):
    """A module of docs/."""
    spec = importlib.util.spec_from_file_location(
        name, REPOSITORY / "docs" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TRANSCRIPTS = documentation("transcripts")


def folder_of_scores(path, text="$ " + TRANSCRIPTS.START[0]):
    """A folder as a page with this text finds it; by itself without the bundle and calibrator that pages begin with."""
    return TRANSCRIPTS.prepare(
        path, text if "-->" in text else f"<!-- run -->\n```console\n{text}\n```"
    )


def run_all(commands, folder):
    """Run commands one after the other, as a shell with this Python's programs would."""
    for command in commands:
        code, printed = TRANSCRIPTS.run(command, folder)
        assert code == 0, f"{command}\n{printed}"
        assert "Traceback" not in printed


def run_page(text, folder):
    """Run the commands of a page, and hold what they print to what it shows."""
    folder_of_scores(folder, text)
    for step in TRANSCRIPTS.page_steps(text):
        code, printed = TRANSCRIPTS.run(step.command, folder)
        assert code == 0 and "Traceback" not in printed, f"{step.command}\n{printed}"
        if step.shown:
            assert TRANSCRIPTS.agrees(step.shown, printed), (
                f"python docs/transcripts.py PAGE: {step.command}\n{printed}"
            )


def test_the_readme_has_the_exit_codes_of_the_help():
    assert f"- Exit codes: {MEANINGS}.\n" in README


def test_every_exit_code_of_an_error_has_a_meaning():
    errors = [CalcliError, *subclasses(CalcliError)]
    assert len(errors) > 10
    numbers = [code.number for code in EXIT_CODES]
    assert {error.exit_code for error in errors} <= set(numbers)
    assert len(set(numbers)) == len(numbers)


def subclasses(kind):
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def test_the_readme_is_a_front_door():
    assert len(README.splitlines()) <= 190
    assert README.index("make demo") < README.index("make test") < README.index("## ")
    consoles = re.findall(r"^(.*)\n```console$", README, flags=re.M)
    assert consoles and set(consoles) == {"<!-- run -->"}
    assert any(step.shown for step in TRANSCRIPTS.page_steps(README))


@pytest.mark.slow
def test_every_command_of_the_readme_prints_what_it_shows(tmp_path):
    run_page(README, tmp_path)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["a", "b"], "a\nb\n", True),
        (["a"], "a\nb\n", False),
        (["a", "…", "d"], "a\nb\nc\nd\n", True),
        (["a", "…"], "a\n", True),
        (["…", "b"], "a\nc\n", False),
        (["1.5"], "1x5\n", False),
    ],
)
def test_what_is_shown_is_compared_line_by_line(shown, printed, same):
    assert TRANSCRIPTS.agrees(shown, printed) is same
