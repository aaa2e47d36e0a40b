"""What an import writes, as the tests of importers look at it."""

from pathlib import Path

import h5py
import numpy as np

from calcli.importers.dealing import Splitting
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores
from calcli.importers.proposal import propose
from calcli.importers.table import Column, constant


def plan(paths, request, where):
    """The readings of arrays with these paths, whose values tell nothing."""
    one = np.eye(3)
    return propose(
        {path: Column(Path("x"), path, constant(one)) for path in paths}, request, where
    )


def bring(sources, out, splitting=Splitting(), ignore=(), **ask):
    """Import, and give every dataset of the output by its path, and the notes."""
    report = import_scores(
        sources if isinstance(sources, list) else [sources],
        out,
        ImportRequest(**ask),
        splitting,
        force=True,
        ignore_labels=ignore,
    )
    found = {"notes": " | ".join(report.notes)}
    with h5py.File(out) as file:
        file.visititems(
            lambda path, node: found.update(
                {path: node[()]} if hasattr(node, "shape") else {}
            )
        )
    return found
