"""Numbers that the authors' programs give on their own probability file.

Kumar, Liang, Ma (2019) released the probabilities of a CIFAR-10 network and the programs of
their experiments, which Li (2023) repeats. The golden numbers are those of
uncertainty-calibration 0.1.4 (numpy 1.26.4, scikit-learn 1.9.1, 2026-11-21), called as
lower_bounds.py and estimation_error_vs_bins.py of the repository do: numpy's legacy
generator seeded with 0 shuffles the file when it is loaded, and the lower bound shuffles it
once more by the same permutation.

The package fits its Platt scaling with an optimiser that stops at a gradient of 1e-4, about
1e-3 away from the maximum of the likelihood. Its coefficients are given here, so that
everything after them must agree to the printed digits; what our own, exact fit gives is
held to a distance.
"""

import json

import numpy as np
import pytest
from run_calcli import runner

from calcli.binning import BinStats, binned_error, mass_edges
from calcli.methods import sb
from calcli.methods._binary.log_odds import MapFit, Sample, clipped_log_odds
from calcli.methods.platt import PlattScaling, fit_platt
from calcli.methods.sb import ScalingBinning, ScalingBinningOptions
from calcli.statistics.squared_errors import plugin_square, signed_square

BINS = (2, 4, 8, 16, 32, 64, 128)
LOWER_BOUNDS = {
    2: (0.012545, 0.014095, 0.019220, 0.032334, 0.034501, 0.037337, 0.040798),
    1: (0.010316, 0.010316, 0.010351, 0.018868, 0.018813, 0.020447, 0.022172),
}
# get_platt_scaler(…, get_clf=True) on the first 1000 rows shuffled twice, on the first 3000 shuffled once.
PLATT_1000 = (0.6682046053393357, -0.6865637654689491)
PLATT_3000 = (0.5975336503963158, -0.7164740806830282)
# PlattBinnerTopCalibrator(3000, bins): plugin_ce(…) ** 2 and unbiased_square_ce on the other 7000 rows.
PLATT_BINNING = {15: (6.493e-4, 5.586e-4), 100: (1.140e-3, 5.364e-4)}


@pytest.fixture(scope="module")
def shuffled(real):
    """The file in the programs' order: shuffled(times) gives (probs float32, labels)."""
    data = real("cifar10_vgg16_verified")
    order = np.random.RandomState(0).permutation(len(data["labels"]))

    def times(count):
        p, y = data["probs"], data["labels"]
        for _ in range(count):
            p, y = p[order], y[order]
        return p, y

    return times


def top(p, y):
    """Largest entry of each row as stored (rows sum to 1 +- 3e-7), and whether it is right."""
    return p.max(axis=1).astype(np.float64), (p.argmax(axis=1) == y).astype(np.float64)


@pytest.mark.parametrize("norm", LOWER_BOUNDS)
def test_binned_lower_bounds(shuffled, norm):
    """1000 rows fit, the first 2000 choose the bins, 8000 measure; l1 and l2, 2 to 128 bins."""
    confidence, correct = top(*shuffled(2))
    scaled = PlattScaling.curve(clipped_log_odds(confidence, 1e-12), *PLATT_1000)
    got = [
        float(
            binned_error(
                BinStats.of(
                    scaled[2000:], correct[2000:], mass_edges(scaled[:2000], bins)
                ),
                norm,
            )
        )
        for bins in BINS
    ]
    assert got == pytest.approx(LOWER_BOUNDS[norm], abs=6e-7)  # six printed digits


def test_a_lower_bound_can_dip(shuffled):
    """The l1 bound falls from 16 to 32 bins: bins of equal mass do not nest exactly."""
    confidence, correct = top(*shuffled(2))
    s = clipped_log_odds(confidence, 1e-12)
    scaled = PlattScaling.curve(s, *fit_platt(Sample(s[:1000], correct[:1000])).params)
    cuts = [set(mass_edges(scaled[:2000], bins)) for bins in (16, 32)]
    assert not cuts[0] <= cuts[1]
    coarse, fine = (
        float(
            binned_error(
                BinStats.of(scaled[2000:], correct[2000:], np.array(sorted(cut))), 1
            )
        )
        for cut in cuts
    )
    assert coarse > fine
    both = np.array(sorted(cuts[0] | cuts[1]))  # a true refinement never lowers it
    assert (
        float(binned_error(BinStats.of(scaled[2000:], correct[2000:], both), 1))
        >= coarse
    )


