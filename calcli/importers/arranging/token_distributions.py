"""Log-probabilities of the top tokens of an answer, as those of classes."""

from collections.abc import Sequence, Set
from itertools import chain
from math import exp
from string import ascii_uppercase
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.arranging.class_order import Rows, labels_in
from calcli.importers.arranging.distributions import Distribution, are_logprobs
from calcli.importers.arranging.token_classes import by_token, of_classes
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import parse_name
from calcli.importers.remarks import remark
from calcli.io.locate import natural
from calcli.rounding import SUM_TOLERANCE

LETTERS = frozenset(ascii_uppercase)
"""Names of options that answers are usually called by."""


def classes_of_tokens(
    rows: list[dict[str, Any]], request: ImportRequest, where: str
) -> None:
    """Convert log-probabilities of top tokens to those of classes, normalised, in place.

    ``{"logprobs": {"A": -0.1, …}}``: the classes are those of ``--class-names``, else
    all that are listed, if every row lists them, or they are the labels or letters of
    the alphabet. Raises UsageError otherwise, DataError for rows without a class.
    """
    for key in list(rows[0]):
        cells = [row.get(key) for row in rows]
        if parse_name(key).kind != "log_probs" or not all(map(are_logprobs, cells)):
            continue
        listed = [_floats_of(cell) for cell in cells]
        if not _are_normalised(listed) or _has_other_tokens(rows, listed, request):
            _normalise(rows, key, listed, request, where)


def _floats_of(cell: Any) -> Distribution:
    return {str(token): float(value) for token, value in cell.items()}


def _are_normalised(listed: Sequence[Distribution]) -> bool:
    """True if every row lists the same tokens, whose probabilities sum to 1."""
    first = listed[0].keys()
    sums = []
    for tokens in listed:
        if tokens.keys() != first:
            return False
        log_probs = np.minimum(list(tokens.values()), 0.0)
        sums.append(np.exp(log_probs).sum())
    return np.allclose(sums, 1, 0, SUM_TOLERANCE)


def _has_other_tokens(
    rows: Rows, listed: Sequence[Distribution], request: ImportRequest
) -> bool:
    """True for tokens that are no letters, where all labels are."""
    labels = _words_of_labels(rows, request)
    if not labels or not labels <= LETTERS:
        return False
    return any(token.strip() not in LETTERS for token in listed[0])


def _words_of_labels(rows: Rows, request: ImportRequest) -> set[str]:
    return {str(label).strip() for label in labels_in(rows, request)}


def _normalise(
    rows: list[dict[str, Any]],
    key: str,
    listed: Sequence[Distribution],
    request: ImportRequest,
    where: str,
) -> None:
    """Replace top tokens by normalised classes, in place, with a remark on the rest."""
    labels = _words_of_labels(rows, request)
    names = request.class_names or _classes_listed(listed, labels, f"{where}: {key!r}")
    index = by_token(names)
    n_unlisted = 0
    other_mass = 0.0
    for row, tokens in zip(rows, listed, strict=True):
        classes = of_classes(tokens, index, len(names))
        if classes.n_unlisted == len(names):
            raise DataError(
                f"{where}: {key!r} of a row lists none of {', '.join(names)}, but"
                f" {', '.join(tokens)}"
            )
        norm = float(np.logaddexp.reduce(classes.log_probs))
        values = (classes.log_probs - norm).tolist()
        row[key] = dict(zip(names, values, strict=True))
        n_unlisted += classes.n_unlisted
        other_mass += max(1.0 - exp(norm), 0.0)
    share = other_mass / len(rows)
    listing = ", ".join(list(names)[:6])
    if len(names) > 6:
        listing += ", …"
    message = (
        f"{where}: {key!r} sums to less than 1: {share:.2%} on average is of other"
        f" tokens and was left out, and the classes {listing} divided by their sum"
    )
    if n_unlisted:
        message += (
            f"; {n_unlisted} times a class was not listed and got its upper bound"
        )
    remark(message)


def _classes_listed(
    listed: Sequence[Distribution], labels: Set[str], where: str
) -> list[str]:
    """Classes among the tokens. Raises UsageError where these are unclear."""
    names_of_rows = []
    for tokens in listed:
        names_of_rows.append(list(dict.fromkeys(map(str.strip, tokens))))
    every = sorted(set(chain(*names_of_rows)), key=natural)
    in_all_rows = set(every).intersection(*names_of_rows)
    letters = [name for name in every if name in LETTERS]
    are_labels_letters = bool(labels) and labels <= set(letters)
    if len(letters) > 1 and are_labels_letters and in_all_rows.issuperset(letters):
        return letters
    if len(in_all_rows) == len(every):
        return names_of_rows[0]
    are_letters = len(letters) == len(every)
    if labels <= set(every) and (labels == set(every) or are_letters):
        return every
    no_labels = [name for name in every if name not in labels]
    odd_name = (no_labels or every)[0]
    raise UsageError(
        f"{where} lists {odd_name!r} and others in some rows only;"
        " which are the classes? --class-names A,B,…"
    )
