"""calcli adapt: class frequencies from unlabelled rows, the gate, the check of the assumption, and what is refused."""

import json
import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest
from synthetic import truth

import calcli
from calcli.adapt import Adapted
from calcli.io.artifact import load
from calcli.statistics.label_shift import (
    Sampling,
    Shift,
    Source,
    class_shares,
    estimate_shift,
)
from calcli.statistics.units import Units
from calcli.statistics.weights import effective_weights

P = np.array(
    [
        [0.7, 0.2, 0.1],
        [0.6, 0.3, 0.1],
        [0.1, 0.8, 0.1],
        [0.2, 0.2, 0.6],
        [0.8, 0.1, 0.1],
    ]
)
S = np.array([0.5, 0.3, 0.2])


@pytest.mark.parametrize(
    ("prior_rows", "expected"),
    [
        # QuaPy 0.1.9's EMQ with epsilon 1e-12 gives these to 3e-12; its default epsilon of 1e-4 does not.
        (0, [0.4336001856, 0.3739883646, 0.1924114498]),
        # The same EM with three rows of shares S added, computed outside this code.
        (3, [0.4779521707, 0.3229395980, 0.1991082313]),
    ],
)
def test_shares_of_five_rows(prior_rows, expected):
    # SETTLED is 1e-9 a step
    assert class_shares(P, S, prior_rows) == pytest.approx(expected, abs=2e-8)


def test_resamples_at_once_equal_one_at_a_time():
    counts = np.random.default_rng(0).integers(0, 4, size=(5, 6)).astype(float)
    together = class_shares(P, S, 3, counts)
    for r in range(6):
        rows = np.repeat(np.arange(5), counts[:, r].astype(int))
        assert together[:, r] == pytest.approx(class_shares(P[rows], S, 3), abs=1e-7)


def test_a_class_that_the_source_lacks_keeps_its_share():
    q = class_shares(P, S, 0, fixed=np.array([False, False, True]))
    assert q[2] == 0.2 and q.sum() == pytest.approx(1)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def population(n, shares, seed, noise=1.0):
    """Rows of four classes whose true probabilities under even shares are softmax(z); logits, labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n, p=shares)
    x = 2.0 * np.eye(4)[y] + noise * rng.normal(size=(n, 4))
    return 2.0 * x, y


KNOWN = ("--from", ".5,.5", "--prior", ".9,.1")

EVEN, RARE = np.full(4, 0.25), np.array([0.7, 0.1, 0.1, 0.1])


def test_the_true_shares_are_found_and_their_intervals_hold_them():
    """Of 40 intervals of 95 % at least 33 hold the truth: fewer have a chance below .001 (binomial)."""
    n_covered = 0
    for seed in range(10):
        (zs, ys), (zt, _) = (
            population(2000, EVEN, seed),
            population(2000, RARE, 100 + seed),
        )
        source = Source(softmax(zs), ys, softmax(zs))
        shift = estimate_shift(
            softmax(zt), softmax(zt), source, 99, np.random.default_rng(seed)
        )
        assert shift.shares == pytest.approx(RARE, abs=0.05)
        assert shift.ratio_p == 0.01
        n_covered += int(((shift.low <= RARE) & (shift.high >= RARE)).sum())
    assert n_covered >= 33


@pytest.mark.slow
def test_the_gate_and_the_check_keep_their_levels():
    """60 sets without shift, N = n = 400: rejections at .05 and .01 stay where a binomial allows them (p < .001)."""
    opened = refused = 0
    for seed in range(60):
        (zs, ys), (zt, _) = (
            population(400, EVEN, 1000 + seed),
            population(400, EVEN, 2000 + seed),
        )
        source = Source(softmax(zs), ys, softmax(zs))
        shift = estimate_shift(
            softmax(zt), softmax(zt), source, 99, np.random.default_rng(seed)
        )
        opened, refused = (
            opened + (shift.ratio_p <= 0.05),
            refused + (shift.distance_p <= 0.01),
        )
    assert opened <= 10 and refused <= 4


def in_units(units, rows, seed):
    """Units of rows that share their class: no more is known of the shares than by units."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), rows)
    y = rng.integers(0, 3, units)[unit]
    return 1.5 * np.eye(3)[y] + rng.normal(size=(len(y), 3)), y, Units.of(unit)


