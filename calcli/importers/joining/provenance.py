"""Which calibrators have been applied to scores, as their file says."""

from calcli.importers.names.array_names import parse_name
from calcli.importers.table import Column, Columns
from calcli.io.provenance import carried, joined_past, unmarked


def past_of(scores: Column, columns: Columns) -> dict[str, str]:
    """Attributes of scores that tell which calibrators have been applied to them.

    columns : those beside them, of which one may name the calibrators in every row.
    """
    parts = scores.joined_from or (scores,)
    past = joined_past([carried(part.file, part.name) for part in parts])
    if past:
        return past
    for path, column in columns.items():
        if parse_name(path).role != "calibrated_by":
            continue
        marks = column.values()
        if marks.ndim == 1:
            chain = unmarked(list(map(str, marks)), column.where)
            return {} if chain is None else {"calibrated_by": chain}
    return {}
