"""Penalties, priors and counts are held against effective rows: of units, over their design effect."""

import numpy as np
import pytest
from synthetic import predict

from calcli.calibrator import Context
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows
from calcli.statistics.units import Units, design_effect

NEARLY_ONE = 1e-9  # between maps whose sums were added in another order; sms stops at a gradient of 1e-7


def drawn(n, k):
    """Logits, too sharp by 1.5, and labels; units of three rows share the luck of their labels."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=(n, k)) * 2.5
    luck = np.repeat(rng.gumbel(size=(n // 3, k)), 3, axis=0)
    return 1.5 * z, (z + luck).argmax(axis=1)


def in_units(k=4, times=1, weight=None):
    """240 rows in units of three, every row as many times in its unit."""
    z, y = drawn(240, k)
    unit = np.repeat(np.arange(240) // 3, times)
    if weight is not None:
        weight = np.repeat(weight, times)
    rows = ArrayRows(
        np.repeat(z, times, axis=0),
        np.repeat(y, times),
        weight=weight,
        units=Units.of(unit),
    )
    assert rows.design_effect > 1.0
    return rows


def probabilities(rows, name, **options):
    cls = method(name)
    resolved = cls.resolve_options(parse_options(name, options), rows.k)
    fitted = cls.fit(rows, resolved, Context()).calibrator
    z, _ = drawn(240, rows.k)
    return np.exp(predict(fitted, ArrayRows(z))[0])


def test_effective_rows_by_hand():
    """Six rows of gaps .5 and -.5, in three units of two alike: the variance by unit is twice that by row."""
    z = np.zeros((6, 2))
    y = np.array([0, 0, 1, 1, 0, 1])
    units = Units.of(np.array([0, 0, 1, 1, 2, 2]))
    rows = ArrayRows(z, y, units=units)
    assert rows.design_effect == pytest.approx(4 * 0.5 * 2 * 0.5 / (6 * 0.25))
    assert rows.effective_n == pytest.approx(6 / rows.design_effect)
    gaps = 0.5 - (y == 0)
    assert rows.design_effect == pytest.approx(design_effect(gaps, units))
    assert ArrayRows(z, y).effective_n == 6.0
    alone = ArrayRows(z, y, units=Units.of(np.arange(6)))
    assert alone.effective_n == 6.0 and alone.effective_weights() is None


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_twice_in_their_unit_are_no_more(weighted):
    weight = np.random.default_rng(1).exponential(size=240) if weighted else None
    once = in_units(weight=weight)
    twice = in_units(times=2, weight=weight)
    assert twice.effective_n == pytest.approx(once.effective_n, rel=1e-12)
    total = twice.effective_weights().sum()
    assert total == pytest.approx(once.effective_n, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "k", "options"),
    [
        ("ts", 4, {"prior": 0.25}),
        ("svs", 4, {}),
        ("sms", 4, {"lambda": 1.0}),
        ("mono", 4, {}),
        ("iop", 4, {}),
        ("ft", 4, {}),
        ("ms-odir", 4, {"lambda": 1.0, "final": "refit"}),
        ("mline", 2, {"shape": "bend"}),
        ("platt", 2, {"smooth": True}),
    ],
)
def test_a_unit_doubled_gives_the_same_map(name, k, options):
    """Where rows were counted, not units, a copy of every row moved maps by .002 (ft) to .06 (sms)."""
    once = probabilities(in_units(k=k), name, **options)
    twice = probabilities(in_units(k=k, times=2), name, **options)
    np.testing.assert_allclose(twice, once, atol=NEARLY_ONE)
