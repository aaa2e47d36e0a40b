"""Logs of language models: servers with an OpenAI interface, inspect_ai, HELM, the harness up to 0.3, token sequences.

Files are written here in the layout of their writers: openai-python's ChatCompletion and Completion, inspect_ai's
EvalSample, HELM's ScenarioState, lm-evaluation-harness 0.3's write_out_info.
"""

import json
import struct
import sys
import zipfile
import zlib

import h5py
import numpy as np
import pytest

from calcli.errors import DataError, UsageError
from calcli.importers.harness_logs.marked_answers import names_of_choices
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores

RNG = np.random.default_rng(5)
N = 24
LETTERS = "ABCD"
P = RNG.dirichlet(np.ones(4), N) * 0.9
Y = np.array([RNG.choice(4, p=p / p.sum()) for p in P])


def bring(path, out, **ask):
    """Import one file, and give what the bundle holds and the notes."""
    report = import_scores([path], out, ImportRequest(**ask), force=True)
    with h5py.File(out) as file:
        return {name: node[()] for name, node in file.items()}, " | ".join(report.notes)


def position(p, said):
    """A position of a chat completion whose listed tokens are the letters, with and without space."""
    top = [
        {"token": LETTERS[c], "logprob": float(np.log(p[c] * 0.75)), "bytes": None}
        for c in range(4)
    ]
    top += [
        {
            "token": f" {LETTERS[c]}",
            "logprob": float(np.log(p[c] * 0.25)),
            "bytes": None,
        }
        for c in range(4)
    ]
    top = sorted(top, key=lambda entry: -entry["logprob"])
    return {
        "token": said,
        "logprob": float(np.log(p[LETTERS.index(said)] * 0.75)),
        "bytes": None,
        "top_logprobs": top,
    }


def chat(p, said, before=()):
    """A chat completion that says ``said`` after other words."""
    words = [
        {"token": word, "logprob": -0.1, "bytes": None, "top_logprobs": []}
        for word in before
    ]
    content = [*words, position(p, said)]
    message = {
        "role": "assistant",
        "content": "".join(entry["token"] for entry in content),
        "refusal": None,
    }
    choice = {
        "index": 0,
        "message": message,
        "logprobs": {"content": content, "refusal": None},
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{**choice, "finish_reason": "stop"}],
    }


def batch(bodies, failed=0):
    """Lines of a batch's output in another order than the questions'."""
    rows = [
        {
            "id": f"b{i}",
            "custom_id": f"q{i}",
            "response": {"status_code": 200, "body": body},
            "error": None,
        }
        for i, body in enumerate(bodies)
    ]
    broken = {
        "custom_id": "x",
        "response": {"status_code": 400, "body": {"error": {"message": "x"}}},
        "error": None,
    }
    return [rows[i] for i in RNG.permutation(len(rows))] + [broken] * failed


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def answers(path):
    path.write_text(
        "id,answer\n" + "".join(f"q{i},{LETTERS[y]}\n" for i, y in enumerate(Y))
    )
    return str(path)


def test_letters_of_a_batch_become_logits_joined_with_their_gold(tmp_path):
    path = lines(
        tmp_path / "batch.jsonl",
        batch([chat(p, LETTERS[int(p.argmax())]) for p in P], failed=2),
    )
    gold = answers(tmp_path / "gold.csv")
    arrays, notes = bring(
        path, tmp_path / "o.h5", class_names=tuple(LETTERS), gold=gold
    )
    order = [int(str(i.decode())[1:]) for i in arrays["ids"]]
    assert (arrays["labels"] == Y[order]).all()
    # "A" and " A" are one class: 0.75 and 0.25 of its probability
    np.testing.assert_allclose(arrays["logits"], np.log(P[order]), atol=1e-12)
    assert "2 of 26 lines have no answer: left out" in notes
    assert "lack a class" not in notes


