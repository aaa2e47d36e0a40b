"""What every function of the Python API takes: scores, groups and settings, checked."""

import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

from calcli.api.argument_words import in_arguments
from calcli.api.tables import (
    FITTED_TO,
    check_index,
    name_of_column,
    named_by_columns,
    refuse_extra_columns,
    refuse_missing_labels,
    refuse_other_columns,
)
from calcli.block import Codes
from calcli.errors import DataError, UsageError
from calcli.fitting.compatibility import check_fits
from calcli.importers.building.contradictions import refuse_reversed_alphabet
from calcli.importers.building.labels import labels_in_memory
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.open_any_file import expand, open_data, open_rows
from calcli.importers.remarks import remarks
from calcli.io.artifact import Artifact
from calcli.io.cells import sortable
from calcli.io.dataset import DataSet
from calcli.io.locate import Layout
from calcli.io.memory import as_names, bundle_in_memory, plain_array
from calcli.io.validate import (
    check_confidences,
    check_scores,
    check_shape,
    score_kind,
)
from calcli.items import are_all
from calcli.numerics import AnyArray
from calcli.registry import held_to
from calcli.rows import SCORE_KINDS, ArrayRows, Rows, ScoreKind

LOG = logging.getLogger("calcli")
"""What the command line says on standard error, at level INFO."""

Made = TypeVar("Made")

Scores = Any
"""An array (n, k), or (n,) for two classes.

A torch tensor; or ``"FILE.h5"`` / ``"FILE.h5:GROUP"``, a pattern of such names, or a
list of them, which are one data set.
"""


