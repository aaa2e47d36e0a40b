"""Pickles of arrays, read without running anything."""

from calcli.importers.formats import reader
from calcli.importers.pickled import load_arrays, table_of_content
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table

SUFFIXES = (".p", ".pkl", ".pickle")
NEWEST_PROTOCOL = 5
TEXT_BEGINNINGS = b"(]}cli["
"""First bytes of protocols 0 and 1, which have no magic number."""


def _is_pickle(file: SourceFile) -> bool:
    head = file.head
    if head[0] == 0x80 and len(head) > 1 and head[1] <= NEWEST_PROTOCOL:
        return True
    return file.suffix in SUFFIXES and head[:1] in TEXT_BEGINNINGS


@reader(
    "pickle",
    "pickled arrays, read without running anything",
    suffixes=SUFFIXES,
    sniff=_is_pickle,
    order=3,
    examples=[
        ("resnet_c100_logits.p", ""),
        ("mmpretrain_result.pkl", ""),
        ("rows_of_dicts.pkl", "--labels answer"),
    ],
)
def read_pickle(file: SourceFile) -> Table:
    """Read a pickle of arrays (see ``table_of_content``)."""
    content = load_arrays(file.path.read_bytes(), str(file.path))
    return table_of_content(file.path, "pickle", content)