def test_a_letter_that_is_not_listed_gets_its_upper_bound(tmp_path):
    top = [("A", 0.6), ("B", 0.2), ("The", 0.1)]
    entry = {"token": "A", "logprob": float(np.log(0.6))}
    entry["top_logprobs"] = [{"token": t, "logprob": float(np.log(p))} for t, p in top]
    entry["top_logprobs"].append({"token": "C", "logprob": -9999.0})  # no number to use
    body = {
        "choices": [{"message": {"content": "A"}, "logprobs": {"content": [entry]}}]
    }
    path = lines(tmp_path / "r.jsonl", [{"id": "q0", "response": body, "label": "B"}])
    arrays, notes = bring(path, tmp_path / "o.h5", class_names=("A", "B", "C"))
    np.testing.assert_allclose(arrays["logits"], np.log([[0.6, 0.2, 0.1]]), atol=1e-12)
    assert arrays["labels"].tolist() == [1] and "1 of 1 rows lack a class" in notes
    entry["top_logprobs"] = [
        {"token": t, "logprob": float(np.log(p))} for t, p in [("A", 0.6), ("B", 0.399)]
    ]
    lines(path, [{"id": "q0", "response": body, "label": "B"}])
    arrays, _ = bring(path, tmp_path / "o.h5", class_names=("A", "B", "C"))
    # all that A and B leave
    assert arrays["logits"][0, 2] == pytest.approx(np.log(0.001))


def test_legacy_completions_are_columns(tmp_path):
    bodies = [
        {"text": " A", "logprobs": {
            "tokens": ["Q", " A"], "token_logprobs": [None, float(np.log(p[0]))],
            "top_logprobs": [None, {f" {LETTERS[c]}": float(np.log(p[c])) for c in range(4)}],
        }} for p in P
    ]  # fmt: skip
    path = lines(
        tmp_path / "c.jsonl",
        [{"id": f"q{i}", "response": {"choices": [b]}} for i, b in enumerate(bodies)],
    )
    arrays, _ = bring(
        path,
        tmp_path / "o.h5",
        class_names=tuple(LETTERS),
        gold=answers(tmp_path / "g.csv"),
    )
    np.testing.assert_allclose(arrays["logits"], np.log(P), atol=1e-12)
    assert (arrays["labels"] == Y).all()


def test_the_answer_is_read_where_it_is_said_and_refused_where_that_is_not_clear(
    tmp_path,
):
    rows = batch([chat(P[0], "B", before=("The", " answer", " is", " "))])
    path = lines(tmp_path / "b.jsonl", rows)
    arrays, _ = bring(
        path, tmp_path / "o.h5", class_names=tuple(LETTERS), no_labels=True
    )
    np.testing.assert_allclose(arrays["logits"], np.log(P[:1]), atol=1e-12)
    lines(path, batch([chat(P[0], "B", before=("Well", " A", " cat", ":"))]))
    with pytest.raises(
        DataError, match=r"names several classes \(' A', 'B'\) after other words"
    ):
        bring(path, tmp_path / "o.h5", class_names=tuple(LETTERS), no_labels=True)
    with pytest.raises(
        DataError, match="list none of the classes yes, no; they begin with 'Well'"
    ):
        bring(path, tmp_path / "o.h5", class_names=("yes", "no"), no_labels=True)


@pytest.mark.parametrize("how", ["sum", "mean", "min", "first"])
def test_free_answers_become_confidences(tmp_path, how):
    lps = [[-0.1, -0.4, -0.2], [-1.0], [1e-9]]  # the last by rounding
    contents = [
        [
            {"token": f"t{i}", "logprob": lp, "top_logprobs": []}
            for i, lp in enumerate(row)
        ]
        for row in lps
    ]
    rows = [
        {"custom_id": f"q{i}", "response": {"status_code": 200, "body": {"choices": [
            {"message": {"content": f" word{i} "}, "logprobs": {"content": content}}]}}}
        for i, content in enumerate(contents)
    ]  # fmt: skip
    path = lines(tmp_path / "b.jsonl", rows)
    (tmp_path / "g.csv").write_text("id,truth\nq1,other\nq0,word0\nq2,word2\n")
    ask = {
        "confidence": "confidence",
        "correct": "answer=gold",
        "gold": str(tmp_path / "g.csv"),
        "reduce": how,
    }
    arrays, notes = bring(path, tmp_path / "o.h5", **ask)
    expected = {"sum": -0.7, "mean": -0.7 / 3, "min": -0.4, "first": -0.1}[how]
    np.testing.assert_allclose(arrays["confidence"], np.exp([expected, -1.0, 0.0]))
    assert arrays["confidence"].max() == 1.0
    assert arrays["correct"].tolist() == [True, False, True] and f"({how})" in notes


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (
            [{"message": {"content": "A"}, "logprobs": None}],
            "ask the server for them with logprobs=true",
        ),
        (
            [{"message": {"content": "A"}}] * 2,
            "has 2 choices, expected one answer per row",
        ),
        (
            [{"text": "", "logprobs": None, "prompt_logprobs": [None]}],
            "prompt_logprobs, which do not say",
        ),
        (
            [
                {
                    "text": "A",
                    "logprobs": {"tokens": ["token_id:7"], "token_logprobs": [-1]},
                }
            ],
            "return_tokens_as_token_ids",
        ),
        (
            [{"text": "A", "logprobs": {"tokens": ["A"], "token_logprobs": [0.5]}}],
            "log-probability above 0",
        ),
    ],
)
def test_responses_that_say_too_little_are_refused_with_what_to_do(
    tmp_path, choices, words
):
    path = lines(
        tmp_path / "r.jsonl",
        [{"custom_id": "a", "response": {"body": {"choices": choices}}}],
    )
    with pytest.raises(DataError, match=words):
        bring(path, tmp_path / "o.h5", class_names=("A", "B"), no_labels=True)
    if "logprobs=true" in words:
        with pytest.raises(DataError, match="logprobs=true, top_logprobs=20;"):
            bring(path, tmp_path / "o.h5")


