"""Runs of HELM: scenario_state.json, and per_instance_stats.json beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.questions import Question, table_of_questions
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table

Requests = dict[tuple[int, str], Record]
"""Requests of an instance by reference and mode."""

MARKS_FILE = "per_instance_stats.json"
ALL_ZERO = (
    "every log-probability is 0, as of Hugging Face's client, which divides by 1e-7; run"
    " HELM with temperature=1"
)


def _is_helm(file: SourceFile) -> bool:
    first = next(iter(file.records), {})
    return "request_states" in first or {"instance_id", "stats"} <= first.keys()


@reader(
    "helm",
    "runs of HELM: a folder, its scenario_state.json, or per_instance_stats.json",
    suffixes=[".json"],
    sniff=_is_helm,
    order=4,
    examples=[
        (
            "runs/v1/mmlu:subject=philosophy,method=multiple_choice_separate_original",
            "",
        ),
        ("scenario_state.json", ""),
        ("per_instance_stats.json", ""),
    ],
)
def read_helm(file: SourceFile) -> Table:
    """Read a score of every reference where each was asked for by itself.

    It is the log-probability per token of its text, as HELM compares them, of
    _calibrated less that without the question. Else (confidence, correct) are read: the
    probability of the letter that was generated, or max_prob and exact_match. Marks in
    per_instance_stats.json beside scenario_state.json are compared with every row.
    """
    path = file.path
    request = file.request
    if isinstance(file.json, list):
        return _table_of_outcomes(path, _outcomes_of_stats(path, file.json))
    states = [state for state in file.json["request_states"] if state.get("result")]
    marks = _Marks.beside(path)
    if any(state.get("reference_index") is not None for state in states):
        questions = _questions(path, states, marks)
        remark(
            f"{path.name}: logits are log-probabilities per token of the references,"
            " labels those tagged correct"
        )
        task = path.parent.name or "helm"
        return table_of_questions(path, "helm", questions, task, request)
    if not all(state.get("output_mapping") for state in states):
        method = (file.json.get("adapter_spec") or {}).get("method") or "its method"
        message = f"{method} has no choices; take {MARKS_FILE}"
        raise DataError(f"{path}: {message}")
    return _table_of_outcomes(path, [_outcome(state, marks) for state in states])


# ---- one request: confidence and correctness


@dataclass(frozen=True)
class Outcome:
    """Confidence of the answer of an instance, and whether it is right: 0 or 1."""

    instance: "Instance"
    confidence: float
    correct: float


def _outcomes_of_stats(path: Path, entries: Sequence[Record]) -> list[Outcome]:
    """Outcomes of per_instance_stats.json. Raises DataError where it has none."""
    outcomes = []
    for entry in entries:
        stats = _stats(entry)
        if not {"max_prob", "exact_match"} <= stats.keys():
            message = "has no max_prob and exact_match of every instance"
            raise DataError(f"{path}: {message}; take scenario_state.json")
        instance = _instance_of_entry(entry)
        outcomes.append(Outcome(instance, stats["max_prob"], stats["exact_match"]))
    return outcomes


def _outcome(state: Record, marks: "_Marks") -> Outcome:
    """Probability of the generated letter, and whether its reference is right."""
    instance = _instance_of_state(state)
    completion = state["result"]["completions"][0]
    text = state["output_mapping"].get(str(completion["text"]).strip())
    references = state["instance"]["references"]
    is_right = any(
        _is_correct(reference) and reference["output"]["text"] == text
        for reference in references
    )
    marks.check(instance, float(is_right))
    confidence = exp(min(float(completion["logprob"]), 0.0))
    return Outcome(instance, confidence, float(is_right))


def _table_of_outcomes(path: Path, outcomes: Sequence[Outcome]) -> Table:
    """Confidences and correctness.

    Later trials and perturbations of an instance are its unit.
    """
    if not outcomes:
        raise DataError(f"{path}: has no request with a result; is the run complete?")
    if all(outcome.confidence == 1 for outcome in outcomes):
        raise DataError(f"{path}: {ALL_ZERO}")
    for outcome in outcomes:
        if outcome.correct not in (0, 1):
            message = f"exact_match is {outcome.correct}, expected 0 or 1"
            raise DataError(f"{path}: {message}")
    asked = [outcome.instance.asked for outcome in outcomes]
    arrays = {
        "confidence": np.array([outcome.confidence for outcome in outcomes]),
        "correct": np.array([outcome.correct for outcome in outcomes], np.int64),
        "ids": np.array([outcome.instance.id for outcome in outcomes]),
    }
    if len(set(asked)) < len(asked):
        arrays["unit"] = np.array(asked)
    remark(
        f"{path.name}: confidence is the probability of the answer that was given,"
        " correct its mark"
    )
    return Table.held(path, "helm", arrays)


# ---- a request for every reference: scores of the references


def _questions(path: Path, states: Sequence[Record], marks: "_Marks") -> list[Question]:
    """One question per instance, trial and perturbation. Raises DataError."""
    requests_by_id: dict[str, Requests] = {}
    for state in states:
        mode = state.get("request_mode") or "original"
        instance = _instance_of_state(state)
        requests = requests_by_id.setdefault(instance.id, {})
        requests[state["reference_index"], mode] = state
    questions = []
    for requests in requests_by_id.values():
        questions.append(_question(path, requests, marks))
    if not any(any(question.scores) for question in questions):
        raise DataError(f"{path}: {ALL_ZERO}")
    return questions


def _question(path: Path, requests: Requests, marks: "_Marks") -> Question:
    """The question of the requests for all references of an instance."""
    state = next(iter(requests.values()))
    instance = _instance_of_state(state)
    where = f"{path}: instance {instance.id}"
    references = state["instance"]["references"]
    right = []
    for place, reference in enumerate(references):
        if _is_correct(reference):
            right.append(place)
    if len(right) != 1:
        message = f"has {len(right)} references tagged correct, expected one"
        raise DataError(f"{where}: {message}")
    scores = []
    for place in range(len(references)):
        if (place, "original") not in requests:
            message = f"has no request for reference {place}; is the run complete?"
            raise DataError(f"{where}: {message}")
        score = _per_token(where, requests[place, "original"])
        if (place, "calibration") in requests:
            score -= _per_token(where, requests[place, "calibration"])
        scores.append(score)
    best = max(scores)
    if scores.count(best) == 1:
        marks.check(instance, float(scores[right[0]] == best))
    return Question(instance.id, scores, right[0], instance.asked)


def _per_token(where: str, state: Record) -> float:
    """Mean log-probability of the tokens at the end that are the reference's text."""
    place = state["reference_index"]
    text = state["instance"]["references"][place]["output"]["text"].strip()
    tokens = state["result"]["completions"][0]["tokens"]
    joined = ""
    for count, token in enumerate(reversed(tokens), start=1):
        joined = token["text"] + joined
        if joined.strip() == text:
            return sum(token["logprob"] for token in tokens[-count:]) / count
    message = f"the last tokens are not the text of reference {place}"
    raise DataError(f"{where}: {message}")


