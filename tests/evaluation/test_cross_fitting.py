"""Cross-fitting: the calibrator that judges a row never saw it, nor its unit, nor a copy of it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from synthetic import truth

from calcli.calibrator import Context
from calcli.evaluation import cross_fitting
from calcli.evaluation.cross_fitting import FOLD_COLUMN, cross_fitted
from calcli.evaluation.facts import Difference
from calcli.evaluation.overlapping_fits import widened
from calcli.evaluation.requests import cross_fitted_candidate
from calcli.importers.open_any_file import open_rows
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows
from calcli.statistics.intervals import Interval


def written(path, n=300, k=4, **columns):
    """File of n rows; returns its scores and labels."""
    z, y = truth(n, k, seed=6)
    np.savez(path, logits=z, labels=y, **columns)
    return z, y


def judged(path, name="ts", seed=0, **layout):
    """Log-probabilities of all rows of a file, and the fold of each."""
    with open_rows(str(path), **layout) as rows:
        crossed = cross_fitted(name, parse_options(name, {}), rows, Context(seed))
        blocks = list(rows.blocks())
        log_p = np.concatenate([crossed.apply(block).log_probs for block in blocks])
        return log_p, rows.columns[FOLD_COLUMN].code


@pytest.fixture
def seen(monkeypatch):
    """The scores of the rows that each fit saw."""
    scores = []
    fit = cross_fitting.fitted_part

    def recording(name, options, rows, context, progress=None):
        scores.append(np.concatenate([block.scores for block in rows.blocks()]))
        return fit(name, options, rows, context, progress)

    monkeypatch.setattr(cross_fitting, "fitted_part", recording)
    return scores


def contains(scores, row):
    return (scores == row).all(axis=1).any()


@pytest.mark.parametrize("name", ["ts", "auto"])
def test_no_row_is_judged_by_a_fit_that_saw_it(tmp_path, seen, name):
    z, _ = written(tmp_path / "a.npz")
    log_p, fold = judged(tmp_path / "a.npz", name)
    assert len(seen) == 5 and len(log_p) == 300
    assert sorted(np.bincount(fold)) == [60] * 5
    for row, number in zip(z, fold, strict=True):
        assert not contains(seen[number], row)
        assert all(contains(seen[other], row) for other in range(5) if other != number)


def test_each_row_has_the_probabilities_of_a_fit_to_the_other_folds(tmp_path):
    written(tmp_path / "a.npz")
    log_p, fold = judged(tmp_path / "a.npz")
    with open_rows(str(tmp_path / "a.npz")) as rows:
        for number in range(5):
            others = rows.take(np.flatnonzero(fold != number))
            options = parse_options("ts", {})
            fitted = method("ts").fit(others, options, Context()).calibrator
            block = next(iter(rows.blocks()))
            expected = fitted.apply(block).log_probs[fold == number]
            np.testing.assert_allclose(log_p[fold == number], expected, atol=1e-7)


def test_a_unit_is_judged_by_a_fit_that_saw_none_of_its_rows(tmp_path):
    unit = np.random.default_rng(0).permutation(np.arange(300) // 7)
    written(tmp_path / "a.npz", unit=unit)
    _, fold = judged(tmp_path / "a.npz")
    assert all(len(set(fold[unit == number])) == 1 for number in set(unit))
    assert len(set(fold)) == 5


def test_copies_of_a_row_are_judged_by_a_fit_that_saw_none_of_them(tmp_path):
    z, y = truth(300, 4, seed=6)
    order = np.random.default_rng(1).permutation(600)
    source = np.tile(np.arange(300), 2)[order]
    np.savez(tmp_path / "a.npz", logits=z[source], labels=y[source])
    _, fold = judged(tmp_path / "a.npz")
    assert all(len(set(fold[source == row])) == 1 for row in range(300))


def crossed_by_the_fit(path):
    """Calibrators without each fold of ``auto``, from its own fit, with the fold of each row."""
    with open_rows(str(path)) as rows:
        options = parse_options("auto", {"candidates": "ts,svs"})
        fit = method("auto").fit(rows.counted(), options, Context())
        crossed = cross_fitted("auto", options, rows, Context(), fit.cross_fits)
        log_p = [crossed.apply(block).log_probs for block in rows.blocks()]
        return crossed, rows.columns[FOLD_COLUMN].code, np.concatenate(log_p)


def test_members_that_judge_a_row_did_not_see_it(tmp_path):
    weights = np.random.default_rng(4).integers(0, 3, 3600).astype(float)
    z, y = written(tmp_path / "a.npz", n=3600, k=50, weights=weights)
    crossed, fold, _ = crossed_by_the_fit(tmp_path / "a.npz")
    assert len(crossed.parts) == 5
    for number, part in enumerate(crossed.parts):
        learned = (fold != number) & (weights > 0.0)
        rows = ArrayRows(z[learned], y[learned], "logits", weight=weights[learned])
        options = parse_options("ts", {"prior": "0.25"})
        alone = method("ts").fit(rows, options, Context()).calibrator
        member = next(m for m in part.members if m.method == "ts")
        # a trial's search ends with a step that promises 3e-4 nats or less
        assert member.calibrator.temperature == pytest.approx(
            alone.temperature, rel=2e-3
        )


def test_shuffled_rows_are_judged_alike_from_the_fit(tmp_path):
    z, y = written(tmp_path / "a.npz", n=2500, k=40)
    order = np.random.default_rng(5).permutation(2500)
    np.savez(tmp_path / "b.npz", logits=z[order], labels=y[order])
    _, fold, log_p = crossed_by_the_fit(tmp_path / "a.npz")
    _, moved, shuffled = crossed_by_the_fit(tmp_path / "b.npz")
    np.testing.assert_array_equal(moved, fold[order])
    np.testing.assert_allclose(np.exp(shuffled), np.exp(log_p[order]), atol=1e-6)


@pytest.mark.parametrize(
    ("n", "k", "is_known"), [(1500, 80, False), (2500, 10, False), (2500, 40, True)]
)
def test_few_rows_or_scores_are_fitted_anew(n, k, is_known):
    z, y = truth(n, k, seed=6)
    options = parse_options("auto", {"candidates": "ts,mono"})
    fit = method("auto").fit(ArrayRows(z, y, "logits"), options, Context())
    assert (fit.cross_fits is not None) == is_known


@pytest.mark.parametrize("name", ["ts", "auto", "svs"])
def test_shuffled_rows_get_equal_probabilities(tmp_path, name):
    z, y = written(tmp_path / "a.npz")
    order = np.random.default_rng(2).permutation(300)
    np.savez(tmp_path / "b.npz", logits=z[order], labels=y[order])
    log_p, _ = judged(tmp_path / "a.npz", name)
    shuffled, _ = judged(tmp_path / "b.npz", name)
    np.testing.assert_allclose(np.exp(shuffled), np.exp(log_p[order]), atol=1e-6)


def test_rows_of_weight_0_are_in_no_fit(tmp_path, seen):
    weights = np.random.default_rng(3).integers(0, 2, 300).astype(float)
    z, _ = written(tmp_path / "a.npz", weights=weights)
    log_p, fold = judged(tmp_path / "a.npz")
    assert np.isfinite(log_p).all()
    for row, number, weight in zip(z, fold, weights, strict=True):
        assert not contains(seen[number], row)
        if weight == 0.0:
            assert not any(contains(scores, row) for scores in seen)


def test_progress_of_all_fits_is_one_number(tmp_path):
    written(tmp_path / "a.npz")
    steps = []

    def progress(what, done, total):
        steps.append((what, done / total))

    with open_rows(str(tmp_path / "a.npz")) as rows:
        cross_fitted(
            "auto", parse_options("auto", {}), rows, Context(0, "cpu", progress)
        )
    shares = [share for _, share in steps]
    assert {what for what, _ in steps} == {"cross-fitting"}
    assert shares == sorted(shares) and shares[-1] <= 1.0 and len(set(shares)) > 20


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_rows_that_hardly_differ_have_no_interval_of_any_size(run, right):
    """All labels are right, or wrong, and every score is the same."""
    p = np.tile([0.9, 0.1], (200, 1))
    labels = np.full(200, 1 - int(right))
    np.savez("same.npz", probs=p, labels=labels)
    done = run("run", "same.npz", "-o", "out")
    assert done.code == 0, done.err
    lines = [
        line for line in done.out.splitlines() if " NLL " in line and "no " in line
    ]
    assert any("no bound: few rows carry the loss" in line for line in lines), done.out
    without_interval = "on these samples, which are too few for an interval"
    assert without_interval in done.out


def test_a_fit_that_moves_nothing_keeps_the_interval_of_one_parameter():
    """Proportional to the standard error, however small that is: 1.96 / n here."""
    small = Interval(-1.96e-9, 1.96e-9, 0.95, "t")
    difference = Difference(value=0.0, se=1e-9, interval=small, p_value=0.9)
    wide = widened(difference, 1.5, 1 / 200)
    assert wide.interval.high == pytest.approx(1.96 / 200, rel=1e-6)
    far = replace(difference, interval=Interval(-0.1, 0.1, 0.95, "t"))
    assert widened(far, 1.5, 1 / 200).interval is None
    # without an error of the fits the end of the rows stays, only longer
    assert widened(far, 1.5, 0.0).interval.high == pytest.approx(0.15)


def test_run_on_one_file_and_compare_give_the_same_intervals(run):
    """Both score a row by a fit to the other folds, and allow for folds that overlap."""
    z, y = truth(400, 3, temperature=2.0, seed=6)
    np.savez("a.npz", logits=z, labels=y)
    judged = run("run", "a.npz", "-m", "ts", "-o", "out", "--json", "-q")
    words = ["a.npz", "--methods", "ts", "--baseline", "identity", "--json", "-q"]
    compared = run("compare", *words)
    of_run = json.loads(judged.out)["evaluation"]["results"][1]["paired"]
    of_compare = json.loads(compared.out)["differences"][0]
    for name, difference in of_compare["metrics"].items():
        mine = of_run["differences"][name]
        # sums of the same rows in another order
        assert mine["ci"] == pytest.approx(difference["ci"], rel=1e-9, abs=1e-12)
        assert mine["p_value"] == pytest.approx(difference["p_value"], rel=1e-9)
        assert mine["ci_method"] == difference["ci_method"]
        assert mine["ci_method"].endswith(", folds")


@pytest.mark.parametrize("k", [2, 5])
def test_shuffled_rows_with_weights_and_ties_are_judged_alike(tmp_path, run, k):
    """P-values are drawn: in the order of the file, they moved with it."""
    z, y = truth(300, k, seed=4)
    rng = np.random.default_rng(6)
    arrays = {"logits": z.round(), "labels": y, "weights": rng.integers(1, 5, 300)}
    order = rng.permutation(300)
    reports = []
    for name, rows in (("a.npz", np.arange(300)), ("b.npz", order)):
        path = tmp_path / name
        np.savez(path, **{key: values[rows] for key, values in arrays.items()})
        done = run("evaluate", path, "--json", "--full")
        assert done.code == 0, done.err
        result = json.loads(done.out)["results"][0]
        p_values = {}
        for metric, entry in result["metrics"].items():
            if "p_value" in entry:
                p_values[metric] = entry["p_value"]
        report = result["report"]
        reports.append(
            (p_values, report["p_value"], report["classwise"], report["verdict"])
        )
    first, second = reports
    assert "ece" in first[0]
    assert first[0] == pytest.approx(second[0], rel=1e-9)  # sums are rounded
    assert first[1] == second[1] and first[3] == second[3]
    assert first[2]["significant_classes"] == second[2]["significant_classes"]


@pytest.mark.parametrize("weighted", [False, True])
def test_shuffled_rows_of_groups_are_judged_alike(tmp_path, run, weighted):
    """What a calibrator by group does, by cross-fitting: rows of equal scores and labels were dealt to the folds in the
    order of the file, whatever their groups, and "NLL -0.0881" became -0.0899."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 3)) * 2.0
    group = rng.integers(0, 4, 400)
    temperature = np.array([0.4, 1.0, 2.0, 4.0])[group]
    labels = (z / temperature[:, None] + rng.gumbel(size=(400, 3))).argmax(axis=1)
    arrays = {"logits": z.round(), "labels": labels, "group": group}
    if weighted:
        arrays["weights"] = rng.integers(1, 4, 400)
    remedies = []
    for order in (np.arange(400), rng.permutation(400), rng.permutation(400)):
        path = tmp_path / f"{len(remedies)}.npz"
        np.savez(path, **{name: values[order] for name, values in arrays.items()})
        done = run("evaluate", path, "--group-by", "group", "--json")
        assert done.code == 0, done.err
        messages = json.loads(done.out)["results"][0]["report"]["messages"]
        remedies += [m for m in messages if m["kind"] == "by_group"]
    assert len(remedies) == 3
    for remedy in remedies[1:]:
        for name in ("change", "change_here", "low", "high", "p"):
            assert remedy[name] == pytest.approx(remedies[0][name], rel=1e-6)


def test_weights_count_alike_in_the_fits_and_in_what_they_are_judged_on(tmp_path):
    """Five folds: the variance 1 + 5/4 of that of the rows, whatever their weights."""
    weights = np.random.default_rng(8).exponential(size=300)
    written(tmp_path / "a.npz", weights=weights)
    with open_rows(str(tmp_path / "a.npz")) as rows:
        crossed = cross_fitted("ts", parse_options("ts", {}), rows, Context())
        fit_size = cross_fitted_candidate("a.json", "ts", crossed, 5, rows).fit_size
    n = float(weights.sum() ** 2 / (weights @ weights))
    assert fit_size.error_factor(n, None) == pytest.approx(1.5)
