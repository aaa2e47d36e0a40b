"""Probabilities that SPSS saves with its models: columns EST1_1, EST2_1, …"""

import re
from dataclasses import replace

from calcli.importers.formats import reader
from calcli.importers.readers.csv_table import read_csv
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table

PROBABILITY = re.compile(r"EST(?P<category>\d+)_(?P<model>\d+)")
DERIVED = re.compile(r"(PRE|PCP|ACP)_\d+")
"""Predicted category, its probability, and that of the actual one."""

OWN_NAME = re.compile(rf"\b({PROBABILITY.pattern}|{DERIVED.pattern})\b")


def _has_probabilities(file: SourceFile) -> bool:
    cells = re.split(r"[,;\t]", file.first_lines[0].strip())
    names = [cell.strip('" ') for cell in cells]
    return "EST1_1" in names and "EST2_1" in names


@reader(
    "spss",
    "tables of SPSS with estimated probabilities: columns EST1_1, EST2_1, …",
    suffixes=[".csv"],
    sniff=lambda file: file.is_text and _has_probabilities(file),
    order=-1,
    examples=[("saved.csv", "--labels LABEL")],
)
def read_spss(file: SourceFile) -> Table:
    """Read the table; the probabilities of the first model are EST1, EST2, ….

    What other columns derive from these is left out. Options that name columns as the
    file does find all of them under their names.
    """
    table = read_csv(file)
    request = file.request
    options = (*request.scores, *request.labels, *request.pieces)
    if any(map(OWN_NAME.search, options)):
        return replace(table, format="spss")
    columns = {}
    for name, column in table.columns.items():
        probability = PROBABILITY.fullmatch(name)
        if DERIVED.fullmatch(name):
            continue
        if probability is not None and probability["model"] == "1":
            name = f"EST{probability['category']}"
        elif probability is not None:
            name = f"model{probability['model']}_EST{probability['category']}"
        columns[name] = replace(column, name=name)
    return replace(table, format="spss", columns=columns)