# ---- inspect_ai


def one_sample(i, said, mark=None, epoch=1, choices=True, logprobs=True):
    right = LETTERS[Y[i]] == said
    made = {
        "id": i, "epoch": epoch, "input": "?", "target": LETTERS[Y[i]], "choices": list("wxyz") if choices else None,
        "scores": {"choice": {"value": mark or ("C" if right else "I"), "answer": said, "explanation": "x"}},
    }  # fmt: skip
    answer = chat(P[i], said, before=("ANSWER", ": "))["choices"][0]
    if not logprobs:
        del answer["logprobs"]
    return {**made, "output": {"model": "m", "choices": [answer]}}


def eval_file(path, samples):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "header.json", json.dumps({"version": 2, "status": "success", "eval": {}})
        )
        for one in samples:
            archive.writestr(
                f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one)
            )
    return path


@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_samples_of_inspect_are_read_with_their_choices(tmp_path, suffix):
    samples = [one_sample(i, LETTERS[int(P[i].argmax())]) for i in range(N)]
    path = tmp_path / f"log{suffix}"
    if suffix == ".eval":
        eval_file(path, samples)
    else:
        path.write_text(
            json.dumps(
                {"version": 2, "status": "success", "eval": {}, "samples": samples},
                indent=1,
            )
        )
    arrays, _ = bring(path, tmp_path / "o.h5")
    np.testing.assert_allclose(arrays["logits"], np.log(P), atol=1e-12)
    assert (arrays["labels"] == Y).all() and len(arrays["ids"]) == N


def test_epochs_marks_and_shuffles_of_inspect_are_seen(tmp_path):
    path = eval_file(
        tmp_path / "a.eval",
        [one_sample(i, "A", epoch=e) for e in (1, 2) for i in range(N)],
    )
    twice, _ = bring(path, tmp_path / "o.h5")
    assert (
        twice["unit"].tolist() == twice["ids"].tolist()
        and len(set(twice["unit"].tolist())) == N == len(twice["unit"]) / 2
    )
    assert len(bring(path, tmp_path / "o.h5", drop_duplicates=True)[0]["labels"]) == N
    wrong = next(i for i in range(N) if Y[i] != 0)
    eval_file(path, [one_sample(wrong, "A", mark="C")])
    with pytest.raises(
        DataError, match="is marked right, its answer is 'A' and its target"
    ):
        bring(path, tmp_path / "o.h5")
    shuffled = one_sample(wrong, "A")
    shuffled["scores"]["choice"]["answer"] = LETTERS[Y[wrong]]
    shuffled["scores"]["choice"]["value"] = "C"
    eval_file(path, [shuffled])
    with pytest.raises(DataError, match="no token is its answer .*shuffled"):
        bring(path, tmp_path / "o.h5")


def test_samples_of_inspect_with_other_numbers_of_choices_wait_for_a_word(tmp_path):
    three = {**one_sample(1, "A"), "choices": list("xyz")}
    path = eval_file(tmp_path / "a.eval", [one_sample(0, "A"), three])
    with pytest.raises(
        UsageError,
        match="with 3 or 4 choices; take those with one number",
    ) as refused:
        bring(path, tmp_path / "o.h5")
    ((*_, option, number, _, _),) = refused.value.commands
    assert (option, number) == ("--choices", "3")
    arrays, notes = bring(path, tmp_path / "o.h5", choices=4)
    assert arrays["logits"].shape == (1, 4)
    assert "1 of 2 rows, those with 4 choices, were taken (--choices)" in notes
    with pytest.raises(UsageError, match=r"--choices 5: .* has rows with 3, 4 choices"):
        bring(path, tmp_path / "o.h5", choices=5)


