"""Classes that are named like something else, or spelled otherwise than their labels.

Labels are drawn from the probabilities; accuracy and NLL are those of the arrays that
were written.
"""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from drawn_tables import N, assert_read, drawn, table

import calcli
from calcli.errors import DataError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def column_table(pattern, names, p, y, label="species"):
    """Scores named by the pattern, predictions and labels, as many programs write."""
    columns = {"age": range(len(y)), "guess": [names[k] for k in p.argmax(axis=1)]}
    columns |= {pattern.format(name): p[:, k] for k, name in enumerate(names)}
    return columns | {label: [names[k] for k in y]}


PATTERNS = ["{}", ".pred_{}", "P (class={})", "prob.{}", "confidence({})", "P_{}"]
WORDS = {
    "roles": ["label", "score", "id"],
    "scores": ["probs", "logits", "prob_max", "confidence"],
    "columns": ["index", "fold", "correct", "prediction", "weight"],
    "words": ["true", "unknown", "other", "total"],
    "missing": ["NA", "None", "null", "fox"],
    "countries": ["DE", "NA"],
    "codes": ["007", "100", "010"],
    "ranges": ["<5", "5-10", ">=10", "50%"],
    "alike": ["in", "inside", "side"],
}


@pytest.mark.parametrize("names", WORDS.values(), ids=list(WORDS))
@pytest.mark.parametrize("pattern", PATTERNS)
def test_classes_may_be_named_like_anything(run, pattern, names):
    p, y = drawn(len(names))
    name = table("scores.csv", column_table(pattern, names, p, y))
    assert_read(run, name, p, y)


def test_a_word_for_a_missing_value_that_is_a_class_is_said(run):
    p, y = drawn(3)
    columns = column_table("{}", ["NA", "DE", "FR"], p, y)
    message = assert_read(run, table("scores.csv", columns), p, y)
    assert "scores.csv: NA in guess, species is a class" in message


@pytest.mark.parametrize("names", [["None", "Flu"], ["007", "010"]], ids=str)
def test_classes_that_an_option_names_are_words(run, names):
    p, y = drawn(2)
    columns = {"risk": p[:, 1], "diagnosis": [names[k] for k in y]}
    name = table("scores.csv", columns)
    options = ("--scores", "risk", "--labels", "diagnosis", "--kind", "probs")
    words = ("extract", name, *options, "--class-names", ",".join(names))
    done = run(*words, "-o", "made.h5")
    assert done.code == 0, done.err
    assert_read(run, "made.h5", p, y)


def test_empty_cells_beside_a_class_called_na_are_missing(run):
    """The command that is proposed drops the empty cell alone."""
    p, y = drawn(3)
    columns = column_table("{}", ["NA", "DE", "FR"], p, y)
    columns["species"][7] = ""
    name = table("scores.csv", columns)
    done = run("extract", name, "-o", "made.h5")
    command = re.search(r"to try: (calcli extract .*--drop-missing.*)", done.err)
    assert done.code == 3 and command is not None, done.err
    made = run(*shlex.split(command[1])[1:])
    assert made.code == 0, made.err
    assert_read(run, "made.h5", np.delete(p, 7, axis=0), np.delete(y, 7))


def test_a_word_among_scores_of_a_class_called_id_is_named(run):
    p, y = drawn(2)
    columns = column_table("{}", ["id", "no"], p, y)
    columns["id"] = [
        "oops" if row == 20 else value for row, value in enumerate(p[:, 0])
    ]
    done = run("evaluate", table("scores.csv", columns))
    assert done.code == 3
    assert "column 'id' has 'oops' in row 20, expected a number" in done.err


