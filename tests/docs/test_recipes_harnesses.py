"""What frameworks and harnesses say of their own runs, held against what calcli reads of the files they write.

Each runs offline on a random model made on the spot, where it is installed, and is skipped where it is not.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from test_recipes import RECIPES

N = 60


def whole(run, command, *more):
    """Scores, labels, ids and accuracy of a recipe's command without its split."""
    words = shlex.split(command.partition(" --split")[0])[1:]
    done = run(
        *[word if word != "val.h5" else "whole.h5" for word in words], *more, "--force"
    )
    assert done.code == 0, done.err
    with h5py.File("whole.h5") as file:
        kind = next(kind for kind in ("logits", "log_probs", "probs") if kind in file)
        scores, labels = file[kind][()], file["labels"][()]
        ids = (
            file["ids"].asstr()[()].tolist()
            if "ids" in file and file["ids"].dtype.kind == "O"
            else None
        )
    done = run(
        "evaluate", "whole.h5", "--metric", "accuracy", "--format", "value", "-q"
    )
    assert done.code == 0, done.err
    return scores, labels, ids, float(done.out)


# ---- training frameworks, as the recipes' programs leave them


def of_trainer(space):
    """``Trainer.predict`` gives logits and labels; its metric is the one that a user would compute of them."""
    out = space["out"]
    return (
        out.predictions,
        out.label_ids,
        float((out.predictions.argmax(axis=1) == out.label_ids).mean()),
    )


def of_keras(space):
    """keras.metrics.SparseCategoricalAccuracy by ``evaluate``."""
    model, x, y = space["model"], space["x"], space["y"]
    model.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model.predict(x, verbose=0), y, model.evaluate(x, y, verbose=0)[1]


def of_xgboost(space):
    """``XGBClassifier.score`` of the rows held out."""
    model, x, y, test_rows = (space[name] for name in ("model", "x", "y", "held"))
    return (
        model.predict_proba(x[test_rows]),
        y[test_rows],
        model.score(x[test_rows], y[test_rows]),
    )


def of_lightning(space):
    """torchmetrics' accuracy, which Lightning brings, of the module's own outputs."""
    import torch
    from torchmetrics.functional import accuracy

    x, y = space["rows"].tensors
    net = space["trainer"].lightning_module.net
    with torch.no_grad():
        z = net(x)
    return z.numpy(), y.numpy(), float(accuracy(z, y, "multiclass", num_classes=3))


