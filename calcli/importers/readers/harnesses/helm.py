"""Runs of HELM: scenario_state.json, and per_instance_stats.json beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.json_columns import table_of_rows
from calcli.importers.questions import Question, table_of_questions, without_lone_units
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table

Requests = dict[tuple[int, str], Record]
"""Requests of an instance by reference and mode."""

Marks = Mapping[str, float]
"""exact_match by the id of an instance, of per_instance_stats.json beside a file."""

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
    if isinstance(file.json, list):
        return _table_of_outcomes(path, _outcomes_of_stats(path, file.json))
    states = [state for state in file.json["request_states"] if state.get("result")]
    marks = _marks_beside(path)
    if any(state.get("reference_index") is not None for state in states):
        questions = _questions(path, states, marks)
        remark(
            f"{path.name}: logits are log-probabilities per token of the references,"
            " labels those tagged correct"
        )
        task = path.parent.name or "helm"
        return table_of_questions(path, "helm", questions, task, file.request)
    if not all(state.get("output_mapping") for state in states):
        method = (file.json.get("adapter_spec") or {}).get("method") or "its method"
        raise DataError(f"{path}: {method} has no choices; take {MARKS_FILE}")
    return _table_of_outcomes(
        path, [_outcome_of_state(path, state, marks) for state in states]
    )


# ---- one request: confidence and correctness


def _outcomes_of_stats(path: Path, entries: Sequence[Record]) -> list[Record]:
    """Outcomes of per_instance_stats.json. Raises DataError where it has none."""
    outcomes = []
    for entry in entries:
        means = _means(entry)
        if not {"max_prob", "exact_match"} <= means.keys():
            raise DataError(
                f"{path}: has no max_prob and exact_match of every instance; take"
                " scenario_state.json"
            )
        is_right = means["exact_match"]
        if is_right not in (0, 1):
            raise DataError(f"{path}: exact_match is {is_right}, expected 0 or 1")
        outcomes.append(_outcome(Instance.of(entry), means["max_prob"], is_right))
    return outcomes


def _outcome_of_state(path: Path, state: Record, marks: Marks) -> Record:
    """Probability of the generated letter, and whether its reference is right."""
    instance = Instance.of(state)
    completion = state["result"]["completions"][0]
    text = state["output_mapping"].get(str(completion["text"]).strip())
    is_right = any(
        _is_correct(reference) and reference["output"]["text"] == text
        for reference in state["instance"]["references"]
    )
    _check_mark(path, instance, float(is_right), marks)
    return _outcome(instance, exp(min(float(completion["logprob"]), 0.0)), is_right)


def _outcome(instance: "Instance", confidence: float, is_right: float) -> Record:
    """Row of an answer. Later trials and perturbations of an instance are its unit."""
    return {
        "confidence": confidence,
        "correct": int(is_right),
        "ids": instance.id,
        "unit": instance.asked,
    }


def _table_of_outcomes(path: Path, outcomes: Sequence[Record]) -> Table:
    if not outcomes:
        raise DataError(f"{path}: has no request with a result; is the run complete?")
    if all(outcome["confidence"] == 1 for outcome in outcomes):
        raise DataError(f"{path}: {ALL_ZERO}")
    remark(
        f"{path.name}: confidence is the probability of the answer that was given,"
        " correct its mark"
    )
    return table_of_rows(path, "helm", without_lone_units(outcomes))


# ---- a request for every reference: scores of the references


def _questions(path: Path, states: Sequence[Record], marks: Marks) -> list[Question]:
    """One question per instance, trial and perturbation. Raises DataError."""
    requests_of: dict[Instance, Requests] = {}
    for state in states:
        mode = state.get("request_mode") or "original"
        requests = requests_of.setdefault(Instance.of(state), {})
        requests[state["reference_index"], mode] = state
    questions = []
    for instance, requests in requests_of.items():
        questions.append(_question(path, instance, requests, marks))
    if not any(any(question.scores) for question in questions):
        raise DataError(f"{path}: {ALL_ZERO}")
    return questions


def _question(
    path: Path, instance: "Instance", requests: Requests, marks: Marks
) -> Question:
    """The question of the requests for all references of an instance."""
    where = f"{path}: instance {instance.id}"
    references = next(iter(requests.values()))["instance"]["references"]
    are_right = list(map(_is_correct, references))
    if sum(are_right) != 1:
        raise DataError(
            f"{where}: has {sum(are_right)} references tagged correct, expected one"
        )
    scores = []
    for place in range(len(references)):
        if (place, "original") not in requests:
            raise DataError(
                f"{where}: has no request for reference {place}; is the run complete?"
            )
        score = _per_token(where, requests[place, "original"])
        if (place, "calibration") in requests:
            score -= _per_token(where, requests[place, "calibration"])
        scores.append(score)
    right = are_right.index(True)
    if scores.count(max(scores)) == 1:
        _check_mark(path, instance, float(scores[right] == max(scores)), marks)
    return Question(instance.id, scores, right, instance.asked)


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
    raise DataError(f"{where}: the last tokens are not the text of reference {place}")


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

    @classmethod
    def of(cls, entry: Record) -> "Instance":
        """The instance of a request, or of an entry of per_instance_stats.json."""
        about = entry.get("instance", entry)
        asked = str(about.get("id", entry.get("instance_id")))
        parts = [asked]
        trial = entry.get("train_trial_index")
        if trial:
            parts.append(f"trial {trial}")
        perturbation = about.get("perturbation")
        if perturbation:
            parts.append(str(perturbation.get("name", perturbation)))
        return cls(asked, ", ".join(filter(None, parts)))


def _means(entry: Record) -> dict[str, float]:
    """Means by name of the statistics of unperturbed text."""
    means = {}
    for statistic in entry["stats"]:
        name = statistic["name"]
        mean = statistic.get("mean")
        if mean is not None and not name.get("perturbation"):
            means[name["name"]] = float(mean)
    return means


def _marks_beside(path: Path) -> Marks:
    """Marks of the instances in a file beside another; none if there is no such file."""
    marks: dict[str, float] = {}
    marks_file = path.with_name(MARKS_FILE)
    if marks_file == path or not marks_file.is_file():
        return marks
    for entry in SourceFile(marks_file).records:
        means = _means(entry)
        if "exact_match" in means:
            marks[Instance.of(entry).id] = means["exact_match"]
    return marks


def _check_mark(path: Path, instance: Instance, correct: float, marks: Marks) -> None:
    """Raise DataError for an outcome that its mark contradicts."""
    mark = marks.get(instance.id, correct)
    if mark != correct:
        raise DataError(
            f"{path}: instance {instance.id}: {MARKS_FILE} has exact_match {mark:g}, the"
            f" answer here {correct:g}; do the files belong together?"
        )
