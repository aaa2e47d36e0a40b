"""Bins of scores: which bin a score falls in."""

import numpy as np
import pytest

from calcli.binning import FEW_EDGES, bin_index, mass_edges, width_edges


@pytest.mark.parametrize("bins", [1, 2, 10, 15, FEW_EDGES + 1, FEW_EDGES + 2, 1000])
def test_bins_are_right_closed_however_they_are_found(bins):
    # By hand: the bin (lo, hi] of a score, 0 in the first; few edges are compared, many are searched.
    edges = width_edges(bins)
    scores = np.concatenate(
        [edges, np.nextafter(edges, -1).clip(0), np.nextafter(edges, 2).clip(0, 1)]
    )
    index = bin_index(scores, edges)
    first = (index == 0) & (scores <= edges[1])
    assert (first | ((edges[index] < scores) & (scores <= edges[index + 1]))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_of_equal_mass_hold_what_a_search_puts_there(dtype):
    scores = np.random.default_rng(1).beta(5, 1, 3000).astype(dtype)
    edges = mass_edges(scores, 15)
    np.testing.assert_array_equal(
        bin_index(scores, edges), (np.searchsorted(edges, scores) - 1).clip(0, 14)
    )


def test_edges_are_not_rounded_to_the_type_of_the_scores():
    # By hand: float32(.1) and float32(.2) lie above .1 and .2, float32(.7) and float32(.9) below .7 and .9.
    scores = np.array([0.1, 0.2, 0.7, 0.9], dtype=np.float32)
    np.testing.assert_array_equal(bin_index(scores, width_edges(10)), [1, 2, 6, 8])
