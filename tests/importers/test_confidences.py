"""Bundles of (confidence, correct): read, fitted, applied and judged for what they are, and no more."""

import json
import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from synthetic import fit

from calcli.io.artifact import load
from calcli.metrics.context import MetricContext
from calcli.metrics.joint_test import joint_test
from calcli.metrics.rowtable import RowTable
from calcli.rows import ArrayRows

ABLE = (
    "platt",
    "beta",
    "ir",
    "hb",
    "sb",
    "spline",
    "bbq",
    "quadratic",
    "mline",
    "venn-abers",
    "identity",
)


def overconfident(n=800, seed=0):
    """Confidences in whole percent, 0.01 to 0.99, right less often than they say."""
    rng = np.random.default_rng(seed)
    c = np.clip(np.round(rng.beta(5, 2, n), 2), 0.01, 0.99)
    return c, rng.random(n) < c**1.5


def bundle(path="qa.h5", confidence=None, correct=None, **columns):
    c, y = overconfident()
    with h5py.File(path, "w") as file:
        file["confidence"] = c if confidence is None else confidence
        file["correct"] = y if correct is None else correct
        for name, values in columns.items():
            file[name] = values


def rows_of(c, y, weight=None):
    return ArrayRows(
        np.asarray(c, dtype=np.float64)[:, None], y, "confidence", weight=weight
    )


def through(calibrator, c):
    return np.concatenate(
        [calibrator.apply(block).confidence for block in rows_of(c, None).blocks()]
    )


def test_the_ece_of_an_extracted_table_is_the_one_computed_by_hand(run, tmp_path):
    lines = ["sure,right", "0.95,1", "0.9,1", "0.9,0", "0.6,1", "0.6,0", "0.3,0"]
    (tmp_path / "qa.csv").write_text("\n".join(lines) + "\n")
    assert (
        run(
            "extract",
            "qa.csv",
            "--confidence",
            "sure",
            "--correct",
            "right",
            "-o",
            "qa.h5",
        ).code
        == 0
    )
    # bins of 1/15: (1 |.95 - 1| + 2 |.9 - .5| + 2 |.6 - .5| + 1 |.3 - 0|) / 6
    assert float(
        run("evaluate", "qa.h5", "--metric", "ece", "--format", "value").out
    ) == pytest.approx(1.35 / 6, abs=1e-15)
    result = json.loads(run("evaluate", "qa.h5", "--json").out)["results"][0]
    assert (
        result["n_classes"] is None and result["report"]["data"]["kind"] == "confidence"
    )
    assert result["metrics"]["accuracy"]["value"] == 0.5
    # (.05^2 + .1^2 + .9^2 + .4^2 + .6^2 + .3^2) / 6
    assert result["metrics"]["brier_top"]["value"] == pytest.approx(
        1.4325 / 6, abs=1e-15
    )
    assert {"mean_confidence", "ece_mass", "mce", "tce2", "smece"} <= set(
        result["metrics"]
    )
    assert not {"nll", "brier", "cwece", "roc_auc"} & set(result["metrics"])


def test_platt_and_isotonic_are_those_of_scikit_learn():
    c, y = overconfident()
    platt = fit("platt", rows_of(c, y)).calibrator
    s = np.log(c / (1 - c))
    other = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(s[:, None], y)
    assert platt.mode == "top"
    assert platt.slope[0] == pytest.approx(other.coef_[0, 0], rel=1e-6)
    np.testing.assert_allclose(
        through(platt, c), other.predict_proba(s[:, None])[:, 1], atol=1e-6
    )
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(c, y)
    np.testing.assert_allclose(
        through(fit("ir", rows_of(c, y)).calibrator, c), isotonic.predict(c), atol=1e-12
    )


def test_a_confidence_on_a_bins_edge_stays_on_its_side():
    # bins of 1/5: (.2, .4] holds 0 of 1, (.4, .6] 1 of 2, (.8, 1] 2 of 3; nothing is computed by way of log-odds
    c, y = np.array([0.95, 0.9, 0.9, 0.6, 0.6, 0.4]), np.array([1, 1, 0, 1, 0, 0])
    histogram = fit("hb", rows_of(c, y), bins=5).calibrator
    assert through(histogram, c).tolist() == [2 / 3, 2 / 3, 2 / 3, 0.5, 0.5, 0.0]
    assert through(fit("identity", rows_of(c, y)).calibrator, c).tolist() == c.tolist()