def test_choices_of_inspect_beyond_z_are_numbers():
    """``answer_character`` of inspect_ai: A to Z, then 1, 2, 3."""
    assert names_of_choices(3) == ("A", "B", "C")
    assert names_of_choices(28)[24:] == ("Y", "Z", "1", "2")


def test_tokens_of_inspect_that_are_numbers_are_said_to_be(tmp_path):
    """They were said to be shuffled choices."""
    sample = one_sample(0, "A")
    answer = {"token": "token_id:7", "logprob": -0.1, "top_logprobs": []}
    sample["output"]["choices"][0]["logprobs"] = {"content": [answer]}
    path = eval_file(tmp_path / "a.eval", [sample])
    with pytest.raises(DataError, match="without return_tokens_as_token_ids"):
        bring(path, tmp_path / "o.h5")


def test_inspect_without_choices_is_confidences_and_without_log_probabilities_nothing(
    tmp_path,
):
    path = eval_file(
        tmp_path / "a.eval", [one_sample(i, "A", choices=False) for i in range(N)]
    )
    arrays, _ = bring(path, tmp_path / "o.h5")
    assert (arrays["correct"] == (Y == 0)).all()
    np.testing.assert_allclose(arrays["confidence"], np.exp(-0.2) * P[:, 0] * 0.75)
    eval_file(path, [one_sample(i, "A", logprobs=False) for i in range(N)])
    with pytest.raises(DataError, match="inspect eval … --logprobs --top-logprobs 20"):
        bring(path, tmp_path / "o.h5")


def test_an_answer_in_parts_is_the_text_of_its_parts(tmp_path):
    """It was the list in print, which no right answer equals."""
    samples = []
    for i in range(N):
        sample = one_sample(i, "A", choices=False)
        sample["output"]["choices"][0]["message"]["content"] = [
            {"type": "reasoning", "reasoning": "Hm."},
            {"type": "text", "text": "word "},
            {"type": "text", "text": str(i % 3)},
        ]
        samples.append(sample)
    path = eval_file(tmp_path / "a.eval", samples)
    (tmp_path / "gold.csv").write_text(
        "id,answer\n" + "".join(f"{i},word 1\n" for i in range(N))
    )
    ask = {"confidence": "confidence", "correct": "answer=gold"}
    arrays, _ = bring(path, tmp_path / "o.h5", gold=str(tmp_path / "gold.csv"), **ask)
    assert arrays["correct"].tolist() == [i % 3 == 1 for i in range(N)]


def zstd_file(path, samples, method=93):
    """The same packed with zstd, as inspect_ai does: members stored, under the number of the method.

    Offsets of method, CRC and lengths: PKWARE's APPNOTE 6.3.10, 4.3.7 (local header) and 4.3.12 (central directory).
    """
    zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
    plain = zipfile.ZipFile(eval_file(path, samples))
    members = {one.filename: plain.read(one) for one in plain.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, zstandard.ZstdCompressor().compress(data))
    whole, central = bytearray(path.read_bytes()), archive.start_dir
    for one in archive.infolist():
        data = members[one.filename]
        sizes = struct.pack("<III", zlib.crc32(data), one.compress_size, len(data))
        for offset, kind, crc in ((one.header_offset, 8, 14), (central, 10, 16)):
            (
                whole[offset + kind : offset + kind + 2],
                whole[offset + crc : offset + crc + 12],
            ) = (
                struct.pack("<H", method),
                sizes,
            )
        central += 46 + len(one.filename)
    path.write_bytes(whole)
    return path


def test_a_log_packed_with_zstd_is_read_as_the_same_log(tmp_path):
    samples = [one_sample(i, LETTERS[int(P[i].argmax())]) for i in range(N)]
    arrays, _ = bring(zstd_file(tmp_path / "a.eval", samples), tmp_path / "o.h5")
    other, _ = bring(eval_file(tmp_path / "b.eval", samples), tmp_path / "p.h5")
    assert arrays.keys() == other.keys() and all(
        np.array_equal(arrays[name], other[name]) for name in other
    )
    path = zstd_file(tmp_path / "a.eval", samples)
    whole = bytearray(path.read_bytes())
    whole[path.read_bytes().index(b"samples/0_epoch") + 60] ^= 1
    path.write_bytes(whole)
    with pytest.raises(DataError, match="is damaged|cannot read it as inspect"):
        bring(path, tmp_path / "o.h5")


