"""One order of the classes for distributions that every row lists in its own."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain
from math import sqrt
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.distributions import (
    Distribution,
    Ranks,
    is_distribution,
)
from calcli.importers.arranging.ranks import spread
from calcli.importers.evidence.label_evidence import LIKELY
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.roles import is_answer
from calcli.importers.remarks import remark
from calcli.importers.table import Record
from calcli.io.locate import natural
from calcli.items import index_of_each, picked

NEARLY_ALL = 0.98
"""Proportion of rows with the largest score in one place from which they are sorted."""


Rows = Sequence[Record]


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
        if all(map(is_distribution, cells)):
            _order_cells(rows, key, request, where)


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
    has_numbers = any(isinstance(label, int) for label in labels_in(rows, request))
    if has_numbers and not are_numbered:
        listing = ",".join(names) if len(names) < 9 else "A,B,…"
        raise DataError(
            f"{where} has its classes in another order in every row, and the labels are"
            " numbers: write the class itself if they count the list of their row, else"
            f" name the classes in order: --class-names {listing}"
        )
    return names


def labels_in(rows: Rows, request: ImportRequest) -> list[Any]:
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
