"""Is the calibrator of a log by question worth it with 50 to 300 labels a question?

python benchmarks/few_labels.py DATA [RUNS] [--record FILE.json]

Reads the files of logits in the folder DATA, and makes questions of them: a file with more
than two classes is a choice, one with two is yes/no, and so is "is it class c" of the small
ones. RUNS (40) times, so many rows of every question are drawn as its labelled answers,
and its NLL is taken on up to 4000 others. Without DATA the stored table is printed.

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

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _measure import parser_of
from _problems import saved
from _stored import Lines, mean_and_error, read_entries

from calcli.decisions.partial_pooling import (
    N_FOLDS,
    LineQuestion,
    Question,
    TemperatureQuestion,
    fit_type,
)
from calcli.numerics import log_softmax, softmax
from calcli.zeros import Zeros

STORED = Path(__file__).with_name("few_labels.json")
LABELS = (50, 100, 200, 300)
FRESH = 4000
MOST_CLASSES_OF_YES_NO = 10
WIRE = Zeros((0.01,))  # probabilities with two decimals
KINDS = ("alone", "alike", "different", "mixed")


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
        all_rows = np.arange(len(self.labels))
        if self.is_yes_no:
            odds = self.log_p[:, 1] - self.log_p[:, 0]
            theta = most_likely([LineQuestion(odds, self.labels, all_rows)])
            log_p = log_p_of_odds(np.exp(theta[0]) * odds + theta[1])
        else:
            question = TemperatureQuestion(self.log_p, self.labels, all_rows)
            theta = most_likely([question])
            log_p = log_softmax(np.exp(theta[0]) * self.log_p)
        return Source(self.name, log_p, self.labels)


def log_p_of_odds(log_odds: np.ndarray) -> np.ndarray:
    """Log-probabilities (n, 2) of no and yes."""
    return log_softmax(np.stack([np.zeros_like(log_odds), log_odds], axis=1))


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


class Asked(NamedTuple):
    """A question of a log, with the places of its labelled and of its fresh rows."""

    source: Source
    labelled: np.ndarray
    fresh: np.ndarray


Log = list[Asked]


def logs(
    kind: str, known: list[Source], n: int, rng: np.random.Generator
) -> Iterator[tuple[str, Log]]:
    """Name and questions of the logs of one run. n : labels of a question."""
    choices = [source for source in known if not source.is_yes_no]
    yes_no = [source for source in known if source.is_yes_no]
    if kind == "alone" or kind == "alike":
        n_parts = 1 if kind == "alone" else 4
        for source in known:
            yield source.name, parts_of(source, n_parts, n, rng)
    elif kind == "different":
        yield "choices", [asked(source, n, rng) for source in some(choices, 4, rng)]
        yield "yes/no", [asked(source, n, rng) for source in some(yes_no, 4, rng)]
    else:
        mixed = [*some(choices, 2, rng), *some(yes_no, 2, rng)]
        yield "mixed", [asked(source, n, rng) for source in mixed]


def parts_of(source: Source, n_parts: int, n: int, rng: np.random.Generator) -> Log:
    """Parts of one source as questions with the same fresh rows."""
    order = rng.permutation(len(source.labels))
    fresh = order[n_parts * n :][:FRESH]
    log = []
    for part in range(n_parts):
        labelled = order[part * n :][:n]
        log.append(Asked(source, labelled, fresh))
    return log


def some(sources: list[Source], number: int, rng: np.random.Generator) -> list[Source]:
    places = rng.choice(len(sources), number, replace=False)
    return [sources[place] for place in places]


def asked(source: Source, n: int, rng: np.random.Generator) -> Asked:
    order = rng.permutation(len(source.labels))
    return Asked(source, order[:n], order[n:][:FRESH])


# ---- what is gained


class Gain(NamedTuple):
    """Mean gain of NLL on the fresh rows of a log."""

    by_question: float
    one_temperature: float


def gain_of(log: Log) -> Gain:
    labelled = [one.source.question(one.labelled) for one in log]
    fresh = [one.source.question(one.fresh) for one in log]
    raw = [nll_at(question, np.zeros(question.n_parameters)) for question in fresh]
    theta_by_question = fit_by_question(labelled)
    together = most_likely([as_choice(question) for question in labelled])
    by_question, one_temperature = [], []
    for question, theta, before in zip(fresh, theta_by_question, raw, strict=True):
        by_question.append(before - nll_at(question, theta))
        one_temperature.append(before - nll_at(as_choice(question), together))
    return Gain(float(np.mean(by_question)), float(np.mean(one_temperature)))


def nll_at(question: Question, theta: np.ndarray) -> float:
    """Mean NLL of a question's rows under the parameters of a map."""
    return question.losses(theta).mean()


def fit_by_question(labelled: list[Question]) -> list[np.ndarray]:
    """Parameters of every question, as calcli fits the questions of a log."""
    theta_of = {}
    for kind in (TemperatureQuestion, LineQuestion):
        places = [i for i, one in enumerate(labelled) if isinstance(one, kind)]
        if not places:
            continue
        of_kind = [labelled[place] for place in places]
        folds = [np.arange(len(question.units)) % N_FOLDS for question in of_kind]
        thetas = fit_type(of_kind, folds).theta
        theta_of |= dict(zip(places, thetas, strict=True))
    return [theta_of[place] for place in range(len(labelled))]


def as_choice(question: Question) -> TemperatureQuestion:
    """A yes/no question as a choice of two, which a temperature can scale."""
    if isinstance(question, TemperatureQuestion):
        return question
    assert isinstance(question, LineQuestion)
    log_p = log_p_of_odds(question.log_odds)
    return TemperatureQuestion(log_p, question.labels, question.units)


def gains_by_log(
    kind: str, known: list[Source], n: int, runs: int
) -> dict[str, list[Gain]]:
    """Gains of all runs, by name of the log."""
    gains: dict[str, list[Gain]] = {}
    for run in range(runs):
        rng = np.random.default_rng([LABELS.index(n), run])
        for name, log in logs(kind, known, n, rng):
            gains.setdefault(name, []).append(gain_of(log))
    return gains


def cells_of(gains: dict[str, list[Gain]]) -> dict[str, object]:
    """The figures of a line of the table, in 1e-3 nats."""
    by_log = [1e3 * np.array(of_log) for of_log in gains.values()]
    by_question, one_temperature = np.concatenate(by_log).T
    worst = min(of_log[:, 0].mean() for of_log in by_log)
    better = 100.0 * float((by_question > one_temperature).mean())
    return {
        "logs": len(by_question),
        "by question": mean_and_error(by_question),
        "worst": round(float(worst), 1),
        "one temperature": mean_and_error(one_temperature),
        "better in %": round(better),
    }


def print_gains(args) -> None:
    raw = sources(args.data)
    print(f"{len(raw)} questions", file=sys.stderr)
    answers = {"raw": raw, "calibrated": [source.calibrated() for source in raw]}
    lines = Lines(args.record)
    for kind in args.kinds.split(","):
        runs = args.runs
        if kind in ("alone", "alike"):  # every file is a log of its own there
            runs = max(args.runs // 20, 2)
        for name, known in answers.items():
            for n in LABELS:
                cells = cells_of(gains_by_log(kind, known, n, runs))
                lines.add(log=kind, answers=name, labels=n, **cells)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("runs", type=int, nargs="?", default=40)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--kinds", default=",".join(KINDS))
    args = parser.parse_args()
    if args.data is None:
        stored = Lines()
        for entry in read_entries(STORED):
            stored.add(**entry)
    else:
        print_gains(args)


if __name__ == "__main__":
    main()
