"""What was read of a log of decisions, in words."""

from calcli.decisions.answers import YES_NO
from calcli.decisions.labels import shown
from calcli.decisions.log import Log
from calcli.decisions.question_rows import QuestionRows
from calcli.decisions.wire_confidence import WORDS
from calcli.importers.decision_logs.logs import DecisionLog
from calcli.importers.remarks import remark
from calcli.number_words import noun

MOST_DESCRIBED = 6
"""Questions that are described one by one."""

LONGEST_NAME = 60


def short(name: str) -> str:
    """A name that is not too long for a line."""
    if len(name) <= LONGEST_NAME:
        return name
    return name[: LONGEST_NAME - 1] + "…"


def remark_log(read: DecisionLog) -> None:
    """Say what a log holds: records, questions, labels, rows left out, models."""
    log, plan = read.log, read.log.plan
    some = [_about_question(rows) for rows in log.questions[:MOST_DESCRIBED]]
    n_more = len(log.questions) - MOST_DESCRIBED
    if n_more > 0:
        some.append(f"and {n_more} more {noun(n_more, 'question')}")
    where = read.path.name
    records = noun(plan.n_records, "record")
    remark(f"{where}: {plan.n_records} {records} of decisions: {'; '.join(some)}")
    fields = set()
    for reading in plan.labels.values():
        how = " (by index)" if reading.by_index else ""
        fields.add(repr(f"{shown(reading.field)}{how}"))
    if fields:
        listing = ", ".join(sorted(fields)[:MOST_DESCRIBED])
        remark(f"{where}: labels are {listing}")
    for rows in log.questions:
        _warn_of_unlisted_options(rows, where)
    _remark_confidence(log, where)
    if len(plan.models) > 1:
        counts = [f"{short(model)} ({number})" for model, number in plan.models.items()]
        remark(
            f"warning: {where}: {len(plan.models)} models: {', '.join(counts)};"
            " --group-by model shows each, fit them one by one"
        )
    offered = [name for name in log.groups if name.rpartition(".")[2] != "model"]
    if offered:
        listing = ", ".join(map(short, offered[:MOST_DESCRIBED]))
        remark(f"{where}: groups? --group-by takes {listing}")


def _about_question(rows: QuestionRows) -> str:
    """A few words on a question: type, options, rows, what was left out."""
    about = str(rows.type)
    if rows.n and rows.classes is None:
        least, most = int(rows.n_options.min()), int(rows.n_options.max())
        sizes = str(least) if least == most else f"{least} to {most}"
        about += f" of {sizes} options that differ"
    elif rows.n and rows.type != YES_NO:
        about += f" of {rows.n_options.max()}"
    parts = [about, f"{rows.n} {noun(rows.n, 'row')}"]
    for reason, number in rows.left_out.items():
        parts.append(f"{number} {reason} left out")
    if rows.unlisted:
        parts.append(f"such as {short(next(iter(rows.unlisted)))!r}")
    return f"{short(rows.name)} ({', '.join(parts)})"


def _warn_of_unlisted_options(rows: QuestionRows, where: str) -> None:
    """Warn of answers that lack the right option, as probabilities of 0 may do."""
    n = rows.n_unlisted_options
    if n:
        remark(
            f"warning: {where}: {short(rows.name)}: rows left out because they do not"
            f" list their label, which is an option of other rows: {n}; does the log"
            " lack options of probability 0? Without these wrong answers the accuracy"
            " is too high; write all options"
        )


def _remark_confidence(log: Log, where: str) -> None:
    """Say what the field ``confidence`` is, by the formula that all rows prove."""
    formulas: dict[str, list[str]] = {}
    for rows in log.questions:
        if rows.proof is not None:
            formula = rows.proof.formula
            words = "in no known way" if formula is None else WORDS[formula]
            formulas.setdefault(words, []).append(rows.name)
    parts = []
    for words, questions in formulas.items():
        listing = ", ".join(map(short, questions[:MOST_DESCRIBED]))
        parts.append(f"{listing}: {words}")
    if parts:
        remark(
            f"{where}: 'confidence' is no probability of being right, but computed"
            f" from the distribution ({'; '.join(parts)})"
        )