@pytest.mark.parametrize("name", ABLE)
def test_every_top_label_method_goes_round(run, name):
    bundle(ids=np.arange(800), group=np.arange(800) % 3, weights=np.ones(800))
    assert run("fit", "-m", name, "qa.h5", "-o", "a.json", "-q").code == 0
    artifact = json.loads(Path("a.json").read_text())
    assert artifact["input_kind"] == "confidence" and artifact["n_classes"] is None
    assert list(artifact["fit"]["before"]) == [
        "accuracy",
        "nll_top",
        "brier_top",
        "ece",
    ]
    if name != "identity":
        assert artifact["options"]["mode"] == "top"
        assert (
            artifact["fit"]["after"]["brier_top"]
            < artifact["fit"]["before"]["brier_top"]
        )
    assert run("apply", "a.json", "qa.h5", "-o", "out.h5", "-q").code == 0
    c, y = overconfident()
    with h5py.File("out.h5") as file:
        assert (
            file["confidence"][()].tolist()
            == through(load("a.json").calibrator, c).tolist()
        )
        assert file["correct"].dtype == bool and (file["correct"][()] == y).all()
        assert set(file) == {"confidence", "correct", "ids", "group", "weights"}
    results = json.loads(
        run("evaluate", "qa.h5", "-c", "a.json", "--metric", "brier_top", "--json").out
    )["results"]
    calibrated = json.loads(
        run("evaluate", "out.h5", "--metric", "brier_top", "--json").out
    )["results"]
    assert results[1]["metrics"] == calibrated[0]["metrics"]
    for ending in ("csv", "jsonl", "npz", "parquet"):
        assert run("apply", "a.json", "qa.h5", "-o", f"out.{ending}", "-q").code == 0
        names = ("--confidence", "confidence", "--correct", "correct")
        assert run("extract", f"out.{ending}", *names, "-o", f"{ending}.h5").code == 0
        with h5py.File("out.h5") as one, h5py.File(f"{ending}.h5") as other:
            for column in ("confidence", "correct", "ids", "group"):
                assert one[column][()].tolist() == other[column][()].tolist()
    again = run("apply", "a.json", "out.h5", "-o", "twice.h5")
    assert again.code == 3 and "it would be calibrated twice" in again.line


def test_weights_count_as_repeated_rows():
    c, y = overconfident()
    weight = np.arange(800) % 3 + 1.0
    often = np.repeat(np.arange(800), weight.astype(int))
    for name in ("platt", "hb", "ir"):
        one, other = (
            fit(name, rows).calibrator
            for rows in (rows_of(c, y, weight), rows_of(c[often], y[often]))
        )
        np.testing.assert_allclose(through(one, c), through(other, c), atol=1e-8)


WORK = "auto, platt, beta, ir, hb, venn-abers, sb, platt-by, spline, bbq, mline, quadratic, logit-spline, identity"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            "fit -m ts qa.h5",
            4,
            "qa.h5: method ts needs the scores of every class, this bundle holds one confidence a row;"
            f" these methods need no more: {WORK}",
        ),
        (
            "fit -m ts+hb qa.h5",
            4,
            "qa.h5: method ts+hb needs the scores of every class, this bundle holds one confidence a row;"
            f" these methods need no more: {WORK}",
        ),
        (
            "fit -m hb --set mode=ova qa.h5",
            4,
            "qa.h5: mode=ova needs the scores of classes, these rows hold one confidence each: mode=top",
        ),
        (
            "fit -m sb --set base=vector qa.h5",
            4,
            "qa.h5: base=vector needs the scores of every class, these rows hold confidences",
        ),
        (
            "evaluate qa.h5 --per-class",
            3,
            "qa.h5: holds one confidence a row and no classes, which --per-class needs; leave it out",
        ),
        (
            "evaluate qa.h5 --label positive",
            2,
            "--label positive is for two classes, these rows hold one confidence each",
        ),
        (
            "diagram qa.h5 --per-class",
            2,
            "these rows hold one confidence each and no classes to draw; --per-group draws groups",
        ),
        (
            "apply top.json two.h5 -o o.h5",
            3,
            "top.json: was fitted on confidences, of which no class is known, two.h5 holds the logits of 2 classes;"
            " fit a calibrator on rows of the same kind",
        ),
        (
            "apply two.json qa.h5 -o o.h5",
            3,
            "two.json: was fitted on the logits of 2 classes, qa.h5 holds confidences, of which no class is known;"
            " fit a calibrator on rows of the same kind",
        ),
        (
            "export top.json --to python -o m.py",
            2,
            "top.json: maps confidences of which no class is known; only calibrators of the scores of all classes can"
            " be exported; calcli apply uses it",
        ),
        (
            "apply top.json qa.h5 --as logits -o o.h5",
            2,
            "--as logits: qa.h5 holds confidences, which are calibrated as such",
        ),
    ],
)
def test_what_needs_classes_says_so(run, words, code, sentence):
    bundle()
    rng = np.random.default_rng(1)
    with h5py.File("two.h5", "w") as file:
        file["logits"], file["labels"] = (
            rng.normal(size=(200, 2)),
            rng.integers(0, 2, 200),
        )
    run("fit", "-m", "hb", "qa.h5", "-o", "top.json", "-q")
    run("fit", "-m", "hb", "two.h5", "-o", "two.json", "-q")
    done = run(*words.split())
    assert (done.code, done.line) == (code, f"calcli: {sentence}")


