"""Sentences and numbers that were once false, each on the rows that showed it."""

import html
import json
import re

import h5py
import numpy as np
import pytest
from metric_cases import draw_labels, softmax
from scipy import stats

import calcli
from calcli.numerics import log_softmax
from calcli.statistics.intervals import wilson_interval


def written(name, z, y):
    """The name of a file of logits and labels."""
    with h5py.File(name, "w") as file:
        file["logits"], file["labels"] = z, y
    return name


def test_the_nll_that_fit_and_evaluate_print_is_exact_beyond_the_floor_of_stored_zeros(
    run,
):
    """30 of 3000 labels have 1e-13 to 1e-20: a floor of 1e-12 took .15 off the NLL, as if a temperature gained less."""
    rng = np.random.RandomState(11)
    z = rng.normal(size=(3000, 5)) * 2.0
    y = draw_labels(softmax(z), rng)
    z = 3.0 * z
    far = np.argsort(z[np.arange(3000), y] - z.max(axis=1))[:30]
    z[far, y[far]] -= 30.0
    exact = float(-log_softmax(z)[np.arange(3000), y].mean())
    floored = float(-np.log(np.maximum(softmax(z)[np.arange(3000), y], 1e-12)).mean())
    assert exact - floored > 0.1
    written("m.h5", z, y)
    summary = run("fit", "m.h5", "-m", "ts").err
    shown = re.search(r"In-sample: NLL ([\d.]+) -> ([\d.]+), ", summary)
    before, after = map(float, shown.groups())
    assert before == pytest.approx(exact, abs=5e-5)
    assert after < before
    assert float(
        run("evaluate", "m.h5", "--metric", "nll", "--format", "value").out
    ) == pytest.approx(exact, rel=1e-12)


def test_no_share_of_a_loss_is_told_that_recalibration_only_raises(run):
    """Rows so sure that svs adds 1e-4 of NLL to 3e-8: "-460269.8 % would be removed" was printed."""
    rng = np.random.RandomState(0)
    y = rng.randint(3, size=2000)
    z = 18.0 * np.eye(3)[y] + 0.3 * rng.normal(size=(2000, 3))
    text = run("evaluate", written("m.h5", z, y), "--decomposition", "--full").out
    assert "could reduce" not in text
    assert "refinement" not in text
    report = report_of(run, "m.h5", "--decomposition")
    assert "gain" not in [message["kind"] for message in report["messages"]]
    if report["split"] is not None:
        losses = [report["split"][loss] for loss in ("nll", "brier")]
        assert [loss["calibration_share"] for loss in losses] == [0.0, 0.0]


def test_the_p_value_printed_for_a_class_is_the_one_that_decides_its_star(run):
    """In the last set one adjusted p-value is below .05 and the verdict finds nothing: .031 stood without a star."""
    stars = 0
    for seed, scale in ((0, 1.0), (1, 1.5), (21, 1.0)):
        rng = np.random.default_rng([38, seed])
        z = rng.normal(size=(1000, 10)) * 3
        y = np.minimum((softmax(z).cumsum(1) < rng.random((1000, 1))).sum(1), 9)
        bias = 0.8 * (scale > 1) * (np.arange(10) == 0)
        text = run(
            "evaluate",
            written("m.h5", z * scale + bias, y),
            "--per-class",
            "--no-decomposition",
        ).out
        p_values = re.findall(
            r"^\d +[\d,]+ +[\d,]+ +[\d.]+ +[\d.]+ +[+-][\d.]+(\*?) +(<? ?[\d.]+)",
            text,
            re.MULTILINE,
        )
        assert len(p_values) == 10
        for star, p in p_values:
            assert (p.startswith("<") or float(p) <= 0.05) == bool(star)
        stars += sum(star == "*" for star, _ in p_values)
    assert stars


def sure(rng, n, wrong, confidence):
    """Probabilities of three classes and labels: n rows of a confidence, ``wrong`` of them wrong."""
    p = np.full((n, 3), (1.0 - confidence) / 2.0)
    best = rng.integers(3, size=n)
    p[np.arange(n), best] = confidence
    return p, (best + (np.arange(n) < wrong)) % 3


