"""The result file of an earlier ``compare``: its types are checked before use."""

from pathlib import Path

import msgspec

from calcli.errors import UsageError
from calcli.evaluation import leaderboard as board
from calcli.evaluation.json_structs import ScoreOutput
from calcli.io.inputs import read_document

LARGEST = 1 << 30  # bytes of a result file


class EarlierResults(msgspec.Struct):
    """Schema of a result file of calcli compare; other keys are ignored."""

    settings: board.SharedSettings
    data: dict[str, str]
    results: list[board.EntryOutput]
    differences: list[board.DifferencesOutput]


def read_results(path: Path) -> EarlierResults:
    """Read the result file of an earlier run. Raises UsageError for any other file."""
    try:
        text = read_document(str(path), LARGEST, "a result of compare", is_output=True)
        results = msgspec.json.decode(text, type=EarlierResults)
        for result in results.results:
            if result.reason is msgspec.UNSET:
                for name in (*board.LEADERBOARD_METRICS, *result.metrics):
                    msgspec.convert(result.metrics[name], ScoreOutput)
        for difference in results.differences:
            for name in board.COMPARED:
                difference.metrics[name]
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UsageError(
            f"{path}: exists and is no result of compare; name another -o or pass"
            " --force"
        ) from None
    return results
