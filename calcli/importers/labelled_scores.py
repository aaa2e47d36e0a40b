"""Convert saved arrays to checked scores, labels and columns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers import mistaken_for_scores as mistaken
from calcli.importers.archive import Entries, Entry, constant, remark
from calcli.importers.array_names import COLUMNS, BundleArrays, parse_name
from calcli.importers.import_request import ImportRequest
from calcli.importers.labels import texts_of, to_labels
from calcli.importers.positions import Dense, Parts, Positions, class_axis_of, cut_alike, one_a_row
from calcli.io import validate
from calcli.numerics import IntArray
from calcli.rows import ScoreKind

SLAB_BYTES = 4 << 20  # bytes of a block of rows, if the format can be read in blocks
SAME = 1e-5  # tolerance for scores of a repeated row


@dataclass(frozen=True)
class Slab:
    """Block of consecutive checked rows: scores (b, k), transformed (m, b, k) or None."""

    start: int
    scores: NDArray[Any]
    transformed: NDArray[Any] | None


@dataclass(frozen=True)
class Imported:
    """Content of one bundle, with scores not yet read. labels : (n,), ignored ones in place; for confidences their
    correctness. columns : by the name in a bundle. parts : split of each row given by the source, or None."""

    candidate: BundleArrays
    where: str
    kind: ScoreKind | Literal["confidence"]
    n: int
    k: int
    dtype: np.dtype[Any]
    labels: IntArray | None
    columns: Mapping[str, NDArray[Any]]
    class_names: list[str] | None
    specs: tuple[str, ...]
    parts: NDArray[Any] | None
    _scores: Any
    _moved: Any = None

    @property
    def dense(self) -> bool:
        """True if rows are positions: ignored labels are then already dropped, and samples drawn."""
        return isinstance(self._scores, Positions)

    def slabs(self) -> Iterator[Slab]:
        """Iterate over the rows in blocks. Raises DataError at the first row that breaks the rules of bundles."""
        step = max(1, SLAB_BYTES // (max(self.k, 1) * self.dtype.itemsize * (1 + len(self.specs))))
        for start in range(0, self.n, step):
            rows = slice(start, start + step)
            if self.kind == "confidence":
                yield Slab(start, self._scores[rows].astype(self.dtype), None)
                continue
            scores = validate.check_scores(_native(self._scores[rows]), self.kind, self.where, start)
            under = [(_native(self._moved[m, rows]), f"{self.where} under {spec}") for m, spec in enumerate(self.specs)]
            moved = [validate.check_scores(values, "logits", where, start) for values, where in under]
            yield Slab(start, scores, np.stack(moved) if moved else None)

    def are_alike(self, rows: IntArray, others: IntArray) -> NDArray[np.bool_]:
        """Mask (m,) of ``rows`` whose scores, up to rounding, and label equal those of the row in ``others``."""
        wanted = np.unique(np.concatenate([rows, others]))
        found = []
        for slab in self.slabs():
            first, last = np.searchsorted(wanted, [slab.start, slab.start + len(slab.scores)])
            found.append(slab.scores[wanted[first:last] - slab.start].reshape(last - first, -1))
        a, b = (np.concatenate(found)[np.searchsorted(wanted, each)] for each in (rows, others))
        alike = np.isclose(a, b, rtol=SAME, atol=SAME).all(axis=1)
        return np.asarray(alike if self.labels is None else alike & (self.labels[rows] == self.labels[others]))


def load(candidate: BundleArrays, entries: Entries, ask: ImportRequest, *, ignore: Sequence[int]) -> Imported:
    """Load one bundle except its scores. ask : a kind given by the user is not questioned, nor the class order of
    scores named by the user. ignore : labels of rows to leave out. Raises DataError, UsageError."""
    scores_entry = entries[candidate.scores]
    where, kind = scores_entry.where, validate.score_kind(candidate.kind)
    truth = None if candidate.labels is None else entries[candidate.labels].load()
    given = scores_entry.load()
    given, truth = cut_alike(given, truth), cut_alike(truth, given)
    if ask.percent:
        given = given.as_fractions() if isinstance(given, Parts) else validate.fractions(np.asarray(given[()]), where)
    if ask.reduce not in (None, "none"):
        given = given.padded([*map(given.of, range(len(given)))], np.nan) if isinstance(given, Parts) else given
    elif (axis := class_axis_of(given, truth, ask.class_axis, where)) is not None:
        dense = Dense(given, truth, axis, where, ignore, ask)
        return _load_dense(dense, candidate, entries, ask, kind)
    raw = None if truth is None else np.atleast_1d(np.asarray(truth[()]))
    scores, kind = one_a_row(given, raw, ask.reduce, kind, where)
    n, k = validate.check_shape(scores.shape, scores.dtype, where)
    binary = len(scores.shape) == 1 or scores.shape[1] == 1
    mistaken.refuse_impostors(scores, kind, where, forced=ask.kind is not None)
    if not ask.scores:
        mistaken.refuse_ranks(scores, where)
    names, positive = _class_names(candidate, entries, k, binary, ask)
    labels = None
    if candidate.labels is not None and raw is not None:
        entry = entries[candidate.labels]
        if raw.shape == (n + 1,) and raw.dtype.kind in "iuf" and raw[0] == 0:
            told = f"{entry.where}: there are {n + 1} labels for {n} rows of scores, and the first is 0;"
            raise DataError(f"{told} did pandas write a header? Save with header=['label'] or header=False")
        if len(scores.shape) == 2 and raw.shape in ((k,), (k, 1), (1, k)) and k != n:
            told = f"has shape {tuple(scores.shape)} for {k} labels: classes by rows? Save the scores transposed"
            raise DataError(f"{where}: {told}, (rows, classes)")
        if binary and not ignore:
            mistaken.refuse_other_column(raw, n, None if ask.scores else positive, where, entry.where)
        if names and not (ask.scores or ask.class_names) and candidate.extras["class_names"].startswith("class_names_"):
            mistaken.refuse_other_order(raw, names, where)
        places = "calibrated_by" in candidate.extras and raw.dtype.kind in "iu"  # class indices written by apply
        taken, own = to_labels(raw, n, k, None if places else names, entry.where, positive)
        names = own or names
        labels = validate.check_labels(taken, n, k, entry.where, tuple(ignore))
        if not (ask.scores and ask.labels):
            mistaken.refuse_confidences(scores, labels, kind, where)
    if not ask.scores:
        mistaken.check_logs(scores, candidate.scores, labels, names, entries)
    columns = carried_columns(candidate, entries, n)
    split = candidate.extras.get("split")
    parts = None if split is None else per_row(entries[split], "split", n)
    moved, specs = _transforms(candidate, entries, (n, k), binary)
    dtype = _type_of(scores, kind, binary)
    return Imported(candidate, where, kind, n, k, dtype, labels, columns, names, specs, parts, scores, moved)


def _type_of(scores: Any, kind: ScoreKind, binary: bool) -> np.dtype[Any]:
    """Type of the scores from ``validate.check_scores``: float64 for P(class 1), so that 1 - p keeps its digits."""
    return np.dtype(np.float64 if binary and kind != "logits" else scores.dtype).newbyteorder("=")


def _load_dense(dense: Dense, candidate: BundleArrays, entries: Entries, ask: ImportRequest, kind: Any) -> Imported:
    """Load scores of positions as rows. Their unit is the image or sequence: its id if there is any, or number."""
    where, scores = entries[candidate.scores].where, dense.scores()
    n, k = validate.check_shape(scores.shape, scores.dtype, where)
    mistaken.refuse_impostors(scores, kind, where, forced=ask.kind is not None)
    names, _ = _class_names(candidate, entries, k, False, ask)
    labels = None if candidate.labels is None else dense.labels(entries[candidate.labels].where, names)
    extras, columns = dict(candidate.extras), {}
    if "ids" in extras and len(entries[extras["ids"]].cells()) == dense.units:
        extras = {"unit": extras.pop("ids"), **extras}
    if ask.named.get("unit") == []:
        extras.pop("unit", None)
    elif "unit" not in extras:
        columns["unit"] = dense.column(np.arange(dense.units, dtype=np.int32))
    for role in (role for role in (*COLUMNS, "split") if role in extras):
        entry = entries[extras[role]]
        values = entry.column() if role == "weights" else entry.names(role)
        if not dense.is_of_positions(values):
            values = per_row(entry, role, dense.units)
        columns[role] = dense.column(values)
    split = columns.pop("split", None)
    candidate, dtype = replace(candidate, extras=extras), _type_of(scores, kind, dense.k == 1)
    split = None if split is None else np.asarray(split[:])
    return Imported(candidate, where, kind, n, k, dtype, labels, columns, names, (), split, scores)


ClassNames = tuple[list[str] | None, str | None]
PerLabel = tuple[BundleArrays, dict[str, Entry], ImportRequest]


def labels_as_rows(candidate: BundleArrays, entries: Entries, ask: ImportRequest) -> PerLabel:
    """Convert multi-label scores and labels (rows, labels) to rows of two classes, one per row and label. The group of
    such a row is its label, the unit its row in the source. Raises DataError for other shapes."""
    scores_entry, labels = entries[candidate.scores], candidate.labels or ""
    if labels not in entries:
        raise DataError(f"{scores_entry.where}: --per-label needs labels, (rows, labels) of 0 and 1")
    labels_entry = entries[labels]
    scores, truth = np.asarray(scores_entry.load()[()]), np.asarray(labels_entry.load()[()])
    if scores.ndim != 2 or truth.shape != scores.shape or not np.isin(truth, (0, 1)).all():
        told = f"has shape {truth.shape}, expected zeros and ones of shape {scores.shape} for --per-label"
        raise DataError(f"{labels_entry.where}: {told}")
    n, c = scores.shape
    names = _label_names(candidate, entries, ask) or [f"label{i}" for i in range(c)]
    if len(names) != c or len(set(names)) < len(names):
        raise DataError(f"{scores_entry.where}: {len(set(names))} names for {c} labels; --class-names A,B,…")
    roles = ("unit", "ids", "weights", "split")
    each = {role: entries[path] for role, path in candidate.extras.items() if role in roles}
    rows = {role: np.repeat(per_row(entry, role, n), c) for role, entry in each.items()}
    unit = next((role for role in ("unit", "ids") if role in rows), "row")
    made = {role: entry.having(rows[role]) for role, entry in each.items() if role != "ids"}
    if ask.named.get("unit") != []:
        own = each[unit].name if unit in each else "row"
        made["unit"] = Entry(scores_entry.path, own, constant(rows.get(unit, np.repeat(np.arange(n), c))))
    made["group"] = Entry(scores_entry.path, "label", constant(np.tile(np.array(names, dtype=object), n)))
    made = {f"{candidate.scores} by label/{role}": entry for role, entry in made.items()}
    candidate = replace(candidate, extras={path.rpartition("/")[2]: path for path in made})
    made[candidate.scores] = scores_entry.having(scores.reshape(-1))
    made[labels] = labels_entry.having(truth.astype(np.int64).reshape(-1))
    remark(f"{scores_entry.where}: {n} rows x {c} labels became {n * c} rows; a row's labels are a unit, each a group")
    asked = replace(ask, scores=(candidate.scores,), labels=(labels,), class_names=())
    return candidate, {**entries, **made}, asked


def _label_names(candidate: BundleArrays, entries: Entries, ask: ImportRequest) -> list[str]:
    """Names of the labels: given by the user, else headers of the labels or scores without their common beginning."""
    own = [f"class_names_{candidate.labels}", candidate.extras.get("class_names", "")]
    entry = next((entries[path] for path in own if path in entries), None)
    if ask.class_names or entry is None:
        return list(ask.class_names)
    parts = [re.split(r"(?<=[_.])", name) for name in texts_of(np.asarray(entry.load()[()]), entry.where)]
    while len({part[0] for part in parts}) == 1 < min(map(len, parts)):
        parts = [part[1:] for part in parts]
    return ["".join(part) for part in parts]


def _native(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _class_names(candidate: BundleArrays, entries: Entries, k: int, binary: bool, ask: ImportRequest) -> ClassNames:
    """(names of all classes or None, name of class 1 or None): a single column of scores is named by class 1."""
    if ask.class_names:
        if len(ask.class_names) != k:
            raise UsageError(f"--class-names: {len(ask.class_names)} names, {candidate.scores!r} has {k} classes")
        return list(ask.class_names), None
    own = candidate.scores.rsplit("/", 1)[-1] if binary else None
    if "class_names" not in candidate.extras:
        return None, own
    entry = entries[candidate.extras["class_names"]]
    raw = np.atleast_1d(entry.column())
    names = texts_of(raw, entry.where)
    if binary and len(names) == 1:
        return None, names[0]  # the one column's own name says nothing about class 0
    if raw.ndim != 1 or len(names) != k:
        raise DataError(f"{entry.where}: has shape {raw.shape}, expected ({k},): a name per class")
    return names, own


def carried_columns(candidate: BundleArrays, entries: Entries, n: int) -> dict[str, NDArray[Any]]:
    """Ids, weights, groups and units of the rows, and the columns that make up a combined group. Raises DataError."""
    named = [(role, entries[path]) for role, path in candidate.columns.items()]
    parts = [pair for _, entry in named for pair in entry.made_of.items() if not parse_name(pair[0]).role]
    return {role: per_row(entry, role, n) for role, entry in [*named, *parts]}


def per_row(entry: Entry, role: str, n: int) -> NDArray[Any]:
    """Check and read a column of ids, weights or the like, (n,). Raises DataError."""
    if role == "weights":
        return validate.check_weights(entry.column(), n, entry.where)
    names = entry.names(role)
    if names.shape != (n,):
        told = f"{role} has shape {names.shape}, expected ({n},): one value per row"
        raise DataError(f"{entry.where}: {told}")
    return names


def _transforms(candidate: BundleArrays, entries: Entries, size: tuple[int, int], binary: bool) -> tuple[Any, Any]:
    if "transformed" not in candidate.extras:
        return None, ()
    entry = entries[candidate.extras["transformed"]]
    if "specs" not in candidate.extras:
        raise DataError(f"{entry.where}: has no list of its transforms; save their names as an array 'transforms'")
    specs_entry = entries[candidate.extras["specs"]]
    specs = np.atleast_1d(np.asarray(specs_entry.load()[()]))
    moved = entry.load()
    expected = [(len(specs), *size)] + ([(len(specs), size[0]), (len(specs), size[0], 1)] if binary else [])
    if specs.ndim != 1 or specs.dtype.kind not in "OUS" or moved.shape not in expected or moved.dtype.kind != "f":
        told = f"expected floats {expected[0]}, a slice per transform in {specs_entry.name!r}"
        raise DataError(f"{entry.where}: has type {moved.dtype} and shape {moved.shape}, {told}")
    return moved, tuple(texts_of(specs, specs_entry.where))