def test_no_star_stands_beside_an_interval_that_holds_0(run):
    """Of 25 rows at .99 four are wrong: a star by the law under calibration stood beside [-0.0460, 0.3460]."""
    rng = np.random.default_rng(5)
    counts = {
        "few": (25, 4, 0.99),
        "many": (400, 20, 0.99),
        "sure": (400, 6, 0.999),
        "rest": (2000, 200, 0.9),
    }
    drawn = [sure(rng, *count) for count in counts.values()]
    p, y = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    group = np.repeat([*counts], [n for n, _, _ in counts.values()])
    with h5py.File("m.h5", "w") as file:
        file["probs"], file["labels"], file["group"] = p, y, group.astype("S")
    lines = json.loads(run("evaluate", "m.h5", "--per-group", "--json", "-q").out)[
        "results"
    ][0]["per_group"]
    for line in lines:
        low, high = line["ci"]
        assert line["significant"] == (line["p_adjusted"] <= 0.05)
        assert not (line["significant"] and low <= 0.0 <= high), line
    assert [line["group"] for line in lines if line["significant"]] == [
        "many",
        "sure",
        "few",
    ]
    text = run("evaluate", "m.h5", "--per-group").out
    printed = re.findall(
        r"^(\w+) +[\d,]+ +\S+% +\S+% +[+-]?[\d.]+(\*?) +\S+$", text, re.M
    )
    assert {name for name, star in printed if star} == {"many", "sure", "few"}
    assert {name for name, star in printed if not star} == {"rest"}


@pytest.mark.parametrize(
    ("n", "wrong", "confidence"), [(400, 3, 0.999), (1000, 3, 0.9995), (200, 6, 0.99)]
)
def test_an_overconfidence_that_a_verdict_names_has_an_interval_above_0(
    n, wrong, confidence
):
    """Of 400 rows at .999 three are wrong: "overconfident by 0.0065 [-0.0020, 0.0208] (p = 0.017)" was printed."""
    p, y = sure(np.random.default_rng(1), n, wrong, confidence)
    report = calcli.evaluate(p, y, kind="probs").results[0].report
    gap = report.facts.overconfidence
    # the confidence has no spread
    low, high = stats.binomtest(n - wrong, n).proportion_ci(0.95, method="exact")
    assert (gap.interval.low, gap.interval.high) == pytest.approx(
        (confidence - high, confidence - low), abs=1e-9
    )
    assert report.kind == "overconfident"
    assert gap.interval.low > 0.0


def test_the_interval_of_a_gap_with_few_errors_adds_the_spread_of_the_confidence():
    """Zou and Donner (2008): the ends are sqrt((end of the share - share)^2 + (t se of the mean confidence)^2) away."""
    c = np.tile([0.99, 0.95, 0.8, 0.7], 50)
    p = np.stack([c, 1.0 - c], axis=1)
    y = (np.arange(200) % 67 == 5).astype(int)  # three are wrong
    report = calcli.evaluate(p, y, kind="probs").results[0].report
    gap = report.facts.overconfidence
    reach = stats.t.ppf(0.975, 199) * c.std(ddof=1) / np.sqrt(200)
    low, high = stats.binomtest(197, 200).proportion_ci(0.95, method="exact")
    ends = (
        gap.value - np.hypot(high - 0.985, reach),
        gap.value + np.hypot(0.985 - low, reach),
    )
    assert (gap.interval.low, gap.interval.high) == pytest.approx(ends, abs=1e-9)


def test_rows_of_one_label_are_no_test_of_calibration(run):
    """Rows of one label of calibrated probabilities: "4 of 4 classes are miscalibrated" was the verdict."""
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=(4000, 4))
    y = draw_labels(softmax(z), np.random.RandomState(0))
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"], file["class_names"] = (
            z[y == 2],
            y[y == 2],
            ["cat", "dog", "cow", "hen"],
        )
    report = json.loads(run("evaluate", "m.h5", "--json", "-q").out)["results"][0][
        "report"
    ]
    assert report["verdict_kind"] == "check_labels"
    assert f"all {(y == 2).sum()} labels are class 2 (cow), and" in report["verdict"]


def test_classes_are_called_by_their_names(run):
    rng = np.random.default_rng(2)
    z, y = rng.normal(size=(600, 4)), rng.integers(2, size=600)
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"] = z + 3.0 * np.eye(4)[y], y
        file["class_names"] = ["cat", "dog", "cow", "hen"]
    for method in ("ts", "svs", "irova"):
        errors = run("fit", "m.h5", "-m", method).err
        assert (
            "2 of 4 classes have no row in the calibration data: 2 (cow), 3 (hen)"
            in errors
        )
        assert method == "ts" or "classes without calibration rows (2 of 4): " in errors


