"""The verdict and the numbers beside it: over random data sets of every kind, no clause contradicts the JSON."""

import re
from functools import cache

import numpy as np
import pytest
from calcli.evaluation.verdict_rules import FEW, LEVEL, WIDE
from metric_cases import draw_labels, softmax

from calcli.evaluation.evaluate_bundle import Candidate, Plan, Subject, assess
from calcli.metrics.catalog import report_metrics
from calcli.metrics.context import MetricSettings
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
    n, k = int(rng.choice([12, 60, 400, 1500])), int(rng.choice([1, 2, 2, 3, 12]))
    z = rng.normal(size=(n, max(k, 2))) * (9.0 if kind == "near perfect" else 2.0)
    y = draw_labels(softmax(z), rng)
    group = (
        np.array(["east", "west", "north"])[rng.randint(3, size=n)]
        if rng.random_sample() < 0.5
        else None
    )
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
    weight = rng.random_sample(n) + 0.1 if rng.random_sample() < 0.25 else None
    if k == 1:
        p = softmax(z)
        confidence = p.max(axis=1, keepdims=True)
        return (
            kind,
            ArrayRows(confidence, p.argmax(axis=1) == y, "confidence", weight=weight),
            group,
        )
    return kind, ArrayRows(z, y, weight=weight), group


@cache
def judged(seed):
    """(rows, group, result as JSON) of the case ``seed``."""
    _, rows, group = random_case(seed)
    plan = Plan(
        report_metrics(),
        MetricSettings(resamples=99),
        per_class=rows.k > 1,
        per_group=group is not None,
    )
    found = assess(
        Subject(rows, "rows", group), [Candidate(None, "uncalibrated", None)], plan
    )
    return rows, group, found.results[0].to_dict()


def number(pattern, verdict):
    """The number or numbers of a clause, None where it is not said."""
    found = re.search(pattern, verdict)
    return None if found is None else found.groups()


