"""The pages on the five papers: made of the stored numbers, by scripts that use what is public."""

import ast
import json
import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from conftest import REPOSITORY

import calcli

PAGES = REPOSITORY / "docs" / "papers"
REPRODUCTIONS = REPOSITORY / "reproductions"
NAMES = ("hoki", "verified_calibration", "recal", "expectation_consistency", "guo")
STATES = (
    "reproduced",
    "reproduced in part",
    "not seen here",
    "refuted",
    "not reproduced",
    "impossible",
)


@pytest.fixture(scope="module")
def stored():
    """The stored numbers by the name of the script."""
    return {
        path.stem: json.loads(path.read_text("utf-8"))
        for path in (PAGES / "numbers").glob("*.json")
    }


def test_the_pages_are_what_the_stored_numbers_make(tmp_path):
    command = [
        sys.executable,
        REPRODUCTIONS / "papers_pages.py",
        PAGES / "numbers",
        "-o",
        tmp_path,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in (*NAMES, "index"):
        assert (tmp_path / f"{name}.md").read_text("utf-8") == (
            PAGES / f"{name}.md"
        ).read_text("utf-8"), name


@pytest.mark.parametrize("name", NAMES)
def test_every_row_names_data_networks_trials_and_one_of_six_words(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    rows = [
        line.strip("| ").split(" | ")
        for line in text.splitlines()
        if line.startswith("| ")
    ][2:]
    counts = dict.fromkeys(STATES, 0)
    for item, word, evidence, theirs, ours, networks, trials in rows:
        assert len(item) > 3 and theirs and ours and len(evidence) > 3
        assert re.fullmatch(r"\d+|–", networks) and re.fullmatch(r"\d+|–", trials)
        assert (networks == "0") <= (word == "impossible"), item
        counts[word] += 1
    printed = next(
        line for line in text.splitlines() if line.startswith("Reproduced: ")
    )
    assert [int(number) for number in re.findall(r"\d+", printed)] == list(
        counts.values()
    )
    assert f"({name}.md) | {' | '.join(map(str, counts.values()))} |" in (
        PAGES / "index.md"
    ).read_text("utf-8")
    end = text.partition("## What to do today\n")[2]
    assert len(re.findall(r"\.(?=\s)", end)) == 3


@pytest.mark.parametrize("name", NAMES)
def test_no_figure_of_ours_is_typed(name):
    """A decimal or a per cent in a page is a value of the stored numbers, or marked as the paper's."""
    template = (REPRODUCTIONS / "paper_pages" / f"{name}.md").read_text("utf-8")
    prose = re.sub(
        r"`[^`]*`|\{[^}]*\}|sections? [\d., and]+|the 90 % interval|90 % intervals",
        "",
        template,
    )
    assert not re.findall(r"\d*\.\d+|\d+ %", prose)


def test_a_second_program_confirms_what_is_refuted(stored):
    """``second_opinion.py`` has its own fits, bins, bootstrap, rounds and integrals; draws of the bars differ."""
    second, first = stored["second_opinion"], stored["verified_calibration"]["networks"]
    assert set(second["bars"]) == set(first)
    for name, bar in second["bars"].items():
        cover = first[name]["coverage"]
        # 40 and 100 data sets: 3 standard errors
        np.testing.assert_allclose(bar, cover["percentile"], atol=0.2)
        assert (
            cover["bins"][-2:] == [128, 512]
            and max(bar[-2:]) == max(cover["percentile"][-2:]) == 0
        )
    for family, paths in stored["recal_figures"]["ece_after_round"].items():
        rises = sum(b > a for path in paths for a, b in pairwise(path))
        assert second["rounds"][family] == [rises, sum(len(path) - 1 for path in paths)]
        assert rises > 10
    for row in stored["expectation_consistency_theory"]["theory"]:
        if (
            row["which"] == "small"
            and (name := f"{row['teacher']} {row['alpha']}") in second["levels"]
        ):
            other = second["levels"][name] or {"share": 0, "worst": 0}
            of_row = row["too_modest"] or {"share": 0, "worst": 0}
            assert of_row["share"] == pytest.approx(other["share"], abs=2e-5), name
            assert of_row["worst"] == pytest.approx(other["worst"], abs=2e-6), name


def test_the_second_program_needs_nothing_but_numpy():
    """Neither calcli nor a module that the other scripts share."""
    tree = ast.parse((REPRODUCTIONS / "second_opinion.py").read_text("utf-8"))
    names = {
        a.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for a in node.names
    }
    names |= {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    assert names == {"argparse", "json", "itertools", "math", "pathlib", "numpy"}


def test_the_second_program_on_the_data(tmp_path, real, stored):
    """One half of the rounds, from the files: the stored path of the first half, round by round."""
    real("cifar10_resnet20_transformed")
    path = {
        name: paths[0]
        for name, paths in stored["recal_figures"]["ece_after_round"].items()
    }
    np.savez(
        tmp_path / "cifar10_resnet20_transformed.npz",
        **real("cifar10_resnet20_transformed"),
    )
    command = [
        sys.executable,
        REPRODUCTIONS / "second_opinion.py",
        tmp_path,
        "--sets",
        "1",
        "--halves",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)
    assert figures["rounds"] == {
        n: [sum(b > a for a, b in pairwise(p)), len(p) - 1] for n, p in path.items()
    }
    assert figures["levels"]["affine 20"]["share"] == pytest.approx(0.2564, abs=5e-5)


def test_pictures_of_the_pages_are_there():
    shown = [
        name
        for page in PAGES.glob("*.md")
        for name in re.findall(r"\]\((numbers/[^)]+)\)", page.read_text("utf-8"))
    ]
    assert len(shown) > 8
    assert all((PAGES / name).stat().st_size < 250_000 for name in shown)


def test_the_stored_numbers_are_of_the_runs_that_make_papers_makes(stored):
    script = (REPRODUCTIONS / "papers.sh").read_text("utf-8")
    for name, option, key in (
        ("corrupted_labels", "--seeds", "seeds"),
        ("expectation_consistency_table1", "--halves", "halves"),
        ("guo_tables", "--halves", "halves"),
        ("hoki_tables", "--seeds", "seeds"),
        ("hoki_tables", "--halves", "halves"),
        ("temperatures", "--halves", "halves"),
        ("verified_calibration", "--trials", "trials"),
    ):
        asked = re.search(rf"run {name} .*{option} (\d+)", script)
        assert asked and stored[name][key] == int(asked.group(1)), name
    assert len(stored["recal_figures"]["scores"]["temperature scaling"]["ece"]) == 12


@pytest.mark.parametrize(
    "path",
    sorted(REPRODUCTIONS.rglob("*.py")),
    ids=lambda path: str(path.relative_to(REPRODUCTIONS)),
)
def test_reproductions_use_what_is_public(path):
    """``import calcli`` and its public names, ``calcli.sklearn``, or commands: nothing from inside."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        modules = (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        )
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [
            m for m in modules if m.startswith("calcli.") and m != "calcli.sklearn"
        ], path.name
        if isinstance(node, ast.ImportFrom) and node.module == "calcli":
            assert {alias.name for alias in node.names} <= set(calcli.__all__)
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "calcli"
        ):
            assert node.attr in calcli.__all__, f"{path.name} uses calcli.{node.attr}"
        if (
            isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
        ):
            assert isinstance(node.value, ast.Name) and node.value.id in (
                "self",
                "cls",
                "Row",
            ), node.attr
