"""Build wheel and sdist, check what is in them, install both and run the main job.

    python .ci/dist.py [-o dist] [--tag v0.2.0]

Both are installed into clean environments of every supported Python that is on PATH or
under pyenv; the job runs in a folder of its own. Each step prints one line. Needs the
packages build and packaging. ``--tag`` also checks that this is the release of a tag.
"""

import argparse
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ["calcli", "pyproject.toml", "setup.py", "README.md", "LICENSE"]
"""What a distribution is built of. A copy is, so that nothing old lies in the way."""

MANUAL = Path("share", "man", "man1", "calcli.1")

JOB = [
    "calcli --version",
    "calcli fit --method ts digits.h5 -o ts.json",
    "calcli evaluate digits.h5 --calibrator ts.json",
    "calcli apply ts.json digits.h5:test -o calibrated.csv",
    "calcli diagram digits.h5 --calibrator ts.json -o reliability.png",
    "calcli report digits.h5 --calibrator ts.json -o report.html",
]
WRITTEN = ["ts.json", "calibrated.csv", "reliability.png", "report.html"]

WHICH_CALCLI = (
    "import importlib.metadata, pathlib, calcli\n"
    "print(pathlib.Path(calcli.__file__).parent)\n"
    "print(importlib.metadata.version('calcli-calibration'))\n"
)


class CheckFailed(Exception):
    """Something is not as it must be. The text says what."""


def check(holds: bool, message: str) -> None:
    if not holds:
        raise CheckFailed(message)


# ---- the project, as it is declared


@dataclass(frozen=True)
class Project:
    """What the sources declare."""

    root: Path

    @cached_property
    def table(self) -> dict:
        text = (self.root / "pyproject.toml").read_text(encoding="utf-8")
        return tomllib.loads(text)["project"]

    @property
    def name(self) -> str:
        return self.table["name"]

    @cached_property
    def version(self) -> str:
        text = (self.root / "calcli" / "__init__.py").read_text(encoding="utf-8")
        return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]

    @property
    def pythons(self) -> list[str]:
        """Supported versions of Python, as the classifiers list them."""
        prefix = "Programming Language :: Python :: 3."
        lines = self.table["classifiers"]
        return [line.split(" :: ")[-1] for line in lines if line.startswith(prefix)]

    @property
    def commands(self) -> set[str]:
        """Lines of the entry points."""
        return {f"{name} = {place}" for name, place in self.table["scripts"].items()}

    @property
    def files(self) -> set[str]:
        """Files of the package: code, ``py.typed``, style and script of the page."""
        folder = self.root / "calcli"
        paths = [path for path in folder.rglob("*") if path.is_file()]
        kept = [path for path in paths if "__pycache__" not in path.parts]
        return {path.relative_to(self.root).as_posix() for path in kept}


def check_tag(tag: str, version: str, changelog: str) -> None:
    """Check that a tag names the version, and that the change log has it, dated."""
    check(
        tag == f"v{version}",
        f"the tag is {tag}, the version {version}: expected the tag v{version}, or "
        f'__version__ = "{tag.removeprefix("v")}" in calcli/__init__.py',
    )
    heading = rf"^## {re.escape(version)} \(\d{{4}}-\d{{2}}-\d{{2}}\)$"
    check(
        re.search(heading, changelog, re.MULTILINE) is not None,
        f"CHANGELOG.md has no heading of this release: expected ## {version} (DATE)",
    )


# ---- what is in a distribution


def check_metadata(text: str, project: Project) -> None:
    """Check the metadata of a distribution against what the project declares."""
    from packaging.metadata import Metadata
    from packaging.requirements import Requirement

    metadata = Metadata.from_email(text, validate=True)
    check(metadata.name == project.name, f"the name is {metadata.name}")
    version = str(metadata.version)
    check(version == project.version, f"the version is {version}")
    python = project.table["requires-python"]
    declared = str(metadata.requires_python)
    check(declared == python, f"needs Python {declared}")
    licence = metadata.license_expression
    check(licence == project.table["license"], f"has the licence {licence}")
    extras = set(metadata.provides_extra or ())
    expected = set(project.table["optional-dependencies"])
    check(extras == expected, f"has the extras {', '.join(sorted(extras))}")
    check(metadata.description_content_type == "text/markdown", "has no README")
    readme = (project.root / "README.md").read_text(encoding="utf-8")
    description = email.message_from_string(text).get_payload()
    check(description.strip() == readme.strip(), "has another README")
    names = {Requirement(str(line)).name for line in metadata.requires_dist or ()}
    check("calcli" not in names, "requires calcli, which is another program")


