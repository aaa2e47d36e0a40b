"""ARFF tables, by SciPy: files of Weka, and the predictions of OpenML's runs."""

import numpy as np

from calcli.importers.formats import reader
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.importers.text_cells import held_column


@reader(
    "arff",
    "ARFF tables of Weka and OpenML",
    suffixes=[".arff"],
    sniff=lambda file: (
        file.is_text
        and (file.suffix == ".arff" or b"@relation" in file.head.lower())
        and b"@attribute" in file.head.lower()
    ),
    order=-1,
    examples=[("predictions.arff", "")],
)
def read_arff(file: SourceFile) -> Table:
    """Read the columns of an ARFF table; a missing word is an empty cell."""
    from scipy.io import arff

    with file.path.open(encoding="utf-8-sig") as opened:
        rows, meta = arff.loadarff(opened)
    columns = {}
    for name in meta.names():
        values = np.atleast_1d(rows[name])
        if values.dtype.kind != "S":
            columns[name] = held_column(file.path, name, values, "number")
            continue
        words = np.char.decode(values, "utf-8")
        is_missing = words == "?"
        words[is_missing] = ""
        empty_row = int(np.argmax(is_missing)) if is_missing.any() else None
        columns[name] = held_column(file.path, name, words, "text", empty_row)
    return Table(file.path, "arff", columns, len(rows))
