"""Files as training frameworks and their users save them; what looks like scores and is none."""

import pickle

import numpy as np
import pytest
from imports import bring

from calcli.errors import DataError, UsageError
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores

N, K = 12, 3
Z = np.random.default_rng(0).normal(0, 2, (N, K)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, K, N)
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)


# ---- names


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ("y_score", "y_true"),
        ("predictions", "ground_truth"),
        ("outputs", "targets"),
        ("predictions", "label_ids"),
    ],
)
def test_names_of_frameworks_have_the_kind_that_all_values_prove(
    tmp_path, out, scores, labels
):
    np.savez(tmp_path / "a.npz", **{scores: Z, labels: Y})
    imported = bring(tmp_path / "a.npz", out)
    assert np.array_equal(imported["logits"], Z) and np.array_equal(
        imported["labels"], Y
    )
    assert f"({scores!r} as logits, {labels!r})" in imported["notes"]
    np.savez(tmp_path / "a.npz", **{scores: P, labels: Y})
    imported = bring(tmp_path / "a.npz", out)
    assert np.array_equal(imported["probs"], P)
    assert f"({scores!r} as probs, {labels!r})" in imported["notes"]
    np.savez(tmp_path / "a.npz", **{scores: P[:, :1], labels: Y == 0})
    with pytest.raises(UsageError, match=f"say what '{scores}' holds with --kind"):
        bring(tmp_path / "a.npz", out)  # one column proves nothing


@pytest.mark.parametrize(
    "names",
    [("val_logits", "val_labels"), ("net_logits", "net_labels"), ("a_logits", "truth")],
)
def test_the_word_may_end_a_name(tmp_path, out, names):
    for name, array in zip(names, (Z, Y), strict=True):
        np.save(tmp_path / f"{name}.npy", array)
    report = import_scores(
        [tmp_path / f"{name}.npy" for name in names],
        out,
        ImportRequest(labels=("truth",) * ("truth" in names)),
    )
    assert [(b.name, b.n, b.labelled) for b in report.bundles] == [
        ("val" if "val_logits" in names else "", N, True)
    ]


def test_what_a_model_predicts_is_never_taken_for_labels(tmp_path, out):
    for name in (
        "pred_label",
        "predicted_labels",
        "y_pred",
        "model_labels",
        "prediction",
    ):
        np.savez(tmp_path / "a.npz", logits=Z, **{name: Z.argmax(axis=1)})
        with pytest.raises(DataError, match="found no labels"):
            bring(tmp_path / "a.npz", out)


def test_the_prediction_that_a_writer_logged_is_checked_row_by_row(tmp_path, out):
    np.savez(tmp_path / "a.npz", probs=P, labels=Y, pred_label=P.argmax(axis=1))
    assert np.array_equal(bring(tmp_path / "a.npz", out)["labels"], Y)
    wrong = P.argmax(axis=1)
    wrong[7] = (wrong[7] + 1) % K
    np.savez(tmp_path / "a.npz", probs=P, labels=Y, pred_label=wrong)
    with pytest.raises(
        DataError,
        match=f"row 7 has prediction {wrong[7]}, but the largest of 'probs' is class",
    ):
        bring(tmp_path / "a.npz", out)


# ---- labels


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([-1, 1, 1, -1], "+1 was read as class 1"),
        ([False, True, True, False], "true was read as class 1"),
        (["No", "Yes", "Yes", "No"], "'Yes' was read as class 1"),
        (
            ["malignant", "benign", "benign", "malignant"],
            "'malignant' was read as class 1",
        ),
        (
            ["abc", "abd", "abd", "abc"],
            "'abd' was read as class 1, 'abc' as class 0, the later in the alphabet",
        ),
        (["0", "1", "1", "0"], ""),
    ],
)
def test_labels_of_two_classes_and_what_was_taken_as_class_1(
    tmp_path, out, labels, says
):
    np.savez(tmp_path / "a.npz", logits=np.array([-1.0, 2, 3, -4]), y=np.array(labels))
    imported = bring(tmp_path / "a.npz", out)
    expected = [1, 0, 0, 1] if "malignant" in labels else [0, 1, 1, 0]
    assert imported["labels"].tolist() == expected
    assert says in imported["notes"]
    words = sorted(set(labels), key=lambda word: expected[labels.index(word)])
    named = isinstance(labels[0], str) and labels[0] != "0"
    assert [name.decode() for name in imported.get("class_names", [])] == (
        words if named else []
    )