def check_files(names: Sequence[str], project: Project) -> None:
    """Check that a distribution has the files of the package, and no others."""
    package = {name for name in names if name.startswith("calcli/")}
    lacking = sorted(project.files - package)
    check(not lacking, f"lacks {', '.join(lacking)}")
    unknown = sorted(package - project.files)
    check(not unknown, f"has {', '.join(unknown)}, which the sources do not have")


def check_wheel(path: Path, project: Project) -> None:
    stem = f"{project.name.replace('-', '_')}-{project.version}"
    check(path.name == f"{stem}-py3-none-any.whl", f"the wheel is called {path.name}")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        check_files(names, project)
        metadata = archive.read(f"{stem}.dist-info/METADATA").decode()
        points = archive.read(f"{stem}.dist-info/entry_points.txt").decode()
        check(f"{stem}.dist-info/licenses/LICENSE" in names, "has no licence")
        manual = archive.read(f"{stem}.data/data/{MANUAL.as_posix()}").decode()
    check_metadata(metadata, project)
    lines = {line for line in points.splitlines() if "=" in line}
    check(lines == project.commands, f"has the entry points {', '.join(sorted(lines))}")
    title = manual.partition("\n")[0]
    check(f'"calcli {project.version}"' in title, f"the manual page is of {title}")
    check(".SS calcli evaluate" in manual, "the manual page lacks the commands")
    ours = ("calcli/", f"{stem}.")
    strangers = [name for name in names if not name.startswith(ours)]
    check(not strangers, f"puts {', '.join(strangers)} beside the package")


def check_sdist(path: Path, project: Project) -> None:
    stem = f"{project.name.replace('-', '_')}-{project.version}"
    check(path.name == f"{stem}.tar.gz", f"the sdist is called {path.name}")
    with tarfile.open(path) as archive:
        files = [member.name for member in archive.getmembers() if member.isfile()]
        names = [name.removeprefix(f"{stem}/") for name in files]
        metadata = archive.extractfile(f"{stem}/PKG-INFO").read().decode()
    check_files(names, project)
    check_metadata(metadata, project)
    lacking = [name for name in SOURCES[1:] if name not in names]
    check(not lacking, f"lacks {', '.join(lacking)}")


# ---- steps


def run(words: Sequence[str | Path], folder: Path, environment: dict[str, str]) -> str:
    """Run a command; return what it prints. Raises CheckFailed with its last lines."""
    done = subprocess.run(
        list(map(str, words)),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = "\n".join(done.stdout.splitlines()[-20:])
        raise CheckFailed(f"ends with exit code {done.returncode}\n{last}")
    return done.stdout


@contextmanager
def step(title: str) -> Iterator[None]:
    """Print one line for a step: ok and its seconds, or what failed."""
    start = time.perf_counter()
    try:
        yield
    except CheckFailed as problem:
        print(f"FAIL  {title}: {problem}", flush=True)
        raise
    print(f"ok    {title} ({time.perf_counter() - start:.1f} s)", flush=True)


def clean_environment() -> dict[str, str]:
    """The variables of this process, without what points Python at other code.

    pip compiles nothing, which takes more than half of the time of an installation.
    """
    kept = {"PIP_COMPILE": "0"}
    for name, text in os.environ.items():
        if not name.startswith("PYTHON"):
            kept[name] = text
    return kept


def build(project: Project, folder: Path) -> tuple[Path, Path]:
    """Build an sdist of a copy of the sources, and the wheel from it."""
    sources, built = folder / "sources", folder / "built"
    sources.mkdir()
    for name in SOURCES:
        path = project.root / name
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, sources / name, ignore=ignored)
        else:
            shutil.copy(path, sources / name)
    words = [sys.executable, "-m", "build", "--outdir", built, sources]
    run(words, folder, clean_environment())
    (wheel,) = built.glob("*.whl")
    (sdist,) = built.glob("*.tar.gz")
    return wheel, sdist


