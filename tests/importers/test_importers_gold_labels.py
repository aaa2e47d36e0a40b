"""Right answers from another file, and files that look like something they are not."""

import json
import zipfile

import h5py
import numpy as np
import pytest

from calcli.errors import DataError, UsageError
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores

RNG = np.random.default_rng(4)
N, K = 40, 4
Z = RNG.normal(size=(N, K)) * 2
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
Y = np.array([RNG.choice(K, p=p) for p in P])
HITS = Z.argmax(axis=1) == Y


def csv(path, head, *columns):
    """A CSV file of these columns."""
    rows = zip(
        *(
            np.asarray(c).tolist()
            if np.ndim(c) < 2
            else [",".join(map(str, r)) for r in c]
            for c in columns
        ),
        strict=True,
    )
    path.write_text(
        "\n".join(([head] if head else []) + [",".join(map(str, row)) for row in rows])
        + "\n"
    )
    return path


def bring(paths, out, **ask):
    """Import, and give labels and notes."""
    ask = {
        name: (value,) if name in ("scores", "labels") else value
        for name, value in ask.items()
    }
    report = import_scores(
        paths if isinstance(paths, list) else [paths],
        out,
        ImportRequest(**ask),
        force=True,
    )
    with h5py.File(out) as file:
        labels = file["labels"][()] if "labels" in file else None
    return labels, " | ".join(report.notes)


@pytest.fixture
def scored(tmp_path):
    """Scores of ten questions, and their answers in another order: (scores, gold, output)."""
    order = RNG.permutation(N)
    scores = csv(tmp_path / "scores.csv", "id,A,B,C,D", [f"q{i}" for i in range(N)], P)
    gold = csv(
        tmp_path / "gold.csv",
        "id,answer",
        [f"q{i}" for i in order],
        np.array(list("ABCD"))[Y[order]],
    )
    return scores, gold, tmp_path / "out.h5"


def test_answers_in_another_file_are_joined_by_their_ids(scored):
    scores, gold, out = scored
    for paths, ask in (([scores], {"gold": str(gold)}), ([scores, gold], {})):
        labels, notes = bring(paths, out, kind="probs", **ask)
        assert (labels == Y).all()
        assert "joined" in notes and "'id'" in notes


def test_answers_that_are_missing_or_double_are_refused(scored):
    scores, gold, out = scored
    lines = gold.read_text().splitlines()
    gone = next(line for line in lines if line.startswith("q7,"))
    gold.write_text("\n".join(line for line in lines if line != gone) + "\n")
    with pytest.raises(
        DataError,
        match=r"row 7 has the id 'q7', which .*gold.csv does not have \(1 of 40",
    ):
        bring(scores, out, kind="probs", gold=str(gold))
    gold.write_text(
        "\n".join([*lines, "q7," + ("B" if gone.endswith("A") else "A")]) + "\n"
    )
    with pytest.raises(DataError, match="id 'q7' has several answers"):
        bring(scores, out, kind="probs", gold=str(gold))
    gold.write_text("\n".join([*lines, gone]) + "\n")
    assert (bring(scores, out, kind="probs", gold=str(gold))[0] == Y).all()


def test_answers_go_by_place_only_where_no_file_has_ids(scored, tmp_path):
    scores, gold, out = scored
    np.save(tmp_path / "p.npy", P)
    np.save(tmp_path / "truth.npy", Y)
    labels, notes = bring(
        tmp_path / "p.npy", out, kind="probs", gold=str(tmp_path / "truth.npy")
    )
    assert (labels == Y).all() and "there are no ids" in notes
    with pytest.raises(DataError, match="has no ids to find the gold by"):
        bring(scores, out, kind="probs", gold=str(tmp_path / "truth.npy"))
    with pytest.raises(DataError, match=r"p\.npy: has no ids to find the gold by"):
        bring(tmp_path / "p.npy", out, kind="probs", gold=str(gold))
    csv(gold, "id,first,other", [f"q{i}" for i in range(N)], Y, Y)
    with pytest.raises(UsageError, match="choose with --labels"):
        bring(scores, out, kind="probs", gold=str(gold))
    assert (
        bring(scores, out, kind="probs", gold=str(gold), labels="other")[0] == Y
    ).all()


@pytest.mark.parametrize("name", ["acc", "correct", "is_correct"])
def test_a_logged_outcome_is_held_against_every_row(tmp_path, name):
    wrong = HITS.copy()
    wrong[11] = not wrong[11]
    for outcomes, right in ((HITS, True), (wrong, False)):
        np.savez(
            tmp_path / "s.npz",
            logits=Z,
            labels=Y,
            **{name: outcomes.astype(float if name == "acc" else bool)},
        )
        if right:
            assert (
                f"'{name}' agrees in every row"
                in bring(tmp_path / "s.npz", tmp_path / "o.h5")[1]
            )
        else:
            with pytest.raises(
                DataError,
                match=rf"{name}: row 11 is logged as (right|wrong), its label is {Y[11]}",
            ):
                bring(tmp_path / "s.npz", tmp_path / "o.h5")
            assert (
                bring(tmp_path / "s.npz", tmp_path / "o.h5", scores="logits")[0][11]
                == Y[11]
            )


