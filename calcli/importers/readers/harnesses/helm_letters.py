"""Runs of HELM in which the model answers with the letter of a reference."""

from collections.abc import Sequence
from math import exp
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.gold_choices import check_mark
from calcli.importers.outcomes import Outcome, table_of_outcomes
from calcli.importers.readers.harnesses.helm_stats import (
    EXACT_MATCH,
    MARKS_FILE,
    Instance,
    marks_beside,
    refuse_zeros,
)
from calcli.importers.remarks import remark_left_out
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
    for state in with_result(file):
        if not state.get("output_mapping"):
            method = (file.json.get("adapter_spec") or {}).get("method") or "its method"
            raise DataError(f"{path}: {method} has no choices; take {MARKS_FILE}")
        instance = Instance.of(state)
        outcome = _outcome(state, instance)
        where = f"{path}: instance {instance.id}"
        check_mark(where, EXACT_MATCH, marks.get(instance.id), outcome.is_right)
        outcomes.append(outcome)
    refuse_zeros(path, outcomes)
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


def with_result(file: SourceFile) -> list[Record]:
    """The requests of a run that have a result. Raises DataError if there is none."""
    states = file.json["request_states"]
    answered = [state for state in states if state.get("result")]
    if not answered:
        raise DataError(
            f"{file.path}: has no request with a result; is the run complete?"
        )
    n_left_out = len(states) - len(answered)
    remark_left_out(file.path.name, n_left_out, len(states), "requests have no result")
    return answered


def right_references(references: Sequence[Record]) -> list[int]:
    """Places of the references that are tagged correct."""
    places = []
    for place, reference in enumerate(references):
        if "correct" in (reference.get("tags") or []):
            places.append(place)
    return places
