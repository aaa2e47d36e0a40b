"""Chain of the calibrators applied to rows, as stored in bundles and artifacts.

A bundle that ``apply`` writes has the attributes ``calibrator``, the artifact itself,
and ``calibrated_by``, one link for every calibrator from the first to this one. Bundles
of calcli 0.1 have only the former.
"""

import hashlib
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import msgspec
import numpy as np
from msgspec.structs import replace

from calcli.errors import DataError
from calcli.io.artifact import Artifact, Link, loads
from calcli.io.artifact_params import encode_params
from calcli.io.hdf5 import lookup, open_file
from calcli.optional_packages import optional_import

ATTRIBUTES = (
    "calibrator",
    "calibrated_by",
    "corrupted_labels",
)
"""Attributes that a derived bundle inherits."""
MARKED = 16
"""Hex digits of a hash in a table; two calibrators share them with p = 1e-19."""

MARK = re.compile(
    rf"(?P<method>.+?):(?P<sha256>[0-9a-f]{{{MARKED},64}})(?::(?P<rows>.+))?"
)
"""A link of a chain in a column of a table (see ``mark``)."""

NOT_HELD_OUT = "what it shows here is not what new data will show; use held-out rows"
"""Warning for metrics on the rows that a calibrator was fitted on."""

LONGEST = 1 << 28  # maximum bytes of a provenance text in an archive


