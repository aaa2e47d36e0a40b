"""What an import writes, as the tests of importers look at it."""

import h5py

from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import Splitting, import_scores


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