def test_a_log_packed_as_nobody_here_can_names_a_command_that_works_as_printed(
    tmp_path, monkeypatch
):
    path = tmp_path / "a log.eval"
    samples = [one_sample(0, "A")]
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.MonkeyPatch.context() as there:
        there.delitem(sys.modules, "zstandard")
        zstd_file(path, samples)
    with pytest.raises(UsageError) as refused:
        bring(path, tmp_path / "o.h5")
    assert f"inspect log convert '{path}' --to json --output-dir json" in str(
        refused.value
    )
    assert "pip install zstandard" in str(refused.value)
    with pytest.MonkeyPatch.context() as there:
        there.delitem(sys.modules, "zstandard")
        zstd_file(path, samples, method=98)
    with pytest.raises(DataError, match="packed by method 98; inspect log convert"):
        bring(path, tmp_path / "o.h5")


def test_the_real_logs_of_inspect_and_helm_hold_nothing_to_calibrate(tmp_path, sample):
    for name in (
        "data_pubmedqa_gpt4o_mini.json",
        "mmlu-summary-choices.eval",
        "log_streaming.eval",
    ):
        with pytest.raises(DataError, match="no log-probabilities"):
            bring(sample(f"inspect/{name}"), tmp_path / "o.h5")
    for run in sorted(sample("helm").iterdir()):
        for path in (run, run / "per_instance_stats.json"):
            with pytest.raises(DataError, match="every log-probability is 0"):
                bring(path, tmp_path / "o.h5")


# ---- HELM


def helm_run(folder, states, marks):
    folder.mkdir(exist_ok=True)
    run = {"adapter_spec": {"method": "multiple_choice"}, "request_states": states}
    (folder / "scenario_state.json").write_text(json.dumps(run, indent=2))
    stats = [
        {"instance_id": id, "train_trial_index": 0, "stats": [
            {"name": {"name": "exact_match", "split": "test"}, "count": 1, "mean": mark},
            {"name": {"name": "max_prob", "split": "test"}, "count": 1, "mean": 0.25 + 0.5 * mark}]}
        for id, mark in marks.items()
    ]  # fmt: skip
    (folder / "per_instance_stats.json").write_text(json.dumps(stats, indent=2))
    (folder / "stats.json").write_text("[]")
    return folder


def instance(i):
    references = [
        {"output": {"text": f"word {c}"}, "tags": ["correct"] if c == Y[i] else []}
        for c in range(4)
    ]
    return {
        "id": f"id{i}",
        "split": "test",
        "input": {"text": "?"},
        "references": references,
    }


@pytest.mark.parametrize("calibrated", [False, True])
def test_references_that_helm_asked_for_one_by_one_become_logits(tmp_path, calibrated):
    states = []
    for i in range(N):
        for mode, shift in (("original", 0.0), ("calibration", 1.5))[: 1 + calibrated]:
            for c in range(4):
                tokens = [
                    ("Question", -9.0),
                    (" word", np.log(P[i, c]) - 0.5 - shift * c),
                    (f" {c}", -0.5),
                ]
                texts = [{"text": text, "logprob": float(lp)} for text, lp in tokens]
                completion = {
                    "text": "",
                    "logprob": sum(t["logprob"] for t in texts),
                    "tokens": texts,
                }
                states.append({
                    "instance": instance(i), "train_trial_index": 0, "reference_index": c, "request_mode": mode,
                    "result": {"completions": [completion]},
                })  # fmt: skip
    # per token: (log p - 1) / 2; less the same with 1.5 c taken off
    scores = (
        (np.log(P) - 1) / 2 if not calibrated else np.tile(0.75 * np.arange(4), (N, 1))
    )
    marks = {f"id{i}": float(scores[i].argmax() == Y[i]) for i in range(N)}
    run = helm_run(tmp_path / "run", states, marks)
    arrays, _ = bring(run, tmp_path / "o.h5")
    order = [int(str(i.decode())[2:]) for i in arrays["ids"]]
    np.testing.assert_allclose(arrays["logits"], scores[order], atol=1e-12)
    assert (arrays["labels"] == Y[order]).all()
    marks["id3"] = 1 - marks["id3"]
    helm_run(run, states, marks)
    with pytest.raises(
        DataError, match="instance id3: per_instance_stats.json has exact_match"
    ):
        bring(run, tmp_path / "o.h5")


