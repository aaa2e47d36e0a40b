"""Console blocks of a page: run them, hold what they print to what the page shows, or show what they print.

``<!-- run -->`` before a block of ``console``: its lines that begin with ``$`` are commands, the lines below a command
what it prints (``…`` alone: any lines; nothing: not compared). ``<!-- show -->``: what the commands print is put
below them as the documentation is built. A block that runs finds the sample files and what ``START`` makes of them.

    python docs/transcripts.py README.md     writes what the commands print now below those that show something
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- (run|show) -->\n```console\n(.*?)```", re.DOTALL)
START = (
    "calcli extract scores.npz -o logits.h5 --split cal=0.5 --split test=0.5",
    "calcli fit logits.h5",
)
"""What the pages after the first have at hand."""


class Step(NamedTuple):
    """A command and the lines that the page shows below it."""

    command: str
    shown: Sequence[str]


def steps(block: str) -> list[Step]:
    """The commands of a block with what is shown of each."""
    found = [
        part.splitlines() for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    return [Step(lines[0], lines[1:]) for lines in found]


def page_steps(text: str) -> list[Step]:
    """The commands of all blocks of a page that run."""
    return [step for _, block in BLOCK.findall(text) for step in steps(block)]


def run(command: str, folder: Path) -> tuple[int, str]:
    """The exit code of a command in a folder, and what a terminal would show."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        env={
            **os.environ,
            "PATH": path,
            "PYTHONUNBUFFERED": "1",
            "PYTHONUTF8": "1",
            "COLUMNS": "100",
        },
        check=False,
    )
    return done.returncode, done.stdout


def prepare(folder: Path, text: str) -> Path:
    """A folder as a page finds it: the files of sample_data/scores.py beside sample_data/, and those of START."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, REPOSITORY / "sample_data" / "scores.py", folder], check=True
    )
    (folder / "sample_data").symlink_to(REPOSITORY / "sample_data")
    typed = {step.command.partition("#")[0].strip() for step in page_steps(text)}
    for command in () if typed & set(START) else START:
        code, printed = run(command, folder)
        if code:
            raise RuntimeError(f"{command} ended with {code}: {printed}")
    return folder


def agrees(shown: Sequence[str], printed: str) -> bool:
    """Does what a page shows agree with what was printed? A line that is ``…`` stands for any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else re.escape(line.rstrip()) + "\n"
        for line in shown
    )
    lines = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    return re.fullmatch(pattern, lines) is not None


def with_output(text: str, folder: Path, marks: Sequence[str]) -> str:
    """A page with what its commands print now below those that show something: in ``show``, all of them."""

    def block(found: re.Match[str]) -> str:
        mark, body = found.groups()
        lines = []
        for step in steps(body):
            code, printed = run(step.command, folder)
            if code:
                raise RuntimeError(f"{step.command} ended with {code}: {printed}")
            asked = mark in marks and (
                mark == "show" or (step.shown and "…" not in step.shown)
            )
            lines += [
                f"$ {step.command}",
                *(map(str.rstrip, printed.splitlines()) if asked else step.shown),
            ]
        return f"<!-- {mark} -->\n```console\n" + "\n".join(lines) + "\n```"

    return BLOCK.sub(block, text)


def main() -> None:
    """Rewrite pages in place."""
    for name in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder:
            text = name.read_text("utf-8")
            text = with_output(text, prepare(Path(folder), text), ["run"])
        name.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
