"""The verdict and its numbers: on random data of every kind no words contradict the JSON."""

import re
from functools import cache

import numpy as np
import pytest
from metric_cases import draw_labels, softmax

from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.json_output import result_json
from calcli.evaluation.levels import LEVEL, WIDE
from calcli.evaluation.requests import Candidate, Plan, Subject
from calcli.metrics.catalog import report_metrics
from calcli.metrics.losses import FEW
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows

CASES = 54
KINDS = (
    "calibrated",
    "scaled",
    "biased",
    "ties",
    "constant",
    "near perfect",
    "groups",
    "classes",
    "single class",
)


def random_case(seed):
    """Rows of a random kind, with groups where there are some: (kind, rows, group)."""
    rng = np.random.RandomState(seed)
    kind = KINDS[seed % len(KINDS)]
    n = int(rng.choice([12, 60, 400, 1500]))
    k = int(rng.choice([1, 2, 2, 3, 12]))
    spread = 9.0 if kind == "near perfect" else 2.0
    z = rng.normal(size=(n, max(k, 2))) * spread
    y = draw_labels(softmax(z), rng)
    group = None
    if rng.random_sample() < 0.5:
        group = np.array(["east", "west", "north"])[rng.randint(3, size=n)]
    if kind == "scaled":
        z = z * rng.choice([0.5, 0.8, 1.3, 3.0])
    elif kind == "biased":
        z = z + rng.normal(size=z.shape[1])
    elif kind == "ties":
        z = np.round(z)
    elif kind == "constant":
        z = np.zeros_like(z)
        z[:, 0] = 0.3
    elif kind == "groups":
        group = np.array(["east", "west"])[np.arange(n) % 2]
        z[:, 1] += np.where(group == "east", 1.0, -1.0)
    elif kind == "classes":
        z[:, 0] += 0.4
    elif kind == "single class":
        y = np.zeros_like(y)
    weight = None
    if rng.random_sample() < 0.25:
        weight = rng.random_sample(n) + 0.1
    if k > 1:
        return kind, ArrayRows(z, y, weight=weight), group
    p = softmax(z)
    confidence = p.max(axis=1, keepdims=True)
    is_right = p.argmax(axis=1) == y
    rows = ArrayRows(confidence, is_right, "confidence", weight=weight)
    return kind, rows, group


@cache
def judged(seed):
    """Rows, group and result of the case ``seed``."""
    _, rows, group = random_case(seed)
    plan = Plan(
        report_metrics(),
        MetricSettings(resamples=99),
        per_class=rows.k > 1,
        per_group=group is not None,
    )
    subject = Subject(rows, "rows", group)
    assessed = assess(subject, [Candidate(None, "uncalibrated", None)], plan)
    return rows, group, assessed.results[0]


def output_of(seed):
    """The JSON of the case ``seed``."""
    return result_json(judged(seed)[2])


def numbers(pattern, text):
    """The numbers that a pattern finds, None where it does not match."""
    match = re.search(pattern, text)
    return None if match is None else [float(part) for part in match.groups()]


SHARE = r"([\d.]+)%"
GAP = r"([+-]?[\d.]+) points \[(-?[\d.]+), (-?[\d.]+)\]"
ROUNDED = {"abs": 0.051}
"""Half a unit of the last digit printed."""


