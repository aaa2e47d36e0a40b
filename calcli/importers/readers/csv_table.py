"""Tables of text: CSV and its relatives.

The standard library reads them, pyarrow large ones faster.
"""

from dataclasses import replace
from pathlib import Path

from calcli.importers.formats import reader
from calcli.importers.large_text_table import read_large_table
from calcli.importers.names.roles import are_ours
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.importers.text_cells import text_column
from calcli.importers.text_table import (
    Opening,
    read_grid,
    read_opening,
    refuse_doubles,
    remark_ends,
)

SUFFIXES = (".csv", ".tsv", ".txt")


@reader(
    "csv",
    "tables of text: CSV, TSV, with or without column names, packed (gz, bz2, xz) too",
    suffixes=SUFFIXES,
    sniff=lambda file: (
        file.is_text
        and not file.is_json
        and (file.suffix in SUFFIXES or any(c in file.head for c in b",;\t|"))
    ),
    order=9,
    general=True,
    examples=[
        ("logits_and_label.csv", ""),
        ("predict_proba.csv", "--labels target --kind probs"),
        ("answers.csv", "--scores A,B,C,D --labels answer --kind probs"),
        ("headerless.csv", "--scores 0:9 --labels 10 --kind logits"),
        ("probs_and_label.csv.gz", ""),
        ("top5.csv", "--classes 1000 --gold truth.csv"),
        ("top5.csv", "--confidence prob_0 --correct index_0=label"),
    ],
)
def read_csv(file: SourceFile) -> Table:
    """Read a table of text, separated by commas, semicolons, tabs or bars.

    A first line 0, 1, …, k-1 counts the columns, as pandas writes it.
    """
    path = file.path
    opening = read_opening(path)
    remark_ends(path, opening)
    table = read_large_table(file, opening) or _small_table(path, opening)
    if opening.counts_columns:
        remark(
            f"{path.name}: the first line counts the columns, it was read as their"
            " names"
        )
    return replace(table, has_header=opening.has_names)


def _small_table(path: Path, opening: Opening) -> Table:
    """The table read by the standard library."""
    grid = read_grid(path, opening, opening.header)
    refuse_doubles(path, grid.names)
    has_commas = opening.separator in ";\t"
    is_ours = are_ours(opening.header or ())
    columns = {}
    for name, texts in zip(grid.names, grid.columns, strict=True):
        columns[name] = text_column(
            path, name, texts, has_commas=has_commas, is_ours=is_ours
        )
    return Table(path, "csv", columns, grid.n_rows)