def identity(artifact: Artifact) -> str:
    """SHA-256 of the function of an artifact: method, classes and parameters, without
    the record of the fit.
    """
    content = {
        "method": artifact.method,
        "n_classes": artifact.n_classes,
        "params": encode_params(artifact.calibrator),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def link_to(artifact: Artifact, in_sample: str | None = None) -> Link:
    """Make an artifact's link of a chain.

    in_sample : part of the rows that it was fitted on.
    """
    return Link(
        identity(artifact),
        artifact.method,
        artifact.fit.source,
        in_sample or msgspec.UNSET,
    )


def in_sample(links: Sequence[Link]) -> str:
    """Describe which of the rows the applied calibrators were fitted on.

    Empty if none.
    """
    methods_of_rows: dict[str, list[str]] = {}
    for link in links:
        if link.in_sample:
            methods_of_rows.setdefault(link.in_sample[:200], []).append(link.method)
    sentences = []
    for rows, methods in methods_of_rows.items():
        verb = "was" if len(methods) == 1 else "were"
        sentences.append(f"{' and '.join(methods)} {verb} fitted on {rows}")
    return ", ".join(sentences)


def of_several(*links: Link) -> Link:
    """Merge the links of one calibrator in several bundles."""
    if len({link.in_sample or "" for link in links}) == 1:
        return links[0]
    return replace(links[0], in_sample="some of these rows")


def chain_of(attributes: Mapping[str, Any]) -> tuple[Link, ...]:
    """Read the chain from a bundle's attributes, oldest first; empty if uncalibrated.

    An unreadable text becomes a link with the hash of the text, so that it never reads
    as uncalibrated.
    """
    chain = _text(attributes.get("calibrated_by"))
    last = _text(attributes.get("calibrator"))
    if chain is not None:
        try:
            return tuple(msgspec.json.decode(chain, type=list[Link]))
        except (msgspec.DecodeError, RecursionError):
            return (_unknown(chain),)
    # An unrelated attribute with the same name.
    if last is None or not last.lstrip().startswith("{"):
        return ()
    try:
        return (link_to(loads(last, "calibrator")),)
    except DataError:
        return (_unknown(last),)


def last_calibrator(attributes: Mapping[str, Any]) -> Artifact | None:
    """Read the calibrator that was applied last from a bundle's attributes.

    None where it is not stored, or is not the last of the chain.
    """
    text = _text(attributes.get("calibrator"))
    chain = chain_of(attributes)
    if text is None or not chain:
        return None
    try:
        artifact = loads(text, "calibrator")
    except DataError:
        return None
    if not same_chain([link_to(artifact)], chain[-1:]):
        return None
    return artifact


def carried(path: Path, dataset: str) -> dict[str, str]:
    """Read the provenance attributes stored beside a dataset.

    path : an HDF5, npz or Parquet file; others have none.
    """
    with path.open("rb") as file:
        start = file.read(4)
    attributes: Mapping[str, Any] = {}
    if start == b"PAR1":
        attributes = _of_parquet(path)
    elif zipfile.is_zipfile(path):
        attributes = _of_npz(path)
    elif h5py.is_hdf5(path):
        attributes = _of_hdf5(path, dataset)
    texts = {}
    for name in ATTRIBUTES:
        text = _text(attributes.get(name))
        if text is not None:
            texts[name] = text
    return texts


def _of_parquet(path: Path) -> dict[str, Any]:
    with optional_import("pyarrow", f"{path}: reading Parquet"):
        from pyarrow.parquet import read_schema
    metadata = read_schema(path).metadata or {}
    return {name: metadata.get(name.encode()) for name in ATTRIBUTES}


def _of_npz(path: Path) -> dict[str, Any]:
    """Attributes that are arrays of one text, if short: others are not loaded."""
    with zipfile.ZipFile(path) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
    names = [name for name in ATTRIBUTES if 0 < sizes.get(f"{name}.npy", 0) <= LONGEST]
    attributes: dict[str, Any] = {}
    if names:
        with np.load(path, allow_pickle=False) as arrays:
            for name in names:
                if arrays[name].dtype.kind == "U":
                    attributes[name] = str(arrays[name])
    return attributes


def _of_hdf5(path: Path, dataset: str) -> dict[str, Any]:
    """Attributes of the group in which a dataset is."""
    with open_file(path) as file:
        group = lookup(file, dataset.rpartition("/")[0])
        if not isinstance(group, h5py.Group):
            return {}
        return {name: group.attrs.get(name) for name in ATTRIBUTES}


def joined_past(pasts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Provenance attributes of rows of several files with the same calibrators."""
    first = dict(pasts[0])
    if all(past == first for past in pasts):
        return first
    links = [of_several(*same) for same in zip(*map(chain_of, pasts), strict=True)]
    made = {"calibrated_by": chain_text(links)} if links else {}
    for name in ("calibrator", "corrupted_labels"):
        texts = []
        for past in pasts:
            if name in past:
                texts.append(past[name])
        if texts:
            made[name] = texts[0]
    return made


def chain_text(links: Sequence[Link]) -> str:
    """Encode a chain as the attribute ``calibrated_by`` (JSON)."""
    return msgspec.json.encode(links).decode()


def mark(chain: str) -> str:
    """Encode a chain for a column of a table, which has no attributes:
    ``ts:1f0a93c2d4e5f607 hb:77b1d0e5c3a29f18``.

    The in-sample part follows the hash, ``ts:1f0a93c2d4e5f607:these_very_rows``.
    """
    marks = []
    for link in chain_of({"calibrated_by": chain}):
        parts = [link.method, link.sha256[:MARKED]]
        if link.in_sample:
            parts.append(link.in_sample.replace(" ", "_"))
        marks.append(":".join(parts))
    return " ".join(marks)


def unmarked(marks: Sequence[str], where: str) -> str | None:
    """Decode the chain from the column of a table; None if empty.

    Raises DataError if rows differ.
    """
    first = marks[0].strip()
    for row, text in enumerate(map(str.strip, marks)):
        if text != first:
            none = "no calibrator"
            raise DataError(
                f"{where}: row 0 has been through {first or none!r}, row {row}"
                f" through {text or none!r}; take them one by one"
            )
    if not first:
        return None
    links = []
    for word in first.split():
        match = MARK.fullmatch(word)
        if match is None:
            return chain_text([_unknown(first)])
        rows = match["rows"]
        in_sample = rows.replace("_", " ") if rows else msgspec.UNSET
        links.append(Link(match["sha256"], match["method"], None, in_sample))
    return chain_text(links)


def words(links: Sequence[Link]) -> str:
    """Format a chain for people: ``ts (1f0a93c2), then hb (77b1d0e5)``."""
    return ", then ".join(f"{link.method} ({link.sha256[:8]})" for link in links)


def title_of(links: Sequence[Link]) -> str:
    """Title of scores after these calibrators: ``calibrated by ts, then hb``, or
    ``uncalibrated``.
    """
    if not links:
        return "uncalibrated"
    return f"calibrated by {', then '.join(link.method for link in links)}"


def same_chain(links: Sequence[Link], others: Sequence[Link]) -> bool:
    """True for the same calibrators in the same order."""
    if len(links) != len(others):
        return False
    for link, other in zip(links, others, strict=True):
        # a chain from a table has only the first digits of the hashes
        digits = min(len(link.sha256), len(other.sha256))
        if link.sha256[:digits] != other.sha256[:digits]:
            return False
    return True


def check_upstream(
    artifact: Artifact, where: str, name: str, links: Sequence[Link]
) -> None:
    """Refuse rows with upstream calibrators other than those of the artifact's fit.

    where, name : names of the artifact and of the rows. Raises DataError.
    """
    expected = artifact.fit.upstream or []
    check_chain(links, expected, name, f"{where} was fitted")


def check_chain(
    links: Sequence[Link], expected: Sequence[Link], name: str, fit: str
) -> None:
    """Refuse rows with upstream calibrators other than those of a fit.

    links : calibrators applied to the rows. expected : those applied to the rows of
    the fit. name : of the rows. fit : the fit in words, ``ts.json was fitted``. Raises
    DataError.
    """
    if same_chain(links, expected):
        return
    if links:
        scores = "uncalibrated scores"
        if expected:
            scores = f"scores calibrated by {words(expected)}"
        raise DataError(
            f"{name}: is already calibrated by {words(links)}, {fit} on {scores}: it"
            " would be calibrated twice; name the bundle that it was made from, or pass"
            " --again"
        )
    raise DataError(
        f"{name}: is uncalibrated, {fit} on scores calibrated"
        f" by {words(expected)}; apply that calibrator first, or pass --again"
    )


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str) else None


def _unknown(text: str) -> Link:
    return Link(
        hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest(),
        "unknown",
        None,
    )
