"""Which choice of a question is right: by its index, its text or its letter.

A log may be read by several rules. The one that all questions follow, and with which
what the log says of its own answers agrees, is taken.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from string import ascii_uppercase
from typing import Any, TypeVar

import numpy as np

from calcli.errors import DataError
from calcli.importers.harness_logs.questions import Floats, Question, shown
from calcli.numerics import whole_number

T = TypeVar("T")

COUNTED_FROM_1 = "the doc's answer, counted from 1"
"""Rule by which a log is read only where no rule of the target agrees with it."""


@dataclass(frozen=True)
class Gold:
    """Gold choices of all questions, and the rule by which they were read."""

    rule: str
    choices: list[int]


def choices_of_target(target: Any, texts: Sequence[str]) -> dict[str, int]:
    """The choice that a target names by each rule that applies, the usual rules first.

    texts : of the choices. An index may be none of a choice.
    """
    choices = {}
    index = _index(target)
    if index is not None:
        choices["the target as an index"] = index
    text = str(target).strip()
    bare_texts = list(map(str.strip, texts))
    if bare_texts.count(text) == 1:
        choices["the choice whose text is the target"] = bare_texts.index(text)
    if re.fullmatch("[A-Z]", text):
        choices["the target's letter"] = ascii_uppercase.index(text)
    return choices


def choices_of_doc(doc: Any) -> dict[str, int]:
    """The choice that the answer in a doc names, as choices_of_target; often none."""
    answer = None
    if isinstance(doc, dict):
        answer = whole_number(str(doc.get("answer")))
    return {} if answer is None else {COUNTED_FROM_1: answer - 1}


def _index(target: Any) -> int | None:
    """A whole number, or the text of one; None for anything else."""
    if isinstance(target, str):
        return whole_number(target)
    is_whole = isinstance(target, int) and not isinstance(target, bool)
    return target if is_whole else None


def only_one(values: Sequence[T], where: str, what: str) -> T:
    """The one value of a list. what : the values, in a message. Raises DataError for
    none or several.
    """
    if len(values) != 1:
        raise DataError(f"{where}: has {len(values)} {what}, expected one")
    return values[0]


def settled_by_log(
    named: str, choices: Sequence[int], likelihoods: Floats, acc: float | None
) -> int:
    """The choice, or of several the one that agrees with the logged acc.

    named : where, and what names the choices. Raises DataError if it does not tell. One
    choice alone is not compared with acc.
    """
    if len(choices) > 1:
        choices = [choice for choice in choices if agrees(likelihoods, choice, acc)]
    if len(choices) == 1:
        return choices[0]
    message = "names no choice"
    if choices:
        message = f"may be choice {' or '.join(map(str, choices))}"
    logged = "" if acc is None else f" (acc {acc})"
    raise DataError(f"{named} {message}{logged}")


# ---- one rule for all questions


def gold_by_one_rule(questions: Sequence[Question]) -> Gold:
    """Gold choices by the first rule that all questions and logged acc agree with.

    Where no rule agrees with acc it is the first that all questions follow. Raises
    DataError where there is none, or where rules that agree give different choices.
    """
    choices_by_rule = list(map(_possible_golds, questions))
    readings = []
    agreeing = []
    for rule in choices_by_rule[0]:
        if not all(rule in choices for choices in choices_by_rule):
            continue
        gold = Gold(rule, list(map(itemgetter(rule), choices_by_rule)))
        readings.append(gold)
        if _agrees_with_log(gold, questions):
            agreeing.append(gold)
    if not readings:
        raise _no_gold(questions, choices_by_rule)
    by_target = [gold for gold in agreeing if gold.rule != COUNTED_FROM_1]
    if any(gold.choices != by_target[0].choices for gold in by_target):
        rules = " or ".join(gold.rule for gold in by_target)
        raise DataError(
            f"{questions[0].where}: the gold may be {rules}, and the logged acc does"
            " not tell"
        )
    return (by_target or agreeing or readings)[0]


def _possible_golds(question: Question) -> dict[str, int]:
    """The gold by each rule that gives one of the choices."""
    possible = {}
    for rule, choice in question.golds.items():
        if 0 <= choice < len(question.choices.likelihoods):
            possible[rule] = choice
    return possible


def _agrees_with_log(gold: Gold, questions: Sequence[Question]) -> bool:
    for question, choice in zip(questions, gold.choices, strict=True):
        if not agrees(question.choices.likelihoods, choice, question.logged.get("acc")):
            return False
    return True


def _no_gold(
    questions: Sequence[Question], choices_by_rule: Sequence[Mapping[str, int]]
) -> DataError:
    """Error about the first question whose target names no choice by the rule that
    applies to most questions.
    """
    times = Counter(chain.from_iterable(choices_by_rule))
    place = 0
    if times:
        commonest = times.most_common(1)[0][0]
        place = [commonest in choices for choices in choices_by_rule].index(False)
    question = questions[place]
    return DataError(
        f"{question.where}: target {shown(question.target)} names no choice; expected"
        f" an index below {len(question.choices.likelihoods)}, or a choice's text"
    )


# ---- what the log says of its own answers


def agrees(scores: Floats, gold: int, right: float | None) -> bool:
    """True if the gold choice agrees with the logged correctness.

    Also true if none was logged. Of tied scores the log may have taken either.
    """
    if right is None:
        return True
    is_largest = scores[gold] == max(scores)
    is_tied = list(scores).count(max(scores)) > 1
    if right == 1:
        return is_largest
    return not is_largest or is_tied


def check_logged(question: Question, scores: Floats, gold: int, measure: str) -> None:
    """Raise DataError for a gold choice that contradicts the log.

    scores : by which the measure was computed.
    """
    right = question.logged.get(measure)
    if right not in (None, 0, 1):
        raise DataError(
            f"{question.where}: {measure} is {right}, expected 0 or 1: several answers"
            " count as right here"
        )
    if not agrees(scores, gold, right):
        best = int(np.argmax(scores))
        raise DataError(
            f"{question.where}: {measure} is {right:g}, but the largest score is"
            f" candidate {best} and the right one {gold}; were they shuffled?"
        )


def check_mark(where: str, named: str, mark: float | None, is_right: bool) -> None:
    """Raise DataError for an answer that its mark in another file contradicts.

    named : the mark. mark : 1 for a right answer; None if there is none.
    """
    if mark is not None and mark != is_right:
        raise DataError(
            f"{where}: {named} {mark:g}, the answer here {is_right:g}; do the files"
            " belong together?"
        )


def agreement_remark(questions: Sequence[Question]) -> str:
    """End of a remark on questions that agree with the acc that was logged of them."""
    if "acc" not in questions[0].logged:
        return ""
    n_logged = sum(question.logged["acc"] is not None for question in questions)
    if n_logged == len(questions):
        return "; acc agrees in every row"
    if n_logged:
        return "; acc agrees where logged"
    return "; no acc was logged to check with"
