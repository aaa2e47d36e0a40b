"""The verdict: its level, its power, its kinds, and what it names."""

import json
import re
from inspect import getmembers, isfunction, signature
from math import comb
from pathlib import Path

import h5py
import numpy as np
import pytest
from metric_cases import draw_labels, softmax
from run_calcli import runner
from scipy.stats import norm

import calcli
from calcli.evaluation import findings as findings_module
from calcli.evaluation.cross_validation import decomposed_loss
from calcli.evaluation.facts import FitSize, LossDecomposition, LossPart
from calcli.evaluation.findings import FINDERS, find
from calcli.evaluation.groups import gaps_of_groups
from calcli.evaluation.levels import LEVEL, TEST_LEVELS
from calcli.evaluation.measure_facts import measure_facts, summarise_data
from calcli.evaluation.results import Judgement
from calcli.evaluation.verdict import judge
from calcli.evaluation.words import _LINES
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.joint_test import joint_test
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "levels.json"


def rows_of(n, k, rng, scale=1.0, weight=None):
    """Logits that are ``scale`` times the true ones, with labels."""
    z = rng.normal(size=(n, k)) * 2.5
    return ArrayRows(scale * z, draw_labels(softmax(z), rng), weight=weight)


def judgement_of(rows, seed=0, decomposition=None, group=None, fit=None):
    """The judgement on rows, without metrics. fit : size of the calibrator's fit."""
    table = collect(rows, class_bins=15, group=group)
    context = MetricContext(table, MetricSettings(seed=seed))
    positive = table.k == 2
    facts = measure_facts(
        summarise_data("logits", context),
        context,
        {},
        positive=positive,
        decomposition=decomposition,
        fit=fit,
        groups=gaps_of_groups(context, {}, positive),
    )
    verdict = judge(facts)
    return Judgement(facts, verdict, tuple(find(facts, verdict)))


def most(n, p, tail=1e-3):
    """Smallest count that a binomial exceeds with probability below ``tail``."""
    total, j = 0.0, -1
    while 1 - total > tail:
        j += 1
        total += comb(n, j) * p**j * (1 - p) ** (n - j)
    return j


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "k", "weighted"), [(200, 2, False), (200, 30, False), (300, 4, True)]
)
def test_calibrated_rows_are_called_calibrated(n, k, weighted):
    """5 % of the verdicts may be anything else; 60 replicates (benchmarks/levels.py has more)."""
    rng = np.random.RandomState(n + k)
    alarms = 0
    for seed in range(60):
        weight = rng.random_sample(n) + 0.1 if weighted else None
        judgement = judgement_of(rows_of(n, k, rng, weight=weight), seed)
        verdict = judgement.verdict
        is_clean = verdict.p_overall > LEVEL
        assert is_clean == (not verdict.has_findings)
        assert is_clean == (verdict.kind in ("calibrated", "too_few"))
        if is_clean:
            assert judgement.findings == ()
        alarms += not is_clean
    assert alarms <= most(60, LEVEL)


def test_a_temperature_is_seen():
    """T = .85 at 1000 rows of 10 classes: power .988 asked for; 40 replicates, at most 3 missed."""
    rng = np.random.RandomState(3)
    missed = 0
    for seed in range(40):
        verdict = judgement_of(rows_of(1000, 10, rng, 1 / 0.85), seed).verdict
        missed += verdict.p_overall > LEVEL
    assert missed <= 3


def test_the_draws_have_the_law_of_the_labels():
    """z of gap and entropy gap over many label draws of fixed rows, and the joint p-values uniform."""
    rng = np.random.RandomState(5)
    z = rng.normal(size=(400, 6)) * 2
    p = []
    for seed in range(80):
        table = collect(ArrayRows(z, draw_labels(softmax(z), rng)))
        p.append(joint_test(MetricContext(table, MetricSettings(seed=seed))).p_value)
    assert np.mean(p) == pytest.approx(0.5, abs=4.5 * 0.289 / np.sqrt(80))
    assert min(p) < 0.2 < 0.8 < max(p)


