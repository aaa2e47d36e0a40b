"""Which field of the records is the label of a question: proven by all its values.

A field is a path of keys; ``{question}`` in it stands for the name of the question, so
that ``label.{question}`` reads the labels of every question of a record. The label is a
field of which all values are among the options of their row; fields whose names say
that they are predictions are never it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calcli.decisions.answers import (
    DISTRIBUTIONS,
    NAMED_ANSWERS,
    NAMES_OF_LABELS,
    NAMES_OF_NO,
    NAMES_OF_YES,
    ONLY,
    YES_NO,
    Answer,
    is_label_word,
    is_position_name,
    level_key,
    position_name,
    text_of_option,
    yes_place,
)
from calcli.errors import DataError
from calcli.role_words import PREDICTION_PATTERN, PREDICTION_WORDS

NAMES_OF_PREDICTIONS = frozenset(
    (
        *PREDICTION_WORDS,
        *("choice", "answer", "answers", "decision", "output", "top", "top1", "score"),
        *("model", "selected", "verdict", "result", "response"),
    )
)
"""Names of predictions, in small letters."""

OTHER_WORDS = frozenset(("confidence", "repeat", "draw", "variant", "row", "index"))

THE_QUESTION = "{question}"
SEPARATOR = "."
MOST_FIELDS = 200
FEWEST_VALUES = 20
"""Values from which a field that always equals the prediction is no label."""

MOST_QUESTIONS_LOOKED_AT = 50
"""Answers of a record whose labels are looked for among all fields."""

Field = tuple[str, ...]


def shown(field: Field) -> str:
    """Name of a field for people and options: its keys with dots."""
    return SEPARATOR.join(_with(field, THE_QUESTION, "QUESTION"))


def _with(field: Field, key: str, new_key: str) -> Field:
    """The field, with another key in the place of one."""
    keys = list(field)
    for place, old_key in enumerate(field):
        if old_key == key:
            keys[place] = new_key
    return tuple(keys)


def is_prediction_word(name: str) -> bool:
    """True for a name of predictions, in any folder or case."""
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    is_known = word in NAMES_OF_PREDICTIONS
    return is_known or re.fullmatch(PREDICTION_PATTERN, word) is not None


# ---- fields of a record


def fields_of(record: Mapping[str, Any]) -> dict[Field, Any]:
    """Texts, numbers and truths of a record by their keys, answers left out."""
    fields: dict[Field, Any] = {}
    for path, value in _leaves(record, ()):
        if len(fields) >= MOST_FIELDS:
            break
        fields[path] = value
    return fields


def _leaves(value: Mapping[str, Any], path: Field) -> Iterator[tuple[Field, Any]]:
    for key, child in value.items():
        if isinstance(child, Mapping):
            is_answer = key in NAMED_ANSWERS or key in DISTRIBUTIONS
            is_label = any(map(is_label_word, path))
            if (is_answer and not is_label) or key in ("request", "usage", "legend"):
                continue
            yield from _leaves(child, (*path, key))
        elif isinstance(child, list) and is_label_word(key):
            yield from _listed_labels(child, (*path, key))
        elif isinstance(child, str | int | float) or child is None:
            yield (*path, key), child


def _listed_labels(items: Sequence[Any], path: Field) -> Iterator[tuple[Field, Any]]:
    """Labels in a list: by the field ``name``, or, of answers without names, in order."""
    for place, item in enumerate(items):
        if isinstance(item, Mapping):
            if isinstance(item.get("name"), str):
                yield (*path, item["name"]), _inner_label(item)
        elif isinstance(item, str | int | float):
            yield (*path, position_name(place)), item


def value_at(record: Any, field: Field, question: str) -> Any:
    """Value of a field of a record; None where it has none."""
    value = record
    for key in field:
        name = question if key == THE_QUESTION else key
        value = _child(value, name)
        if value is None:
            return None
    if isinstance(value, Mapping):
        return _inner_label(value)
    return value


def _child(value: Any, name: str) -> Any:
    """Item of an object, or of a list: by its field ``name``, or its position."""
    if isinstance(value, Mapping):
        return value.get(name)
    if isinstance(value, list):
        for place, item in enumerate(value):
            if isinstance(item, Mapping):
                if item.get("name") == name:
                    return item
            elif name == position_name(place):
                return item
    return None


def _inner_label(value: Mapping[str, Any]) -> Any:
    """Label of an object such as ``{"value": "billing", "by": "anna"}``."""
    for key in ("value", "label", "choice", "option", "answer", *NAMES_OF_LABELS):
        inner = value.get(key)
        if isinstance(inner, str | int | float):
            return inner
    return None


# ---- labels among options


def option_of(label: Any, answer: Answer, *, by_index: bool = False) -> int | None:
    """Place of a label among the options of an answer; None where it is none of them.

    Yes/no: truths, 0 and 1, and words. A choice: the text of an option, else with
    ``by_index`` its place from 0. A score: the text or the number of a level.
    """
    text = text_of_option(label).strip()
    if answer.type == YES_NO:
        return _yes_or_no(text, answer.options)
    if not by_index:
        if text in answer.options:
            return answer.options.index(text)
        if answer.legend and text in answer.legend:
            return answer.legend.index(text)
        lowered = [option.strip().lower() for option in answer.options]
        if lowered.count(text.lower()) == 1:
            return lowered.index(text.lower())
        return None
    if not re.fullmatch("[0-9]{1,6}", text) or int(text) >= len(answer.options):
        return None
    if answer.type != "score":
        return int(text)
    levels = sorted(answer.options, key=level_key)
    return answer.options.index(levels[int(text)])


def _yes_or_no(text: str, options: Sequence[str]) -> int | None:
    """Place of yes or no, or of 1 or 0, among two options."""
    yes = yes_place(options)
    if yes is None:
        return None
    word = text.lower()
    if word == "1" or word in NAMES_OF_YES:
        return yes
    return 1 - yes if word == "0" or word in NAMES_OF_NO else None


@dataclass
class Fit:
    """How well the values of a field are labels of a question.

    n : values. n_texts, n_indices : of these that are the text of an option, or an
    index. n_ambiguous : whole numbers that are both, of two different options.
    n_predicted : values that are the option with the largest probability.
    example : a value that is none of the options.
    """

    n: int = 0
    n_texts: int = 0
    n_indices: int = 0
    n_ambiguous: int = 0
    n_predicted: int = 0
    example: Any = None

    def add(self, value: Any, answer: Answer) -> None:
        """Take one value into account."""
        self.n += 1
        by_text = option_of(value, answer)
        by_index = option_of(value, answer, by_index=True)
        self.n_texts += by_text is not None
        self.n_indices += by_index is not None
        is_both = by_text is not None and by_index is not None
        if is_both and by_text != by_index and not isinstance(value, str):
            self.n_ambiguous += 1
        if by_text is None and by_index is None and self.example is None:
            self.example = value
        place = by_index if by_text is None else by_text
        if place is not None:
            largest = max(answer.probabilities)
            self.n_predicted += answer.probabilities[place] == largest

    @property
    def n_fitting(self) -> int:
        return max(self.n_texts, self.n_indices)

    @property
    def is_whole(self) -> bool:
        return self.n > 0 and self.n_fitting == self.n

    @property
    def is_prediction(self) -> bool:
        return self.n >= FEWEST_VALUES and self.n_predicted == self.n

    @property
    def is_ambiguous(self) -> bool:
        """True for whole numbers that are texts of options, and as well indices."""
        return self.n_ambiguous > 0 and self.n_texts == self.n_indices == self.n

    @property
    def by_index(self) -> bool:
        """True where more values are indices than texts of options."""
        return self.n_texts < self.n_indices


@dataclass
class LabelSearch:
    """Evidence of all records for the labels of each question.

    wanted : names of labels that the user gave.
    """

    wanted: Sequence[str] = ()
    fits: dict[str, dict[Field, Fit]] = field(default_factory=dict)

    def add(
        self,
        fields: Mapping[Field, Any],
        answers: Sequence[Answer],
        name_of: Callable[[Answer], str],
    ) -> None:
        """Take the fields of one record into account."""
        is_alone = len(answers) == 1
        for answer in answers[:MOST_QUESTIONS_LOOKED_AT]:
            question = name_of(answer)
            fits = self.fits.setdefault(question, {})
            for path, value in fields.items():
                if value is None:
                    continue
                # a field called "answer" does not name the question without a name
                names_question = question in path and path != (ONLY,)
                is_listed = is_position_name(path[-1])
                if not names_question and (is_listed or not is_alone):
                    continue
                general = path
                if names_question:
                    general = _with(path, question, THE_QUESTION)
                fits.setdefault(general, Fit()).add(value, answer)

    def label_field(self, question: str) -> Field | None:
        """The field of the labels of a question; None where there is none.

        Raises DataError where several fit.
        """
        if self.wanted:
            return _wanted_field(self.fits.get(question, {}), self.wanted)
        fits: dict[Field, Fit] = {}
        for path, fit in self.fits.get(question, {}).items():
            if not _is_no_label(path):
                fits[path] = fit
        named = [path for path in fits if _has_label_word(path)]
        named.sort(key=_rank)
        for path in named:
            if fits[path].n_fitting > 0:
                return path
        if named:
            return named[0]
        proven = []
        for path, fit in fits.items():
            if fit.is_whole and not fit.is_prediction and _may_be_label(path):
                proven.append(path)
        if len(proven) > 1:
            listing = ", ".join(map(shown, proven))
            first = shown(proven[0])
            raise DataError(
                f"question {question!r}: the labels may be {listing}; name them with"
                f" --labels {first}"
            )
        return proven[0] if proven else None

    def possible_field(self) -> Field | None:
        """The only field, of any name but those of measures, that may hold labels.

        All its values are options, and in some rows not the likeliest one. None where
        there is no such field, or several.
        """
        possible: set[Field] = set()
        for fits in self.fits.values():
            for path, fit in fits.items():
                is_measure = path[-1].lower() in OTHER_WORDS
                if not is_measure and fit.is_whole and fit.n_predicted < fit.n:
                    possible.add(path)
        return possible.pop() if len(possible) == 1 else None


def _is_no_label(path: Field) -> bool:
    """True for a field that is a prediction, a number of a repeat, or a confidence."""
    last = path[-1]
    if any(map(is_label_word, path)):
        return False
    return is_prediction_word(last) or last.lower() in OTHER_WORDS


def _has_label_word(path: Field) -> bool:
    return any(map(is_label_word, path))


def _rank(path: Field) -> tuple[bool, int, int]:
    """Fields of the question first, then short ones, then the usual names first."""
    words = [part.lower() for part in path if is_label_word(part)]
    place = NAMES_OF_LABELS.index(words[0])
    return THE_QUESTION not in path, len(path), place


def _may_be_label(path: Field) -> bool:
    return path[-1] not in ("type", "primitive", "id", "ids", "name", "model")


def _wanted_field(fits: Mapping[Field, Fit], wanted: Sequence[str]) -> Field | None:
    for path in fits:
        plain = [part for part in path if part != THE_QUESTION]
        if shown(path) in wanted or SEPARATOR.join(plain) in wanted:
            return path
    return None
