"""Validation of scores, labels and weights, shared by all readers and writers.

Every problem is a DataError that names file, dataset, first bad row, the value found
and expected, and a remedy.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calcli.errors import InvalidRows
from calcli.io.row_facts import HUGE, copies, cut_off, unwritten
from calcli.numerics import AnyArray, BoolArray, FloatArray, IntArray, log_normalizer
from calcli.rounding import SUM_TOLERANCE, digits_of_values, float_type
from calcli.rows import SCORE_KINDS, Rows, ScoreKind
from calcli.zeros import Zeros

IF_LOGITS = "if these are logits, name the dataset logits or pass --kind logits"
AS_LOGITS = ("--kind", "logits")
DIVIDED = ("--normalize", "sum")

SHARE_OF_MIXED = 0.1
FEWEST_MIXED = 10
"""Proportion of rows that are probabilities, and number of rows, from which on others
are no logits."""

MOST_SHRUNK = 500
"""Factor of compression beyond which larger arrays are refused."""

SMALL = 64 << 20
"""Bytes up to which an array may be compressed by any factor."""


def refuse_bomb(
    where: object,
    declared: int,
    stored: int,
    advice: str = "save it without compression",
) -> None:
    """Raise DataError for data compressed more than any scores are: few stored bytes
    that would fill the memory.
    """
    if declared > SMALL and declared > MOST_SHRUNK * stored:
        raise InvalidRows(
            f"{where}: declares {declared} bytes of which {stored} are stored, far more"
            f" than scores shrink by; was it cut off? If it is meant, {advice}"
        )


def check_confidences(confidence: AnyArray, where: str, first_row: int = 0) -> AnyArray:
    """Check a block of confidences, (b,) or (b, 1) numbers in [0, 1].

    Returns (b, 1).
    """
    column = confidence.reshape(-1)
    inside = (column >= 0) & (column <= 1)  # NaN is neither
    if not inside.all():
        row = int(np.argmin(inside))
        advice = "drop the row or correct what made it"
        option = ""
        if _are_percentages(column):
            option = "--percent"
            advice = "divide percentages by 100 (calcli extract --percent)"
        elif np.isnan(column[row]):
            option = "--drop-missing"
            advice = (
                "drop the row (calcli extract --drop-missing) or correct what made it"
            )
        raise InvalidRows(
            f"{where}: row {first_row + row} is {column[row]:g}, expected a confidence"
            f" in [0, 1]; {advice}",
            option=option.split(),
        )
    return column[:, None]


def _are_percentages(values: AnyArray) -> bool:
    return bool(values.min() >= 0 and 20 < values.max() <= 100)


def check_correct(correct: AnyArray, n: int, where: str) -> IntArray:
    """Check the correctness of n answers: (n,) bool, or numbers 0 and 1.

    Returns (n,) int64.
    """
    if correct.dtype.kind not in "biuf" or correct.shape != (n,):
        raise InvalidRows(
            f"{where}: has type {correct.dtype} and shape {correct.shape}, expected"
            f" bool or 0/1, ({n},)"
        )
    bad = (correct != 0) & (correct != 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidRows(
            f"{where}: row {row} is {correct[row]:g}, expected 1 (right) or 0 (wrong);"
            " drop or correct the row"
        )
    return correct.astype(np.int64)


def score_kind(text: str, *, confidence: bool = False) -> ScoreKind:
    """Check the name of a score kind.

    Raises DataError for any but the three, and ``confidence`` if allowed.
    """
    known = (*SCORE_KINDS, "confidence") if confidence else SCORE_KINDS
    if text not in known:
        raise InvalidRows(
            f"score kind {text!r} is not known, expected one of {', '.join(known)}"
        )
    return text  # type: ignore[return-value]


def check_type(dtype: np.dtype[Any], where: str) -> None:
    """Check the type of a score array.

    Raises DataError for all but float16, float32 and float64.
    """
    if dtype.kind != "f" or dtype.itemsize > 8:
        hint = (
            "store the model's raw outputs, not class indices; scores rounded to"
            " integers: .astype('float32')"
        )
        if dtype.kind in "OUS":
            hint = (
                "words and objects are no scores; a cell of a table takes a list of"
                " numbers, [0.1, 0.9]"
            )
        elif dtype.kind == "f":
            hint = "save them with .astype('float64')"
        raise InvalidRows(
            f"{where}: scores have type {dtype}, expected float16, float32 or float64;"
            f" {hint}"
        )


def check_shape(
    shape: tuple[int, ...] | None, dtype: np.dtype[Any], where: str
) -> tuple[int, int]:
    """Return rows and classes of a score array, (n, k), or (n,) / (n, 1) for binary
    scores. Raises DataError.
    """
    check_type(dtype, where)
    if shape is None or len(shape) not in (1, 2):
        raise InvalidRows(
            f"{where}: scores have shape {shape}, expected (rows, classes), or (rows,)"
            " for a binary model; store one row of scores per labelled item"
        )
    n, columns = (*shape, 1)[:2]
    if n == 0:
        raise InvalidRows(
            f"{where}: there are no rows, expected at least one; was what made it"
            " interrupted?"
        )
    if columns == 0:
        raise InvalidRows(
            f"{where}: scores have shape {shape}, expected at least one column"
        )
    return n, max(columns, 2)


class MissingScore(InvalidRows):
    """A score is NaN."""


@np.errstate(over="ignore", invalid="ignore")  # sums of corrupted bytes may do either
def check_scores(
    scores: AnyArray,
    kind: ScoreKind,
    where: str,
    first_row: int = 0,
    zeros: Zeros | None = None,
) -> AnyArray:
    """Check a block of scores and give binary scores their two columns.

    scores : (b, k), or (b,) / (b, 1) for a binary model's score of class 1: a logit z
    becomes (0, z), a probability p becomes (1 - p, p). Returns (b, k) in the precision
    of the input (binary probabilities in float64, so that 1 - p keeps its digits). Rows
    with logits beyond ``HUGE`` are returned as gaps to their largest, cut there. zeros
    : with the last digit of probabilities, where it is known.
    """
    if scores.dtype == np.float16:  # by its bits: arithmetic in float16 is slow
        finite = not (
            (np.ascontiguousarray(scores).view(np.uint16) & 0x7C00) == 0x7C00
        ).any()
    else:
        # A sum of large finite numbers may overflow too.
        finite = np.isfinite(scores.sum())
    if not finite:
        wide = scores.reshape(len(scores), -1)
        bad = np.argwhere(~np.isfinite(wide))
        if len(bad):
            row, column = bad[0]
            value = wide[row, column]
            advice = "drop the row or fix the model's output"
            if kind == "log_probs" and value < 0:
                advice = "save probs instead, where a zero is allowed"
            if np.isnan(value):
                advice += "; calcli extract --drop-missing leaves blank rows out"
            message = (
                f"row {first_row + row}, class {column} is {value}, expected a finite"
                " number"
            )
            if np.isnan(value):
                raise MissingScore(
                    f"{where}: {message}; {advice}", option=["--drop-missing"]
                )
            raise InvalidRows(f"{where}: {message}; {advice}")
    if scores.ndim == 1 or scores.shape[1] == 1:
        return _binary(scores.reshape(-1), kind, where, first_row)
    if kind == "probs":
        if scores.min() < 0:
            row, column = np.argwhere(scores < 0)[0]
            contents = (
                f"row {first_row + row}, class {column} is {scores[row, column]:.6g}"
            )
            advice, option = _what_negatives_are(scores)
            raise InvalidRows(
                f"{where}: {contents}, expected a probability >= 0; {advice}",
                option=option,
            )
        _check_probability_sums(scores, where, first_row, zeros)
    elif kind == "log_probs":
        _check_log_probabilities(scores, where, first_row)
    elif scores.dtype.itemsize == 8 and max(scores.max(), -scores.min()) > HUGE:
        huge = np.flatnonzero((np.abs(scores) > HUGE).any(axis=1))
        scores = np.array(scores)
        scores[huge] = np.maximum(
            scores[huge] - scores[huge].max(axis=1, keepdims=True), -HUGE
        )
    return scores


def _binary(score: AnyArray, kind: ScoreKind, where: str, first_row: int) -> AnyArray:
    if kind == "logits":
        return np.stack([np.zeros_like(score), np.clip(score, -HUGE, HUGE)], axis=1)
    s = score.astype(np.float64)
    p = s
    if kind == "log_probs":
        p = np.exp(s)
    bad = (p < 0) | (p > 1 + SUM_TOLERANCE)
    if bad.any():
        row = int(np.argmax(bad))
        percent = kind == "probs" and _are_percentages(p)
        advice = IF_LOGITS
        option: Sequence[str] = AS_LOGITS
        if percent:
            advice = "divide percentages by 100 (calcli extract --percent)"
            option = ["--percent"]
        raise InvalidRows(
            f"{where}: row {first_row + row} gives class 1 the"
            f" probability {p[row]:.6g}, expected a number in [0, 1]; {advice}",
            option=option,
        )
    p = np.minimum(p, 1.0)
    both = np.stack([1.0 - p, p], axis=1)
    if kind == "probs":
        return both
    rest = np.log1p(-p, where=p < 1.0, out=np.empty_like(p))
    near = (p == 1.0) & (s < 0.0)
    certain = (p == 1.0) & (s >= 0.0)
    rest[near] = np.log(-np.expm1(s[near]))
    # A logarithm of exactly 0 was rounded, as a probability of exactly 0.
    rest[certain] = Zeros.of_type(score.dtype).log_of(np.zeros((1, 1))).item()
    return np.stack([rest, s], axis=1)


def _check_log_probabilities(scores: AnyArray, where: str, first_row: int) -> None:
    log_p = scores.astype(np.float64)
    norm = log_normalizer(log_p)
    rounding = np.zeros(1)
    if scores.dtype.itemsize == 2:
        # log p rounded to float16 moves p by up to 2^-11 |log p|, relatively: 0.0034
        # for 1 of 1000 classes.
        log_p -= norm[:, None]
        rounding = -(np.exp(log_p) * log_p).sum(axis=1) * 2.0**-11
    _check_sums(np.exp(np.minimum(norm, 700.0)), where, first_row, rounding)


def _check_sums(
    sums: FloatArray, where: str, first_row: int, rounding: FloatArray | float = 0.0
) -> None:
    """Check that rows of log-probabilities sum to 1. rounding : added tolerance."""
    off = np.abs(sums - 1.0) > SUM_TOLERANCE + rounding
    if off.any():
        raise _wrong_sum(
            sums, off, where, first_row, SUM_TOLERANCE, IF_LOGITS, AS_LOGITS
        )


def _check_probability_sums(
    scores: AnyArray, where: str, first_row: int, zeros: Zeros | None
) -> None:
    """Check that rows of probabilities sum to 1, up to what their rounding explains.

    zeros : with the last digit, where it is known; else these values say it.
    """
    sums = scores.sum(axis=1, dtype=np.float64)
    if (np.abs(sums - 1.0) <= SUM_TOLERANCE).all():
        return
    k = scores.shape[1]
    tolerance = tolerance_of(scores) if zeros is None else zeros.sum_tolerance(k)
    off = np.abs(sums - 1.0) > tolerance * (1.0 + 1e-6)
    if not off.any():
        return
    lowest = float(sums[off].min())
    highest = float(sums[off].max())
    advice = IF_LOGITS
    option: Sequence[str] = AS_LOGITS
    if sums[np.argmax(off)] == 0.0:
        advice = (
            "zeros only are no answer: leave such rows out"
            " (calcli extract --drop-missing)"
        )
        option = ["--drop-missing"]
    elif (np.abs(sums - 100.0) <= 1.0).all():
        advice = "these are percentages: divide them by 100 (calcli extract --percent)"
        option = ["--percent"]
    elif scores.max() <= 1:
        advice, option = _why_sums_differ(lowest, highest)
    elif len(sums) >= FEWEST_MIXED and np.ptp(sums) <= SUM_TOLERANCE * highest:
        advice = "every row has this sum: divide by it (calcli extract --normalize sum)"
        option = DIVIDED
    raise _wrong_sum(sums, off, where, first_row, tolerance, advice, option)


def _what_negatives_are(scores: AnyArray) -> tuple[str, Sequence[str]]:
    """Advice about numbers below 0 among probabilities, and the option that it names."""
    sums = scores.sum(axis=1, dtype=np.float64)
    is_row = (scores.min(axis=1) >= 0) & (np.abs(sums - 1.0) <= SUM_TOLERANCE)
    if is_row.mean() >= SHARE_OF_MIXED and len(scores) >= FEWEST_MIXED:
        count = f"{is_row.sum()} of {len(scores)} rows are probabilities"
        return f"{count}: are all of one kind?", ()
    return IF_LOGITS, AS_LOGITS


def _why_sums_differ(lowest: float, highest: float) -> tuple[str, Sequence[str]]:
    """Question about numbers in [0, 1] whose rows sum to these, which rounding does not
    explain, and the option that it names.
    """
    if highest < 1.0:
        return "is a class missing, or were numbers left out?", ()
    question = "does a column belong to no class, or is one missing?"
    if lowest > 1.0:
        question = (
            "are these answers to separate yes/no questions, or does a column belong to"
            " no class?"
        )
    advice = (
        f"{question} Labels of which several may hold take --per-label; answers for one"
        " label are divided by their sums (calcli extract --normalize sum)"
    )
    return advice, DIVIDED


def _wrong_sum(
    sums: FloatArray,
    off: BoolArray,
    where: str,
    first_row: int,
    tolerance: float,
    advice: str,
    option: Sequence[str],
) -> InvalidRows:
    row = int(np.argmax(off))
    contents = f"the probabilities of row {first_row + row} sum to {sums[row]:.6g}"
    return InvalidRows(
        f"{where}: {contents}, expected 1 within {tolerance:.3g}; {advice}",
        option=option,
    )


def fractions(percent: AnyArray, where: str) -> FloatArray:
    """Convert percentages to fractions in [0, 1].

    Raises DataError if all lie there already.
    """
    if percent.size and percent.min() >= 0.0 and percent.max() <= 1.0:
        raise InvalidRows(
            f"{where}: no value is above 1, so these seem to be no percentages: leave"
            " --percent out, or if they are, divide them by 100 yourself",
            option=["--percent"],
        )
    return percent.astype(np.float64) / 100.0


def look_like_probabilities(scores: AnyArray) -> bool:
    """Return True if every row of "logits" (b, k) lies in [0, 1] and sums to 1: most
    likely probabilities.

    For a single score of class 1, (b, 1) or beside a column of zeros, it is enough that
    all lie in [0, 1].
    """
    if not (scores.min() >= 0 and scores.max() <= 1 + SUM_TOLERANCE):
        return False
    if scores.shape[1] == 1 or (scores.shape[1] == 2 and not scores[:, 0].any()):
        return bool(scores.any())
    return bool(
        (
            np.abs(scores.sum(axis=1, dtype=np.float64) - 1.0) <= tolerance_of(scores)
        ).all()
    )


def tolerance_of(scores: AnyArray) -> float:
    """How far rows of numbers from 0 to 1 may miss a sum of 1, as their digits say."""
    kind = float_type(scores.dtype)
    return digits_of_values(scores, kind).sum_tolerance(kind, scores.shape[1])


MOST_BY_CHANCE = 20  # fewer rows of logits may lie in [0, 1] by chance


def doubts(rows: Rows) -> list[str]:
    """Warnings about scores that look unwritten, duplicated, cut off, or of another
    type than declared.
    """
    warnings = [*unwritten(rows), *copies(rows), *cut_off(rows)]
    if rows.kind != "logits" or rows.n < MOST_BY_CHANCE:
        return warnings
    if not all(look_like_probabilities(block.scores) for block in rows.blocks()):
        return warnings
    return [
        *warnings,
        "these logits look like probabilities (every row lies in [0, 1]): if they are,"
        " pass --kind probs",
    ]


def check_label_shape(
    shape: tuple[int, ...] | None, dtype: np.dtype[Any], n: int, k: int, where: str
) -> None:
    """Check that labels are (n,) integers, before they are read."""
    if dtype.kind not in "iu":
        raise InvalidRows(
            f"{where}: labels have type {dtype}, expected integers 0..{k - 1}; store"
            " them so, or let calcli extract convert whole numbers, one-hot rows and"
            " words"
        )
    if shape is None or len(shape) != 1:
        raise InvalidRows(
            f"{where}: labels have shape {shape}, expected ({n},): one class index per"
            " row"
        )
    if shape[0] != n:
        raise InvalidRows(
            f"{where}: there are {shape[0]} labels for {n} rows of scores; they must"
            " belong together"
        )


def check_labels(
    labels: AnyArray,
    n: int,
    k: int,
    where: str,
    ignore: tuple[float, ...] = (),
    what: str = "label",
    first_row: int = 0,
) -> IntArray:
    """Check the labels of n rows: (n,) integers in 0..k-1, or one of the labels to
    ignore.

    what : "label" or "prediction", and first_row : where they begin, for messages.
    Returns (n,) int64 with the ignored labels still in place.
    """
    if what == "label" or labels.dtype.kind in "iu":
        check_label_shape(labels.shape, labels.dtype, n, k, where)
    else:
        raise InvalidRows(
            f"{where}: predictions have type {labels.dtype}, expected integers"
            f" 0..{k - 1}; delete them"
        )
    bad = (labels < 0) | (labels >= k)
    if bad.any() and ignore:
        bad &= ~to_ignore(labels, ignore)
    if bad.any():
        row = int(np.argmax(bad))
        label = int(labels[row])
        advice, option = _label_advice(labels, label, k, what)
        raise InvalidRows(
            f"{where}: row {first_row + row} has {what} {label}, expected 0..{k - 1};"
            f" {advice}",
            option=option,
        )
    return labels.astype(np.int64)


def check_places(
    labels: AnyArray,
    n_options: IntArray,
    where: str,
    ignore: tuple[float, ...] = (),
    what: str = "label",
    first_row: int = 0,
) -> None:
    """Check labels (n,) that are places among the options of their rows.

    The other arguments are those of ``check_labels``. Raises InvalidRows.
    """
    wrong = labels >= n_options
    if wrong.any() and ignore:
        wrong &= ~to_ignore(labels, ignore)
    if wrong.any():
        row = int(np.argmax(wrong))
        number = int(n_options[row])
        raise InvalidRows(
            f"{where}: row {first_row + row} has {what} {labels[row]}, expected"
            f" 0..{number - 1}, one of its {number} options"
        )


MOST_NUMBERED = 20
"""Classes from 1 on that a command lists, at most."""


def _label_advice(
    labels: AnyArray, label: int, k: int, what: str
) -> tuple[str, Sequence[str]]:
    """Advice about a label that is no class, and the option that it names."""
    if what == "prediction":
        return "delete the predictions if they belong to other scores", ()
    if label == k and labels.min() == 1:
        if k > MOST_NUMBERED:
            return "labels look 1-based: subtract 1", ()
        numbers = ",".join(map(str, range(1, k + 1)))
        option = ("--class-names", numbers)
        return "labels look 1-based: subtract 1, or number the classes from 1", option
    if k == 2 and set(np.unique(labels).tolist()) == {-1, 1}:
        return "labels are -1 and +1: calcli extract writes them as classes 0 and 1", ()
    has_others = len(np.unique(labels[labels != label])) > 1
    if (label < 0 or label > k) and has_others:
        option = ("--ignore-label", str(label))
        return f"pass {' '.join(option)} if it marks rows to leave out", option
    return "are labels and scores those of the same model?", ()


def to_ignore(labels: AnyArray, ignore: tuple[float, ...]) -> BoolArray:
    """Mask of labels to ignore, (n,).

    Fractions and numbers beyond int64 never match.
    """
    most = np.iinfo(np.int64)
    whole = [label for label in ignore if float(label).is_integer()]
    known = np.array(
        [label for label in whole if most.min <= label <= most.max], dtype=np.int64
    )
    inside = labels <= most.max if labels.dtype == np.uint64 else np.True_
    return np.isin(labels.astype(np.int64), known) & inside


ORDERED = "ordered"
"""Attribute of a bundle whose classes are levels from low to high."""


def check_ordered(value: object, where: str) -> bool:
    """Read the attribute ``ordered`` of a bundle: 1 where classes are levels, else 0.

    Raises DataError for anything else.
    """
    if value is None:
        return False
    text = value.decode() if isinstance(value, bytes) else str(value)
    if text not in ("0", "1", "True", "False"):
        raise InvalidRows(
            f"{where}: attribute ordered is {text[:40]!r}, expected 1 where the classes"
            " are levels from low to high, or 0; correct it or delete it"
        )
    return text in ("1", "True")


def check_weights(weights: AnyArray, n: int, where: str) -> FloatArray:
    """Check sample weights: (n,) finite numbers >= 0. Returns float64.

    All may be 0: in one of several files, of which other rows count.
    """
    if weights.dtype.kind not in "fiu" or weights.shape != (n,):
        raise InvalidRows(
            f"{where}: weights have type {weights.dtype} and shape {weights.shape},"
            f" expected floats ({n},)"
        )
    w = weights.astype(np.float64)
    bad = ~np.isfinite(w) | (w < 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidRows(
            f"{where}: row {row} has weight {w[row]}, expected a finite number >= 0;"
            " correct it"
        )
    return w
