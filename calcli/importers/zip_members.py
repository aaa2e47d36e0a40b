"""JSON files in a zip archive, also of members packed with zstd."""

import json
import zipfile
import zlib
from pathlib import Path
from re import Pattern
from typing import Any

from calcli.errors import DataError
from calcli.importers.source_file import seek_member
from calcli.io.validate import refuse_bomb
from calcli.optional_packages import optional_import

ZSTD = 93
"""Number of the method zstd in zip archives."""


def json_members(path: Path, names: Pattern[str], advice: str) -> list[Any]:
    """The JSON values of members with such names, in the order of the archive.

    advice : how to repack an archive that cannot be unpacked here. Raises DataError.
    """
    values = []
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if names.fullmatch(member.filename):
                where = f"{path}: {member.filename}"
                refuse_bomb(where, member.file_size, member.compress_size)
                values.append(json.loads(_unpacked(path, archive, member, advice)))
    return values


def _unpacked(
    path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, advice: str
) -> bytes:
    """Read a member; one that is packed with zstd by zstandard, before Python 3.14."""
    try:
        return archive.read(member)
    except NotImplementedError:
        if member.compress_type != ZSTD:
            raise DataError(
                f"{path}: is packed by method {member.compress_type}; {advice}"
            ) from None
        return _unpacked_by_zstandard(path, member, advice)


def _unpacked_by_zstandard(path: Path, member: zipfile.ZipInfo, advice: str) -> bytes:
    """Read a member packed with zstd. Raises DataError for a damaged one."""
    use = f"{path}: reading members packed by method {ZSTD}"
    with optional_import("zstandard", use, f"or {advice}"):
        import zstandard
    with path.open("rb") as opened:
        seek_member(opened, member.header_offset)
        packed = opened.read(member.compress_size)
    unpacking = zstandard.ZstdDecompressor()
    stream = unpacking.stream_reader(packed, read_across_frames=True)
    data: bytes = stream.read(member.file_size + 1)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise DataError(f"{path}: {member.filename} is damaged; copy the log again")
    return data
