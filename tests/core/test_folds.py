"""Folds: every row once, sizes, what decides them and what they must not see."""

import numpy as np
import pytest

from calcli.folds import (
    RowHashes,
    content_folds,
    content_order,
    copy_numbers,
    dealt,
    even_by_design,
    sampled_folds,
    stratified_folds,
)
from calcli.rows import ArrayRows
from calcli.statistics.units import Units

Y = np.repeat([0, 1, 2], [50, 21, 4])


def rng(seed=0):
    return np.random.default_rng(seed)


def rows_of(y=Y, k=3, seed=0, units=None):
    return ArrayRows(rng(seed).normal(size=(len(y), k)), y, units=units)


@pytest.mark.parametrize(
    "fold",
    [content_folds(rows_of(), 5, 0), stratified_folds(rows_of(), Y, 5, 0)],
)
def test_sizes_differ_by_at_most_one(fold):
    assert np.bincount(fold).tolist() == [15] * 5


def test_folds_do_not_tell_the_class_counts():
    """Count of class 0 (50 of 75 rows) in a fold of 15: hypergeometric, variance 15 (2/3)(1/3) 60/74."""
    rows = rows_of()
    counts = [int((Y[content_folds(rows, 5, s) == 0] == 0).sum()) for s in range(4000)]
    assert np.mean(counts) == pytest.approx(10.0, abs=4 * np.sqrt(2.7 / 4000))
    assert np.var(counts) == pytest.approx(15 * 2 / 9 * 60 / 74, rel=0.1)


def test_seeds_and_draws_give_other_folds():
    rows = rows_of()
    first = content_folds(rows, 5, 0)
    assert (content_folds(rows, 5, 0) == first).all()
    for other in (content_folds(rows, 5, 1), content_folds(rows, 5, 0, draw=1)):
        # two independent draws agree on a fifth of the rows, +-4 standard errors
        assert (other == first).mean() < 0.2 + 4 * np.sqrt(0.16 / 75)


def test_stratified_folds_spread_every_class():
    fold = stratified_folds(rows_of(), Y, 5, 0)
    for c in range(3):
        per_fold = np.bincount(fold[c == Y], minlength=5)
        assert per_fold.max() - per_fold.min() <= 1


@pytest.mark.parametrize("k", [10, 100])
def test_classes_are_even_by_design_or_not(k):
    """Uniform draws are at most once in a thousand; halves of an even set, hypergeometric, almost never."""
    assert even_by_design(rng(1).permutation(np.arange(5 * k + 1) % k), k)
    assert (
        sum(even_by_design(rng(s).integers(0, k, 20 * k), k) for s in range(1000)) <= 5
    )
    whole = np.arange(40 * k) % k
    assert (
        sum(even_by_design(rng(s).permutation(whole)[: 20 * k], k) for s in range(200))
        <= 5
    )
    assert not even_by_design(np.arange(200) % 2, 2)


def test_folds_are_even_where_the_rows_are():
    whole = rng().permutation(np.arange(100) % 10)
    fold = sampled_folds(rows_of(whole, 10), 5, 0)
    assert all(np.bincount(fold[whole == c]).tolist() == [2] * 5 for c in range(10))
    np.testing.assert_array_equal(
        sampled_folds(rows_of(), 5, 0), content_folds(rows_of(), 5, 0)
    )


# ---- what decides


def test_folds_follow_the_rows_wherever_they_stand():
    rows = rows_of()
    fold = content_folds(rows, 5, 0)
    order = rng(1).permutation(75)
    moved = ArrayRows(rows.scores[order], Y[order], block_rows=7)
    np.testing.assert_array_equal(content_folds(moved, 5, 0), fold[order])
    np.testing.assert_array_equal(
        content_order(rows, 0), order[content_order(moved, 0)]
    )


def test_neither_the_order_of_classes_nor_a_constant_per_row_decides():
    rows = rows_of()
    order = np.array([2, 0, 1])
    turned = ArrayRows(rows.scores[:, order], np.argsort(order)[Y])
    shifted = ArrayRows(rows.scores + rng(2).normal(size=(75, 1)), Y)
    for other in (turned, shifted):
        np.testing.assert_array_equal(
            content_folds(other, 5, 0), content_folds(rows, 5, 0)
        )


