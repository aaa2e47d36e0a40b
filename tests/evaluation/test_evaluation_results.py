"""Results as objects: the stable keys of the JSON output."""

import json

import h5py
import numpy as np
import pytest
from metric_cases import draw_labels, softmax
from run_calcli import runner

import calcli

RNG = np.random.RandomState(0)
LOGITS = RNG.normal(size=(400, 4)) * 1.5
LABELS = draw_labels(softmax(LOGITS), RNG)

# contract.md sections 4 and 6, and what 0.1 wrote besides.
RESULT = ["bundle", "calibrator", "method", "n", "n_classes", "metrics"]
METRICS = [
    "accuracy",
    "nll",
    "brier",
    "brier_top",
    "mean_confidence",
    "ece",
    "ece_mass",
    "mce",
    "tce2",
    "smece",
]
INTERVAL = ["ci", "ci_level", "ci_method"]
NULL = ["null_mean", "null_q95", "p_value"]
PART = ["value", "refinement", "calibration", "calibration_se", "calibration_share"]
KEYS = {
    "accuracy": ["value", "signature", "se", *INTERVAL],
    "nll": ["value", "signature", "se", *INTERVAL, *NULL, "clipped"],
    "brier": ["value", "signature", "se", *INTERVAL],
    "ece": ["value", "signature", *INTERVAL, *NULL, "bins_used"],
    "mce": ["value", "signature", *NULL, "bins_used"],
    "tce2": ["value", "signature", *INTERVAL, *NULL, "signed_square", "bins_used"],
    "smece": ["value", "signature", *NULL],
}


@pytest.fixture
def whole(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    with h5py.File("m.h5", "w") as file:
        for name, part in (("cal", slice(0, 200)), ("test", slice(200, 400))):
            group = file.create_group(name)
            group["logits"], group["labels"] = 2 * LOGITS[part], LABELS[part]
            group["group"] = np.array(["a", "b"], dtype=object)[np.arange(200) % 2]
    assert run("fit", "-m", "ts", "m.h5", "-q").code == 0
    words = ["--per-class", "--per-group", "--max", "ece=1", "--resamples", "50"]
    done = run("evaluate", "m.h5:*", "-c", "m.ts.json", *words, "--json", "-q")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_keys_of_the_json_output(whole):
    assert list(whole) == ["calcli_evaluation", "results", "ranks", "limits"]
    plain, calibrated = whole["results"][:2]
    parts = ["report", "per_class", "per_group"]
    assert list(plain) == [*RESULT, "warnings", *parts]
    assert list(calibrated) == [*RESULT, "warnings", "paired", *parts]
    assert list(plain["metrics"]) == METRICS
    for name, keys in KEYS.items():
        assert list(plain["metrics"][name]) == keys, name
    assert list(calibrated["paired"]) == ["baseline", "differences"]
    assert list(calibrated["paired"]["differences"]) == METRICS[:5]
    assert list(calibrated["paired"]["differences"]["nll"]) == [
        "value",
        "se",
        *INTERVAL,
        "p_value",
    ]
    report = plain["report"]
    assert {
        "data",
        "direction",
        "classwise",
        "split",
        "groups",
        "verdict",
        "verdict_kind",
        "messages",
        "findings",
        "next",
        "exact",
        "overconfidence",
        "p_value",
    } <= set(report)
    assert list(report["exact"]) == ["kind", "p_value"]
    assert list(report["overconfidence"]) == ["value", *INTERVAL]
    assert all({"kind", "text"} <= set(message) for message in report["messages"])
    assert list(report["split"]) == ["method", "folds", "nll", "brier", "temperature"]
    for part in (
        report["split"]["nll"],
        report["split"]["brier"],
        report["split"]["temperature"]["nll"],
    ):
        assert list(part) == PART
    assert {"gap", "gap_z", "entropy_gap", "entropy_z"} == set(report["direction"])
    assert {
        "value",
        "signed_square",
        "p_value",
        "n_significant",
        "significant_classes",
    } <= set(report["classwise"])
    assert {
        "n",
        "n_classes",
        "kind",
        "weighted",
        "largest_class_share",
        "smallest_class_share",
    } <= set(report["data"])
    line = {
        "class",
        "name",
        "n",
        "predicted",
        "share",
        "mean_probability",
        "gap",
        "p_value",
        "significant",
        "recall",
    }
    assert line | {"precision", "ece"} <= set(plain["per_class"][0])
    assert {"group", "n", "gap", "p_value", "metrics"} <= set(plain["per_group"][0])
    assert list(whole["ranks"]) == ["calibrators", "n_bundles", "metrics"]
    rank = ["ranks", "chi2", "p_value", "iman_davenport_f", "iman_davenport_p_value"]
    assert list(whole["ranks"]["metrics"]["nll"]) == rank
    assert list(whole["limits"][0]) == [
        "limit",
        "bundle",
        "calibrator",
        "value",
        "crossed",
    ]


def test_confidences_that_differ_by_rounding_only_are_one():
    """0.1 + 0.2 and 0.3, as sums of a row in another order leave them: 43 distinct confidences became 42."""
    p = np.array([[0.1 + 0.2, 0.3, 0.4], [0.3, 0.4, 0.1 + 0.2], [0.2, 0.2, 0.6]] * 20)
    p[::2] *= 1.0 + 2e-16
    done = calcli.evaluate(p, [0, 1, 2] * 20, kind="probs")
    report = done.to_dict()["results"][0]["report"]
    assert report["data"]["distinct_confidences"] == 2
