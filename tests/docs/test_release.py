"""What ``make dist`` and the release hold a distribution to."""

import importlib.util
import re
import sys

import pytest
from conftest import REPOSITORY

import calcli

WORKFLOWS = REPOSITORY / ".github" / "workflows"


@pytest.fixture(scope="module")
def dist():
    """The script ``.ci/dist.py`` as a module."""
    path = REPOSITORY / ".ci" / "dist.py"
    spec = importlib.util.spec_from_file_location("dist", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["dist"] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["dist"]


@pytest.fixture
def project(dist):
    return dist.Project(REPOSITORY)


def metadata_of(project):
    """Metadata as a build backend writes it, of the project's own declarations."""
    extras = project.table["optional-dependencies"]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project.name}",
        f"Version: {project.version}",
        "License-Expression: MIT",
        f"Requires-Python: {project.table['requires-python']}",
        "Description-Content-Type: text/markdown",
        *(f"Provides-Extra: {extra}" for extra in extras),
        *(f"Requires-Dist: {line}" for line in project.table["dependencies"]),
        'Requires-Dist: calcli-calibration[plot]; extra == "docs"',
    ]
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    return "\n".join(lines) + f"\n\n{readme}"


def test_the_version_is_the_one_that_the_package_says(project):
    assert project.version == calcli.__version__


def test_a_tag_of_this_version_with_its_heading_passes(dist):
    dist.check_tag("v1.2.3", "1.2.3", "# Changelog\n\n## 1.2.3 (2026-12-01)\n")


@pytest.mark.parametrize(
    ("tag", "changelog", "message"),
    [
        ("v1.2.4", "## 1.2.3 (2026-12-01)", "the tag is v1.2.4, the version 1.2.3"),
        ("1.2.3", "## 1.2.3 (2026-12-01)", "expected the tag v1.2.3"),
        ("v1.2.3", "## Unreleased", "no heading of this release"),
        ("v1.2.3", "## 1.2.3", "no heading of this release"),
        ("v1.2.3", "## 1.2.30 (2026-12-01)", "no heading of this release"),
    ],
)
def test_a_tag_that_is_not_the_version_is_refused(dist, tag, changelog, message):
    with pytest.raises(dist.CheckFailed, match=re.escape(message)):
        dist.check_tag(tag, "1.2.3", changelog)


def test_the_metadata_that_the_project_declares_passes(dist, project):
    dist.check_metadata(metadata_of(project), project)


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("Name: calcli-calibration", "Name: calcli", "the name is calcli"),
        (f"Version: {calcli.__version__}", "Version: 9.9", "the version is 9.9"),
        ("Dist: calcli-calibration[plot]", "Dist: calcli==1.0", "another program"),
        ("Provides-Extra: torch\n", "", "has the extras"),
        ("License-Expression: MIT", "License-Expression: BSD-3-Clause", "the licence"),
        ("text/markdown", "text/plain", "has no README"),
        ("# calcli", "# UNKNOWN", "has another README"),
    ],
)
def test_other_metadata_is_refused(dist, project, line, instead, message):
    metadata = metadata_of(project)
    assert line in metadata
    with pytest.raises(dist.CheckFailed, match=message):
        dist.check_metadata(metadata.replace(line, instead, 1), project)


def test_the_files_of_the_package_pass_and_include_more_than_code(dist, project):
    dist.check_files([*project.files, "PKG-INFO"], project)
    data = {"calcli/py.typed", "calcli/reporting/page.css", "calcli/reporting/page.js"}
    assert data <= project.files


@pytest.mark.parametrize("name", ["calcli/py.typed", "calcli/reporting/page.css"])
def test_a_file_that_is_lacking_is_named(dist, project, name):
    names = sorted(project.files - {name})
    with pytest.raises(dist.CheckFailed, match=f"lacks {name}"):
        dist.check_files(names, project)


def test_a_file_of_an_earlier_build_is_named(dist, project):
    names = [*project.files, "calcli/gone.py"]
    with pytest.raises(dist.CheckFailed, match=r"has calcli/gone\.py"):
        dist.check_files(names, project)


def test_a_command_that_fails_shows_its_last_lines(dist, tmp_path):
    words = [sys.executable, "-c", "print('what was wrong'); raise SystemExit(3)"]
    with pytest.raises(dist.CheckFailed, match="exit code 3\nwhat was wrong"):
        dist.run(words, tmp_path, dist.clean_environment())


def test_the_workflows_try_every_supported_python(project):
    """Those of the classifiers are tried by the suite, and before a release."""
    suite = (WORKFLOWS / "test.yml").read_text("utf-8")
    listed = ", ".join(f'"{version}"' for version in project.pythons)
    assert f"python: [{listed}]" in suite
    release = (WORKFLOWS / "release.yml").read_text("utf-8")
    block = re.search(r"python-version: \|\n((?: +3\.\d+\n)+)", release)[1]
    assert block.split() == project.pythons
    assert project.table["requires-python"] == f">={project.pythons[0]}"


def test_a_release_is_checked_against_its_tag_before_it_is_published():
    release = (WORKFLOWS / "release.yml").read_text("utf-8")
    build, publish = release.split("\n  publish:\n")
    assert 'run: make dist TAG="$TAG"' in build
    assert "needs: build" in publish
    assert "publish" not in build.partition("jobs:")[2]


def test_what_the_script_needs_is_pinned():
    pinned = (REPOSITORY / "constraints.txt").read_text("utf-8")
    assert re.search("^build==", pinned, re.MULTILINE)
    assert re.search("^packaging==", pinned, re.MULTILINE)
