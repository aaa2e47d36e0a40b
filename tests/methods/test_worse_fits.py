"""A fit that makes its own rows worse is never ``ok``."""

import h5py
import numpy as np
import pytest
from synthetic import truth

import calcli
from calcli.fitting.fit_warnings import CLEARLY, OWN_NOISE
from calcli.numerics import softmax
from calcli.registry import method_names

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

WORSE = "the fit made its own rows worse"


def said(fitted):
    return any(WORSE in warning for warning in fitted.warnings)


def calibrated(n, k, seed=0, scale=2.5):
    """Logits and labels drawn from them."""
    return truth(n, k, temperature=1.0, seed=seed, scale=scale)


@pytest.mark.parametrize(
    ("name", "options"),
    [("hb", {"bins": 1}), ("sb", {"bins": 1}), ("hb", {"bins": 2, "mode": "ova"})],
)
def test_bins_that_lose_what_the_scores_knew_are_degenerate(name, options):
    """One bin gives all rows one confidence: the NLL of scores that are right rises by what they knew of it."""
    z, y = calibrated(2000, 4)
    fitted = calcli.fit(z, y, name, **options)
    assert fitted.after["nll"] > fitted.before["nll"] + OWN_NOISE / 2000
    assert (fitted.status, said(fitted)) == ("degenerate", True)


@pytest.mark.parametrize("name", ["hb", "sb", "ir", "ec", "venn-abers", "spline"])
def test_methods_that_do_not_fit_the_nll_are_ok_where_they_help(name):
    z, y = truth(3000, 4, temperature=2.0)
    fitted = calcli.fit(z, y, name)
    assert fitted.after["nll"] < fitted.before["nll"]
    assert (fitted.status, said(fitted)) == ("ok", False)


def test_the_noise_of_a_method_is_no_harm():
    """ec matches mean confidence and accuracy. Where scores are right its T is off by chance, and its NLL a little
    above that of T = 1 in about half of the sets; that is no reason to call the fit degenerate."""
    rose = degenerate = 0
    for seed in range(40):
        fitted = calcli.fit(*calibrated(500, 4, seed), "ec")
        rose += fitted.after["nll"] > fitted.before["nll"]
        degenerate += fitted.status != "ok"
    assert rose >= 5 and degenerate == 0


def test_what_a_method_promises_holds_to_rounding():
    """ts, vs and the like end at most where they began; on all sets of this kind they are ok."""
    for seed in range(5):
        for name in ("ts", "vs", "iop", "mono", "ets", "dir"):
            fitted = calcli.fit(*calibrated(300, 3, seed), name)
            assert fitted.after["nll"] <= fitted.before["nll"] + 1e-9
            assert not said(fitted)


def test_a_temperature_by_brier_score_is_judged_by_that():
    z, y = truth(1000, 4, temperature=1.0)
    y[:20] = z[:20].argmin(axis=1)  # a few rows that the NLL would follow
    fitted = calcli.fit(z * 3, y, "ts", loss="brier")
    assert fitted.after["brier"] < fitted.before["brier"]
    assert fitted.status == "ok"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_zero_of_unknown_size_at_a_label_is_not_trusted(dtype):
    """`run` on 500 answers with one zero at a label ended at T = 82.6 with status ok, its NLL tripled."""
    z, y = truth(500, 4, temperature=1.2)
    p = softmax(z).astype(dtype)
    y[3] = p[3].argmin()
    p[3, y[3]] = 0.0
    p[3] /= p[3].sum()
    fitted = calcli.fit(p, y, "ts", kind="probs")
    assert fitted.after["brier"] > fitted.before["brier"]
    assert fitted.status != "ok"
    assert any("stored 0 of unknown size" in warning for warning in fitted.warnings)
    auto = calcli.fit(p, y, "auto", kind="probs")
    assert auto.after["brier"] <= auto.before["brier"] + 1e-3


def test_one_rounded_zero_at_a_label_leaves_the_temperature_alone():
    z, y = truth(500, 4, temperature=1.2)
    p = np.round(softmax(z), 3)
    p[:, 0] += 1 - p.sum(axis=1)
    p = np.abs(np.round(p, 3))
    without = calcli.fit(p, y, "ts", kind="probs").params["temperature"]
    y[3] = p[3].argmin()
    p[3, p[3].argmax()] += p[3, y[3]]
    p[3, y[3]] = 0.0
    fitted = calcli.fit(p, y, "ts", kind="probs")
    assert fitted.params["temperature"] == pytest.approx(without, rel=0.1)
    assert fitted.status == "ok" and fitted.after["nll"] < fitted.before["nll"]


def test_weights_and_units_carry_the_judgement():
    """Rows that are worse but hardly weigh do not decide; and by unit the same rows are fewer."""
    z, y = calibrated(2000, 4)
    plain = calcli.fit(z, y, "hb", bins=1)
    light = calcli.fit(z, y, "hb", bins=1, weights=np.full(2000, 1e-4))
    assert plain.status == light.status == "degenerate"
    copies = calcli.fit(
        np.repeat(z[:20], 100, axis=0),
        np.repeat(y[:20], 100),
        "hb",
        bins=1,
        units=np.repeat(np.arange(20), 100),
    )
    change = copies.after["nll"] - copies.before["nll"]
    assert change * 2000 > OWN_NOISE and CLEARLY > 1
    alone = calcli.fit(z[:20], y[:20], "hb", bins=1)
    assert copies.status == alone.status


def test_strict_fails(run):
    z, y = calibrated(1000, 4)
    with h5py.File("a.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    one_bin = ["fit", "-m", "hb", "--set", "bins=1", "a.h5", "-o", "a.json", "--force"]
    done = run(*one_bin)
    assert done.code == 0 and WORSE in done.err
    assert run(*one_bin, "--strict").code == 4
    assert run("fit", "-m", "ts", "a.h5", "-o", "b.json", "--strict").code == 0


@pytest.mark.parametrize(
    "name", [m for m in method_names() if m not in ("recal", "prior")]
)
def test_no_method_is_ok_where_it_clearly_harms(name):
    """Of every method: where the NLL of its own rows rose by more than its noise, the status says so."""
    z, y = calibrated(400, 3, seed=3)
    groups = np.arange(400) % 2 if name.endswith("-by") else None
    fitted = calcli.fit(z, y, name if groups is None else name[:-3], groups=groups)
    rise = (fitted.after["nll"] - fitted.before["nll"]) * 400
    assert rise <= 5 * OWN_NOISE or fitted.status != "ok"
    assert not said(fitted) or fitted.status != "ok"