def test_a_calibration_loss_is_a_finding_at_its_own_level():
    """Of rows whose confidence is right, a cross-fitted gain alone is "mixed"; z = 2 is too little."""
    rows = rows_of(2000, 3, np.random.RandomState(6))
    plain = judgement_of(rows)
    assert plain.verdict.p_overall > LEVEL
    gain = LossPart(0.9, 0.8, 0.1, 0.01)
    improvable = judgement_of(
        rows, decomposition=LossDecomposition("svs", 5, gain, gain, gain)
    )
    assert improvable.kind == "mixed"
    assert improvable.verdict.significant == ("split",)
    assert improvable.headline.startswith("miscalibrated in places: ")
    assert improvable.headline.endswith("; by NLL")
    assert improvable.lines == [
        "recalibration could reduce NLL by about 0.100, at least 0.084 (cross-validated)"
    ]
    assert improvable.verdict.p_overall <= LEVEL < improvable.verdict.p_value
    faint = LossPart(0.9, 0.88, 0.02, 0.01)
    with_faint = judgement_of(
        rows, decomposition=LossDecomposition("svs", 5, faint, faint, faint)
    )
    assert with_faint.headline == plain.headline
    assert with_faint.lines == plain.lines


def test_levels_of_the_tests_sum_to_little_more_than_the_level():
    assert sum(TEST_LEVELS.values()) <= 1.3 * LEVEL + 1e-12


def test_the_worst_of_groups_beyond_all_doubt_is_the_one_with_the_largest_gap():
    """Their p-values are rounding errors about 0, which order nothing."""
    rng = np.random.RandomState(1)
    c = 1 - 0.02 * rng.random_sample(4000)
    group = np.arange(4000) % 8
    y = (rng.random_sample(4000) >= c - 0.06 - 0.02 * (group == 5)).astype(np.int64)
    rows = ArrayRows(np.log(np.stack([c, 1 - c], axis=1)), y)
    assert judgement_of(rows, group=group).facts.groups.worst == "5"


def test_groups_that_cancel_are_named(monkeypatch, capsys, tmp_path):
    """One group too sure, one not sure enough, right over all: the default report says which."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(7)
    c = np.full(1200, 0.7)
    group = np.arange(1200) % 3
    y = (rng.random_sample(1200) >= c + np.array([-0.17, 0.17, 0.0])[group]).astype(int)
    with h5py.File("g.h5", "w") as file:
        file["probs"], file["labels"] = np.stack([c, 1 - c], axis=1), y
        file["group"] = np.array(["north", "south", "west"], dtype=object)[group]
    run = runner(monkeypatch, capsys)
    done = run("evaluate", "g.h5", "--json", "-q")
    report = json.loads(done.out)["results"][0]["report"]
    assert report["verdict_kind"] == "mixed"
    assert report["verdict"].startswith("miscalibrated in places: ")
    assert report["verdict"].endswith(" overall; 2 of 3 groups")
    first = report["messages"][0]
    assert first["kind"] == "groups"
    assert (first["n_significant"], first["n_groups"]) == (2, 3)
    assert first["worst"] == report["groups"]["worst"]
    assert first["worst"] in ("north", "south")
    assert abs(report["groups"]["worst_gap"]) == pytest.approx(0.17, abs=0.06)
    assert report["p_overall"] <= LEVEL < report["p_value"]
    assert run("evaluate", "g.h5", "-q").out == f"g.h5: {report['verdict']}\n"
    text = run("evaluate", "g.h5", "--full").out
    assert text.startswith(f"g.h5: {report['verdict']}\n  {first['text']}\n")
    assert "groups: 2 of 3 significant; clearest " in text


def test_random_folds_do_not_find_what_is_not_there():
    """Calibrated rows, 20 classes: the mean calibration part is not above 0 (4 standard errors, 12 data sets)."""
    rng = np.random.RandomState(8)
    findings = []
    for seed in range(12):
        rows = rows_of(400, 20, rng)
        findings.append(
            decomposed_loss(rows, None, collect(rows), seed).nll.calibration
        )
    assert np.mean(findings) <= 4 * np.std(findings) / np.sqrt(12)


def test_p_values_at_the_floor_of_their_draws_are_bounds(monkeypatch, capsys, tmp_path):
    """200 draws cannot give less than 1/201; 20 not less than 1/21."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(9)
    with h5py.File("o.h5", "w") as file:
        rows = rows_of(600, 3, rng, 3.0)
        file["logits"], file["labels"] = rows.scores, rows.y
    run = runner(monkeypatch, capsys)
    text = run("evaluate", "o.h5", "-m", "smece", "-m", "ece").out
    line = next(line for line in text.splitlines() if line.startswith("uncalibrated"))
    assert [part.strip() for part in line.split(" p ")[1:]][-1] == "< 0.001"
    assert " p < 0.005 " in line
    few = run("evaluate", "o.h5", "-m", "ece", "--resamples", "20").out
    assert "p < 0.048" in few


