"""The pages on the five papers, docs/papers/, from the numbers that the other scripts stored.

Every table, figure and sentence with its data, ours, networks, trials and what became of it.
``make papers`` stores new numbers first where the data are there; what is not run anew stays as it was stored.

    python reproductions/papers_pages.py docs/papers/numbers -o docs/papers
"""

import argparse
import json
from collections import Counter
from importlib import import_module
from pathlib import Path

import paper_pages
from paper_pages import STATES, Printed

PAPERS = ("hoki", "verified_calibration", "recal", "expectation_consistency", "guo")


def results(text):
    """How many rows of a page say each of ``STATES``. Raises SystemExit for another word."""
    found = Counter(
        line.split(" | ")[1]
        for line in text.splitlines()
        if line.count(" | ") == 6 and "| ---" not in line
    )
    del found["result"]
    if not set(found) <= set(STATES):
        raise SystemExit(
            f"a result is none of {', '.join(STATES)}: {', '.join(set(found) - set(STATES))}"
        )
    return [found[state] for state in STATES]


def page(name, numbers):
    """One page, and how many of its rows say each of ``STATES``."""
    template = (
        Path(paper_pages.__file__).with_name(f"{name}.md").read_text(encoding="utf-8")
    )
    values = import_module(f"paper_pages.{name}").values(numbers)
    text = template.format(counts="{counts}", printed=Printed(), **values)
    counts = results(text)
    said = ". ".join(
        f"{state.capitalize()}: {count}"
        for state, count in zip(STATES, counts, strict=True)
    )
    return text.format(counts=f"{said}."), counts


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", type=Path, metavar="NUMBERS")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    numbers = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(given.numbers.glob("*.json"))
    }
    rows = []
    for name in PAPERS:
        text, counts = page(name, numbers)
        (given.output / f"{name}.md").write_text(text, encoding="utf-8")
        title = text.partition(" (")[0].removeprefix("# ")
        rows.append([f"[{title}]({name}.md)", *counts])
        print(given.output / f"{name}.md")
    rows.append(
        ["together", *(sum(column) for column in list(zip(*rows, strict=True))[1:])]
    )
    table = [["paper", *STATES], ["---"] * (1 + len(STATES)), *rows]
    lines = "\n".join(f"| {' | '.join(map(str, row))} |" for row in table)
    index = Path(paper_pages.__file__).with_name("index.md").read_text(encoding="utf-8")
    (given.output / "index.md").write_text(
        index.format(table=lines, papers="\n".join(PAPERS)), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