@pytest.mark.parametrize("bins", PLATT_BINNING)
def test_platt_binning(shuffled, bins, monkeypatch):
    """Scaling-binning of the top label on the first 3000 rows, measured on the others by its own values."""
    confidence, correct = top(*shuffled(1))
    s = clipped_log_odds(confidence, 1e-12)
    exact = fit_platt(Sample(s[:3000], correct[:3000])).params
    assert exact == pytest.approx(PLATT_3000, abs=2e-3)
    monkeypatch.setattr(sb, "fit_platt", lambda *rows, **how: MapFit(PLATT_3000))
    fitted = ScalingBinning.fit_map(
        Sample(s[:3000], correct[:3000]), ScalingBinningOptions(bins=bins)
    )
    q = ScalingBinning.curve(s[3000:], *fitted.params)
    values = np.unique(q)
    of_bins = BinStats.of(
        q, correct[3000:], np.array([0.0, *(values[:-1] + values[1:]) / 2, 1.0])
    )
    # four printed digits
    assert float(plugin_square(of_bins)) == pytest.approx(
        PLATT_BINNING[bins][0], rel=5e-4
    )
    assert float(signed_square(of_bins)) == pytest.approx(
        PLATT_BINNING[bins][1], rel=1e-4
    )


def test_platt_binning_from_the_command_line(shuffled, monkeypatch, capsys, tmp_path):
    """The same by commands: ``evaluate`` sees the few values and makes each its own bin."""
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    p, y = shuffled(1)
    np.savez("probs.npz", probs=p, labels=y)
    assert (
        run(
            "extract",
            "probs.npz",
            "-o",
            "p.h5",
            "--split",
            "cal=0:3000",
            "--split",
            "test=rest",
        ).code
        == 0
    )
    for bins, (plugin, debiased) in PLATT_BINNING.items():
        assert (
            run(
                "fit",
                "--method",
                "sb",
                "p.h5",
                "-o",
                f"{bins}.json",
                "--set",
                f"bins={bins}",
            ).code
            == 0
        )
        asked = ("-m", "tce2_plugin", "-m", "tce2", "--resamples", 1)
        done = run("evaluate", "p.h5", "-c", f"{bins}.json", *asked, "--json")
        metrics = json.loads(done.out)["results"][1]["metrics"]
        # our exact Platt fit lowers them by .1 % and .3 %
        assert metrics["tce2_plugin"]["value"] ** 2 == pytest.approx(plugin, rel=3e-3)
        assert metrics["tce2"]["signed_square"] == pytest.approx(debiased, rel=3e-3)
        assert "scheme:values" in metrics["tce2"]["signature"]


def test_uncalibrated_from_the_command_line(shuffled, monkeypatch, capsys, tmp_path):
    """get_ece, get_ece_em, get_calibration_error of the uncalibrated file; order does not matter."""
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    p, y = shuffled(1)
    np.savez("probs.npz", probs=p, labels=y)
    assert run("extract", "probs.npz", "-o", "p.h5").code == 0
    published = {
        "accuracy": 0.9359,
        "ece": 0.0397800,
        "ece_mass": 0.0397167,
        "tce2": 0.0776820,
        "tce2_plugin": 0.0781007,
        "marginal2": 0.0106713,
        "marginal2_plugin": 0.0117782,
    }
    asked = [word for name in published for word in ("-m", name)]
    done = run(
        "evaluate", "p.h5", *asked, "--compat", "verified", "--resamples", 1, "--json"
    )
    metrics = json.loads(done.out)["results"][0]["metrics"]
    for name, number in published.items():
        assert metrics[name]["value"] == pytest.approx(number, abs=1e-7), name