def test_a_fit_that_makes_probabilities_with_zeros_worse_says_so(run):
    """Votes of 21 trees, calibrated as they are: T = 100 lowers the NLL and takes the Brier score from .43 to .59.
    Shares of 21 have no decimals that would say how large a 0 may be."""
    rng = np.random.default_rng(5)
    p = softmax(1.5 * rng.normal(size=(1500, 3)))
    y = draw_labels(p, np.random.RandomState(0))
    with h5py.File("m.h5", "w") as file:
        file["probs"], file["labels"] = (
            np.stack([rng.multinomial(21, chances) for chances in p]) / 21.0,
            y,
        )
    errors = run("fit", "m.h5", "-m", "ts").err
    assert re.search(
        r"made its own rows worse: the Brier score rose from 0\.4\d+ to 0\.5\d+ .*--method auto",
        errors,
    )
    assert run("fit", "m.h5", "-m", "ts", "--strict", "--force").code == 4
    assert (
        "fit with --method auto" in errors
        and "some labels have a probability of 0" in errors
    )


def test_the_change_of_confidences_alone_is_one_of_the_squared_error(run):
    """Its column was headed "Change in NLL", of which confidences have none."""
    rng = np.random.default_rng(3)
    confidence = rng.uniform(0.5, 1.0, 1000)
    with h5py.File("m.h5", "w") as file:
        for part in ("cal", "test"):
            file[f"{part}/confidence"], file[f"{part}/correct"] = (
                confidence,
                rng.random(1000) < confidence - 0.2,
            )
    assert run("fit", "m.h5", "-m", "platt", "-o", "p.json", "-q").code == 0
    assert run("report", "m.h5", "-c", "p.json", "-o", "p.html", "-q").code == 0
    with open("p.html", encoding="utf-8") as file:
        page = file.read()
    assert "Change in squared error" in page and "Change in NLL" not in page


def test_no_interval_on_the_page_is_rounded_to_a_bound(run):
    """Confidence .998, right in .9985: "99.9 %, 100 to 100" stood in the table of bins."""
    rng = np.random.default_rng(8)
    right, rest = rng.random(5000) < 0.9985, np.log(0.998 / (0.002 / 3))
    z = np.zeros((5000, 4))
    z[:, 0] = rest
    assert (
        run(
            "report", written("m.h5", z, np.where(right, 0, 1)), "-o", "p.html", "-q"
        ).code
        == 0
    )
    with open("p.html", encoding="utf-8") as file:
        words = " ".join(
            html.unescape(
                re.sub(
                    r"<script.*?</script>|<[^>]+>", " ", file.read(), flags=re.DOTALL
                )
            ).split()
        )
    accuracy = float(right.mean())
    assert 0.997 < accuracy < 1.0 and "99.8%" in words
    assert not re.search(r"\d[1-9.]\d*%? to 100(\.0)?%?\b|100(\.0)?%? to 100", words)


@pytest.mark.parametrize("how", ["units", "weights"])
def test_a_class_that_is_all_but_impossible_and_has_no_rows_is_no_miscalibration(how):
    """Classes of e^-30 without rows: errors of 3e-13 that differ by 1e-18 had p = 0.001, and a fit was advised."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        z = np.concatenate(
            [np.zeros((2000, 1)), rng.normal(size=(2000, 2)) - 30.0], axis=1
        )
        extra = (
            {"units": np.arange(2000) // 5}
            if how == "units"
            else {"weights": rng.exponential(size=2000)}
        )
        for k in (2, 3):
            evaluation = calcli.evaluate(
                z[:, :k], np.zeros(2000, int), **extra
            ).results[0]
            assert (
                min(score.p_value for score in evaluation.scores.values() if score.null)
                > 0.99
            )
            assert evaluation.report.kind in ("calibrated", "too_few")
            assert not evaluation.report.verdict.has_findings


def unwrapped_line(text, words):
    """The line with these words, with what was wrapped below it."""
    whole = re.sub(r"\n    (?! )", " ", text)
    return next(line for line in whole.splitlines() if words in line)


def test_p_values_of_units_that_are_drawn_are_said_to_be(run):
    """999 draws give no p-value below 1/1000: "= 0.001, by a formula" was printed of Spiegelhalter's z."""
    rng = np.random.RandomState(4)
    z = np.repeat(2.0 * rng.normal(size=(600, 3)), 2, axis=0)
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"], file["unit"] = (
            2.0 * z,
            draw_labels(softmax(z), rng),
            np.arange(1200) // 2,
        )
    text = run("evaluate", "m.h5", "--full", "--no-decomposition").out
    legend = unwrapped_line(text, "p-values: ")
    parts = {
        name: part
        for part in legend.split("; ")
        for name in part.removeprefix("  p-values: ").partition(":")[0].split(", ")
    }
    for name in ("gap", "entropy_gap", "spiegelhalter", "ks", "nll"):
        assert "draws under calibration" in parts[name], name
    assert re.search(r"spiegelhalter +[\d.]+ p < 0.001", text)
    assert "mce" not in parts and "by a formula" not in legend


