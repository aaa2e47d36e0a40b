"""Labels in one-hot columns beside the scores, as pandas and R write them.

Labels are drawn from the probabilities; accuracy and NLL are those of the arrays that
were written.
"""

import json

import numpy as np
import pytest
from drawn_tables import N, assert_read, drawn, table

from calcli.importers.evidence.label_evidence import label_evidence

NAMES = ("cat", "cow", "fox")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def scores(p, pattern="{}", names=NAMES):
    return {pattern.format(name): p[:, k] for k, name in enumerate(names)}


def one_hot(y, pattern, names=NAMES, marks=(0, 1)):
    columns = {}
    for k, name in enumerate(names):
        columns[pattern.format(name)] = [marks[int(label == k)] for label in y]
    return columns


@pytest.mark.parametrize(
    ("of_scores", "of_labels"),
    [
        ("{}", "{}.1"),  # data.frame(p, class.ind(y)) of R
        ("{}", "Species{}"),  # model.matrix(~ Species - 1)
        ("prob_{}", "species_{}"),  # pandas.get_dummies(prefix="species")
        ("{}_prob", "{}"),
        ("pred_{}", "true_{}"),
        ("cats.{}", "gold.{}"),
        ("P({})", "is {}"),
        ("prob_{}", "b_{}"),
    ],
)
@pytest.mark.parametrize("marks", [(0, 1), ("False", "True"), ("0.0", "1.0")])
def test_columns_named_after_the_classes_are_the_label(
    run, of_scores, of_labels, marks
):
    p, y = drawn(3)
    columns = scores(p, of_scores) | one_hot(y, of_labels, marks=marks)
    said = assert_read(run, table("scores.csv", columns), p, y)
    assert "have a single 1 in every row: read as" in said


def test_of_two_classes_and_in_another_order(run):
    p, y = drawn(2)
    columns = one_hot(1 - y, "y_{}", ("yes", "no"))
    columns |= scores(p, "p_{}", ("no", "yes"))
    assert_read(run, table("scores.csv", columns), p, y)


def test_in_json(run):
    """``cats`` of spaCy, beside those of the gold."""
    p, y = drawn(3)
    with open("scores.jsonl", "w") as file:
        for row, label in zip(p.tolist(), y, strict=True):
            gold = {name: float(k == label) for k, name in enumerate(NAMES)}
            cats = dict(zip(NAMES, row, strict=True))
            file.write(json.dumps({"cats": cats, "gold": gold}) + "\n")
    assert_read(run, "scores.jsonl", p, y)


def test_one_hot_predictions_are_no_label(run):
    p, y = drawn(3)
    columns = scores(p, "prob_{}") | one_hot(p.argmax(axis=1), "pred_{}")
    assert run("evaluate", table("scores.csv", columns)).code == 3
    columns |= one_hot(y, "truth_{}")
    assert_read(run, table("scores.csv", columns), p, y)


def test_a_label_by_name_comes_first(run):
    """Dummies of something else are no labels beside it."""
    p, y = drawn(3)
    columns = scores(p, "prob_{}", (0, 1, 2)) | {"label": y}
    columns |= one_hot(np.arange(N) % 3, "region_{}", (0, 1, 2))
    assert_read(run, table("scores.csv", columns), p, y)


@pytest.mark.parametrize("pattern", ["region_{}", "cp_{}", "{}"])
@pytest.mark.parametrize("of_scores", ["prob_{}", "p_{}"])
def test_dummies_of_something_else_are_asked_about(run, of_scores, pattern):
    """``p_0`` within ``cp_0`` is no name of a class."""
    p, _ = drawn(3)
    columns = scores(p, of_scores, (0, 1, 2))
    columns |= one_hot(np.arange(N) % 3, pattern, (0, 1, 2))
    done = run("evaluate", table("scores.csv", columns))
    assert done.code in (2, 3), done.err