def test_rows_with_the_same_set_of_scores_differ_by_their_classes():
    """Three one-hot rows and their labels: alike as sets, told apart by which class has which score."""
    z = np.repeat(3.0 * np.eye(3), [5, 7, 9], axis=0)
    y = np.repeat([0, 1, 2], [5, 7, 9])
    hashes = RowHashes.of(ArrayRows(z, y)).whole
    assert len(np.unique(hashes)) == 3
    turned = RowHashes.of(ArrayRows(z[:, [1, 2, 0]], np.array([2, 0, 1])[y])).whole
    np.testing.assert_array_equal(turned, hashes)


@pytest.mark.parametrize("times", [2, 5])
def test_copies_of_a_row_share_a_fold(times):
    z, y = (
        np.repeat(rng().normal(size=(40, 3)), times, axis=0),
        np.repeat(Y[:40], times),
    )
    fold = content_folds(ArrayRows(z, y), 5, 0).reshape(40, times)
    assert (fold == fold[:, :1]).all()
    assert np.bincount(fold.ravel()).min() >= 40 * times / 5 - times
    even = np.repeat(np.arange(40) % 4, times)
    assert even_by_design(even, 4)
    z = np.repeat(rng().normal(size=(40, 4)), times, axis=0)
    fold = sampled_folds(ArrayRows(z, even), 5, 0).reshape(40, times)
    assert (fold == fold[:, :1]).all()


def test_coarse_scores_are_no_copies():
    """Confidences of two decimals, right as often as they say: equal ones are other answers."""
    said = np.round(rng().uniform(0.5, 1.0, 1000), 2)
    right = (rng(1).random(1000) < said).astype(int)
    fold = content_folds(ArrayRows(said[:, None], right, "confidence"), 5, 0)
    assert np.bincount(fold).tolist() == [200] * 5
    for value in np.unique(said):
        assert len(set(fold[said == value])) > 1


def test_a_value_that_fills_more_than_a_fold_is_dealt():
    z = rng().normal(size=(100, 3))
    z[:60] = [9.0, 0.0, 0.0]
    y = np.where(np.arange(100) < 60, 0, rng(1).integers(0, 3, 100))
    assert np.bincount(content_folds(ArrayRows(z, y), 5, 0)).tolist() == [20] * 5


# ---- units


def test_units_under_other_names_have_the_same_folds():
    unit = rng().permutation(np.repeat(np.arange(20), 4))
    y = rng(1).integers(0, 3, 80)
    first = content_folds(rows_of(y, units=Units.of(unit)), 5, 0)
    for names in (rng(2).permutation(20), np.array([f"p{i}" for i in range(20)])):
        again = content_folds(rows_of(y, units=Units.of(names[unit])), 5, 0)
        np.testing.assert_array_equal(again, first)
    assert all(len(set(first[unit == u])) == 1 for u in range(20))
    assert np.bincount(first).tolist() == [16] * 5


def test_copies_of_a_unit_share_a_fold_but_never_fill_one():
    z, y = rng().normal(size=(30, 3)), rng(1).integers(0, 3, 30)
    unit = np.arange(60) // 3  # ten units, and the same ten again
    twice = ArrayRows(np.tile(z, (2, 1)), np.tile(y, 2), units=Units.of(unit))
    fold = content_folds(twice, 5, 0)
    np.testing.assert_array_equal(fold[:30], fold[30:])
    same = ArrayRows(
        np.tile(z[:3], (4, 1)), np.tile(y[:3], 4), units=Units.of(unit[:12])
    )
    assert set(content_folds(same, 2, 0)) == {0, 1}


# ---- by hand


def test_copy_numbers_count_by_the_ties():
    hashes = np.array([7, 3, 7, 7, 3], dtype=np.uint64)
    ties = np.array([2.0, 0.0, 1.0, 3.0, 1.0])
    assert copy_numbers(hashes, ties).tolist() == [1, 0, 0, 2, 1]


def test_clusters_go_to_the_part_that_holds_their_middle():
    """Sizes 1, 4, 1, 2 in this order: middles at .5, 3, 5.5 and 7 of 8; halves end at 4."""
    key = np.arange(4, dtype=np.uint64)
    assert dealt(key, np.array([1, 4, 1, 2]), 2).tolist() == [0, 0, 1, 1]
    # one cluster holds nearly all: the others still make a fold each
    assert sorted(dealt(key, np.array([97, 1, 1, 1]), 4).tolist()) == [0, 1, 2, 3]
