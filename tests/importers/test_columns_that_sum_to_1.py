"""Scores among other numbers of a table: columns side by side that sum to 1.

Labels are drawn from the probabilities; accuracy and NLL are those of the arrays that
were written.
"""

import json

import numpy as np
import pytest
from drawn_tables import N, assert_read, drawn, table


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def numbers(seed=1):
    """Columns of other meanings, some of which lie in [0, 1]."""
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(18, 90, N),
        "u": rng.random(N).round(3),
        "flag": rng.integers(0, 2, N),
        "top_score": rng.random(N),
    }


@pytest.mark.parametrize(
    "names",
    [("neg", "neu", "pos"), ("1", "2", "3"), ("1.0", "2.0", "3.0"), ("a/b", "a", "b")],
    ids="-".join,
)
@pytest.mark.parametrize("is_first", [True, False])
def test_they_are_read_among_other_numbers(run, names, is_first):
    p, y = drawn(3)
    scores = {name: p[:, k] for k, name in enumerate(names)}
    columns = {"y": y} | numbers() | scores
    if is_first:
        columns = scores | numbers() | {"y": y}
    assert_read(run, table("scores.csv", columns), p, y)


@pytest.mark.parametrize("decimals", [2, 4])
def test_they_may_be_rounded(run, decimals):
    p, y = drawn(3)
    rounded = p.round(decimals)
    # a zero at the label counts as its rounding says, which is another test
    keep = rounded[np.arange(N), y] > 0
    rounded, y = rounded[keep], y[keep]
    columns = {name: values[keep] for name, values in numbers().items()}
    columns |= {name: rounded[:, k] for k, name in enumerate(("neg", "neu", "pos"))}
    done = run("evaluate", table("scores.csv", columns | {"y": y}), "--json")
    assert done.code == 0, done.err
    (result,) = json.loads(done.out)["results"]
    right = (rounded.argmax(axis=1) == y).mean()
    assert result["metrics"]["accuracy"]["value"] == right
    assert result["n_classes"] == 3


def test_so_are_logarithms_of_probabilities(run):
    p, y = drawn(3)
    columns = numbers() | {"y": y}
    columns |= {name: np.log(p[:, k]) for k, name in enumerate(("neg", "neu", "pos"))}
    assert_read(run, table("scores.csv", columns), p, y)


@pytest.mark.parametrize("pattern", ["prob_{}", "{}"])
@pytest.mark.parametrize("has_words", [True, False])
def test_other_columns_may_be_numbered_with_gaps(run, pattern, has_words):
    """``temperature_10`` and ``temperature_30`` are no classes of which some lack."""
    p, y = drawn(3)
    columns = {"temperature_10": numbers()["u"], "temperature_30": numbers()["age"]}
    columns |= {pattern.format(name): p[:, k] for k, name in enumerate("abc")}
    columns |= {"label": ["abc"[k] for k in y] if has_words else y}
    assert_read(run, table("scores.csv", columns), p, y)


def test_ranges_of_numbers_are_classes(run):
    p, y = drawn(3)
    columns = {f"p_{name}": p[:, k] for k, name in enumerate(("<5", "5-10", ">10"))}
    assert_read(run, table("scores.csv", columns | {"label": y}), p, y)


def test_one_hot_columns_are_no_scores(run):
    """Rows of both sum to 1; only those of real numbers are scores."""
    p, y = drawn(3)
    columns = {"age": np.arange(N), "gold": y}
    columns |= {name: p[:, k] for k, name in enumerate(("neg", "neu", "pos"))}
    columns |= {f"is_{k}": (y == k).astype(int) for k in range(3)}
    assert_read(run, table("scores.csv", columns), p, y)


def test_scores_of_two_models_are_asked_about(run):
    p, y = drawn(3)
    q, _ = drawn(3, seed=4)
    columns = {"a": p[:, 0], "b": p[:, 1], "c": p[:, 2], "y": y}
    columns |= {"d": q[:, 0], "e": q[:, 1], "f": q[:, 2]}
    done = run("evaluate", table("scores.csv", columns))
    assert done.code in (2, 3), done.err


# ---- shares of something else


