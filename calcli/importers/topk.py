"""Tables of the k best classes with their probabilities, as inference scripts write them."""

from collections.abc import Callable, Mapping, Sequence
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, UsageError
from calcli.importers.archive import remark
from calcli.importers.array_names import parse_name
from calcli.importers.columns import NUMBERED, Column
from calcli.importers.import_request import ImportRequest
from calcli.importers.token_logprobs import by_token, of_classes
from calcli.io.locate import natural
from calcli.io.validate import SUM_TOLERANCE
from calcli.numerics import AnyArray

SCORES = ("prob", "probs", "probability", "score", "scores", "p")
PLACES = ("index", "idx", "indices", "class_index", "class_idx", "class", "label", "pred", "class_name", "classes")
"""Stems of columns with the probability and the class of every rank, the surest names first."""


def ranked_columns(
    path: Path, columns: Mapping[str, Column], k: int, names: Sequence[str]
) -> tuple[dict[str, Callable[[], AnyArray]], set[str]]:
    """The array ``probs`` (n, k) of columns ``prob_0 …, index_0 …`` or lists: (loader, columns used up).

    k : how many classes there are. names : theirs, where ranks name classes in words. Raises
    UsageError for tables without ranks, DataError for ranks that are no top k of k classes.
    """
    scores, of_scores = _ranks(columns, SCORES)
    places, of_places = _ranks(columns, PLACES)
    if scores is None or places is None:
        logits = ", its logits do not say how much the others have" if _ranks(columns, ("logit",))[0] else ""
        raise UsageError(
            f"--classes {k}: {path} has no columns of ranks such as prob_0, index_0, prob_1, index_1, …{logits};"
            " have probabilities written"
        )
    p, index = scores(), _as_index(path, places(), names)
    if p.shape != index.shape:
        raise DataError(f"{path}: has probabilities of shape {p.shape}, classes of shape {index.shape}; expected equal")
    whole = spread(p, index, k, str(path))
    others = {name for name, column in columns.items() if column.kind == "lists" and name.lower() in PLACES}
    for stem in PLACES:
        others |= _ranks(columns, (stem,))[1]  # the same ranks by another name
    told = "ranks were put in the order of the classes"
    if p.shape[1] < k:
        left = f"{max(float((1 - p.sum(axis=1)).mean()), 0.0):.2%} on average"
        told = f"{p.shape[1]} of {k} classes are listed; what they leave ({left}) was spread evenly over the others"
    remark(f"{path.name}: {told}")
    return {"probs": lambda: whole}, of_scores | of_places | others


def spread(p: AnyArray, index: AnyArray, k: int, where: str) -> NDArray[np.float64]:
    """(n, k) probabilities of the ranked ones (n, r) of the classes index (n, r): the rest evenly over the others.

    Raises DataError for classes out of range or listed twice, for probabilities that are none,
    and where others would have more than the least listed: then k is not the number of classes.
    """
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
        raise DataError(
            f"{where}: row {row} leaves {rest[row]:.3g} to {k - r} classes, more than so many below its least,"
            f" {p[row].min():.3g}, can have; are there more than {k} classes, or are these not the best?"
        )
    whole = np.repeat(each[:, None], k, axis=1)
    np.put_along_axis(whole, index, p, axis=1)
    return whole / whole.sum(axis=1, keepdims=True)


SCORE_OF = {frozenset(("label", key)): key for key in ("score", "prob")}
"""Fields of a label with its score, and the field of the score."""


