"""Every reproduction of a paper runs, small; what the numbers are is tested where they come from."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from metric_cases import draw_labels, softmax

pytestmark = pytest.mark.slow

REPRODUCTIONS = sorted((REPOSITORY / "reproductions").glob("*.py"))


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Two parts of the sample digits as the npz files that the scripts take."""
    folder = tmp_path_factory.mktemp("reproductions")
    with h5py.File(REPOSITORY / "sample_data" / "digits.h5") as file:
        parts = [
            (file[g]["logits"][()], file[g]["labels"][()]) for g in ("cal", "test")
        ]
    for name, (z, y) in zip(("one", "two"), parts, strict=True):
        np.savez(folder / f"{name}.npz", logits=z, labels=y)
    return folder


def script(name, *words, cwd):
    path = REPOSITORY / "reproductions" / f"{name}.py"
    return subprocess.run(
        [sys.executable, path, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("path", REPRODUCTIONS, ids=lambda path: path.stem)
def test_help_says_how_to_call_it(path, tmp_path):
    done = script(path.stem, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout
    assert f"python reproductions/{path.name} " in path.read_text(encoding="utf-8")


def test_verified_calibration(tmp_path):
    """Scores half as large again as they should be: every claim is judged at every point, every figure is drawn."""
    pytest.importorskip("matplotlib")
    rng = np.random.RandomState(1)
    z = rng.normal(size=(2000, 3)) * 2
    np.savez(tmp_path / "s.npz", logits=1.5 * z, labels=draw_labels(softmax(z), rng))
    np.savez(tmp_path / "t.npz", logits=2 * z, labels=draw_labels(softmax(z), rng))
    small = ("--trials", 2, "--resamples", 20, "--sets", 10, "--bins", "10,100")
    done = script(
        "verified_calibration", "s.npz", "t.npz", "-o", "p", *small, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads((tmp_path / "p" / "verified_calibration.json").read_text())
    assert len(done.stdout.splitlines()) == len(numbers["claims"]) == 20
    for claim in numbers["claims"]:
        points = claim["bins"] if "bins" in claim else claim["rows"]
        assert {
            name: len(verdicts) for name, verdicts in claim["verdicts"].items()
        } == dict.fromkeys("st", len(points))
        assert {word for verdict in claim["verdicts"].values() for word in verdict} <= {
            "met",
            "not met",
            "undecided",
        }
    for network in numbers["networks"].values():
        for row in network["lower bound"]:
            assert row["l1"] <= row["l2"] + 1e-12  # Jensen
        noisy = next(row for row in network["estimators"] if row["bins"] == 100)
        assert (
            noisy["plugin"]["squared_error"]["mean"]
            > noisy["debiased"]["squared_error"]["mean"]
        )
        assert [row["bins"] for row in network["known truth"]] == [15, 100]
    for name in (
        "lower_bounds",
        "error_over_bins",
        "marginal_and_difference",
        "estimators",
        "distributions",
    ):
        assert is_png(tmp_path / "p" / f"{name}.png")


def test_ranks_over_models(digits):
    done = script(
        "ranks_over_models",
        "one.npz",
        "two.npz",
        "--methods",
        "ts,ec",
        "--metrics",
        "nll",
        cwd=digits,
    )
    assert done.returncode == 0, done.stderr
    head, row = done.stdout.splitlines()[-2:]
    assert "average ranks over 2 bundles" in done.stdout
    assert head.endswith("p (Iman-Davenport)")
    ranks = [float(word) for word in row.split()[1:4]]
    assert sum(ranks) == pytest.approx(6.0)  # 1 + 2 + 3, on average over bundles too


def test_expectation_consistency_table1(digits):
    """A stand-in under a published name: the row is printed, the cells disagree, and the exit code says so."""
    (digits / "cifar100_resnet20.npz").write_bytes((digits / "one.npz").read_bytes())
    done = script(
        "expectation_consistency_table1",
        ".",
        "--halves",
        2,
        "--only",
        "cifar100_resnet20",
        cwd=digits,
    )
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert lines[2].split()[0] == "cifar100_resnet20"
    assert lines[-1].endswith("of 9")


def test_expectation_consistency_theory_prints_rows_and_draws_figures(tmp_path):
    """The numbers are tested in test_teacher_student.py; here that all of it is written and drawn."""
    pytest.importorskip("matplotlib")
    done = script(
        "expectation_consistency_theory",
        "-o",
        "f",
        "--short",
        "--runs",
        2,
        "--dimension",
        40,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1 + 3 * 2
    numbers = json.loads(
        (tmp_path / "f" / "expectation_consistency_theory.json").read_text()
    )
    assert {row["which"] for row in numbers["theory"]} == {"small", "error", "loss"}
    # The paper: after calibration EC has the smaller error, for all three ridges.
    assert all(row["half_ece"][2] < row["half_ece"][1] for row in numbers["theory"])
    assert all(is_png(tmp_path / "f" / f"figure{j}.png") for j in (4, 5, 6))


def test_hoki_tables(digits):
    """Hoki is in every table, with every number of bins; the chosen family is one of the two that the paper has."""
    pytest.importorskip("matplotlib")
    few = ("--methods", "ts,hoki", "--seeds", 1, "--halves", 2)
    done = script("hoki_tables", "one.npz", "-o", "h", *few, cwd=digits)
    assert done.returncode == 0, done.stderr
    stored = json.loads((digits / "h" / "hoki_tables.json").read_text())["files"]["one"]
    assert {name: len(row) for name, row in stored["ece"].items()} == {
        "uncalibrated": 6,
        "ts": 6,
        "hoki": 6,
    }
    assert stored["seconds"]["hoki"][0] > 0
    for half in stored["halves"]:
        assert half["noise"] == max(half["families"], key=half["families"].get)
        assert set(half["families"]) == {"gaussian", "uniform"}
        assert half["bounds"][1] > half["bounds"][0] > half["ece"]
    assert is_png(digits / "h" / "variance.png")


def test_temperatures(digits):
    """Three temperatures and errors a half; the least error is no larger than those of both methods."""
    pytest.importorskip("matplotlib")
    done = script(
        "temperatures",
        "one.npz",
        "two.npz",
        "-o",
        "t",
        "--halves",
        2,
        "--workers",
        2,
        cwd=digits,
    )
    assert done.returncode == 0, done.stderr
    files = json.loads((digits / "t" / "temperatures.json").read_text())["files"]
    assert list(files) == ["one", "two"]
    for file in files.values():
        assert np.shape(file["temperatures"]) == (2, 3)
    assert is_png(digits / "t" / "temperature.png")


def test_corrupted_labels(tmp_path, real):
    """Seed 0 of ResNet-20, against a prototype in float64 with an independent bracketing solver."""
    np.savez(tmp_path / "cifar100_resnet20.npz", **real("cifar100_resnet20"))
    done = script("corrupted_labels", ".", "--seeds", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    line = next(
        line
        for line in done.stdout.splitlines()
        if line.startswith("cifar100_resnet20")
    )
    figures_of_line = [float(cell.partition("(")[0]) for cell in line.split()[1:]]
    oracle = (
        38.38,
        2.11648,
        1.73094,
        17.38499,
        10.20245,
        4.68137,
        57.36016,
        55.25455,
        53.94302,
    )
    assert figures_of_line == pytest.approx(oracle, abs=6e-4)  # printed to three places


def test_guo_tables(digits):
    pytest.importorskip("matplotlib")
    done = script(
        "guo_tables", "one.npz", "-o", "g", "--halves", 2, "--draw", "one", cwd=digits
    )
    assert done.returncode == 0, done.stderr
    stored = json.loads((digits / "g" / "guo_tables.json").read_text())["files"]["one"]
    assert {len(value) for value in stored["ece"].values()} == {2}
    assert (
        stored["scores"]["temperature"]["error"]
        == stored["scores"]["uncalibrated"]["error"]
    )
    assert (
        stored["scores"]["temperature"]["nll"] < stored["scores"]["uncalibrated"]["nll"]
    )
    assert set(stored["seconds"]) == set(stored["scores"]) - {"uncalibrated"}
    assert is_png(digits / "g" / "reliability_one.png")


def test_recal_figures(tmp_path):
    """Every transform gives each group that holds rows one rank."""
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(600, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    moved = np.stack(
        [2 * z * share + rng.normal(size=z.shape) for share in (0.3, 0.6, 0.8)]
    )
    specs = np.array(["zoom:0.3", "zoom:0.6", "brightness:0.8"])
    np.savez(
        tmp_path / "s.npz",
        logits=2 * z,
        labels=y,
        transformed_logits=moved,
        transforms=specs,
    )
    done = script(
        "recal_figures", "s.npz", "-o", "r", "--halves", 2, "--rounds", 3, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    stored = json.loads((tmp_path / "r" / "recal_figures.json").read_text())
    for start in ("raw", "after one temperature"):
        for spec, of_spec in stored["groups"][start].items():
            filled = [
                rank
                for rank, rows in zip(of_spec["ranks"], of_spec["rows"], strict=True)
                if rows
            ]
            assert sum(of_spec["rows"]) == 300 and sorted(filled) == list(
                range(1, len(filled) + 1)
            ), spec
        assert (
            np.sum(stored["ranks"][start]["zoom"]) <= 8
            and np.sum(stored["ranks"][start]["brightness"]) <= 4
        )
    assert {len(of_spec["brier_top"]) for of_spec in stored["scores"].values()} == {2}
    assert {
        len(path) for paths in stored["ece_after_round"].values() for path in paths
    } == {4}
    assert is_png(tmp_path / "r" / "recal_ranks.png")


def test_the_ranks_of_the_groups_are_those_of_the_specification(tmp_path, real):
    """CIFAR-10 ResNet-20, first half, raw scores: rank counts of groups 1-4, from an independent program."""
    real("cifar10_resnet20_transformed")
    sys.path.insert(0, str(REPOSITORY / "reproductions"))
    try:
        import recal_figures as figures
    finally:
        sys.path.pop(0)
    data = real("cifar10_resnet20_transformed")
    path = figures.bundle(tmp_path, "first", data, slice(0, 5000))
    groups = figures.groups(path, ["zoom:0.51", "brightness:0.8"], "none")
    assert groups["zoom:0.51"]["rows"] == [134, 2150, 103, 2613]
    assert groups["zoom:0.51"]["ece"] == pytest.approx(
        [0.2922, 0.0766, 0.1445, 0.0265], abs=6e-5
    )
    assert groups["zoom:0.51"]["ranks"] == [4, 2, 3, 1]
    # Nine confidences that both round to 1 are told apart by our logarithms: 2053 and 2815 there.
    assert groups["brightness:0.8"]["rows"] == [59, 73, 2062, 2806]
    assert groups["brightness:0.8"]["ece"][:2] == pytest.approx(
        [0.2122, 0.2352], abs=6e-5
    )