def test_vertex_and_spacy_name_classes_like_fields(run):
    names = ["id", "target", "score"]
    p, y = drawn(3)
    rows = []
    for i in range(N):
        scores = dict(zip(names, p[i].tolist(), strict=True))
        rows.append({"cats": scores, "gold_label": names[y[i]]})
    Path("spacy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert_read(run, "spacy.jsonl", p, y)
    rows = []
    for i in range(N):
        prediction = {"classes": names, "scores": p[i].tolist()}
        rows.append({"instance": {"label": names[y[i]]}, "prediction": prediction})
    Path("vertex.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert_read(run, "vertex.jsonl", p, y)


@pytest.mark.parametrize("names", [["3", "5", "9"], ["1", "2", "3"], ["-1", "0", "1"]])
def test_runs_of_openml_with_numeric_classes(run, names):
    p, y = drawn(3)
    head = ["@RELATION openml_task_1_predictions", "@ATTRIBUTE fold NUMERIC"]
    order = [2, 0, 1]
    head += [f"@ATTRIBUTE confidence.{names[k]} NUMERIC" for k in order]
    domain = "{" + ",".join(names) + "}"
    head += [f"@ATTRIBUTE prediction {domain}", f"@ATTRIBUTE correct {domain}", "@DATA"]
    rows = []
    for i in range(N):
        cells = [str(i % 10), *(repr(p[i, k].item()) for k in order)]
        rows.append(",".join([*cells, names[p[i].argmax()], names[y[i]]]))
    Path("run.arff").write_text("\n".join([*head, *rows]) + "\n")
    assert_read(run, "run.arff", p, y)


SPELLINGS = {
    "capitals": str.upper,
    "small": str.lower,
    "space after": "{} ".format,
    "space before": " {}".format,
    "r": lambda word: word.replace(" ", ".").replace("-", "."),
}


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=list(SPELLINGS))
@pytest.mark.parametrize("pattern", PATTERNS)
def test_labels_may_be_spelled_otherwise_than_the_classes(run, pattern, spell):
    names = ["Red Fox", "owl", "Bee-Eater"]
    p, y = drawn(3)
    columns = {pattern.format(name): p[:, k] for k, name in enumerate(names)}
    columns["species"] = [spell(names[k]) for k in y]
    name = table("scores.csv", columns, ";")
    message = assert_read(run, name, p, y)
    assert "labels differ from the names of the classes" in message


def test_two_spellings_of_one_class_are_refused(run):
    p, y = drawn(2)
    names = ["Cat", "Dog"]
    columns = {f"prob_{name}": p[:, k] for k, name in enumerate(names)}
    columns["label"] = [names[k] for k in y]
    columns["label"][3] = columns["label"][3].lower()
    done = run("evaluate", table("scores.csv", columns))
    assert done.code == 3 and "expected one of Cat, Dog" in done.err


# ---- without labels


def others(rng):
    """Columns of a table that have nothing to do with the scores."""
    return {
        "n_items": rng.integers(0, 3, N),
        "treated": rng.integers(0, 2, N),
        "severity": rng.integers(1, 4, N),
        "n_children": np.minimum(rng.poisson(0.4, N), 2),
        "sex": rng.choice(["f", "m"], N),
    }


@pytest.mark.parametrize("other", list(others(np.random.default_rng(0))))
@pytest.mark.parametrize("shift", [0.0, 4.0], ids=["even", "rare"])
@pytest.mark.parametrize("pattern", ["p_{}", "{}", "c{}", "score{}"])
def test_a_column_that_does_not_follow_the_scores_is_no_label(
    run, pattern, shift, other
):
    """Also where a rare class makes it agree with most predictions."""
    rng = np.random.default_rng(5)
    z = 2 * rng.normal(size=(N, 3)) + [shift, 0, 0]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    columns = {pattern.format(k): p[:, k] for k in range(3)}
    columns[other] = others(rng)[other]
    done = run("evaluate", table("scores.csv", columns))
    assert done.code == 3, done.err
    assert not re.search(rf"--labels {other}\b.* -o", done.err)
    assert "--gold NEW.csv" in done.err, done.err


def test_rare_classes_are_labels_where_they_follow_the_scores(run):
    """The largest score is always that of class 0, in 97 of 100 rows rightly."""
    rng = np.random.default_rng(7)
    risk = 1 / (1 + np.exp(-(rng.normal(size=1000) - 3.5)))
    risk = np.minimum(risk, 0.49)
    y = (rng.random(1000) < risk).astype(int)
    p = np.stack([1 - risk, risk], axis=1)
    columns = {"p_0": p[:, 0], "p_1": p[:, 1], "outcome_code": y}
    assert_read(run, table("scores.csv", columns), p, y)


def test_labels_that_follow_the_scores_are_read_beside_others(run):
    p, y = drawn(3)
    columns = {name: p[:, k] for k, name in enumerate(["cat", "dog", "fox"])}
    columns |= {"treated": np.arange(N) % 2, "zz": y}
    assert_read(run, table("scores.csv", columns), p, y)


# ---- two words whose order only the alphabet tells


def of_two(seed=5, n=600):
    """P(the word) of rows, and whether the word stands there, drawn from it."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n).round(4)
    return p, rng.random(n) < p


@pytest.mark.parametrize("words", [("good", "bad"), ("b", "a"), ("it's", "a b")])
def test_an_order_of_the_alphabet_that_the_scores_contradict_is_refused(words, run):
    """The scores are P(second word), which is the first in the alphabet."""
    p, is_second = of_two()
    second, first = words[1], words[0]
    labels = [second if is_it else first for is_it in is_second]
    name = table("scores.csv", {"p": p, "label": labels})
    refused = run("evaluate", name)
    assert refused.code == 3
    assert f"nothing says which of {second!r} and {first!r} is class 1" in refused.err
    advised = shlex.split(refused.err.partition("to try: ")[2])
    assert run(*advised[1:]).code == 0
    done = run("evaluate", "scores.h5", "--metric", "nll", "--json")
    nll = json.loads(done.out)["results"][0]["metrics"]["nll"]["value"]
    expected = -np.log(np.where(is_second, p, 1 - p)).mean()
    assert nll == pytest.approx(expected, abs=1e-6)
    as_it_is = run("extract", name, "--class-names", f"{second},{first}", "-o", "b.h5")
    assert as_it_is.code == 0 and "rank the two classes in reverse" in as_it_is.err


def test_an_order_of_the_alphabet_that_the_scores_follow_is_said(run):
    p, is_good = of_two()
    labels = np.where(is_good, "good", "bad")
    done = run("evaluate", table("scores.csv", {"p": p, "label": labels}))
    assert done.code == 0, done.err
    assert "'good' was read as class 1, 'bad' as class 0, the later" in done.err


def test_python_asks_for_the_order_of_two_words_that_the_scores_contradict():
    p, is_bad = of_two()
    labels = np.where(is_bad, "bad", "good")
    with pytest.raises(DataError, match=r"class_names=\['good', 'bad'\] takes 'bad'"):
        calcli.evaluate(p, labels, kind="probs")
    result = calcli.evaluate(
        p, labels, kind="probs", class_names=["good", "bad"], metrics=["nll"]
    )
    nll = result.to_dict()["results"][0]["metrics"]["nll"]["value"]
    assert nll == pytest.approx(-np.log(np.where(is_bad, p, 1 - p)).mean(), abs=1e-12)


def test_one_score_beside_a_prediction_of_many_words_is_its_confidence(run):
    p, is_right = of_two()
    words = np.array(["cat", "cow", "dog"])
    truth = np.arange(len(p)) % 3
    predicted = np.where(is_right, truth, (truth + 1) % 3)
    columns = {"y_true": words[truth], "y_pred": words[predicted], "prob": p}
    refused = run("evaluate", table("top.csv", columns))
    advised = shlex.split(refused.err.partition("to try: ")[2])
    assert advised[3:7] == ["--confidence", "prob", "--correct", "y_pred=y_true"]
    assert run(*advised[1:]).code == 0
    done = run("evaluate", "top.h5", "--metric", "accuracy", "--format", "value")
    assert float(done.out) == pytest.approx(is_right.mean(), abs=1e-12)


def test_predictions_that_are_lists_or_broken_are_no_confidence(run):
    """A list cannot be compared with words; a cell that is no number is not used."""
    rows = [
        {"label": "abc"[i % 3] * 2, "predictions": ["aa", "bb"], "prob": 0.2 + i / 200}
        for i in range(100)
    ]
    Path("lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused = run("evaluate", "lists.jsonl")
    assert refused.code == 3 and "labels are words" in refused.err
    columns = {"label": [row["label"] for row in rows], "pred": [1.5, "x"] * 50}
    columns |= {"prob": [row["prob"] for row in rows]}
    assert run("evaluate", table("mixed.csv", columns)).code == 3