def _is_correct(reference: Record) -> bool:
    return "correct" in (reference.get("tags") or [])


# ---- instances, and marks of their answers


@dataclass(frozen=True)
class Instance:
    """An instance of a run.

    asked : its id in the scenario. id : with the trial and the perturbation, if any.
    """

    asked: str
    id: str


def _instance_of_state(state: Record) -> Instance:
    """The instance of a request of scenario_state.json."""
    about = state["instance"]
    trial = state.get("train_trial_index")
    return _instance(about.get("id"), trial, about.get("perturbation"))


def _instance_of_entry(entry: Record) -> Instance:
    """The instance of an entry of per_instance_stats.json."""
    trial = entry.get("train_trial_index")
    return _instance(entry["instance_id"], trial, entry.get("perturbation"))


def _instance(scenario_id: Any, trial: Any, perturbation: Any) -> Instance:
    asked = str(scenario_id)
    parts = [asked]
    if trial:
        parts.append(f"trial {trial}")
    if perturbation:
        parts.append(perturbation.get("name", perturbation))
    return Instance(asked, ", ".join(str(part) for part in parts if part))


def _stats(entry: Record) -> dict[str, float]:
    """Means by name of the statistics of unperturbed text."""
    means = {}
    for statistic in entry["stats"]:
        name = statistic["name"]
        mean = statistic.get("mean")
        if mean is not None and not name.get("perturbation"):
            means[name["name"]] = float(mean)
    return means


@dataclass(frozen=True)
class _Marks:
    """exact_match by id of the instance, from per_instance_stats.json beside a file."""

    path: Path
    exact_match: Mapping[str, float]

    @classmethod
    def beside(cls, path: Path) -> "_Marks":
        """Marks beside a file; none if there is no file of them."""
        marks_file = path.with_name(MARKS_FILE)
        marks: dict[str, float] = {}
        if marks_file == path or not marks_file.is_file():
            return cls(path, marks)
        for entry in SourceFile(marks_file).json:
            if not isinstance(entry, dict):
                continue
            stats = _stats(entry)
            if "exact_match" in stats:
                marks[_instance_of_entry(entry).id] = stats["exact_match"]
        return cls(path, marks)

    def check(self, instance: Instance, correct: float) -> None:
        """Raise DataError for an outcome that its mark contradicts."""
        mark = self.exact_match.get(instance.id, correct)
        if mark == correct:
            return
        where = f"{self.path}: instance {instance.id}"
        message = f"{MARKS_FILE} has exact_match {mark:g}, the answer here {correct:g}"
        raise DataError(f"{where}: {message}; do the files belong together?")
