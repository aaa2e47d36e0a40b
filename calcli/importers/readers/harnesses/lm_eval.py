"""Files of EleutherAI's lm-evaluation-harness: samples (0.4.0 and later), and the write-out of 0.3 and earlier."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import count, takewhile
from typing import Any

from calcli.errors import DataError, UsageError
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.questions import (
    Question,
    agrees,
    check_logged,
    log_likelihood,
    normalised,
    question_id,
    table_of_questions,
)
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.numerics import whole_number

TASK = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d\d-\d\dT.*")
MEASURES = {
    "none": "acc",
    "sum": "acc",
    "chars": "acc_norm",
    "bytes": "acc_bytes",
    "mutual": "acc_mutual_info",
}
"""Measure that the harness computes for each normalisation."""


@reader(
    "lm-eval",
    "samples_*.jsonl of lm-evaluation-harness: log-likelihoods of the choices",
    suffixes=[".jsonl", ".json"],
    sniff=lambda file: (
        bool(file.records) and {"doc_id", "filtered_resps"} <= file.records[0].keys()
    ),
    order=5,
    examples=[
        ("samples_mmlu_2025-01-01.jsonl", ""),
        ("samples_hellaswag_2025-01-01.jsonl", "--normalize chars"),
        ("samples_*.jsonl", "--join --choices 4"),
    ],
)
def read_lm_eval(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Table:
    """Read the log-likelihood of every choice as logits, the gold choice, doc_id as ids, the task as group. The gold is
    the target, as an index or a choice's text (winogrande: the answer in the doc, counted from 1), whichever agrees
    with the logged acc in every row. Raises DataError for tasks without choices and rows that contradict their acc."""
    path = file.path
    match = TASK.fullmatch(path.stem)
    filters = [str(record.get("filter", "none")) for record in file.records]
    names = list(dict.fromkeys(filters))
    if len(names) > 1 if ask.filter is None else ask.filter not in names:
        raise UsageError(
            f"{path}: has every question once per filter; take one: --filter {' or '.join(names)}"
        )
    parsed = []
    for row, (record, name) in enumerate(zip(file.records, filters, strict=True)):
        if name == (ask.filter or names[0]):
            parsed.append(_Sample(f"{path}: row {row}", record))
    golds, rule = _golds(parsed)
    questions = []
    for sample, gold in zip(parsed, golds, strict=True):
        scores = normalised(
            sample.where, ask.normalize, sample.lls, sample.texts, sample.unconditional
        )
        for measure, by in (("acc", sample.lls), (MEASURES[ask.normalize], scores)):
            check_logged(sample.where, by, gold, sample.logged(measure), measure)
        questions.append(Question(sample.id, scores, gold))
    told = (
        "acc agrees in every row"
        if parsed[0].logged("acc") is not None
        else "no acc was logged to check with"
    )
    how = {"none": "", "sum": "", "mutual": " minus the unconditional ones"}.get(
        ask.normalize, f" per {ask.normalize[:-1]}"
    )
    remark(
        f"{path.name}: logits are the log-likelihoods{how} of the choices, labels {rule}; {told}"
    )
    return table_of_questions(
        path, "lm-eval", questions, match["task"] if match else path.stem, ask
    )


class _Sample:
    """One line of the file: log-likelihoods and texts of its choices."""

    def __init__(self, row: str, record: dict[str, Any]) -> None:
        self.record = record
        self.id = question_id(record["doc_id"], f"{row}: doc_id")
        self.where = where = f"{row} (doc_id {self.id})"
        responses = record["filtered_resps"]
        if not isinstance(responses, list) or not all(
            isinstance(one, list) and len(one) == 2 for one in responses
        ):
            raise DataError(
                f"{where}: holds generated text or one number, expected a log-likelihood per choice"
            )
        if len(responses) < 2:
            raise DataError(
                f"{where}: has no filtered_resps or one candidate only, expected several to choose from"
            )
        lls = [
            log_likelihood(response[0], f"{where}: log-likelihood of choice {choice}")
            for choice, response in enumerate(responses)
        ]
        arguments = record.get("arguments") or []
        pairs = list(arguments.values()) if isinstance(arguments, dict) else arguments
        pairs = [
            (p.get("arg_0"), p.get("arg_1")) if isinstance(p, dict) else tuple(p)[:2]
            for p in pairs
        ]
        k = len(lls)
        half = k // 2
        doubled = (
            k % 2 == 0
            and len(pairs) == k
            and [p[1] for p in pairs[:half]] == [p[1] for p in pairs[half:]]
        )
        # acc_mutual_info requests every choice again without the question
        doubled = (
            doubled and half > 1 and all(not str(pair[0]) for pair in pairs[half:])
        )
        self.unconditional = lls[half:] if doubled else None
        self.lls = lls[:half] if doubled else lls
        self.texts = (
            [str(pair[1]).removeprefix(" ") for pair in pairs[: len(self.lls)]]
            if len(pairs) == k
            else []
        )

    def logged(self, measure: str) -> float | None:
        value = self.record.get(measure)
        return float(value) if isinstance(value, (int, float)) else None


OF_DOC = "the doc's answer, counted from 1"


def _read(sample: _Sample) -> dict[str, int]:
    """Gold choice by each rule that applies."""
    target, doc = sample.record.get("target"), sample.record.get("doc")
    text = str(target).strip()
    index = whole_number(target) if isinstance(target, str) else target
    answer = whole_number(str(doc.get("answer"))) if isinstance(doc, dict) else None
    places = [
        place for place, choice in enumerate(sample.texts) if choice.strip() == text
    ]
    read = {
        "the target as an index": index
        if isinstance(index, int) and not isinstance(index, bool)
        else None,
        "the choice whose text is the target": places[0] if len(places) == 1 else None,
        "the target's letter": ord(text) - ord("A")
        if re.fullmatch("[A-Z]", text)
        else None,
        OF_DOC: None if answer is None else answer - 1,
    }
    return {
        rule: gold
        for rule, gold in read.items()
        if gold is not None and 0 <= gold < len(sample.lls)
    }


def _golds(samples: Sequence[_Sample]) -> tuple[list[int], str]:
    """Gold choices by the first rule that applies to every question and agrees with every logged acc; and the rule."""
    read = [_read(sample) for sample in samples]
    readings = [
        ([each[rule] for each in read], rule)
        for rule in read[0]
        if all(rule in each for each in read)
    ]
    if not readings:
        raise _no_gold(samples, read)
    accs = [(sample.lls, sample.logged("acc")) for sample in samples]
    agreeing = [
        r
        for r in readings
        if all(agrees(lls, g, acc) for g, (lls, acc) in zip(r[0], accs, strict=True))
    ]
    by_target = [reading for reading in agreeing if reading[1] != OF_DOC]
    if len({tuple(golds) for golds, _ in by_target}) > 1:
        told = " or ".join(name for _, name in by_target)
        raise DataError(
            f"{samples[0].where}: the gold may be {told}, and the logged acc does not tell"
        )
    return (by_target or agreeing or readings)[0]


def _no_gold(
    samples: Sequence[_Sample], read: Sequence[Mapping[str, int]]
) -> DataError:
    """Error about the first question whose target names no choice by the rule that
    applies to most questions."""
    times = Counter(rule for each in read for rule in each)
    if times:
        common = times.most_common(1)[0][0]
        place = next(i for i, each in enumerate(read) if common not in each)
    else:
        place = 0
    sample = samples[place]
    told = f"target {sample.record.get('target')!r} names no choice"
    expected = f"expected an index below {len(sample.lls)}, or a choice's text"
    return DataError(f"{sample.where}: {told}; {expected}")


# ---- 0.3 and earlier, with --write_out


@reader(
    "lm-eval-write-out",
    "*_write_out_info.json of lm-evaluation-harness 0.3 and earlier: log-likelihoods of the choices",
    suffixes=[".json", ".jsonl"],
    sniff=lambda file: (
        bool(file.records) and {"logit_0", "truth"} <= file.records[0].keys()
    ),
    order=5,
    examples=[("hellaswag_write_out_info.json", "")],
)
def read_write_out(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Table:
    """Read logit_0, logit_1, …, the log-likelihoods of the choices, as logits; the gold from truth, the choice's index
    or its text, with which its prompt ends; whichever agrees with the logged acc. Raises DataError for tasks without
    choices and rows that contradict acc."""
    path, questions = file.path, []
    if ask.normalize not in ("none", "sum"):
        raise DataError(
            f"{path}: does not keep choices apart from prompts, which --normalize {ask.normalize} needs"
        )
    for row, record in enumerate(file.records):
        where, scores = f"{path}: row {row}", _numbered_logits(record)
        if len(scores) < 2:
            raise DataError(
                f"{where}: has {len(scores)} log-likelihoods, expected one per choice"
            )
        logged = record.get("acc")
        right = None if logged is None else float(logged)
        golds = _golds_of_truth(record, len(scores))
        if len(golds) > 1:
            golds = [gold for gold in golds if agrees(scores, gold, right)]
        if len(golds) != 1:
            told = (
                f"may be choice {' or '.join(map(str, golds))}"
                if golds
                else "names no choice"
            )
            raise DataError(
                f"{where}: truth {record['truth']!r} {told}{'' if logged is None else f' (acc {logged})'}"
            )
        check_logged(where, scores, golds[0], right, "acc")
        of = question_id(record.get("doc_id", row), f"{where}: doc_id")
        questions.append(Question(of, scores, golds[0]))
    task = re.sub(r"_write_out_info$", "", path.stem)
    remark(
        f"{path.name}: logits are logit_0, logit_1, … (log-likelihoods), labels from truth; acc agrees where logged"
    )
    return table_of_questions(path, "lm-eval-write-out", questions, task, ask)


def _numbered_logits(record: Mapping[str, Any]) -> list[float]:
    """Values of logit_0, logit_1, …, each a number, a pair with is_greedy, or either as text."""
    values = takewhile(
        lambda value: value is not None, (record.get(f"logit_{i}") for i in count())
    )
    with suppress(ValueError):
        return [
            float(str(value).strip("()[] ").partition(",")[0].strip("'"))
            for value in values
        ]
    return []


def _golds_of_truth(record: Mapping[str, Any], k: int) -> list[int]:
    """Choices that truth may denote, as an index or as the text at the end of a prompt."""
    truth = record["truth"]
    if isinstance(truth, int) and 0 <= truth < k:
        return [truth]
    text = str(truth).rstrip()
    ends = [
        i
        for i in range(k)
        if text.strip() and str(record.get(f"prompt_{i}", "")).rstrip().endswith(text)
    ]
    return list(
        dict.fromkeys(
            [*ends, *([int(text)] if text.strip().isdigit() and int(text) < k else [])]
        )
    )
