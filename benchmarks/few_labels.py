"""Is the calibrator of a log by question worth it with 50 to 300 labels a question?

``python benchmarks/few_labels.py DATA [RUNS] [--record FILE.json]`` reads the files of
logits in the folder DATA, and makes questions of them: a file with more than two
classes is a choice, one with two is yes/no, and so is "is it class c" of the small
ones. RUNS (40) times, so many rows of every question are drawn as its labelled answers,
and its NLL is taken on up to 4000 others.

Logs of four questions, three kinds: *alike* are four parts of one file, *different* are
four files (or classes), *mixed* are two choices and two yes/no questions; and *alone*
is one question. Answers are *raw*, as the files have them, or *calibrated*: with the map
of a question's type that all of its rows give, so that nothing is to be gained. All are
rounded to two decimals, as on the wire.

Printed in 1e-3 nats by kind, answers and number of labels: the mean NLL of the answers
as they are minus that under the calibrator by question, the worst log's mean, and the
same differences for one temperature that all labels of the log give together (of the
largest likelihood).
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _problems import saved
from _stored import Lines, mean

from calcli.decisions.pooling import (
    N_FOLDS,
    LineQuestion,
    Question,
    TemperatureQuestion,
    fit_type,
)
from calcli.numerics import log_softmax, softmax
from calcli.zeros import Zeros

LABELS = (50, 100, 200, 300)
FRESH = 4000
STEP = 0.01
MOST_CLASSES_OF_YES_NO = 10
WIRE = Zeros((STEP,))


@dataclass(frozen=True)
class Source:
    """All rows of a question: logarithms (n, k) and labels (n,)."""

    name: str
    log_p: np.ndarray
    labels: np.ndarray

    @property
    def is_yes_no(self) -> bool:
        return self.log_p.shape[1] == 2

    def question(self, rows: np.ndarray) -> Question:
        """Some of the rows, as the fit takes them: rounded, zeros counted."""
        log_p, labels = rounded(self.log_p[rows]), self.labels[rows]
        units = np.arange(len(rows))
        if self.is_yes_no:
            return LineQuestion(log_p[:, 1] - log_p[:, 0], labels, units)
        return TemperatureQuestion(log_p, labels, units)

    def calibrated(self) -> "Source":
        """The same rows with the map that all of them give."""
        every = np.arange(len(self.labels))
        if self.is_yes_no:
            odds = self.log_p[:, 1] - self.log_p[:, 0]
            line = LineQuestion(odds, self.labels, every)
            theta = most_likely([line])
            odds = np.exp(theta[0]) * odds + theta[1]
            log_p = log_softmax(np.stack([np.zeros_like(odds), odds], axis=1))
        else:
            theta = most_likely([TemperatureQuestion(self.log_p, self.labels, every)])
            log_p = log_softmax(np.exp(theta[0]) * self.log_p)
        return Source(self.name, log_p, self.labels)


def rounded(log_p: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities that were written with two decimals."""
    shares = np.round(np.exp(log_p), 2)
    largest = shares.argmax(axis=1)
    shares[np.arange(len(shares)), largest] += 1.0 - shares.sum(axis=1)
    return WIRE.log_of(np.maximum(np.round(shares, 2), 0.0))


def most_likely(questions: list[Question]) -> np.ndarray:
    """Parameters (p,) of the largest likelihood of all rows together, by Newton."""
    theta = np.zeros(questions[0].n_parameters)

    def losses(theta: np.ndarray) -> float:
        return sum(float(question.losses(theta).sum()) for question in questions)

    for _ in range(50):
        parts = [question.derivatives(theta) for question in questions]
        gradient = sum(part[0] for part in parts)
        information = sum(part[1] for part in parts)
        step = -np.linalg.solve(information, gradient)
        step *= min(1.0, 1.0 / max(np.abs(step).max(), 1e-300))
        while losses(theta + step) > losses(theta) and np.abs(step).max() > 1e-9:
            step = step / 2.0
        theta = theta + step
        if np.abs(step).max() < 1e-7:
            break
    return theta


def sources(folder: Path) -> list[Source]:
    """The questions that the files hold."""
    whole = []
    for path in sorted(folder.glob("*.npz")):
        for problem in saved(path):
            log_p = log_softmax(problem.logits)
            whole.append(Source(problem.name, log_p, problem.labels))
    of_classes = []
    for source in whole:
        n_classes = source.log_p.shape[1]
        if 2 < n_classes <= MOST_CLASSES_OF_YES_NO and "vlm" not in source.name:
            for c in range(min(n_classes, 4)):
                of_classes.append(is_class(source, c))
    return whole + of_classes


