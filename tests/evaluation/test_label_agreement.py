"""Labels that do not belong to the scores are asked about; those that do, however badly, are not."""

import json
import warnings

import h5py
import numpy as np
import pytest
from run_calcli import runner
from synthetic import truth

import calcli
from calcli.metrics.label_agreement import REVERSED, LabelAgreement


def overconfident(n, k, seed=1):
    """Logits twice too large, and labels of the model itself."""
    z, y = truth(n, k, seed=seed, scale=6.0)
    return 2.0 * z, y


def biased(seed):
    """A model that says the first class far too often."""
    z, y = overconfident(500, 5, seed)
    return z + np.array([20.0, 0, 0, 0, 0]), y


WRONG = {
    "from 1": (
        lambda z, y: (z[y < z.shape[1] - 1], y[y < z.shape[1] - 1] + 1),
        "counted from 1",
    ),
    "a class too many": (
        lambda z, y: (z[y > 0], y[y > 0] - 1),
        "begin with a class that labels lack",
    ),
    "reversed": (lambda z, y: (z[:, ::-1], y), "same order"),
    "two exchanged": (
        lambda z, y: (z[:, [0, 2, 1, *range(3, z.shape[1])]], y),
        r"class [12], \d+ are labelled [12]",
    ),
    "other rows": (
        lambda z, y: (z, np.random.default_rng(0).permutation(y)),
        "no better than chance",
    ),
    "its own predictions": (
        lambda z, y: (z, z.argmax(axis=1)),
        "the model's own predictions",
    ),
    "negated": (lambda z, y: (-z, y), r"losses or distances\? negate them"),
}


@pytest.mark.parametrize("k", [5, 40])
@pytest.mark.parametrize("way", WRONG)
def test_labels_of_other_rows_or_classes_are_asked_about(way, k):
    change, said = WRONG[way]
    z, y = change(*overconfident(4000, k))
    with pytest.warns(UserWarning, match=said):
        calcli.evaluate(z, y, metrics=["accuracy"])


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("k", [3, 10])
def test_the_headline_names_scores_of_reversed_sign(
    tmp_path, monkeypatch, capsys, k, kind
):
    """It blamed labels counted from 1, or two exchanged classes."""
    monkeypatch.chdir(tmp_path)
    z, y = truth(400, k, seed=k, scale=4.0)
    scores = -z
    if kind == "probs":
        scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.savez("losses.npz", **{kind: scores}, labels=y)
    done = runner(monkeypatch, capsys)("evaluate", "losses.npz", "--json")
    (result,) = json.loads(done.out)["results"]
    assert result["report"]["verdict_kind"] == "check_labels"
    share = (z.argmax(axis=1) == y).mean()
    words = f"the lowest score is the label on {share:.1%} of the rows"
    assert words in result["report"]["verdict"]
    first = result["report"]["messages"][0]["text"]
    assert first == REVERSED
    assert "counts" not in result


@pytest.mark.parametrize("seed", range(40))
def test_no_other_scores_are_called_reversed(seed):
    """Scores that know nothing, or are of other rows, however sure they are."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(3, 12))
    z = rng.normal(size=(500, k)) * rng.choice([0.5, 9.0])
    y = rng.choice(k, 500, p=rng.dirichlet(np.ones(k)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        calcli.evaluate(z, y, metrics=["accuracy"])
    assert not any("to be negated" in str(warning.message) for warning in said)


def test_two_classes_exchanged():
    z, y = overconfident(1000, 2)
    with pytest.warns(UserWarning, match="same order"):
        calcli.evaluate(z, 1 - y, metrics=["accuracy"])
    with pytest.warns(
        UserWarning,
        match=r"rose from 0\.\d+ to 0\.\d+, more than miscalibration explains",
    ):
        calcli.fit(z, 1 - y, "platt")


def test_a_fit_doubts_no_labels_of_two_classes_that_rank_well():
    """Risks of a model for a rate of 50 % where it is 3 %: accuracy .05, ROC AUC .81.

    It said: below chance, do labels and scores belong to the same rows?
    """
    rng = np.random.default_rng(5)
    log_odds = rng.normal(size=3000) * 1.3 - 4.0
    outcome = (rng.random(3000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    with pytest.warns(UserWarning, match="predictions changed") as said:
        calcli.fit(log_odds + 7.0, outcome, "platt", kind="logits")
    assert not any("order" in str(warning.message) for warning in said)
    with pytest.warns(UserWarning, match="below chance .* same order of classes"):
        calcli.fit(-1.0 - log_odds, outcome, "platt", kind="logits")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    "make",
    [
        lambda rng: overconfident(300, 10, seed=int(rng.integers(1000))),
        lambda rng: (
            rng.normal(size=(400, 100)) * 0.3,
            rng.integers(0, 100, 400),
        ),  # knows nothing, claims little
        lambda rng: (
            np.tile([4.0, 0.0], (500, 1)),
            (rng.random(500) < 0.02).astype(int),
        ),  # rare, never predicted
        lambda rng: biased(int(rng.integers(1000))),  # one class absorbs the others
        lambda rng: (
            rng.normal(size=(49, 3)) * 9,
            rng.integers(0, 3, 49),
        ),  # too few to tell
    ],
    ids=[
        "good",
        "knows nothing and says so",
        "rare class",
        "absorbing class",
        "few rows",
    ],
)
def test_models_that_are_merely_bad_are_not(make, seed):
    z, y = make(np.random.default_rng(seed))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    doubt = LabelAgreement.of(z.argmax(axis=1), y, z.shape[1]).doubt(
        float(p.max(axis=1).mean()), None
    )
    assert doubt is None


@pytest.mark.parametrize(("labels", "asked"), [(5, True), (4, False)])
@pytest.mark.parametrize("weight", [1.0, 1e-9])
def test_labels_of_a_class_that_the_scores_exclude_are_asked_about(
    labels, asked, weight
):
    """2000 e^-30 / (1 + e^.3) is 8e-11 labels expected; "fit a calibrator: calcli fit --method ts" was the answer."""
    z = np.tile([0.0, 0.3, -30.0], (2000, 1))
    y = np.r_[np.full(labels, 2), np.arange(2000 - labels) % 2]
    with pytest.warns() if asked else pytest.MonkeyPatch.context():
        report = calcli.evaluate(z, y, weights=np.full(2000, weight)).results[0].report
    assert (report.kind == "check_labels") == asked
    reason = "5 labels are class 2, whose probabilities sum to 8e-11 over all rows"
    assert (report.headline == f"check the labels: {reason}") == asked
    questions = [line for line in report.lines if "does the model have this" in line]
    assert bool(questions) == asked


def test_a_rare_class_of_a_very_overconfident_model_is_not_excluded():
    """Logits four times too large, and 40 classes of very different frequencies."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z = 2.0 * rng.normal(size=(1000, 40)) + 2.0 * rng.normal(size=40)
        y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        assert calcli.evaluate(4.0 * z, y).results[0].report.kind == "overconfident"


