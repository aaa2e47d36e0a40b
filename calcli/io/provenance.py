"""Which calibrators rows have been through: the chain that bundles carry and artifacts record.

A bundle that ``apply`` writes has the attributes ``calibrator``, the artifact itself, and ``calibrated_by``, one link
for every calibrator from the first to this one. Bundles of calcli 0.1 have the former alone.
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
from calcli.io.artifact import Artifact, Link, encode_params, loads
from calcli.io.hdf5 import lookup, open_file

ATTRIBUTES = ("calibrator", "calibrated_by", "corrupted_labels")  # what a bundle made of another one takes over
MARKED = 16  # digits of a hash in a table: one chance in 10^19 that two calibrators share them

NOT_HELD_OUT = "what it shows here is not what new data will show; use held-out rows"
"""What a calibrator's numbers are worth on rows of its fit."""

LONGEST = 1 << 28  # bytes of a text of provenance in an archive


def identity(artifact: Artifact) -> str:
    """SHA-256 of what an artifact computes: method and parameters, not how and when it was fitted."""
    content = {"method": artifact.method, "n_classes": artifact.n_classes, "params": encode_params(artifact.calibrator)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def link_to(artifact: Artifact, in_sample: str | None = None) -> Link:
    """An artifact's entry in a chain. in_sample : which of the rows it was fitted on."""
    return Link(identity(artifact), artifact.method, artifact.fit.source, in_sample or msgspec.UNSET)


def in_sample(links: Sequence[Link]) -> str:
    """Which of the rows calibrators that they have been through were fitted on, in words; empty where on none."""
    found: dict[str, list[str]] = {}
    for link in links:
        if link.in_sample:
            found.setdefault(link.in_sample[:200], []).append(link.method)
    each = (f"{' and '.join(m)} {'was' if len(m) == 1 else 'were'} fitted on {rows}" for rows, m in found.items())
    return ", ".join(each)


def of_several(*links: Link) -> Link:
    """The entry of one calibrator in the chain of several bundles together."""
    known = {link.in_sample or "" for link in links}
    return links[0] if len(known) == 1 else replace(links[0], in_sample="some of these rows")


def chain_of(attributes: Mapping[str, Any]) -> tuple[Link, ...]:
    """The calibrators that a bundle's attributes name, oldest first; none when it is uncalibrated. What cannot be read
    is a link too, known by the hash of its text: never no calibrator."""
    chain, last = _text(attributes.get("calibrated_by")), _text(attributes.get("calibrator"))
    if chain is not None:
        try:
            return tuple(msgspec.json.decode(chain, type=list[Link]))
        except (msgspec.DecodeError, RecursionError):
            return (_unknown(chain),)
    if last is None or not last.lstrip().startswith("{"):  # an attribute of that name in somebody's own file
        return ()
    try:
        return (link_to(loads(last, "calibrator")),)
    except DataError:
        return (_unknown(last),)


def carried(path: Path, dataset: str) -> dict[str, str]:
    """The texts of provenance that a file holds beside a dataset: HDF5, npz and Parquet have a place for them."""
    with path.open("rb") as file:
        start = file.read(4)
    found: Mapping[str, Any] = {}
    if start == b"PAR1":
        from pyarrow.parquet import read_schema

        metadata = read_schema(path).metadata or {}
        found = {name: metadata.get(name.encode()) for name in ATTRIBUTES}
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            sizes = {member.filename: member.file_size for member in archive.infolist()}
            here = [name for name in ATTRIBUTES if 0 < sizes.get(f"{name}.npy", 0) <= LONGEST]
        if here:
            with np.load(path, allow_pickle=False) as arrays:
                found = {name: str(arrays[name]) for name in here if arrays[name].dtype.kind == "U"}
    elif h5py.is_hdf5(path):
        with open_file(path) as opened:
            group = lookup(opened, dataset.rpartition("/")[0])
            if isinstance(group, h5py.Group):
                found = {name: group.attrs.get(name) for name in ATTRIBUTES}
    return {name: text for name in ATTRIBUTES if (text := _text(found.get(name))) is not None}


def chain_text(links: Sequence[Link]) -> str:
    """A chain as the attribute ``calibrated_by``."""
    return msgspec.json.encode(links).decode()


def mark(chain: str) -> str:
    """A chain for a column of a table, which has no place but its rows: ``ts:1f0a93c2d4e5f607 hb:77b1d0e5c3a29f18``.
    What a calibrator was fitted on follows it, ``ts:1f0a93c2d4e5f607:these_very_rows``."""
    links = chain_of({"calibrated_by": chain})
    seen = [f":{link.in_sample.replace(' ', '_')}" if link.in_sample else "" for link in links]
    return " ".join(f"{link.method}:{link.sha256[:MARKED]}{own}" for link, own in zip(links, seen, strict=True))


def unmarked(marks: Sequence[str], where: str) -> str | None:
    """The chain that the rows of a table are marked with; None for none. Raises DataError where rows differ."""
    first = marks[0].strip()
    for row, text in enumerate(map(str.strip, marks)):
        if text != first:
            none, told = "no calibrator", f"{where}: row 0 has been through"
            raise DataError(f"{told} {first or none!r}, row {row} through {text or none!r}; take them one by one")
    if not first:
        return None
    parts = [re.fullmatch(f"(.+?):([0-9a-f]{{{MARKED},64}})(?::(.+))?", word) for word in first.split()]
    if all(parts):
        links = [(p[2], p[1], None, p[3].replace("_", " ") if p[3] else msgspec.UNSET) for p in parts if p]
        return chain_text([Link(*link) for link in links])
    return chain_text([_unknown(first)])


def words(links: Sequence[Link]) -> str:
    """A chain as a person reads it: ``ts (1f0a93c2), then hb (77b1d0e5)``."""
    return ", then ".join(f"{link.method} ({link.sha256[:8]})" for link in links)


def title_of(links: Sequence[Link]) -> str:
    """What people call scores that have been through these: ``calibrated by ts, then hb``, or ``uncalibrated``."""
    return f"calibrated by {', then '.join(link.method for link in links)}" if links else "uncalibrated"


def check_upstream(artifact: Artifact, where: str, name: str, links: Sequence[Link]) -> None:
    """Refuse rows that have been through other calibrators than those an artifact was fitted behind. where, name : of
    the artifact and of the rows. links : what the rows have been through. Raises DataError."""
    expected = artifact.fit.upstream or []
    pairs = [(link.sha256, other.sha256) for link, other in zip(links, expected, strict=False)]
    # those of one chain may be from a table, with the beginnings of hashes
    if len(links) == len(expected) and all(a.startswith(b) or b.startswith(a) for a, b in pairs):
        return
    if links:
        fitted = f"scores calibrated by {words(expected)}" if expected else "uncalibrated scores"
        told = f"is already calibrated by {words(links)}, {where} was fitted on {fitted}: it would be calibrated twice"
        raise DataError(f"{name}: {told}; name the bundle that it was made from, or pass --again")
    told = f"is uncalibrated, {where} was fitted on scores calibrated by {words(expected)}"
    raise DataError(f"{name}: {told}; apply that calibrator first, or pass --again")


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str) else None


def _unknown(text: str) -> Link:
    return Link(hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest(), "unknown", None)