OWN = {
    "Hugging Face Trainer": ("transformers", of_trainer), "Keras": ("keras", of_keras),
    "XGBoost": ("xgboost", of_xgboost), "Lightning": ("lightning", of_lightning),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_a_framework_s_own_accuracy_and_rows(name, run, monkeypatch):
    module, our_reading = OWN[name]
    if module == "keras" and "KERAS_BACKEND" not in os.environ:
        monkeypatch.setenv("KERAS_BACKEND", "torch")
    pytest.importorskip(
        module, reason=f"{module} is not installed", exc_type=ImportError
    )
    program, commands = RECIPES[name]
    space = {"__name__": "recipe"}
    try:
        exec(compile(program, name, "exec"), space)
    except ImportError as missing:
        pytest.skip(f"not installed: {missing.name}")
    expected, labels, accuracy = our_reading(space)
    scores, y, _, read = whole(run, commands[0])
    # two float32 passes of other batch sizes
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
    assert np.array_equal(y, labels) and read == pytest.approx(accuracy, abs=1e-6)


# ---- timm


def test_timm_s_own_accuracy_and_rows(run):
    """A folder of images through timm's transforms, loader and model, saved as its inference.py saves them."""
    timm = pytest.importorskip(
        "timm", reason="timm is not installed", exc_type=ImportError
    )
    pd = pytest.importorskip("pandas", reason="inference.py writes with pandas")
    import torch
    from PIL import Image
    from timm.data import create_dataset, create_loader
    from timm.utils import accuracy

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    for i in range(N):
        Path(f"images/{i % 4}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(
            f"images/{i % 4}/{i}.png"
        )
    model = timm.create_model("test_resnet", num_classes=4).eval()
    dataset = create_dataset("", "images")
    loader = create_loader(
        dataset, (3, 64, 64), 16, use_prefetcher=False, num_workers=0
    )
    with torch.no_grad():
        pairs = [(model(x), y) for x, y in loader]
    z, y = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    names = dataset.filenames(basename=True)
    pd.DataFrame({"filename": names, "logit": list(z.numpy())}).set_index(
        "filename"
    ).to_parquet("resnet18-224.parquet")
    order = rng.permutation(N)
    pd.DataFrame(
        {"filename": [names[i] for i in order], "label": y.numpy()[order]}
    ).to_csv("truth.csv", index=False)
    scores, labels, ids, read = whole(run, RECIPES["timm"][1][0])
    (harness_accuracy,) = accuracy(z, y, topk=(1,))
    assert (
        ids == names
        and np.array_equal(scores, z.numpy())
        and np.array_equal(labels, y.numpy())
    )
    assert read == pytest.approx(float(harness_accuracy) / 100, abs=1e-6)
    p, index = z.softmax(dim=1).topk(2)
    frame = pd.DataFrame(
        {"filename": names, "index": list(index.numpy()), "prob": list(p.numpy())}
    )
    frame.set_index("filename").to_csv("resnet18-224-top5.csv")
    command = (
        RECIPES["timm"][1][1]
        .replace("--classes 10", "--classes 4")
        .replace("top5.h5", "val.h5")
    )
    scores, _, _, read = whole(run, command)
    assert read == pytest.approx(float(harness_accuracy) / 100, abs=1e-6)
    # NumPy prints 8 digits
    np.testing.assert_allclose(np.sort(scores)[:, :-3:-1], p.numpy(), rtol=1e-5)


# ---- lm-evaluation-harness


def tiny_language_model(folder):
    """A GPT-2 of random weights over bytes, with its tokenizer, as transformers saves them."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: i for i, word in enumerate(["<|endoftext|>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(words),
        n_positions=128,
        n_embd=32,
        n_layer=1,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)


TASK = """
task: tiny
dataset_path: json
dataset_kwargs: {data_files: {validation: questions.jsonl}}
validation_split: validation
output_type: multiple_choice
doc_to_text: "Question: {{question}} Answer:"
doc_to_choice: choices
doc_to_target: gold
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""


def test_the_harness_s_own_accuracies_and_rows(run, tmp_path):
    pytest.importorskip(
        "lm_eval", reason="lm_eval is not installed", exc_type=ImportError
    )
    pytest.importorskip("transformers", reason="transformers is not installed")
    rng = np.random.default_rng(0)
    words = ["ant", "a buffalo", "cat", "dogs and more", "é"]
    rows = [
        {
            "question": f"{a} or {b}?",
            "choices": [words[c] for c in rng.permutation(5)[:4]],
            "gold": int(rng.integers(4)),
        }
        for a, b in rng.integers(0, 99, (N, 2))
    ]
    Path("questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("tasks").mkdir()
    Path("tasks/tiny.yaml").write_text(TASK)
    tiny_language_model("model")
    command = "lm_eval --model hf --model_args pretrained=model --device cpu --batch_size 8 --tasks tiny"
    command += " --include_path tasks --log_samples --output_path results"
    offline = {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "home"),
    }
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (samples,) = Path("results").rglob("samples_tiny_*.jsonl")
    (totals,) = Path("results").rglob("results_*.json")
    stored = json.loads(totals.read_text())["results"]["tiny"]
    logged = sorted(
        map(json.loads, samples.read_text().splitlines()), key=lambda row: row["doc_id"]
    )
    scores, labels, _, read = whole(run, f"calcli extract {samples} -o val.h5")
    expected = [
        [float(answer[0]) for answer in row["filtered_resps"]] for row in logged
    ]
    assert np.array_equal(scores, np.array(expected)) and labels.tolist() == [
        row["gold"] for row in rows
    ]
    assert read == pytest.approx(stored["acc,none"], abs=1e-12)
    *_, read = whole(run, f"calcli extract {samples} --normalize chars -o val.h5")
    assert read == pytest.approx(stored["acc_norm,none"], abs=1e-12)
    # else the second says nothing
    assert any(row["acc"] != row["acc_norm"] for row in logged)


# ---- inspect_ai


def test_inspect_s_own_accuracy_and_rows(run):
    """Its mock model answers with a letter and made-up log-probabilities; its own scorer says what was right."""
    inspect_ai = pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import (
        Logprob,
        Logprobs,
        ModelOutput,
        ModelUsage,
        TopLogprob,
        get_model,
    )
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 4))
    z = np.log(0.99 * np.exp(z) / np.exp(z).sum(axis=1, keepdims=True))
    gold = rng.integers(0, 4, N)
    outputs = []
    for row in z:
        order = np.argsort(-row)
        top = [TopLogprob(token="ABCD"[c], logprob=float(row[c])) for c in order]
        output = ModelOutput.from_content("mockllm/model", f"ANSWER: {top[0].token}")
        # else it counts tokens with a vocabulary from the net
        output.usage = ModelUsage()
        head = [Logprob(token=part, logprob=-0.01) for part in ("ANSWER", ":", " ")]
        output.choices[0].logprobs = Logprobs(
            content=[
                *head,
                Logprob(token=top[0].token, logprob=top[0].logprob, top_logprobs=top),
            ]
        )
        outputs.append(output)
    samples = [
        Sample(input=f"q{i}?", choices=["w", "x", "y", "z"], target="ABCD"[c], id=i)
        for i, c in enumerate(gold)
    ]
    task = inspect_ai.Task(
        dataset=MemoryDataset(samples), solver=multiple_choice(), scorer=choice()
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = inspect_ai.eval(
        task,
        model=model,
        log_dir="logs",
        display="none",
        max_samples=1,
        max_connections=1,
    )
    assert log.status == "success", log.error
    (path,) = Path("logs").glob("*.eval")
    scores, labels, ids, read = whole(run, f"calcli extract {path} -o val.h5")
    place = [int(i) for i in ids] if ids is not None else list(range(N))
    np.testing.assert_allclose(scores, z[place], rtol=1e-12)
    assert np.array_equal(labels, gold[place])
    assert read == pytest.approx(
        log.results.scores[0].metrics["accuracy"].value, abs=1e-12
    )