@pytest.mark.parametrize(
    ("name", "scores"),
    [
        ("score", "score"),
        ("p_hat", "share_old:share_young"),
        ("model_a", "share_old:share_young"),
    ],
)
@pytest.mark.parametrize("is_logit", [True, False])
def test_two_shares_beside_a_score_are_asked_about(run, name, scores, is_logit):
    """The label follows the shares as well: only the user knows which is the score."""
    p, y = drawn(2)
    share = np.clip(
        0.35 + 0.3 * y + 0.1 * np.random.default_rng(1).normal(size=N), 0, 1
    )
    score = np.log(p[:, 1] / p[:, 0]) if is_logit else p[:, 1]
    columns = {"share_old": 1 - share, "share_young": share, name: score, "label": y}
    done = run("extract", table("scores.csv", columns), "-o", "scores.h5")
    assert done.code == 2
    command = done.err.partition("to try: ")[2].split()
    assert command[command.index("--scores") + 1] == scores
    assert run(*command[1:]).code == 0, done.err


@pytest.mark.parametrize("are_logarithms", [True, False])
def test_three_shares_that_no_label_follows_are_asked_about(run, are_logarithms):
    p, _ = drawn(3)
    risk, y = drawn(2, seed=4)
    parts = np.log(p) if are_logarithms else p
    columns = {"sand": parts[:, 0], "silt": parts[:, 1], "clay": parts[:, 2]}
    columns |= {"risk": risk[:, 1], "label": y}
    done = run("extract", table("scores.csv", columns), "-o", "scores.h5")
    assert done.code == 2
    assert "sand, silt, clay sum to 1 in every row, but risk may be" in done.err


# ---- the largest of each row in a column of its own


@pytest.mark.parametrize("largest", ["max_prob", "top_probability", "pred_prob"])
@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_the_largest_probability_is_not_taken_for_all_scores(run, largest, kind):
    p, y = drawn(3)
    names = ["neg", "neu", "pos"]
    scores = p if kind == "probs" else np.log(p) + 1.0
    columns = {name: scores[:, k] for k, name in enumerate(names)}
    columns |= {"predicted": [names[k] for k in p.argmax(axis=1)]}
    columns |= {largest: p.max(axis=1).round(4), "actual": [names[k] for k in y]}
    err = assert_read(run, table("scores.csv", columns), p, y)
    assert f"'{largest}' is the largest of each row" in err


@pytest.mark.parametrize("pair", [("uncertainty",), ("share_a", "share_b")])
def test_a_column_is_not_the_largest_of_itself_and_another(run, pair):
    """``prob`` is never below 1/2; the others are 1 - prob, or prob once more."""
    rng = np.random.default_rng(2)
    prob = rng.uniform(0.75, 1, N)
    columns = {"prob": prob, pair[0]: 1 - prob, "age": rng.integers(18, 90, N)}
    if len(pair) == 2:
        columns = {"prob": prob, pair[0]: 1 - prob, pair[1]: prob}
    columns["label"] = (rng.random(N) < prob).astype(int)
    done = run("extract", table("scores.csv", columns), "-o", "scores.h5")
    assert done.code == 3
    assert "is it the confidence of the prediction?" in done.err


def test_a_number_and_two_words_are_no_scores_beside_scores_of_classes(run):
    """``u`` and ``site`` have nothing to do with each other, nor with the classes."""
    p, y = drawn(3)
    rng = np.random.default_rng(2)
    columns = {"site": rng.choice(["x", "y"], N), "u": rng.random(N)}
    columns |= {f"prob_{name}": p[:, k] for k, name in enumerate("abc")}
    columns |= {"class": y.astype(float)}
    done = run("evaluate", table("scores.csv", columns))
    assert done.code != 0
    command = done.err.partition("to try: ")[2].split()
    assert run(*command[1:]).code == 0, done.err
    assert_read(run, "scores.h5", p, y)


# ---- labels


def test_an_empty_label_among_numbers_is_left_out_by_the_proposed_command(run):
    """pandas writes whole numbers as 1.0 where one is missing."""
    p, y = drawn(3)
    columns = {f"p{k}": p[:, k] for k in range(3)}
    labels = [f"{label}.0" for label in y]
    labels[7] = ""
    done = run("evaluate", table("scores.csv", columns | {"y": labels}))
    assert done.code == 3
    assert "y: is empty in row 7" in done.err
    assert "calcli extract scores.csv --drop-missing -o scores.h5" in done.err
    assert run("extract", "scores.csv", "--drop-missing", "-o", "scores.h5").code == 0
    kept = np.arange(N) != 7
    assert_read(run, "scores.h5", p[kept], y[kept])


