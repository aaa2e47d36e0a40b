"""What an import writes, as the tests of importers look at it."""

from pathlib import Path

import h5py
import numpy as np

from calcli.importers.building.dealing import Splitting
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores
from calcli.importers.proposing.proposal import propose
from calcli.importers.table import Column, constant


def plan(paths, request, where):
    """The readings of arrays with these paths, whose values tell nothing."""
    values = constant(np.eye(3))
    columns = {path: Column(Path("x"), path, values) for path in paths}
    return propose(Arrays(columns), request, where)


def bring(sources, out, splitting=Splitting(), ignore=(), **ask):
    """Import, and give every dataset of the output by its path, and the notes."""
    if not isinstance(sources, list):
        sources = [sources]
    request = ImportRequest(**ask)
    report = import_scores(
        sources, out, request, splitting, force=True, ignore_labels=ignore
    )
    arrays = {"notes": " | ".join(report.notes)}

    def add(path, node):
        if isinstance(node, h5py.Dataset):
            arrays[path] = node[()]

    with h5py.File(out) as file:
        file.visititems(add)
    return arrays
