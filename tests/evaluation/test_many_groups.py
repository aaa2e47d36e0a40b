"""Tables of many groups: what each group gives alone, in a number of passes that does not grow with theirs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from calcli.calibrator import Context
from calcli.evaluation import groups as group_tables
from calcli.evaluation.cross_validation import fitted_part
from calcli.evaluation.evaluate_bundle import measured
from calcli.evaluation.facts import FitSize
from calcli.evaluation.groups import fit_factor, gaps_of_groups, group_lines
from calcli.evaluation.scores import Score
from calcli.io.locate import columns_of, intersections
from calcli.metrics import context as metric_context
from calcli.metrics import smooth
from calcli.metrics.catalog import metric, report_metrics
from calcli.metrics.collect import collect_all
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.numerics import sigmoid
from calcli.registry import parse_options
from calcli.rows import ArrayRows
from calcli.statistics import smooth_error


def context_of(groups, k=4, rows=30, weights=None, **settings):
    """Rows of groups of about so many rows."""
    rng = np.random.default_rng(groups)
    n = groups * rows
    z = 2.0 * rng.standard_normal((n, k))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    group = np.array([f"g{i:04d}" for i in rng.integers(0, groups, n)])
    weights = None if weights is None else rng.exponential(size=n)
    table = collect_all(
        ArrayRows(z, y, weight=weights), [None], class_bins=15, group=group
    )[0]
    return MetricContext(table, MetricSettings(**settings))


def lines_of(context, names):
    """The lines of all groups of rows."""
    return group_lines(gaps_of_groups(context, {}, positive=False), names)


def same(one: Score, other: Score) -> bool:
    """Are two scores equal, but for the order of sums?"""
    pairs = [(one.value, other.value), (one.se, other.se)]
    if one.interval is not None and other.interval is not None:
        pairs += [
            (one.interval.low, other.interval.low),
            (one.interval.high, other.interval.high),
        ]
    if one.null is not None and other.null is not None:
        pairs += [(one.null.mean, other.null.mean), (one.null.q95, other.null.q95)]
        assert one.null.p_value == other.null.p_value
    assert (one.interval is None, one.null is None) == (
        other.interval is None,
        other.null is None,
    )
    return all(a == b or a == pytest.approx(b, rel=1e-9, abs=1e-12) for a, b in pairs)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("weights", [None, "random"])
def test_a_group_s_line_is_what_its_rows_give_alone(k, weights):
    whole = context_of(9, k=k, weights=weights, resamples=150)
    names = [name for name in report_metrics(k=k) if not metric(name).needs]
    for line in lines_of(whole, names):
        alone = MetricContext(
            whole.table.take(whole.table.group == line.group), whole.settings
        )
        assert (line.n, list(line.scores)) == (alone.n, list(names))
        for name, score in measured(alone, names).items():
            assert same(line.scores[name], score), (line.group, name)


def test_smooth_errors_of_groups_are_solved_some_at_once(monkeypatch):
    solved = []
    plain = smooth_error.smooth_errors

    def counted(*arguments):
        solved.append(1)
        return plain(*arguments)

    monkeypatch.setattr(smooth, "smooth_errors", counted)
    monkeypatch.setattr(smooth_error, "smooth_errors", counted)
    lines = lines_of(context_of(20), ["smece"])
    assert (len(lines), len(solved)) == (
        20,
        2 * 20 // smooth.AT_ONCE,
    )  # one at a time: 40


@pytest.mark.parametrize(
    ("names", "made"),
    [(["ece"], 1), (["ece", "mce", "ece_mass", "tce2"], 2), (["brier_top"], 0)],
)
def test_laws_of_the_bins_of_groups_are_made_together(monkeypatch, names, made):
    calls = []
    plain = metric_context.bin_laws
    monkeypatch.setattr(
        metric_context,
        "bin_laws",
        lambda parts: calls.append(len(parts)) or plain(parts),
    )
    lines_of(context_of(20), names)
    assert calls == [20] * made  # one at a time: 20 calls a scheme of bins


def test_rows_are_dealt_to_their_groups_at_once(monkeypatch):
    table = context_of(50).table
    read = []

    class Watched(np.ndarray):
        def __eq__(self, other):
            read.append(1)
            return super().__eq__(other)

    names, parts = replace(table, group=table.group.view(Watched)).groups()
    assert names.tolist() == sorted(set(table.group.tolist()))
    assert not read
    for name, part in zip(names, parts, strict=True):
        np.testing.assert_array_equal(part.nll, table.nll[table.group == name])


@pytest.mark.parametrize(
    ("asked", "groups", "draws"),
    [(1000, 5, 1000), (1000, 400, 500), (1000, 5000, 200), (50, 5000, 50)],
)
def test_many_groups_share_their_draws(monkeypatch, asked, groups, draws):
    """200,000 draws in all, but 200 of a group; nobody gets more than asked for."""
    resamples_drawn = []

    def record(context, names):
        resamples_drawn.append(context.settings.resamples)
        return {}

    monkeypatch.setattr(group_tables, "MOST_DRAWS", 200_000 * 3 // groups)
    monkeypatch.setattr(group_tables, "measured", record)
    lines_of(context_of(3, resamples=asked), [])
    assert resamples_drawn == [draws] * 3


def test_intersections_are_taken_apart_into_their_columns():
    site = np.array(["Porto, north", "Lyon", "Porto, north"], dtype=object)
    sex = np.array(["F", "M", "M"], dtype=object)
    groups = intersections({"site": site, "sex": sex})
    assert groups.tolist()[0] == "sex=F, site=Porto, north"
    columns = columns_of(groups, ["site", "sex"])
    assert {name: values.tolist() for name, values in columns.items()} == {
        "site": site.tolist(),
        "sex": sex.tolist(),
    }
    assert columns_of(site, ["site"]) == {}
    assert columns_of(site, ["site", "sex"]) == {}


def test_margins_stand_before_intersections_and_are_tested_with_them(run):
    """Class 1 of one site is rarer than stated; each margin holds the rows of its intersections."""
    rng = np.random.default_rng(6)
    n = 4000
    site, sex = rng.integers(0, 2, n), rng.integers(0, 2, n)
    odds = 2.0 * rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-odds + 1.5 * site))).astype(int)
    np.savez("p.npz", logits=np.stack([0 * odds, odds], axis=1), labels=y,
             site=np.array(["Lyon", "Porto"])[site], sex=np.array(["F", "M"])[sex])  # fmt: skip
    words = ["evaluate", "p.npz", "--group-by", "site", "--group-by", "sex"]
    result = json.loads(run(*words, "--json", "-q").out)["results"][0]
    lines = result["per_group"]
    assert [line["margin"] for line in lines] == [True] * 4 + [False] * 4
    assert lines[0]["group"] == "site=Porto"
    sizes = {line["group"]: line["n"] for line in lines}
    for name in ("site=Lyon", "site=Porto"):
        assert sizes[name] == sum(sizes[f"sex={letter}, {name}"] for letter in "FM")
    finding = result["report"]["messages"][0]
    assert (finding["kind"], finding["n_groups"]) == ("groups", 8)
    assert "site=Porto" in finding["worst"]
    text = run(*words).out
    table = text.partition("by group (p adjusted for 8 rows")[2].splitlines()[2:10]
    assert [line.split("  ")[0] for line in table[:4]] == [
        line["group"] for line in sorted(lines[:4], key=lambda line: -abs(line["gap"]))
    ]
    assert len(table) == 8


def test_the_table_says_what_its_stars_and_p_values_are(run):
    """p = 1.000 was "adjusted for 6 rows" where the verdict had found nothing, and no
    line explained a star. The rows are overconfident; by itself no group is.
    """
    rng = np.random.default_rng(19)
    n = 1500
    z = 2.0 * rng.normal(size=(n, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    group = rng.integers(0, 6, n)
    factor = np.where(group == 0, 1.5, 1.15)[:, None]
    for name, logits in (("over.npz", z * factor), ("calibrated.npz", z)):
        np.savez(name, logits=logits, labels=y, site=group)
        words = ("evaluate", name, "--group-by", "site")
        (line,) = (
            line for line in run(*words).out.splitlines() if line.startswith("by group")
        )
        has_star = name == "over.npz"
        lines = json.loads(run(*words, "--json", "-q").out)["results"][0]["per_group"]
        assert any(one["significant"] for one in lines) == has_star
        assert "p adjusted for 6 rows and the verdict" in line
        assert ("* significant" in line) == has_star
        assert len(line) <= 80


def test_what_stars_are_fits_a_narrow_terminal(run, monkeypatch):
    """The line had 79 columns at every width."""
    monkeypatch.setenv("COLUMNS", "60")
    rng = np.random.default_rng(19)
    z = 2.0 * rng.normal(size=(900, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    np.savez("over.npz", logits=2.0 * z, labels=y, site=rng.integers(0, 3, 900))
    text = run("evaluate", "over.npz", "--group-by", "site").out
    first, second = text[text.index("by group") :].splitlines()[:2]
    assert max(len(first), len(second)) <= 60
    assert f"{first} {second.strip()}" == (
        "by group (p adjusted for 3 rows and the verdict; * significant; gap in points)"
    )


def p_values_of_groups(rng, n_fit, n):
    """P-values of four groups of n rows, under Platt scaling fitted to n_fit others."""
    group = rng.choice(4, size=n_fit + n, p=[0.6, 0.3, 0.08, 0.02])
    z = rng.normal(size=(n_fit + n, 2))
    z[:, 1] += group - 1.0
    risk = sigmoid(0.3 + 0.7 * (z[:, 1] - z[:, 0]))
    y = (rng.random(n_fit + n) < risk).astype(int)
    learn = ArrayRows(z[:n_fit], y[:n_fit])
    platt = fitted_part("platt", parse_options("platt", {}), learn, Context())
    rows = ArrayRows(z[n_fit:], y[n_fit:])
    table = collect_all(rows, [platt.calibrator], group=group[n_fit:])[0]
    context = MetricContext(table, MetricSettings())
    tested = gaps_of_groups(context, {}, positive=True, fit=FitSize(n_fit))
    return [group.p_value for group in tested]


@pytest.mark.parametrize("ratio", [1, 4])
def test_groups_are_judged_up_to_the_error_of_a_map_for_all(ratio):
    """Calibrated but for the error of the fit: p below .05 in 5 % of 480 groups.

    Exact p-values would be below it in 8 % and 16 % (simulated); those of a map of the
    group's own in 1 %. Three standard errors of 5 % are 3 %.
    """
    rng = np.random.default_rng(ratio)
    p = []
    for _ in range(120):
        p += p_values_of_groups(rng, 500, ratio * 500)
    assert 0.02 < np.mean(np.array(p) <= 0.05) < 0.08


def test_a_map_of_the_group_s_own_is_known_from_the_group_alone():
    z = np.zeros((100, 2))
    y = np.arange(100) % 2
    table = collect_all(ArrayRows(z, y), [None], group=np.arange(100) // 80)[0]
    whole = MetricContext(table, MetricSettings())
    _, (small, _) = table.groups()
    group = MetricContext(small, MetricSettings())
    assert fit_factor(group, whole, None) == 1.0
    assert fit_factor(group, whole, FitSize(100)) == np.sqrt(1.0 + small.n / 100)
    assert fit_factor(group, whole, FitSize(100, by_group=True)) == np.sqrt(2.0)
