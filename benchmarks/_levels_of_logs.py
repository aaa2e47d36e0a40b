"""Levels of what ``run LOG`` says of its maps: an experiment of ``levels.py``.

asked : logs of a yes/no question, a choice and a score of five levels, fitted by question
and judged by cross-fitting: how often a question is not called calibrated, up to the error
of the fits and by the exact test, and how often the interval of its mean confidence minus
its accuracy misses that of the kept map on endless records. Of yes/no also the gap of
P(yes).

Said are the chances of the truth to the power 1.5, which every map can undo, or these
chances themselves where the cell says so. Records of one state have the same answers, and
share the draw of their labels in three states of five.
"""

import json
import tempfile
import warnings
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from calcli.cli.commands.run import RunArgs
from calcli.cli.context import CommandContext
from calcli.cli.decision_logs.run import fit_and_judge_log
from calcli.decisions.calibrate import AnswerMap
from calcli.numerics import softmax

POWER = 1.5
SHARING = 0.6
FRESH = 4000
CLEAN = ("calibrated", "too_few")
LEVELS = tuple("12345")


# ---- records whose truth is known


def truths(n, cell, rng):
    """True chances (n, options) by question."""
    share = rng.beta(0.6, 0.9, n)
    concentration = np.full(cell["options"], 0.5)
    centre = rng.uniform(0.0, 4.0, (n, 1))
    width = rng.gamma(2.0, 0.6, (n, 1)) + 0.2
    return {
        "refund": np.stack([1.0 - share, share], axis=1),
        "team": rng.dirichlet(concentration, n),
        "urgency": softmax(-np.abs(np.arange(5.0) - centre) / width),
    }


def said(truth, cell):
    """What the model says, with four decimals that sum to 1."""
    bent = np.maximum(truth, 1e-4) ** (1.0 if cell.get("right") else POWER)
    shares = np.floor(bent / bent.sum(axis=1, keepdims=True) * 1e4).astype(int)
    at = np.arange(len(shares))
    shares[at, shares.argmax(axis=1)] += 10_000 - shares.sum(axis=1)
    return shares / 1e4


def options_of(question, k):
    if question == "urgency":
        return LEVELS
    return tuple(f"team {place}" for place in range(k))


def answer(question, p):
    if question == "refund":
        return {"type": "noul", "noul": float(p[1])}
    names = options_of(question, len(p))
    shares = dict(zip(names, map(float, p), strict=True))
    kind = "score" if question == "urgency" else "choice"
    return {"type": kind, kind: names[int(np.argmax(p))], "probabilities": shares}


def label(question, place, k):
    if question == "refund":
        return bool(place)
    return options_of(question, k)[place]


def drawn(truth, state, rng):
    """Labels (n,); those of a state share their draw in three states of five."""
    noise = rng.gumbel(size=truth.shape)
    is_sharing = rng.random(state.max() + 1) < SHARING
    first = np.searchsorted(state, state)
    noise = np.where(is_sharing[state][:, None], noise[first], noise)
    return (np.log(np.maximum(truth, 1e-300)) + noise).argmax(axis=1)


def write_log(path, cell, rng):
    n, repeats = cell["records"], cell.get("repeats", 1)
    state = np.arange(n) // repeats
    by_state = truths(state.max() + 1, cell, rng)
    places = {}
    stated = {}
    for question, truth in by_state.items():
        places[question] = drawn(truth[state], state, rng)
        stated[question] = said(truth, cell)[state]
    with path.open("w") as file:
        for row in range(n):
            answers = {}
            labels = {}
            for question, p in stated.items():
                answers[question] = answer(question, p[row])
                labels[question] = label(question, places[question][row], p.shape[1])
            record = {"id": f"r{row}", "state": f"state {state[row]}"}
            record |= {"answers": answers, "labels": labels}
            file.write(json.dumps(record) + "\n")


# ---- one log


def asked(cell, r):
    rng = np.random.default_rng([41, cell["records"], cell.get("repeats", 1), r])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "log.jsonl")
        write_log(path, cell, rng)
        args = RunArgs(calibration=str(path), quiet=True)
        with CommandContext(args) as command:
            judged = fit_and_judge_log(args, "kept.json", None, command)
    figures = {}
    for _, result in judged.results:
        question = result.bundle.rpartition(":")[2]
        entry = judged.fitted.artifact.questions[question]
        one_map = AnswerMap.of(msgspec.to_builtins(entry), question)
        figures |= figures_of(question, result.report, one_map, cell)
    return figures


def figures_of(question, report, one_map, cell):
    verdict, facts = report.verdict, report.facts
    figures = {
        f"{question} not clean": float(verdict.kind not in CLEAN),
        f"{question} exact": float(verdict.exact.kind not in CLEAN),
    }
    gap, gap_of_yes = gaps_of_map(question, one_map, cell)
    estimates = {f"{question} misses": (facts.overconfidence, gap)}
    if facts.class_one is not None:
        estimates["yes misses"] = (facts.class_one.gap, gap_of_yes)
    for name, (estimate, true) in estimates.items():
        interval = estimate.interval
        is_missed = interval.known and not interval.low <= true <= interval.high
        figures[name] = float(is_missed)
    return figures


@cache
def fresh_records(options, is_right):
    cell = {"options": options, "right": is_right}
    truth = truths(FRESH, cell, np.random.default_rng(42))
    return truth, {question: said(p, cell) for question, p in truth.items()}


def gaps_of_map(question, one_map, cell):
    """Gap of the confidence, and of P(yes), of a kept map on endless records."""
    truth, stated = fresh_records(cell["options"], bool(cell.get("right")))
    p, true = stated[question], truth[question]
    steps = np.where(p > 0.0, p, 0.5e-4)
    z = one_map.slope * np.log(steps)
    if question == "refund":
        odds = z[:, 1] - z[:, 0] + one_map.intercept
        z = np.stack([np.zeros(FRESH), odds], axis=1)
    q = softmax(z)
    at = np.arange(FRESH)
    top = q.argmax(axis=1)
    gap = float((q[at, top] - true[at, top]).mean())
    return gap, float((q[:, 1] - true[:, 1]).mean())


EXPERIMENTS = {"asked": asked}
CELLS = {
    "asked": [
        {"records": n, "options": k, **more}
        for n, k, more in (
            (100, 4, {}),
            (300, 3, {}),
            (300, 5, {"right": True}),
            (300, 4, {"repeats": 3}),
        )
    ],
}