def test_rows_of_a_unit_do_not_count_as_independent():
    """Without a shift: 13 of these 20 were "changed" by rows; beyond 4 p < .003 at .05."""
    changed = 0
    for seed in range(20):
        zs, ys, units = in_units(60, 8, [3, seed])
        zt, _, new = in_units(60, 8, [4, seed])
        source = Source(softmax(zs), ys, softmax(zs), Sampling.of(480, units))
        shift = estimate_shift(
            softmax(zt),
            softmax(zt),
            source,
            99,
            np.random.default_rng(seed),
            Sampling.of(480, new),
        )
        changed += shift.ratio_p <= 0.05
    assert changed <= 4


def test_weights_of_the_new_shares_leave_nothing_to_adapt():
    """The weights of the source are those of the population that the new rows are of."""
    zs, ys = population(2000, EVEN, 5)
    zt, _ = population(2000, RARE, 6)
    weight = (RARE / EVEN)[ys]
    weight *= weight.sum() / (weight @ weight)
    p = softmax(zs + np.log(RARE / EVEN))
    source = Source(p, ys, softmax(zs), Sampling.of(2000, weight=weight))
    assert source.shares == pytest.approx(RARE, abs=0.03)
    shift = estimate_shift(
        softmax(zt + np.log(RARE / EVEN)),
        softmax(zt),
        source,
        99,
        np.random.default_rng(0),
    )
    assert shift.ratio_p > 0.01  # the least of 99 draws; by rows it is that
    assert shift.distance_p > 0.01


@pytest.mark.parametrize("weighted", ["new rows", "source"])
def test_unequal_weights_keep_the_levels(weighted):
    """20 sets without a shift: more than 4 below .05, or 2 at .01, have p < .003.

    Weights are lognormal, sigma 1.5. Where the simulated new rows were as many as the
    rows, not as their weights tell, the check refused most sets.
    """
    changed = refused = 0
    for seed in range(20):
        rng = np.random.default_rng([5, seed])
        weight = effective_weights(np.exp(1.5 * rng.normal(size=400)))
        (zs, ys), (zt, _) = (
            population(400, EVEN, 3000 + seed),
            population(400, EVEN, 4000 + seed),
        )
        unequal = Sampling.of(400, weight=weight)
        equal = Sampling.of(400)
        of_source, of_new = equal, unequal
        if weighted == "source":
            of_source, of_new = unequal, equal
        source = Source(softmax(zs), ys, softmax(zs), of_source)
        shift = estimate_shift(softmax(zt), softmax(zt), source, 99, rng, of_new)
        changed += shift.ratio_p <= 0.05
        refused += shift.distance_p <= 0.01
    assert changed <= 4 and refused <= 2


def test_effective_units_are_units_of_equal_weight():
    """By hand: Kish's number of 1, 1, 4 is 36 / 18 = 2."""
    assert Sampling.of(3, weight=np.array([1.0, 1.0, 4.0])).effective_units == 2
    units = Units.of(np.array([0, 1, 1, 1, 2]))
    assert Sampling.of(5, units).effective_units == 3
    unequal = Sampling.of(5, units, np.array([1.0, 1.0, 1.0, 1.0, 4.0]))
    assert unequal.effective_units == 2


# ---- the command


def write(name, z, y=None, weights=None):
    with h5py.File(name, "w") as file:
        file["logits"] = z
        if y is not None:
            file["labels"] = y
        if weights is not None:
            file["weights"] = weights


@pytest.fixture
def run(run):
    write("cal.h5", *population(1500, EVEN, 1))
    assert run("fit", "--method", "svs", "cal.h5", "-o", "svs.json", "-q").code == 0
    return run


