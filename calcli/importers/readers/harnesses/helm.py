"""Runs of HELM: scenario_state.json, and per_instance_stats.json beside it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.questions import Question, table_of_questions
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table

State = Mapping[str, Any]
ALL_ZERO = "every log-probability is 0, as of Hugging Face's client, which divides by 1e-7; run HELM with temperature=1"


@reader(
    "helm",
    "runs of HELM: a folder, its scenario_state.json, or per_instance_stats.json",
    suffixes=[".json"],
    sniff=lambda file: any(
        {"request_states"} <= one.keys() or {"instance_id", "stats"} <= one.keys()
        for one in file.records[:1]
    ),
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
def read_helm(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Table:
    """Read a score of every reference where each was asked for by itself: the log-probability per token of its text, as
    HELM compares them, of _calibrated less that without the question. Else (confidence, correct): the probability of
    the letter that was generated, or max_prob and exact_match. Marks in per_instance_stats.json beside
    scenario_state.json are compared with every row."""
    path = file.path
    if isinstance(file.json, list):
        rows = [(entry, _stats(entry)) for entry in file.json]
        if not all({"max_prob", "exact_match"} <= stats.keys() for _, stats in rows):
            raise DataError(
                f"{path}: has no max_prob and exact_match of every instance; take scenario_state.json"
            )
        return _confidences(
            path,
            [(entry, stats["max_prob"], stats["exact_match"]) for entry, stats in rows],
        )
    states = [state for state in file.json["request_states"] if state.get("result")]
    method = (file.json.get("adapter_spec") or {}).get("method") or ""
    marks = _marks(path)
    if any(state.get("reference_index") is not None for state in states):
        questions = list(_separate(path, states, marks))
        if all(value == 0 for question in questions for value in question.scores):
            raise DataError(f"{path}: {ALL_ZERO}")
        remark(
            f"{path.name}: logits are log-probabilities per token of the references, labels those tagged correct"
        )
        return table_of_questions(
            path, "helm", questions, path.parent.name or "helm", ask
        )
    if not all(state.get("output_mapping") for state in states):
        raise DataError(
            f"{path}: {method or 'its method'} has no choices; take per_instance_stats.json"
        )
    return _confidences(path, [_joint(path, state, marks) for state in states])


def _confidences(path: Path, rows: Sequence[tuple[State, float, float]]) -> Table:
    """Archive of entries with confidence and mark; later trials and perturbations of an instance are its unit."""
    entries, confidence, correct = zip(*rows, strict=True)
    asked = [str(entry["instance_id"]) for entry in entries]
    if all(value == 1 for value in confidence):
        raise DataError(f"{path}: {ALL_ZERO}")
    if not set(correct) <= {0, 1}:
        raise DataError(
            f"{path}: exact_match is {next(v for v in correct if v not in (0, 1))}, expected 0 or 1"
        )
    arrays = {
        "confidence": np.array(confidence),
        "correct": np.array(correct, dtype=np.int64),
    }
    arrays["ids"] = np.array(list(map(_instance_id, entries)))
    arrays |= {"unit": np.array(asked)} if len(set(asked)) < len(asked) else {}
    remark(
        f"{path.name}: confidence is the probability of the answer that was given, correct its mark"
    )
    return Table.held(path, "helm", arrays)


def _joint(
    path: Path, state: State, marks: Mapping[str, float]
) -> tuple[State, float, float]:
    """(entry, probability of the generated letter, 1.0 if its reference is right else 0.0)."""
    entry, completion = _entry_of(state), state["result"]["completions"][0]
    text = state["output_mapping"].get(str(completion["text"]).strip())
    right = float(
        any(
            _is_correct(ref) and ref["output"]["text"] == text
            for ref in state["instance"]["references"]
        )
    )
    _check_mark(path, _instance_id(entry), marks, right)
    return entry, exp(min(float(completion["logprob"]), 0.0)), right


def _separate(
    path: Path, states: Sequence[State], marks: Mapping[str, float]
) -> Iterator[Question]:
    """One question per instance, trial and perturbation, from one request per reference."""
    grouped: dict[str, dict[tuple[int, str], State]] = {}
    for state in states:
        mode = state.get("request_mode") or "original"
        grouped.setdefault(_instance_id(_entry_of(state)), {})[
            state["reference_index"], mode
        ] = state
    for id, requests in grouped.items():
        where, instance = (
            f"{path}: instance {id}",
            next(iter(requests.values()))["instance"],
        )
        references = instance["references"]
        gold = [i for i, reference in enumerate(references) if _is_correct(reference)]
        if len(gold) != 1:
            raise DataError(
                f"{where}: has {len(gold)} references tagged correct, expected one"
            )
        scores = []
        for i in range(len(references)):
            if (i, "original") not in requests:
                raise DataError(
                    f"{where}: has no request for reference {i}; is the run complete?"
                )
            score = _per_token(where, requests[i, "original"])
            if (i, "calibration") in requests:
                score -= _per_token(where, requests[i, "calibration"])
            scores.append(score)
        best = max(scores)
        if scores.count(best) == 1:
            _check_mark(path, id, marks, float(scores[gold[0]] == best))
        yield Question(id, scores, gold[0], str(instance.get("id")))


def _per_token(where: str, state: State) -> float:
    """Mean log-probability of the tokens at the end that make up the reference's text."""
    text = state["instance"]["references"][state["reference_index"]]["output"][
        "text"
    ].strip()
    tokens, joined = state["result"]["completions"][0]["tokens"], ""
    for count, token in enumerate(reversed(tokens), start=1):
        joined = token["text"] + joined
        if joined.strip() == text:
            return sum(t["logprob"] for t in tokens[-count:]) / count
    raise DataError(
        f"{where}: the last tokens are not the text of reference {state['reference_index']}"
    )


