"""Dealing rows into groups: sizes, proportions, order, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calcli.errors import UsageError
from calcli.io.split import deal_rows, parse_split


def parts(*texts):
    return [parse_split(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cal=0.5", ("cal", 0.5, None, None)),
        ("cal=50%", ("cal", 0.5, None, None)),
        ("cal=1.0", ("cal", 1.0, None, None)),
        ("cal=.25", ("cal", 0.25, None, None)),
        ("test-2=5000", ("test-2", None, 5000, None)),
        ("test=rest", ("test", None, None, None)),
        ("cal=0:5000", ("cal", None, None, (0, 5000))),
        ("cal=:-10", ("cal", None, None, (None, -10))),
        ("cal=5000:", ("cal", None, None, (5000, None))),
    ],
)
def test_a_split_says_share_number_positions_or_rest(text, expected):
    part = parse_split(text)
    assert (part.name, part.fraction, part.count, part.rows) == expected


@pytest.mark.parametrize(
    "text", ["cal", "cal=", "=0.5", "cal=half", "cal=0", "cal=1", "cal=0.0", "cal=1.5", "cal=-0.5", "cal=nan",
             "cal=120%", "a/b=0.5", "..=0.5", "cal=1:2:3", "cal=inf"],
)  # fmt: skip
def test_a_split_that_cannot_be_read_is_refused_with_its_text(text):
    with pytest.raises(UsageError, match="--split"):
        parse_split(text)


def test_halves_of_a_balanced_file_hold_equal_numbers_of_every_class():
    y = np.arange(1000) % 10
    dealt = deal_rows(parts("cal=0.5", "test=0.5"), 1000, labels=y, seed=3)
    for index in dealt.values():
        assert np.bincount(y[index]).tolist() == [50] * 10
        assert (np.diff(index) > 0).all(), "rows keep the order of the source"
    assert np.array_equal(np.sort(np.concatenate([*dealt.values()])), np.arange(1000))


@settings(max_examples=150, deadline=None)
@given(
    y=st.lists(st.integers(0, 6), min_size=8, max_size=120),
    shares=st.lists(st.integers(5, 100), min_size=1, max_size=4),
    seed=st.integers(0, 5),
)
def test_stratified_shares_are_within_a_row_per_group(y, shares, seed):
    # The first group takes positions spread evenly along the line of classes, so a class's
    # run of m rows gives it floor or ceil of its share, within 1; every later group divides
    # what is left likewise and adds less than 1 of its own and of what it inherits.
    y, n = np.array(y), len(y)
    fractions = np.array(shares) / max(100, sum(shares))
    asked = parts(*(f"g{i}={f!r}" for i, f in enumerate(fractions.tolist())))
    if (np.floor(n * fractions) < 1).any():
        return  # a group might be left empty, which is refused
    dealt = deal_rows(asked, n, labels=y, seed=seed)
    everything = np.concatenate([*dealt.values()])
    assert len(np.unique(everything)) == len(everything)
    assert abs(len(everything) - n * fractions.sum()) <= 0.5 + 1e-6
    for order, index in enumerate(dealt.values()):
        assert abs(len(index) - n * fractions[order]) < 1 + 1e-6
        share = np.bincount(y, minlength=7) * len(index) / n
        assert (
            np.abs(np.bincount(y[index], minlength=7) - share) < order + 1 + 1e-6
        ).all()


def test_two_groups_get_floor_or_ceil_of_every_class():
    rng = np.random.default_rng(0)
    y = rng.choice(30, size=2999, p=np.arange(1, 31) / 465)
    dealt = deal_rows(parts("cal=0.3", "test=rest"), 2999, labels=y, seed=1)
    assert [len(index) for index in dealt.values()] == [900, 2099]
    share = np.bincount(y, minlength=30) * 900 / 2999
    assert (np.abs(np.bincount(y[dealt["cal"]], minlength=30) - share) < 1).all()


def test_thirds_use_every_row_although_a_third_is_no_binary_number():
    dealt = deal_rows(
        parts("a=0.3333333333", "b=0.3333333333", "c=0.3333333334"),
        100,
        labels=np.zeros(100),
    )
    assert sorted(len(index) for index in dealt.values()) == [33, 33, 34]
    sizes = {
        name: len(index)
        for name, index in deal_rows(parts("a=.1", "b=.2", "c=.7"), 10).items()
    }
    assert sizes == {"a": 1, "b": 2, "c": 7}


@pytest.mark.parametrize(
    ("shares", "sizes"),
    [
        ((0.44, 0.31, 0.25), [4, 3, 3]),  # 4.4, 3.1, 2.5: the spare row to the .5
        ((0.37, 0.37, 0.26), [4, 4, 2]),  # 3.7, 3.7, 2.6: two spare rows to the .7s
        ((0.25, 0.25, 0.5), [3, 2, 5]),  # 2.5, 2.5, 5: of equals to the first
        ((0.17, 0.46), [2, 4]),  # 1.7, 4.6 add up to 6.3: one spare row, to the .7
    ],
)
def test_the_largest_remainders_get_the_spare_rows(shares, sizes):
    """Hamilton's rule on ten rows, by hand."""
    dealt = deal_rows(parts(*(f"g{i}={share}" for i, share in enumerate(shares))), 10)
    assert [len(index) for index in dealt.values()] == sizes


