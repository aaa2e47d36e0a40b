"""Pairs of opposite words, of which one means class 1 or a right answer."""

from collections.abc import Iterable, Sequence

from calcli.importers.names.common_text import texts_around

GRADES = ("incorrect", "correct"), ("wrong", "right")

OPPOSITES = (
    *(("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("neg", "pos")),
    *(("negative", "positive"), ("benign", "malignant"), ("ham", "spam")),
    *(("normal", "abnormal"), ("control", "case"), ("0", "1"), ("-1", "1")),
    *(*GRADES, ("i", "c")),
)
"""Unambiguous pairs of words for class 0 and class 1, lower case."""

OUTCOMES = (
    *(("miss", "hit"), ("fail", "pass"), ("failed", "passed"), ("failure", "success")),
    *(("fail", "success"), ("loss", "win"), ("lost", "won"), ("ko", "ok")),
    *(("mismatch", "match"), ("error", "ok")),
)
"""Pairs of words for a wrong and a right answer, lower case, beside ``OPPOSITES``."""

NEGATIONS = frozenset({"not", "non", "no"})
"""Words that turn the meaning of a name: ``p_not_cat``."""


def in_order_of_pair(
    words: Iterable[str], pairs: Iterable[tuple[str, str]] = OPPOSITES
) -> list[str] | None:
    """Two words, in any case, in the order of the pair that they are; None for others."""
    by_lower = {word.lower(): word for word in words}
    for pair in pairs:
        if set(pair) == by_lower.keys():
            return [by_lower[word] for word in pair]
    return None


def opposite_words(names: Sequence[str]) -> tuple[str, str] | None:
    """The opposite words, in lower case, in which two names differ; None for others.

    ``no`` and ``yes`` of ``score_no, score_yes``. Single letters and numbers only alone.
    """
    if len(names) != 2:
        return None
    first, second = names[0].lower(), names[1].lower()
    for pair in OPPOSITES:
        for word, opposite in (pair, pair[::-1]):
            if (first, second) == (word, opposite):
                return word, opposite
            if len(word) < 2 or not (word.isalpha() and opposite.isalpha()):
                continue
            for text in texts_around(word, [first]):
                is_part = _ends_in_letter(text.before) or text.after[:1].isalpha()
                if text.around(opposite) == second and not is_part:
                    return word, opposite
    return None


def _ends_in_letter(text: str) -> bool:
    return text[-1:].isalpha()