def test_from_unlabelled_rows_to_a_better_nll(run):
    z, y = population(1500, RARE, 2)
    write("new.h5", z)
    write("labelled.h5", z, y)
    done = run(
        "adapt", "svs.json", "new.h5", "--source", "cal.h5", "-o", "new.json", "--json"
    )
    output = json.loads(done.out)
    assert done.code == 0 and output["adapted"] and output["method"] == "svs+prior"
    assert [row["target"] for row in output["classes"]] == pytest.approx(RARE, abs=0.04)
    assert all(row["ci"][0] < row["target"] < row["ci"][1] for row in output["classes"])
    before, after = (calcli.load(name) for name in ("svs.json", "new.json"))
    p, q = before.predict_proba(z), after.predict_proba(z)
    source, target = (
        np.array([row[name] for row in output["classes"]])
        for name in ("source", "target")
    )
    moved = p * target / source
    assert q == pytest.approx(moved / moved.sum(axis=1, keepdims=True), abs=1e-12)
    rows = np.arange(len(y))
    assert np.log(q[rows, y]).mean() > np.log(p[rows, y]).mean() + 0.05
    assert run("apply", "new.json", "new.h5", "-o", "out.h5", "-q").code == 0
    assert run("inspect", "new.json").code == 0
    assert (
        run(
            "export",
            "new.json",
            "--to",
            "python",
            "-o",
            "m.py",
            "--check",
            "labelled.h5",
            "-q",
        ).code
        == 0
    )


def test_without_a_change_the_calibrator_stays(run):
    write("same.h5", population(600, EVEN, 5)[0])
    done = run("adapt", "svs.json", "same.h5", "--source", "cal.h5", "-o", "same.json")
    assert done.code == 0 and "no significant change" in done.err
    assert load("same.json").method == "svs"


def test_other_inputs_are_refused(run):
    write("noisy.h5", population(800, EVEN, 5, noise=2.5)[0])
    done = run(
        "adapt", "svs.json", "noisy.h5", "--source", "cal.h5", "-o", "noisy.json", "-q"
    )
    assert done.code == 4 and "inputs have changed" in done.line
    forced = run(
        "adapt",
        "svs.json",
        "noisy.h5",
        "--source",
        "cal.h5",
        "-o",
        "noisy.json",
        "--again",
        "-q",
    )
    assert forced.code == 0


def test_known_shares_need_no_rows(run):
    assert (
        run(
            "adapt", "svs.json", "--prior", "0.7,0.1,0.1,0.1", "-o", "known.json", "-q"
        ).code
        == 0
    )
    params = calcli.load("known.json").params["stages"][-1]["params"]
    assert params["target"] == pytest.approx(RARE)
    counts = np.bincount(population(1500, EVEN, 1)[1], minlength=4) + 0.5
    assert params["source"] == pytest.approx(counts / counts.sum())


@pytest.mark.parametrize("name", ["platt", "svs", "ft+svs", "nothing"])
def test_all_predictions_that_changed_are_counted(run, name):
    """Those of the whole calibrator against the scores, not those of its first stage."""
    z, y = population(600, EVEN, 3)
    write("two.h5", z[:, :2] + [0.5, 0.0], y % 2)
    before = ["--from", "0.5,0.5"]
    if name != "nothing":
        assert run("fit", "-m", name, "two.h5", "-o", "two.json", "-q").code == 0
        before = ["two.json"]
    adapted = run("adapt", *before, "--prior", "0.1,0.9", "-o", "moved.json", "-q")
    assert adapted.code == 0
    done = run("apply", "moved.json", "two.h5", "-o", "out.h5")
    with h5py.File("out.h5") as out, h5py.File("two.h5") as two:
        changed = out["prediction"][()] != two["logits"][()].argmax(axis=1)
    assert changed.any()
    assert f"{changed.sum()} of 600 rows: predictions changed" in done.err


