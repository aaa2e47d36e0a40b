"""Log-probabilities of tokens, as servers with an OpenAI interface return them: the best few of every position."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import Archive, remark
from calcli.importers.import_request import ImportRequest
from calcli.importers.positions import reduced
from calcli.importers.records import value_column
from calcli.numerics import AnyArray, FloatArray

UNLIKELY = -9999.0
"""What servers write for a token of which they know no log-probability."""


NO_LOGPROBS = "has no token log-probabilities; ask the server for them with logprobs=true"


@dataclass(frozen=True)
class Position:
    """One token of an answer: its text, its log-probability (natural), and those of the best tokens there."""

    token: str
    logprob: float
    top: Mapping[str, float]


@dataclass(frozen=True)
class Answer:
    """One response. id : of the row, "" when there is none. more : per-row values by name (labels, group)."""

    where: str
    id: str
    text: str
    positions: Sequence[Position]
    more: Mapping[str, Any] = field(default_factory=dict)


def positions_of(logprobs: Any, where: str) -> list[Position]:
    """The positions of ``choices[i].logprobs``: chat (``content``) or legacy (``tokens``, columns). Raises DataError.

    Entries without a log-probability, or with -9999, count as not listed.
    """
    if not isinstance(logprobs, Mapping):
        return []
    try:
        if logprobs.get("content"):
            found = []
            for entry in logprobs["content"]:
                top = {str(other["token"]): float(other["logprob"]) for other in entry.get("top_logprobs") or []}
                found.append(_position(entry["token"], entry["logprob"], top))
        else:
            tokens = logprobs.get("tokens") or []
            tops = logprobs.get("top_logprobs") or [None] * len(tokens)
            columns = zip(tokens, logprobs.get("token_logprobs") or [], tops, strict=True)
            found = [_position(token, lp, dict(top or {})) for token, lp, top in columns if lp is not None]
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise DataError(f"{where}: logprobs are not as servers write them: {problem!r}") from None
    return found


def _position(token: Any, logprob: Any, top: dict[str, float]) -> Position:
    known = {str(t): float(lp) for t, lp in {**top, str(token): float(logprob)}.items()}
    if any(lp > 1e-6 or lp != lp for lp in known.values()):
        raise ValueError(f"a log-probability above 0 at {token!r}")
    return Position(str(token), float(logprob), {t: lp for t, lp in known.items() if lp > UNLIKELY})


def answers_archive(path: Path, format: str, answers: Sequence[Answer], ask: ImportRequest) -> Archive:
    """The arrays that the answers hold.

    With ``--class-names`` logits (n, classes): of each class the log-probability of its token
    where the answer names a class; spaces and, where it is clear, case aside, tokens of one
    class are added. A class that is not among the listed tokens gets its upper bound: the
    smallest log-probability listed there, or all that the listed ones leave where that is
    less. Without it ``answer`` and ``confidence``: the exponential of the token
    log-probabilities, summed (``--reduce sum``), their mean, least or first.
    """
    if ask.reduce == "none":
        raise UsageError("--reduce none: a row per token needs a truth per token, which responses do not have")
    kept, arrays = list(answers), dict[str, Any]()
    if ask.class_names and not ask.confidence:
        kept, rows = _class_rows(path, answers, ask.class_names)
        arrays = {"logits": rows, "class_names": np.array(ask.class_names)}
    else:
        how = ask.reduce or "sum"
        arrays["answer"] = np.array([answer.text.strip() for answer in kept], dtype="U")
        if lacking := next((answer for answer in kept if not answer.positions), None):
            raise DataError(f"{lacking.where}: {NO_LOGPROBS}")
        logprobs = (np.array([position.logprob for position in answer.positions]) for answer in kept)
        arrays["confidence"] = np.array([exp(min(reduced(each, how), 0.0)) for each in logprobs])
        remark(f"{path.name}: 'confidence' is the exponential of the answer's token log-probabilities ({how})")
    if all(answer.id for answer in kept):
        arrays["ids"] = np.array([answer.id for answer in kept], dtype="U")
        if len(np.unique(arrays["ids"])) < len(kept):  # asked several times, as in epochs
            arrays["unit"] = arrays["ids"]
    for name in dict.fromkeys(name for answer in kept for name in answer.more):
        arrays[name] = value_column(path, name, [answer.more.get(name) for answer in kept]).load()
    return Archive.held(path, format, arrays)


def _class_rows(path: Path, answers: Sequence[Answer], names: Sequence[str]) -> tuple[list[Answer], AnyArray]:
    """The answers that list a class, and their log-probabilities (n, classes)."""
    index = by_token(names)
    rows, kept, missing = [], [], 0
    for answer in answers:
        place = _place(answer, index)
        if place is None:
            continue
        found, absent = of_classes(answer.positions[place].top, index, len(names))
        missing += absent > 0
        rows.append(found)
        kept.append(answer)
    if len(kept) * 2 < len(answers) or not kept:
        seen = dict.fromkeys(p.token for a in answers[:50] for p in a.positions[:1])
        raise DataError(
            f"{path}: {len(answers) - len(kept)} of {len(answers)} answers list none of the classes"
            f" {', '.join(names)}; they begin with {', '.join(map(repr, list(seen)[:6]))}: name the classes as the"
            " tokens are written with --class-names, or take --confidence confidence --correct answer=gold --gold FILE"
        )
    remark(
        f"{path.name}: logits are the log-probabilities of {', '.join(names)} where the answer names one of them;"
        f" {missing} of {len(kept)} rows lack a class among the tokens listed, which got its upper bound"
    )
    if len(kept) < len(answers):
        remark(f"{path.name}: {len(answers) - len(kept)} of {len(answers)} answers list no class: left out")
    return kept, np.array(rows)


def of_classes(top: Mapping[str, float], index: Mapping[str, int], k: int) -> tuple[FloatArray, int]:
    """Log-probabilities (k,) of classes among the tokens listed, those of one class added, and how many are not listed.

    index : classes by token (see ``by_token``). A class that is not listed gets its upper bound: the least that is
    listed, or all that the listed ones leave where that is less; where none is, all are -inf.
    """
    found = np.full(k, -np.inf)
    known = {token: min(lp, 0.0) for token, lp in top.items() if lp > UNLIKELY}
    for token, lp in known.items():
        if (c := index.get(_bare(token))) is not None:
            found[c] = np.logaddexp(found[c], lp)
    absent = np.isneginf(found)
    if absent.any() and not absent.all():
        rest = 1.0 - sum(map(exp, known.values()))
        found[absent] = min(min(known.values()), log(rest) if rest > 0 else 0.0)
    return found, int(absent.sum())


def _bare(token: str) -> str:
    return token.strip(" \t\r\n\u0120\u2581")  # tokenizers write the space before a word as these


def by_token(names: Sequence[str]) -> dict[str, int]:
    """Classes by token; in other cases too where that leaves no doubt."""
    index = {_bare(name): c for c, name in enumerate(names)}
    for change in (str.lower, str.upper, str.capitalize):
        forms = [change(_bare(name)) for name in names]
        for c, form in enumerate(forms):
            if forms.count(form) == 1:
                index.setdefault(form, c)
    return index


def _place(answer: Answer, index: Mapping[str, int]) -> int | None:
    """The position at which the answer names its class; None when none does and none lists one."""
    if not answer.positions:
        raise DataError(f"{answer.where}: {NO_LOGPROBS} and top_logprobs=20")
    named = [i for i, position in enumerate(answer.positions) if _bare(position.token) in index]
    if len({index[_bare(answer.positions[i].token)] for i in named}) > 1 and named[0] > 0:
        said = ", ".join(repr(answer.positions[i].token) for i in named[:4])
        raise DataError(
            f"{answer.where}: names several classes ({said}) after other words; let the model answer with the class"
            " alone, or first"
        )
    if named:
        return named[0]
    listing = (i for i, position in enumerate(answer.positions) if any(_bare(t) in index for t in position.top))
    return next(listing, None)
