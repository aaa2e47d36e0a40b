"""Which rows a calibrator was fitted on, recognised by their contents."""

from contextlib import suppress

from calcli.errors import DataError
from calcli.io.artifact import Artifact
from calcli.io.bundle import open_bundle
from calcli.io.cells import texts_of_names
from calcli.io.dataset import DataSet
from calcli.io.locate import Layout, split_where
from calcli.io.row_facts import facts_of
from calcli.io.rows_seen import (
    ALL,
    SignatureSet,
    chance_of_equal,
    matches_by_chance,
    overlap,
    part_in_words,
    some_signed_rows,
)

CHANCE_OF_EQUAL = 0.005
"""Chance above which equal rows may be others of the same source."""


def fitted_on(artifact: Artifact, rows: DataSet) -> str | None:
    """Which of these rows, or units, a calibrator was fitted on; None if none.

    In words, such as ``about half of these rows``. Rows are recognised by their scores
    and labels: rows without labels give None.
    """
    if not rows.has_labels:
        return None
    if rows.hashed and rows.data_sha256 is None:
        for _ in rows.blocks():
            pass  # a complete walk computes the hash and the row facts
    return _words_for_whole_fit(artifact, rows) or _words_for_part_of_fit(
        artifact, rows
    )


def is_whole_fit(artifact: Artifact, rows: DataSet) -> bool:
    """True for rows that hold the same as those of the fit, in any order."""
    return _is_in_order_of_fit(artifact, rows) or _is_shuffled_fit(artifact, rows)


def _is_in_order_of_fit(artifact: Artifact, rows: DataSet) -> bool:
    sha256 = artifact.fit.data_sha256
    return sha256 is not None and sha256 == rows.data_sha256


def _is_shuffled_fit(artifact: Artifact, rows: DataSet) -> bool:
    sketch = artifact.fit.row_sketch
    total = None if sketch is None else sketch.sum
    return total is not None and total == facts_of(rows).total


def _words_for_whole_fit(artifact: Artifact, rows: DataSet) -> str | None:
    """Words for rows that are those of the fit, all of them; None for others."""
    is_same = _is_in_order_of_fit(artifact, rows)
    is_same_file = bool(rows.location.name) and artifact.fit.source == rows.name
    if is_same and is_same_file:
        return "these very rows"
    if not is_same and not _is_shuffled_fit(artifact, rows):
        return None
    chance = chance_of_equal(some_signed_rows(rows), stratified=rows.is_stratified)
    if chance > CHANCE_OF_EQUAL:
        return None
    return "these very rows" if is_same else "these very rows, in another order"


def _words_for_part_of_fit(artifact: Artifact, rows: DataSet) -> str | None:
    """Words for the part of the rows, or units, that the fit had too; None for none."""
    fit = artifact.fit
    facts = facts_of(rows)
    signatures = SignatureSet(facts.signatures, facts.n)
    shared = overlap(fit.row_sketch, fit.n, signatures)
    if shared is not None:
        by_chance = matches_by_chance(some_signed_rows(rows), fit.n)
        if not shared.is_above(by_chance * shared.rows):
            return None
        if shared.share >= ALL:
            return "these very rows, or copies of them"
        return f"{part_in_words(shared.share)} of these rows"
    return _words_for_units_of_fit(artifact, rows)


def _words_for_units_of_fit(artifact: Artifact, rows: DataSet) -> str | None:
    """Words for the units of which the fit had other rows; None for none.

    Only within one file, as other files may reuse names.
    """
    path, part = split_where(artifact.fit.source or "")
    if part is None or not rows.location.name or path.name != rows.path.name:
        return None
    with suppress(DataError):  # units that are invalid, or a file that is gone
        units = rows.given_units
        names_of_rows = rows.column("unit")
        name = f"{rows.path}:{part}"
        with open_bundle(name, layout=Layout(unit=rows.unit)) as bundle:
            names_of_fit = bundle.column("unit")
            if units is None or names_of_rows is None or names_of_fit is None:
                return None
            shared = set(texts_of_names(names_of_fit))
            shared &= set(texts_of_names(names_of_rows))
            if shared:
                return f"other rows of {len(shared)} of these {units.n} units"
    return None