def test_the_only_column_names_class_1(tmp_path, out):
    (tmp_path / "a.csv").write_text(",yes,truth\n0,0.9,yes\n1,0.25,aye\n2,0.75,yes\n")
    imported = bring(
        tmp_path / "a.csv", out, scores=("yes",), labels=("truth",), kind="probs"
    )
    assert imported["labels"].tolist() == [1, 0, 1]
    assert imported["probs"][:, 1].tolist() == [0.9, 0.25, 0.75]
    assert "'yes' was read as class 1, 'aye' as class 0" in imported["notes"]


def test_class_names_may_be_given(tmp_path, out):
    words = np.array(["owl", "cat", "bee"])
    np.savez(tmp_path / "a.npz", logits=Z, labels=words[Y])
    with pytest.raises(DataError, match="--class-names"):
        bring(tmp_path / "a.npz", out)
    imported = bring(tmp_path / "a.npz", out, class_names=tuple(words))
    assert np.array_equal(imported["labels"], Y)
    with pytest.raises(UsageError, match="2 names, 'logits' has 3 classes"):
        bring(tmp_path / "a.npz", out, class_names=("a", "b"))


# ---- nested lists


def test_batches_are_joined(tmp_path, out):
    cuts = [slice(0, 5), slice(5, 10), slice(10, N)]
    (tmp_path / "a.pkl").write_bytes(
        pickle.dumps([{"logits": Z[c], "labels": Y[c]} for c in cuts])
    )
    imported = bring(tmp_path / "a.pkl", out)
    assert np.array_equal(imported["logits"], Z) and np.array_equal(
        imported["labels"], Y
    )
    assert "3 batches were joined to 12 rows" in imported["notes"]
    (tmp_path / "a.pkl").write_bytes(pickle.dumps([(Z[c], Y[c]) for c in cuts]))
    assert np.array_equal(bring(tmp_path / "a.pkl", out, kind="logits")["labels"], Y)


def test_rows_in_a_list_are_rows(tmp_path, out):
    rows = [
        {"id": i, "answer": "ABC"[y], "logits": z, "hint": None}
        for i, (z, y) in enumerate(zip(Z, Y, strict=True))
    ]
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(rows))
    imported = bring(tmp_path / "a.pkl", out, labels=("answer",))
    assert np.array_equal(imported["logits"], Z) and np.array_equal(
        imported["labels"], Y
    )
    assert "letters A to C" in imported["notes"]


def test_torch_tuples_and_batches(tmp_path, out):
    torch = pytest.importorskip("torch")
    z, y = torch.tensor(Z), torch.tensor(Y)
    torch.save((z, y), tmp_path / "a.pt")
    assert np.array_equal(bring(tmp_path / "a.pt", out)["labels"], Y)
    assert np.array_equal(bring(tmp_path / "a.pt", out, kind="logits")["labels"], Y)
    torch.save([(z[:5], y[:5]), (z[5:], y[5:])], tmp_path / "a.pt")
    assert np.array_equal(bring(tmp_path / "a.pt", out, kind="logits")["logits"], Z)


def test_pickled_tensors_are_read_without_torch(tmp_path, out):
    torch = pytest.importorskip("torch")
    rows = [
        {
            "gt_label": torch.tensor([y]),
            "pred_score": torch.tensor(p),
            "pred_label": torch.tensor([p.argmax()]),
        }
        for p, y in zip(P, Y, strict=True)
    ]
    (tmp_path / "result.pkl").write_bytes(pickle.dumps(rows))
    imported = bring(tmp_path / "result.pkl", out)
    assert np.array_equal(imported["probs"], P) and np.array_equal(
        imported["labels"], Y
    )
    assert "('pred_score' as probs, 'gt_label')" in imported["notes"]


# ---- several scores a row


@pytest.mark.parametrize("axis", [0, 1])
def test_several_scores_a_row_become_one(tmp_path, out, axis):
    """On whichever axis they lie: that which is not of the labels' length."""
    several = np.stack([Z, Z + 1, 3 * Z], axis=axis)
    np.savez(tmp_path / "a.npz", logits=several, labels=Y)
    with pytest.raises(
        DataError, match=r"of several scores a row .* --reduce mean makes one"
    ):
        bring(tmp_path / "a.npz", out)
    assert np.allclose(
        bring(tmp_path / "a.npz", out, reduce="mean")["logits"],
        several.mean(axis=axis),
        atol=1e-6,
    )
    assert np.array_equal(bring(tmp_path / "a.npz", out, reduce="first")["logits"], Z)


