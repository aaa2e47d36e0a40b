"""Folds: every row once, sizes, what they see and what they must not see."""

import numpy as np
import pytest

from calcli.folds import (
    content_folds,
    even_by_design,
    random_folds,
    sampled_folds,
    stratified_folds,
)

Y = np.repeat([0, 1, 2], [50, 21, 4])


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    "fold", [random_folds(75, 5, rng()), stratified_folds(Y, 5, rng())]
)
def test_sizes_differ_by_at_most_one(fold):
    assert np.bincount(fold).tolist() == [15] * 5


def test_random_folds_do_not_tell_the_class_counts():
    """Count of class 0 (50 of 75 rows) in a fold of 15: hypergeometric, variance 15 (2/3)(1/3) 60/74."""
    counts = [
        int((Y[random_folds(75, 5, rng(s)) == 0] == 0).sum()) for s in range(4000)
    ]
    assert np.mean(counts) == pytest.approx(10.0, abs=4 * np.sqrt(2.7 / 4000))
    assert np.var(counts) == pytest.approx(15 * 2 / 9 * 60 / 74, rel=0.1)


def test_stratified_folds_spread_every_class():
    fold = stratified_folds(Y, 5, rng())
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
    fold = sampled_folds(whole, 10, 5, rng())
    assert all(np.bincount(fold[whole == c]).tolist() == [2] * 5 for c in range(10))
    np.testing.assert_array_equal(
        sampled_folds(Y, 3, 5, rng()), random_folds(75, 5, rng())
    )


def test_content_folds_see_neither_row_nor_class_order():
    loss = rng(3).random(75)
    fold = content_folds(Y, loss, 5, rng())
    order, names = rng(1).permutation(75), np.array([2, 0, 1])
    np.testing.assert_array_equal(
        content_folds(Y[order], loss[order], 5, rng()), fold[order]
    )
    np.testing.assert_array_equal(content_folds(names[Y], loss, 5, rng()), fold)
    assert np.bincount(fold).tolist() == [15] * 5
