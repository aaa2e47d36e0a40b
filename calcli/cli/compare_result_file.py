"""The result file of compare, read again: nothing in it is believed before its types are checked."""

from pathlib import Path
from typing import Any

import msgspec

from calcli.errors import UsageError
from calcli.evaluation.leaderboard import COMPARED, METRICS
from calcli.io.inputs import read_document

LARGEST = 1 << 30
"""Bytes of a result file."""

Fact = int | float | str | bool | None | list[float | None]
NUMBERS = ("value", "se", "p_value", "null_mean", "null_q95")


class KeptDifference(msgspec.Struct):
    """A method's differences to the baseline on a bundle, by metric."""

    bundle: str
    method: str
    metrics: dict[str, dict[str, Fact]]


class KeptResult(KeptDifference):
    """A method's metrics on a bundle."""

    status: str
    seconds: float = 0.0
    data_sha256: str | None = None
    fits: dict[str, int] = msgspec.field(default_factory=dict)


class Kept(msgspec.Struct):
    """What an earlier run has left; other keys are not read again."""

    settings: dict[str, Any]
    data: dict[str, str]
    results: list[KeptResult]
    differences: list[KeptDifference]

    @property
    def whole(self) -> bool:
        """Whether all that is shown of a result is there, and is numbers."""
        done = [(result, METRICS) for result in self.results if result.status == "ok"]
        pairs: list[tuple[KeptDifference, tuple[str, ...]]] = [*done, *((pair, COMPARED) for pair in self.differences)]
        return all(name in each.metrics for each, names in pairs for name in names) and all(
            _is_shown(fact) for each, _ in pairs for fact in each.metrics.values()
        )


def _is_shown(fact: dict[str, Fact]) -> bool:
    ends = fact.get("ci") or [None, None]
    return (
        "value" in fact
        and all(type(fact.get(name)) in (int, float, type(None)) for name in NUMBERS)
        and (isinstance(ends, list) and len(ends) == 2)
    )


def kept(path: Path) -> Kept:
    """Read what an earlier run has left. Raises UsageError for anything else."""
    what = "a result of compare"
    try:
        found = msgspec.json.decode(read_document(str(path), LARGEST, what, own=True), type=Kept)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if found is None or not found.whole:
        raise UsageError(f"{path}: exists and is no result of compare; name another -o or pass --force")
    return found
