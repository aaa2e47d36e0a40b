"""Headlines of evaluations, with the names of files and versions before them."""

from collections.abc import Sequence

from calcli.cli.render import (
    plain,
    width_of_output,
)
from calcli.evaluation.results import Result, focus
from calcli.evaluation.words import (
    LONGEST_NAME,
)
from calcli.evaluation.words import name_words as shortened_name

LONGEST_FILE = 40
"""Characters of the name of a file before a headline."""

SHORTEST_FILE = 12
"""Characters to which that name is shortened so that the headline fits a line."""


def name_words(name: object, longest: int = LONGEST_NAME) -> str:
    """A name from a file as it is printed: harmless first, since this makes it longer."""
    return shortened_name(plain(str(name)), longest)


def named_headline(result: Result, results: Sequence[Result]) -> str:
    """The headline, headed by the file and, where there are several, the version."""
    return _headed(result, results, name_words(result.bundle, LONGEST_FILE))


def _headed(result: Result, results: Sequence[Result], file: str) -> str:
    """The headline, headed by a name of the file, and by the version where there are
    several.

    file : empty to leave it out.
    """
    assert result.report is not None
    name = file
    if len(results) > 1:
        version = version_name(result, results)
        name = f"{file}, {version}" if file else version
    return f"{name}: {result.report.headline}"


def fitting_headline(
    result: Result, results: Sequence[Result], *, is_first: bool
) -> str:
    """The named headline, in one line where that is possible.

    The name of the file is shortened for it. Below the first headline, which has it, it
    is left out.
    """
    whole = named_headline(result, results)
    excess = len(whole) - width_of_output()
    if excess <= 0:
        return whole
    if not is_first:
        return _headed(result, results, "")
    room = len(name_words(result.bundle, LONGEST_FILE)) - excess
    if room < SHORTEST_FILE:
        return whole
    return _headed(result, results, name_words(result.bundle, room))


def version_name(result: Result, results: Sequence[Result]) -> str:
    """Name of a version in tables: its method, or its file where methods repeat."""
    if result.calibrator is None:
        return name_words(result.given_name, 28)
    methods = [other.method for other in results if other.calibrator is not None]
    if methods.count(result.method) > 1:
        return name_words(result.calibrator, 28)
    return name_words(result.method, 28)


def by_interest(results: Sequence[Result]) -> list[Result]:
    """The versions, the one to speak of first, the uncalibrated scores last."""
    first = results[focus(results)]
    ordered = [first]
    ordered += [result for result in results[1:] if result is not first]
    if results[0] is not first:
        ordered.append(results[0])
    return ordered