def test_answers_that_are_lists_are_compared_without_an_internal_error(run):
    p, _ = drawn(3)
    columns = {"max_prob": p.max(axis=1), "prediction": p.argmax(axis=1)}
    columns |= {f"class_{k}": np.log(p[:, k]) for k in range(3)}
    name = table("scores.csv", columns)
    words = ("--confidence", "max_prob", "--correct", "class=prediction", "-o", "a.h5")
    done = run("extract", name, *words, "--ignore-label", "3")
    assert done.code == 0, done.err


# ---- opposite words


@pytest.mark.parametrize("pair", [("no", "yes"), ("false", "true"), ("neg", "pos")])
@pytest.mark.parametrize("is_swapped", [True, False])
def test_two_columns_of_opposite_words_are_proposed_in_their_order(
    run, pair, is_swapped
):
    """The command for scores that prove no kind has class 0 first."""
    rng = np.random.default_rng(3)
    z = 2 * rng.normal(size=(N, 2))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    places = (1, 0) if is_swapped else (0, 1)
    columns = {f"score_{pair[k]}": z[:, k] for k in places}
    done = run("evaluate", table("scores.csv", columns | {"diagnosis": y}))
    assert done.code != 0
    command = done.err.partition("to try: ")[2].split()
    assert run(*command[1:]).code == 0, done.err
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert_read(run, "scores.h5", p, y)


@pytest.mark.parametrize("pattern", ["{}", "score_{}", "probability_of_{}"])
@pytest.mark.parametrize("names", [("true", "false"), ("false", "true")])
def test_labels_true_and_false_are_those_of_the_columns(run, pattern, names):
    """Class 1 is the second column, whatever it is called."""
    p, y = drawn(2)
    columns = {pattern.format(names[k]): p[:, k] for k in range(2)}
    columns |= {"age": np.arange(N), "Y": [names[k] for k in y]}
    assert_read(run, table("scores.csv", columns), p, y)


def test_numbers_beside_columns_of_true_and_false_are_asked_about(run):
    """The proposed command has the column of class 1 last."""
    p, y = drawn(2)
    columns = {"probability_of_true": p[:, 1], "probability_of_false": p[:, 0]}
    done = run("evaluate", table("scores.csv", columns | {"y": y}))
    assert done.code == 3
    command = done.err.partition("to try: ")[2].split()
    assert run(*command[1:]).code == 0, done.err
    assert_read(run, "scores.h5", p, y)


def test_columns_that_the_labels_name_come_before_a_lone_number(run):
    p, y = drawn(2)
    z = np.log(p) + 2.0
    columns = {"u": np.random.default_rng(6).random(N)}
    columns |= {f"class_{name}": z[:, k] for k, name in enumerate("mf")}
    columns |= {"flag": np.arange(N) % 2, "Y": ["mf"[k] for k in y]}
    assert_read(run, table("scores.csv", columns), p, y)


def test_the_largest_score_of_every_row_is_not_proposed_as_the_label(run):
    p, _ = drawn(3)
    columns = {f"prob_{k}": np.log(p[:, i]) + 2.0 for i, k in enumerate("abc")}
    columns |= {"decision": p.argmax(axis=1).astype(float), "weather": np.arange(N)}
    done = run("evaluate", table("scores.csv", columns))
    assert done.code != 0
    assert "--labels decision" not in done.err, done.err


# ---- weights


def test_a_column_called_weight_is_said_to_weigh_the_rows(run):
    """It may as well be the weight of a patient."""
    p, y = drawn(3)
    columns = {f"p{k}": p[:, k] for k in range(3)}
    columns |= {"weight": np.linspace(40, 120, N), "y": y}
    name = table("scores.csv", columns)
    done = run("evaluate", name)
    assert "column 'weight' was read as sample weights" in done.err
    done = run("evaluate", name, "--sample-weight", "none", "--json")
    (result,) = json.loads(done.out)["results"]
    right = (p.argmax(axis=1) == y).mean()
    assert result["metrics"]["accuracy"]["value"] == right


@pytest.mark.parametrize("name", ["cat", "p_cat", "P(cat)"])
def test_one_column_named_by_a_class_is_that_of_class_1(run, name):
    """Of p_cat the later word in the alphabet was class 1: accuracy .17 for .83."""
    p, y = drawn(2)
    file = table("scores.csv", {name: p[:, 1], "label": np.array(["dog", "cat"])[y]})
    assert_read(run, file, p, y)
