"""The pages on the five papers: counts are those of their rows, every row has a state and says something."""

import re

import pytest
from conftest import REPOSITORY

PAGES = sorted(path for path in (REPOSITORY / "docs" / "papers").glob("*.md") if path.stem != "index")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_counts_are_those_of_the_rows(path):
    text = path.read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    counts = dict.fromkeys(("reproduced", "impossible", "refuted"), 0)
    for item, state, evidence in rows[1:]:
        assert item and evidence
        found = [word for word in counts if state.replace("*", "").startswith(word)]
        assert len(found) == 1, state
        counts[found[0]] += 1
    line = next(line for line in text.splitlines() if line.startswith("Reproduced: "))
    printed = [int(number) for number in re.findall(r"\d+", line)]
    assert printed == list(counts.values())
    cells = " | ".join(map(str, printed))
    assert f"({path.name}) | {cells} |" in (path.parent / "index.md").read_text(encoding="utf-8")
