"""Top-k probabilities: of tokens, as servers with an OpenAI interface log them, and of classes in tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from math import exp, log
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import Archive, Entry, remark
from calcli.importers.array_names import parse_name
from calcli.importers.columns import NUMBERED, Columns
from calcli.importers.import_request import ImportRequest
from calcli.importers.nested import kind_of_cell, value_column
from calcli.importers.positions import reduced
from calcli.io.cells import words
from calcli.io.locate import natural
from calcli.io.validate import SUM_TOLERANCE
from calcli.numerics import AnyArray, FloatArray

UNLIKELY = -9999.0  # logged by servers for a token without a known log-probability
NO_LOGPROBS = "has no token log-probabilities; ask the server for them with logprobs=true"


@dataclass(frozen=True)
class Position:
    """One token of an answer: its text, its log-probability (natural), and those of the top tokens at its position."""

    token: str
    logprob: float
    top: Mapping[str, float]


@dataclass(frozen=True)
class Answer:
    """One response. id : of the row, or None. more : values of further columns by
    name (labels, group)."""

    where: str
    id: str | None
    text: str
    positions: Sequence[Position]
    more: Mapping[str, Any] = field(default_factory=dict)


def positions_of(logprobs: Any, where: str) -> list[Position]:
    """Parse ``choices[i].logprobs``: of chats (``content``) or legacy (``tokens``, …: columns). Raises DataError."""
    if not isinstance(logprobs, Mapping):
        return []
    try:
        if content := logprobs.get("content"):
            tops = [
                {other["token"]: other["logprob"] for other in entry.get("top_logprobs") or []} for entry in content
            ]
            columns = [(entry["token"], entry["logprob"], top) for entry, top in zip(content, tops, strict=True)]
        else:
            tokens = logprobs.get("tokens") or []
            tops = logprobs.get("top_logprobs") or [None] * len(tokens)
            columns = list(zip(tokens, logprobs.get("token_logprobs") or [], tops, strict=True))
        return [_position(token, lp, dict(top or {})) for token, lp, top in columns if lp is not None]
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise DataError(f"{where}: logprobs are not as servers write them: {problem!r}") from None


def _position(token: Any, logprob: Any, top: dict[str, float]) -> Position:
    known = {str(t): float(lp) for t, lp in {**top, str(token): float(logprob)}.items()}
    if any(lp > 1e-6 or lp != lp for lp in known.values()):
        raise ValueError(f"a log-probability above 0 at {token!r}")
    return Position(str(token), float(logprob), {t: lp for t, lp in known.items() if lp > UNLIKELY})


def answers_archive(path: Path, format: str, answers: Sequence[Answer], ask: ImportRequest) -> Archive:
    """Arrays of the answers. With ``--class-names``: logits (n, classes), the log-probability of each class's token at
    the position where the answer names a class (see ``of_classes``). Without: ``answer`` and ``confidence``, the
    exponential of the sum of the token log-probabilities, or by ``--reduce`` of their mean, least or first."""
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
    ids = [answer.id for answer in kept if answer.id is not None]
    if len(ids) == len(kept):
        arrays["ids"] = words(ids)
        if len(set(ids)) < len(ids):  # repeated questions, as in epochs
            arrays["unit"] = arrays["ids"]
    archive = Archive.held(path, format, arrays)
    entries = dict(archive.entries)
    for name in dict.fromkeys(name for answer in kept for name in answer.more):
        column = value_column(path, name, [answer.more.get(name) for answer in kept])
        entries[name] = Entry(path, name, column.load, written=column.written)
    return replace(archive, entries=entries)


def _class_rows(path: Path, answers: Sequence[Answer], names: Sequence[str]) -> tuple[list[Answer], AnyArray]:
    """Answers whose tokens list a class, and their log-probabilities (n, classes). Raises DataError if few do."""
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
        begin = list(dict.fromkeys(repr(p.token) for a in answers[:50] for p in a.positions[:1]))
        told = f"answers list none of the classes {', '.join(names)}; they begin with {', '.join(begin[:6])}: name them"
        advice = "with --class-names, or take --confidence confidence --correct answer=gold --gold FILE"
        raise DataError(f"{path}: {len(answers) - len(kept)} of {len(answers)} {told} {advice}")
    told = f"{path.name}: logits are the log-probabilities of {', '.join(names)} where the answer names one of them;"
    remark(f"{told} {missing} of {len(kept)} rows lack a class among the tokens listed, which got its upper bound")
    if len(kept) < len(answers):
        remark(f"{path.name}: {len(answers) - len(kept)} of {len(answers)} answers list no class: left out")
    return kept, np.array(rows)


def of_classes(top: Mapping[str, float], index: Mapping[str, int], k: int) -> tuple[FloatArray, int]:
    """Log-probabilities (k,) of classes from the listed tokens (summed within a class); number of unlisted ones.
    index : class by token (see ``by_token``). An unlisted class gets its upper bound: the smaller of the least listed
    probability and of the remaining mass. If no class is listed, all are -inf."""
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
    return token.strip(" \t\r\n\u0120\u2581")  # with the tokenizers' signs for a leading space


def by_token(names: Sequence[str]) -> dict[str, int]:
    """Class index by token, also in lower, upper and title case where unambiguous."""
    index = {_bare(name): c for c, name in enumerate(names)}
    for change in (str.lower, str.upper, str.capitalize):
        forms = [change(_bare(name)) for name in names]
        for c, form in enumerate(forms):
            if forms.count(form) == 1:
                index.setdefault(form, c)
    return index


def _place(answer: Answer, index: Mapping[str, int]) -> int | None:
    """Index of the position that names a class, else of the first that lists one; None if none. Raises DataError."""
    if not answer.positions:
        raise DataError(f"{answer.where}: {NO_LOGPROBS} and top_logprobs=20")
    named = [i for i, position in enumerate(answer.positions) if _bare(position.token) in index]
    if len({index[_bare(answer.positions[i].token)] for i in named}) > 1 and named[0] > 0:
        said = ", ".join(repr(answer.positions[i].token) for i in named[:4])
        raise DataError(f"{answer.where}: names several classes ({said}) after other words; have it answer one alone")
    if named:
        return named[0]
    listing = (i for i, position in enumerate(answer.positions) if any(_bare(t) in index for t in position.top))
    return next(listing, None)


# ---- tables of the top k classes


SCORES = ("prob", "probs", "probability", "score", "scores", "p")
PLACES = ("index", "idx", "indices", "class_index", "class_idx", "class", "label", "pred", "class_name", "classes")
"""Stems of columns with the probability and the class of every rank, the least ambiguous first."""


def ranked_columns(path: Path, columns: Columns, k: int, names: Sequence[str]) -> tuple[AnyArray, set[str]]:
    """Array ``probs`` (n, k) from columns ``prob_0 …, index_0 …`` or lists, and the columns used. names : of the k
    classes. Raises UsageError for tables without ranks, DataError for invalid ranks (see ``spread``)."""
    scores, of_scores = _ranks(columns, SCORES)
    places, of_places = _ranks(columns, PLACES)
    if scores is None or places is None:
        advice = "have probabilities written, logits do not say how much the others have"
        raise UsageError(f"--classes {k}: {path} has no columns of ranks such as prob_0, index_0, prob_1, …; {advice}")
    p, index = scores(), _as_index(path, places(), names)
    if p.shape != index.shape:
        raise DataError(f"{path}: has probabilities of shape {p.shape}, classes of shape {index.shape}; expected equal")
    whole = spread(p, index, k, str(path))
    others = {name for name, column in columns.items() if column.kind == "lists" and name.lower() in PLACES}
    others = others.union(*(_ranks(columns, (stem,))[1] for stem in PLACES))  # repetitions of the ranks
    told = "ranks were put in the order of the classes"
    if p.shape[1] < k:
        left = f"{max(float((1 - p.sum(axis=1)).mean()), 0.0):.2%} on average"
        told = f"{p.shape[1]} of {k} classes are listed; what they leave ({left}) was spread evenly over the others"
    remark(f"{path.name}: {told}")
    return whole, of_scores | of_places | others


def spread(p: AnyArray, index: AnyArray, k: int, where: str) -> NDArray[np.float64]:
    """Probabilities (n, k) from those of ranks, p (n, r) of classes index (n, r); the rest is spread evenly over the
    other classes. Raises DataError for classes out of range or listed twice, for invalid probabilities, and where an
    unlisted class would exceed the least listed one: then k is not the number of classes."""
    r = p.shape[1]
    if r > k or index.min() < 0 or index.max() >= k:
        raise DataError(f"{where}: lists class {int(index.max())} among {r} of a row, expected classes 0 to {k - 1}")
    twice = (np.diff(np.sort(index, axis=1), axis=1) == 0).any(axis=1)
    if twice.any():
        raise DataError(f"{where}: row {int(np.argmax(twice))} lists a class twice")
    p = p.astype(np.float64)
    rest = 1.0 - p.sum(axis=1)
    bad = (p < 0).any(axis=1) | ~(rest >= -SUM_TOLERANCE) | ((r == k) & (np.abs(rest) > SUM_TOLERANCE))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{where}: the probabilities of row {row} sum to {1 - rest[row]:g}, expected probabilities")
    each = np.maximum(rest, 0.0) / max(k - r, 1)
    above = each > p.min(axis=1) + SUM_TOLERANCE
    if r < k and above.any():
        row = int(np.argmax(above))
        told = f"its least, {p[row].min():.3g}, can have: are there more than {k} classes?"
        raise DataError(f"{where}: row {row} leaves {rest[row]:.3g} to {k - r} classes, more than so many below {told}")
    whole = np.repeat(each[:, None], k, axis=1)
    np.put_along_axis(whole, index, p, axis=1)
    return whole / whole.sum(axis=1, keepdims=True)


SCORE_OF = {frozenset(("label", key)): key for key in ("score", "prob")}
"""Keys of an object with a label and its score -> the key of the score."""


def named_scores(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Replace lists of ``{"label": …, "score": …}`` (pipelines of transformers; BigQuery: ``prob``), and ``labels`` and
    ``scores`` of the zero-shot pipeline, by two lists in each row: ``probs`` and ``class_name``."""
    made = []
    for row in rows:
        words, scores = (row[key] if isinstance(row.get(key), list) else [] for key in ("labels", "scores"))
        if len(words) == len(scores) > 1 and {*map(type, words)} == {str} and {*map(type, scores)} == {float}:
            pairs = [{"label": word, "score": score} for word, score in zip(words, scores, strict=True)]
            row = {key: cell for key, cell in row.items() if key != "labels"} | {"scores": pairs}
        flat: dict[str, Any] = {}
        for key, cell in row.items():
            if isinstance(cell, list) and cell and all(_is_pair(item) for item in cell):
                flat["probs"] = [item[SCORE_OF[frozenset(item)]] for item in cell]
                flat["class_name"] = [str(item["label"]) for item in cell]
            else:
                flat[key] = cell
        made.append(flat)
    return made