@pytest.mark.parametrize("seed", range(CASES))
def test_kind_significance_and_findings_agree(seed):
    rows, _, result = judged(seed)
    report = output_of(seed)["report"]
    kind, significant = report["verdict_kind"], set(report["findings"])
    messages = {message["kind"]: message for message in report["messages"]}
    assert (report["p_overall"] <= LEVEL) == bool(significant)
    assert (report["p_value"] <= LEVEL) == ("confidence" in significant)
    assert report["tested"] == ("P(class 1)" if rows.k == 2 else "confidence")
    assert report["next"] is None  # rows without a file
    assert len(report["verdict"]) <= 100
    assert all(len(message["text"]) <= 100 for message in report["messages"])
    assert [message["text"] for message in report["messages"]] == result.report.lines
    if kind == "check_labels":
        assert {"labels", "too_good"} & set(messages)
        return
    assert (kind in ("calibrated", "too_few")) == (not significant)
    assert report["exact"]["kind"] == kind  # nothing was fitted
    if rows.n < FEW:
        assert kind == "too_few"
    low, high = (report["positive"] or report["overconfidence"])["ci"]
    if kind == "calibrated":
        assert high - low <= 2 * WIDE
    if kind == "too_few" and rows.n >= FEW:
        assert high - low > 2 * WIDE
    if rows.k == 2:
        assert not {"classes"} & (significant | set(messages))
    assert ("groups" in messages) == ("groups" in significant)
    assert ("classes" in messages) == ("classes" in significant)


@pytest.mark.parametrize("seed", range(CASES))
def test_the_headline_says_the_numbers_of_the_json(seed):
    rows, _, _ = judged(seed)
    report = output_of(seed)["report"]
    kind, words = report["verdict_kind"], report["verdict"]
    over, positive = report["overconfidence"], report["positive"]
    assert (positive is not None) == (rows.k == 2)
    if kind == "check_labels":
        assert words.startswith(("check the labels: ", "check the samples: "))
        return
    begins = {"mixed": "miscalibrated", "too_few": "too few samples"}
    assert words.startswith(begins.get(kind, kind))
    check_means(seed, words)
    check_gap(seed, words)
    check_directions(seed, words)
    reach = re.search(r"between ([+-]?\d+) and ([+-]?\d+) points; ([\d,]+) ", words)
    if reach is not None:
        ends = positive["ci"] if rows.k == 2 else over["ci"]
        assert [int(reach[1]), int(reach[2])] == [round(100 * end) for end in ends]
        assert int(reach[3].replace(",", "")) == report["rows_needed"] > rows.n


def check_means(seed, words):
    """Two percentages are the mean score and the frequency."""
    rows, _, _ = judged(seed)
    report = output_of(seed)["report"]
    over, positive = report["overconfidence"], report["positive"]
    means = numbers(rf"{SHARE} sure, {SHARE} right", words)
    if means is not None:
        assert rows.k != 2
        sure, right = means
        accuracy = 100 * output_of(seed)["metrics"]["accuracy"]["value"]
        assert right == pytest.approx(accuracy, **ROUNDED)
        assert sure - right == pytest.approx(100 * over["value"], abs=0.11)
    means = numbers(rf"{SHARE} predicted, {SHARE} observed", words)
    if means is not None:
        assert rows.k == 2
        assert means[0] == pytest.approx(100 * positive["predicted"], **ROUNDED)
        assert means[1] == pytest.approx(100 * positive["observed"], **ROUNDED)


def check_gap(seed, words):
    """A gap with its interval is that of what is judged, and has its sign."""
    rows, _, _ = judged(seed)
    report = output_of(seed)["report"]
    kind = report["verdict_kind"]
    over, positive = report["overconfidence"], report["positive"]
    gap = numbers(GAP, words)
    if gap is not None:
        judged_gap = over["value"], *over["ci"]
        if rows.k == 2:
            judged_gap = positive["gap"], *positive["ci"]
        assert gap == pytest.approx([100 * x for x in judged_gap], **ROUNDED)
    if kind in ("overconfident", "underconfident") and rows.k != 2:
        sign = 1 if kind == "overconfident" else -1
        assert "; by NLL p " in words or sign * gap[1] >= 0 <= sign * gap[2]


def check_directions(seed, words):
    """Words of a direction go with the sign of the gap, and with the slope."""
    report = output_of(seed)["report"]
    kind, positive = report["verdict_kind"], report["positive"]
    if "too high" in words or "too low" in words:
        assert ("too high" in words) == (positive["gap"] > 0)
        low, high = positive["ci"]
        assert not low <= 0 <= high
    if "too extreme" in words:
        assert positive["slope"] < 1 and kind != "underconfident"
    if "too moderate" in words:
        assert positive["slope"] > 1 and kind != "overconfident"


