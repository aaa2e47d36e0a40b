"""Lines of fastText's ``predict-prob``: ``__label__cat 0.9 __label__dog 0.1``."""

from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.label_scores import scores_by_label
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table

PREFIX = "__label__"


@reader(
    "fasttext",
    "lines of fastText's predict-prob, with or without the right label before them",
    suffixes=[".txt"],
    sniff=lambda file: file.is_text and file.head.startswith(PREFIX.encode()),
    order=-1,
    examples=[("predicted.txt", "--gold truth.csv")],
)
def read_fasttext(file: SourceFile) -> Table:
    """Read the probabilities of the listed classes.

    A label without a probability at the beginning of a line is the right one, as
    ``paste`` puts it there.
    """
    rows: list[dict[str, Any]] = []
    for where, line in file.lines():
        rows.append(_row(line.split(), where))
    return Table(file.path, "fasttext", {}, records=rows)


def _row(words: list[str], where: str) -> dict[str, Any]:
    """Probabilities by class, and the right label if there is one."""
    row: dict[str, Any] = {}
    is_labelled = len(words) > 1 and words[1].startswith(PREFIX)
    if is_labelled:
        row["label"] = words[0].removeprefix(PREFIX)
        words = words[1:]
    labels = [word.removeprefix(PREFIX) for word in words[::2]]
    probs = scores_by_label(labels, words[1::2])
    if probs is None:
        raise DataError(f"{where}: expected pairs of a label and its probability")
    return {**row, "probs": probs}