def _is_pair(item: Any) -> bool:
    key = SCORE_OF.get(frozenset(item)) if isinstance(item, dict) else None
    return key is not None and isinstance(item[key], (int, float))


def _ranks(columns: Columns, stems: Sequence[str]) -> tuple[Callable[[], AnyArray] | None, set[str]]:
    """Loader of the first of these stems that is a column of lists, or a column per rank, and the columns used."""
    for stem in stems:
        if stem in columns and columns[stem].kind == "lists":
            return columns[stem].load, {stem}
        found = [(name, match) for name in columns if (match := NUMBERED.fullmatch(name))]
        numbered = {int(m["number"]): name for name, m in found if m["stem"].lower().rstrip("_-. ") == stem}
        if len(numbered) > 1:
            names = [numbered[number] for number in sorted(numbered)]
            return lambda names=names: np.stack([columns[name].load() for name in names], axis=1), set(names)
    return None, set()


def _as_index(path: Path, places: AnyArray, names: Sequence[str]) -> NDArray[np.int64]:
    if places.dtype.kind in "iuf" and (places == np.floor(places)).all():
        return places.astype(np.int64)
    index = {name: c for c, name in enumerate(names)}
    try:
        return np.array([[index[str(word)] for word in row] for row in places.tolist()], dtype=np.int64)
    except KeyError as word:
        raise UsageError(f"{path}: ranks are named in words ({word}, …); name all classes: --class-names") from None


