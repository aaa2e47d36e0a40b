"""Distributions over classes in cells of JSON, in one form: objects of numbers by class.

Programs write the scores of named classes as an object (``{"cat": 0.9, "dog": 0.1}``),
as a list of pairs (``[{"label": "cat", "score": 0.9}, …]``), or as two lists
(``{"classes": ["cat", "dog"], "scores": [0.9, 0.1]}``).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calcli.importers.arranging.token_classes import ABOVE_ZERO
from calcli.importers.json_columns import kind_of_cell
from calcli.importers.names.array_names import parse_name
from calcli.importers.table import Record

WORD_KEYS = frozenset(
    {
        *("label", "class", "name", "value", "displayname", "category"),
        *("class_name", "label_name", "display_name", "intent", "tag"),
        *("option", "choice"),
    }
)

NUMBER_KEYS = frozenset({"score", "prob", "proba", "probability", "confidence", "p"})

OTHER_KEYS = frozenset({"id", "index", "rank", "annotationspecid"})
"""Keys of an object with the name of a class and its score, in lower case."""

VECTOR_KEYS = frozenset({"type", "values"})

SPARSE_KEYS = frozenset({"size", "indices"})
"""Keys of a vector of Spark, and of one that lists its values other than 0."""

MOST_IN_VECTOR = 1_000_000
"""Classes of a vector, so that a wrong size takes no memory."""

WORD_LISTS = ("classes", "labels", "displayNames", "class_names", "names", "options")

NUMBER_LISTS = ("scores", "confidences", "probabilities", "probs", "logprobs")
"""Keys of two lists of equal length: the classes and their scores."""


Distribution = dict[str, float]


class Ranks(Distribution):
    """A distribution that was written as lists, which may name some classes only."""


def flat_row(row: Record, parent: str = "") -> dict[str, Any]:
    """A row with every distribution as an object, inner fields under dotted names.

    Lists of pairs are outputs of a softmax, whatever their key is: the first is called
    probs.
    """
    made: dict[str, Any] = {}
    plain = _without_two_lists(row)
    for key, cell in plain.items():
        name = f"{parent}{key}"
        if isinstance(cell, list):
            tokens = logprobs_of_tokens(cell)
            if tokens is not None:
                says_kind = parse_name(name).kind != ""
                made[name if says_kind else "logprobs"] = tokens
                continue
            pairs = distribution_of_pairs(cell)
            if pairs is None:
                made[name] = cell
                continue
            may_be_renamed = not parent and "probs" not in plain
            made["probs" if may_be_renamed else name] = pairs
            continue
        if not isinstance(cell, Mapping) or _is_whole(name, cell):
            made[name] = cell
            continue
        vector = dense_vector(cell)
        if vector is None:
            made |= flat_row(cell, f"{name}.")
        else:
            made[name] = vector
    return made


def _is_whole(name: str, cell: Mapping[str, Any]) -> bool:
    """True for a distribution, and for log-probabilities of any tokens."""
    if isinstance(cell, Ranks) or is_distribution(cell):
        return True
    return parse_name(name).kind == "log_probs" and are_logprobs(cell)


def dense_vector(cell: Mapping[str, Any]) -> list[float] | None:
    """Numbers of a vector of Spark ML; None for any other object.

    ``{"type": 1, "values": [0.1, 0.9]}`` is dense; of type 0, ``size`` and ``indices``
    say where the values stand among zeros.
    """
    if not VECTOR_KEYS <= cell.keys() <= VECTOR_KEYS | SPARSE_KEYS:
        return None
    values = cell["values"]
    if not isinstance(values, list):
        return None
    if cell["type"] == 1:
        return values
    size, indices = cell.get("size"), cell.get("indices")
    if cell["type"] != 0 or not isinstance(indices, list):
        return None
    if not isinstance(size, int) or not 0 < size <= MOST_IN_VECTOR:
        return None
    if len(indices) != len(values):
        return None
    vector = [0.0] * size
    for index, value in zip(indices, values, strict=True):
        if not isinstance(index, int) or not 0 <= index < size:
            return None
        vector[index] = value
    return vector


def logprobs_of_tokens(items: Sequence[Any]) -> Distribution | None:
    """Log-probabilities by token of ``[{"token": " A", "logprob": -0.1}, …]``.

    None for any other list.
    """
    tokens: Distribution = {}
    for item in items:
        if not isinstance(item, Mapping):
            return None
        token: Any = item.get("token")
        number: Any = item.get("logprob")
        if not isinstance(token, str) or kind_of_cell(number) != "number":
            return None
        tokens.setdefault(token, float(number))
    return tokens or None


def distribution_of_pairs(items: Sequence[Any]) -> Distribution | None:
    """Scores by class of ``[{"label": …, "score": …}, …]`` or ``[["cat", 0.9], …]``.

    None for any other list.
    """
    distribution = Ranks()
    for item in items:
        pair = _pair(item)
        if pair is None or pair[0] in distribution:
            return None
        distribution[pair[0]] = pair[1]
    return distribution or None


def _pair(item: Any) -> tuple[str, float] | None:
    """(class, score) of an item of a list; None for anything else."""
    word: Any = None
    number: Any = None
    if isinstance(item, list) and len(item) == 2:
        word, number = item
    elif isinstance(item, dict):
        words = []
        numbers = []
        for key, value in _unwrapped(item).items():
            if key in WORD_KEYS:
                words.append(value)
            elif key in NUMBER_KEYS:
                numbers.append(value)
            elif key not in OTHER_KEYS:
                return None
        if len(numbers) != 1 or not words:
            return None
        word, number = words[0], numbers[0]
        if isinstance(word, int):
            word = str(word)
    return (word, number) if _is_pair(word, number) else None


def _unwrapped(item: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by their names in lower case, those of an object of one in its place:
    ``{"displayName": …, "classification": {"score": …}}``.
    """
    fields: dict[str, Any] = {}
    for key, value in item.items():
        if isinstance(value, dict) and len(value) == 1:
            (key, value), *_ = value.items()
        fields[key.lower()] = value
    return fields


