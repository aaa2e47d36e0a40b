"""Rows that are JSON objects: their distributions over classes, in one form and order.

Programs write the scores of named classes as an object (``{"cat": 0.9, "dog": 0.1}``),
as a list of pairs (``[{"label": "cat", "score": 0.9}, …]``), or as two lists
(``{"classes": ["cat", "dog"], "scores": [0.9, 0.1]}``). All become objects with the
classes in the same order in every row.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from math import exp, sqrt
from string import ascii_uppercase
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.arranging.ranks import spread
from calcli.importers.arranging.token_classes import ABOVE_ZERO, by_token, of_classes
from calcli.importers.arranging.token_confidences import token_rows
from calcli.importers.evidence.label_evidence import LIKELY
from calcli.importers.import_request import ImportRequest
from calcli.importers.json_columns import columns_of_records, kind_of_cell
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.roles import is_answer
from calcli.importers.remarks import remark
from calcli.importers.table import Record, Table
from calcli.io.locate import natural
from calcli.items import index_of_each, picked
from calcli.rounding import SUM_TOLERANCE

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

LETTERS = frozenset(ascii_uppercase)
"""Names of options that answers are usually called by."""

NEARLY_ALL = 0.98
"""Proportion of rows with the largest score in one place from which they are sorted."""

Rows = Sequence[Record]
Distribution = dict[str, float]


class Ranks(Distribution):
    """A distribution that was written as lists, which may name some classes only."""


def with_columns(table: Table, request: ImportRequest) -> Table:
    """Make the columns of a table of records.

    Raises UsageError and DataError where it is unclear which classes there are.
    """
    where = str(table.file)
    rows = [_flat_row(row) for row in table.records]
    classes_of_tokens(rows, request, where)
    rows = token_rows(rows, request, where)
    in_one_order(rows, request, where)
    columns = columns_of_records(table.file, rows)
    return replace(table, columns=columns, n_rows=len(rows), records=())


# ---- one form of distributions


def _flat_row(row: Record, parent: str = "") -> dict[str, Any]:
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
            made |= _flat_row(cell, f"{name}.")
        else:
            made[name] = vector
    return made


def _is_whole(name: str, cell: Mapping[str, Any]) -> bool:
    """True for a distribution, and for log-probabilities of any tokens."""
    if isinstance(cell, Ranks) or _is_distribution(cell):
        return True
    return parse_name(name).kind == "log_probs" and _are_logprobs(cell)


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


# ---- one order of classes


def in_one_order(
    rows: list[dict[str, Any]], request: ImportRequest, where: str
) -> None:
    """Bring the classes of every distribution to the same order in every row, in place.

    That is the order of the first row if all rows have it, else that of
    ``class_order``. Where rows list some classes only, the others share the rest if
    ``--class-names`` names all; otherwise the ranks stay lists.
    """
    for key in list(rows[0]):
        cells = [row.get(key) for row in rows]
        if all(map(_is_distribution, cells)):
            _order_cells(rows, key, request, where)


def _is_distribution(cell: Any) -> bool:
    """True for an object of numbers by the names of classes."""
    if not isinstance(cell, Mapping) or len(cell) < 2:
        return False
    if any(parse_name(str(name)).role for name in cell):
        return False
    return _are_numbers(cell.values())


def _are_numbers(values: Iterable[Any]) -> bool:
    """True for JSON numbers only; true and false are none."""
    return set(map(kind_of_cell, values)) == {"number"}


def _order_cells(
    rows: list[dict[str, Any]], key: str, request: ImportRequest, where: str
) -> None:
    """Bring the distributions of one key to the same order, in place."""
    orders = {tuple(row[key]) for row in rows}
    if len(orders) == 1:
        return
    classes = set(chain(*orders))
    fewest = min(map(len, orders))
    if fewest == len(classes):
        _name_labels_that_are_places(rows, key, request, where)
        names = class_order(classes, rows, request, f"{where}: {key!r}")
        for row in rows:
            row[key] = picked(row[key], names)
        return
    if not isinstance(rows[0][key], Ranks):
        return
    if classes <= set(request.class_names):
        _spread_cells(rows, key, request.class_names, where)
        return
    for row in rows:  # ranks, of which --classes makes distributions
        cell = row.pop(key)
        row[key] = list(cell.values())
        row["class_name"] = list(cell)


def _name_labels_that_are_places(
    rows: list[dict[str, Any]], key: str, request: ImportRequest, where: str
) -> None:
    """Replace labels that are places in the list of their row by options, in place.

    They are where they agree with the largest score far more often than places in any
    one order of all rows do. ``--class-names`` tells the order instead.
    """
    if request.class_names:
        return
    distributions = [row[key] for row in rows]
    for name in _label_keys(rows[0], request):
        labels = [row[name] for row in rows if type(row.get(name)) is int]
        if len(labels) < len(rows) or not _are_places(labels, distributions):
            continue
        for row, label in zip(rows, labels, strict=True):
            row[name] = list(row[key])[label]
        remark(f"{where}: {name!r} are places in {key!r} of the row, counted from 0")


def _are_places(labels: Sequence[int], distributions: Sequence[Distribution]) -> bool:
    """True if labels agree as places in the list of their row, and in no one order."""
    classes = list(distributions[0])
    if min(labels) < 0 or max(labels) >= len(classes):
        return False
    likeliest = []
    places = []
    for distribution in distributions:
        option = max(distribution, key=distribution.__getitem__)
        likeliest.append(option)
        places.append(list(distribution).index(option))
    if max(Counter(places).values()) >= NEARLY_ALL * len(places):
        return False  # rows are sorted by score: the label says whether it is right
    n_by_place = int(np.count_nonzero(np.equal(places, labels)))
    n_by_name = _most_in_one_order(likeliest, labels, classes)
    return n_by_place - n_by_name > LIKELY * sqrt(n_by_place + n_by_name)


def _most_in_one_order(
    options: Sequence[str], labels: Sequence[int], classes: Sequence[str]
) -> int:
    """Rows whose label is the place of their option: more than in any one order.

    Every option has the place that most of its labels name; two may have the same.
    """
    n_of_pair = Counter(zip(options, labels, strict=True))
    most = 0
    for option in classes:
        most += max(n_of_pair[option, place] for place in range(len(classes)))
    return most


def _spread_cells(
    rows: list[dict[str, Any]], key: str, names: Sequence[str], where: str
) -> None:
    """Give the classes that rows do not list an even share of the rest, in place."""
    index_of = index_of_each(names)
    for number, row in enumerate(rows):
        listed: Distribution = row[key]
        index = np.array([[index_of[name] for name in listed]])
        p = np.array([list(listed.values())], dtype=np.float64)
        probs = spread(p, index, len(names), f"{where}: {key!r} of row {number}")
        row[key] = dict(zip(names, probs[0].tolist(), strict=True))
    remark(
        f"{where}: {key!r}: classes that a row does not list share what the others"
        " leave"
    )


def class_order(
    classes: Collection[str], rows: Rows, request: ImportRequest, where: str
) -> list[str]:
    """Order of classes that rows list in different orders.

    It is that of ``--class-names``, else sorted by name. Raises DataError if labels are
    numbers in the latter case, unless all names end in numbers.
    """
    if set(request.class_names) == set(classes):
        return list(request.class_names)
    names = sorted(classes, key=natural)
    are_numbered = all(re.search(r"\d$", name) for name in names)
    has_numbers = any(isinstance(label, int) for label in _labels_in(rows, request))
    if has_numbers and not are_numbered:
        listing = ",".join(names) if len(names) < 9 else "A,B,…"
        raise DataError(
            f"{where} has its classes in another order in every row, and the labels are"
            " numbers: write the class itself if they count the list of their row, else"
            f" name the classes in order: --class-names {listing}"
        )
    return names


def _labels_in(rows: Rows, request: ImportRequest) -> list[Any]:
    labels = []
    for row in rows:
        labels += [row[key] for key in _label_keys(row, request)]
    return labels


def _label_keys(row: Record, request: ImportRequest) -> list[str]:
    """Keys of labels: by the options, by their names, or those of right answers."""
    keys = []
    for key in row:
        is_label = parse_name(key).role == "labels" or is_answer(key)
        if key in request.labels or (is_label and not request.labels):
            keys.append(key)
    return keys


# ---- log-probabilities of the top tokens of an answer


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
        if parse_name(key).kind != "log_probs" or not all(map(_are_logprobs, cells)):
            continue
        listed = [_floats_of(cell) for cell in cells]
        if not _are_normalised(listed) or _has_other_tokens(rows, listed, request):
            _normalise(rows, key, listed, request, where)


def _are_logprobs(cell: Any) -> bool:
    """True for an object of numbers that may be logarithms of probabilities."""
    if not isinstance(cell, Mapping) or not _are_numbers(cell.values()):
        return False
    return not any(value > ABOVE_ZERO for value in cell.values())


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
    return {str(label).strip() for label in _labels_in(rows, request)}


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