def test_letters_that_helm_let_generate_become_confidences(tmp_path):
    states = [
        {"instance": instance(i), "train_trial_index": 0, "output_mapping": {LETTERS[c]: f"word {c}" for c in range(4)},
         "result": {"completions": [{"text": " B", "logprob": float(np.log(P[i, 1])), "tokens": []}]}}
        for i in range(N)
    ]  # fmt: skip
    run = helm_run(
        tmp_path / "run", states, {f"id{i}": float(Y[i] == 1) for i in range(N)}
    )
    arrays, _ = bring(run, tmp_path / "o.h5")
    np.testing.assert_allclose(arrays["confidence"], P[:, 1])
    assert (arrays["correct"] == (Y == 1)).all()
    arrays, _ = bring(run / "per_instance_stats.json", tmp_path / "o.h5")
    np.testing.assert_allclose(arrays["confidence"], 0.25 + 0.5 * (Y == 1))
    assert "unit" not in arrays
    with pytest.raises(UsageError, match="--choices is for .*; read was helm-letters"):
        bring(run, tmp_path / "o.h5", choices=4)


@pytest.mark.parametrize("more", [{}, {"reference_index": 0}])
def test_requests_of_helm_without_a_result_are_left_out_and_said(tmp_path, more):
    """They were left out without a word."""
    tokens = [{"text": " word 0", "logprob": -0.5}]
    completion = {"text": " A", "logprob": -0.5, "tokens": tokens}
    references = [{"output": {"text": "word 0"}, "tags": ["correct"]}]
    states = []
    for i in range(4):
        state = {
            "instance": {"id": f"id{i}", "references": references},
            "output_mapping": {"A": "word 0"},
            "result": {"completions": [completion]},
        }
        states.append(state | more)
    if more:  # a second reference for each
        references.append({"output": {"text": "word 1"}, "tags": []})
        tokens_of_second = [{"text": " word 1", "logprob": -0.7}]
        second = {"completions": [{**completion, "tokens": tokens_of_second}]}
        states += [
            {**state, "reference_index": 1, "result": second} for state in states
        ]
    for state in states:
        if state["instance"]["id"] == "id1":
            del state["result"]
    path = tmp_path / "scenario_state.json"
    path.write_text(json.dumps({"request_states": states}))
    arrays, notes = bring(path, tmp_path / "o.h5")
    assert [one.decode() for one in arrays["ids"]] == ["id0", "id2", "id3"]
    n = 2 if more else 1
    assert f"{n} of {4 * n} requests have no result: left out" in notes
    for state in states:
        state.pop("result", None)
    path.write_text(json.dumps({"request_states": states}))
    with pytest.raises(DataError, match="has no request with a result"):
        bring(path, tmp_path / "o.h5")


def test_trials_and_perturbations_of_helm_are_a_unit(tmp_path):
    """Letters too: a second trial and a misspelt form of a question say little that is new."""
    states = [
        {"instance": {**instance(i), **more}, "train_trial_index": trial,
         "output_mapping": {LETTERS[c]: f"word {c}" for c in range(4)},
         "result": {"completions": [{"text": " B", "logprob": -0.1 - 0.01 * i - 0.1 * trial, "tokens": []}]}}
        for i in range(N) for trial, more in ((0, {}), (1, {}), (0, {"perturbation": {"name": "typos"}}))
    ]  # fmt: skip
    arrays, _ = bring(helm_run(tmp_path / "run", states, {}), tmp_path / "o.h5")
    assert len(set(arrays["ids"].tolist())) == 3 * N
    assert arrays["unit"].tolist() == [
        f"id{i}".encode() for i in range(N) for _ in range(3)
    ]


# ---- lm-evaluation-harness 0.3


def written_out(i, truth, acc):
    made = {"doc_id": i, **{f"prompt_{c}": f"Q: ? A: word {c}" for c in range(4)}}
    made |= {f"logit_{c}": float(np.log(P[i, c])) for c in range(4)}
    return {**made, "truth": truth, "acc": str(acc), "acc_norm": "1.0"}