def test_a_set_of_one_outcome_only_is_no_finding():
    """300 rows, mean confidence 1 - 6.8e-7, labels drawn from the scores: all are right, as nearly all draws are.

    A test that compares such draws by their last digits rejects many of these sets (7 of 24).
    """
    for seed in range(24):
        rng = np.random.RandomState(seed)
        z = np.zeros((300, 10))
        z[:, 0] = np.log(9.0 / 10.0 ** rng.uniform(-9.0, -5.2, 300))
        judgement = calcli.evaluate(z, draw_labels(softmax(z), rng)).results[0].report
        assert judgement.kind in ("calibrated", "too_few")
        assert judgement.verdict.p_value > 0.05
        assert judgement.findings == ()


@pytest.mark.parametrize("names", [["cat", "dog", "eel"], None])
def test_the_class_that_is_miscalibrated_is_named(names):
    """Every row states (.4, .3, .3); the labels are drawn from (.4, .2, .4): the confidence is right."""
    y = np.random.RandomState(3).choice(3, 1000, p=[0.4, 0.2, 0.4])
    p = np.tile([0.4, 0.3, 0.3], (1000, 1))
    evaluation = calcli.evaluate(p, y, kind="probs", class_names=names)
    report = evaluation.to_dict()["results"][0]["report"]
    assert report["verdict_kind"] == "mixed"
    assert report["verdict"].endswith("; 2 of 3 classes")
    first = report["messages"][0]
    assert (first["kind"], first["n_significant"]) == ("classes", 2)
    assert first["worst"] in (1, 2)
    name = names[first["worst"]] if names else None
    assert first["name"] == name
    called = f"{first['worst']} ({name})" if names else str(first["worst"])
    assert f"2 of 3 miscalibrated, clearest {called}: 30.0% predicted" in first["text"]
    assert "names" not in report["data"]


@pytest.mark.parametrize("k", [2, 4])
def test_bins_are_judged_up_to_the_error_of_the_fit(k):
    """z over sqrt(2) where fit and test have as many rows; of P(class 1), too."""
    rows = rows_of(900, k, np.random.RandomState(6), scale=1.3)
    exact = judgement_of(rows).facts
    up_to_fit = judgement_of(rows, fit=FitSize(900)).facts
    pairs = list(zip(exact.bins, up_to_fit.bins, strict=True))
    if k == 2:
        pairs.append((exact.class_one_bin, up_to_fit.class_one_bin))
        assert exact.class_one_bin.n == up_to_fit.class_one_bin.n
    n_changed = 0
    for alone, widened in pairs:
        z = norm.isf(alone.p_adjusted / 2) / np.sqrt(2)
        assert widened.p_adjusted == pytest.approx(2 * norm.sf(z), rel=1e-6)
        assert widened.significant == (widened.p_adjusted <= LEVEL)
        n_changed += alone.significant and not widened.significant
    assert n_changed > 0