def test_the_legend_of_a_table_explains_what_is_in_it_and_no_more(run):
    rng = np.random.RandomState(4)
    z = 2.0 * rng.normal(size=(1500, 3))
    written("m.h5", 2.0 * z, draw_labels(softmax(z), rng))
    text = run("evaluate", "m.h5").out
    assert "* significant." in text
    assert "(expected): under calibration." in text
    assert "[ ]:" not in text
    accuracy = run("evaluate", "m.h5", "-m", "accuracy").out
    assert accuracy.splitlines()[-1] == "±: one standard error"
    ece = run("evaluate", "m.h5", "-m", "ece").out
    assert ece.splitlines()[-1].startswith("( ): expected under calibration; p: ")


def outliers(seed=0, n=2000):
    """Two classes that z = 0 separates, but for 8 % of outliers at z = 25 and more with label 0."""
    rng = np.random.RandomState(seed)
    z = 2.0 * rng.normal(size=n)
    out = rng.random_sample(n) < 0.08
    z[out] = 25.0 + rng.random_sample(out.sum())
    return np.stack([np.zeros(n), z], axis=1), ((z > 0) & ~out).astype(int)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_accuracy_that_falls_by_chance_is_no_warning_and_one_that_falls_truly_names_the_way_out():
    """Two rows of 1500 were a warning. Of 1082 and more that change, nearly all for the worse, p is below .001."""

    def said(z, y, method, **options):
        fit = calcli.fit(z, y, method=method, **options)._artifact.fit
        return fit.after["accuracy"] - fit.before["accuracy"], [
            w for w in fit.warnings if "fell from" in w
        ]

    rng = np.random.RandomState(0)
    z = 2.0 * rng.normal(size=(1500, 3))
    change, words = said(1.5 * z, (z + rng.gumbel(size=(1500, 3))).argmax(axis=1), "vs")
    assert -0.003 < change < 0.0 and not words
    kept = "ts, ec, ets and ft are accuracy-preserving"
    assert said(*outliers(), "vs")[1][0].endswith(
        f"(p < 0.001, McNemar's test); --keep-predictions keeps it; {kept}"
    )
    assert said(*outliers(), "auto", candidates="vs")[1][0].endswith(
        f"test); --keep-predictions keeps it; {kept}"
    )


def two_classes(z, p, seed=0):
    """Logits of class 1 and labels drawn with probabilities p."""
    return np.stack([np.zeros(len(z)), z], axis=1), (
        np.random.default_rng(seed).random(len(z)) < p
    ).astype(int)


def logistic(z):
    return 1.0 / (1.0 + np.exp(-z))


@pytest.mark.parametrize(
    ("slope", "bias", "kind", "spread", "level"),
    [
        (0.6, -0.6, "overconfident", "too extreme", "high"),
        (0.6, 0.6, "overconfident", "too extreme", "low"),
        (1.6, 0.4, "underconfident", "too moderate", "low"),
        (0.5, 0.0, "overconfident", "too extreme", None),
        (1.0, -0.4, "mixed", None, "high"),
    ],
)
def test_the_headline_of_two_classes_is_of_p_class_1(
    run, slope, bias, kind, spread, level
):
    """Labels of slope z + bias."""
    z = 3.0 * np.random.default_rng(1).normal(size=3000)
    written("m.h5", *two_classes(z, logistic(slope * z + bias)))
    report = report_of(run, "m.h5")
    headline = report["verdict"]
    assert report["verdict_kind"] == kind
    assert len(headline) <= 100
    assert headline.startswith("miscalibrated: " if kind == "mixed" else f"{kind}: ")
    positive = report["positive"]
    means = (
        f"{positive['predicted']:.1%} predicted, {positive['observed']:.1%} observed"
    )
    assert headline.endswith(f" ({means})")
    slope = f" (slope {positive['slope']:.2f})"
    assert (f"risks {spread}{slope}" in headline) == (spread is not None)
    assert (slope in headline) == (spread is not None)
    assert (f"too {level} (" in headline) == (level is not None)
    assert ("right on average" in headline) == (level is None)
    if " points too " in headline:  # left out where there is no room
        assert f"{100 * abs(positive['gap']):.1f} points too {level}" in headline
    top = report_of(run, "m.h5", "--label", "top")
    assert " sure, " in top["verdict"]
    assert "risks" not in top["verdict"]