@pytest.mark.parametrize("truth", [lambda y: f" word {y}", int])
def test_write_out_of_the_old_harness(tmp_path, truth):
    hit = P.argmax(axis=1) == Y
    rows = [written_out(i, truth(Y[i]), float(hit[i])) for i in range(N)]
    path = tmp_path / "arc_easy_write_out_info.json"
    path.write_text(json.dumps(rows, indent=4))
    arrays, _ = bring(path, tmp_path / "o.h5")
    np.testing.assert_allclose(arrays["logits"], np.log(P))
    assert (arrays["labels"] == Y).all() and set(arrays["group"]) == {b"arc_easy"}
    rows[4]["acc"] = str(1.0 - hit[4])
    path.write_text(json.dumps(rows))
    with pytest.raises(DataError, match="row 4: acc is"):
        bring(path, tmp_path / "o.h5")


def test_write_out_whose_truth_is_a_text_and_a_place_is_settled_by_acc(tmp_path):
    path = tmp_path / "digits_write_out_info.json"
    row = written_out(0, "1", 1.0) | {
        f"prompt_{c}": f"Q: ? A: {text}" for c, text in enumerate("1072")
    }
    # the text 1 is choice 0, of the largest score
    row |= {f"logit_{c}": -float(c) for c in range(4)}
    path.write_text(json.dumps([row]))
    assert bring(path, tmp_path / "o.h5")[0]["labels"].tolist() == [0]
    del row["acc"]
    path.write_text(json.dumps([row]))
    with pytest.raises(DataError, match='row 0: truth "1" may be choice 0 or 1'):
        bring(path, tmp_path / "o.h5")


# ---- sequences


@pytest.mark.parametrize("how", ["mean", "sum", "first", "min"])
def test_positions_of_a_sequence_become_one(tmp_path, how):
    z = RNG.normal(size=(N, 5, 3))
    y = RNG.integers(0, 3, N)
    np.savez(tmp_path / "s.npz", logits=z, labels=y)
    arrays, notes = bring(tmp_path / "s.npz", tmp_path / "o.h5", reduce=how)
    expected = z[:, 0] if how == "first" else getattr(z, how)(axis=1)
    np.testing.assert_allclose(arrays["logits"], expected)
    assert f"{how} of 5 positions (logits)" in notes


def test_positions_with_labels_of_their_own_become_rows_and_probabilities_do_not_add_up(
    tmp_path,
):
    z = RNG.normal(size=(N, 5, 3))
    p = np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)
    y = RNG.integers(0, 3, (N, 5))
    np.savez(tmp_path / "s.npz", probs=p, labels=y)
    assert (
        len(bring(tmp_path / "s.npz", tmp_path / "o.h5", reduce="none")[0]["labels"])
        == 5 * N
    )
    np.savez(tmp_path / "s.npz", probs=p, labels=y[:, 0])
    np.testing.assert_allclose(
        bring(tmp_path / "s.npz", tmp_path / "o.h5", reduce="mean")[0]["probs"],
        p.mean(axis=1),
    )
    for how, words in (
        ("sum", "holds probs, whose sum is none"),
        ("none", "expected a label per position"),
    ):
        with pytest.raises(UsageError, match=words):
            bring(tmp_path / "s.npz", tmp_path / "o.h5", reduce=how)


@pytest.mark.parametrize("logs", [True, False])
def test_lists_of_token_probabilities_of_different_lengths(tmp_path, logs):
    tokens = [[0.5, 0.8], [0.9], [0.4, 0.6, 1.0]]
    rows = [
        {"p": [float(np.log(v)) if logs else v for v in row], "correct": i != 1} for i, row in enumerate(tokens)
    ]  # fmt: skip
    path = lines(tmp_path / "r.jsonl", rows)
    arrays, _ = bring(
        path, tmp_path / "o.h5", confidence="p", correct="correct", reduce="sum"
    )
    np.testing.assert_allclose(arrays["confidence"], [0.4, 0.9, 0.24])
    rows = [{**row, "right": [True] * len(row["p"])} for row in rows]
    arrays, _ = bring(
        lines(path, rows),
        tmp_path / "o.h5",
        confidence="p",
        correct="right",
        reduce="none",
    )
    np.testing.assert_allclose(arrays["confidence"], [p for row in tokens for p in row])


# ---- the k best


def ranked(k):
    order = np.argsort(-P, axis=1)[:, :k]
    whole = P / P.sum(axis=1, keepdims=True)
    return order, np.take_along_axis(whole, order, axis=1), whole