def listed_logprobs(rows: Sequence[Mapping[str, Any]], ask: ImportRequest, where: str) -> list[dict[str, Any]]:
    """Convert log-probabilities of top tokens, ``{"logprobs": {"A": -0.1, …}}``, to those of classes (``of_classes``),
    normalised. The classes are those of ``--class-names``, else all that are listed, if every row lists them, or they
    are the labels or letters of the alphabet. Raises UsageError otherwise, DataError for rows without a class."""
    made = [dict(row) for row in rows]
    keys = [key for key, cell in made[0].items() if parse_name(key).kind == "log_probs" and isinstance(cell, Mapping)]
    for key in keys:
        cells = [row.get(key) for row in made]
        if not all(
            isinstance(cell, Mapping) and cell and {*map(kind_of_cell, cell.values())} <= {"number"} for cell in cells
        ):
            continue
        listed = [{str(token): float(lp) for token, lp in cell.items()} for cell in cells if isinstance(cell, Mapping)]
        sums = [sum(exp(min(lp, 0.0)) for lp in each.values()) for each in listed]
        if all(each.keys() == listed[0].keys() for each in listed) and np.allclose(sums, 1, 0, SUM_TOLERANCE):
            continue  # already normalised over all classes
        names = ask.class_names or _classes_of(listed, made, f"{where}: {key!r}")
        index, absent, rest = by_token(names), 0, 0.0
        for row, p in zip(made, listed, strict=True):
            found, missing = of_classes(p, index, len(names))
            if missing == len(names):
                raise DataError(f"{where}: {key!r} of a row lists none of {', '.join(names)}, but {', '.join(p)}")
            norm = float(np.logaddexp.reduce(found))
            row[key] = dict(zip(names, (found - norm).tolist(), strict=True))
            absent += missing
            rest += max(1.0 - exp(norm), 0.0) / len(made)
        bounded = f"; {absent} times a class was not listed and got its upper bound" if absent else ""
        listing = f"{', '.join(list(names)[:6])}{', …' if len(names) > 6 else ''}"
        told = f"{rest:.2%} on average is of other tokens and was left out, and the classes {listing} divided by their"
        remark(f"{where}: {key!r} sums to less than 1: {told} sum{bounded}")
    return made


def _classes_of(listed: Sequence[Mapping[str, float]], rows: Sequence[Mapping[str, Any]], where: str) -> list[str]:
    named = [dict.fromkeys(token.strip() for token in each) for each in listed]
    every = sorted({name for each in named for name in each}, key=natural)
    if all(len(each) == len(every) for each in named):
        return list(named[0])
    truths = {str(cell).strip() for row in rows for key, cell in row.items() if parse_name(key).role == "labels"}
    if truths <= set(every) and (truths == set(every) or set(every) <= set(ascii_uppercase)):
        return every
    odd = next((name for name in every if name not in truths), every[0])
    raise UsageError(f"{where} lists {odd!r} and others in some rows only; which are the classes? --class-names A,B,…")