@pytest.mark.parametrize(
    ("slope", "bias", "words"),
    [
        (2.0, 5.2, r"too moderate \(slope [\d.]+\), too low \(O:E 1\.\d\d; "),
        (1.0, -1.0, r"risks too high \(O:E 0\.\d\d; "),
    ],
)
def test_risks_of_a_rare_class_are_compared_by_a_ratio(run, slope, bias, words):
    """In points they looked small: 0.4 % predicted, 0.7 % observed."""
    z = np.random.default_rng(1).normal(size=60_000) - 6.0
    written("m.h5", *two_classes(z, logistic(slope * z + bias)))
    report = report_of(run, "m.h5")
    headline = report["verdict"]
    assert len(headline) <= 100 and re.search(words, headline), headline
    positive = report["positive"]
    ratio = positive["observed"] / positive["predicted"]
    assert f"(O:E {ratio:.2f}; " in headline


def report_of(run, *words):
    """The judgement on the first result, as JSON."""
    output = run("evaluate", *words, "--json", "-q").out
    return json.loads(output)["results"][0]["report"]


def test_the_range_that_is_named_of_two_classes_is_of_p_class_1(run):
    """Labels of z / 2: bins of the confidence would be of both tails at once."""
    z = 4.0 * np.random.default_rng(1).normal(size=4000)
    logits, y = two_classes(z, logistic(0.5 * z))
    report = report_of(run, written("m.h5", logits, y))
    range_ = next(
        message for message in report["messages"] if message["kind"] == "range"
    )
    p = logistic(z)
    inside = (p > range_["low"]) & (p <= range_["high"])
    assert range_["of_positive"]
    assert range_["n"] == inside.sum()
    assert range_["predicted"] == pytest.approx(p[inside].mean())
    assert range_["observed"] == pytest.approx(y[inside].mean())
    assert range_["text"].startswith("P(class 1) ")
    assert f"{p[inside].mean():.1%} predicted, " in range_["text"]


def test_a_p_class_1_that_is_right_on_average_is_wrong_somewhere_that_is_named(run):
    """z = 1.25 (P = .7773) has class 1 in .81 and z = 2.5 (.9241) in .9078, mean and slope right.

    The bins below .5 mirror those above: .2227 with .19 is the same gap, and the first of equals is named.
    """
    z = np.repeat([-2.5, -1.25, 1.25, 2.5], 1500)
    outcome = np.concatenate(
        [np.arange(1500) < round(1500 * p) for p in (0.0922, 0.19, 0.81, 0.9078)]
    ).astype(int)
    written("m.h5", np.stack([0 * z, z], axis=1), outcome)
    report = report_of(run, "m.h5", "--no-decomposition")
    assert report["verdict_kind"] == "mixed"
    means = "(50.0% predicted, 50.0% observed)"
    words = f"miscalibrated: risks wrong in places, right on average {means}"
    assert report["verdict"] == words
    range_ = next(
        message for message in report["messages"] if message["kind"] == "range"
    )
    text = "P(class 1) from 20% to 30%: 22.3% predicted, 19.0% observed"
    assert range_["text"] == f"{text} (+3.3 points, 1,500 samples)"
    # four bins hold rows, and their intervals hold together
    low, high = wilson_interval(np.array(0.19), np.array(1500.0), 1 - 0.05 / 4)
    ends = [range_["observed_low"], range_["observed_high"]]
    assert ends == pytest.approx([float(low), float(high)])
    assert report["next"] == "calcli run m.h5"


