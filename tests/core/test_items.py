"""Questions about all items of a collection, and picks of them."""

import pytest

from calcli.items import (
    are_all,
    counts_up,
    duplicates,
    has_any,
    index_of_each,
    picked,
    present,
    without,
)


def test_types_of_all_and_of_any():
    assert are_all(int | str, [1, "a"]) and not are_all(int, [1, "a"])
    assert has_any(str, [1, "a"]) and not has_any(list, [1, "a"])
    assert are_all(int, []) and not has_any(int, [])


def test_picks_keep_the_order_of_the_names():
    values = {"a": 1, "b": 2, "c": 3}
    assert list(picked(values, ["c", "a"]).items()) == [("c", 3), ("a", 1)]
    assert list(without(values, ["b"]).items()) == [("a", 1), ("c", 3)]
    assert present([None, 0, "", None]) == [0, ""]


def test_doubled_items_come_in_the_order_of_their_first_place():
    assert duplicates("abcbaa") == ["a", "b"] and duplicates("abc") == []
    assert index_of_each("abca") == {"a": 3, "b": 1, "c": 2}


@pytest.mark.parametrize(
    ("words", "first", "expected"),
    [
        (["0", "1", "2"], 0, True),
        (["1", "2"], 1, True),
        (["0", "2"], 0, False),
        (["00", "1"], 0, False),
        (["1", "0"], 0, False),
    ],
)
def test_words_that_count_up(words, first, expected):
    assert counts_up(words, first) is expected