def test_known_shares_of_training_need_no_calibrator(run):
    """Undersampling by b: p becomes p b / (p (b - 1) + 1), Dal Pozzolo et al. (2015).

    Class 1 has the share b / (1 + b) where both were trained at 1/2.
    """
    b = 0.02
    now = f"{1 / (1 + b)!r},{b / (1 + b)!r}"
    done = run("adapt", "--from", ".5,.5", "--prior", now, "-o", "p.json")
    assert done.code == 0
    p = np.array([0.18235326, 0.30309956, 0.85084407])
    with h5py.File("new.h5", "w") as file:
        file["probs"] = np.stack([1 - p, p], axis=1)
    assert run("apply", "p.json", "new.h5", "-o", "out.npz", "-q").code == 0
    stored = np.load("out.npz")["probs"][:, 1]
    assert stored == pytest.approx(p * b / (p * (b - 1) + 1), rel=1e-12)
    assert load("p.json").fit.n == 0


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--from", ".5,.5"), "goes with --prior"),
        (("svs.json", "--from", ".5,.5", "--prior", ".9,.1"), "in place of"),
        (("--from", ".5,.6", "--prior", ".9,.1"), "2 positive shares that sum to 1"),
        (("--from", ".5,.5", "--prior", ".9,.05,.05"), "2 positive shares"),
        ((), "name a calibrator"),
        ((*KNOWN, "--kind", "confidence"), "expected one of logits"),
        ((*KNOWN, "--kind", "xx"), "--kind"),
        ((*KNOWN, "--source", "s.npz"), "--from reads no rows"),
        ((*KNOWN, "--unit", "x"), "--from reads no rows"),
        ((*KNOWN, "--again"), "--from reads no rows"),
        ((*KNOWN, "--seed", "3"), "--from reads no rows"),
    ],
)
def test_shares_that_say_nothing_are_refused(run, words, part):
    refused = run("adapt", *words, "-o", "none.json")
    assert refused.code == 2 and part in refused.line


def test_shares_that_the_rows_contradict_are_said(run):
    write("rare.h5", population(1500, RARE, 7)[0])
    words = ("--prior", "0.1,0.1,0.1,0.7", "-o", "against.json")
    done = run("adapt", "svs.json", "rare.h5", *words)
    assert done.code == 0
    assert "warning: the rows contradict --prior: class 3 0.700, where" in done.err


@pytest.mark.slow
def test_true_shares_of_many_classes_are_rarely_called_contradicted():
    """Level .05 of all ten classes together: more than 6 of 40 have chance .003."""
    target = np.r_[0.3, np.full(9, 0.7 / 9)]
    contradicted = 0
    for seed in range(40):
        z, y = ten_classes(1500, np.full(10, 0.1), [1, seed])
        z_new, _ = ten_classes(1000, target, [2, seed])
        source = Source(softmax(2.5 * z), y, softmax(z))
        rng = np.random.default_rng(seed)
        p_new = softmax(2.5 * z_new)
        shift = estimate_shift(p_new, softmax(z_new), source, 200, rng)
        adapted = Adapted(None, True, np.full(10, 0.1), target, shift, 1000)
        contradicted += bool(adapted.contradicted)
    assert contradicted <= 6