def test_metrics_of_the_whole_vector_say_why_not(run):
    bundle()
    done = json.loads(
        run("evaluate", "qa.h5", "--metric", "nll", "--metric", "cwece", "--json").out
    )["results"][0]
    for name in ("nll", "cwece"):
        assert done["metrics"][name]["value"] is None
        assert done["metrics"][name]["reason"] == (
            "needs the probabilities of all classes, these rows hold one confidence each"
        )
    alone = run("evaluate", "qa.h5", "--metric", "nll", "--format", "value")
    assert (alone.out, alone.code) == (
        "null\n",
        0,
    ) and "nll: undefined for uncalibrated: needs the" in alone.err
    limited = run("evaluate", "qa.h5", "--max", "nll=1")
    assert (
        limited.code == 5
        and "nll has no value (needs the probabilities of all classes" in limited.err
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"confidence": [0.5, 85.0, 0.2]},
            "qa.h5: confidence: row 1 is 85, expected a confidence in [0, 1]; divide percentages by 100"
            " (calcli extract --percent)",
        ),
        (
            {"confidence": [0.5, 0.2, np.nan]},
            "qa.h5: confidence: row 2 is nan, expected a confidence in [0, 1]; drop the row"
            " (calcli extract --drop-missing) or correct what made it",
        ),
        (
            {"confidence": np.ones((3, 2)) / 2},
            "qa.h5: confidence: has shape (3, 2), expected (rows,): one a row",
        ),
        (
            {"correct": [0, 1, 2]},
            "qa.h5: correct: row 2 is 2, expected 1 (right) or 0 (wrong); drop or correct the row",
        ),
        (
            {"correct": [0, 1]},
            "qa.h5: correct: has shape (2,), expected (3,): one per row",
        ),
    ],
)
def test_values_that_are_no_confidences_are_named(run, wrong, sentence):
    bundle(**({"confidence": [0.5, 0.1, 0.2], "correct": [True, False, True]} | wrong))
    for command in (
        ("inspect", "qa.h5"),
        ("evaluate", "qa.h5"),
        ("fit", "-m", "hb", "qa.h5"),
    ):
        line = run(*command).line
        assert line.startswith(f"calcli: {sentence}; "), line
        assert "to try: calcli " in line or "no command is proposed" in line


def test_certain_confidences_are_told_where_log_odds_are_taken(run):
    c, y = overconfident()
    c = np.sqrt(0.97) * c  # not rounded to decimals, which say how far 1 is from 1
    c[:5] = 1.0
    bundle(confidence=c, correct=y)
    assert (
        "5 of 800 confidences are exactly 0 or 1"
        in run("fit", "-m", "platt", "qa.h5").err
    )
    for rank_based in ("ir", "venn-abers"):
        assert "exactly 0 or 1" not in run("fit", "-m", rank_based, "qa.h5").err


def test_groups_report_diagram_and_all_methods(run, tmp_path):
    bundle(group=np.arange(800) % 2)
    assert run("fit", "-m", "all", "qa.h5", "-o", "all", "-q").code == 0
    assert len(list((tmp_path / "all").iterdir())) == 11
    lines = json.loads(run("evaluate", "qa.h5", "--per-group", "--json").out)[
        "results"
    ][0]["per_group"]
    assert {line["group"] for line in lines} == {0, 1}
    assert run("report", "qa.h5", "-c", "all/qa.hb.json", "-o", "r.html").code == 0
    assert "calcli fit --method ts" not in (tmp_path / "r.html").read_text()
    for style in ("corp", "bins", "risk", "variance"):
        assert (
            run("diagram", "qa.h5", "--style", style, "-o", f"{style}.json").code == 0
        )


@pytest.mark.slow
def test_the_verdict_on_calibrated_confidences_is_clean_nineteen_times_in_twenty():
    rng = np.random.default_rng(7)
    dirty, draws = 0, 200
    for seed in range(draws):
        c = np.round(rng.beta(5, 2, 300), 2)
        table = table_of(c, rng.random(300) < c)
        settings = MetricContext(table).settings
        dirty += (
            joint_test(
                MetricContext(table, type(settings)(seed=seed, resamples=200))
            ).p_value
            <= 0.045
        )
    # a binomial of 200 draws at 4.5 % stays at or below 20 with probability .9998
    assert dirty <= 20