@pytest.mark.parametrize("k", [2, 4])
def test_the_exact_test_of_a_calibrator_knows_nothing_of_its_fit(k):
    """It finds what is found where its probabilities come without a fit."""
    kinds = set()
    for seed in range(12):
        rng = np.random.RandomState(seed)
        z = rng.normal(size=(1000, k)) * 2.5 + np.linspace(0.0, 0.05 * seed, k)
        y = draw_labels(softmax(z), rng)
        group = rng.choice(["a", "b", "c"], 1000)
        shifted = z + 0.12 * seed * np.isin(group, "a")[:, None] * np.eye(k)[0]
        cal = calcli.fit(shifted[:500], y[:500], "ts", kind="logits")
        test = shifted[500:], y[500:]
        log_p = np.log(cal.predict_proba(test[0]))
        asked = {"groups": group[500:]}
        known = calcli.evaluate(*test, [cal], kind="logits", **asked).results[-1]
        unknown = calcli.evaluate(log_p, y[500:], kind="log_probs", **asked).results[0]
        exact = known.report.verdict.exact
        assert exact.kind == unknown.report.verdict.kind
        assert exact.significant == unknown.report.verdict.significant
        assert exact.p_overall == pytest.approx(unknown.report.verdict.p_overall, 1e-6)
        kinds.add((known.report.verdict.kind, exact.kind))
    assert any(judged != exact for judged, exact in kinds)


@pytest.mark.parametrize(
    ("experiment", "name", "most"),
    [
        # the bar of the joint test's design, for a level of .05 at 1000 sets
        ("level", "not clean", 0.07),
        ("units", "not clean", 0.08),  # 29 cells of 8 to 3000 units
        ("units", "misses 0", 0.08),
        ("promise", "broken", 0.05),
        ("paired", "misses", 0.06),
        ("areas", "auroc misses", 0.06),
        ("areas", "aurc misses", 0.06),
        ("split", "alarms", 0.05),
    ],
)
def test_every_stored_level_has_a_thousand_sets_and_keeps_its_bar(
    experiment, name, most
):
    """The simulations that the documentation quotes; the bars are older than they are."""
    cells = [
        cell
        for cell in json.loads(RECORD.read_text(encoding="utf-8"))
        if cell["experiment"] == experiment
    ]
    assert cells and all(cell["replicates"] >= 1000 for cell in cells)
    assert max(cell["sums"][name][0] / cell["replicates"] for cell in cells) <= most


# ---- few errors, judged by cross-fitting


def certain_with_errors(n_wrong, scale):
    """400 rows of four classes, 40 of them unsure; n_wrong of these are wrong."""
    z = np.zeros((400, 4))
    z[:, 0] = 9.0
    z[:40, 0] = 1.5
    y = np.zeros(400, dtype=int)
    y[:n_wrong] = 1
    return ArrayRows(scale * z, y)


@pytest.mark.parametrize("n_wrong", [1, 3, 4])
def test_few_errors_in_folds_are_no_overconfidence(n_wrong):
    """One of five folds holds all of w errors with chance 5^(1 - w); the fit without them claims certainty."""
    rows = certain_with_errors(n_wrong, scale=20.0)
    folds = judgement_of(rows, fit=FitSize(320, n_folds=5)).verdict
    apart = judgement_of(rows, fit=FitSize(320)).verdict
    assert apart.kind == "overconfident" and apart.significant
    if n_wrong == 4:
        assert (folds.kind, folds.significant) == (apart.kind, apart.significant)
        return
    assert (folds.kind, folds.exact.kind) == ("too_few", "too_few")
    assert not folds.has_findings and folds.p_overall == 1.0


def test_few_errors_do_not_hide_underconfidence():
    rows = certain_with_errors(2, scale=0.2)
    assert (
        judgement_of(rows, fit=FitSize(320, n_folds=5)).verdict.kind == "underconfident"
    )


def test_every_kind_of_finding_has_its_sentence_and_every_sentence_its_finding():
    """A kind that no test data show would otherwise fail where a user's data do."""
    made = set()
    for path in Path(calcli.__file__).parent.joinpath("evaluation").glob("*.py"):
        made |= set(re.findall(r'\bFinding\(\s*"(\w+)"', path.read_text("utf-8")))
    assert made == set(_LINES)


def test_every_function_that_looks_for_a_finding_is_asked():
    """One without ``@finder`` would never be heard."""
    for name, function in getmembers(findings_module, isfunction):
        if list(signature(function).parameters) == ["facts", "verdict"]:
            assert function in FINDERS or function is find, name