# ---- settings and paths


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number."""
    return value.item() if isinstance(value, np.generic) else value


def checked(cls: type[Made], settings: Mapping[str, Any]) -> Made:
    """Build settings from keyword arguments, checked against the types and bounds of
    the fields (``held_to``).
    """
    types = get_type_hints(cls, include_extras=True)
    types.pop("unit", None)  # no setting: the rows say what their units are called
    values = {name: plain(value) for name, value in settings.items()}
    return cls(**held_to(types, values, "setting"))


def path_of(value: Any, name: str) -> Path:
    """The path of an argument. Raises UsageError for what is none."""
    if not isinstance(value, str | PathLike):
        raise UsageError(f"{name}: is {value!r}, expected the path of a file")
    return Path(value)


def check_free(path: Path, force: bool) -> None:
    """Raise UsageError where a file exists, unless ``force``.

    (The command line names its own option.)
    """
    if path.exists() and not force:
        raise UsageError(
            f"{path}: exists already; choose another name or pass force=True to"
            " replace it"
        )


# ---- scores


def _kind_of(scores: AnyArray, kind: str | None) -> ScoreKind:
    """Kind of scores: as given, else as all values prove. Raises DataError."""
    if kind is not None:
        return score_kind(kind, confidence=True)
    if not scores.size:
        raise DataError(f"scores: have shape {scores.shape}, expected one row or more")
    evidence = kind_of_scores(scores)
    if evidence.kind is None and _are_log_odds(scores):
        return "logits"
    if evidence.kind is None:
        kinds = ", ".join(f"kind={name!r}" for name in (*SCORE_KINDS, "confidence"))
        raise DataError(
            f"scores: {evidence.reason}, which does not say their kind; pass {kinds}"
        )
    return evidence.kind


def _are_log_odds(scores: AnyArray) -> bool:
    """True for one column of numbers that are neither probabilities nor their
    logarithms.

    Scores of a file may be another column; an argument is what it is called.
    """
    has_one_column = scores.ndim == 1 or scores.shape[1:] == (1,)
    if not has_one_column or not scores.size:
        return False
    are_probabilities = scores.min() >= 0.0 and scores.max() <= 1.0
    return bool(not are_probabilities and scores.max() > 0.0)


@contextmanager
def open_scores(
    scores: Scores,
    labels: Any,
    kind: str | None,
    *,
    prefer: Sequence[str],
    weights: Any = None,
    units: Any = None,
    class_names: Sequence[str] | None = None,
) -> Iterator[DataSet]:
    """Open labelled rows from arrays or bundles.

    units : (n,) for arrays; for bundles the name of a dataset.
    """
    if isinstance(class_names, Mapping | Set):
        raise DataError(
            f"class_names: are a {type(class_names).__name__}, expected a list of names"
            " in the order of the columns"
        )
    sources = scores if isinstance(scores, list | tuple) else [scores]
    if sources and are_all(str | PathLike, sources):
        _refuse_beside_files(
            sources[0], labels=labels, weights=weights, class_names=class_names
        )
        opening = _open_files(sources, kind, prefer=prefer, unit=units)
    else:
        opening = _open_arrays(scores, labels, kind, weights, units, class_names)
    with opening as rows:
        yield rows


@contextmanager
def _open_files(
    sources: Sequence[str | PathLike[str]],
    kind: str | None,
    *,
    prefer: Sequence[str],
    unit: Any,
) -> Iterator[DataSet]:
    """Open bundles as one data set. unit : name of the dataset of their units."""
    if unit is not None and not isinstance(unit, str):
        raise DataError(
            f"{sources[0]}: a bundle brings its own units; name their dataset,"
            " units='NAME', or 'none'"
        )
    layout = Layout(unit=unit, kind=_kind_in_file(kind))
    names = []
    for source in sources:
        names += expand(str(source), layout)
    with open_data(names, prefer=prefer, layout=layout, tell=LOG.info) as rows:
        _check_confidences_meant(kind, rows.kind, ", ".join(map(str, sources)))
        yield rows


@contextmanager
def _open_arrays(
    scores: Any,
    labels: Any,
    kind: str | None,
    weights: Any,
    units: Any,
    class_names: Sequence[str] | None,
) -> Iterator[DataSet]:
    """Open labelled rows from arrays, or from tables by the names of their columns."""
    warn_all(check_index(scores=scores, labels=labels, weights=weights, units=units))
    refuse_missing_labels(labels)
    refuse_other_columns(scores, class_names, "class_names are")
    positive = name_of_column(scores)
    if kind != "confidence":
        class_names, labels = named_by_columns(scores, labels, class_names)
    table, scores = scores, plain_array(scores, "scores")
    if kind is None:
        refuse_extra_columns(table, scores)
    score_type = _kind_of(scores, kind)
    if labels is not None and score_type != "confidence":
        with remarks() as message:
            class_labels = labels_in_memory(labels, scores.shape, class_names, positive)
        refuse_reversed_alphabet(scores, class_labels, "labels", _names_argument)
        labels = class_labels.labels
        class_names = class_labels.class_names or class_names
        warn_all(message)
    with bundle_in_memory(
        scores,
        labels,
        score_type,
        weights=weights,
        units=units,
        class_names=class_names,
    ) as rows:
        rows.check_weights()
        yield rows


def _refuse_beside_files(source: Any, **arguments: Any) -> None:
    """Raise DataError for what only arrays take. arguments : by name."""
    for name, value in arguments.items():
        if value is not None:
            raise DataError(
                f"{source}: a bundle brings its own {name}; leave {name} out"
            )


def _kind_in_file(kind: str | None) -> str | None:
    """The kind of the scores of a file, as an option of its layout.

    Confidences are no option: they are found by the names of the file.
    """
    if kind is not None:
        score_kind(kind, confidence=True)
    return None if kind == "confidence" else kind


def _check_confidences_meant(kind: str | None, found: ScoreKind, source: str) -> None:
    """Raise DataError where confidences were asked for, and a file holds scores.

    found : kind of the scores of the file.
    """
    if kind == "confidence" and found != kind:
        raise DataError(f"{source}: holds {found}, no confidences; leave kind out")


def _names_argument(first: str, second: str) -> str:
    """The argument that gives the names of class 0 and class 1."""
    return f"class_names={[first, second]!r}"


@contextmanager
def open_unlabelled(
    scores: Scores,
    kind: str | None,
    fitted_kind: str,
    class_names: Sequence[str] | None,
) -> Iterator[Rows]:
    """Open rows to apply a calibrator to: those of a bundle, or an array in memory.

    kind : of the scores, if given. fitted_kind, class_names : of the calibrator.
    """
    if isinstance(scores, str | PathLike):
        with open_rows(
            str(scores),
            prefer=("test",),
            layout=Layout(kind=_kind_in_file(kind)),
            need_labels=False,
            known_classes=class_names or (),
        ) as rows:
            _check_confidences_meant(kind, rows.kind, str(scores))
            yield rows
        return
    array = plain_array(scores, "scores")
    score_type = score_kind(kind or fitted_kind, confidence=True)
    n, _ = check_shape(array.shape, array.dtype, "scores")
    if score_type == "confidence" and array.size != n:
        raise DataError(
            f"scores: have shape {array.shape}, expected one confidence a row, ({n},)"
        )
    if score_type == "confidence":
        valid_scores = check_confidences(array, "scores")
    else:
        valid_scores = check_scores(array, score_type, "scores")
    rows_in_memory = ArrayRows(valid_scores, kind=score_type)
    rows_in_memory.dtype = array.dtype
    rows_in_memory.one_column = array.ndim == 1 or array.shape[1] == 1
    yield rows_in_memory


@contextmanager
def open_held_out(
    scores: Scores,
    labels: Any,
    kind: str | None,
    artifacts: Sequence[Artifact],
    groups: Any,
    again: bool = False,
    **about: Any,
) -> Iterator[tuple[DataSet, list[str]]]:
    """Open labelled rows that the calibrators fit, with a list of warnings, issued at
    the end, to append to.
    """
    for artifact in artifacts:
        refuse_other_columns(scores, artifact.class_names, FITTED_TO)
    check_index(scores=scores, labels=labels, groups=groups)
    with open_scores(scores, labels, kind, prefer=("test",), **about) as rows:
        attach_groups(rows, groups, artifacts)
        notes: list[str] = []
        for artifact in artifacts:
            notes += check_fits(artifact, artifact.method, rows, again=again)
        yield rows, notes
        warn_all(notes)


# ---- groups


def attach_groups(
    rows: Rows, groups: Any, artifacts: Sequence[Artifact], *columns: str
) -> None:
    """Attach groups (n,) to rows of arrays.

    They become the column ``group``, ``columns``, and the columns that calibrators by
    group read. Raises DataError for groups of another shape.
    """
    if groups is None:
        return
    values = groups_of(groups, rows.n)
    names: list[str] = []
    for artifact in artifacts:
        names += artifact.calibrator.required_columns
    codes = Codes.of(values)
    rows.columns = {**rows.columns, **dict.fromkeys(["group", *columns, *names], codes)}


def groups_of(groups: Any, n: int) -> AnyArray:
    """Names of the groups of n rows. Raises DataError for another number of them."""
    names = sortable(as_names(groups, "groups", "group"))
    if names.shape != (n,):
        raise DataError(
            f"groups: have shape {names.shape}, expected ({n},): one per row"
        )
    return names


# ---- warnings


def warn_all(notes: Sequence[str]) -> None:
    """Issue Python warnings, attributed to the nearest caller outside calcli."""
    level = 1
    frame = sys._getframe()
    ours = ("calcli", "contextlib")
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] in ours
    ):
        level = level + 1
        frame = frame.f_back
    for note in notes:
        warnings.warn(in_arguments(note), stacklevel=level)