def test_a_prediction_of_two_classes_may_have_any_threshold_but_not_the_wrong_way_round(
    tmp_path,
):
    q = P[:, 0]
    truth = (RNG.random(N) < q).astype(int)
    for pred, fits in ((q > 0.3, True), (q > 0.5, True), (q < 0.5, False)):
        np.savez(tmp_path / "s.npz", probs=q, labels=truth, pred=pred.astype(int))
        if fits:
            bring(tmp_path / "s.npz", tmp_path / "o.h5")
        else:
            with pytest.raises(
                DataError, match="pred: no threshold on 'probs' gives it"
            ):
                bring(tmp_path / "s.npz", tmp_path / "o.h5")


def test_predictions_by_name_are_looked_up(tmp_path):
    names = np.array(["cat", "dog", "eel", "fox"])
    table = csv(
        tmp_path / "t.csv",
        "cat,dog,eel,fox,pred,label",
        P,
        names[P.argmax(1)],
        names[Y],
    )
    assert "'pred' agrees" in bring(table, tmp_path / "o.h5", kind="probs")[1]
    csv(
        table,
        "cat,dog,eel,fox,pred,label",
        P,
        names[(P.argmax(1) + (np.arange(N) == 5)) % K],
        names[Y],
    )
    with pytest.raises(DataError, match="row 5 has prediction"):
        bring(table, tmp_path / "o.h5", kind="probs")


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        (Z.argmax(axis=1), "are the labels the model's predictions"),
        (Z.argmin(axis=1), "the lowest score is the label on 100.0% of the rows"),
        (np.arange(N) % K, "no better than chance"),
    ],
)
def test_labels_that_cannot_belong_to_their_scores_are_doubted(tmp_path, truth, words):
    np.savez(tmp_path / "s.npz", logits=Z, labels=truth)
    assert words in bring(tmp_path / "s.npz", tmp_path / "o.h5")[1]
    np.savez(tmp_path / "s.npz", logits=Z, labels=Y)
    assert "warning" not in bring(tmp_path / "s.npz", tmp_path / "o.h5")[1]


def test_true_and_false_are_no_labels_of_several_classes(tmp_path):
    np.savez(tmp_path / "s.npz", logits=Z, labels=HITS)
    with pytest.raises(DataError, match="is true or false, expected one of 4 classes"):
        bring(tmp_path / "s.npz", tmp_path / "o.h5")


def test_percentages_are_told_apart_from_logits(tmp_path):
    np.savez(tmp_path / "s.npz", probs=100 * P, labels=Y)
    with pytest.raises(DataError, match="these are percentages: divide them by 100"):
        bring(tmp_path / "s.npz", tmp_path / "o.h5")


def test_a_column_that_counts_is_no_class_in_floats_either(tmp_path):
    table = csv(tmp_path / "t.csv", "n,a,b,c,d,label", np.arange(N) + 1.0, Z, Y)
    with pytest.raises(
        DataError, match="column 'n' holds whole numbers.*--scores a,b,c,d"
    ):
        bring(table, tmp_path / "o.h5", kind="logits")


@pytest.mark.parametrize("ends", [(P, Y), (Y, P), (P, np.array(list("ABCD"))[Y])])
def test_a_table_without_names_has_one_obvious_reading(tmp_path, ends):
    table = csv(tmp_path / "t.csv", "", *ends)
    for kind in (None, "probs"):
        labels, notes = bring(table, tmp_path / "o.h5", kind=kind)
        assert (labels == Y).all() and "has no column names" in notes


def test_a_table_without_names_but_several_readings_says_how_to_name_them(tmp_path):
    table = csv(tmp_path / "t.csv", "", P, np.array(["x", "y"])[Y % 2], Y)
    with pytest.raises(DataError, match=r"--scores 0:3 --labels 5"):
        bring(table, tmp_path / "o.h5", kind="probs")
    with pytest.raises(DataError, match=r"--scores 1:4 --labels 5"):
        bring(
            csv(tmp_path / "c.csv", "", np.arange(N), P, Y),
            tmp_path / "o.h5",
            kind="probs",
        )
    assert (
        bring(table, tmp_path / "o.h5", kind="probs", scores="0:3", labels="5")[0] == Y
    ).all()


def test_commas_in_numbers_of_a_semicolon_table(tmp_path):
    text = "\n".join(
        ";".join([*(str(v).replace(".", ",") for v in p), str(y)])
        for p, y in zip(P, Y, strict=True)
    )
    (tmp_path / "t.csv").write_text("p_0;p_1;p_2;p_3;label\n" + text + "\n")
    assert (bring(tmp_path / "t.csv", tmp_path / "o.h5", kind="probs")[0] == Y).all()


