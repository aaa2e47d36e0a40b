"""Log-probabilities of classes from those of the top tokens of an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

from calcli.items import index_of_each
from calcli.numerics import FloatArray

ABOVE_ZERO = 1e-6
"""Rounding by which a log-probability may exceed 0."""

UNLIKELY = -9999.0
"""Written by servers for a token without a known log-probability."""

BLANKS = " \t\r\n\u0120\u2581"
"""White space, with the signs of tokenizers for a leading space."""


@dataclass(frozen=True)
class ClassLogProbs:
    """Log-probabilities (k,) of classes, and how many of these no token lists."""

    log_probs: FloatArray
    n_unlisted: int


def bare(token: str) -> str:
    """A token without white space."""
    return token.strip(BLANKS)


def by_token(names: Sequence[str]) -> dict[str, int]:
    """Class index by token, also in lower, upper and title case where unambiguous."""
    tokens = list(map(bare, names))
    index = index_of_each(tokens)
    for change_case in (str.lower, str.upper, str.capitalize):
        forms = list(map(change_case, tokens))
        for place, form in enumerate(forms):
            if forms.count(form) == 1:
                index.setdefault(form, place)
    return index


def of_classes(
    top: Mapping[str, float], index: Mapping[str, int], k: int
) -> ClassLogProbs:
    """Log-probabilities of classes from the listed tokens, summed within a class.

    index : class by token (see ``by_token``). An unlisted class gets its upper bound:
    the smaller of the least listed probability and of the remaining mass. If no class
    is listed, all are -inf.
    """
    log_probs = np.full(k, -np.inf)
    known = {token: min(lp, 0.0) for token, lp in top.items() if lp > UNLIKELY}
    for token, log_prob in known.items():
        place = index.get(bare(token))
        if place is not None:
            log_probs[place] = np.logaddexp(log_probs[place], log_prob)
    is_unlisted = np.isneginf(log_probs)
    if is_unlisted.any() and not is_unlisted.all():
        rest = 1.0 - sum(map(exp, known.values()))
        log_rest = log(rest) if rest > 0 else 0.0
        log_probs[is_unlisted] = min(min(known.values()), log_rest)
    return ClassLogProbs(log_probs, int(is_unlisted.sum()))
