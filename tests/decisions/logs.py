"""Logs of decision models in every shape that people write, made of known rows.

Each maker takes the same rows (probabilities of three options, label) and writes them in
its own way, so that every shape must give the same bundle.
"""

import json

import numpy as np

OPTIONS = ("billing", "shipping", "technical")
N = 60


def rows(n=N, seed=3, decimals=2):
    """Probabilities (n, 3) with so many decimals, and labels (n,)."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(n, 3))
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(3, p=p) for p in shares])
    units = np.floor(shares * 10**decimals).astype(int)
    units[np.arange(n), units.argmax(axis=1)] += 10**decimals - units.sum(axis=1)
    return units / 10**decimals, labels


def lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def choice(p, order=(0, 1, 2)):
    """A choice of System One, its options in any order."""
    best = float(max(p))
    return {
        "type": "choice",
        "choice": OPTIONS[int(np.argmax(p))],
        "probabilities": {OPTIONS[c]: float(p[c]) for c in order},
        "confidence": round((best - 1 / 3) / (2 / 3), 2),
    }


def openai_choice(p, name="team"):
    return {
        "type": "choice",
        "name": name,
        "choice": OPTIONS[int(np.argmax(p))],
        "confidence": round((float(max(p)) - 1 / 3) / (2 / 3), 2),
        "probabilities": [
            {"value": option, "probability": float(share)}
            for option, share in zip(OPTIONS, p, strict=True)
        ],
    }


def system_one(i, p, y):
    return {
        "v": 1,
        "id": f"r{i}",
        "ts": "2026-10-01T00:00:00Z",
        "model": "jev-1",
        "request": {"state": f"state {i}", "questions": {"team": {"type": "choice"}}},
        "answers": {"team": choice(p)},
        "usage": {"input_tokens": 100 + i, "output_tokens": 3},
        "label": {"team": OPTIONS[y]},
        "meta": {"source": "ab"[i % 2]},
    }


def shuffled_options(i, p, y):
    order = np.random.default_rng(i).permutation(3)
    return {"id": i, "answers": {"team": choice(p, order)}, "gold": OPTIONS[y]}


def by_index(i, p, y):
    return {"id": i, "answers": {"team": choice(p)}, "labels": {"team": int(y)}}


def line_per_question(i, p, y):
    """jev-eval's cache: the id is the question, the row the record."""
    return {
        "model": "jev-1",
        "row": i,
        "state_hash": f"{i:04x}",
        "id": "team",
        "type": "choice",
        "question": {"type": "choice", "criteria": dict.fromkeys(OPTIONS, "text")},
        "answer": choice(p),
        "gold": OPTIONS[y],
        "meta": {"site": "oslo" if i % 3 else "porto"},
        "state_chars": 100 + i,
        "input_tokens": 17,
    }


def named_question(i, p, y):
    return {"question": "team", "answer": choice(p), "expected": OPTIONS[y], "id": i}


def openai(i, p, y):
    return {
        "id": i,
        "answers": [openai_choice(p)],
        "model": "decisions-1",
        "truth": {"team": OPTIONS[y]},
    }


def raw_probabilities(i, p, y):
    return {
        "id": i,
        "question": "team",
        "predicted": OPTIONS[int(np.argmax(p))],
        "raw": {"probabilities": dict(zip(OPTIONS, map(float, p), strict=True))},
        "latency_ms": 0.4,
        "truth": OPTIONS[y],
    }


def wire_response(i, p, y):
    return {
        "id": i,
        "wire_response": {"answers": {"team": choice(p)}},
        "gold": OPTIONS[y],
        "pred": OPTIONS[int(np.argmax(p))],
    }


def direct(i, p, y):
    """Options directly below the question, beside numbers that also sum to 1."""
    return {
        "id": i,
        "answers": {"team": dict(zip(OPTIONS, map(float, p), strict=True))},
        "timing": {"latency": 0.25, "cost": 0.75},
        "label": {"team": OPTIONS[y]},
    }


def two_lists(i, p, y):
    return {
        "id": i,
        "question": "team",
        "options": list(OPTIONS),
        "probs": [float(share) for share in p],
        "y": OPTIONS[y],
    }


def unnamed_label(i, p, y):
    """The label is proven by its values; the prediction never is it."""
    return {
        "id": i,
        "answers": {"team": choice(p)},
        "decision": OPTIONS[int(np.argmax(p))],
        "reviewed_by_anna": OPTIONS[y],
    }


SHAPES = [
    system_one,
    shuffled_options,
    by_index,
    line_per_question,
    named_question,
    openai,
    raw_probabilities,
    wire_response,
    direct,
    two_lists,
    unnamed_label,
]