def test_a_zip_may_hold_several_pairs_and_what_file_managers_add(tmp_path):
    np.savez(
        tmp_path / "z.zip.npz", a_scores=P, a_targets=Y, b_scores=P[:9], b_targets=Y[:9]
    )
    path = (tmp_path / "z.zip.npz").rename(tmp_path / "z.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/._a_scores.npy", b"\0\5\x16\7")
        archive.writestr(".DS_Store", b"x")
    report = import_scores([path], tmp_path / "o.h5", ImportRequest(kind="probs"))
    assert [(b.name, b.n) for b in report.bundles] == [("a_scores", N), ("b_scores", 9)]


def test_confidence_and_correct_go_by_their_names(tmp_path):
    rows = [
        {"confidence": float(p), "correct": bool(hit)}
        for p, hit in zip(P.max(1), HITS, strict=True)
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    _, notes = bring(tmp_path / "r.jsonl", tmp_path / "o.h5")
    assert f"'correct' as correct ({HITS.sum()} of {N})" in notes


def test_rows_with_different_numbers_of_scores_become_options(tmp_path):
    rows = [
        {"logits": Z[i, : 3 + i % 2].tolist(), "label": int(Z[i, :3].argmax())}
        for i in range(N)
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    report = import_scores(
        [tmp_path / "r.jsonl"], tmp_path / "o.h5", ImportRequest(), force=True
    )
    assert [(b.name, b.n, b.k) for b in report.bundles] == [
        ("", N, 4),
    ]
    report = import_scores(
        [tmp_path / "r.jsonl"], tmp_path / "o.h5", ImportRequest(choices=4), force=True
    )
    assert [(b.name, b.n, b.k) for b in report.bundles] == [("", N // 2, 4)]
    with pytest.raises(UsageError, match="--choices 5: .* has rows with 3, 4 scores"):
        import_scores(
            [tmp_path / "r.jsonl"],
            tmp_path / "o.h5",
            ImportRequest(choices=5),
            force=True,
        )


def test_scores_that_stand_on_their_side_are_named_as_such(tmp_path):
    np.savez(tmp_path / "s.npz", logits=Z.T, labels=Y)
    with pytest.raises(
        DataError,
        match=r"has shape \(4, 40\) for 40 labels: are the classes on the first axis",
    ):
        bring(tmp_path / "s.npz", tmp_path / "o.h5")
    np.savez(tmp_path / "s.npz", probs=P.max(axis=1), labels=Y)
    with pytest.raises(
        DataError,
        match="there is one score a row: is it the confidence.*--confidence NAME",
    ):
        bring(tmp_path / "s.npz", tmp_path / "o.h5")


def test_one_hot_labels_in_columns_of_their_own(tmp_path):
    hot = np.eye(K, dtype=int)[Y]
    table = csv(
        tmp_path / "t.csv", "prob_a,prob_b,prob_c,prob_d,is_a,is_b,is_c,is_d", P, hot
    )
    assert (bring(table, tmp_path / "o.h5", labels="is_a:is_d")[0] == Y).all()


@pytest.mark.parametrize(
    "classes",
    [
        ["NA", "DE", "FR", "None"],
        ["007", "DE", "010", "FR"],
        ["007", "010", "020", "100"],
        ["101", "205", "310", "1000"],
    ],
    ids=str,
)
def test_answers_that_read_as_something_else_are_the_classes_of_these_names(
    tmp_path, classes
):
    """Countries as codes, NA for Namibia, and numbers with zeros before them."""
    names = np.array(classes)
    order = np.random.default_rng(8).permutation(N)
    head = ",".join(f"prob_{name}" for name in classes)
    scores = csv(tmp_path / "scores.csv", f"id,{head}", np.arange(N), P)
    gold = csv(tmp_path / "gold.csv", "id,answer", order, names[Y[order]])
    labels, _ = bring(scores, tmp_path / "out.h5", gold=str(gold))
    assert np.array_equal(labels, Y)


def test_labels_of_tied_scores_are_not_called_predictions(tmp_path):
    """Of three equal probabilities every label has the largest; a third of them is right."""
    even = np.full((N, 3), 1 / 3)
    labels = np.arange(N) % 3
    np.savez(tmp_path / "even.npz", probs=even, labels=labels)
    _, notes = bring(tmp_path / "even.npz", tmp_path / "out.h5")
    assert "predictions" not in notes
    np.savez(tmp_path / "right.npz", probs=np.eye(3)[labels] * 0.7 + 0.1, labels=labels)
    _, notes = bring(tmp_path / "right.npz", tmp_path / "out.h5")
    assert "are the labels the model's predictions?" in notes