def is_class(source: Source, c: int) -> Source:
    """The question "is it class c" of a choice."""
    p = np.clip(softmax(source.log_p)[:, c], 1e-9, 1.0 - 1e-9)
    log_p = np.log(np.stack([1.0 - p, p], axis=1))
    return Source(f"{source.name} is {c}", log_p, (source.labels == c).astype(np.int64))


Log = list[tuple[Source, np.ndarray, np.ndarray]]
"""Questions with the places of their labelled and their fresh rows."""


def logs(
    kind: str, known: list[Source], n: int, rng: np.random.Generator
) -> Iterator[tuple[str, Log]]:
    """Name and questions of the logs of one run."""
    choices = [source for source in known if not source.is_yes_no]
    yes_no = [source for source in known if source.is_yes_no]
    if kind in ("alone", "alike"):
        parts = 1 if kind == "alone" else 4
        for source in known:
            order = rng.permutation(len(source.labels))
            fresh = order[parts * n :][:FRESH]
            cuts = [order[part * n :][:n] for part in range(parts)]
            yield source.name, [(source, cut, fresh) for cut in cuts]
        return
    if kind == "different":
        for name, group in (("choices", choices), ("yes/no", yes_no)):
            yield name, _drawn(_some(group, 4, rng), n, rng)
        return
    some = [*_some(choices, 2, rng), *_some(yes_no, 2, rng)]
    yield "mixed", _drawn(some, n, rng)


def _some(group: list[Source], number: int, rng: np.random.Generator) -> list[Source]:
    return [group[place] for place in rng.choice(len(group), number, replace=False)]


def _drawn(some: list[Source], n: int, rng: np.random.Generator) -> Log:
    log = []
    for source in some:
        order = rng.permutation(len(source.labels))
        log.append((source, order[:n], order[n:][:FRESH]))
    return log


def gains(log: Log) -> tuple[float, float]:
    """Mean gain of NLL on the fresh rows: by question, and by one temperature."""
    labelled = [source.question(rows) for source, rows, _ in log]
    fresh = [source.question(rows) for source, _, rows in log]
    raw = [held.losses(np.zeros(held.n_parameters)).mean() for held in fresh]
    by_question = np.zeros(len(log))
    for kind in (TemperatureQuestion, LineQuestion):
        places = [i for i, one in enumerate(labelled) if isinstance(one, kind)]
        if not places:
            continue
        some = [labelled[i] for i in places]
        folds = [np.arange(len(one.units)) % N_FOLDS for one in some]
        for i, theta in zip(places, fit_type(some, folds).theta, strict=True):
            by_question[i] = raw[i] - fresh[i].losses(theta).mean()
    together = most_likely([as_choice(one) for one in labelled])
    one_for_all = [
        before - as_choice(held).losses(together).mean()
        for before, held in zip(raw, fresh, strict=True)
    ]
    return float(by_question.mean()), float(np.mean(one_for_all))


def as_choice(question: Question) -> TemperatureQuestion:
    """A yes/no question as a choice of two, which a temperature can scale."""
    if isinstance(question, TemperatureQuestion):
        return question
    assert isinstance(question, LineQuestion)
    pair = np.stack([np.zeros_like(question.log_odds), question.log_odds], axis=1)
    return TemperatureQuestion(log_softmax(pair), question.labels, question.units)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=int, nargs="?", default=40)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--kinds", default="alone,alike,different,mixed")
    args = parser.parse_args()
    raw = sources(args.data)
    print(f"{len(raw)} questions", file=sys.stderr)
    answers = {"raw": raw, "calibrated": [source.calibrated() for source in raw]}
    lines = Lines(args.record)
    for kind in args.kinds.split(","):
        # every file is a log of its own there
        runs = max(args.runs // 20, 2) if kind in ("alone", "alike") else args.runs
        for name, known in answers.items():
            for n in LABELS:
                found: dict[str, list[tuple[float, float]]] = {}
                for run in range(runs):
                    rng = np.random.default_rng([LABELS.index(n), run])
                    for log_name, log in logs(kind, known, n, rng):
                        found.setdefault(log_name, []).append(gains(log))
                every = 1e3 * np.concatenate([np.array(g) for g in found.values()])
                worst = min(1e3 * np.mean(g, axis=0)[0] for g in found.values())
                better = 100.0 * float((every[:, 0] > every[:, 1]).mean())
                lines.add(
                    log=kind,
                    answers=name,
                    labels=n,
                    logs=len(every),
                    **{
                        "by question": mean(every[:, 0]),
                        "worst": round(float(worst), 1),
                        "one temperature": mean(every[:, 1]),
                        "better in %": round(better),
                    },
                )


if __name__ == "__main__":
    main()
