"""Runs of HELM with a request for every reference: scenario_state.json."""

from operator import itemgetter

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.harness_logs.gold_choices import check_mark, only_one
from calcli.importers.harness_logs.helm_runs import (
    ALL_ZERO,
    EXACT_MATCH,
    Instance,
    answered_requests,
    marks_beside,
    right_references,
)
from calcli.importers.harness_logs.question_tables import table_of_questions
from calcli.importers.harness_logs.questions import Choices, Question
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table

Requests = dict[tuple[int, str], Record]
"""Requests of an instance by reference and mode."""


@reader(
    "helm",
    "runs of HELM, multiple_choice_separate_*: a folder or its scenario_state.json",
    suffixes=[".json"],
    sniff=lambda file: "request_states" in next(iter(file.records), {}),
    order=4,
    examples=[
        (
            "runs/v1/mmlu:subject=philosophy,method=multiple_choice_separate_original",
            "",
        ),
        ("scenario_state.json", ""),
    ],
)
def read_helm(file: SourceFile) -> Table:
    """Read the score of every reference as logits, and which one is tagged correct.

    It is the log-probability per token of its text, as HELM compares them, of
    _calibrated less that without the question. Marks in per_instance_stats.json beside
    the file are compared with every row.
    """
    requests_of: dict[Instance, Requests] = {}
    for state in answered_requests(file):
        mode = state.get("request_mode") or "original"
        requests = requests_of.setdefault(Instance.of(state), {})
        requests[state["reference_index"], mode] = state
    marks = marks_beside(file.path)
    questions = []
    for instance, requests in requests_of.items():
        where = f"{file.path}: instance {instance.id}"
        questions.append(_question(instance, requests, marks.get(instance.id), where))
    if not any(any(question.choices.likelihoods) for question in questions):
        raise DataError(f"{file.path}: {ALL_ZERO}")
    task = file.path.parent.name or "helm"
    scores = "log-probabilities per token"
    return table_of_questions(file, "helm", questions, task, scores)


def _question(
    instance: Instance, requests: Requests, mark: float | None, where: str
) -> Question:
    """The question of the requests for all references of an instance."""
    references = next(iter(requests.values()))["instance"]["references"]
    gold = only_one(right_references(references), where, "references tagged correct")
    scores = []
    for place in range(len(references)):
        if (place, "original") not in requests:
            raise DataError(
                f"{where}: has no request for reference {place}; is the run complete?"
            )
        score = _per_token(requests[place, "original"], where)
        if (place, "calibration") in requests:
            score -= _per_token(requests[place, "calibration"], where)
        scores.append(score)
    if scores.count(max(scores)) == 1:
        check_mark(where, EXACT_MATCH, mark, scores[gold] == max(scores))
    golds = {"the reference tagged correct": gold}
    return Question(where, instance.id, Choices(scores), golds, of=instance.asked)


def _per_token(state: Record, where: str) -> float:
    """Mean log-probability of the tokens at the end that are the reference's text."""
    place = state["reference_index"]
    text = state["instance"]["references"][place]["output"]["text"].strip()
    tokens = state["result"]["completions"][0]["tokens"]
    joined = ""
    for count, token in enumerate(reversed(tokens), start=1):
        joined = token["text"] + joined
        if joined.strip() == text:
            return sum(map(itemgetter("logprob"), tokens[-count:])) / count
    raise DataError(f"{where}: the last tokens are not the text of reference {place}")