def ten_classes(n, shares, seed):
    """Logits z whose true probabilities under even shares are softmax(2.5 z); labels."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(10, n, p=shares)
    return 2.5 * np.eye(10)[labels] + rng.normal(size=(n, 10)), labels


def test_a_class_of_tiny_share_without_rows_contradicts_nothing():
    shift = Shift(
        shares=np.array([0.6, 0.399, 0.001]),
        low=np.array([0.57, 0.37, 0.001]),
        high=np.array([0.63, 0.43, 0.002]),
        ratio=0.0,
        ratio_p=1.0,
        distance=0.0,
        distance_p=1.0,
    )
    source = np.array([0.5, 0.499, 0.001])
    target = np.array([0.6, 0.3994, 0.0006])
    assert Adapted(None, True, source, target, shift, 500).contradicted == []


@pytest.mark.parametrize("shares", [EVEN, RARE])
def test_rows_of_weight_0_change_nothing(run, shares):
    """Neither among the new rows nor in the source."""
    z, _ = population(600, shares, 2)
    noise = np.random.default_rng(0).normal(size=(300, 4))
    zeros = np.repeat([1.0, 0.0], [600, 300])
    write("new.h5", z)
    write("new0.h5", np.vstack([z, noise]), weights=zeros)
    zs, ys = population(600, EVEN, 3)
    write("old.h5", zs, ys)
    write("old0.h5", np.vstack([zs, noise]), np.append(ys, np.arange(300) % 4), zeros)
    told = []
    for new in ("new.h5", "new0.h5"):
        for old in ("old.h5", "old0.h5"):
            done = run(
                "adapt",
                "svs.json",
                new,
                "--source",
                old,
                "-o",
                "a.json",
                "--json",
                "--force",
            )
            assert done.code == 0
            told.append(done.out)
    assert len(set(told)) == 1


def test_weights_that_are_all_0_are_refused(run, tmp_path):
    write("zero.h5", population(50, EVEN, 2)[0], weights=np.zeros(50))
    for words in ((), ("--prior", "0.25,0.25,0.25,0.25")):
        done = run("adapt", "svs.json", "zero.h5", *words, "-o", "out.json", "-q")
        assert done.code == 3 and "all weights are zero" in done.line
    write("one.h5", population(50, EVEN, 2)[0], weights=1.0 * (np.arange(50) == 7))
    done = run("adapt", "svs.json", "one.h5", "-o", "out.json", "-q")
    assert done.code == 4 and "one.h5: 1 rows say too little" in done.line
    assert not (tmp_path / "out.json").exists()


def test_calibrators_of_weighted_rows_name_their_rows(run):
    """Counts of labels are not the class frequencies that weights stand for."""
    z, y = population(600, EVEN, 8)
    with h5py.File("weighted.h5", "w") as file:
        file["logits"], file["labels"] = z, y
        file["weights"] = (RARE / EVEN)[y]
    run("fit", "-m", "svs", "weighted.h5", "-o", "weighted.json", "-q")
    words = ("adapt", "weighted.json", "--prior", "0.25,0.25,0.25,0.25")
    refused = run(*words, "-o", "even.json")
    assert refused.code == 3 and "sample weights" in refused.line
    done = run(*words, "--source", "weighted.h5", "-o", "even.json", "-q")
    assert done.code == 0
    source = calcli.load("even.json").params["stages"][-1]["params"]["source"]
    weighted = np.bincount(y, weights=(RARE / EVEN)[y]) / (RARE / EVEN)[y].sum()
    assert source == pytest.approx(weighted, abs=0.03)  # svs has a ridge


@pytest.mark.parametrize("method", ["auto", "vs", "ft+svs"])
def test_every_calibrator_with_class_biases_can_be_adapted_and_loaded(run, method):
    assert run("fit", "--method", method, "cal.h5", "-o", "own.json", "-q").code == 0
    assert (
        run(
            "adapt", "own.json", "--prior", "0.7,0.1,0.1,0.1", "-o", "moved.json", "-q"
        ).code
        == 0
    )
    z, _ = population(50, RARE, 3)
    p = calcli.load("own.json").predict_proba(z)
    assert calcli.load("moved.json").predict_proba(z).sum(axis=0)[0] > p.sum(axis=0)[0]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("ts.json", "--prior", "0.7,0.1,0.1,0.1"), 2, "svs"),
        (("svs.json",), 2, "--prior"),
        (("away.json", "cal.h5"), 2, "(gone.h5) are not here: --source"),
        (("other.json", "cal.h5"), 3, "holds other rows than at the fit"),
        (
            ("old.json", "--prior", "0.7,0.1,0.1,0.1"),
            3,
            "lacks the class frequencies of its fit",
        ),
        (("moved.json", "--prior", "0.7,0.1,0.1,0.1"), 2, "is adapted already"),
        (
            ("svs.json", "cal.h5", "--source", "three.h5"),
            4,
            "inputs have changed too or are of class 3, which three.h5 lacks",
        ),
        (("svs.json", "--prior", "0.7,0.3"), 2, "4 positive shares"),
        (("svs.json", "--prior", "0.7,0.1,0.1,0.2"), 2, "sum to 1"),
        (("svs.json", "--prior", "1,0,0,0"), 2, "positive"),
        (("svs.json", "--prior", "a,b"), 2, "numbers"),
        (("svs.json", "few.h5", "--source", "cal.h5"), 4, "at least 20"),
        (("svs.json", "five.h5", "--source", "cal.h5"), 3, "5"),
        (("svs.json", "cal.h5", "--source", "none.h5"), 3, "labels"),
    ],
)
def test_what_is_refused_writes_nothing(run, tmp_path, words, code, part):
    run("fit", "--method", "ts", "cal.h5", "-o", "ts.json", "-q")
    write("few.h5", population(19, EVEN, 5)[0])
    write("five.h5", np.zeros((100, 5)) + np.arange(5))
    write("none.h5", population(50, EVEN, 5)[0])
    z, y = population(1500, EVEN, 1)
    # a class that the new rows have is absent in the source
    write("three.h5", z[y < 3], y[y < 3])
    run("adapt", "svs.json", "--prior", "0.7,0.1,0.1,0.1", "-o", "moved.json", "-q")
    record = json.loads((tmp_path / "svs.json").read_text())
    fits = {
        "away": {"source": "gone.h5"},
        "other": {"source": "three.h5"},
        "old": {"label_counts": []},
    }
    for name, other in fits.items():
        (tmp_path / f"{name}.json").write_text(
            json.dumps({**record, "fit": {**record["fit"], **other}})
        )
    done = run("adapt", *words, "-o", "out.json", "-q")
    assert done.code == code and part in done.line
    assert not (tmp_path / "out.json").exists()


def test_the_rows_of_the_fit_are_found_by_themselves(run, tmp_path, monkeypatch):
    """In the folder at hand or beside the calibrator, and only if they are those of then."""
    write("new.h5", population(1500, RARE, 2)[0])
    assert run("adapt", "svs.json", "new.h5", "-o", "here.json", "-q").code == 0
    assert (
        run(
            "adapt",
            "svs.json",
            "new.h5",
            "--source",
            "cal.h5",
            "-o",
            "named.json",
            "-q",
        ).code
        == 0
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert (
        run("adapt", "../svs.json", "../new.h5", "-o", "../beside.json", "-q").code == 0
    )
    assert (tmp_path / "named.json").read_bytes() == (
        tmp_path / "here.json"
    ).read_bytes()
    assert (tmp_path / "named.json").read_bytes() == (
        tmp_path / "beside.json"
    ).read_bytes()


def test_an_adapted_calibrator_is_evaluated_without_a_warning_of_class_frequencies(run):
    write("new.h5", *population(1500, RARE, 2))
    assert run("adapt", "svs.json", "new.h5", "-o", "new.json", "-q").code == 0
    errors_of = {
        name: run(
            "evaluate", "new.h5", "-c", f"{name}.json", "--no-decomposition", "--full"
        ).out
        for name in ("svs", "new")
    }
    assert "label frequencies differ significantly" in errors_of["svs"]
    assert "label frequencies" not in errors_of["new"]


def csv_of(path, columns):
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    Path(path).write_text("\n".join([",".join(columns), *lines]) + "\n")
    return path


def test_options_of_columns_are_about_both_files(run):
    """Of a column that one lacks only its name was said; --labels was asked of NEW."""
    z, y = truth(300, 3, temperature=1.5, seed=0)
    p = softmax(z)
    scores = {name: p[:, place] for place, name in enumerate("abc")}
    weights = {"w": np.random.default_rng(0).integers(1, 4, 300)}
    source = csv_of("source.csv", scores | {"truth": y})
    new = csv_of("new.csv", scores | weights)
    options = ("--labels", "truth")
    assert run("fit", source, *options, "-m", "vs", "-o", "a.json").code == 0
    words = ("adapt", "a.json", new, "--source", source, *options, "-o", "b.json")
    refused = run(*words, "--sample-weight", "w")
    assert refused.code == 2
    assert "source.csv: no column is named 'w'" in refused.err
    assert "--sample-weight is about both files" in refused.err
    command = shlex.split(refused.err.partition("to try: ")[2])
    assert run(*command[1:]).code == 0
    done = run(*("new.h5" if word == new else word for word in words))
    assert done.code == 0, done.err
