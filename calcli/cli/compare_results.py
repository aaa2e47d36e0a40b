"""Results of an earlier ``compare``, of its result file or its job file: their types are
checked before use.
"""

from pathlib import Path
from typing import Any

import msgspec

from calcli.errors import UsageError
from calcli.evaluation import leaderboard as board
from calcli.evaluation.json_structs import ScoreOutput
from calcli.io.inputs import read_document
from calcli.output import Output

LARGEST = 1 << 30  # bytes of a result file


class EarlierResults(msgspec.Struct):
    """Schema of a result file of calcli compare; other keys are ignored."""

    settings: board.SharedSettings
    data: dict[str, str]
    results: list[board.EntryOutput]
    differences: list[board.DifferencesOutput]


class FinishedEntry(Output):
    """Schema of an entry in the job file: what the result file will hold of it.

    differences : None for the baseline itself.
    """

    result: board.EntryOutput
    differences: board.DifferencesOutput | None


WRONG_CONTENT = (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors on reading what no ``compare`` of this version has written."""


def read_results(path: Path) -> EarlierResults:
    """Read the result file of an earlier run. Raises UsageError for any other file."""
    try:
        text = read_document(str(path), LARGEST, "a result of compare", is_output=True)
        results = msgspec.json.decode(text, type=EarlierResults)
        for result in results.results:
            _check_metrics(result)
        for difference in results.differences:
            _check_differences(difference)
    except WRONG_CONTENT:
        raise UsageError(
            f"{path}: exists and is no result of compare; name another -o or pass"
            " --force"
        ) from None
    return results


def for_job_file(entry: board.LeaderboardEntry) -> bytes:
    """A finished entry as the job file keeps it."""
    finished = FinishedEntry(
        result=entry.output(), differences=entry.differences_output()
    )
    return msgspec.json.encode(finished.to_dict())


def from_job_file(
    entry: board.LeaderboardEntry, text: Any
) -> board.LeaderboardEntry | None:
    """A planned entry with the numbers that the job file keeps.

    None for what another version of calcli has written: the entry is scored again.
    """
    if not isinstance(text, bytes):
        return None
    try:
        finished = msgspec.json.decode(text, type=FinishedEntry)
        _check_metrics(finished.result)
        if finished.differences is not None:
            _check_differences(finished.differences)
    except WRONG_CONTENT:
        return None
    return entry.finished_before(finished.result, finished.differences)


def _check_metrics(result: board.EntryOutput) -> None:
    """Check the metrics of a result. Raises KeyError, msgspec.DecodeError."""
    if result.reason is not msgspec.UNSET:
        return
    for name in (*board.LEADERBOARD_METRICS, *result.metrics):
        msgspec.convert(result.metrics[name], ScoreOutput)


def _check_differences(difference: board.DifferencesOutput) -> None:
    """Check that every metric is compared. Raises KeyError."""
    for name in board.COMPARED:
        difference.metrics[name]
