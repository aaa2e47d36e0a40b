"""Commands that messages advise: read back as a request, and tried."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from calcli.errors import CalcliError, DataError, MissingFile, SaysHow
from calcli.importers.import_request import ImportRequest

SINGLE_VALUES = (
    *("kind", "normalize", "confidence", "correct", "ids", "unit", "sample_weight"),
    *("class_names", "gold"),
)
NUMBERS = ("choices", "class_axis")
SEVERAL_VALUES = ("scores", "labels", "group_by")
SWITCHES = ("percent", "drop_missing", "drop_duplicates", "per_label")
"""Options that an advised command may have, by the number of their values."""

NOT_NAMES = (("scores", "*", "all_scores"), ("labels", "none", "no_labels"))
"""Options, values of these that are no names of arrays, and what is asked for then."""


@dataclass(frozen=True)
class AdvisedImport:
    """What an advised command asks for: a request, and further labels to ignore."""

    request: ImportRequest
    ignored: Sequence[float]


def advised_import(
    command: Sequence[str], request: ImportRequest
) -> AdvisedImport | None:
    """What a command of ``calcli extract`` asks for; None for other commands."""
    if tuple(command[:2]) != ("calcli", "extract") or "--model" in command:
        return None
    changes: dict[str, Any] = {"no_labels": False}
    ignored: list[float] = []
    words = iter(command[2:])
    for word in filter(_is_option, words):
        field = word.removeprefix("--").replace("-", "_")
        if field == "ignore_label":
            ignored.append(float(next(words)))
        elif field in SINGLE_VALUES:
            changes[field] = next(words)
        elif field in NUMBERS:
            changes[field] = int(next(words))
        elif field in SEVERAL_VALUES:
            changes[field] = (*changes.get(field, ()), next(words))
        elif field in SWITCHES:
            changes[field] = True
    for field, word, switch in NOT_NAMES:
        if changes.get(field) == (word,):
            changes |= {field: (), switch: True}
    if request.typed or "confidence" in changes:  # the command says all of it
        request = replace(
            request, scores=(), labels=(), kind=None, confidence=None, correct=None
        )
    return AdvisedImport(replace(request, **changes), ignored)


def _is_option(word: str) -> bool:
    return word.startswith("--")


def longer(command: Sequence[str], option: Sequence[str]) -> tuple[str, ...]:
    """The command with another option. It still ends with its output, if it did."""
    end = len(command) - 2 if command[-2] == "-o" else len(command)
    return (*command[:end], *option, *command[end:])


def without_commands(problem: CalcliError, reason: str) -> CalcliError:
    """The error without its command, and why there is none, unless it says that itself."""
    says_it_itself = problem.message.startswith(reason.removesuffix("…"))
    why = "" if says_it_itself else f"it would end in: {reason}"
    return type(problem)(problem.message, advice=problem.advice, no_command=why)


def with_reason(problem: CalcliError) -> CalcliError:
    """The error; where it names no command, with the reason why not."""
    is_said = bool(problem.commands or problem.no_command)
    if not isinstance(problem, DataError) or isinstance(problem, MissingFile | SaysHow):
        is_said = True
    if is_said:
        return problem
    return problem.advising(no_command="the file has to be corrected")
