"""The pages on the five papers: made of the stored numbers, by scripts that use what is public."""

import ast
import json
import re
import subprocess
import sys

import pytest
from conftest import REPOSITORY

import calcli

PAGES = REPOSITORY / "docs" / "papers"
REPRODUCTIONS = REPOSITORY / "reproductions"
NAMES = ("hoki", "verified_calibration", "recal", "expectation_consistency", "guo")
STATES = ("reproduced", "impossible", "refuted", "undecided")


def test_the_pages_are_what_the_stored_numbers_make(tmp_path):
    command = [sys.executable, REPRODUCTIONS / "papers_pages.py", PAGES / "numbers", "-o", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in (*NAMES, "index"):
        assert (tmp_path / f"{name}.md").read_text("utf-8") == (PAGES / f"{name}.md").read_text("utf-8"), name


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_those_of_the_rows(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines() if line.startswith("| ")][2:]
    counts = dict.fromkeys(STATES, 0)
    for item, state, evidence in rows:
        assert item and len(evidence) > 5
        counts[state.replace("*", "").split()[0]] += 1
    printed = next(line for line in text.splitlines() if line.startswith("Reproduced: "))
    assert [int(number) for number in re.findall(r"\d+", printed)] == list(counts.values())
    assert f"({name}.md) | {' | '.join(map(str, counts.values()))} |" in (PAGES / "index.md").read_text("utf-8")


def test_pictures_of_the_pages_are_there():
    shown = [
        name for page in PAGES.glob("*.md") for name in re.findall(r"\]\((numbers/[^)]+)\)", page.read_text("utf-8"))
    ]
    assert len(shown) > 8
    assert all((PAGES / name).stat().st_size < 250_000 for name in shown)


def test_the_stored_numbers_are_of_the_runs_that_make_papers_makes():
    script = (REPRODUCTIONS / "papers.sh").read_text("utf-8")
    for name, option, key in (
        ("corrupted_labels", "--seeds", "seeds"),
        ("expectation_consistency_table1", "--halves", "halves"),
    ):
        asked = re.search(rf"run {name} .*{option} (\d+)", script)
        stored = json.loads((PAGES / "numbers" / f"{name}.json").read_text("utf-8"))
        assert asked and stored[key] == int(asked.group(1))


@pytest.mark.parametrize(
    "path", sorted(REPRODUCTIONS.rglob("*.py")), ids=lambda path: str(path.relative_to(REPRODUCTIONS))
)
def test_reproductions_use_what_is_public(path):
    """``import calcli`` and its public names, ``calcli.sklearn``, or commands: nothing from inside."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [m for m in modules if m.startswith("calcli.") and m != "calcli.sklearn"], path.name
        if isinstance(node, ast.ImportFrom) and node.module == "calcli":
            assert {alias.name for alias in node.names} <= set(calcli.__all__)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "calcli":
            assert node.attr in calcli.__all__, f"{path.name} uses calcli.{node.attr}"
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            assert isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "Row"), node.attr
