"""Files of EleutherAI's lm-evaluation-harness.

Samples of 0.4.0 and later, and the write-out of 0.3 and earlier.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from calcli.errors import DataError, UsageError
from calcli.importers.formats import reader
from calcli.importers.questions import (
    Question,
    agrees,
    check_logged,
    log_likelihoods,
    logged_measure,
    normalised,
    question_id,
    shown,
    table_of_questions,
)
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table
from calcli.numerics import whole_number

TASK = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d\d-\d\dT.*")
LOGIT = re.compile(r"logit_\d+")
PROMPT = re.compile(r"prompt_\d+")
MEASURES = {
    "none": "acc",
    "sum": "acc",
    "chars": "acc_norm",
    "bytes": "acc_bytes",
    "mutual": "acc_mutual_info",
}
"""Measure that the harness computes for each normalisation."""

HOW = {"none": "", "sum": "", "mutual": " minus the unconditional ones"}
"""Normalisations in words that are no size of the choice."""


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
def read_lm_eval(file: SourceFile) -> Table:
    """Read the log-likelihood of every choice as logits, and the gold choice.

    The ids are doc_id, the group is the task. The gold is the target, as an index or a
    choice's text (winogrande: the answer in the doc, counted from 1), whichever agrees
    with the logged acc in every row. Raises DataError for tasks without choices and
    rows that contradict their acc.
    """
    path = file.path
    request = file.request
    samples = []
    wanted = _filter(file)
    for row, record in enumerate(file.records):
        if _filter_of(record) == wanted:
            samples.append(_sample(record, f"{path}: row {row}"))
    gold = _gold_choices(samples)
    questions = []
    for sample, choice in zip(samples, gold.choices, strict=True):
        questions.append(_question(sample, choice, request.normalize))
    check = "no acc was logged to check with"
    if samples[0].logged("acc") is not None:
        check = "acc agrees in every row"
    how = HOW.get(request.normalize, f" per {request.normalize[:-1]}")
    remark(
        f"{path.name}: logits are the log-likelihoods{how} of the choices, labels"
        f" {gold.rule}; {check}"
    )
    match = TASK.fullmatch(path.stem)
    task = path.stem if match is None else match["task"]
    return table_of_questions(path, "lm-eval", questions, task, request)


def _filter_of(record: Record) -> str:
    return str(record.get("filter", "none"))


def _filter(file: SourceFile) -> str:
    """The filter whose rows are read: the only one, or as requested."""
    names = list(dict.fromkeys(map(_filter_of, file.records)))
    if file.request.filter in names:
        return str(file.request.filter)
    if file.request.filter is None and len(names) == 1:
        return names[0]
    raise UsageError(
        f"{file.path}: has every question once per filter; take one: --filter"
        f" {' or '.join(names)}"
    )


@dataclass(frozen=True)
class Sample:
    """One line of the file: log-likelihoods and texts of its choices.

    texts : of the choices; none if they are not logged. unconditional :
    log-likelihoods without the question, None if not logged.
    """

    record: Record
    id: Any
    where: str
    likelihoods: list[float]
    texts: list[str]
    unconditional: list[float] | None

    def logged(self, measure: str) -> float | None:
        """A measure that the harness logged; None for another or none."""
        value = self.record.get(measure)
        return float(value) if isinstance(value, int | float) else None


def _sample(record: Record, row: str) -> Sample:
    """Parse one line. Raises DataError for tasks without choices."""
    for name in ("doc_id", "filtered_resps"):
        if name not in record:
            raise DataError(f"{row}: has no {name}, which other lines have")
    doc_id = question_id(record["doc_id"], f"{row}: doc_id")
    where = f"{row} (doc_id {doc_id})"
    likelihoods = _likelihoods(record["filtered_resps"], where)
    requests = _requests(record.get("arguments") or [])
    if requests and len(requests) != len(likelihoods):
        raise DataError(
            f"{where}: has {len(likelihoods)} filtered_resps for {len(requests)}"
            " arguments, expected one each; is the line complete?"
        )
    unconditional = None
    if _is_doubled(requests):
        half = len(requests) // 2
        unconditional = likelihoods[half:]
        likelihoods = likelihoods[:half]
        requests = requests[:half]
    texts = [str(choice).removeprefix(" ") for _, choice in requests]
    return Sample(record, doc_id, where, likelihoods, texts, unconditional)


def _likelihoods(responses: Any, where: str) -> list[float]:
    """The log-likelihood of every choice. Raises DataError for other responses."""
    if not isinstance(responses, list) or not all(map(_is_pair, responses)):
        raise DataError(
            f"{where}: holds generated text or one number, expected a log-likelihood"
            " per choice"
        )
    if len(responses) < 2:
        raise DataError(
            f"{where}: has no filtered_resps or one candidate only, expected several to"
            " choose from"
        )
    return log_likelihoods([value for value, _ in responses], where)


def _is_pair(response: Any) -> bool:
    return isinstance(response, list) and len(response) == 2


def _requests(arguments: Any) -> list[tuple[Any, Any]]:
    """Context and choice of every request, in either layout."""
    items = arguments.values() if isinstance(arguments, dict) else arguments
    requests = []
    for item in items:
        if isinstance(item, dict):
            requests.append((item.get("arg_0"), item.get("arg_1")))
        else:
            context, choice = tuple(item)[:2]
            requests.append((context, choice))
    return requests


def _is_doubled(requests: Sequence[tuple[Any, Any]]) -> bool:
    """True where every choice is requested again without the question.

    That is how acc_mutual_info is computed.
    """
    half = len(requests) // 2
    if len(requests) % 2 or half < 2:
        return False
    first, again = requests[:half], requests[half:]
    if [choice for _, choice in first] != [choice for _, choice in again]:
        return False
    return not any(str(context) for context, _ in again)


def _question(sample: Sample, gold: int, normalize: str) -> Question:
    """The question of a sample, whose gold choice agrees with what was logged."""
    likelihoods = sample.likelihoods
    scores = normalised(
        sample.where, normalize, likelihoods, sample.texts, sample.unconditional
    )
    check_logged(sample.where, likelihoods, gold, sample.logged("acc"), "acc")
    measure = MEASURES[normalize]
    check_logged(sample.where, scores, gold, sample.logged(measure), measure)
    return Question(sample.id, scores, gold)


@dataclass(frozen=True)
class Gold:
    """Gold choices of all samples, and the rule by which they were read."""

    choices: list[int]
    rule: str


OF_DOC = "the doc's answer, counted from 1"


def _choices_by_rule(sample: Sample) -> dict[str, int]:
    """Gold choice by each rule that applies, the usual rules first."""
    target, doc = sample.record.get("target"), sample.record.get("doc")
    text = str(target).strip()
    choices: dict[str, int | None] = {}
    choices["the target as an index"] = _index(target)
    texts = list(map(str.strip, sample.texts))
    if texts.count(text) == 1:
        choices["the choice whose text is the target"] = texts.index(text)
    if re.fullmatch("[A-Z]", text):
        choices["the target's letter"] = ord(text) - ord("A")
    answer = whole_number(str(doc.get("answer"))) if isinstance(doc, dict) else None
    if answer is not None:
        choices[OF_DOC] = answer - 1
    possible = {}
    for rule, choice in choices.items():
        if choice is not None and 0 <= choice < len(sample.likelihoods):
            possible[rule] = choice
    return possible


def _index(target: Any) -> int | None:
    """A whole number, or the text of one; None for anything else."""
    if isinstance(target, str):
        return whole_number(target)
    is_whole = isinstance(target, int) and not isinstance(target, bool)
    return target if is_whole else None


def _gold_choices(samples: Sequence[Sample]) -> Gold:
    """Gold choices by the first rule that all questions and logged acc agree with."""
    by_rule = [_choices_by_rule(sample) for sample in samples]
    readings = []
    for rule in by_rule[0]:
        if all(rule in choices for choices in by_rule):
            readings.append(Gold([choices[rule] for choices in by_rule], rule))
    if not readings:
        raise _no_gold(samples, by_rule)
    agreeing = [gold for gold in readings if _agrees_with_log(gold, samples)]
    by_target = [gold for gold in agreeing if gold.rule != OF_DOC]
    if len({tuple(gold.choices) for gold in by_target}) > 1:
        rules = " or ".join(gold.rule for gold in by_target)
        raise DataError(
            f"{samples[0].where}: the gold may be {rules}, and the logged acc does not"
            " tell"
        )
    return (by_target or agreeing or readings)[0]


def _agrees_with_log(gold: Gold, samples: Sequence[Sample]) -> bool:
    pairs = zip(samples, gold.choices, strict=True)
    return all(
        agrees(sample.likelihoods, choice, sample.logged("acc"))
        for sample, choice in pairs
    )


def _no_gold(
    samples: Sequence[Sample], by_rule: Sequence[Mapping[str, int]]
) -> DataError:
    """Error about the first question whose target names no choice by the rule that
    applies to most questions.
    """
    times = Counter(chain.from_iterable(by_rule))
    place = 0
    if times:
        commonest = times.most_common(1)[0][0]
        place = [commonest in choices for choices in by_rule].index(False)
    sample = samples[place]
    target = sample.record.get("target")
    return DataError(
        f"{sample.where}: target {shown(target)} names no choice; expected an index"
        f" below {len(sample.likelihoods)}, or a choice's text"
    )


# ---- 0.3 and earlier, with --write_out


@reader(
    "lm-eval-write-out",
    "*_write_out_info.json of lm-evaluation-harness 0.3 and earlier: log-likelihoods of"
    " the choices",
    suffixes=[".json", ".jsonl"],
    sniff=lambda file: (
        bool(file.records) and {"logit_0", "truth"} <= file.records[0].keys()
    ),
    order=5,
    examples=[("hellaswag_write_out_info.json", "")],
)
def read_write_out(file: SourceFile) -> Table:
    """Read logit_0, logit_1, …, the log-likelihoods of the choices, as logits.

    The gold is truth, the choice's index or its text, with which its prompt ends;
    whichever agrees with the logged acc. Raises DataError for tasks without choices and
    rows that contradict acc.
    """
    path = file.path
    request = file.request
    if request.normalize not in ("none", "sum"):
        raise DataError(
            f"{path}: does not keep choices apart from prompts, which --normalize"
            f" {request.normalize} needs"
        )
    questions = []
    for row, record in enumerate(file.records):
        questions.append(_question_of_write_out(record, row, f"{path}: row {row}"))
    task = path.stem.removesuffix("_write_out_info")
    remark(
        f"{path.name}: logits are logit_0, logit_1, … (log-likelihoods), labels from"
        " truth; acc agrees where logged"
    )
    return table_of_questions(path, "lm-eval-write-out", questions, task, request)


def _question_of_write_out(record: Record, row: int, where: str) -> Question:
    scores = _numbered_logits(record)
    _check_complete(record, scores, where)
    acc = logged_measure(record.get("acc"))
    choices = _choices_of_truth(record, len(scores))
    if len(choices) > 1:
        choices = [choice for choice in choices if agrees(scores, choice, acc)]
    if len(choices) != 1:
        message = "names no choice"
        if choices:
            message = f"may be choice {' or '.join(map(str, choices))}"
        logged = "" if acc is None else f" (acc {acc})"
        raise DataError(f"{where}: truth {shown(record['truth'])} {message}{logged}")
    check_logged(where, scores, choices[0], acc, "acc")
    doc_id = question_id(record.get("doc_id", row), f"{where}: doc_id")
    return Question(doc_id, scores, choices[0])


def _check_complete(record: Record, scores: Sequence[float], where: str) -> None:
    """Refuse a line with fewer than two choices, or of which some lack a part."""
    n_logits = sum(LOGIT.fullmatch(name) is not None for name in record)
    n_prompts = sum(PROMPT.fullmatch(name) is not None for name in record)
    if len(scores) < 2:
        raise DataError(
            f"{where}: has {len(scores)} log-likelihoods, expected one per choice"
        )
    if len(scores) != n_logits or n_prompts not in (0, n_logits):
        raise DataError(
            f"{where}: has {len(scores)} numbers of {n_logits} logits, {n_prompts}"
            " prompts; is the line complete?"
        )


def _numbered_logits(record: Record) -> list[float]:
    """Values of logit_0, logit_1, …; none where one is no number.

    Each is a number, a pair with is_greedy, or either as text.
    """
    logits: list[float] = []
    while record.get(f"logit_{len(logits)}") is not None:
        text = str(record[f"logit_{len(logits)}"]).strip("()[] ")
        try:
            logits.append(float(text.partition(",")[0].strip("'")))
        except ValueError:
            return []
    return logits


def _choices_of_truth(record: Record, k: int) -> list[int]:
    """Choices that truth may denote: by index, or by the text that ends a prompt."""
    truth = record["truth"]
    if isinstance(truth, int) and 0 <= truth < k:
        return [truth]
    text = str(truth).rstrip()
    choices = []
    for choice in range(k):
        prompt = str(record.get(f"prompt_{choice}", "")).rstrip()
        if text.strip() and prompt.endswith(text):
            choices.append(choice)
    if text.strip().isdigit() and int(text) < k and int(text) not in choices:
        choices.append(int(text))
    return choices
