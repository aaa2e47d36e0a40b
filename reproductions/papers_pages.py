"""The pages on the five papers, docs/papers/, from the numbers that the other scripts stored.

Every table and figure with its state: reproduced, impossible (and why), refuted, or undecided at the runs made.
``make papers`` stores new numbers first where the data are there; what is not run anew stays as it was stored.

    python reproductions/papers_pages.py docs/papers/numbers -o docs/papers
"""

import argparse
import json
from importlib import import_module
from pathlib import Path

from paper_pages import STATES, Page, Row

PAPERS = ("hoki", "verified_calibration", "recal", "expectation_consistency", "guo")

INDEX = """# The five papers

Each page lists a paper's equations, tables, figures and sentences: reproduced (with the figures side by side),
reproduced in kind (the same finding on other networks), impossible (and why), refuted (with the evidence), or
undecided at the number of runs made.

```{toctree}
:maxdepth: 1

%s
```

%s

`make papers DATA=FOLDER` runs `reproductions/` on the logits in a folder, stores the numbers in `docs/papers/numbers`,
and writes these pages from it; without the files it writes them from what is stored. Figures on the pages that no
script prints come from the tests. Pictures are drawn by the same scripts.
"""


def counts(page: Page) -> list[int]:
    """Rows of each state."""
    words = [row.state.replace("*", "").split()[0] for row in page.rows]
    if not set(words) <= set(STATES):
        raise SystemExit(f"{page.title}: a state is none of {', '.join(STATES)}")
    return [words.count(state) for state in STATES]


def table(head, rows):
    """A Markdown table; a bar inside a cell would end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


def written(page: Page) -> str:
    """One page."""
    said = ". ".join(f"{state.capitalize()}: {count}" for state, count in zip(STATES, counts(page), strict=True))
    parts = [f"# {page.title}", f"{said}.", page.intro, table((*Row._fields[:2], "figures, or why"), page.rows)]
    parts += [f"![{words}](numbers/{name})\n\n*{words}*" for name, words in page.pictures]
    return "\n\n".join(part.strip() for part in [*parts, page.end] if part.strip()) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", type=Path, metavar="NUMBERS")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    numbers = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(given.numbers.glob("*.json"))}
    rows = []
    for name in PAPERS:
        page = import_module(f"paper_pages.{name}").page(numbers)
        (given.output / f"{name}.md").write_text(written(page), encoding="utf-8")
        rows.append([f"[{page.short}]({name}.md)", *counts(page)])
        print(given.output / f"{name}.md")
    rows.append(["together", *(sum(column) for column in list(zip(*rows, strict=True))[1:])])
    text = INDEX % ("\n".join(PAPERS), table(["paper", *STATES], rows))
    (given.output / "index.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
