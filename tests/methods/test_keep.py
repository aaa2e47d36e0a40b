"""Predictions kept: the projection, as a stage, and as an option of every method."""

import json
import warnings

import numpy as np
import pytest
from synthetic import fit, predict, truth

import calcli
from calcli.calibrator import Context
from calcli.errors import UsageError
from calcli.mapped_rows import mapped
from calcli.numerics import LEAD, kept_on_top, log_softmax
from calcli.registry import method, parse_options, with_predictions_kept
from calcli.rows import ArrayRows


def kept(p, label):
    return np.exp(kept_on_top(np.log(np.array([p])), np.array([label]))[0])


@pytest.mark.parametrize(
    ("p", "label", "expected"),
    [
        ([0.5, 0.3, 0.2], 0, [0.5, 0.3, 0.2]),  # on top already
        ([0.5, 0.3, 0.2], 1, [0.4, 0.4, 0.2]),  # pooled with the one above
        ([0.5, 0.3, 0.2], 2, [0.35, 0.3, 0.35]),  # (.2 + .5) / 2 > .3
        ([0.6, 0.25, 0.15], 2, [0.375, 0.25, 0.375]),  # (.15 + .6) / 2 > .25
        ([0.4, 0.3, 0.28, 0.02], 3, [0.25, 0.25, 0.25, 0.25]),
    ],
)
def test_the_projection_by_hand(p, label, expected):
    """The classes above the label are pooled with it, the largest first; a wins by ``LEAD``."""
    np.testing.assert_allclose(kept(p, label), expected, atol=LEAD)
    assert kept(p, label).sum() == pytest.approx(1.0, abs=1e-12)


def test_the_projection_is_the_nearest_point():
    """No feasible point of a random search is nearer; the set is convex, so the nearest is one."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), 40)
    label = rng.integers(0, 5, 40)
    projected = np.exp(kept_on_top(np.log(p), label))
    others = rng.dirichlet(np.ones(5), 4000)
    for row, point, a in zip(p, projected, label, strict=True):
        feasible = others[others.argmax(axis=1) == a]
        towards = point + rng.random((len(feasible), 1)) * (feasible - point)
        distance = ((towards - row) ** 2).sum(axis=1)
        assert distance.min() >= ((point - row) ** 2).sum() - 10 * LEAD


def test_the_label_wins_in_float32_and_other_rows_stay():
    rng = np.random.default_rng(1)
    log_p = log_softmax(3 * rng.normal(size=(2000, 50)))
    label = rng.integers(0, 50, 2000)
    out = kept_on_top(log_p, label)
    assert (out.argmax(axis=1) == label).all()
    assert (out.astype(np.float32).argmax(axis=1) == label).all()
    assert (np.exp(out).astype(np.float32).argmax(axis=1) == label).all()
    top = log_p.argmax(axis=1)
    np.testing.assert_array_equal(kept_on_top(log_p, top), log_p)


def test_it_restores_what_stages_before_moved():
    z, y = truth(800, 4, seed=3)
    z = z + np.array([0.0, 2.0, 0.0, -2.0])
    rows = ArrayRows(z, y)
    free, keeping = (fit(name, rows).calibrator for name in ("svs", "svs+keep"))
    label = predict(free, rows)[1]
    assert (label != z.argmax(axis=1)).mean() > 0.1
    log_p, label = predict(keeping, rows)
    np.testing.assert_array_equal(label, z.argmax(axis=1))
    np.testing.assert_array_equal(log_p.argmax(axis=1), label)
    assert method("svs+keep").laws.keeps_argmax and method("svs+keep").laws.monotone
    assert method("svs+keep+mono").laws.keeps_argmax
    assert not method("keep+svs").laws.keeps_argmax
    # a cached stage between hands the first prediction on
    cached = mapped(
        mapped(rows, free),
        method("mono")
        .fit(mapped(rows, free), parse_options("mono", {}), Context())
        .calibrator,
    )
    np.testing.assert_array_equal(cached.original, z.argmax(axis=1))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ts", "ts"),
        ("svs", "svs+keep"),
        ("svs+mono", "svs+keep+mono"),
        ("hb", "hb+keep"),
        ("irm", "irm+keep"),
        ("svs+hb", "svs+keep+hb+keep"),
        ("ir(mode=ova)", "ir+keep"),
        ("svs+keep", "svs+keep"),
    ],
)
def test_keep_comes_after_the_last_stage_that_moves(name, expected):
    bare, _, rest = name.partition("(")
    options = dict([rest.rstrip(")").split("=")]) if rest else {}
    options_of_bare = method(bare).resolve_options(parse_options(bare, options), 4)
    assert with_predictions_kept(bare, options_of_bare)[0] == expected


@pytest.mark.parametrize(
    "name",
    [
        "svs",
        "vs",
        "platt",
        "ir",
        "beta",
        "quadratic",
        "hb",
        "irm",
        "svs+hb",
        "auto",
        "auto(rule=best;candidates=hb)",
    ],
)
@pytest.mark.parametrize("k", [2, 4])
def test_every_method_keeps_predictions_on_request(name, k):
    """In the probabilities too, which readers of a file take the largest of."""
    z, y = truth(400, k, seed=3)
    z = z + np.linspace(-1, 1, k)
    calibrator = calcli.fit(z, y, name, keep_predictions=True)
    np.testing.assert_array_equal(calibrator.predict(z), z.argmax(axis=1))
    p = calibrator.predict_proba(z)
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))
    np.testing.assert_array_equal(p.astype("f4").argmax(axis=1), z.argmax(axis=1))
    assert not any("predictions changed" in w for w in calibrator.warnings)


@pytest.mark.parametrize("rule", ["average", "best"])
@pytest.mark.parametrize("candidate", ["hb", "prior", "ir(mode=ova)"])
def test_auto_keeps_predictions_where_nothing_can_be_weighed(candidate, rule):
    """All labels are of one class, so that auto takes its first candidate."""
    z, _ = truth(400, 4, seed=3)
    labels = np.ones(400, dtype=int)
    options = {"rule": rule, "candidates": candidate}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator = calcli.fit(z, labels, "auto", keep_predictions=True, **options)
    np.testing.assert_array_equal(calibrator.predict(z), z.argmax(axis=1))
    p = calibrator.predict_proba(z)
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))


def test_maps_by_group_cannot_keep_predictions(run):
    z, y = truth(400, 2, seed=3)
    np.savez("g.npz", logits=z, labels=y, site=np.arange(400) % 2)
    words = ["fit", "-m", "platt", "--by", "site", "--keep-predictions", "g.npz"]
    done = run(*words)
    assert done.code == 2
    assert "maps by group have no accuracy-preserving form here" in done.err


def test_from_the_command_line(run):
    z, y = truth(400, 4, seed=3)
    z = z + np.array([0.0, 2.0, 0.0, -2.0])
    np.savez("s.npz", logits=z, labels=y)
    more = ["s.npz", "-q", "--force"]
    assert (
        run("fit", "-m", "svs", "--keep-predictions", "-o", "k.json", *more).code == 0
    )
    assert (calcli.load("k.json").predict(z) == z.argmax(axis=1)).all()
    assert run("fit", "--free-predictions", "-o", "f.json", *more).code == 0
    with open("f.json") as file:
        content = json.load(file)
    assert content["options"]["keep_argmax"] is False
    assert (calcli.load("f.json").predict(z) != z.argmax(axis=1)).any()
    both = run("fit", "--keep-predictions", "--free-predictions", *more)
    assert both.code == 2 and "one excludes the other" in both.line
    with pytest.raises(UsageError, match="must come last"):
        parse_options("hb+ts", {})
