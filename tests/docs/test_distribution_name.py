"""Nothing installs by the name ``calcli``, which is another program on the index."""

import os
import re
import subprocess

import pytest
from conftest import REPOSITORY

from calcli.optional_packages import DISTRIBUTION, REQUIREMENTS

FOLDERS = [
    ".ci",
    ".github",
    "benchmarks",
    "calcli",
    "docs",
    "reproductions",
    "sample_data",
    "tests",
]
SUFFIXES = {".cff", ".html", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}
SKIPPED = {"__pycache__", "_build", "generated"}

EXTRA = re.compile(r"(?<![\w-])calcli\[")
"""An extra of the other program: ``calcli[torch]``."""

INSTALLER = re.compile(
    r"""
    \b(?:pip3?|pipx|uv|uv\ tool|uv\ pip|conda|mamba)
    \ (?:install|inject|add|download|upgrade|run)\b
    | \buvx\b
    """,
    re.VERBOSE,
)
WORDS_OF_A_CALL = re.compile(r"""["'](?:install|inject|add|download)["'],""")
"""The same as a list of words: ``["pip", "install", "-U", NAME]``."""

END_OF_COMMAND = re.compile(r"\n|`|&&|\|\||;|\s#\s")
NAME_ALONE = re.compile(r"(?<![\w./-])calcli(?![\w-])")


def faults(text):
    """The places of a text that install, or tell somebody to install, ``calcli``."""
    commands = [
        text[match.start() : match.start() + 30] for match in EXTRA.finditer(text)
    ]
    for pattern in (INSTALLER, WORDS_OF_A_CALL):
        for match in pattern.finditer(text):
            arguments = END_OF_COMMAND.split(text[match.end() :], maxsplit=1)[0]
            if NAME_ALONE.search(arguments):
                commands.append(match[0] + arguments)
    return commands


def files():
    """Every file of text that somebody reads or runs, but for this one."""
    yield from (path for path in REPOSITORY.iterdir() if path.is_file())
    for folder in FOLDERS:
        for path in sorted((REPOSITORY / folder).rglob("*")):
            if path.is_file() and not SKIPPED.intersection(path.parts):
                yield path


def texts():
    for path in files():
        if path.suffix in SUFFIXES and path.name != os.path.basename(__file__):
            text = path.read_text("utf-8", errors="replace")
            yield path.relative_to(REPOSITORY), text


def test_nothing_installs_another_program():
    commands = 0
    faulty = []
    for path, text in texts():
        commands += len(INSTALLER.findall(text))
        faulty += [f"{path}: {fault}" for fault in faults(text)]
    assert not faulty, "\n".join(faulty)
    assert commands >= 15  # else the files were not seen


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'calcli[torch]'",
        "pip install calcli",
        "pip install -U calcli==0.2",
        "python -m pip install --quiet calcli pyarrow",
        "pipx install calcli # from the index",
        "pipx inject calcli pyarrow",
        "uv tool install calcli",
        "uv add calcli",
        "uvx calcli run val.npz",
        "With `calcli[onnx]`, extract runs the model",
        'run(["pip", "install", "--upgrade", "calcli"])',
    ],
)
def test_what_would_be_found(text):
    assert faults(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'calcli-calibration[torch]'",
        "pip install calcli-calibration==0.2",
        "pip install dist/calcli_calibration-0.2.0.whl && calcli --version",
        "pip install ./calcli",
        "pipx inject calcli-calibration pyarrow",
        "pip install torch; then calcli extract reads it",
        "`pip install torch`: calcli needs it",
    ],
)
def test_what_would_pass(text):
    assert not faults(text)


def test_no_message_installs_calcli_itself():
    assert not [line for line in REQUIREMENTS.values() if "calcli" in line]


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_the_pages_on_installing_name_the_distribution_and_the_other_program(page):
    text = " ".join((REPOSITORY / page).read_text("utf-8").split())
    assert f"The distribution is named `{DISTRIBUTION}`" in text
    assert "the package index has an unrelated program called calcli" in text


@pytest.mark.skipif(os.name == "nt", reason="a bash script for GitHub's runners")
@pytest.mark.parametrize(
    ("requirement", "code"),
    [
        ("calcli", 2),
        ("calcli[plot]", 2),
        ("calcli==0.2", 2),
        ("calcli>=0.2", 2),
        ("calcli-calibration", 0),
        ("calcli-calibration[plot]==0.2", 0),
        ("./calcli", 0),
        ("calcli/", 0),
        ("dist/calcli_calibration-0.2.0-py3-none-any.whl", 0),
    ],
)
def test_the_action_refuses_to_install_the_other_program(requirement, code, tmp_path):
    stub = tmp_path / "python"
    stub.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    stub.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", REPOSITORY / ".ci" / "install.sh", requirement],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    if code == 0:
        assert done.stdout == f"-m pip install --quiet -- {requirement}\n"
    else:
        assert "expected calcli-calibration" in done.stderr