@pytest.mark.parametrize("seed", range(CASES))
def test_no_clause_contradicts_a_number(seed):
    rows, group, found = judged(seed)
    report = found["report"]
    verdict, findings, direction = (
        report["verdict"],
        set(report["findings"]),
        report["direction"],
    )
    classes, groups, positive, split = (
        report[name] for name in ("classwise", "groups", "positive", "split")
    )
    assert (positive is not None) == (rows.k == 2)

    # Significance, the kind, the lead of the sentence and the words beside it say the same.
    kind, over = report["verdict_kind"], report["overconfidence"]
    assert (report["p_overall"] <= LEVEL) == bool(findings)
    assert (report["p_value"] <= LEVEL) == ("confidence" in findings)
    assert report["tested"] == ("P(class 1)" if rows.k == 2 else "confidence")
    if kind == "check_labels":
        assert (
            verdict.startswith("check the labels first: ")
            and not report["advice"]["command"]
        )  # of no file
        return
    assert (kind in ("calibrated", "too_few")) == (not findings)
    if rows.n < FEW:
        assert kind == "too_few" and direction["words"] == "too few samples to say"
    else:
        assert direction["words"].startswith("neither") == (
            "confidence" not in findings
        )
    if kind == "too_few":
        low, high, needed = number(
            r"between ([+\-\d]+) and ([+\-\d]+) points \(about ([\d,]+) samples",
            verdict,
        )
        assert [int(low), int(high)] == [round(100 * end) for end in over["ci"]]
        assert int(needed.replace(",", "")) == report["rows_needed"]
        assert rows.n < FEW or over["ci"][1] - over["ci"][0] > 2 * WIDE
    elif kind == "calibrated":
        assert (
            verdict.startswith("calibrated: ")
            and over["ci"][1] - over["ci"][0] <= 2 * WIDE
        )
    elif kind in ("overconfident", "underconfident"):
        sign = 1 if kind == "overconfident" else -1
        said = number(kind + r" by (-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]", verdict)
        assert [float(x) for x in said[1:]] == pytest.approx(
            sorted(sign * x for x in over["ci"]), abs=1e-4
        )
        assert float(said[0]) == pytest.approx(sign * over["value"], abs=1e-4)
        assert rows.k == 2 or (direction["gap"] > 0) == (sign > 0)
    else:
        assert kind == "mixed" and verdict.startswith("mixed: ")
    assert (
        over["value"] == direction["gap"]
        and over["ci"][0] <= over["value"] <= over["ci"][1]
    )

    # Every clause has its finding, and every finding of a clause its words and its number.
    said = number(
        r"P\(class 1\) is (?:too \w+ \w+ 0 and 1, and )?too (high|low) by ([\d.]+) \[([\d.-]+), ([\d.-]+)\]",
        verdict,
    )
    assert (said is not None) == (
        rows.k == 2 and "confidence" in findings and abs(positive["z"]) > 1.96
    )
    if said:
        assert said[0] == ("high" if positive["gap"] > 0 else "low")
        assert float(said[1]) == pytest.approx(abs(positive["gap"]), abs=1e-4)
        assert float(said[2]) == pytest.approx(min(map(abs, positive["ci"])), abs=1e-4)
    said = number(r"(\d+) of (\d+) classes (?:is|are) miscalibrated", verdict)
    assert (said is not None) == (
        rows.k > 2 and findings >= {"classes"} and "confidence" not in findings
    )
    if said:
        assert [int(x) for x in said] == [classes["n_significant"], rows.k]
    said = number(
        r"(\d+) of (\d+) groups (?:is|are) miscalibrated, most clearly (\w+) by ([+-][\d.]+)",
        verdict,
    )
    assert (said is not None) == ("groups" in findings)
    if said:
        assert [int(said[0]), int(said[1])] == [
            groups["n_significant"],
            groups["n_groups"],
        ]
        assert (said[2], said[3]) == (groups["worst"], f"{groups['worst_gap']:+.4f}")
    said = number(r"recalibration could reduce NLL by ([\d.e-]+)", verdict)
    assert (said is not None) == (
        bool(findings)
        and split is not None
        and split["nll"]["calibration"] > 1.645 * split["nll"]["calibration_se"]
    )
    if said:
        ts = "(cross-validated ts)" in verdict
        gain = (
            split["temperature"]["nll"]["calibration"]
            if ts
            else split["nll"]["calibration"]
        )
        assert float(said[0]) == pytest.approx(gain, rel=0.05, abs=5e-5)
    command = report["advice"]["command"]
    assert not command or (command in verdict and bool(findings))
    if rows.k == 2:
        assert (
            "vector" not in verdict
            and "classes" not in findings
            and "as a whole" not in verdict
        )

    # The tables begin with what is most significant, and star what the verdict counts.
    if rows.k > 1:
        starred = {line["class"] for line in found["per_class"] if line["significant"]}
        assert (
            starred == set(classes["significant_classes"])
            and len(starred) == classes["n_significant"]
        )
        assert not starred or findings & {"classes", "confidence"}
        p = [line["p_adjusted"] for line in found["per_class"]]
        assert p == sorted(p) and p[0] == classes["p_value"]
        assert all(
            line["significant"] == (line["p_adjusted"] <= LEVEL)
            for line in found["per_class"]
        )
    if (
        group is not None
    ):  # one quantity in every line; the other of two classes where it is significant
        lines = found["per_group"]
        assert {line["of_positive"] for line in lines} == {rows.k == 2}
        counted = [line for line in lines if line["significant"] or "other" in line]
        assert len(counted) == groups["n_significant"]
        worst = next(line for line in lines if line["group"] == groups["worst"])
        if groups["of_positive"] == (rows.k == 2):
            assert worst is lines[0] and worst["p_adjusted"] == groups["p_value"]
            assert worst["gap"] == groups["worst_gap"]
        elif groups["n_significant"]:
            assert worst["other"]["p_adjusted"] == groups["p_value"]
            assert worst["other"]["gap"] == groups["worst_gap"]
        assert all(
            line["other"]["p_adjusted"] <= LEVEL for line in lines if "other" in line
        )
        assert all(
            line["significant"] == (line["p_adjusted"] <= LEVEL)
            for line in found["per_group"]
        )
    assert all(
        each["significant"] == (each["p_adjusted"] <= LEVEL) for each in report["bins"]
    )
    assert not any(each["significant"] for each in report["bins"]) or findings & {
        "bins",
        "confidence",
    }


def test_every_kind_of_finding_came_up():
    """The cases above are of use only while every clause occurs among them."""
    seen = [set(judged(seed)[2]["report"]["findings"]) for seed in range(CASES)]
    assert set().union(*seen) == {"confidence", "classes", "groups", "bins", "split"}
    assert set() in seen and any(found and "confidence" not in found for found in seen)
