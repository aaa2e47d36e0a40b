"""Find the answers in one JSON record: distributions over options, and yes/no.

Decision models answer with objects that have a type (System One, OpenAI); people write
the same numbers in forms of their own. An answer is

1. an object of a known type: ``{"type": "noul", "noul": 0.9}``;
2. numbers in [0, 1] that sum to 1, by option: ``{"a": 0.9, "b": 0.1}``, a list of
   ``{"value": …, "probability": …}``, or a list of numbers beside a list of options;
3. one number with a name that says yes: ``p_yes``.

The field ``confidence`` is never an answer: it is another function of these numbers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from calcli.items import are_all
from calcli.role_words import LABEL_WORDS

AnswerType = Literal["yes/no", "choice", "score"]
Path = tuple[str | int, ...]
Pairs = tuple[tuple[str, ...], tuple[float, ...]]
"""Options and their probabilities."""

YES_NO: AnswerType = "yes/no"
YES = "yes"
NO = "no"

ONLY = "answer"
"""Name of the question of records that do not name it."""

TYPES: Mapping[str, AnswerType] = {
    "noul": YES_NO,
    "predicate": YES_NO,
    "boolean": YES_NO,
    "bool": YES_NO,
    "binary": YES_NO,
    "yes_no": YES_NO,
    "yesno": YES_NO,
    "choice": "choice",
    "classification": "choice",
    "score": "score",
    "rating": "score",
}
"""Words for the type of a question."""

YES_KEYS = ("noul", "probability_yes", "p_yes", "prob_yes", "yes_probability")
"""Names of the one number of a yes/no answer."""

DISTRIBUTIONS = ("probabilities", "probs", "distribution", "option_probabilities")
"""Names of the distribution in an answer, the likeliest first."""

OPTION_LISTS = ("options", "choices", "labels", "classes", "candidates", "values")
"""Names of the list of options beside a list of probabilities."""

NAMES_OF_LABELS = (
    *LABEL_WORDS,
    *("golds", "gold_label", "expected", "intent", "correct_answer", "human"),
    *("annotation", "answer_key"),
)
"""Names of labels, whatever their values are, the usual ones first."""

NAMED_ANSWERS = ("answers", "per_question", "questions", "decisions", "results")
"""Names of an object or list of answers by question."""

QUESTION_FIELDS = ("question", "question_id", "question_name", "task")
TYPE_FIELDS = ("type", "primitive", "question_type", "task")
NAMES_OF_YES = frozenset(("yes", "true", "y"))
NAMES_OF_NO = frozenset(("no", "false", "n"))

LEVEL = re.compile("[0-9]{1,4}")
"""A level as an option."""

NEVER_SCORES = re.compile(
    r"(?i)(.*[_.])?(confidence|latency|cost|tokens?|price|usage|seconds|ms|duration"
    r"|time|temperature|score|usd|legend|threshold|weights?|chars)([_.].*)?"
)
"""Names of numbers that are no probabilities of options, whatever their sum."""

DEEPEST = 12
"""Levels of a record that are looked at."""

MOST_OPTIONS = 10_000
SUM_TOLERANCE = 1e-3
COARSEST_STEP = 0.01
"""Last digit that the sum of numbers under a free name may be rounded to."""


@dataclass(frozen=True)
class Answer:
    """One answer to one question.

    question : its name, None where the record does not say it.
    type : of the question.
    options : texts of the options, in the order of the record.
    probabilities : of the options.
    path : of the object that holds the distribution, in the record.
    key : of the distribution in that object; "" where the object is the distribution.
    legend : texts of the levels of a score, by level; empty if not given.
    confidence : the field of this name, no probability; None if there is none.
    stated : the field ``choice``; None if there is none.
    """

    question: str | None
    type: AnswerType
    options: tuple[str, ...]
    probabilities: tuple[float, ...]
    path: Path
    key: str
    legend: tuple[str, ...] = ()
    confidence: float | None = None
    stated: Any = None


@dataclass(frozen=True)
class Unanswered:
    """A question without a distribution: refused, or of a type without one."""

    question: str | None
    reason: str
    path: Path


def find_answers(record: Mapping[str, Any]) -> list[Answer | Unanswered]:
    """All answers of a record, in the order of the record."""
    return list(_walk(record, (), (record,)))


def _walk(
    value: Any, path: Path, parents: Sequence[Any]
) -> Iterator[Answer | Unanswered]:
    """Answers in a JSON value. parents : the values on the path to it, and itself."""
    if len(path) > DEEPEST:
        return
    if isinstance(value, Mapping):
        answer = _read(value, path, parents)
        if answer is not None:
            yield answer
            return
        children: Iterator[tuple[str | int, Any]] = iter(value.items())
        if _is_request(path):
            return
    elif isinstance(value, list):
        children = iter(enumerate(value))
    else:
        return
    for key, child in children:
        if isinstance(child, Mapping | list):
            yield from _walk(child, (*path, key), (*parents, child))
        elif _is_yes_by_question(path) and is_probability(child):
            question = question_of(path, parents, key)
            yes_no = (1.0 - float(child), float(child))
            yield Answer(question, YES_NO, (NO, YES), yes_no, path, str(key))


def _is_request(path: Path) -> bool:
    """True for what was asked, which holds no answers."""
    return bool(path) and path[-1] in ("request", "usage", "input", "messages")


def _is_yes_by_question(path: Path) -> bool:
    """True for the object ``per_question``: P(yes) by question."""
    return bool(path) and path[-1] == "per_question"


# ---- one object


def _read(
    value: Mapping[str, Any], path: Path, parents: Sequence[Any]
) -> Answer | Unanswered | None:
    """The answer that an object is; None where it is none."""
    reason = _why_unanswered(value)
    if reason:
        return Unanswered(question_of(path, parents), reason, path)
    if _is_yes_by_question(path):
        return None
    yes = _yes_key(value)
    if yes is not None:
        p = float(value[yes])
        return _answer(value, path, parents, yes, ((NO, YES), (1.0 - p, p)))
    for key in DISTRIBUTIONS:
        pairs = _pairs(value.get(key), value, is_named=True)
        if pairs is not None:
            return _answer(value, path, parents, key, pairs)
        if _has_equal_options(value.get(key)):
            reason = 'with two options of one text, as true and "true"'
            return Unanswered(question_of(path, parents), reason, path)
    if path and not _is_no_distribution(path[-1]) and not _are_labels(value, path):
        pairs = _pairs(value, value, is_named=False)
        if pairs is not None:
            return _answer(value, path, parents, "", pairs)
    return None


def _why_unanswered(value: Mapping[str, Any]) -> str:
    """Why a question has no distribution; "" for objects that may have one."""
    declared = value.get("type")
    if declared == "refusal":
        return "refused"
    if declared == "box" and "box" in value:
        return "boxes"
    if any(_is_one_option(value.get(key)) for key in DISTRIBUTIONS):
        return "with one option only"
    return ""


def _is_one_option(value: Any) -> bool:
    """True for a distribution that names one option."""
    if isinstance(value, Mapping):
        return len(value) == 1 and all(map(is_probability, value.values()))
    return (
        isinstance(value, list)
        and len(value) == 1
        and is_probability(_pair(value[0])[1])
    )


def is_label_word(name: str) -> bool:
    """True for a name of labels."""
    return name.lower() in NAMES_OF_LABELS


def _are_labels(value: Mapping[str, Any], path: Path) -> bool:
    """True for whole numbers by question under a name of labels: ``{"spam": 1}``."""
    has_name = any(isinstance(key, str) and is_label_word(key) for key in path)
    return has_name and are_all(int, value.values())


def is_measure(name: str) -> bool:
    """True for a name of a number that is no probability: a cost, a time, a size."""
    return NEVER_SCORES.fullmatch(name) is not None


def _is_no_distribution(key: str | int) -> bool:
    return isinstance(key, str) and is_measure(key)


def _yes_key(value: Mapping[str, Any]) -> str | None:
    """Key of the one number of a yes/no answer; None where there is none."""
    keys: Sequence[str] = YES_KEYS
    declared = value.get("type")
    if isinstance(declared, str) and TYPES.get(declared) == YES_NO:
        keys = (*YES_KEYS, "probability", "p")
    for key in keys:
        if is_probability(value.get(key)):
            return key
    lone = [key for key in value if key.lower() in ("yes", "true")]
    if len(lone) == 1 and is_probability(value[lone[0]]):
        others = [key for key in value if key != lone[0]]
        is_distribution = _pairs(value, value, is_named=False) is not None
        has_options = any(_may_be_option(key, value[key]) for key in others)
        if not is_distribution and not has_options:
            return lone[0]
    return None


def _may_be_option(key: str, number: Any) -> bool:
    """True for a number beside P(yes) that may be the probability of an option."""
    return isinstance(number, float) and is_probability(number) and not is_measure(key)


def is_probability(value: Any) -> bool:
    """True for a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0.0 <= value <= 1.0


