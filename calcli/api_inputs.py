"""What a program hands over: arrays, tensors and paths of bundles as rows, keyword arguments as settings."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Annotated, Any, TypeVar, get_type_hints

import numpy as np
from msgspec import Meta

from calcli.errors import DataError
from calcli.importers.labels import labels_in_memory
from calcli.importers.open_any_file import open_data, open_rows
from calcli.importers.remarks import remarks
from calcli.io.dataset import DataSet
from calcli.io.locate import Layout, expand
from calcli.io.memory import bundle_in_memory, plain_array
from calcli.io.validate import check_confidences, check_scores, check_shape, check_type, score_kind
from calcli.registry import held_to
from calcli.rows import ArrayRows, Rows

Made = TypeVar("Made")

Scores = Any
"""An array (n, k), or (n,) for two classes; a torch tensor; or ``"FILE.h5"`` / ``"FILE.h5:GROUP"``, a pattern
of such names, or a list of them, which are one data set."""


def _names(scores: Scores) -> list[str]:
    """The bundles that are meant, none where scores are numbers."""
    given = scores if isinstance(scores, list | tuple) else [scores]
    return [str(name) for name in given] if all(isinstance(name, str | PathLike) for name in given) else []


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def checked(cls: type[Made], given: Mapping[str, Any]) -> Made:
    """A class of settings from what a program hands over, held to the types and bounds of its fields.

    Raises UsageError that names the setting, what was given and what is allowed.
    """
    types = get_type_hints(cls, include_extras=True)
    for each in fields(cls) if is_dataclass(cls) else ():
        bounds = each.metadata.get("flag", {}).get("bounds", {})
        types[each.name] = Annotated[types[each.name], Meta(ge=bounds.get("min"), le=bounds.get("max"))]
    return cls(**held_to(types, {name: plain(value) for name, value in given.items()}, "setting"))


@contextmanager
def open_scores(
    scores: Scores,
    labels: Any,
    kind: str,
    *,
    prefer: Sequence[str],
    weights: Any = None,
    units: Any = None,
    class_names: Sequence[str] | None = None,
) -> Iterator[DataSet]:
    """Labelled rows of whatever a user hands over. units : of arrays (n,); of bundles the name of a dataset."""
    names = _names(scores)
    if names:
        if labels is not None:
            raise DataError(f"{names[0]}: a bundle brings its own labels; leave labels out")
        if units is not None and not isinstance(units, str):
            raise DataError(f"{names[0]}: a bundle brings its own units; name their dataset, units='NAME', or 'none'")
        layout = Layout(unit=units)
        with open_data([bundle for name in names for bundle in expand(name)], prefer=prefer, layout=layout) as rows:
            yield rows
        return
    own, scores = score_kind(kind, confidence=True), plain_array(scores, "scores")
    if labels is not None and own != "confidence":
        with remarks() as told:
            labels, words = labels_in_memory(labels, scores.shape, class_names)
        class_names = class_names or words
        for sentence in told:
            warnings.warn(sentence, stacklevel=5)
    with bundle_in_memory(scores, labels, own, weights=weights, units=units, class_names=class_names) as rows:
        yield rows


@contextmanager
def open_unlabelled(scores: Scores, kind: str) -> Iterator[Rows]:
    """Rows to apply a calibrator to: those of a bundle, or an array as it lies in memory."""
    if isinstance(scores, str | PathLike):
        with open_rows(str(scores), prefer=("test",), need_labels=False) as rows:
            yield rows
        return
    array, own = plain_array(scores, "scores"), score_kind(kind, confidence=True)
    check_type(array.dtype, "scores")
    n, _ = check_shape(array.shape, array.dtype, "scores")
    if own == "confidence":
        if array.size != n:
            raise DataError(f"scores: have shape {array.shape}, expected one confidence a row, ({n},)")
        yield ArrayRows(check_confidences(array, "scores"), kind=own)
        return
    yield ArrayRows(check_scores(array, own, "scores"), kind=own)
