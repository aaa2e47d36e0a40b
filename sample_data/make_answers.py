"""Make a small log of a language model's answers: simulated, no model has given them.

    python sample_data/make_answers.py

writes ``answers.jsonl`` beside this script: 600 questions of four subjects with four choices, the answer, the right one
(``gold``) and the confidence that the model states, in the round numbers that such models like. It is right less often
than it says, most of all in law; the seed is 0.
"""

import json
from pathlib import Path

import numpy as np

STATED = np.array([0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1.0])
OFTEN = np.array([0.03, 0.04, 0.06, 0.07, 0.13, 0.12, 0.22, 0.2, 0.05, 0.08])
SUBJECTS = {"biology": 0.02, "history": 0.08, "law": 0.2, "physics": 0.1}
"""By how much the model overstates."""


def main() -> None:
    """Write the file."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(600):
        subject = list(SUBJECTS)[i % 4]
        stated = float(rng.choice(STATED, p=OFTEN))
        gold, right = (
            int(rng.integers(4)),
            rng.random() < 0.25 + 0.72 * stated - SUBJECTS[subject],
        )
        answer = gold if right else (gold + int(rng.integers(1, 4))) % 4
        record = {
            "id": f"q{i:03d}",
            "subject": subject,
            "answer": "ABCD"[answer],
            "gold": "ABCD"[gold],
        }
        lines.append(json.dumps({**record, "confidence": stated}))
    (Path(__file__).parent / "answers.jsonl").write_text(
        "\n".join(lines) + "\n", "utf-8"
    )


if __name__ == "__main__":
    main()
