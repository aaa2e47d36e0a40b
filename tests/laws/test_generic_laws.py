"""Laws of every method and every metric, over the registries: a new one has them too, or fails here."""

import json
import warnings
from itertools import pairwise

import h5py
import msgspec
import numpy as np
import pytest
from synthetic import predict, rows_of, truth
from test_laws import QUICK, as_json

from calcli.calibrator import Context
from calcli.evaluation import evaluate_bundle
from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.requests import Candidate, Plan, Subject
from calcli.fitting.fit import fit_artifact
from calcli.importers.open_any_file import open_data
from calcli.io.artifact import dumps, loads
from calcli.metrics.catalog import metric_names
from calcli.metrics.settings import MetricSettings
from calcli.registry import method, method_names, parse_options
from calcli.rows import ArrayRows

METHODS = [name for name in method_names() if method(name).composable]


def fit(name, rows, **options):
    parsed = parse_options(name, {**QUICK.get(name, {}), **options})
    return method(name).fit(rows, parsed, Context(seed=0))


def probabilities(name, z, y, **options):
    """P(class 1) of the rows of a fit, from its artifact."""
    rows = rows_of(z, y)
    calibrator = loads(
        as_json(name, fit(name, rows, **options), z.shape[1]), "a.json"
    ).calibrator
    return np.exp(predict(calibrator, rows)[0])


# ---- methods


@pytest.mark.parametrize("n", [50, 6000, 131_073])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.slow
def test_every_method_at_any_number_of_rows(name, n):
    """50 are few, 6000 more than any search begins on, 131 073 more than are worked on at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = probabilities(name, *truth(n, 2, seed=3))
    assert np.isfinite(q).all()
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-9)


def choices(kind):
    """Values of an option's type: words, yes and no, ends of the range and a number between."""
    inspect = msgspec.inspect
    match kind:
        case inspect.LiteralType():
            yield from kind.values
        case inspect.BoolType():
            yield from ("true", "false")
        case inspect.UnionType():
            for kind_of_choice in kind.types:
                yield from choices(kind_of_choice)
        case inspect.Metadata():
            yield from choices(kind.type)
        case inspect.IntType():
            yield from (
                value
                for value in (kind.ge, 3, kind.le)
                if value is not None and value <= 20
            )
        case inspect.FloatType():
            yield from (
                value for value in (kind.ge, 0.37, kind.le) if value is not None
            )


