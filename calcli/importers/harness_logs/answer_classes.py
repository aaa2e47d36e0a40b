"""Classes that the answers of a log name, where no option says them."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calcli.errors import DataError, SaysHow
from calcli.importers.arranging.token_classes import bare, by_token
from calcli.importers.harness_logs.token_answers import Answer, no_log_probabilities
from calcli.importers.import_request import TO_SUPPLY, ImportRequest
from calcli.io.locate import natural
from calcli.items import present

MOST_CLASSES = 26
"""Distinct answers above this are texts, not classes."""

NEARLY_ALL = 0.98
"""Proportion of the answers that name a class, where these are the classes."""

OWN_LABELS = 0.9
"""Proportion of the answers whose tokens list their own label, where labels are tokens."""


@dataclass(frozen=True)
class Guess:
    """What the answers of a log say of themselves.

    classes : that they name, none of free texts. label : column of right answers beside
    them, "" without one. are_proven : every answer has a label, whose token it lists.
    """

    classes: tuple[str, ...]
    label: str
    are_proven: bool


def with_classes(
    path: Path, answers: Sequence[Answer], request: ImportRequest
) -> ImportRequest:
    """The request, with the classes that labels and answers prove.

    Raises DataError, with what to type, where they do not.
    """
    if not any(answer.positions for answer in answers):
        raise no_log_probabilities(path, ", top_logprobs=20")
    guess = guess_of(answers)
    if guess.are_proven and not request.gold:
        return replace(request, class_names=guess.classes)
    raise _unsaid(path, answers, guess, request)


def guess_of(answers: Sequence[Answer]) -> Guess:
    """Guess at the classes, by the labels and by the answers of one word."""
    label = _label_column(answers)
    labels = [str(answer.more.get(label, "")).strip() for answer in answers]
    listed = list(map(_listed, answers))
    are_tokens = _are_tokens(labels, listed)
    classes = _classes(labels if are_tokens else [], answers)
    if not 2 <= len(classes) <= MOST_CLASSES or not _are_named(classes, answers):
        return Guess((), label, False)
    are_proven = are_tokens and all(labels)
    # a class that is a token of no answer may be a slip in its label
    tokens_of_all = set().union(*listed)
    for name in classes:
        are_proven = are_proven and _is_among(tokens_of_all, name)
    return Guess(classes, label, are_proven)


def _label_column(answers: Sequence[Answer]) -> str:
    """The first column of right answers beside the answers; "" without one."""
    for answer in answers:
        for column in answer.more:
            return column
    return ""


def _classes(labels: Sequence[str], answers: Sequence[Answer]) -> tuple[str, ...]:
    """Distinct labels, and words if nearly all answers are one, in natural order."""
    words = present(map(_word_of, answers))
    if len(words) < NEARLY_ALL * len(answers):
        words = []
    return _distinct(filter(None, labels), words)


def _are_named(classes: Sequence[str], answers: Sequence[Answer]) -> bool:
    """True if nearly all answers name one of the classes."""
    index = by_token(classes)
    n_naming = sum(_names(answer, index) for answer in answers)
    return n_naming >= NEARLY_ALL * len(answers)


def _are_tokens(labels: Sequence[str], listed: Sequence[set[str]]) -> bool:
    """True if nearly all answers that have a label list its token."""
    n_labelled = 0
    n_listing = 0
    for label, tokens in zip(labels, listed, strict=True):
        if label:
            n_labelled += 1
            n_listing += _is_among(tokens, label)
    return n_labelled > 0 and n_listing >= OWN_LABELS * n_labelled


def _is_among(tokens: set[str], name: str) -> bool:
    """True if one of the tokens stands for a class of this name."""
    return not tokens.isdisjoint(by_token([name]))


def _listed(answer: Answer) -> set[str]:
    """The likeliest tokens at all positions of an answer."""
    tokens: set[str] = set()
    for position in answer.positions:
        tokens.update(map(bare, position.top))
    return tokens


def _names(answer: Answer, index: Mapping[str, int]) -> bool:
    """True if a token of the answer is a class."""
    return any(bare(position.token) in index for position in answer.positions)


def _word_of(answer: Answer) -> str | None:
    """The answer where it is one token; None for longer ones."""
    word = bare(answer.text)
    if not word or not answer.positions:
        return None
    return word if bare(answer.positions[0].token) == word else None


def _distinct(labels: Iterable[str], words: Sequence[str]) -> tuple[str, ...]:
    """Distinct words in natural order, labels and words that differ in case as one.

    It is spelt as the labels are, and as most words are.
    """
    spelt: dict[str, str] = {}
    for texts in (labels, words):
        for text, _ in Counter(texts).most_common():
            spelt.setdefault(text.lower(), text)
    return tuple(sorted(spelt.values(), key=natural))


def _listing(classes: Sequence[str]) -> str:
    shown = ", ".join(classes[:8])
    left = len(classes) - 8
    return f"{shown} and {left} more" if left > 0 else shown


def _unsaid(
    path: Path, answers: Sequence[Answer], guess: Guess, request: ImportRequest
) -> DataError:
    """Error about a log of which nothing says how it is read, with what to type."""
    options = [("--confidence", "confidence")]
    options.append(("--correct", f"answer={guess.label or 'gold'}"))
    what = "free texts"
    if guess.classes:
        options = [("--class-names", ",".join(guess.classes))]
        what = _listing(guess.classes)
    problem = SaysHow(f"{path}: holds OpenAI responses whose answers are {what}")
    if guess.label or request.gold:
        return problem.advising(request.command(str(path), options))
    if request.no_labels and guess.classes:
        options.append(("--labels", "none"))
        return problem.advising(request.command(str(path), options))
    have_ids = all(answer.id is not None for answer in answers)
    columns = "columns id and label" if have_ids else "a column label, in this order"
    options.append(("--gold", TO_SUPPLY))
    command = request.command(str(path), options)
    more = f", without right answers; with these in {TO_SUPPLY} ({columns}): "
    return problem.advising(more=more + shlex.join(command))