@pytest.mark.parametrize("seed", range(CASES))
def test_the_findings_say_the_numbers_of_the_json(seed):
    report = output_of(seed)["report"]
    if report["verdict_kind"] == "check_labels":
        return
    messages = {message["kind"]: message for message in report["messages"]}
    if "groups" in messages:
        groups, message = report["groups"], messages["groups"]
        counts = f"{groups['n_significant']} of {groups['n_groups']} miscalibrated"
        assert message["text"].startswith(f"groups: {counts}, worst {groups['worst']}")
        shown = numbers(rf"{SHARE} \w+, {SHARE} \w+$", message["text"])
        means = [100 * groups["worst_predicted"], 100 * groups["worst_observed"]]
        assert shown == pytest.approx(means, **ROUNDED)
        assert means[0] - means[1] == pytest.approx(100 * groups["worst_gap"])
    if "classes" in messages:
        classes, message = report["classwise"], messages["classes"]
        assert message["n_significant"] == classes["n_significant"]
        assert message["worst"] == classes["significant_classes"][0]
    gain = report["split"]
    is_detected = False
    if gain is not None:
        part = gain["nll"]
        is_detected = part["calibration"] > 1.645 * part["calibration_se"]
    assert ("gain" in messages) == (bool(report["findings"]) and is_detected)
    if "gain" in messages:
        shown = numbers(
            r"by about ([\d.]+), at least ([\d.]+) ", messages["gain"]["text"]
        )
        assert shown[0] == pytest.approx(gain["nll"]["calibration"], rel=0.05, abs=5e-4)
        assert shown[1] <= shown[0]
    if "range" in messages and not messages["range"]["of_positive"]:
        bin_ = messages["range"]
        same = [other for other in report["bins"] if other["low"] == bin_["low"]]
        assert same[0]["significant"] and same[0]["n"] == bin_["n"]


@pytest.mark.parametrize("seed", range(CASES))
def test_tables_star_what_the_verdict_counts(seed):
    """Tables begin with what is most significant."""
    rows, group, _ = judged(seed)
    output = output_of(seed)
    report = output["report"]
    significant = set(report["findings"])
    if rows.k > 1:
        lines, classes = output["per_class"], report["classwise"]
        starred = {line["class"] for line in lines if line["significant"]}
        assert starred == set(classes["significant_classes"])
        assert len(starred) == classes["n_significant"]
        assert not starred or significant & {"classes", "confidence"}
        p_values = [line["p_adjusted"] for line in lines]
        rounded = [round(p, 12) for p in p_values]  # as the lines are ordered
        assert rounded == sorted(rounded)
        assert p_values[0] == classes["p_value"]
        assert all((p <= LEVEL) == (p in p_values[: len(starred)]) for p in p_values)
    if group is not None:
        lines, groups = output["per_group"], report["groups"]
        assert {line["of_positive"] for line in lines} == {rows.k == 2}
        starred = [line for line in lines if line["significant"]]
        assert len(starred) == groups["n_significant"]
        assert lines[0]["group"] == groups["worst"]
        assert lines[0]["p_adjusted"] == groups["p_value"]
        assert lines[0]["gap"] == groups["worst_gap"]
        for line in lines:
            assert line["significant"] == (line["p_adjusted"] <= LEVEL)
            assert line["predicted"] - line["observed"] == pytest.approx(line["gap"])
    for bin_ in report["bins"]:
        assert bin_["significant"] == (bin_["p_adjusted"] <= LEVEL)
        assert not bin_["significant"] or significant & {"bins", "confidence"}


def test_every_kind_of_finding_came_up():
    """The cases above are of use only while every test rejects among them."""
    cases = [set(output_of(seed)["report"]["findings"]) for seed in range(CASES)]
    assert set().union(*cases) == {"confidence", "classes", "groups", "bins", "split"}
    assert set() in cases
    assert any(findings and "confidence" not in findings for findings in cases)