def _is_pair(word: Any, number: Any) -> bool:
    return isinstance(word, str) and kind_of_cell(number) == "number"


def _without_two_lists(row: Record) -> dict[str, Any]:
    """A row with its two lists, of classes and of scores, as one object."""
    made = dict(row)
    for words_key in WORD_LISTS:
        if words_key not in row:
            continue
        for numbers_key in NUMBER_LISTS:
            words: Any = row[words_key]
            numbers: Any = row.get(numbers_key)
            if _belong_together(words, numbers):
                del made[words_key]
                made[numbers_key] = Ranks(zip(words, numbers, strict=True))
                return made
    return made


def _belong_together(words: Any, numbers: Any) -> bool:
    if not isinstance(words, list) or not isinstance(numbers, list):
        return False
    if len(words) != len(numbers) or len(words) < 2 or len(set(words)) < len(words):
        return False
    return all(map(_is_pair, words, numbers))


def is_distribution(cell: Any) -> bool:
    """True for an object of numbers by the names of classes."""
    if not isinstance(cell, Mapping) or len(cell) < 2:
        return False
    if any(parse_name(str(name)).role for name in cell):
        return False
    return are_numbers(cell.values())


def are_numbers(values: Iterable[Any]) -> bool:
    """True for JSON numbers only; true and false are none."""
    return set(map(kind_of_cell, values)) == {"number"}


def are_logprobs(cell: Any) -> bool:
    """True for an object of numbers that may be logarithms of probabilities."""
    if not isinstance(cell, Mapping) or not are_numbers(cell.values()):
        return False
    return not any(value > ABOVE_ZERO for value in cell.values())