def find_python(version: str) -> Path | None:
    """Find an interpreter of a version that can make environments."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [
        shutil.which(f"python{version}"),
        *sorted(pyenv.glob(f"versions/{version}.*/bin/python")),
    ]
    code = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(None, candidates):
        words = [candidate, "-c", code]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return Path(candidate)
    return None


def try_out(python: Path, archive: Path, title: str, project: Project) -> None:
    """Install a distribution into a clean environment, and run the main job with it."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        prefix, work = folder / "environment", folder / "work"
        work.mkdir()
        shutil.copy(project.root / "sample_data" / "digits.h5", work)
        binaries = prefix / ("Scripts" if os.name == "nt" else "bin")
        environment = clean_environment()
        environment["PATH"] = f"{binaries}{os.pathsep}{environment['PATH']}"
        with step(f"{title}: pip install '{archive.name}[plot]'"):
            run([python, "-m", "venv", prefix], folder, environment)
            constraints = ["--constraint", project.root / "constraints.txt"]
            pip = [binaries / "python", "-m", "pip", "install", "--quiet"]
            quiet = ["--disable-pip-version-check", *constraints]
            run([*pip, *quiet, f"{archive}[plot]"], folder, environment)
        with step(f"{title}: the package, its version and its manual page"):
            output = run([binaries / "python", "-c", WHICH_CALCLI], work, environment)
            place, version = output.splitlines()
            installed = Path(place).is_relative_to(prefix)
            check(installed, f"calcli is imported from {place}")
            check(version == project.version, f"{version} is installed")
            check((prefix / MANUAL).is_file(), f"no {MANUAL} is installed")
        for line in JOB:
            with step(f"{title}: {line}"):
                command, *words = line.split()
                run([binaries / command, *words], work, environment)
        with step(f"{title}: {', '.join(WRITTEN)}"):
            empty = [name for name in WRITTEN if not (work / name).stat().st_size]
            check(not empty, f"{', '.join(empty)}: empty")


def build_and_check(project: Project, folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist, and check what is in them."""
    with step("build"):
        wheel, sdist = build(project, folder)
    with step(f"check {wheel.name}"):
        check_wheel(wheel, project)
    with step(f"check {sdist.name}"):
        check_sdist(sdist, project)
    return wheel, sdist


def try_on_every_python(wheel: Path, sdist: Path, project: Project) -> None:
    """Try both on every supported Python that is on this machine."""
    tried = []
    for version in project.pythons:
        python = find_python(version)
        if python is None:
            print(f"skip  Python {version}: neither on PATH nor under pyenv")
            continue
        try_out(python, wheel, f"Python {version}, wheel", project)
        try_out(python, sdist, f"Python {version}, sdist", project)
        tried.append(version)
    with step(f"tried on Python {', '.join(tried)}"):
        check(bool(tried), f"none of {', '.join(project.pythons)} is installed")


def keep(wheel: Path, sdist: Path, folder: Path) -> None:
    """Put both into a folder, in place of earlier ones."""
    folder.mkdir(parents=True, exist_ok=True)
    distribution = wheel.name.partition("-")[0]
    for old in folder.glob(f"{distribution}-*"):
        old.unlink()
    for archive in (wheel, sdist):
        shutil.copy(archive, folder)
        print(f"wrote {folder / archive.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--tag", help="tag of a release, such as v0.2.0")
    options = parser.parse_args()
    project = Project(ROOT)
    try:
        if options.tag:
            with step(f"the tag {options.tag} is the version"):
                changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
                check_tag(options.tag, project.version, changelog)
        with TemporaryDirectory() as name:
            wheel, sdist = build_and_check(project, Path(name))
            try_on_every_python(wheel, sdist, project)
            keep(wheel, sdist, options.output)
    except CheckFailed:  # its line is printed
        sys.exit(1)


if __name__ == "__main__":
    main()