def test_counts_add():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 7, 500), rng.integers(0, 7, 500)
    whole = LabelAgreement.of(a, b, 7)
    parts = LabelAgreement.of(a[:123], b[:123], 7) + LabelAgreement.of(
        a[123:], b[123:], 7
    )
    assert np.array_equal(parts.code, whole.code)
    assert np.array_equal(parts.count, whole.count)
    assert whole.count.sum() == 500


def test_commands_ask_with_the_names_of_the_classes(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    z, y = overconfident(2000, 4)
    with h5py.File("x.h5", "w") as file:
        file["logits"], file["labels"] = z[:, [0, 2, 1, 3]], y
        file["class_names"] = np.array(["ant", "bee", "cat", "dog"], dtype=object)
    run = runner(monkeypatch, capsys)
    for words in (
        ("evaluate", "x.h5", "--metric", "ece"),
        ("diagram", "x.h5", "-o", "d.json"),
        ("report", "x.h5", "-o", "r.html", "--no-decomposition"),
    ):
        done = run(*words)
        assert done.code == 0
        assert "same order?" in done.err, words
        assert "(bee)" in done.err
        assert "(cat)" in done.err
    assert "same order?" in (tmp_path / "r.html").read_text(encoding="utf-8")
    output = json.loads(run("evaluate", "x.h5", "--metric", "ece", "--json").out)[
        "results"
    ][0]["warnings"]
    assert any("same order?" in text for text in output)


def test_very_many_rows_are_asked_too(monkeypatch):
    monkeypatch.setattr("calcli.evaluation.evaluate_bundle.LONG", 1000)
    z, y = overconfident(3000, 5)
    with pytest.warns(UserWarning, match="same order"):
        calcli.evaluate(z[:, ::-1], y, metrics=["ece"])


@pytest.mark.parametrize(("n", "k", "smoothing"), [(400, 10, 0.2), (250, 2, 0.15)])
def test_a_model_that_is_always_right_is_underconfident(n, k, smoothing):
    """Label smoothing leaves confidences of 1 - smoothing; the labels are asked about."""
    p = np.full((n, k), smoothing / (k - 1))
    y = np.arange(n) % k
    p[np.arange(n), y] = 1.0 - smoothing
    with pytest.warns(UserWarning, match="the model's own predictions"):
        report = calcli.evaluate(p, y, kind="probs").results[0].report
    assert report.kind == "underconfident"
    expected = f"their confidences expect {n * smoothing:.0f} errors"
    assert any(expected in line for line in report.lines)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_labels_that_share_the_highest_score_are_said(k, kind):
    """Of 100 labels 30 tie and are first, 20 tie and are not, 40 are right, 10 wrong."""
    p = np.full((100, k), 1e-3)
    y = np.r_[np.zeros(30, int), np.ones(20, int), np.zeros(40, int), np.ones(10, int)]
    p[:, 0] = 0.5
    p[:50, 1] = 0.5
    scores = p / p.sum(axis=1, keepdims=True) if kind == "probs" else np.log(p)
    with pytest.warns(UserWarning, match="50 of 100 labels share the highest score"):
        result = calcli.evaluate(scores, y, kind=kind).results[0]
    assert result.scores["accuracy"].value == 0.7
    assert result.counts == {"tied_labels": 50, "tied_labels_right": 30}
    words = "accuracy is 0.40 to 0.90, by the order of classes"
    assert any(words in line for line in result.report.lines)


@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_importing_and_judging_ask_the_same_of_reversed_scores(
    kind, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    z = 2.0 * rng.normal(size=(600, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    scores = -z
    if kind == "probs":
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        scores = (1.0 - p) / 3.0
    np.savez("reversed.npz", labels=y, **{kind: scores})
    run = runner(monkeypatch, capsys)
    imported = run("extract", "reversed.npz", "-o", "reversed.h5").err
    judged = run("evaluate", "reversed.npz", "--json")
    assert REVERSED in " ".join(imported.split())
    (result,) = json.loads(judged.out)["results"]
    assert result["report"]["messages"][0]["text"] == REVERSED
