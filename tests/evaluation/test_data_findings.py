"""What is said of samples drawn by class, lacking classes, few events, reversed ranks."""

import warnings

import h5py
import numpy as np
import pytest

import calcli
from calcli.importers.open_any_file import open_data
from calcli.io.row_facts import copies
from calcli.rows import ArrayRows
from calcli.statistics.class_ranking import ClassRanking


def logistic(s):
    return 1.0 / (1.0 + np.exp(-s))


def judged(z, y, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = calcli.evaluate(z, y, **more)
    return evaluation.results[0].report


def kinds(report):
    return [finding.kind for finding in report.findings]


def two(s):
    return np.stack([np.zeros_like(s), s], axis=1)


def balanced(seed=0, per_class=600):
    """Right risks of a rare class, and samples of which half are of that class."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=200_000) * 1.5 - 3.6
    y = (rng.random(len(s)) < logistic(s)).astype(int)
    chosen = [np.flatnonzero(y == c)[:per_class] for c in (0, 1)]
    rows = rng.permutation(np.concatenate(chosen))
    return two(s[rows]), y[rows]


def test_samples_drawn_by_class_are_no_doubt_about_labels():
    # accuracy .55 at a mean confidence above .8: "hardly better than chance"
    z, y = balanced()
    report = judged(z, y)
    assert report.kind != "check_labels" and "labels" not in kinds(report)
    finding = next(one for one in report.findings if one.kind == "sampled")
    assert finding.numbers["observed"] == pytest.approx(0.5)
    assert finding.numbers["predicted"] < 0.2
    assert any("calcli adapt --prior" in line for line in report.lines)


def test_a_shift_of_the_risks_that_is_small_is_not_called_sampling():
    rng = np.random.default_rng(1)
    s = rng.normal(size=20_000)
    y = (rng.random(len(s)) < logistic(s + 0.4)).astype(int)  # odds times 1.5
    report = judged(two(s), y)
    assert report.verdict.has_findings and "sampled" not in kinds(report)


def test_a_hard_task_of_two_classes_is_the_model_s_fault_not_that_of_labels():
    rng = np.random.default_rng(2)
    s = rng.normal(size=3000) * 0.3
    y = (rng.random(3000) < logistic(s)).astype(int)
    report = judged(two(10.0 * s + rng.normal(size=3000) * 0.5), y)
    assert report.facts.accuracy < 0.58 and report.facts.confidence > 0.8
    assert report.kind == "overconfident"


@pytest.mark.parametrize("seed", range(5))
def test_two_classes_of_other_rows_or_in_reverse_are_doubted(seed):
    rng = np.random.default_rng([3, seed])
    s = rng.normal(size=1000) * 2
    y = (rng.random(1000) < logistic(s)).astype(int)
    assert judged(two(s), y).kind != "check_labels"
    assert judged(two(s), 1 - y).kind == "check_labels"
    rare = two(s - 4.0)  # never above 1/2 for most: accuracy tells nothing
    assert judged(rare, 1 - y).kind == "check_labels"


def test_labels_of_other_rows_are_doubted_about_as_often_as_the_error_allows():
    """Two standard errors, one-sided: about .977 of permuted labels."""
    rng = np.random.default_rng(4)
    doubted = 0
    for _ in range(100):
        s = rng.normal(size=500) * 3
        y = rng.permutation((rng.random(500) < logistic(s)).astype(int))
        doubted += judged(two(s), y).kind == "check_labels"
    assert doubted >= 92


def test_the_error_of_a_ranking_by_unit_is_that_of_units():
    """Rows copied within units: the area stays, its error is that of single rows."""
    from calcli.statistics.units import Units

    rng = np.random.default_rng(5)
    s = rng.normal(size=300)
    y = (rng.random(300) < logistic(s)).astype(int)
    once = ClassRanking.of(s, y, None)
    unit = Units.of(np.repeat(np.arange(300), 4))
    four = ClassRanking.of(np.repeat(s, 4), np.repeat(y, 4), unit)
    rows = ClassRanking.of(np.repeat(s, 4), np.repeat(y, 4), None)
    assert four.area == pytest.approx(once.area)
    assert four.se == pytest.approx(once.se, rel=0.02)
    assert rows.se == pytest.approx(once.se / 2.0, rel=0.02)


# ---- a class that is lacking


def without_a_class(n=600, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 5)) * 2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, 4)
    return z, y, y != 4


def test_a_class_that_the_scores_expect_and_the_samples_lack_is_said_first():
    z, y, kept = without_a_class()
    report = judged(z[kept], y[kept])
    first = report.findings[0]
    assert (first.kind, first.numbers["worst"]) == ("lacking", 4)
    p = np.exp(z[kept]) / np.exp(z[kept]).sum(axis=1, keepdims=True)
    assert first.numbers["expected"] == pytest.approx(p[:, 4].sum())
    assert "lacking" not in kinds(judged(z, y))


def test_a_class_that_is_hardly_expected_may_be_lacking():
    z, y, kept = without_a_class()
    z[:, 4] -= 12.0  # .01 samples expected in all
    assert "lacking" not in kinds(judged(z[kept], y[kept]))


def test_auto_leaves_a_lacking_class_its_probability():
    z, y, kept = without_a_class()
    new_z, new_y, _ = without_a_class(4000, seed=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        artifact = calcli.fit(z[kept], y[kept], "auto")
    words = "move probability among the others only"
    assert any(words in str(w.message) for w in caught)
    p = artifact.predict_proba(new_z)
    nll = -np.log(p[np.arange(4000), new_y]).mean()
    raw = np.exp(new_z) / np.exp(new_z).sum(axis=1, keepdims=True)
    assert nll < -np.log(raw[np.arange(4000), new_y]).mean() + 0.05


# ---- few events, and copies


def test_few_samples_of_the_rarer_class_are_said():
    rng = np.random.default_rng(0)
    s = rng.normal(size=2000) * 1.5 - 7.5
    y = (rng.random(2000) < logistic(s / 1.6 - 1.0)).astype(int)
    assert 0 < y.sum() < 20
    report = judged(two(s), y)
    assert "few_events" in kinds(report)
    assert any(f"only {y.sum()} of 2,000 samples" in line for line in report.lines)


@pytest.mark.parametrize("has_ids", [False, True])
def test_rows_whose_ids_differ_are_no_copies(tmp_path, has_ids):
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), 200), rng.integers(0, 4, 200)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["probs"], file["labels"] = np.tile(p, (3, 1)), np.tile(y, 3)
        if has_ids:
            file["ids"] = np.arange(600)
    with open_data([str(tmp_path / "a.h5")]) as rows:
        caveats_of_copies = [text for text in rows.caveats if "are they copies" in text]
    assert bool(caveats_of_copies) != has_ids


def intervals(z, y):
    """Intervals of the losses and of two areas, None where there is none."""
    names = ("nll", "brier", "brier_top", "auroc", "aurc")
    evaluation = calcli.evaluate(z, y, kind="logits", metrics=list(names)).to_dict()
    return [evaluation["results"][0]["metrics"][name].get("ci") for name in names]


@pytest.mark.filterwarnings("ignore:about 100% of the")  # are they copies?
@pytest.mark.parametrize("distinct", [4, 8, 29, 40])
@pytest.mark.parametrize("times", [40, 41.5])
def test_copies_of_few_rows_make_no_interval_appear(distinct, times):
    """Two of the distinct rows are wrong, which are too few for any interval."""
    rng = np.random.default_rng(distinct)
    z = rng.normal(size=(distinct, 3)) * 5.0
    y = z.argmax(axis=1)
    y[:2] = (y[:2] + 1) % 3
    assert intervals(z, y) == [None] * 5
    copied = np.arange(int(distinct * times)) % distinct  # 41.5: one more of some
    rng.shuffle(copied)
    assert intervals(z[copied], y[copied]) == [None] * 5


def test_scores_of_few_values_are_no_copies():
    """Equal counts of scores that have both outcomes, as in a designed sample."""
    c = np.repeat([0.6, 0.7, 0.8, 0.9, 0.95], 40)
    y = np.tile(np.repeat([0, 1], 20), 5)
    ends = intervals(np.log(np.stack([c, 1.0 - c], axis=1)), y)
    assert None not in ends


FAR = np.array([0.0, 100.0, 200.0, 1000.0])
"""Logits so far below the largest that their rounded gaps are all the same."""


def many_distinct(rng, n):
    """Logits of 4 classes that differ, but hardly: rounded signatures are shared."""
    near = rng.integers(0, 40, size=(n, 4)).astype(float)
    return near + 1e-3 * rng.random((n, 4))


@pytest.mark.parametrize(
    ("scores", "share"),
    [
        (lambda rng, n: np.tile(rng.normal(size=(n // 4, 4)), (4, 1)), "100%"),
        (lambda rng, n: np.broadcast_to([3.0, 1.0, 0.0, 2.0], (n, 4)), "100%"),
        (lambda rng, n: rng.normal(size=(n, 4)), None),
        (many_distinct, None),
        (lambda rng, n: rng.normal(size=(n, 4)) * [1, 1, 1, 0] + FAR, None),
    ],
    ids=["each four times", "one row", "distinct", "nearly alike", "one signature"],
)
def test_copies_among_more_rows_than_signatures_are_kept(scores, share):
    """Of 100 000 rows 65 536 signatures are kept; every row counts the same."""
    n = 100_000
    rng = np.random.default_rng(1)
    rows = ArrayRows(scores(rng, n), np.zeros(n, dtype=int), "logits")
    said = [text.partition(" of the")[0] for text in copies(rows)]
    assert said == ([] if share is None else [f"about {share}"])


def test_what_the_fit_left_is_a_gap_only_where_that_is_significant():
    """Logits bent so that no temperature is right; 600 rows fitted, 3000 judged."""
    kinds = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(3600, 6)) * 2.0
        bent = 1.5 * np.sign(z) * np.abs(z) ** 0.75
        y = (bent + rng.gumbel(size=z.shape)).argmax(axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibrator = calcli.fit(z[:600], y[:600], "ts")
        evaluation = calcli.evaluate(z[600:], y[600:], calibrators=[calibrator])
        result = evaluation.results[1]
        for finding in result.report.findings:
            if finding.kind != "left_by_fit":
                continue
            written = evaluation.to_dict()["results"][1]["report"]
            direction = written["direction"]
            largest = max(abs(direction["gap_z"]), abs(direction["entropy_z"]))
            line = result.report.lines[0]
            in_places = largest < 1.96  # two-sided, 5 %
            assert ("points left by the fit, about 0.00" in line) != in_places
            assert ("errors in places (p = 0.0" in line) == in_places
            assert "600 samples may leave" in line or "2,400 calibration" in line
            kinds.add(in_places)
        if len(kinds) == 2:
            break
    assert kinds == {False, True}
