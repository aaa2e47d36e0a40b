"""Valid logs of evaluation harnesses, and changes of their JSON, for the test of mutations."""

import copy
import json
import zipfile

import numpy as np

RNG = np.random.default_rng(12)
N = 12
LETTERS = "ABCD"
P = RNG.dirichlet(np.ones(4), N)
Y = np.array([RNG.choice(4, p=p) for p in P])


def lm_eval():
    """Samples of lm-evaluation-harness 0.4."""
    records = []
    for i in range(N):
        log_p = np.log(P[i])
        records.append(
            {
                "doc_id": i,
                "doc": {"question": f"q{i}", "answer": int(Y[i])},
                "target": str(Y[i]),
                "arguments": {
                    f"gen_args_{c}": {"arg_0": "Q:", "arg_1": f" word {c}"}
                    for c in range(4)
                },
                "resps": [[[str(value), "False"]] for value in log_p],
                "filtered_resps": [[str(value), "False"] for value in log_p],
                "filter": "none",
                "acc": float(log_p.argmax() == Y[i]),
            }
        )
    return records


def write_out():
    """Write-out of lm-evaluation-harness 0.3."""
    records = []
    for i in range(N):
        log_p = np.log(P[i])
        record = {
            "doc_id": i,
            "truth": str(Y[i]),
            "acc": str(float(log_p.argmax() == Y[i])),
        }
        record |= {f"prompt_{c}": f"Q: ? A: word {c}" for c in range(4)}
        record |= {f"logit_{c}": float(log_p[c]) for c in range(4)}
        records.append(record)
    return records


def completion(i):
    """A chat completion whose only token is the likeliest letter."""
    listed = [
        {"token": LETTERS[c], "logprob": float(np.log(P[i, c])), "bytes": None}
        for c in np.argsort(-P[i])
    ]
    return {
        "id": f"chatcmpl-{i}",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": listed[0]["token"]},
                "logprobs": {"content": [{**listed[0], "top_logprobs": listed}]},
                "finish_reason": "stop",
            }
        ],
    }


def chat():
    """Chat completions with a label beside each."""
    return [
        {"id": f"q{i}", "response": completion(i), "label": LETTERS[Y[i]]}
        for i in range(N)
    ]


def batch():
    """Output of a batch, with labels."""
    return [
        {
            "id": f"b{i}",
            "custom_id": f"q{i}",
            "response": {"status_code": 200, "body": completion(i)},
            "error": None,
            "label": LETTERS[Y[i]],
        }
        for i in range(N)
    ]


def inspect_ai():
    """Samples of inspect_ai."""
    samples = []
    for i in range(N):
        said = LETTERS[int(P[i].argmax())]
        mark = "C" if LETTERS[Y[i]] == said else "I"
        samples.append(
            {
                "id": i,
                "epoch": 1,
                "input": "?",
                "target": LETTERS[Y[i]],
                "choices": list("wxyz"),
                "scores": {
                    "choice": {"value": mark, "answer": said, "explanation": "x"}
                },
                "output": {"model": "m", "choices": completion(i)["choices"]},
            }
        )
    return samples


def helm():
    """Requests of HELM, one for each reference of an instance."""
    states = []
    for i in range(N):
        references = [
            {"output": {"text": f"word {c}"}, "tags": ["correct"] if c == Y[i] else []}
            for c in range(4)
        ]
        for c in range(4):
            tokens = [
                {"text": "Question", "logprob": -9.0},
                {"text": f" word {c}", "logprob": float(np.log(P[i, c]))},
            ]
            states.append(
                {
                    "instance": {
                        "id": f"id{i}",
                        "split": "test",
                        "references": references,
                    },
                    "train_trial_index": 0,
                    "reference_index": c,
                    "request_mode": "original",
                    "result": {
                        "completions": [{"text": "", "logprob": -9.5, "tokens": tokens}]
                    },
                }
            )
    return copy.deepcopy(states)


def helm_letters():
    """Requests of HELM that let the model write a letter."""
    states = []
    for i in range(N):
        references = [
            {"output": {"text": f"word {c}"}, "tags": ["correct"] if c == Y[i] else []}
            for c in range(4)
        ]
        states.append(
            {
                "instance": {"id": f"id{i}", "split": "test", "references": references},
                "train_trial_index": 0,
                "output_mapping": {LETTERS[c]: f"word {c}" for c in range(4)},
                "result": {
                    "completions": [
                        {"text": " B", "logprob": float(np.log(P[i, 1])), "tokens": []}
                    ]
                },
            }
        )
    return copy.deepcopy(states)