def test_the_seed_decides_and_nothing_else():
    y = np.arange(200) % 4
    first, again, other = (
        deal_rows(parts("cal=0.5"), 200, labels=y, seed=s)["cal"] for s in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(first) == 100, "rows that no group asks for are left out"


def test_shuffled_halves_are_not_stratified():
    y = np.arange(1000) % 10
    cal = deal_rows(parts("cal=0.5", "test=0.5"), 1000, seed=0)["cal"]
    assert len(cal) == 500
    assert np.bincount(y[cal]).tolist() != [50] * 10


def test_every_row_has_the_same_chance():
    # 400 seeds, binomial with p = .25: sd of a frequency .0217, so .1 is 4.6 sd for 60 rows.
    y = np.repeat(np.arange(20), 3)
    hits = np.zeros(60)
    for seed in range(400):
        hits[deal_rows(parts("cal=0.25"), 60, labels=y, seed=seed)["cal"]] += 1
    assert (np.abs(hits / 400 - 0.25) < 0.1).all()


def test_ordered_takes_the_first_rows_first():
    dealt = deal_rows(
        parts("cal=4", "val=0.2", "test=rest"), 10, labels=np.arange(10), ordered=True
    )
    assert {name: index.tolist() for name, index in dealt.items()} == {
        "cal": [0, 1, 2, 3], "val": [4, 5], "test": [6, 7, 8, 9],
    }  # fmt: skip


def test_positions_count_as_slices_do():
    dealt = deal_rows(parts("rest=rest", "cal=:3", "test=-2:"), 8)
    assert {name: index.tolist() for name, index in dealt.items()} == {
        "rest": [3, 4, 5], "cal": [0, 1, 2], "test": [6, 7],
    }  # fmt: skip


def test_one_position_is_a_group():
    dealt = deal_rows(parts("a=3:4", "b=rest"), 8)
    assert {name: index.tolist() for name, index in dealt.items()} == {
        "a": [3],
        "b": [0, 1, 2, 4, 5, 6, 7],
    }


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a=0.6", "b=0.6"], "sum to 1.2"),
        (["a=0.5", "a=0.5"], "'a' twice"),
        (["a=rest", "b=rest"], "only one"),
        (["a=50", "b=51"], "asks for 101 rows, the source has 100"),
        (["a=100", "b=rest"], "b: would get none"),
        (["a=0.001"], "a: would get none"),
        (["a=0:10", "b=0.5"], "positions"),
        (["a=0:10", "b=5:20"], "a and b share rows"),
        (["a=0:101"], "position 101 lies outside"),
        (["a=10:10"], "holds no row"),
        (["a=:", "b=rest"], "b: would get none"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(texts, message):
    with pytest.raises(UsageError, match=message):
        deal_rows(parts(*texts), 100, labels=np.zeros(100))