def test_positions_of_tokens_become_rows(tmp_path, out):
    np.savez(
        tmp_path / "a.npz", predictions=Z.reshape(4, 3, K), label_ids=Y.reshape(4, 3)
    )
    imported = bring(tmp_path / "a.npz", out)
    assert np.array_equal(imported["logits"], Z) and np.array_equal(
        imported["labels"], Y
    )
    assert "4 x 3 positions became 12 rows" in imported["notes"]
    assert imported["unit"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


# ---- what is none


def test_ranks_are_not_classes(tmp_path, out):
    ranked = -np.sort(-P, axis=1)
    np.savez(tmp_path / "a.npz", probs=ranked, labels=Y)
    with pytest.raises(DataError, match="these are ranks"):
        bring(tmp_path / "a.npz", out)
    assert np.array_equal(
        bring(tmp_path / "a.npz", out, scores=("probs",))["probs"], ranked
    )


def test_confidences_of_predictions_are_not_probabilities_of_class_1(tmp_path, out):
    np.savez(tmp_path / "a.npz", prob=np.linspace(0.5, 1, 10), label=np.arange(10) % 2)
    with pytest.raises(
        DataError, match="no value is below .5 though both classes occur"
    ):
        bring(tmp_path / "a.npz", out)


SAMPLES = {
    "made/mmpretrain/result.pkl": ({}, (10, 3, "probs")),
    "vlm_pickle/oodcv_first40.pkl": ({"labels": ("answer",)}, (40, 6, "logits")),
    "made/trainer/trainer_predict.npz": ({}, (12, 5, "log_probs")),
    "netcal_npz/lenet-5-cifar-10_first40.npz": ({"kind": "probs"}, (40, 10, "probs")),
    "made/tables/predict_proba_pandas_index_with_target.csv": (
        {"kind": "probs"},
        (12, 3, "probs"),
    ),
    "made/tables/oof_with_fold.csv": ({"kind": "probs"}, (12, 2, "probs")),
    "made/timm/resnet-224_topk0.csv": ({"no_labels": True}, (12, 5, "probs")),
    "made/timm/resnet-224_topk0_30classes.csv": ({"no_labels": True}, (4, 30, "probs")),
    "made/wandb/preds.table.json": ({}, (12, 5, "probs")),
    "made/sharding/outputs_targets.pt": ({"kind": "logits"}, None),
    "made/mmpretrain/mmcls_0.x_out_all.pkl": ({}, "found no labels for 'class_scores'"),
    "made/openood/cifar10.npz": ({"kind": "probs"}, "holds no array named"),
    "made/openood/binary.npz": ({"kind": "probs"}, "holds no array named"),
    "made/openood/feature.npz": ({"kind": "logits"}, "holds no array named"),
    "made/tables/probs_0_1_10.csv": ({}, "after column 'probs_1' comes 'probs_10'"),
    "made/tables/numeric_id_and_logits.csv": ({"kind": "logits"}, (12, 2, "logits")),
    "made/timm/two_classes_named_0_1_top1.csv": ({}, "no value is below .5"),
    "made/timm/resnet-224_topk3_logit_separate_col_with_true_label.csv": (
        {},
        "these are ranks",
    ),
    "made/timm/resnet-224_topk5_separate_col.csv": (
        {"no_labels": True},
        "these are ranks",
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_read_or_refused_by_what_they_are(sample, out, name):
    ask, expected = SAMPLES[name]
    path = sample(name)
    if name.endswith(".pt"):
        pytest.importorskip("torch")
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            import_scores([path], out, ImportRequest(**ask))
        return
    (bundle,) = import_scores([path], out, ImportRequest(**ask)).bundles
    assert expected is None or (bundle.n, bundle.k, bundle.kind) == expected


def test_samples_of_two_arrays(sample, out):
    folder = sample("cleanlab")
    for name, k in (("cifar10", 10), ("imdb", 2), ("20news", 20)):
        files = [
            folder / f"{name}_test_set_pyx.npy",
            folder / f"{name}_test_set_original_labels.npy",
        ]
        imported = bring(files, out)
        assert imported["probs"].shape == (40, k)
        assert (imported["probs"].argmax(axis=1) == imported["labels"]).mean() > 0.5, (
            "labels belong to the rows"
        )
    folder = sample("npy_folder/tst")
    imported = bring(
        [folder / "predictions.npy", folder / "targets.npy"], out, kind="logits"
    )
    assert (imported["logits"].argmax(axis=1) == imported["labels"]).mean() > 0.8


# ---- several labels at once


def test_rows_of_several_labels_become_a_row_for_each(tmp_path, out):
    truth = np.random.default_rng(2).integers(0, 2, (N, K))
    np.savez(
        tmp_path / "a.npz", logits=Z, labels=truth, class_names=["cat", "dog", "eel"]
    )
    with pytest.raises(DataError, match="is not one-hot.*--per-label"):
        bring(tmp_path / "a.npz", out)
    imported = bring(tmp_path / "a.npz", out, per_label=True)
    assert imported["logits"].shape == (3 * N, 2) and np.array_equal(
        imported["labels"].reshape(N, 3), truth
    )
    assert imported["group"].reshape(N, 3).tolist() == [[b"cat", b"dog", b"eel"]] * N
    assert np.array_equal(
        imported["unit"].reshape(N, 3), np.arange(N)[:, None].repeat(3, axis=1)
    )
    for c in range(3):
        assert np.array_equal(
            imported["logits"][c::3], np.stack([0 * Z[:, c], Z[:, c]], axis=1)
        )
    table = [("key", "p_cat", "p_dog", "p_eel", "is_cat", "is_dog", "is_eel")]
    table += [(f"r{i}", *P[i].tolist(), *truth[i].tolist()) for i in range(N)]
    (tmp_path / "a.csv").write_text(
        "".join(",".join(map(str, row)) + "\n" for row in table)
    )
    named = {
        "scores": ("p_cat:p_eel",),
        "labels": ("is_cat:is_eel",),
        "kind": "probs",
        "ids": "key",
    }
    from_table = bring(tmp_path / "a.csv", out, per_label=True, **named)
    assert np.array_equal(from_table["probs"][:, 1].reshape(N, 3), P)
    assert (
        np.array_equal(from_table["labels"], imported["labels"])
        and "ids" not in from_table
    )
    assert from_table["group"][:4].tolist() == [b"cat", b"dog", b"eel", b"cat"]
    assert from_table["unit"][2:4].tolist() == [b"r0", b"r1"]
    np.savez(tmp_path / "a.npz", logits=Z, labels=Y)
    with pytest.raises(
        DataError,
        match=r"has shape \(12,\), expected zeros and ones of shape \(12, 3\)",
    ):
        bring(tmp_path / "a.npz", out, per_label=True)


def test_a_dict_of_numpy_save_is_read_without_running_anything(tmp_path, out):
    np.save(tmp_path / "a.npy", {"logits": Z, "labels": Y})
    imported = bring(tmp_path / "a.npy", out)
    assert np.array_equal(imported["logits"], Z) and np.array_equal(
        imported["labels"], Y
    )

    class Runs:
        def __reduce__(self):
            import os

            return os.system, (f"touch {tmp_path / 'sprung'}",)

    np.save(tmp_path / "a.npy", {"logits": Z, "labels": Runs()})
    with pytest.raises(DataError, match=r"tries to build \S*system"):
        bring(tmp_path / "a.npy", out)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "helm/mmlu-subject=philosophy,method=multiple_choice_joint,model=openai_gpt2/scenario_state.json",
            "run HELM with temperature",
        ),
        ("inspect/data_pubmedqa_gpt4o_mini.json", "inspect_ai.*--logprobs"),
        ("inspect/mmlu-summary-choices.eval", "inspect_ai.*--logprobs"),
        ("inspect/log_formats.eval", "inspect_ai.*--logprobs"),
        (
            "made/openai/batch_output.jsonl",
            "OpenAI.*free texts.*--correct answer=gold --gold NEW.csv",
        ),
        (
            "made/openai/chat_completion.json",
            "OpenAI.*free texts.*--correct answer=gold --gold NEW.csv",
        ),
        (
            "made/openai/legacy_completion.json",
            "OpenAI.*free texts.*--correct answer=gold --gold NEW.csv",
        ),
        ("made/openai/vllm_prompt_logprobs.json", "logprobs=true"),
    ],
)
def test_logs_of_answers_are_refused_with_what_to_save(sample, out, name, message):
    with pytest.raises(DataError, match=message) as caught:
        import_scores([sample(name)], out)
    assert "\n" not in str(caught.value)