def _pairs(value: Any, parent: Mapping[str, Any], *, is_named: bool) -> Pairs | None:
    """Options and probabilities of a distribution in any form; None for none.

    is_named : it has the name of a distribution, so that it may be rounded coarsely.
    """
    options, numbers = _lists_of(value, parent)
    if not 2 <= len(options) <= MOST_OPTIONS or len(options) != len(numbers):
        return None
    if not all(map(is_probability, numbers)) or len(set(options)) < len(options):
        return None
    if not is_named and any(map(_is_no_distribution, options)):
        return None
    probabilities = tuple(map(float, numbers))
    if not _sums_to_one(probabilities, is_named):
        return None
    return tuple(map(str, options)), probabilities


def _lists_of(
    value: Any, parent: Mapping[str, Any]
) -> tuple[Sequence[str], Sequence[Any]]:
    """Options and numbers of an object, of a list of pairs, or of a list beside its
    options; none of anything else.
    """
    if isinstance(value, Mapping):
        return tuple(value), tuple(value.values())
    if not isinstance(value, list) or not value:
        return (), ()
    if not isinstance(value[0], Mapping):
        return _options_beside(value, parent), value
    options = []
    numbers = []
    for item in value:
        option, number = _pair(item)
        options.append(option)
        numbers.append(number)
    return options, numbers


