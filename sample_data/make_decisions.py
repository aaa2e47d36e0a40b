"""Make a small log of a decision model: simulated, no model has given these answers.

    python sample_data/make_decisions.py

writes ``decisions.jsonl`` beside this script: 300 tickets of a shop, each a record with
three typed answers and their labels. ``team`` is a choice of four, ``urgency`` a score
of five levels, ``refund`` yes or no. Choices and scores are surer than they are right;
yes/no answers stay too near to one half. Probabilities have two decimals, and eight
answers are missing. The seed is 0.
"""

import json
from pathlib import Path

import numpy as np

RECORDS = 300
TEAMS = ("billing", "shipping", "technical", "account")
LEVELS = ("none", "low", "medium", "high", "outage")
SOURCES = ("mail", "chat", "form")

SURENESS = 3.0
TOO_SURE_OF_TEAM = 1.5
TOO_SURE_OF_URGENCY = 1.7
SLOPE_OF_YES, INTERCEPT_OF_YES = 0.45, 0.3
"""What the model says, as a function of the true logits."""


def softmax(z: np.ndarray) -> np.ndarray:
    shares = np.exp(z - z.max())
    return shares / shares.sum()


def rounded(probabilities: np.ndarray) -> list[float]:
    """Two decimals that sum to 1: the largest takes what is left."""
    shares = np.round(probabilities, 2)
    largest = int(np.argmax(shares))
    shares[largest] += 1.0 - shares.sum()
    return [round(float(share), 2) for share in shares]


def team(rng: np.random.Generator) -> tuple[dict, str]:
    """A choice with its label."""
    logits = SURENESS * rng.normal(size=len(TEAMS))
    label = rng.choice(len(TEAMS), p=softmax(logits))
    shares = rounded(softmax(TOO_SURE_OF_TEAM * logits))
    best = max(shares)
    answer = {
        "type": "choice",
        "choice": TEAMS[shares.index(best)],
        "probabilities": dict(zip(TEAMS, shares, strict=True)),
        "confidence": round((best - 0.25) / 0.75, 2),
    }
    return answer, TEAMS[label]


def urgency(rng: np.random.Generator) -> tuple[dict, int]:
    """A score with its label: levels near a centre are likely."""
    centre = rng.uniform(-0.5, 4.5)
    logits = -0.5 * (np.arange(5) - centre) ** 2
    label = int(rng.choice(5, p=softmax(logits)))
    shares = rounded(softmax(TOO_SURE_OF_URGENCY * logits))
    mode = shares.index(max(shares))
    distance = sum(share * abs(level - mode) for level, share in enumerate(shares))
    answer = {
        "type": "score",
        "score": round(sum(level * share for level, share in enumerate(shares)), 2),
        "legend": {str(level): text for level, text in enumerate(LEVELS)},
        "probabilities": {str(level): share for level, share in enumerate(shares)},
        "confidence": round(1.0 - distance / 1.2, 2),
    }
    return answer, label


def refund(rng: np.random.Generator) -> tuple[dict, bool]:
    """A yes/no answer with its label."""
    log_odds = 2.5 * rng.normal() - 1.0
    label = bool(rng.random() < 1.0 / (1.0 + np.exp(-log_odds)))
    stated = 1.0 / (1.0 + np.exp(-(SLOPE_OF_YES * log_odds + INTERCEPT_OF_YES)))
    return {"type": "noul", "noul": round(float(stated), 2)}, label


def main() -> None:
    """Write the file."""
    rng = np.random.default_rng(0)
    lines = []
    for number in range(RECORDS):
        answers, label = {}, {}
        for name, ask in (("team", team), ("urgency", urgency), ("refund", refund)):
            answers[name], label[name] = ask(rng)
        if number % 40 == 39:
            del answers["urgency"]  # refused
        record = {
            "id": f"t{number:03d}",
            "model": "sample-1",
            "request": {"state": f"ticket {number}"},
            "answers": answers,
            "label": label,
            "meta": {"source": str(rng.choice(SOURCES))},
        }
        lines.append(json.dumps(record))
    text = "\n".join(lines) + "\n"
    (Path(__file__).parent / "decisions.jsonl").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
