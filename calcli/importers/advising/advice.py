"""What to type: the command that settles how the arrays of a source are read.

A refusal on reading ends with a command that works as pasted, or with the reason why
there is none. The command has the reading that is suggested most (``suggestions``),
spelled out in options; it was not certain enough to be taken without them.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from calcli.errors import CalcliError, NotToRead, SaysHow
from calcli.importers.advising.suggestions import Suggestions, suggest
from calcli.importers.evidence.lookalikes import is_never_below_half
from calcli.importers.evidence.looks import KIND_OF_LOOK, Look
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import TO_SUPPLY, ImportRequest
from calcli.importers.joining.gold import GOLD
from calcli.importers.names.array_names import of_role, real_names
from calcli.importers.names.column_options import listed_columns, some_of
from calcli.importers.names.opposites import GRADES, in_order_of_pair
from calcli.importers.names.roles import is_prediction, says_correct, sounds_sure

MOST_GROUP_OPTIONS = 2
"""Columns of groups that a command names."""

FEW_GROUPS = 20
"""Most distinct values of a column that a command names as groups."""

MOST_MODELS = 2
"""With at most this many models each gets a command; with more only the first does."""

SHARE_OF_ANSWERS = 0.05
"""A column of text is an answer to the label if this share of its rows equals it."""

NAMING = ("--scores", "--labels", "--kind")
COLUMN_OPTIONS: dict[Look, str] = {
    "ids": "--ids",
    "units": "--unit",
    "groups": "--group-by",
    "weights": "--sample-weight",
}

Option = tuple[str, ...]


def with_option(
    problem: CalcliError, request: ImportRequest, arrays: Arrays, where: str
) -> CalcliError:
    """The error, with the complete command if it advises a single option.

    An option that was given, and is advised against, is left out. The command names
    the units, too, if they are likely.
    """
    option = problem.option
    if problem.commands or not option:
        return problem
    kept = tuple(group for group in request.typed if group != option)
    added: list[Option] = [] if option in request.typed else [option]
    unit = _unit_to_propose(request, arrays)
    if unit is not None:
        added.append(("--unit", unit))
    return problem.advising(replace(request, typed=kept).command(where, added))


def _unit_to_propose(request: ImportRequest, arrays: Arrays) -> str | None:
    """Column that looks like units, where none is known; None without any.

    A column with a role of its own, such as the ids, is read without being named.
    """
    if "unit" in request.named or arrays.paths_of("unit"):
        return None
    return arrays.likely_unit(real_names(of_role(arrays.names, "")))


def with_command(
    problem: CalcliError, arrays: Arrays, request: ImportRequest, where: str
) -> CalcliError:
    """The error, with what each array looks like and the command that reads them so.

    One that says itself why there is no command stays as it is.
    """
    if problem.no_command:
        return problem
    suggestions = suggest(arrays, request, where)
    described = f"; it has {suggestions.looks.listing()}"
    if not suggestions.looks.has_any:
        return problem.advising(
            more=described, no_command="nothing looks like scores or labels"
        )
    if isinstance(problem, NotToRead):
        return problem.advising(more=described, no_command="none reads it as it is")
    # A command for several files can only be built on the one that was typed.
    is_of_several_files = ", " in where
    if is_of_several_files and not (request.join and request.typed):
        return problem.advising(more=described)
    reading = _options_of(suggestions)
    if isinstance(reading, str):
        commands = _command_of_each_model(suggestions, where)
        if commands:
            return type(problem)(f"{where}: {_models(suggestions)}").advising(*commands)
        if problem.commands:
            return problem.advising(more=described)
        if isinstance(problem, SaysHow):
            return problem.advising(more=f"{described}; {reading}")
        described += _with_labels_elsewhere(suggestions, where)
        return problem.advising(more=described, no_command=reading)
    typed = replace(request, typed=request.typed or ((where,),))
    if suggestions.are_percentages and ("--percent",) not in typed.typed:
        typed = replace(typed, typed=(*typed.typed, ("--percent",)))
    if reading.has_confidences:
        typed = typed.without(NAMING)
    options = [*reading.options, *_options_of_columns(suggestions, reading, typed)]
    return problem.advising(typed.command(where, options), more=described)


def _with_labels_elsewhere(suggestions: Suggestions, where: str) -> str:
    """The command for scores, or a confidence beside a prediction, whose labels the
    user has to write; else "".
    """
    if suggestions.labels or len(suggestions.scores) != 1 or not suggestions.kind:
        return ""
    score = suggestions.scores[0]
    options = [("--scores", score), ("--kind", suggestions.kind)]
    if suggestions.is_single:
        predictions = suggestions.looks.of_look("predictions")
        if not sounds_sure(score) or len(predictions) != 1:
            return ""
        options = [("--confidence", score), ("--correct", f"{predictions[0]}={GOLD}")]
    command = suggestions.request.command(where, [*options, ("--gold", TO_SUPPLY)])
    return f"; with labels in {TO_SUPPLY}: {shlex.join(command)}"


# ---- options that name the scores and the labels


@dataclass(frozen=True)
class ReadingOptions:
    """Options that name the scores and the labels, or a confidence and its outcome.

    used : columns that they name. n_rows : of the labels, None if unknown.
    """

    options: Sequence[Option]
    used: frozenset[str]
    n_rows: int | None
    has_confidences: bool = False


def _options_of(suggestions: Suggestions) -> ReadingOptions | str:
    """Options that read the arrays as suggested, or the reason why there are none."""
    if not suggestions.scores:
        return "none of these looks like scores"
    if len(suggestions.scores) > 1:
        return "several may be the scores"
    if len(suggestions.labels) > 1:
        return "several may be the labels"
    if suggestions.is_single:
        outcomes = _outcomes(suggestions)
        if outcomes and KIND_OF_LOOK.get(suggestions.look_of_scores) == "probs":
            return _options_of_confidence(suggestions, outcomes[0])
        look = suggestions.look_of_scores
        is_lone_margin = look == "log-odds" and not suggestions.labels
        if is_lone_margin or (not outcomes and _is_confidence(suggestions)):
            return "nothing says which answers are right"
    if not suggestions.labels:
        return _options_without_labels(suggestions)
    if not suggestions.kind:
        return "the values do not tell the kind"
    score, label = suggestions.scores[0], suggestions.labels[0]
    options = [("--scores", score), ("--labels", label), ("--kind", suggestions.kind)]
    members = listed_columns(list(suggestions.columns), score)
    used = frozenset({score, label, *members})
    return ReadingOptions(options, used, suggestions.n_rows(label))


def _options_without_labels(suggestions: Suggestions) -> ReadingOptions | str:
    """Options that read scores alone, or the reason why there are none."""
    score = suggestions.scores[0]
    kind = suggestions.kind
    if not suggestions.request.no_labels or not kind:
        if suggestions.has_unrelated:
            return "no column follows the scores as labels do"
        return "none of these looks like labels"
    members = listed_columns(list(suggestions.columns), score)
    return ReadingOptions(
        [("--scores", score), ("--labels", "none"), ("--kind", kind)],
        frozenset({score, *members}),
        None,
    )


def _options_of_confidence(suggestions: Suggestions, outcome: str) -> ReadingOptions:
    score = suggestions.scores[0]
    options = [("--confidence", score), ("--correct", outcome)]
    used = frozenset({score, *outcome.split("=")})
    n_rows = suggestions.n_rows(outcome.partition("=")[0])
    return ReadingOptions(options, used, n_rows, has_confidences=True)


def _is_confidence(suggestions: Suggestions) -> bool:
    """True for one score a row that can only be the confidence of a prediction.

    It is never below 1/2, or there are more than two classes.
    """
    for label in suggestions.labels:
        if len(suggestions.words(label)) > 2:
            return True
    look = suggestions.look_of_scores
    values = suggestions.arrays.present(suggestions.scores[0])
    if KIND_OF_LOOK.get(look) != "probs" or values is None:
        return False
    return is_never_below_half(values / 100 if look == "percentages" else values)


def _outcomes(suggestions: Suggestions) -> list[str]:
    """Values for ``--correct`` beside one score a row, the likeliest first."""
    for candidates in (suggestions.labels, suggestions.looks.paths):
        outcomes = list(filter(says_correct, candidates))
        if outcomes:
            return outcomes
    graded = []
    for label in suggestions.labels:
        if _is_graded(label, suggestions.words(label)):
            graded.append(label)
    if graded or len(suggestions.labels) != 1:
        return graded
    name = suggestions.columns[suggestions.scores[0]].name
    if _is_confidence(suggestions) or sounds_sure(name):
        return _predictions_of(suggestions, suggestions.labels[0])
    return []


def _is_graded(path: str, distinct: Sequence[object]) -> bool:
    """True for a column of right and wrong."""
    words = list(map(str, distinct))
    if in_order_of_pair(words, GRADES) is not None:
        return True
    parts = re.split(r"[\W_]+", path)
    are_two = len(set(map(str.lower, words))) == 2
    return are_two and any(map(says_correct, parts))


def _predictions_of(suggestions: Suggestions, label: str) -> list[str]:
    """``PREDICTION=LABEL`` for each column of predictions of a label."""
    known = set(suggestions.words(label))
    predictions = []
    for path in suggestions.looks.paths:
        words = suggestions.words(path)
        has_its_words = words and isinstance(words[0], str) and set(words) <= known
        is_answer_to_it = has_its_words or _often_equals(suggestions, path, label)
        if path != label and (is_prediction(path) or is_answer_to_it):
            predictions.append(f"{path}={label}")
    return predictions


def _often_equals(suggestions: Suggestions, path: str, label: str) -> bool:
    """True for texts that are those of the label on many rows: free answers."""
    texts = suggestions.arrays.values(path)
    keys = suggestions.arrays.values(label)
    if texts is None or keys is None or len(texts) != len(keys):
        return False
    if texts.dtype.kind != "U" or keys.dtype.kind != "U":
        return False
    are_equal = (texts == keys) & (keys != "")
    return bool(are_equal.mean() >= SHARE_OF_ANSWERS)


def _command_of_each_model(
    suggestions: Suggestions, where: str
) -> list[tuple[str, ...]]:
    """Commands that read columns of scores apart, each into a file of its own.

    Of many models, that of the first alone. Empty where they do not look like the
    scores of a model each.
    """
    request = suggestions.request
    if len(suggestions.scores) < 2 or request.scores:
        return []
    paths = suggestions.scores
    if len(paths) > MOST_MODELS:
        if not all(map(suggestions.arrays.is_wide, paths)):
            return []
        paths = paths[:1]
    commands = []
    for path in paths:
        own_request = replace(request, scores=(path,))
        of_model = suggest(suggestions.arrays, own_request, where)
        reading = _options_of(of_model)
        if isinstance(reading, str):
            return []
        command = request.without(NAMING).command(where, reading.options)
        output = Path(command[-1])
        name = re.sub(r"[^\w-]+", "_", suggestions.columns[path].name)
        own_output = output.with_suffix(f".{name}{output.suffix}")
        commands.append((*command[:-1], str(own_output)))
    return commands


def _models(suggestions: Suggestions) -> str:
    """Several arrays of scores in words, with the option that reads all of them."""
    scores = suggestions.scores
    if len(scores) <= MOST_MODELS:
        return f"{' and '.join(scores)} are scores of a model each"
    message = (
        f"holds {len(scores)} arrays of scores side by side: {some_of(scores)}; choose"
        " one"
    )
    if set(scores) <= set(suggestions.arrays.paths_of("scores")):
        message += "; calcli extract --scores '*' takes all"
    return message


# ---- options that name ids, units, groups and weights


def _options_of_columns(
    suggestions: Suggestions, reading: ReadingOptions, request: ImportRequest
) -> list[Option]:
    """Options that name ids, units, groups and weights, of those not named yet."""
    typed = set(chain(*request.typed))
    options: list[Option] = []
    for look, option in COLUMN_OPTIONS.items():
        if option in typed:
            continue
        paths = []
        for path in suggestions.looks.of_look(look):
            is_free = path not in reading.used and path not in typed
            if is_free and reading.n_rows in (None, suggestions.n_rows(path)):
                paths.append(path)
        if look == "groups":
            paths = [path for path in paths if _may_be_groups(suggestions, path)]
            paths = paths[:MOST_GROUP_OPTIONS]
        elif len(paths) > 1:
            continue
        options += [(option, path) for path in paths]
    return options


def _may_be_groups(suggestions: Suggestions, path: str) -> bool:
    """True for few values that are not the classes."""
    words = suggestions.arrays.words(path)
    known: set[object] = set()
    for label in suggestions.labels:
        known.update(suggestions.words(label))
    return len(words) <= FEW_GROUPS and not set(words) <= known
