"""Messages of the core in words of the Python API: arguments in place of options.

The core says what is wrong with rows in the words of the command line, as most of its
rows are of files. Of arrays there is no command to type; an option is an argument.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from inspect import signature
from os import PathLike
from typing import Any, ParamSpec, TypeVar

from calcli.api.tables import column_names
from calcli.errors import CalcliError
from calcli.items import are_all

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

COMMAND = re.compile(r"calcli (?:extract|fit|evaluate|apply|run|compare) [^;]*")
"""A command in a message, which is typed as it is."""

LIKE_OPTIONS = re.compile(r"-[a-z]|calcli |: ")
"""In a name: what would be read as words of the command line."""

QUOTED = "device|kind|label|method|scheme|style"
"""Options whose values are words: strings in Python."""

PLAIN = (
    "accuracy|again|baseline|bins|by|class-names|folds|force|interval|keep-predictions"
    "|label|level|method|norm|reset|resamples|sample-weight|scheme|seed|state|style"
    "|thorough|threshold|to|tolerance|unit"
)
"""Options that are arguments or settings."""

NAMES = {"by": "groups", "sample_weight": "weights", "unit": "units"}
"""Arguments that are called otherwise than their options."""

FLAGS = ("again", "force", "keep_predictions", "reset", "thorough")
"""Arguments that are True or False."""

OF_ARRAYS = (
    (r"name the dataset logits or pass --kind", "pass --kind"),
    (r" \(calcli extract [^)]*\)", ""),
    (r"; calcli extract --drop-missing leaves blank rows out", ""),
    (r"pass --ignore-label (\S+) if it marks rows to leave out", "leave such rows out"),
    (r"; name the labels: --labels NAME", ""),
    (
        r"has no dataset '(.*)' with one value per row, which is needed here.*",
        r"the calibrator is by '\1'; pass groups= with one value per row",
    ),
    (r"; where several classes may hold at once --per-label reads each", ""),
    (r" Labels of which several may hold take --per-label; answers", " Answers"),
    (r"calcli extract --class-names takes (.*)", r"class_names takes \1"),
    (r"; of the predicted class beside its confidence: --gold .*", ""),
    (r"; name another with --unit NAME, or pass --unit none", "; pass others, or none"),
    (r": --class-names A,B,…", ""),
    (r", or let calcli extract convert .*", ""),
    (r" and the source has no class_names", " and class_names are not given"),
    (r"scores: (?:logits|log_probs|probs|confidence): ", "scores: "),
    (r"scores: correct: ", "labels: "),
    (r"scores: (labels|weights): ", r"\1: "),
)
"""What is said of arrays otherwise than of files: patterns, and what replaces them."""

FILES_ONLY = ("the file has to be corrected",)
"""Reasons for no command that say nothing of arrays."""


def in_arguments(text: str) -> str:
    """A message with arguments in place of options; commands stay as they are."""
    translated = []
    start = 0
    for command in COMMAND.finditer(text):
        translated.append(_with_arguments(text[start : command.start()]))
        translated.append(command[0])
        start = command.end()
    translated.append(_with_arguments(text[start:]))
    return "".join(translated)


def _with_arguments(text: str) -> str:
    text = re.sub(rf"--({QUOTED}) (?!is )([\w|]+)", _string_argument, text)
    text = re.sub(rf"--({PLAIN}) ([\d.]*\d)", _number_argument, text)
    text = re.sub(rf"--({PLAIN}|device)(?![\w-])", _argument, text)
    text = text.replace("; --json writes the numbers to stdout", "")
    return re.sub(r"(^|; )-o (\S+): ", r"\1\2: ", text)


def _string_argument(match: re.Match[str]) -> str:
    values = [f"{_name(match)}={value!r}" for value in match[2].split("|")]
    return " or ".join(values)


def _number_argument(match: re.Match[str]) -> str:
    return f"{_name(match)}={match[2]}"


def _argument(match: re.Match[str]) -> str:
    name = _name(match)
    return f"{name}=True" if name in FLAGS else name


def _name(match: re.Match[str]) -> str:
    name = match[1].replace("-", "_")
    return NAMES.get(name, name)


def of_arrays(text: str) -> str:
    """A message about arrays, without what is of files only."""
    for pattern, replacement in OF_ARRAYS:
        text = re.sub(pattern, replacement, text)
    return in_arguments(text)


def _spoken(
    problem: CalcliError, names: Iterable[str], *, has_files: bool
) -> CalcliError:
    """Copy of an error in the words of Python. names : what the caller calls things."""
    kept = {name: f"\ue000{number}\ue001" for number, name in enumerate(names)}
    if has_files:
        spoken = type(problem)(
            _except_names(in_arguments, problem.message, kept),
            advice=problem.advice,
            no_command=problem.no_command,
            option=problem.option,
        )
        spoken.commands = problem.commands
        return spoken
    parts = [problem.message, problem.advice]
    if problem.no_command not in FILES_ONLY:
        parts.append(problem.no_command)
    text = "; ".join(filter(None, parts))
    return type(problem)(_except_names(of_arrays, text, kept))


def _except_names(
    change: Callable[[str], str], text: str, kept: Mapping[str, str]
) -> str:
    """A changed text, with names in it as they were. kept : what stands for each."""
    for name, mark in kept.items():
        text = text.replace(name, mark)
    text = change(text)
    for name, mark in kept.items():
        text = text.replace(mark, name)
    return text


def _names_like_options(arguments: Iterable[Any]) -> list[str]:
    """Names of files, columns, classes and the like that words of the command line are
    in, the longest first.
    """
    names: set[str] = set()
    for value in arguments:
        if isinstance(value, str | PathLike):
            names.update([str(value), *str(value).split(":")])  # FILE:GROUP
        names.update(_texts(value), column_names(value) or ())
    return sorted(filter(LIKE_OPTIONS.search, names), key=len, reverse=True)


def _texts(several: Any) -> Iterator[str]:
    """The texts in a list, or in an array or a series of objects."""
    dtype = getattr(several, "dtype", None)
    if getattr(dtype, "kind", None) in ("O", "S", "U"):
        several = several.tolist()
    if isinstance(several, list | tuple):
        yield from filter(_is_name, several)


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _are_files(scores: Any) -> bool:
    """True for the path of a bundle, or several."""
    sources = scores if isinstance(scores, list | tuple) else [scores]
    return bool(sources) and are_all(str | PathLike, sources)


def says_arguments(
    function: Callable[Parameters, Returned],
) -> Callable[Parameters, Returned]:
    """Let a function of the API raise its errors in the words of Python.

    function : its argument ``scores`` is a path or an array; without one, it takes files
    alone.
    """
    parameters = signature(function)

    @wraps(function)
    def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        try:
            return function(*args, **kwargs)
        except CalcliError as problem:
            given = parameters.bind(*args, **kwargs).arguments
            settings: Mapping[str, Any] = kwargs
            names = _names_like_options([*given.values(), *settings.values()])
            has_files = _are_files(given.get("scores", "a file"))
            spoken = _spoken(problem, names, has_files=has_files)
            raise spoken.with_traceback(problem.__traceback__) from None

    return wrapped
