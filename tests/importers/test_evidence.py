"""What all values prove: the kind of scores, labels and predictions, reversed sign."""

import json
import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest

from calcli.importers.evidence.classes import class_indices
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.evidence.label_evidence import agreement, label_evidence
from calcli.importers.evidence.signs import ranks_reversed
from calcli.metrics.label_agreement import REVERSED_OF_TWO, SAME_ORDER

RNG = np.random.default_rng(5)
N = 300
Z = RNG.normal(size=(N, 4)) * 2
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
Y = (Z + RNG.gumbel(size=Z.shape)).argmax(axis=1)
NAMES = ["ant", "bee", "cat", "dog"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table(name, columns):
    rows = [",".join(columns)]
    rows += [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    Path(name).write_text("\n".join(rows) + "\n", "utf-8")
    return name


@pytest.mark.parametrize(
    ("scores", "kind"),
    [
        (P, "probs"),
        (P.astype(np.float32), "probs"),
        (np.log(P), "log_probs"),
        (Z, "logits"),
        (Z - 50, "logits"),  # all below 0, but no logarithms of probabilities
        (np.abs(Z) * 3, "logits"),
        (100 * P, None),
        (P * 0.7, None),  # in [0, 1], not of sum 1: separate answers, or a class lacks
        (np.round(np.abs(Z) * 5), None),  # counts
        (P[:, 0], None),
        (P[:, :1], None),
        (Z[:, 0], None),
        (np.where(np.arange(N)[:, None] == 7, np.nan, P), "probs"),
    ],
)
def test_the_kind_is_proven_by_all_values_or_not_at_all(scores, kind):
    evidence = kind_of_scores(scores)
    assert evidence.kind == kind and evidence.reason


def test_one_row_of_another_kind_proves_nothing():
    last = P.copy()
    last[-1] *= 0.5
    assert kind_of_scores(last).kind is None


def test_classes_are_words_of_the_names_or_their_places():
    words = np.array(NAMES)[Y]
    assert np.array_equal(class_indices(words, 4, NAMES), Y)
    assert np.array_equal(class_indices(Y, 4, None), Y)
    assert class_indices(np.append(words, "eel"), 4, NAMES) is None
    assert class_indices(Y + 1, 4, None) is None  # 4 is no place
    assert class_indices(np.zeros(N, int), 4, None) is None  # one value tells nothing
    assert class_indices(Y / 1.0, 4, None) is None


def test_agreement_tells_a_prediction_from_a_label():
    assert agreement(P, P.argmax(axis=1)).share == 1
    assert agreement(P, Y).share < 1


@pytest.mark.parametrize("kind", ["probs", None])
def test_labels_follow_the_scores_as_far_as_these_say(kind):
    """Labels drawn from the probabilities have the slope 1, of the same in other rows 0."""
    scores = P if kind else np.log(P)
    labels = label_evidence(scores, Y, kind)
    assert labels.is_proven and labels.slope == pytest.approx(1, abs=0.2)
    others = label_evidence(scores, RNG.permutation(Y), kind)
    assert not others.is_proven and others.slope == pytest.approx(0, abs=0.2)
    assert label_evidence(np.full((N, 4), 0.25), Y, "probs") is None


def test_errors_of_the_evidence_are_those_of_all_orders_of_the_rows():
    """Hoeffding's variance, against 4000 orders drawn."""
    few = slice(0, 40)
    drawn = []
    for _ in range(4000):
        drawn.append(label_evidence(P[few], RNG.permutation(Y[few]), "probs").z)
    # four standard errors of a mean and of a standard deviation of 4000 draws
    assert np.mean(drawn) == pytest.approx(0, abs=4 / np.sqrt(4000))
    assert np.std(drawn) == pytest.approx(1, abs=4 / np.sqrt(8000))


@pytest.mark.parametrize("seed", range(20))
def test_a_frequent_class_makes_no_column_a_label(seed):
    """Nine of ten rows are predicted as class 0, and have 0 in a column of its own."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(400, 3)) + np.array([3, 0, 0])
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    other = rng.choice(3, 400, p=[0.9, 0.08, 0.02])
    assert agreement(p, other).share > 0.7
    assert not label_evidence(p, other, "probs").is_proven


def test_ranks_are_reversed_far_beyond_chance_only():
    labels = (RNG.random(N) < P[:, 0]).astype(int)
    margin = np.log(P[:, 0] / (1 - P[:, 0]))
    assert ranks_reversed(-margin, labels) and not ranks_reversed(margin, labels)
    # a fair coin: at 5 standard errors 3e-7 of the draws
    assert not any(ranks_reversed(RNG.normal(size=N), labels) for _ in range(200))
    assert not ranks_reversed(margin, np.ones(N, int))


# ---- readings


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_losses_and_distances_are_named_and_never_negated(run, suffix):
    """It said: no better than chance, do the labels belong to these rows?"""
    distances = RNG.normal(size=(N, 3))
    labels = distances.argmin(axis=1)
    if suffix == ".npz":
        np.savez("d.npz", logits=distances, labels=labels)
    else:
        columns = {f"logits_{k}": distances[:, k] for k in range(3)}
        table("d.csv", {**columns, "label": labels})
    done = run("extract", f"d{suffix}", "-o", "d.h5")
    said = "the lowest score is the label on 100.0% of the rows: are these losses"
    assert done.code == 0 and said in done.err, done.err
    assert "1,-1" not in done.err


def test_two_classes_of_reversed_sign_are_named(run):
    labels = (RNG.random(N) < P[:, 0]).astype(int)
    np.savez("r.npz", logits=-np.log(P[:, 0] / (1 - P[:, 0])), labels=labels)
    done = run("extract", "r.npz", "-o", "r.h5")
    reversed_scores = f"{REVERSED_OF_TWO}: {SAME_ORDER}"
    assert reversed_scores in done.err
    np.savez("p.npz", probs=1 - P[:, 0], labels=labels)
    done = run("extract", "p.npz", "-o", "p.h5")
    assert reversed_scores in done.err


def drawn_by_class() -> tuple[np.ndarray, np.ndarray]:
    """As many rows of class 1 as of class 0, by a model of a rate of 5 %.

    Their accuracy at 1/2 is that of guesses, and the model is right about their order.
    """
    rng = np.random.default_rng(0)
    log_odds = rng.normal(size=20_000) * 1.2 - 3.4
    outcome = (rng.random(20_000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    rows = [np.flatnonzero(outcome == c)[:400] for c in (0, 1)]
    return log_odds[np.concatenate(rows)], np.repeat([0, 1], 400)


def test_labels_of_two_classes_are_doubted_by_their_order(run):
    """It said: the largest score is the label in 50.9 % of the rows, do the labels
    belong to these rows?
    """
    log_odds, labels = drawn_by_class()
    np.savez("by_class.npz", logits=log_odds, labels=labels)
    done = run("extract", "by_class.npz", "-o", "by_class.h5")
    assert done.code == 0 and "warning" not in done.err, done.err
    shuffled = np.random.default_rng(1).permutation(labels)
    np.savez("shuffled.npz", logits=log_odds, labels=shuffled)
    done = run("extract", "shuffled.npz", "-o", "shuffled.h5")
    assert "no better than chance (50.0%): do the labels belong" in done.err


@pytest.mark.parametrize("command", ["extract", "evaluate"])
def test_few_rows_in_the_opposite_order_are_doubted(run, command):
    """3 to 5 standard errors below 1/2 are no proof of reversed scores, and no
    excuse for an accuracy of 30 %: there was no warning at all.
    """
    p = np.linspace(0.05, 0.95, 40)
    labels = np.repeat([1, 0], 20)
    labels[np.r_[10:16, 24:30]] = np.repeat([0, 1], 6)
    table("few.csv", {"prob_0": 1 - p, "prob_1": p, "label": labels})
    options = ["-o", "few.h5"] if command == "extract" else []
    done = run(command, "few.csv", *options)
    assert "in 30.0% of the rows, no better than chance (50.0%)" in done.err, done.err


def test_labels_of_one_class_that_no_score_names_are_doubted(run):
    """They have no order."""
    table("one.csv", {"prob_0": [0.75] * 40, "prob_1": [0.25] * 40, "label": [1] * 40})
    done = run("extract", "one.csv", "-o", "one.h5")
    assert "in 0.0% of the rows, no better than chance (50.0%)" in done.err, done.err


def test_distances_under_a_name_of_their_own_are_named_where_they_are_refused(run):
    distances = np.abs(RNG.normal(size=(N, 3)))
    np.savez("d.npz", distances=distances, labels=distances.argmin(axis=1))
    refused = run("run", "d.npz")
    assert refused.code == 2
    assert "the lowest score is the label on 100.0% of the rows" in refused.line
    assert "are these losses or distances? negate them" in refused.line


def test_what_was_inferred_is_said_in_one_line(run):
    columns = {name: P[:, k] for k, name in enumerate(NAMES)}
    columns |= {
        "guess": np.array(NAMES)[P.argmax(axis=1)],
        "animal": np.array(NAMES)[Y],
    }
    done = run("extract", table("t.csv", columns), "-o", "t.h5")
    expected = (
        "Read t.csv: 300 samples, 4 classes"
        " ('ant, bee, cat, dog' as probs, 'animal' as labels)."
    )
    assert expected in done.err.splitlines(), done.err


def test_features_are_no_scores_of_classes(run):
    """Columns of measurements beside an integer label had to be refused for want of a
    kind; real numbers alone prove none."""
    columns = {f"x{k}": RNG.normal(size=N) for k in range(4)}
    refused = run("evaluate", table("t.csv", {**columns, "label": RNG.permutation(Y)}))
    assert refused.code in (2, 3), refused.err
    np.savez("e.npz", z=RNG.normal(size=(N, 64)), label=Y)
    assert run("evaluate", "e.npz").code in (2, 3)


def test_nested_distributions_come_before_flat_numbers(run):
    """ms and the wire's confidence were read as two of seven classes."""
    rows = []
    for i, p in enumerate(P):
        scores = dict(zip(NAMES, p.tolist(), strict=True))
        raw = {"confidence": float(p.max()), "probabilities": scores}
        rows.append({"label": int(Y[i]), "ms": 12.5 + i, "raw": raw})
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("evaluate", "t.jsonl", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["results"][0]["n_classes"] == 4
    assert "('raw.probabilities' as probs, 'label')" in done.err


def test_scores_and_outcomes_of_one_name_belong_together(run):
    """The four columns became one array of sum 2 and could not be named."""
    outcomes = (RNG.random((N, 2)) < P[:, :2]).astype(float)
    outcomes[5, 0] = 0.5  # a draw
    columns = {
        "prob1": P[:, 0],
        "prob1_outcome": outcomes[:, 0],
        "prob2": P[:, 1],
        "prob2_outcome": outcomes[:, 1],
        "match": np.arange(N),
    }
    table("t.csv", columns)
    named = ("--scores", "prob1", "--labels", "prob1_outcome")
    assert "row 5 has label 0.5" in run("evaluate", "t.csv", *named).line
    refused = run("evaluate", "t.csv", *named, "--kind", "probs").line
    advised = shlex.split(refused.partition("to try: ")[2])
    assert advised[3:5] == ["--ignore-label", "0.5"]
    assert run(*advised[1:]).code == 0
    Path("t.h5").unlink()
    done = run("evaluate", "t.csv", *named, "--ignore-label", "0.5", "--json")
    assert json.loads(done.out)["results"][0]["n"] == N - 1, done.err
    refused = run("extract", "t.csv", "-o", "t.h5")
    assert "holds 2 arrays of scores side by side: prob1, prob2" in refused.line
    assert "match (" not in refused.line.partition("to try")[2]
    columns["prob1_outcome"] = (outcomes[:, 0] > 0).astype(int)
    table("t.csv", columns)
    advised = run("extract", "t.csv", "-o", "t.h5").line.partition("to try: ")[2]
    assert shlex.split(advised)[3:7] == [
        "--scores",
        "prob1",
        "--labels",
        "prob1_outcome",
    ]
    assert run(*shlex.split(advised)[1:]).code == 0


@pytest.mark.parametrize(
    "record",
    [
        {"image_id": 1, "category_id": 2, "bbox": [1, 2.5, 3, 4], "score": 0.5},
        {"image": "a.jpg", "class": "cat", "box": [1, 2.5, 3, 4], "confidence": 0.5},
    ],
)
def test_detections_are_matched_first(run, record):
    """The predicted category was read as the label of one of two classes."""
    Path("d.json").write_text(json.dumps([record] * 20))
    refused = run("evaluate", "d.json")
    assert refused.code == 3
    assert "match them with the ground truth, and add a column" in refused.line


@pytest.mark.parametrize(
    "sides", ["xmin,ymin,xmax,ymax", "x1,y1,x2,y2", "x,y,w,h", "left,top,width,height"]
)
def test_tables_of_detections_are_matched_first(run, sides):
    """The sides of the box are columns; a command with the category as label was proposed."""
    rows = [f"a{i}.png,1,2,30,40,{NAMES[i % 2]},0.{i % 9 + 1}" for i in range(40)]
    Path("d.csv").write_text("\n".join([f"image,{sides},label,score", *rows]) + "\n")
    refused = run("evaluate", "d.csv")
    assert refused.code == 3
    assert "match them with the ground truth" in refused.line
    assert "to try" not in refused.line


def test_rows_of_zeros_among_probabilities_leave_a_way_in(run):
    """Nothing was proposed, as not all rows sum to 1."""
    p = np.round(P, 2)
    p[::20] = 0.0
    columns = {f"c{k}": p[:, k] for k in range(p.shape[1])}
    table("z.csv", {**columns, "label": Y})
    refused = run("evaluate", "z.csv")
    command = "calcli extract z.csv --drop-missing -o z.h5"
    assert refused.line.endswith(f"to try: {command}")
    done = run(*command.split()[1:])
    assert done.code == 0
    assert f"{len(p[::20])} of {len(p)} rows left out: they hold zeros only" in done.err
    assert "they lack" not in done.err


@pytest.mark.parametrize("least", [0.3, 0.05])
def test_separate_answers_end_with_a_command_that_works(run, least):
    """Sums of all rows above 1, or some below it."""
    s = least + np.linspace(0.6, 0.95, len(P))[:, None] * P * (1.0 - least)
    columns = {name: s[:, k] for k, name in enumerate(NAMES)}
    table("s.csv", columns | {"label": [NAMES[k] for k in Y]})
    refused = run("evaluate", "s.csv")
    command = refused.line.partition("to try: calcli ")[2].split()
    assert "--normalize" in command
    assert run(*command).code == 0


def test_rows_of_separate_answers_are_divided_by_their_sum_when_asked(run):
    columns = {f"prob_{name}": P[:, k] * 2.19 for k, name in enumerate(NAMES)}
    table("t.csv", {**columns, "label": Y})
    assert "sum to 2.19, expected 1" in run("evaluate", "t.csv").line
    done = run("extract", "t.csv", "--normalize", "sum", "-o", "t.h5")
    assert (
        done.code == 0 and "rows were divided by their sums, 2.19 to 2.19" in done.err
    )


def test_an_option_for_one_array_is_not_overruled_by_the_last(run):
    np.savez("t.npz", a=Z, b=-Z, labels=Y)
    refused = run("evaluate", "t.npz", "--scores", "a", "--scores", "b")
    assert refused.code == 2
    assert "--scores: names a and b, expected one array" in refused.line


# ---- laws

WORDS = [
    "score",
    "prob",
    "p",
    "logit",
    "y",
    "label",
    "id",
    "n",
    "pred",
    "conf",
    "x",
    "a",
    "b",
    "outcome",
    "sum",
    "rate",
    "1",
    "2",
    "age",
]
MARKS = ["", "_", ".", " ", "-"]


def names_at_random(rng):
    names = set()
    while len(names) < rng.integers(1, 7):
        pieces = rng.choice(WORDS, rng.integers(1, 4))
        names.add(
            str(rng.choice(MARKS)).join(pieces) + str(rng.choice(["", "1", "_2"]))
        )
    return sorted(names)


def column_at_random(rng, n):
    return [
        lambda: rng.random(n).round(3),
        lambda: rng.normal(size=n).round(3),
        lambda: rng.integers(0, 3, n),
        lambda: rng.integers(0, 2, n) / 2,
        lambda: rng.dirichlet([1, 1], n)[:, 0].round(2),
        lambda: rng.choice(["u", "v", "w"], n),
        lambda: rng.choice(["", "1", "x"], n),
    ][rng.integers(7)]()


@pytest.mark.parametrize("seed", range(60))
def test_no_table_ends_in_an_internal_error_and_commands_work_as_pasted(run, seed):
    """``score_a, score_b, prob1, prob2`` did: a pair of columns was stacked on one."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 3, 40]))
    table("t.csv", {name: column_at_random(rng, n) for name in names_at_random(rng)})
    done = run("extract", "t.csv", "-o", "t.h5")
    assert done.code in (0, 2, 3), done.err
    commands = done.err.strip().splitlines()[-1].partition("to try: ")[2]
    for command in filter(None, commands.split(" && ")):
        again = run(*shlex.split(command)[1:])
        assert again.code == 0, (command, again.err)


def test_the_table_of_the_report(run):
    table(
        "t.csv",
        {
            "score_a": [0.3, 0.2],
            "score_b": [0.7, 0.8],
            "prob1": [0.2, 0.4],
            "prob2": [0.8, 0.6],
        },
    )
    refused = run("evaluate", "t.csv")
    assert refused.code == 3 and "found no labels" in refused.line


def test_one_line_of_json_is_one_row(run):
    """It was said to hold no rows."""
    Path("one.jsonl").write_text('{"probs": [0.25, 0.75], "label": 1, "id": "a"}\n')
    done = run("extract", "one.jsonl", "-o", "one.h5")
    line = "Read one.jsonl: 1 sample, 2 classes ('probs', 'label', 'id')."
    assert done.code == 0 and line in done.err.splitlines(), done.err


def test_rounded_rows_are_probabilities_and_their_digit_is_recorded(run):
    """Rows of two decimals miss 1 by more than 0.001: they were called logits."""
    rng = np.random.default_rng(7)
    p = rng.dirichlet(np.full(4, 0.5), N).round(2)
    assert np.abs(p.sum(axis=1) - 1).max() > 0.005
    columns = {name: [f"{x:.2f}" for x in p[:, k]] for k, name in enumerate(NAMES)}
    columns["animal"] = np.array(NAMES)[Y]
    done = run("extract", table("t.csv", columns), "-o", "t.h5")
    assert "('ant, bee, cat, dog' as probs, 'animal' as labels)" in done.err, done.err
    with h5py.File("t.h5") as file:
        assert file.attrs["resolution"] == 0.01
        assert np.array_equal(file["probs"], p)


def test_rows_of_zeros_are_left_out_where_asked(run):
    p = P.copy()
    p[[3, 7]] = 0.0
    np.savez("z.npz", probs=p, labels=Y)
    refused = run("extract", "z.npz", "-o", "z.h5")
    assert refused.code == 3 and "--drop-missing" in refused.line
    done = run("extract", "z.npz", "--drop-missing", "-o", "z.h5")
    assert done.code == 0, done.err
    assert f"Read z.npz: {N - 2} samples, 4 classes" in done.err
    assert f"2 of {N} rows left out: they hold zeros only" in done.err
