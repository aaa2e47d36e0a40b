"""Which axis of scores the classes are on, where every pixel or token has scores."""

from math import prod
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.ragged import Parts, Shape


def class_axis_of(
    scores: Any, labels: Any, requested: int | None, where: str
) -> int | None:
    """Axis of the classes in scores of positions; None for scores of rows or of views.

    The labels have the same shape without this axis, or 1 in its place. Of a binary
    model, whose scores have three axes and the shape of the labels, it is an axis after
    the last. Raises UsageError if ambiguous, DataError if the labels are not those of
    the positions.
    """
    shape = tuple(scores.shape)
    label_shape = None if labels is None else tuple(labels.shape)
    if isinstance(scores, Parts) and len(shape) == 2:
        if shape == label_shape and requested is None:
            return 2
        raise _unequal_lists(scores, where)
    if requested is not None:
        return _requested_axis(shape, label_shape, requested, where)
    if shape == label_shape and len(shape) == 3 and not _are_one_hot(labels):
        return 3
    if _may_be_of_positions(shape, label_shape):
        return _axis_by_labels(shape, label_shape, where)
    if len(shape) > 3:
        advice = "name them with --labels, or say --class-axis 1"
        if label_shape is not None:
            advice = f"labels have {label_shape}"
        raise DataError(
            f"{where}: has shape {shape}, expected (rows, classes), or a label per"
            f" position; {advice}"
        )
    return None


def _unequal_lists(scores: Parts, where: str) -> DataError:
    first = scores.shapes[0]
    row = next(row for row, shape in enumerate(scores.shapes) if shape != first)
    return DataError(
        f"{where}: its lists have different lengths ({first[0]} in row 0,"
        f" {scores.shapes[row][0]} in row {row}), expected one number per class, or per"
        " position beside as many labels"
    )


def label_shapes(shape: Shape, axis: int) -> tuple[Shape, Shape]:
    """Shapes that labels of positions may have: without the axis, or 1 in its place."""
    before, after = shape[:axis], shape[axis + 1 :]
    return (*before, *after), (*before, 1, *after)


def _requested_axis(
    shape: Shape, label_shape: Shape | None, requested: int, where: str
) -> int:
    axis = requested + len(shape) if requested < 0 else requested
    if len(shape) < 3 or not 0 < axis < len(shape):
        raise UsageError(
            f"--class-axis {requested}: {where} has shape {shape}, expected one from 1"
            " of three or more, or 0 of two"
        )
    expected = label_shapes(shape, axis)
    if label_shape is not None and label_shape not in expected:
        raise DataError(
            f"{where}: has shape {shape}, classes on axis {axis}; labels have"
            f" {label_shape}, not {expected[0]}"
        )
    return axis


def _are_one_hot(labels: Any) -> bool:
    """Check for a single 1 along the last axis, in the first unit."""
    ones = np.asarray(labels[:1]) == 1
    return bool((ones.sum(axis=-1) == 1).all())


def _may_be_of_positions(shape: Shape, label_shape: Shape | None) -> bool:
    if label_shape is None or len(shape) < 3:
        return False
    if len(label_shape) - len(shape) not in (0, -1):
        return False
    return prod(label_shape[1:]) > 1


def _axis_by_labels(shape: Shape, label_shape: Shape | None, where: str) -> int | None:
    """Axis without which the scores have the shape of the labels."""
    axes = []
    for axis in range(1, len(shape)):
        if label_shape in label_shapes(shape, axis):
            axes.append(axis)
    if len(shape) > 3 and len(axes) > 1:
        names = " or ".join(map(str, axes))
        raise UsageError(
            f"{where}: has shape {shape}: which axis are the classes?"
            f" --class-axis {names}"
        )
    if len(shape) > 3 and not axes:
        raise DataError(
            f"{where}: has shape {shape}, labels have {label_shape}: expected a label"
            " per position"
        )
    return axes[-1] if axes else None  # in sequences the classes are last