@pytest.mark.parametrize("k", [1, 3])
def test_a_nearly_constant_confidence_is_not_called_calibrated_where_errors_find_what_it_hides(
    k,
):
    """Confidences .70 to .71 that are right in 55 to 85 %: the mean is right; fixed bins and kernels see no more."""
    rng = np.random.RandomState(0)
    step = np.arange(2000) % 4
    c = 0.7 + 1e-4 * step + 1e-5 * rng.random_sample(2000)
    is_right = rng.random_sample(2000) < 0.55 + 0.1 * step
    if k == 1:
        evaluation = calcli.evaluate(c, is_right.astype(int), kind="confidence")
    else:
        p = np.stack([c, 0.6 * (1 - c), 0.4 * (1 - c)], axis=1)
        y = np.where(is_right, 0, 1 + (rng.random_sample(2000) < 0.4))
        evaluation = calcli.evaluate(p, y, kind="probs")
    report = evaluation.results[0].report
    assert "errors" in report.verdict.significant
    assert report.kind == "mixed"
    assert report.verdict.p_value > 0.05 >= report.verdict.p_overall
    errors = next(finding for finding in report.findings if finding.kind == "errors")
    assert errors.numbers["metrics"] == ["ece_mass", "tce2"]
    expected = "ece_mass, tce2: above the expected value (p = 0.002, adjusted)"
    assert expected in report.lines


def test_the_bin_that_is_named_is_the_one_that_most_samples_suffer_from():
    """60 rows say .25 and are right in .6; 3000 say .95 and are right in .9: a seventh of the gap, 7 times the sum."""
    stated = np.r_[np.full(60, 0.25), np.full(3000, 0.95), np.full(2400, 0.55)]
    correct = np.concatenate(
        [
            np.arange(n) < round(n * right)
            for n, right in ((60, 0.6), (3000, 0.9), (2400, 0.6))
        ]
    )
    evaluation = calcli.evaluate(stated, correct.astype(int), kind="confidence")
    range_line = "from 90% to 99%: 95.0% sure, 90.0% right (+5.0 points, 3,000 samples)"
    assert range_line in evaluation.results[0].report.lines


def overconfident_rows(seed=3, n=3000):
    """Logits of three classes that are twice too large, and labels."""
    rng = np.random.RandomState(seed)
    z = 2.5 * rng.normal(size=(n, 3))
    return 2.0 * z, draw_labels(softmax(z), rng)


def test_a_limit_above_the_95th_percentile_is_not_asked_to_rise_above_it(run):
    written("m.h5", *overconfident_rows())
    words = "evaluate", "m.h5", "-m", "ece"
    output = json.loads(run(*words, "--json", "-q").out)
    q95 = output["results"][0]["metrics"]["ece"]["null_q95"]
    for factor, is_advised in ((0.95, True), (1.05, False)):
        message = run(*words, "--max", f"ece={factor * q95}").err
        assert "a calibrated model would cross it in about" in message
        advice = "or a limit above the 95th percentile"
        assert (advice in message) == is_advised


def test_every_p_value_has_its_test_and_its_least_value_in_the_legend(run):
    """1 / 1001 and 1 / 201 rounded up; of the verdict 1 / 201 times .05 / .045."""
    written("m.h5", *overconfident_rows())
    text = run("evaluate", "m.h5", "--full").out
    legend = unwrapped_line(text, "p-values: ")
    for words in (
        "one test of mean gap, sharpness and smooth error (no p-value below 0.006)",
        "ece, ece_mass",
        "below 0.001)",
        "below 0.005)",
    ):
        assert words in legend


def test_an_interval_from_zero_beside_a_rejection_says_what_it_means():
    """1500 rows 4 points off: the debiased error is significant, and 1.645 of its standard errors reach 0."""
    n_rejected = 0
    for seed in range(20):
        rng = np.random.RandomState(seed)
        c = 0.5 + 0.45 * rng.random_sample(1500)
        y = (rng.random_sample(1500) < c - 0.04).astype(int)
        evaluation = calcli.evaluate(c, y, kind="confidence", metrics=["tce2"])
        score = evaluation.results[0].scores["tce2"]
        is_rejected = score.p_value <= 0.05 and score.interval.low == 0.0
        assert bool(score.end_words) == is_rejected
        if is_rejected:
            assert score.end_words.startswith("more than 0 (p ")
        n_rejected += is_rejected
    assert n_rejected


def test_a_gap_of_few_wrong_units_has_no_interval_and_says_so(run, tmp_path):
    """All eight wrong answers are of one unit, which is too little for an interval."""
    rng = np.random.default_rng(5)
    confidence = 1.0 - 10.0 ** -rng.uniform(2.0, 4.0, 480)
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["confidence"] = confidence
        file["correct"] = np.arange(480) >= 8
        file["unit"] = np.arange(480) // 8
    out = run("evaluate", str(path)).out
    assert "points, no interval; by NLL p = " in out
