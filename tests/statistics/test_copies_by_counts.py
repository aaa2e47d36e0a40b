"""Sets of scores that are more alike than independent ones could be."""

import numpy as np
import pytest

from calcli.statistics.copies_by_counts import (
    LARGEST_CELL,
    N_CELLS,
    cell_of,
    chance_of_alike,
    count_rows,
)


def counted(score, outcome):
    return count_rows(cell_of(score), outcome.astype(int))


def test_cells_are_those_of_the_log_odds():
    cells = (
        cell_of(np.array([0.0, 0.5, 1.0 / (1.0 + np.exp(-0.26)), 1.0])) - LARGEST_CELL
    )
    np.testing.assert_array_equal(cells, [-LARGEST_CELL, 0, 1, LARGEST_CELL])


def test_counts_of_two_cells_by_hand():
    """Two rows in each of m cells, one of each set: 2^-m, given that m of the 2 m are of
    each. The bound lies above, and falls with m."""
    bounds = []
    for m in (10, 40):
        one = np.zeros((2, N_CELLS), dtype=int)
        one[1, :m] = 1
        exact = 2.0**m * np.prod([(i + 1.0) / (m + i + 1.0) for i in range(m)])
        bounds.append(chance_of_alike(one, one))
        assert bounds[-1] >= exact
    assert bounds[1] < 1e-6 < bounds[0]


def test_one_cell_tells_nothing():
    one = np.zeros((2, N_CELLS), dtype=int)
    one[1, 70] = 500
    assert chance_of_alike(one, one) == 1.0


@pytest.mark.parametrize("n", [30, 300, 3000])
@pytest.mark.parametrize("kind", ["beta", "near 1", "two decimals", "log-normal odds"])
def test_the_chance_is_a_bound(kind, n):
    """Of 300 independent pairs at most 1 in 20 has a chance of 1 in 20, with 3.5
    standard errors."""
    rng = np.random.default_rng([n, len(kind)])

    def drawn():
        if kind == "beta":
            score = rng.beta(2, 3, n)
        elif kind == "near 1":
            score = 1.0 - 10.0 ** -rng.uniform(1.0, 6.0, n)
        elif kind == "two decimals":
            score = rng.uniform(0.4, 1.0, n).round(2)
        else:
            score = 1.0 / (1.0 + np.exp(-np.exp(rng.normal(size=n))))
        return counted(score, rng.random(n) < score)

    chances = np.array([chance_of_alike(drawn(), drawn()) for _ in range(300)])
    assert (chances <= 0.05).sum() <= 15 + 3.5 * 15**0.5


def test_other_outcomes_of_the_same_scores_are_not_alike():
    rng = np.random.default_rng(6)
    score = np.linspace(0.5, 1.0, 1000)
    for _ in range(50):
        pair = [counted(score, rng.random(1000) < score) for _ in range(2)]
        assert chance_of_alike(*pair) > 1e-4