@pytest.mark.parametrize("k", [2, 4])
def test_a_table_of_the_best_spreads_the_rest_evenly(tmp_path, k):
    order, p, whole = ranked(k)
    head = ",".join(
        [*(f"index_{i}" for i in range(k)), *(f"prob_{i}" for i in range(k)), "label"]
    )
    rows = [
        ",".join(map(str, [*o, *q, y]))
        for o, q, y in zip(order.tolist(), p.tolist(), Y, strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join([head, *rows]) + "\n")
    if k > 2:  # two of them are not told from two classes
        with pytest.raises(DataError, match="--classes C takes a table"):
            bring(tmp_path / "t.csv", tmp_path / "o.h5")
    arrays, notes = bring(tmp_path / "t.csv", tmp_path / "o.h5", classes=4)
    assert (arrays["labels"] == Y).all()
    np.testing.assert_allclose(np.take_along_axis(arrays["probs"], order, axis=1), p)
    np.testing.assert_allclose(arrays["probs"].sum(axis=1), 1)
    if k == 2:
        others = np.argsort(-whole, axis=1)[:, 2:]
        rest = np.take_along_axis(arrays["probs"], others, axis=1)
        np.testing.assert_allclose(rest[:, 0], rest[:, 1])
        assert "spread evenly over the others" in notes
    arrays, _ = bring(
        tmp_path / "t.csv",
        tmp_path / "o.h5",
        confidence="prob_0",
        correct="index_0=label",
    )
    np.testing.assert_allclose(arrays["confidence"], p[:, 0])
    assert (arrays["correct"] == (order[:, 0] == Y)).all()


def test_ranks_that_are_no_top_k_of_so_many_classes_are_refused(tmp_path):
    def table(index, p):
        rows = [{"index": i, "prob": q} for i, q in zip(index * 2, p * 2, strict=True)]
        return lines(tmp_path / "t.jsonl", rows)

    for index, p, words in (
        ([[0, 1]], [[0.5, 0.1]], "more than so many below its least"),
        ([[0, 0]], [[0.5, 0.3]], "lists a class twice"),
        ([[0, 5]], [[0.5, 0.3]], "expected classes 0 to 3"),
        ([[0, 1]], [[0.9, 0.3]], "sum to 1.2"),
    ):
        with pytest.raises(DataError, match=words):
            bring(table(index, p), tmp_path / "o.h5", classes=4, no_labels=True)


def test_a_pipeline_of_transformers_names_its_classes(tmp_path):
    names = ["cat", "dog", "eel", "fox"]
    order, p, whole = ranked(4)
    rows = [
        {
            "scores": [
                {"label": names[c], "score": q} for c, q in zip(o, s, strict=True)
            ],
            "label": names[y],
        }
        for o, s, y in zip(order.tolist(), p.tolist(), Y, strict=True)
    ]
    arrays, _ = bring(lines(tmp_path / "r.jsonl", rows), tmp_path / "o.h5")
    np.testing.assert_allclose(arrays["probs"], whole)
    assert (arrays["labels"] == Y).all()
    rows = [{**row, "label": int(y)} for row, y in zip(rows, Y, strict=True)]
    with pytest.raises(DataError, match="the labels are numbers.*--class-names"):
        bring(lines(tmp_path / "r.jsonl", rows), tmp_path / "o.h5")
    assert (
        bring(tmp_path / "r.jsonl", tmp_path / "o.h5", class_names=tuple(names))[0][
            "labels"
        ]
        == Y
    ).all()


@pytest.mark.parametrize("name", ["custom_id", "id"])
@pytest.mark.parametrize("ids", [["000", "001", "01"], [0, 1, 2], ["0", "1", "2"]])
def test_an_id_of_a_response_is_its_text(tmp_path, name, ids):
    """000 was not found beside a gold of the same ids, and 0 was no id."""
    rows = [
        {name: one, "response": {"body": chat([0.7, 0.1, 0.1, 0.1], "A")}}
        for one in ids
    ]
    path = lines(tmp_path / "o.jsonl", rows)
    for key, gold in (
        (
            "key.csv",
            "id,answer\n"
            + "".join(f"{one},{'AB'[i % 2]}\n" for i, one in enumerate(ids)),
        ),
        ("key.json", json.dumps({str(one): "AB"[i % 2] for i, one in enumerate(ids)})),
    ):
        (tmp_path / key).write_text(gold)
        ask = {"class_names": ("A", "B"), "gold": str(tmp_path / key)}
        arrays, _ = bring(path, tmp_path / "o.h5", **ask)
        assert arrays["labels"].tolist() == [0, 1, 0]
        assert [one.decode() for one in arrays["ids"]] == list(map(str, ids))