def _has_equal_options(value: Any) -> bool:
    """True for a list of options with probabilities in which a text stands twice.

    So do true and "true": a label could be either.
    """
    if not isinstance(value, list):
        return False
    options = [option for option, number in map(_pair, value) if is_probability(number)]
    return len(options) == len(value) and len(set(options)) < len(options)


def _pair(item: Any) -> tuple[str, Any]:
    """Option and probability of ``{"value": …, "probability": …}``; else no number."""
    if not isinstance(item, Mapping):
        return "", None
    number = None
    for key in ("probability", "prob", "p"):
        if key in item:
            number = item[key]
            break
    for key in ("value", "option", "label", "name"):
        if key in item:
            return text_of_option(item[key]), number
    return "", None


def text_of_option(value: Any) -> str:
    """Text of an option or a label: ``true`` for True, ``2`` for 2.0."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _options_beside(numbers: Sequence[Any], parent: Mapping[str, Any]) -> Sequence[str]:
    """The list of options of as many numbers, beside them; empty if there is none."""
    for key in OPTION_LISTS:
        options = parent.get(key)
        if not isinstance(options, list) or len(options) != len(numbers):
            continue
        if are_all(str | int | bool, options):
            return list(map(text_of_option, options))
    return ()


def _sums_to_one(probabilities: Sequence[float], is_named: bool) -> bool:
    """True for a sum of 1 within half a digit a number and one more."""
    missed = abs(sum(probabilities) - 1.0)
    if missed <= SUM_TOLERANCE:
        return True
    step = 10.0 ** -max(map(decimals, probabilities))
    if not is_named:
        step = min(step, COARSEST_STEP)
    return missed <= (len(probabilities) / 2.0 + 1.0) * step + 1e-9


def decimals(number: float) -> int:
    """Decimals of a number as it is written."""
    mantissa, _, exponent = repr(number).partition("e")
    _, _, digits = mantissa.partition(".")
    shown = 0 if digits == "0" else len(digits)
    return max(0, shown - int(exponent or 0))


def _answer(
    value: Mapping[str, Any],
    path: Path,
    parents: Sequence[Any],
    key: str,
    pairs: Pairs,
) -> Answer:
    """The answer of an object whose distribution stands under a key."""
    options, probabilities = pairs
    confidence: Any = value.get("confidence")
    question = question_of(path, parents)
    return Answer(
        question=question,
        type=_type_of(value, parents, options),
        options=options,
        probabilities=probabilities,
        path=path,
        key=key,
        legend=_legend(value, parents, question, options, key),
        confidence=float(confidence) if is_probability(confidence) else None,
        stated=value.get("choice"),
    )


def _type_of(
    value: Mapping[str, Any], parents: Sequence[Any], options: Sequence[str]
) -> AnswerType:
    """Type of an answer: as declared by it or above it, else by its options."""
    if yes_place(options) is not None:
        return YES_NO
    for parent in reversed(parents[-3:]):
        if not isinstance(parent, Mapping):
            continue
        for field in TYPE_FIELDS:
            word = parent.get(field)
            if isinstance(word, str) and word.lower() in TYPES:
                declared = TYPES[word.lower()]
                return "choice" if declared == YES_NO else declared
    is_score = "score" in value and are_levels(options)
    return "score" if is_score else "choice"


def yes_place(options: Sequence[str]) -> int | None:
    """Place of yes among yes and no, in any spelling and order; None for others."""
    if len(options) != 2:
        return None
    first = options[0].strip().lower()
    second = options[1].strip().lower()
    if first in NAMES_OF_YES and second in NAMES_OF_NO:
        return 0
    if second in NAMES_OF_YES and first in NAMES_OF_NO:
        return 1
    return None


def by_level(options: Sequence[str], probabilities: Sequence[float]) -> list[float]:
    """Probabilities of levels in the order of these."""
    pairs = zip(options, probabilities, strict=True)
    ordered = sorted(pairs, key=lambda pair: level_key(pair[0]))
    return [probability for _, probability in ordered]


def level_key(option: str) -> tuple[bool, float, str]:
    """Sort key of levels: by their numbers, others as text."""
    try:
        return False, float(option), option
    except ValueError:
        return True, 0.0, option


def are_levels(options: Sequence[str]) -> bool:
    """True for the numbers of levels, 0 or 1 to the last, in any order."""
    if not all(map(LEVEL.fullmatch, options)):
        return False
    numbers = sorted(map(int, options))
    first = numbers[0]
    return first in (0, 1) and numbers == list(range(first, first + len(numbers)))


def _legend(
    value: Mapping[str, Any],
    parents: Sequence[Any],
    question: str | None,
    options: Sequence[str],
    key: str,
) -> tuple[str, ...]:
    """Texts of the levels in the order of the options; empty if not given."""
    legend = value.get("legend")
    if isinstance(legend, Mapping):
        levels = list(map(str, legend.keys()))
        texts = list(map(str, legend.values()))
        # Options are levels whose texts the legend has, or the other way round.
        for names, others in ((levels, texts), (texts, levels)):
            text_of = dict(zip(names, others, strict=True))
            if text_of.keys() >= set(options):
                return tuple(text_of[option] for option in options)
    entries = value.get(key)
    if isinstance(entries, list) and all(map(_has_label, entries)):
        return tuple(str(entry["label"]) for entry in entries)
    # Texts of the levels, from the first to the last.
    criteria = legend if isinstance(legend, list) else _criteria(parents, question)
    if len(criteria) == len(options) and are_levels(options):
        first = min(map(int, options))
        return tuple(str(criteria[int(option) - first]) for option in options)
    return ()


def _has_label(entry: Any) -> bool:
    return isinstance(entry, Mapping) and "label" in entry and "value" in entry


def _criteria(parents: Sequence[Any], question: str | None) -> Sequence[Any]:
    """The levels as they were asked for, in a record; empty if not given."""
    record = parents[0]
    asked = _child(record, "question")
    if not isinstance(asked, Mapping):
        asked = _child(_child(_child(record, "request"), "questions"), question)
    criteria = _child(asked, "criteria")
    if isinstance(criteria, Mapping):
        return list(criteria)
    return criteria if isinstance(criteria, list) else ()


def _child(value: Any, key: str | None) -> Any:
    """Item of an object; None of anything else, and where it has none."""
    return value.get(key) if isinstance(value, Mapping) else None


# ---- the name of the question


def question_of(
    path: Path, parents: Sequence[Any], last: str | int | None = None
) -> str | None:
    """Name of the question of an answer at a path; None where nothing says it.

    last : key of the answer below the path, of answers that are plain numbers.
    """
    keys = path if last is None else (*path, last)
    for place in range(len(keys) - 1, 0, -1):
        if keys[place - 1] in NAMED_ANSWERS:
            return _name_in_answers(keys, place, parents)
    for parent in reversed(parents):
        name = _name_in_record(parent)
        if name is not None:
            return name
    return None


def is_named_by_path(answer: Answer | Unanswered) -> bool:
    """True for an item of ``answers`` and the like, which names the question."""
    return any(key in NAMED_ANSWERS for key in answer.path)


def _name_in_answers(keys: Path, place: int, parents: Sequence[Any]) -> str:
    """Name of an item of ``answers``: its key, or the field ``name`` of a list."""
    key = keys[place]
    if isinstance(key, str):
        return key
    item = parents[place + 1] if place + 1 < len(parents) else {}
    for field in ("name", "question", "id"):
        name = item.get(field) if isinstance(item, Mapping) else None
        if isinstance(name, str) and name:
            return name
    return position_name(key)


def position_name(place: int) -> str:
    """Name of the question of an answer without one, by its place in the list."""
    return f"question {place + 1}"


def is_position_name(name: str) -> bool:
    """True for a name that ``position_name`` gives."""
    return re.fullmatch(r"question [0-9]+", name) is not None


def _name_in_record(record: Any) -> str | None:
    """Name of the question of a record that has one answer."""
    if not isinstance(record, Mapping):
        return None
    for field in QUESTION_FIELDS:
        value = record.get(field)
        if isinstance(value, Mapping):  # the question as it was asked
            for inner in ("name", "id"):
                if isinstance(value.get(inner), str):
                    return str(value[inner])
            name = record.get("id")
            return name if isinstance(name, str) else None
        is_type = isinstance(value, str) and value.lower() in TYPES
        if isinstance(value, str) and value and not is_type:
            return value
    return None