def _is_correct(reference: Mapping[str, Any]) -> bool:
    return "correct" in (reference.get("tags") or [])


def _entry_of(state: State) -> State:
    """Keys of a request as in per_instance_stats.json."""
    about, trial = state["instance"], state.get("train_trial_index")
    return {
        "instance_id": about.get("id"),
        "train_trial_index": trial,
        "perturbation": about.get("perturbation"),
    }


def _instance_id(entry: State) -> str:
    """Id of an instance; later trials and perturbations of it have ids of their own."""
    trial, changed = entry.get("train_trial_index"), entry.get("perturbation")
    parts = [
        str(entry["instance_id"]),
        f"trial {trial}" if trial else "",
        changed and changed.get("name", changed),
    ]
    return ", ".join(map(str, filter(None, parts)))


def _stats(entry: State) -> dict[str, float]:
    """Means by name of the statistics of unperturbed text."""
    named = [(s["name"], s.get("mean")) for s in entry["stats"]]
    return {
        n["name"]: float(mean)
        for n, mean in named
        if mean is not None and not n.get("perturbation")
    }


def _marks(path: Path) -> dict[str, float]:
    """exact_match by instance, from per_instance_stats.json beside this file; {} if it does not exist."""
    beside = path.with_name("per_instance_stats.json")
    if beside == path or not beside.is_file():
        return {}
    entries = SourceFile(beside).json
    stats = {
        _instance_id(entry): _stats(entry)
        for entry in entries
        if isinstance(entry, dict)
    }
    return {
        id: values["exact_match"]
        for id, values in stats.items()
        if "exact_match" in values
    }


def _check_mark(path: Path, id: str, marks: Mapping[str, float], right: float) -> None:
    if marks.get(id, right) != right:
        told = f"per_instance_stats.json has exact_match {marks[id]:g}, the answer here {right:g}"
        raise DataError(f"{path}: instance {id}: {told}; do the files belong together?")
