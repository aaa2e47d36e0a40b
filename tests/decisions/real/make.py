"""Make logs by the real classes of other people's packages, of simulated answers.

    pip install typesafe-sdk==0.7.5 openai==3.57 jevkit-core==0.2.0 jev-eval==1.2.0 numpy
    python tests/decisions/real/make.py

writes the files beside this script, which the tests read; the packages are needed only
to make them anew. The answers are the same in all files: 40 records with a choice, a
score and yes/no.
"""

import json
from pathlib import Path

import numpy as np
from jev_eval.cache import run
from jev_eval.dataset import LabeledRow, choice, noul, score
from jev_eval.provider import RequestRejected
from jevkit_core.record import Record, write_records
from openai.types import decision as openai
from typesafe_sdk import SystemOneResponse

FOLDER = Path(__file__).parent
N = 40
TEAMS = ("billing", "shipping & returns", "technical")
LEVELS = ("none", "low", "high", "outage")


def softmax(z):
    shares = np.exp(z - z.max())
    return shares / shares.sum()


def rounded(p):
    """Two decimals that sum to 1: the largest takes what is left."""
    units = np.floor(p * 100).astype(int)
    units[p.argmax()] += 100 - units.sum()
    return [int(unit) / 100 for unit in units]


def above_chance(p):
    chance = 1.0 / len(p)
    return round((max(p) - chance) / (1.0 - chance), 2)


def closeness(p):
    mode, middle = int(np.argmax(p)), (len(p) - 1) / 2
    spread = sum(abs(level - middle) for level in range(len(p))) / len(p)
    distance = sum(share * abs(level - mode) for level, share in enumerate(p))
    return round(1.0 - distance / spread, 2)


def records():
    """(probabilities of the team, team, of the level, level, P(refund), refund)."""
    rng = np.random.default_rng(0)
    for _ in range(N):
        z = 2.5 * rng.normal(size=3)
        team = int(rng.choice(3, p=softmax(z)))
        levels = -0.7 * (np.arange(4) - rng.uniform(-0.5, 3.5)) ** 2
        level = int(rng.choice(4, p=softmax(levels)))
        log_odds = 2.2 * rng.normal()
        refund = bool(rng.random() < 1.0 / (1.0 + np.exp(-log_odds)))
        noul_ = round(float(1.0 / (1.0 + np.exp(-0.5 * log_odds))), 2)
        p, q = rounded(softmax(1.6 * z)), rounded(softmax(1.5 * levels))
        yield p, team, q, level, noul_, refund


def system_one(p, q, yes):
    """Answers as the server sends them."""
    return {
        "team": {
            "type": "choice",
            "choice": TEAMS[int(np.argmax(p))],
            "probabilities": dict(zip(TEAMS, p, strict=True)),
            "confidence": above_chance(p),
        },
        "level": {
            "type": "score",
            "score": round(sum(level * share for level, share in enumerate(q)), 2),
            "legend": {str(level): text for level, text in enumerate(LEVELS)},
            "probabilities": {str(level): share for level, share in enumerate(q)},
            "confidence": closeness(q),
        },
        "refund": {"type": "noul", "noul": yes},
    }


def typesafe_line(i, p, q, yes):
    usage = {"input_tokens": 300, "output_tokens": 4}
    body = {"answers": system_one(p, q, yes), "model": "jev-1", "usage": usage}
    response = SystemOneResponse.model_validate_json(json.dumps(body))
    return {"id": f"c{i}", **response.model_dump(mode="json")}


def openai_line(i, p, q, yes):
    """The options in another order in every row; every twentieth team is refused."""
    order = np.random.default_rng(i).permutation(3)
    pairs = [
        openai.AnswerAnswerResourceChoiceProbability(probability=p[c], value=TEAMS[c])
        for c in order
    ]
    team = openai.AnswerAnswerResourceChoice(
        choice=TEAMS[int(np.argmax(p))],
        confidence=above_chance(p),
        name="team",
        probabilities=pairs,
        type="choice",
    )
    if i % 20 == 3:
        team = openai.AnswerAnswerResourceRefusal(name="team", type="refusal")
    levels = [
        openai.AnswerAnswerResourceScoreProbability(
            label=LEVELS[level], probability=q[level], value=level
        )
        for level in range(4)
    ]
    level = openai.AnswerAnswerResourceScore(
        confidence=closeness(q),
        name="level",
        probabilities=levels,
        score=round(sum(place * share for place, share in enumerate(q)), 2),
        type="score",
    )
    refund = openai.AnswerAnswerResourcePredicate(
        name="refund", probability=yes, type="predicate"
    )
    usage = openai.Usage(
        input_tokens=300,
        input_tokens_details={"cache_write_tokens": 0, "cached_tokens": 0},
        output_tokens=4,
        output_tokens_details={"reasoning_tokens": 0},
        total_tokens=304,
    )
    made = openai.Decision(answers=[team, level, refund], model="d-1", usage=usage)
    return {"custom_id": f"r{i}", "response": made.model_dump(mode="json")}


class Provider:
    """Answers from the records; every twentieth request is rejected."""

    model = "jev-1"

    def __init__(self, known):
        self.known = known

    def evaluate(self, state, questions):
        i = int(state.rpartition(" ")[2])
        if i % 20 == 5:
            raise RequestRejected("HTTP 413: too long")
        p, _, q, _, yes, _ = self.known[i]
        return {"answers": system_one(p, q, yes), "usage": {"input_tokens": 300}}


def write(name, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (FOLDER / name).write_text(text, "utf-8")


def main():
    known = list(records())
    typesafe, openai_lines, kit, rows = [], [], [], []
    gold = ["id,team,level,refund"]
    for i, (p, team, q, level, yes, refund) in enumerate(known):
        typesafe.append(typesafe_line(i, p, q, yes))
        gold.append(f"c{i},{TEAMS[team]},{LEVELS[level]},{'yes' if refund else 'no'}")
        line = openai_line(i, p, q, yes)
        line["labels"] = {"team": TEAMS[team], "level": LEVELS[level], "refund": refund}
        openai_lines.append(line)
        label = {"team": TEAMS[team], "level": level, "refund": refund}
        kit.append(
            Record(
                model="jev-latest",
                state={"text": f"ticket {i}"},
                questions={"team": {"type": "choice"}},
                answers=system_one(p, q, yes),
                label=None if i % 20 == 7 else label,
                meta={"source": "ab"[i % 2]},
                ts="2026-10-01T00:00:00Z",
            )
        )
        labels = {"team": TEAMS[team], "level": LEVELS[level], "refund": refund}
        rows.append(
            LabeledRow(f"ticket {i}", labels, {"site": ["oslo", "porto"][i % 2]})
        )
    write("typesafe.jsonl", typesafe)
    (FOLDER / "typesafe_labels.csv").write_text("\n".join(gold) + "\n", "utf-8")
    write("openai.jsonl", openai_lines)
    write_records(FOLDER / "jevkit.jevl", kit)
    questions = {
        "team": choice({name: name for name in TEAMS}, "which team"),
        "level": score(list(LEVELS), "how urgent"),
        "refund": noul("is a refund asked for"),
    }
    run(rows, questions, Provider(known), cache_path=FOLDER / "jev_eval.jsonl")


if __name__ == "__main__":
    main()
