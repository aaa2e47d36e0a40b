"""What ../papers_pages.py writes: a file per paper, its rows made of the numbers that the scripts store.

A row's state begins with one of ``STATES``; the counts at the top of a page are those of its rows.
"""

from typing import Any, NamedTuple

STATES = ("reproduced", "impossible", "refuted", "undecided")

Numbers = dict[str, Any]
"""What a script stored, by its name."""


class Row(NamedTuple):
    """One table, figure or sentence of a paper."""

    item: str
    state: str
    text: str


class Page(NamedTuple):
    """One paper. pictures : (file beside the numbers, what it shows)."""

    title: str
    short: str
    intro: str
    rows: list[Row]
    pictures: tuple[tuple[str, str], ...] = ()
    end: str = ""


def listed(values: Any, form: str = ".2f", factor: float = 1) -> str:
    """Numbers with commas."""
    return ", ".join(f"{factor * value:{form}}" for value in values)


def judged(claim: dict[str, Any]) -> str:
    """The state of a claim that was judged at every point of a figure."""
    axis = "bins" if "bins" in claim else "rows"
    places, verdicts = claim[axis], claim["verdicts"]
    wrong = [str(at) for at, verdict in zip(places, verdicts, strict=True) if verdict == "not met"]
    met = [verdict == "met" for verdict in verdicts]
    start = next((i for i in range(len(met)) if all(met[i:])), len(met))
    if all(met):
        return "reproduced"
    if start <= len(met) // 2:
        return f"reproduced from {places[start]} {axis} on"
    end = next((i for i, each in enumerate(met) if not each), len(met))
    if end > len(met) // 2:
        return f"reproduced up to {places[end - 1]} {axis}"
    if wrong:
        return f"**refuted** at {', '.join(wrong)} {axis}"
    return "undecided"


def verdicts(claim: dict[str, Any]) -> str:
    """How many points of a figure bear a claim out."""
    words = claim["verdicts"]
    return ", ".join(f"{word} at {words.count(word)}" for word in ("met", "not met", "undecided") if word in words)
