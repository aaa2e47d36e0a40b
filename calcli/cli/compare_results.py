"""The result file of an earlier ``compare``: its types are checked before use."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from calcli.errors import UsageError
from calcli.evaluation import leaderboard as board
from calcli.io.inputs import read_document

LARGEST = 1 << 30  # bytes of a result file


class Shown(msgspec.Struct):
    """Schema of one metric, or difference, in a result file."""

    value: float | None
    se: float | None = None
    p_value: float | None = None
    null_mean: float | None = None
    null_q95: float | None = None
    ci: tuple[float | None, float | None] | None = None


class EarlierDifference(msgspec.Struct):
    """Schema of a method's differences to the baseline on a bundle, by metric."""

    bundle: str
    method: str
    metrics: dict[str, Any]


class EarlierResults(msgspec.Struct):
    """Schema of a result file of calcli compare; other keys are ignored."""

    settings: dict[str, Any]
    data: dict[str, str]
    results: list[board.LeaderboardEntry]
    differences: list[EarlierDifference]


def read_results(path: Path) -> EarlierResults:
    """Read the result file of an earlier run. Raises UsageError for any other file."""
    try:
        text = read_document(str(path), LARGEST, "a result of compare", is_output=True)
        results = msgspec.json.decode(text, type=EarlierResults)
        for result in results.results:
            if result.reason is None:
                _check_shown(result.metrics, board.LEADERBOARD_METRICS)
        for difference in results.differences:
            _check_shown(difference.metrics, board.COMPARED)
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UsageError(
            f"{path}: exists and is no result of compare; name another -o or pass"
            " --force"
        ) from None
    return results


def _check_shown(metrics: Mapping[str, Any], required: Sequence[str]) -> None:
    """Check the metrics of a result. Raises KeyError, msgspec.DecodeError."""
    for name in (*required, *metrics):
        msgspec.convert(metrics[name], Shown)
