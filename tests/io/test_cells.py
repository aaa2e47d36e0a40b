"""The text of a cell: names of rows and answers, whatever type or file holds them."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

from calcli.errors import DataError
from calcli.io.cells import (
    BLANKS,
    NameColumn,
    answer_of,
    cells_of_text,
    is_number,
    names_of,
    printed_list,
    sortable,
    texts_of_names,
    together,
    whole_numbers,
)
from calcli.names import group_text, places_among, places_of_groups

COLUMN = NameColumn("a.csv: id", "group")


def texts(values, role="group"):
    return texts_of_names(names_of(values, NameColumn("a.csv: id", role)))


# Hand-sized cases: the law is str(int(cell)) == cell for whole numbers, else the text.
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7, 8], ["7", "8"]),
        ([7.0, 8.0], ["7", "8"]),
        (np.array([7, 8], dtype=">i2"), ["7", "8"]),
        (np.array([7.0, 8.0], dtype=np.float16), ["7", "8"]),
        (["7", "8"], ["7", "8"]),
        (["007", "7.10", "+7", "-0", "1e5"], ["007", "7.10", "+7", "-0", "1e5"]),
        (["1_10", "\u0661\u0662", " a", "a "], ["1_10", "\u0661\u0662", " a", "a "]),
        ([10**30 + 1, 10**30 + 2], [f"{10**30 + 1}", f"{10**30 + 2}"]),
        ([2**53 + 1, 2**53 + 2], ["9007199254740993", "9007199254740994"]),
        (np.array([2**63 + 1], dtype=np.uint64), ["9223372036854775809"]),
        ([1, "a", 2.0], ["1", "a", "2"]),
        ([True, False], ["True", "False"]),
        (np.array([True, False]), ["True", "False"]),
        (np.array([0.1, 0.5], dtype=np.float32), ["0.1", "0.5"]),
        ([Decimal("7.00"), Decimal("7.10")], ["7", "7.10"]),
        (np.array([b"a", b"bc"]), ["a", "bc"]),
        ([dt.date(2024, 1, 2)], ["2024-01-02"]),
        (np.array(["2024-01-02"], dtype="M8[ns]"), ["2024-01-02"]),
        ([dt.datetime(2024, 1, 2, 3, 4)], ["2024-01-02 03:04:00"]),
        (np.array(["2024-01-02T03:04"], dtype="M8[m]"), ["2024-01-02 03:04:00"]),
    ],
)
def test_a_name_is_the_text_of_its_cell(values, expected):
    assert texts(values) == expected


@pytest.mark.parametrize(
    ("values", "role", "message"),
    [
        ([1, None], "group", "row 1 is empty, expected the group of the row"),
        ([1.0, np.nan], "ids", "row 1 is NaN, expected the id of the row"),
        (np.array(["NaT"], dtype="M8[D]"), "group", "row 0 is empty"),
        (["a", ""], "unit", "row 1 is empty, expected the unit of the row"),
        ([7.5], "ids", "row 0 is 7.5, expected the id of the row, a whole number"),
        ([2.0**53], "group", "whose last digits are lost"),
        ([np.inf], "group", "row 0 is inf"),
        ([(1, 2)], "group", r"row 0 is \(1, 2\) \(a container is no name\)"),
        (["a\0"], "ids", "words without NUL characters"),
        (["\ud800"], "ids", "holds what is no text: row 0: .* surrogates"),
        (np.array([1j]), "ids", "ids has type complex128"),
    ],
)
def test_what_names_no_row_is_refused_with_its_row(values, role, message):
    with pytest.raises(DataError, match=message):
        names_of(values, NameColumn("a.csv: id", role))


def test_whole_numbers_are_integers_and_texts_stay_texts():
    assert names_of([7.0, 8], COLUMN).dtype == np.int64
    assert names_of(["7", "8"], COLUMN).dtype == object
    assert names_of(np.array([[1, 2], [3, 4]]), COLUMN).shape == (2, 2)


def test_texts_of_whole_numbers_sort_as_numbers():
    assert sortable(names_of(["10", "9"], COLUMN)).tolist() == [10, 9]
    assert sortable(names_of(["10.0", "9.0"], COLUMN)).tolist() == [10, 9]
    for kept in (["10", "9.0"], ["010", "9"], ["10", "a"], [str(2**64), "1"]):
        assert sortable(names_of(kept, COLUMN)).tolist() == kept


def test_columns_of_two_types_come_together_as_words():
    numbers, others = np.array([1, 2]), names_of(["a"], COLUMN)
    assert together([numbers, others]).tolist() == ["1", "2", "a"]
    assert together([numbers, numbers]).tolist() == [1, 2, 1, 2]
    large = np.array([2**63], dtype=np.uint64)
    assert together([numbers, large]).tolist() == ["1", "2", str(2**63)]


def test_pandas_writes_whole_numbers_with_a_gap_as_floats():
    assert cells_of_text(["7.0", "", "8.0"]) == [7, None, 8]
    assert cells_of_text(["7", "", "8"]) == [7, None, 8]
    assert cells_of_text(["7", "8"]) == [7, 8]
    assert cells_of_text(["07", "8"]) == ["07", "8"]
    assert cells_of_text(["7.0", "8.0"]) == ["7.0", "8.0"]
    assert cells_of_text(["7.10", "", "8.0"]) == ["7.10", None, "8.0"]
    assert cells_of_text(["NA", "a"]) == [None, "a"]
    assert cells_of_text(["NA", "a", ""], words=BLANKS) == ["NA", "a", ""]


def test_numbers_are_those_of_files_not_of_python():
    assert [is_number(text) for text in ("1e5", " 7", "+.5", "inf")] == [True] * 4
    assert not any(map(is_number, ("1_0", "\u0661", "0x1", "")))
    assert whole_numbers(["1_0"]) is None and whole_numbers(["\u0661"]) is None
    assert whole_numbers(["1", str(2**63)]) is None


# ---- answers

SAME = [
    [True, "true", "True", "TRUE", 1, 1.0, "1", "1.0", np.int8(1), np.bool_(True)],
    [False, "false", 0, "0", 0.0, "-0.0", "0.00"],
    [0.5, "0.5", "0.50", "5e-1", np.float32(0.5), Decimal("0.50")],
    [2**53 + 1, str(2**53 + 1), np.int64(2**53 + 1)],
    [2**53, float(2**53)],
    ["Paris", " Paris", "Paris\n", b"Paris"],
    ["007"],
    ["7", 7],
    ["1_0"],
    ["10", 10],
    ["A"],
    ["a"],
]
"""Answers of one row are equal, those of different rows are not."""


def test_answers_are_equal_where_their_values_are():
    canonical = [{answer_of(cell) for cell in row} for row in SAME]
    assert [len(texts) for texts in canonical] == [1] * len(SAME)
    assert len(set.union(*canonical)) == len(SAME)


def test_blank_answers_have_no_value():
    blanks = (None, np.nan, "", "  ", "nan", "None", "NA")
    assert [answer_of(cell) for cell in blanks] == [None] * len(blanks)
    with pytest.raises(ValueError, match="container"):
        answer_of({"a": 1})


def test_the_items_of_a_printed_list():
    assert printed_list("['a', \"b'c\", 1, True]") == ["a", "b'c", "1", "True"]
    assert printed_list("['a' 'b']") == ["a", "b"]
    assert printed_list('["a, b", "c"]') == ["a, b", "c"]


# ---- names that name the same


def test_a_name_is_found_by_its_text_else_by_its_number():
    assert places_among(["7.0", "8"], ["7", "8.0", "9", "07"]).tolist() == [
        0,
        1,
        -1,
        -1,
    ]
    assert places_among(["7", "7.0"], ["7.0", "7"]).tolist() == [1, 0]


def test_an_intersection_is_found_whatever_the_order_of_its_columns():
    known = ("site=Oslo, sex=F", "site=7.0, sex=M")
    wanted = ("sex=F, site=Oslo", "sex=M, site=7", "sex=F, site=7")
    assert places_of_groups(known, wanted).tolist() == [0, 1, -1]
    assert group_text("a, b=c") == "a, b=c"  # no intersection
    # two known names of one meaning: neither is meant
    assert places_of_groups(("a=1, b=2", "b=2, a=1"), ("b=2, a=1.0",)).tolist() == [-1]
