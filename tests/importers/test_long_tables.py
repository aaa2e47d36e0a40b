"""Tables with a row for every sample and class, as ``melt`` and ``pivot_longer`` write them.

Labels are drawn from the probabilities; accuracy and NLL are those of the arrays that
were written.
"""

import json

import numpy as np
import pytest
from drawn_tables import N, assert_read, drawn, table

NAMES = ("cat", "cow", "fox")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def long(p, y, names=NAMES, order="classes"):
    """Columns of a long table, whose rows are sorted by class, by sample, or not."""
    n, k = p.shape
    sample = np.tile(np.arange(n), k)
    number = np.repeat(np.arange(k), n)
    rows = np.arange(n * k)
    if order == "samples":
        rows = np.lexsort((number, sample))
    elif order == "none":
        rows = np.random.default_rng(1).permutation(n * k)
    sample, number = sample[rows], number[rows]
    return {
        "image": [f"{i}.png" for i in sample],
        "truth": [names[y[i]] for i in sample],
        "class": [names[c] for c in number],
        "value": p[sample, number],
    }


@pytest.mark.parametrize("order", ["classes", "samples", "none"])
@pytest.mark.parametrize("names", [NAMES, (0, 1, 2), (1, 2, 3), (10, 20, 30)])
def test_it_is_read_as_a_row_per_sample(run, order, names):
    p, y = drawn(3)
    said = assert_read(run, table("long.csv", long(p, y, names, order)), p, y)
    assert "the 900 rows of value are 300 samples of 3 classes, by 'image'" in said


@pytest.mark.parametrize("order", ["classes", "samples"])
def test_without_ids_by_the_order_of_the_rows(run, order):
    """``stack`` of R writes all samples of a class, then those of the next."""
    p, y = drawn(3)
    columns = long(p, y, order=order)
    del columns["image"]
    assert_read(run, table("long.csv", columns), p, y)


def test_two_classes_and_logarithms(run):
    p, y = drawn(2)
    columns = long(p, y, ("no", "yes"), "samples")
    columns["value"] = np.log(columns["value"])
    columns["row"] = range(2 * N)
    assert_read(run, table("long.csv", columns), p, y)


@pytest.mark.parametrize("marks", [(0, 1), ("False", "True")])
def test_a_column_may_mark_the_label(run, marks):
    p, y = drawn(3)
    columns = long(p, y, order="none")
    truth = zip(columns.pop("truth"), columns["class"], strict=True)
    columns["is_true"] = [marks[int(label == name)] for label, name in truth]
    best = [NAMES[p[int(image[:-4])].argmax()] for image in columns["image"]]
    guess = zip(best, columns["class"], strict=True)
    columns["is_pred"] = [marks[int(label == name)] for label, name in guess]
    said = assert_read(run, table("long.csv", columns), p, y)
    assert "'is_true' marks the label of every sample" in said


def test_logits_by_name_beside_a_label_in_words(run):
    p, y = drawn(3)
    columns = long(p, y)
    columns["logit"] = np.log(columns.pop("value")) + 1.5
    assert_read(run, table("long.csv", columns), p, y)


def test_of_percentages_the_command_is_that_of_other_tables(run):
    """What was proposed took the classes for predictions."""
    p, y = drawn(3)
    columns = long(p, y)
    columns["value"] = 100 * columns["value"]
    done = run("extract", table("long.csv", columns), "-o", "made.h5")
    assert done.code == 2
    command = done.err.partition("to try: ")[2].split()
    assert "--percent" in command and "--confidence" not in command
    assert run(*command[1:]).code == 0
    assert_read(run, "made.h5", p, y)


def test_in_json_lines(run):
    p, y = drawn(3)
    columns = long(p, y, order="none")
    with open("long.jsonl", "w") as file:
        for row in zip(*columns.values(), strict=True):
            file.write(json.dumps(dict(zip(columns, row, strict=True))) + "\n")
    assert_read(run, "long.jsonl", p, y)


