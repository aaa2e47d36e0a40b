"""Runs of HELM in which the model answers with the letter of a reference."""

from math import exp
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.harness_logs.gold_choices import check_mark
from calcli.importers.harness_logs.helm_runs import (
    EXACT_MATCH,
    MARKS_FILE,
    Instance,
    answered_requests,
    marks_beside,
    refuse_all_certain,
    right_references,
)
from calcli.importers.harness_logs.outcomes import Outcome, table_of_outcomes
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table


def _asks_for_letters(file: SourceFile) -> bool:
    """True for a run whose requests are for no reference of their own."""
    states = next(iter(file.records), {}).get("request_states")
    return isinstance(states, list) and all(map(_has_no_reference, states))


def _has_no_reference(state: Any) -> bool:
    return isinstance(state, dict) and state.get("reference_index") is None


@reader(
    "helm-letters",
    "runs of HELM, multiple_choice_joint: the probability of the letter that was given",
    suffixes=[".json"],
    sniff=_asks_for_letters,
    order=3,
    examples=[
        ("runs/v1/mmlu:subject=philosophy,method=multiple_choice_joint", ""),
    ],
)
def read_helm_letters(file: SourceFile) -> Table:
    """Read the probability of the generated letter, and whether its reference is right.

    Marks in per_instance_stats.json beside the file are compared with every row.
    """
    path = file.path
    marks = marks_beside(path)
    outcomes = []
    for state in answered_requests(file):
        if not state.get("output_mapping"):
            method = (file.json.get("adapter_spec") or {}).get("method") or "its method"
            raise DataError(f"{path}: {method} has no choices; take {MARKS_FILE}")
        instance = Instance.of(state)
        outcome = _outcome(state, instance)
        where = f"{path}: instance {instance.id}"
        check_mark(where, EXACT_MATCH, marks.get(instance.id), outcome.is_right)
        outcomes.append(outcome)
    refuse_all_certain(path, outcomes)
    return table_of_outcomes(path, "helm-letters", outcomes)


def _outcome(state: Record, instance: Instance) -> Outcome:
    """The answer to a request, right if its letter is that of a correct reference."""
    completion = state["result"]["completions"][0]
    text = state["output_mapping"].get(str(completion["text"]).strip())
    references = state["instance"]["references"]
    right_texts = []
    for place in right_references(references):
        right_texts.append(references[place]["output"]["text"])
    is_right = text in right_texts
    confidence = exp(min(float(completion["logprob"]), 0.0))
    return Outcome(instance.id, instance.asked, confidence, is_right)