def test_truth_values_in_parquet(run):
    """``pandas.get_dummies`` makes truth values."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    p, y = drawn(3)
    columns = scores(p, "p({})") | one_hot(y, "{}", marks=(False, True))
    parquet.write_table(pa.table(columns), "scores.parquet")
    assert_read(run, "scores.parquet", p, y)


def test_one_of_them_is_never_the_label(run):
    """Columns with other names: that of the middle class follows the scores, too."""
    p, y = drawn(3)
    columns = scores(p) | one_hot(y, "{}", ("first", "second", "third"))
    done = run("evaluate", table("scores.csv", columns))
    assert done.code in (2, 3), done.err


def test_classes_that_lack_a_likely_one_are_no_proven_labels():
    """200 rows of the third class are expected, 1 / 3 each, and none has it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    z = 4.0 * np.eye(3)[y] + rng.normal(size=(600, 3))
    assert label_evidence(z, y, "logits").is_proven
    is_second = label_evidence(z, (y == 1).astype(int), "logits")
    assert is_second.z > 5
    assert 150 < is_second.absent < 250
    assert not is_second.is_proven


def test_of_percentages_the_command_names_the_label_that_is_made(run):
    p, y = drawn(3)
    columns = scores(100 * p, "p_{}") | one_hot(y, "species_{}")
    done = run("extract", table("scores.csv", columns), "-o", "made.h5")
    command = done.err.partition("to try: ")[2].split()
    assert command[command.index("--labels") + 1] == "species"
    assert run(*command[1:]).code == 0
    assert_read(run, "made.h5", p, y)


def test_columns_that_options_name_stay_as_they_are(run):
    p, y = drawn(3)
    file = table("scores.csv", scores(p, "prob_{}") | one_hot(y, "a_{}"))
    command = ["extract", file, "--labels", "a_cat,a_cow,a_fox", "-o", "scores.h5"]
    done = run(*command)
    assert done.code == 0, done.err
    assert "one-hot labels became class indices" in done.err


def test_dummies_of_a_feature_with_the_same_classes(run):
    """The class before, say: it was read as the label, or proposed beside the right one."""
    p, y = drawn(3)
    columns = scores(p) | one_hot(np.roll(y, 1), "previous_{}")
    assert run("evaluate", table("scores.csv", columns)).code == 3
    columns |= {"species": [NAMES[k] for k in y]}
    assert_read(run, table("scores.csv", columns), p, y)


def test_dummies_that_follow_the_scores_beside_the_classes_in_words(run):
    """Another reader's opinion, right on four in five rows, is no label."""
    p, y = drawn(3)
    other = np.where(np.random.default_rng(1).random(N) < 0.8, y, np.roll(y, 1))
    columns = scores(p) | one_hot(other, "second_{}")
    columns |= {"species": [NAMES[k] for k in y]}
    assert_read(run, table("scores.csv", columns), p, y)


def test_two_that_follow_the_scores_are_asked_about(run):
    p, y = drawn(3)
    columns = scores(p) | one_hot(y, "first_{}") | one_hot(y[::-1], "second_{}")
    order = np.random.default_rng(1).random(N) < 0.8
    other = np.where(order, y, np.roll(y, 1))
    columns |= one_hot(other, "second_{}")
    assert run("evaluate", table("scores.csv", columns)).code == 3


def test_a_column_that_an_option_names_stays(run):
    p, y = drawn(3)
    columns = scores(p) | one_hot(np.roll(y, 1), "site_{}")
    columns |= {"species": [NAMES[k] for k in y]}
    table("scores.csv", columns)
    options = ["--labels", "species", "--group-by", f"site_{NAMES[0]}"]
    assert run("extract", "scores.csv", *options, "-o", "made.h5").code == 0
    assert_read(run, "made.h5", p, y)


def test_no_command_takes_one_of_the_dummies_without_the_first_for_the_label(run):
    """``drop_first`` of ``pandas.get_dummies``: ``--labels y_cow`` was proposed."""
    p, y = drawn(3)
    columns = scores(p, "p_{}") | one_hot(y, "y_{}")
    del columns["y_cat"]
    done = run("evaluate", table("scores.csv", columns))
    assert done.code == 3
    assert "--labels y_cow" not in done.err and "--labels y_fox" not in done.err
