"""What ../papers_pages.py fills in: NAME.md is a page with {names} in it, NAME.py their values from the stored numbers.

No figure of ours is typed into a page; one that the paper prints stands there as {printed:…}.
"""

from collections import Counter
from typing import Any

STATES = (
    "reproduced",
    "reproduced in part",
    "not seen here",
    "refuted",
    "not reproduced",
    "impossible",
)
"""What a row may say: the claim holds; holds here and there; is not seen in these data, which cannot refute it;
these data refute it; was tried and failed; needs what is not public."""

Numbers = dict[str, Any]
"""What a script stored, by its name."""


class Printed:
    """{printed:0.5} in a page is 0.5: a figure of the paper."""

    def __format__(self, text: str) -> str:
        return text


def listed(values: Any, form: str = ".2f", factor: float = 1) -> str:
    """Numbers with commas."""
    return ", ".join(f"{factor * value:{form}}" for value in values)


def span(values: Any, form: str = ".2f", factor: float = 1) -> str:
    """The least and the greatest of some numbers."""
    low, high = (f"{factor * value:{form}}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def share(holds: Any) -> tuple[str, str]:
    """The word for a sentence on several cases, and "k of n": in part where it holds on more than half of them."""
    holds = list(holds)
    count, n = sum(bool(each) for each in holds), len(holds)
    word = (
        "reproduced"
        if count == n
        else "reproduced in part"
        if 2 * count > n
        else "not seen here"
    )
    return word, f"{count} of {n}"


def judged(claim: dict[str, Any], networks: Any = None) -> tuple[str, str]:
    """The word for a claim judged at every point of a figure on every network, and where it is met."""
    axis = "bins" if "bins" in claim else "rows"
    of = [claim["verdicts"][name] for name in networks or claim["verdicts"]]
    counts = [Counter(each[j] for each in of) for j in range(len(claim[axis]))]
    met, wrong = ([count[word] for count in counts] for word in ("met", "not met"))
    said = f"met on {', '.join(map(str, met))} of {len(of)} networks at {listed(claim[axis], 'd')} {axis}"
    if any(wrong):
        said += f", not met on {', '.join(map(str, wrong))}"
    everywhere = all(count == len(of) for count in met)
    return "reproduced" if everywhere else "reproduced in part" if any(
        2 * c > len(of) for c in met
    ) else "not seen here", said