def test_scores_of_several_models_are_no_classes(run):
    """Every sample has each model once, but these do not sum to 1."""
    p, y = drawn(2)
    rng = np.random.default_rng(2)
    columns = {
        "id": np.tile(np.arange(N), 3),
        "model": np.repeat(["mlp", "resnet", "vit"], N),
        "prob": np.clip(np.tile(p[:, 1], 3) + 0.1 * rng.random(3 * N), 0, 1),
        "label": np.tile(y, 3),
    }
    done = run("evaluate", table("models.csv", columns), "--json")
    assert done.code in (2, 3) or json.loads(done.out)["results"][0]["n_classes"] == 2
    assert "samples of 3 classes" not in done.err


def test_a_sample_without_one_of_its_classes_is_not_guessed(run):
    p, y = drawn(3)
    columns = {name: values[1:] for name, values in long(p, y).items()}
    done = run("evaluate", table("long.csv", columns))
    assert done.code in (2, 3)
    assert "samples of 3 classes" not in done.err


@pytest.mark.parametrize("names", [("ill", "healthy"), ("low", "mid", "high")])
def test_numbers_of_classes_in_words_are_asked_about(run, names):
    """They were taken as counted in the order of the alphabet: accuracy .18 for .63."""
    p, y = drawn(len(names))
    columns = long(p, y, names, "none")
    columns["truth"] = [names.index(word) for word in columns["truth"]]
    done = run("evaluate", table("long.csv", columns))
    assert done.code == 3
    assert "the classes in 'class' are words in no order" in done.err
    options = ["--class-names", ",".join(names), "-o", "made.h5"]
    assert run("extract", "long.csv", *options).code == 0
    assert_read(run, "made.h5", p, y)


def test_class_names_put_the_columns_in_order(run):
    """They renamed the columns, which were in the order of the alphabet."""
    p, y = drawn(3)
    table("long.csv", long(p, y, ("low", "mid", "high"), "none"))
    options = ["--class-names", "low,mid,high", "-o", "made.h5"]
    assert run("extract", "long.csv", *options).code == 0
    assert_read(run, "made.h5", p, y)


def test_classes_are_those_that_a_label_names_not_ranks(run):
    """The file as a list of the best classes: ``id, rank, class, prob``."""
    p, y = drawn(3)
    columns = {name: [] for name in ("id", "rank", "class", "value", "is_true")}
    for i, row in enumerate(p):
        for rank, k in enumerate(row.argsort()[::-1], start=1):
            cells = (i, rank, NAMES[k], row[k], int(y[i] == k))
            for name, cell in zip(columns, cells, strict=True):
                columns[name].append(cell)
    assert_read(run, table("long.csv", columns), p, y)


def test_two_ranks_are_no_classes(run):
    p, y = drawn(2)
    best = np.sort(p, axis=1)[:, ::-1]
    is_right = p.argmax(axis=1) == y
    columns = {
        "id": np.repeat(np.arange(N), 2),
        "rank": np.tile([1, 2], N),
        "prob": best.ravel(),
        "target": np.stack([is_right, ~is_right], axis=1).astype(int).ravel(),
    }
    done = run("evaluate", table("ranks.csv", columns))
    assert "samples of 2 classes" not in done.err


def visits(name="share"):
    """Three rows of every patient, the shares of which sum to 1, as in a panel."""
    p, y = drawn(3)
    share, _ = drawn(3, seed=1)
    columns = {"patient": np.arange(N) // 3, "visit": np.arange(N) % 3 + 1}
    return p, y, columns | {name: share[: N // 3].ravel()}


@pytest.mark.parametrize("name", ["share", "weight", "attention"])
def test_rows_that_are_samples_stay_so(run, name):
    """Columns of scores, too, differ within a patient; shares were read as scores."""
    p, y, columns = visits(name)
    for k, word in enumerate(NAMES):
        columns[f"p_{word}"] = p[:, k]
    columns["truth"] = [NAMES[k] for k in y]
    table("visits.csv", columns)
    assert (
        run("extract", "visits.csv", "--sample-weight", "none", "-o", "v.h5").code == 0
    )
    assert_read(run, "v.h5", p, y)


def test_a_probability_beside_shares_stays_one_of_two_classes(run):
    """It was left out, and accuracy was that of the shares."""
    p, y = drawn(2)
    _, _, columns = visits()
    columns |= {"prob": p[:, 1], "label": y}
    assert_read(run, table("visits.csv", columns), p, y)