OPTIONS = [
    (name, option.encode_name, str(value))
    for name in method_names()
    for option in msgspec.inspect.type_info(method(name).Options).fields
    for value in dict.fromkeys(choices(option.type))
    if (name, value) != ("ec", 3)  # which two classes do not have
]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A file of 120 rows of two classes with transforms, and the rows."""
    path = tmp_path_factory.mktemp("laws") / "x.h5"
    rows = rows_of(*truth(120, 2, seed=3))
    with h5py.File(path, "w") as file:
        file["logits"], file["labels"] = rows.scores, rows.y
        file["transforms/logits"], file["transforms/specs"] = (
            rows.transformed,
            list(rows.transforms),
        )
    return str(path), rows


@pytest.mark.parametrize(("name", "option", "value"), OPTIONS)
def test_every_value_of_every_option_can_be_written_and_applied(
    bundle, name, option, value
):
    path, rows = bundle
    with open_data([path]) as data:
        fitted = fit_artifact(
            name,
            parse_options(name, {**QUICK.get(name, {}), option: value}),
            data,
            Context(),
        )
    log_probs, _ = predict(loads(dumps(fitted), "a.json").calibrator, rows)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1.0, atol=1e-9)


TABLES = [
    ("ir", {}),
    ("hb", {"scheme": "mass"}),
    ("bbq", {}),
    ("spline", {}),
    ("hb", {}),
]
"""Methods that rank or bin P(class 1)."""


@pytest.mark.parametrize("factor", [50.0, 1e3])
@pytest.mark.parametrize(("name", "options"), TABLES[:2], ids=["ir", "hb"])
@pytest.mark.parametrize("mode", ["binary", "top"])
def test_ranks_beyond_the_digits_of_probabilities_are_kept(name, options, mode, factor):
    """Shares of outcomes by rank alone are those of logits of any unit: 0.2 % of log-odds x 50 lie below 37 x 50."""
    z, y = truth(1500, 2, seed=4)
    plain, sure = (
        probabilities(name, c * z, y, mode=mode, **options) for c in (1.0, factor)
    )
    np.testing.assert_allclose(sure, plain, atol=1e-12)


@pytest.mark.parametrize("factor", [1.0, 50.0, 1e3])
@pytest.mark.parametrize(
    ("name", "options"), [table for table in TABLES if table[0] != "bbq"], ids=str
)
def test_tables_of_swapped_classes_are_swapped(name, options, factor):
    """Ranks and shares exactly; spline's cumulative sums begin at one end (1/n); bbq's last bins take the remainder."""
    z, y = truth(1500, 2, seed=4)
    one = probabilities(name, factor * z, y, **options)
    other = probabilities(name, factor * z[:, ::-1], 1 - y, **options)[:, ::-1]
    np.testing.assert_allclose(other, one, atol=1e-12 if name in ("ir", "hb") else 0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), TABLES, ids=str)
def test_tables_over_log_odds_are_written_read_and_exported(run, name, options):
    z, y = truth(400, 2, seed=4)
    with h5py.File("x.h5", "w") as file:
        file["logits"], file["labels"] = 50 * z, y
    more = [word for item in options.items() for word in ("--set", "=".join(item))]
    assert run("fit", "-m", name, *more, "x.h5", "-o", "a.json", "-q").code == 0
    with open("a.json") as file:
        content = json.load(file)
    params = content["params"]
    if (name, options) == ("hb", {}):  # equal widths are of probabilities
        assert "log_odds" not in params
        return
    assert np.abs(params["log_odds"]).max() > 37
    for target in ("python", "torch", "onnx"):
        done = run(
            "export", "a.json", "--to", target, "--check", "x.h5", "-o", f"a.{target}"
        )
        assert (done.code, "no prediction differs" in done.err) == (0, True), done.err
    for spoilt in (
        params["log_odds"][:-1],
        params["log_odds"][::-1],
        [[0.0], [1.0]],
        [v + 1 for v in params["log_odds"]],
    ):
        content["params"] = params | {"log_odds": spoilt}
        with open("b.json", "w") as file:
            json.dump(content, file)
        assert run("inspect", "b.json").code == 3


# ---- scores equal but for rounding, and rounded probabilities


ENDS = {"bbq", "sb", "spline"}
"""Methods whose bins of ranks, or cumulative sums, begin at one end: of two classes swapped, at the other."""


def coarse(k, n=360):
    """Integer logits whose largest is one, so that the prediction is no matter of rounding: (n, k), labels."""
    z, y = truth(2 * n, k, seed=12)
    z = np.round(z)
    two = np.sort(z, axis=1)[:, -2:]
    kept = np.flatnonzero(two[:, 0] < two[:, 1])[:n]
    return z[kept], y[kept]


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize(
    "name", [name for name in METHODS if method(name).laws.shift_invariant]
)
def test_scores_equal_but_for_rounding_are_tied_in_every_method(name, k):
    """A constant per row changes no probability but the last bits of all; so does the order of the classes."""
    z, y = coarse(k)
    rows = rows_of(z, y)
    p = np.exp(predict(fit(name, rows).calibrator, rows)[0])
    moved = ArrayRows(
        z + np.random.default_rng(5).normal(size=(len(z), 1)) * 3,
        y,
        transformed=rows.transformed,
        transforms=rows.transforms,
    )
    np.testing.assert_allclose(
        np.exp(predict(fit(name, moved).calibrator, moved)[0]), p, atol=1e-6
    )
    if method(name).laws.equivariant and (k > 2 or name not in ENDS):
        order = np.roll(np.arange(k), 1)
        turned = ArrayRows(
            z[:, order],
            np.argsort(order)[y],
            transformed=rows.transformed[:, :, order],
            transforms=rows.transforms,
        )
        q = np.exp(predict(fit(name, turned).calibrator, turned)[0])
        np.testing.assert_allclose(q, p[:, order], atol=1e-6)


def isotonic(x, hit):
    """Isotonic regression at every x, by the formula max over a <= x of min over b >= x of the mean between them."""
    values, which, count = np.unique(x, return_inverse=True, return_counts=True)
    hits = np.concatenate([[0.0], np.cumsum(np.bincount(which, weights=hit))])
    rows = np.concatenate([[0.0], np.cumsum(count)])
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.subtract.outer(hits[1:], hits[:-1]) / np.subtract.outer(
            rows[1:], rows[:-1]
        )  # [b, a]
    least = np.where(np.tri(len(values), dtype=bool), means, np.inf)[::-1]
    least = np.minimum.accumulate(least, axis=0)[::-1]  # over all b from here on
    return np.maximum.accumulate(
        np.where(np.tri(len(values), dtype=bool), least, -np.inf), axis=1
    ).diagonal()[which]


@pytest.mark.parametrize("n", [12, 50, 1500])
@pytest.mark.parametrize(
    "unit", [1000, 100, 2], ids=["3 decimals", "2 decimals", "halves"]
)
@pytest.mark.parametrize("name", ["irova", "irm", "ir"])
def test_isotonic_maps_of_rounded_probabilities_are_those_of_the_numbers(name, unit, n):
    """Of shares of ``unit`` that sum to 1: what a row's sum rounds to must not tell equal probabilities apart. The m
    zeros of a row count as half a digit / (m + 1) each; halves show no digits."""
    z, y = truth(n, 5, seed=13)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    share = np.floor(unit * p)
    share[np.arange(n), p.argmax(axis=1)] += unit - share.sum(axis=1)
    stored, hit = share / unit, np.eye(5)[y]
    zeros = (stored == 0).sum(axis=1, keepdims=True)
    p = np.where(stored == 0, 0.5 / unit / (zeros + 1) if unit > 2 else 0.0, stored)
    if name == "irm":
        q = isotonic(p.ravel(), hit.ravel()).reshape(p.shape)
    else:
        q = np.stack(
            [
                isotonic(p[:, c], hit[:, c]) if hit[:, c].any() else p[:, c]
                for c in range(5)
            ],
            axis=1,
        )
    q += 1e-9 * p if name != "ir" else 0.0
    q = np.where(q.sum(axis=1, keepdims=True) > 1e-300, q, p)
    q /= q.sum(axis=1, keepdims=True)
    rows = ArrayRows(stored, y, "probs")
    parsed = parse_options(name, {"mode": "ova"} if name == "ir" else {})
    probs = np.exp(
        predict(method(name).fit(rows, parsed, Context(seed=0)).calibrator, rows)[0]
    )
    np.testing.assert_allclose(probs, q, atol=1e-9)


# ---- rows of weight 0


def test_folds_of_compare_are_of_the_rows_that_count(run):
    z, y = truth(300, 3, seed=6)
    weight = np.random.default_rng(0).random(300).round(1)
    for name, kept in (("all", weight >= 0), ("counted", weight > 0)):
        with h5py.File(f"{name}.h5", "w") as file:
            file["logits"], file["labels"], file["weights"] = (
                z[kept],
                y[kept],
                weight[kept],
            )
    results = []
    for name in ("all", "counted"):
        done = run("compare", f"{name}.h5", "-m", "ts,hb,vs", "--json")
        assert done.code == 0, done.err
        results.append(
            [result["metrics"] for result in json.loads(done.out)["results"]]
        )
    assert results[0] == results[1]
    with h5py.File("other.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    assert (
        "row "
        in run("compare", "all.h5", "-m", "ts", "--baseline-bundle", "other.h5").line
    )


# ---- metrics

NAMES = [name for name in metric_names() if name not in ("marginal2_raw", "mse_raw")]
"""All but those of calibrators that divide rows by their sums."""


def values(rows, names):
    """Metric by metric, its value for the uncalibrated scores."""
    assessment = assess(
        Subject(rows),
        [Candidate(None, "uncalibrated", None)],
        Plan(names, MetricSettings(resamples=20)),
    ).results[0]
    return {
        name: np.nan if score.value is None else score.value
        for name, score in assessment.scores.items()
    }


@pytest.mark.parametrize(("k", "n"), [(3, 131_072), (2, 131_073), (3, 131_073)])
@pytest.mark.slow
def test_every_metric_of_many_rows_is_that_of_their_table(monkeypatch, k, n):
    """131 072 rows are the most of which a table is kept."""
    z, y = truth(n, k, seed=6)
    names = [name for name in NAMES if k == 2 or name != "ece_positive"]
    measured_values = values(ArrayRows(z, y), names)
    monkeypatch.setattr(evaluate_bundle, "LONG", 10**9)
    expected = values(ArrayRows(z, y), names)
    assert measured_values.keys() == expected.keys()
    for name in names:
        assert measured_values[name] == pytest.approx(
            expected[name], rel=1e-9, abs=1e-12, nan_ok=True
        ), name


def by_definition(p, y):
    """Metrics of probabilities (n, k) and labels by their formulas, row by row: name to value.

    Confidences are rounded to 12 digits, which ties those that differ by the last bits alone.
    """
    n, k = p.shape
    c = p.max(axis=1).round(12)
    right = (p.argmax(axis=1) == y).astype(float)
    hot = np.eye(k)[y]
    nll = -np.log(p[np.arange(n), y])
    entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(axis=1)
    two = np.sort(p, axis=1)[:, -2:].sum(axis=1)
    in_two = np.argsort(-p, axis=1, kind="stable")[:, :2] == y[:, None]
    width = bin_gaps(c, right, equal_width())
    mass = bin_gaps(c, right, equal_mass(c))
    squares = mass
    if len(np.unique(c)) <= n / 4:  # then tce2 has a bin for each
        squares = bin_gaps(c, right, [-1.0, *np.unique(c)])
    classes = [bin_gaps(p[:, j].round(12), hot[:, j], equal_width()) for j in range(k)]
    ece = mean_abs(width)
    ends = [(right - c)[c <= value].sum() / n for value in np.unique(c)]
    ranked = [(p[:, 1].round(12), hot[:, 1])]
    if k > 2:
        ranked = [(p[:, j].round(12), hot[:, j]) for j in range(k)]
    risks = selective_risks(c, right)
    best = [max(0.0, i - right.sum()) / i for i in range(1, n + 1)]
    spread = ((1 - 2 * c) ** 2 * c * (1 - c)).sum()
    return {
        "accuracy": right.mean(),
        "mean_confidence": c.mean(),
        "confidence_variance": ((c - c.mean()) ** 2).mean(),
        "gap": (c - right).mean(),
        "brier": ((p - hot) ** 2).sum(axis=1).mean(),
        "brier_mean": ((p - hot) ** 2).mean(),
        "brier_top": ((c - right) ** 2).mean(),
        "nll": nll.mean(),
        "entropy_gap": (nll - entropy).mean(),
        "top2_gap": (two - in_two.any(axis=1)).mean(),
        "ece": ece,
        "mce": max(abs(gap) for _, gap in width),
        "vce": sum(share * (abs(gap) - ece) ** 2 for share, gap in width),
        "ece_mass": mean_abs(mass),
        "tce2_plugin": sum(share * gap**2 for share, gap in squares) ** 0.5,
        "cwece": np.mean([mean_abs(of_class) for of_class in classes]),
        "ks": max(map(abs, ends)),
        "kuiper": max(0.0, *ends) - min(0.0, *ends),
        "spiegelhalter": ((right - c) * (1 - 2 * c)).sum() / spread**0.5,
        "auroc": area(c, right),
        "roc_auc": np.mean([area(*scores_and_hits) for scores_and_hits in ranked]),
        "average_precision": np.mean(
            [precision(*scores_and_hits) for scores_and_hits in ranked]
        ),
        "aurc": np.mean(risks),
        "eaurc": np.mean(risks) - np.mean(best),
    }


def bin_gaps(scores, hits, edges):
    """Share of the rows and mean score minus hits of every bin with rows."""
    gaps = []
    for low, high in pairwise(edges):
        is_inside = (scores > low) & (scores <= high)
        if is_inside.any():
            gaps.append((is_inside.mean(), (scores - hits)[is_inside].mean()))
    return gaps


def mean_abs(gaps):
    return sum(share * abs(gap) for share, gap in gaps)


def equal_width(bins=15):
    """Edges; the first bin has scores of 0 too."""
    return [-1.0, *(edge / bins for edge in range(1, bins)), 1.0]


def equal_mass(c, bins=15):
    """Edges half way between chunks of the sorted scores."""
    chunks = np.array_split(np.sort(c), bins)
    middles = {0.5 * (left[-1] + right[0]) for left, right in pairwise(chunks)}
    return [-1.0, *sorted(middles - {1.0}), 1.0]


def area(scores, hits):
    """Chance that a hit has the larger score than a miss, ties counted half."""
    above = np.sign(np.subtract.outer(scores[hits == 1], scores[hits == 0]))
    return (above.mean() + 1.0) / 2.0


def precision(scores, hits):
    """Precision at each value of a hit, averaged over the hits."""
    total = 0.0
    for value in np.unique(scores[hits == 1]):
        share_of_hits = hits[scores == value].sum() / hits.sum()
        total += share_of_hits * hits[scores >= value].mean()
    return total


def selective_risks(c, right):
    """Error among the i surest rows, for every i.

    The rows of a tie come in any order: each brings its mean error.
    """
    risks = []
    n_errors = 0.0
    for value in np.unique(c)[::-1]:
        tie = right[c == value]
        n_before = len(risks)
        for i in range(1, len(tie) + 1):
            risks.append((n_errors + (1 - tie.mean()) * i) / (n_before + i))
        n_errors += (1 - tie).sum()
    return risks


def kinds_of_scores(like, k, n=240):
    """Scores (n, k) as they are stored, their kind, and labels; no row has two largest."""
    z, y = truth(2 * n, k, seed=14)
    second, first = np.sort(np.round(z), axis=1)[:, -2:].T
    kept = np.flatnonzero(second < first)[:n]
    z, y = z[kept], y[kept]
    if like == "integer":
        return np.round(z).astype(np.int8), "logits", y
    if like == "float16":
        return z.astype(np.float16), "logits", y
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    largest = p.argmax(axis=1)
    if like == "hard":
        return np.eye(k)[largest], "probs", y
    sixteenths = np.floor(16 * p)
    sixteenths[np.arange(len(p)), largest] += 16 - sixteenths.sum(axis=1)
    return sixteenths / 16, "probs", y


@pytest.mark.filterwarnings("ignore:divide by zero|invalid value")
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("like", ["hard", "tied", "integer", "float16"])
def test_metrics_of_coarse_scores_are_their_formulas(like, k):
    scores, kind, y = kinds_of_scores(like, k)
    p = scores.astype(float)
    p = np.exp(p) / np.exp(p).sum(axis=1, keepdims=True) if kind == "logits" else p
    expected = by_definition(p, y)
    measured_values = values(ArrayRows(scores, y, kind), list(expected))
    for name, value in expected.items():
        # certain and wrong rows have their own tests
        if np.isfinite(value) and (k > 2 or name != "top2_gap"):
            assert measured_values[name] == pytest.approx(value, rel=1e-9, abs=1e-12), (
                name
            )


LIKE = {
    "plain": lambda z: z,
    "tied": np.round,
    "float16": lambda z: z.astype(np.float16),
    "sure": lambda z: z * 50,
}


OF_CLASS_1 = {"average_precision", "intercept", "oe_ratio", "net_benefit"}
OF_CLASS_1 |= {"ici", "e50", "e90", "emax"}
"""Metrics of class 1 of two, which are others where the two classes change places."""


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("like", LIKE)
def test_every_metric_of_permuted_classes_is_the_same(k, like):
    """But those of one of two classes, which is another then. Of rows without ties for the largest score; of ties for
    the second the class of the lower number is the second."""
    z, y = truth(1200, k, seed=7)
    z = LIKE[like](z)
    two = np.sort(z, axis=1)[:, -2:]
    z, y = (array[two[:, 0] < two[:, 1]] for array in (z, y))
    order = np.roll(np.arange(k), 1)
    names = [name for name in NAMES if name != "ece_positive"]
    one, other = (
        values(ArrayRows(z, y), names),
        values(ArrayRows(z[:, order], np.argsort(order)[y]), names),
    )
    for name in names:
        if (k == 2 and name in OF_CLASS_1) or (
            like != "plain" and name.startswith("top")
        ):
            continue
        assert other[name] == pytest.approx(
            one[name], rel=1e-9, abs=1e-12, nan_ok=True
        ), name