def named_scores(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows in which a list of ``{"label": …, "score": …}``, as a pipeline of transformers gives it, is two lists.

    BigQuery calls the second ``prob``. So are the ``labels`` and ``scores`` of the zero-shot pipeline.
    """
    made = []
    for row in rows:
        words, scores = (row[key] if isinstance(row.get(key), list) else [] for key in ("labels", "scores"))
        named = all(isinstance(word, str) for word in words) and all(isinstance(score, float) for score in scores)
        if named and len(words) == len(scores) > 1:
            rest = {key: cell for key, cell in row.items() if key not in ("labels", "scores")}
            made.append({**rest, "probs": scores, "class_name": words})
            continue
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


def _ranks(columns: Mapping[str, Column], stems: Sequence[str]) -> tuple[Callable[[], AnyArray] | None, set[str]]:
    """The first stem of which there are lists, or a column per rank, and the columns that make it."""
    for stem in stems:
        if stem in columns and columns[stem].kind == "lists":
            return columns[stem].load, {stem}
        numbered = {}
        for name in columns:
            match = NUMBERED.fullmatch(name)
            if match and match["stem"].lower().rstrip("_-. ") == stem:
                numbered[int(match["number"])] = name
        if len(numbered) > 1:
            names = [numbered[number] for number in sorted(numbered)]
            return lambda names=names: np.stack([columns[name].load() for name in names], axis=1), set(names)
    return None, set()


def _as_index(path: Path, places: AnyArray, names: Sequence[str]) -> NDArray[np.int64]:
    if places.dtype.kind in "iuf" and (places == np.floor(places)).all():
        return places.astype(np.int64)
    index = {name: c for c, name in enumerate(names)}
    words = [[str(word) for word in row] for row in places.tolist()]
    strange = next((word for row in words for word in row if word not in index), None)
    if strange is not None:
        raise UsageError(f"{path}: ranks are named in words ({strange!r}, …); name all classes: --class-names A,B,…")
    return np.array([[index[word] for word in row] for row in words], dtype=np.int64)


def listed_logprobs(rows: Sequence[Mapping[str, Any]], ask: ImportRequest, where: str) -> list[dict[str, Any]]:
    """Rows whose log-probabilities by name, ``{"logprobs": {"A": -0.1, …}}``, are of the best few tokens, as classes.

    What is listed makes log-probabilities of classes as ``of_classes`` says. The rest is of other tokens: the classes
    are divided by their sum. The classes are those of ``--class-names``, else all that are listed
    where they are the same in every row, or where the labels or the alphabet know them. Raises UsageError otherwise.
    """
    made = [dict(row) for row in rows]
    for key in [
        key for key, cell in made[0].items() if parse_name(key).kind == "log_probs" and isinstance(cell, Mapping)
    ]:
        cells = [row.get(key) for row in made]
        if not all(isinstance(cell, Mapping) and cell and all(map(_is_real, cell.values())) for cell in cells):
            continue
        listed = [{str(token): float(lp) for token, lp in cell.items()} for cell in cells if isinstance(cell, Mapping)]
        sums = [sum(exp(min(lp, 0.0)) for lp in each.values()) for each in listed]
        same = all(each.keys() == listed[0].keys() for each in listed)
        if same and all(abs(total - 1) <= SUM_TOLERANCE for total in sums):
            continue  # the log-probabilities of all there is
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
        remark(
            f"{where}: {key!r} sums to less than 1: {rest:.2%} on average is of other tokens and was left out, and the"
            f" classes {', '.join(list(names)[:6])}{', …' if len(names) > 6 else ''} divided by their sum{bounded}"
        )
    return made


def _classes_of(listed: Sequence[Mapping[str, float]], rows: Sequence[Mapping[str, Any]], where: str) -> list[str]:
    named = [dict.fromkeys(token.strip() for token in each) for each in listed]
    every = sorted({name for each in named for name in each}, key=natural)
    if all(len(each) == len(every) for each in named):
        return list(named[0])
    truths = {str(cell).strip() for row in rows for key, cell in row.items() if parse_name(key).role == "labels"}
    letters = [chr(ord("A") + i) for i in range(26)]
    if truths <= set(every) and (truths == set(every) or set(every) <= set(letters)):
        return every
    odd = next((name for name in every if name not in truths), every[0])
    raise UsageError(f"{where} lists {odd!r} and others in some rows only; which are the classes? --class-names A,B,…")


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