def table_of(c, y) -> RowTable:
    from calcli.metrics.collect import collect

    return collect(rows_of(c, y))


def test_artifacts_of_confidences_are_checked_as_they_are_read(run):
    bundle()
    run("fit", "-m", "platt", "qa.h5", "-o", "a.json", "-q")
    good = json.loads(Path("a.json").read_text())
    for change, words in (
        (
            {"n_classes": 2},
            "input_kind is confidence, so n_classes and class_names are expected to be null",
        ),
        (
            {"input_kind": "logits"},
            "n_classes is null, expected at least 2, and fewer than 2^31",
        ),
        (
            {"method": "ts"},
            "input_kind is confidence, but method ts needs the scores of every class",
        ),
        (
            {"params": good["params"] | {"mode": "ova"}},
            "params are of scores of classes, but input_kind is confidence",
        ),
    ):
        Path("b.json").write_text(json.dumps(good | change))
        done = run("inspect", "b.json")
        assert (done.code, done.line) == (
            3,
            f"calcli: b.json: is no valid artifact: {words}",
        )


@pytest.mark.parametrize(
    "name",
    [
        "correct",
        "Correct",
        "is correct",
        "is_correct",
        "isCorrect",
        "acc",
        "exact_match",
    ],
)
@pytest.mark.parametrize("score", ["score", "probability"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "npz", "h5", "parquet"])
def test_what_was_right_is_never_taken_for_labels(run, name, score, ending):
    """Not with --kind either, which would read a confidence as P(class 1); asked for in so many words, it is."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    c, y = overconfident(40)
    path = f"t.{ending}"
    if ending == "csv":
        Path(path).write_text(
            f"{score},{name}\n"
            + "".join(f"{a},{int(b)}\n" for a, b in zip(c, y, strict=True))
        )
    elif ending == "jsonl":
        rows = zip(c.tolist(), y.tolist(), strict=True)
        Path(path).write_text(
            "".join(json.dumps({score: a, name: b}) + "\n" for a, b in rows)
        )
    elif ending == "npz":
        np.savez(path, **{score: c, name: y.astype(int)})
    elif ending == "h5":
        with h5py.File(path, "w") as file:
            file[score], file[name] = c, y
    else:
        pq.write_table(pa.table({score: c, name: y}), path)
    for words in ([], ["--kind", "probs"]):
        refused = run("extract", path, *words, "-o", "x.h5")
        assert refused.code in (2, 3) and not Path("x.h5").exists()
        assert f"--confidence {score} --correct " in refused.err
    taken = run("extract", path, "--confidence", score, "--correct", name, "-o", "x.h5")
    assert taken.code == 0, taken.err
    with h5py.File("x.h5") as file:
        assert (file["correct"][()] == y).all()


# ---- grades in words


def graded(right, wrong):
    """A table of confidences with two words for right and wrong; the share of right."""
    c, y = overconfident()
    lines = [f"{a:.2f},{right if b else wrong}" for a, b in zip(c, y, strict=True)]
    Path("graded.csv").write_text("\n".join(["confidence,correct", *lines]) + "\n")
    return y.mean()


def accuracy(run, name):
    done = run("evaluate", name, "--metric", "accuracy", "--format", "value")
    assert done.code == 0, done.err
    return float(done.out)


@pytest.mark.parametrize(
    ("right", "wrong"), [("hit", "miss"), ("Pass", "Fail"), ("yes", "no"), ("ok", "ko")]
)
def test_words_of_known_meaning_are_grades(right, wrong, run):
    share = graded(right, wrong)
    assert accuracy(run, "graded.csv") == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize(("right", "wrong"), [("good", "poor"), ("a b", "it's")])
def test_other_words_are_asked_about(right, wrong, run):
    """The alphabet would take the later word, which is the wrong one."""
    share = graded(right, wrong)
    refused = run("evaluate", "graded.csv")
    assert refused.code == 3 and "means right?" in refused.err
    advised = shlex.split(refused.err.partition("to try: ")[2])
    assert run(*advised[1:]).code == 0
    assert accuracy(run, "graded.h5") == pytest.approx(share, abs=1e-12)


def test_words_that_the_confidences_do_not_rank_end_without_a_command(run):
    rows = "".join(f"{0.1 + 0.8 * (i % 7) / 6:.2f},{'ab'[i % 2]}\n" for i in range(98))
    Path("graded.csv").write_text("confidence,correct\n" + rows)
    refused = run("evaluate", "graded.csv")
    assert refused.code == 3
    assert "no command is proposed, as the confidences are no higher" in refused.err
