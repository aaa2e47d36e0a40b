"""What lm-evaluation-harness 0.3 and earlier writes with --write_out: *_write_out_info.json."""

import re
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from calcli.errors import DataError
from calcli.importers.archive import Archive
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.multiple_choice import Question, agrees, check_logged, choice_archive
from calcli.importers.source_file import SourceFile


@reader(
    "lm-eval-write-out",
    "*_write_out_info.json of lm-evaluation-harness 0.3 and earlier: log-likelihoods of the choices",
    suffixes=[".json", ".jsonl"],
    sniff=lambda file: bool(file.records) and {"logit_0", "truth"} <= file.records[0].keys(),
    order=5,
    examples=[("hellaswag_write_out_info.json", "")],
)
def read_write_out(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Read logit_0, logit_1, …, the log-likelihoods of the choices, as logits; the gold from truth.

    truth is the choice's index, or its text, with which its prompt ends; whichever agrees
    with the logged acc. Raises DataError for tasks without choices and rows that contradict acc.
    """
    path, questions = file.path, []
    if ask.normalize != "none":
        raise DataError(f"{path}: does not keep choices apart from prompts, which --normalize {ask.normalize} needs")
    for row, record in enumerate(file.records):
        where, scores = f"{path}: row {row}", _scores(record)
        if len(scores) < 2:
            raise DataError(f"{where}: has {len(scores)} log-likelihoods, expected one per choice")
        logged = record.get("acc")
        right = None if logged is None else float(logged)
        golds = _golds(record, len(scores))
        if len(set(golds)) > 1 and right is not None:
            golds = [gold for gold in golds if agrees(scores, gold, right)]
        if len(set(golds)) != 1:
            beside = "" if logged is None else f" (acc {logged})"
            told = "names no choice" if not golds else f"may be choice {' or '.join(map(str, dict.fromkeys(golds)))}"
            raise DataError(f"{where}: truth {record['truth']!r} {told}{beside}")
        check_logged(where, scores, golds[0], right, "acc")
        questions.append(Question(record.get("doc_id", row), scores, golds[0]))
    task = re.sub(r"_write_out_info$", "", path.stem)
    note = f"{path.name}: logits are logit_0, logit_1, … (log-likelihoods), labels from truth; acc agrees where logged"
    return choice_archive(path, "lm-eval-write-out", questions, task, ask, [note])


def _scores(record: Mapping[str, Any]) -> list[float]:
    """logit_0, logit_1, …, each a number, a pair with is_greedy, or either as text."""
    found: list[float] = []
    while (value := record.get(f"logit_{len(found)}")) is not None:
        if isinstance(value, list):
            value = value[0] if value else ""
        try:
            found.append(float(str(value).strip("()[] ").partition(",")[0]))
        except ValueError:
            return []
    return found


def _golds(record: Mapping[str, Any], k: int) -> list[int]:
    """Choices that truth may mean: an index, or the text that a prompt ends with."""
    truth = record["truth"]
    if isinstance(truth, int) and 0 <= truth < k:
        return [truth]
    text = str(truth).rstrip()
    ends = [i for i in range(k) if text.strip() and str(record.get(f"prompt_{i}", "")).rstrip().endswith(text)]
    index = [int(text)] if text.strip().isdigit() and int(text) < k else []
    return ends + index
