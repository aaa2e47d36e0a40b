"""Other splits of the same model in a file of bundles: to fit on, to evaluate on."""

from dataclasses import replace

import h5py

from calcli.io.hdf5 import lookup
from calcli.io.locate import CALIBRATION, HELD_OUT, Location, kinds_in
from calcli.rows import ScoreKind

Shape = tuple[int, ...]


def with_splits_beside(
    location: Location, file: h5py.File, group: str, kind: ScoreKind, shape: Shape
) -> Location:
    """The location of a bundle, with the other labelled splits beside it.

    There are some if the groups have usual names. kind, shape : of its scores. A
    calibrator is fitted on the calibration split, even if it is this bundle, when there
    is another to evaluate it on.
    """
    folder, slash, split = group.rpartition("/")
    if split not in (*CALIBRATION, *HELD_OUT):
        return location
    before = location.name.removesuffix(split)
    others = []
    held_out = []
    for name in (*CALIBRATION, *HELD_OUT):
        node = lookup(file, f"{folder}{slash}{name}")
        if name == split or not _is_alike(node, kind, shape):
            continue
        others.append(f"{before}{name}")
        if name in HELD_OUT:
            held_out.append(f"{before}{name}")
    if split in CALIBRATION and held_out:
        return replace(location, to_fit=location.name, to_evaluate=held_out[0])
    if not others:
        return location
    return replace(location, to_fit=others[0], to_evaluate=(held_out or others)[0])


def _is_alike(node: object, kind: ScoreKind, shape: Shape) -> bool:
    """True for a group of labelled scores of the same kind and number of classes."""
    if not isinstance(node, h5py.Group) or kinds_in(node) != [kind]:
        return False
    labels = "correct" if kind == "confidence" else "labels"
    if lookup(node, labels) is None:
        return False
    return bool(lookup(node, kind).shape[1:] == shape[1:])
