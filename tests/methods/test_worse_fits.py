"""A fit that makes its own rows worse is never ``ok``."""

import h5py
import numpy as np
import pytest
from synthetic import truth

import calcli
from calcli.fitting.claims import Claim
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


# ---- a fit that claims more than its rows can show


def soft(n, k=4, wrong=0, seed=2):
    """Logits of a soft model: three rows in four are right by 2, one by 1.5; the first may be wrong, by .01."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    z = np.zeros((n, k))
    z[np.arange(n), y] = np.where(np.arange(n) % 4 == 0, 1.5, 2.0)
    at = np.arange(wrong)
    z[at, y[at]] = 0.0
    z[at, (y[at] + 1) % k] = 0.01
    return z, y


@pytest.mark.parametrize(("expected", "too_large"), [(0.0512, True), (0.0514, False)])
def test_a_claim_is_too_large_where_an_error_would_hardly_happen(expected, too_large):
    """1 - exp(-E) is .05 at E = .051293."""
    assert Claim(expected, right=300.0, wrong=0.0).is_too_large is too_large


@pytest.mark.parametrize("name", ["hb", "ir", "ts", "ec"])
def test_certainty_from_rows_that_are_all_right_is_not_ok(name):
    fitted = calcli.fit(*soft(300), name)
    assert fitted.status != "ok" and fitted.warnings


def test_a_temperature_that_rounding_calls_optimal_is_at_its_bound():
    """Where all rows are right by 15 the slope of the NLL is 0 in float64 before T is; it was ``ok`` at T = .01."""
    z, y = soft(50)
    fitted = calcli.fit(10.0 * z, y, "ts", kind="logits")
    assert (fitted.params["temperature"], fitted.status) == (0.01, "at_bound")


def test_a_temperature_that_one_wrong_row_holds_is_not_ok():
    """T is .15 by a row that is wrong by .01. The 49 others have 1 - p of 1e-4 and less, and show a rate below
    1 - .05^(1/49) = .0593 only: of a new row that is wrong by 2 the NLL becomes 13."""
    z, y = soft(50, wrong=1)
    fitted = calcli.fit(z, y, "ts")
    p = fitted.predict_proba(z)[1:]
    assert (1.0 - p.max(axis=1)).max() < 2e-4
    assert fitted.status == "degenerate"
    assert any("below 5.9%, and" in warning for warning in fitted.warnings)


def test_auto_says_what_rows_that_are_all_right_show():
    """The 95 % limit of the error rate is 1 - .05^(1/300) = .00994."""
    fitted = calcli.fit(*soft(300), "auto")
    about_claims = [
        warning for warning in fitted.warnings if "all predictions" in warning
    ]
    assert len(about_claims) == 1 and "below 0.99%" in about_claims[0]
    assert fitted.status == "ok"
    assert fitted.after["nll"] < fitted.before["nll"]


def test_a_claim_counts_units():
    """Four units of 75 rows show a rate below 1 - .05^(1/4) = .527."""
    z, y = soft(300)
    fitted = calcli.fit(z, y, "auto", units=np.arange(300) % 4)
    assert any("below 53%" in warning for warning in fitted.warnings)


def test_rows_with_errors_and_scores_that_stay_say_nothing():
    for fitted in (
        calcli.fit(*calibrated(300, 4), "auto"),
        calcli.fit(*soft(300), "identity"),
    ):
        assert not any("error rate" in warning for warning in fitted.warnings)