def helm_stats():
    """Marks of every instance of HELM."""
    return [
        {
            "instance_id": f"id{i}",
            "train_trial_index": 0,
            "stats": [
                {
                    "name": {"name": "exact_match", "split": "test"},
                    "count": 1,
                    "mean": float(P[i].argmax() == Y[i]),
                },
                {
                    "name": {"name": "max_prob", "split": "test"},
                    "count": 1,
                    "mean": float(P[i].max()),
                },
            ],
        }
        for i in range(N)
    ]


def decisions():
    """Answers of a decision model."""
    records = []
    for i in range(N):
        p = np.round(P[i, :3] / P[i, :3].sum(), 3)
        names = ["billing", "tech", "sales"]
        records.append(
            {
                "id": f"r{i}",
                "answers": {
                    "team": {
                        "type": "choice",
                        "choice": names[int(p.argmax())],
                        "probabilities": dict(zip(names, p.tolist(), strict=True)),
                    },
                },
                "labels": {"team": names[int(Y[i]) % 3]},
            }
        )
    return records


def as_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


def as_inspect_json(path, records):
    log = {"version": 2, "status": "success", "eval": {}, "samples": records}
    path.write_text(json.dumps(log), "utf-8")


def as_inspect_archive(path, records):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "header.json", json.dumps({"version": 2, "status": "success", "eval": {}})
        )
        for place, record in enumerate(records):
            archive.writestr(f"samples/{place}_epoch_1.json", json.dumps(record))


def as_helm(path, records):
    run = {"adapter_spec": {"method": "multiple_choice"}, "request_states": records}
    path.write_text(json.dumps(run), "utf-8")


def as_list(path, records):
    path.write_text(json.dumps(records), "utf-8")


LOGS = {
    "lm-eval": (lm_eval, "samples_mmlu_2025-01-01T00-00-00.000.jsonl", as_lines),
    "write-out": (write_out, "t_write_out_info.json", as_list),
    "chat": (chat, "chat.jsonl", as_lines),
    "batch": (batch, "batch.jsonl", as_lines),
    "inspect": (inspect_ai, "log.json", as_inspect_json),
    "inspect-eval": (inspect_ai, "log.eval", as_inspect_archive),
    "helm": (helm, "scenario_state.json", as_helm),
    "helm-letters": (helm_letters, "scenario_state.json", as_helm),
    "helm-stats": (helm_stats, "per_instance_stats.json", as_list),
    "decisions": (decisions, "log.jsonl", as_lines),
}
"""Records, file name and writer of every kind of log."""

# ---- mutations

VALUES = [
    None, True, False, 0, -1, 1, 3, 4, 99, 1.5, float("nan"), float("inf"), -1e308, 2**70,
    "", " ", "A", "E", "-1", "99", "nan", "1e999", "\x1b[31mred\x1b[0m", "<b>x</b>", "=1+1", "é" * 3,
    "x" * 200_000, "\ud800", "\0", [], [[]], {}, {"a": 1}, [None], ["A", "B"],
]  # fmt: skip


def places(value, path=()):
    """Paths of all values inside a JSON value."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for place in range(len(value)):
            yield from places(value[place], (*path, place))


def parent_of(record, path):
    for step in path[:-1]:
        record = record[step]
    return record


def mutate(records, rng):
    """Change one to three records; returns the records, those left alone, and in words."""
    records = copy.deepcopy(records)
    kind = rng.choice(
        [
            "value",
            "value",
            "value",
            "drop",
            "swap",
            "twice",
            "reorder",
            "rename",
            "all",
            "junk",
        ]
    )
    if kind == "reorder":
        rng.shuffle(records)
        return records, set(range(len(records))), kind
    place = rng.randrange(len(records))
    if kind == "twice":
        records.insert(rng.randrange(len(records) + 1), copy.deepcopy(records[place]))
        return records, {place}, kind
    if kind == "junk":
        records.insert(place, rng.choice(VALUES))
        return records, set(), kind
    paths = [path for path in places(records[place]) if path]
    path = rng.choice(paths)
    touched = range(len(records)) if kind == "all" else [place]
    value = rng.choice(VALUES)
    other = rng.choice(
        [candidate for candidate in paths if candidate[: len(path)] != path] or paths
    )
    for where in touched:
        try:
            parent = parent_of(records[where], path)
            if kind in ("value", "all"):
                parent[path[-1]] = value
            elif kind == "drop":
                del parent[path[-1]]
            elif kind == "rename" and isinstance(parent, dict):
                parent[f"{path[-1]}_2"] = parent.pop(path[-1])
            elif kind == "swap":
                second = parent_of(records[where], other)
                parent[path[-1]], second[other[-1]] = (
                    second[other[-1]],
                    parent[path[-1]],
                )
        except (KeyError, IndexError, TypeError):
            continue
    return records, set(touched), f"{kind} {path} {str(value)[:30]!r} {other}"
