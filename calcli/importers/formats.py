"""Which reader a file needs: told by its content, with its name as a hint."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from calcli.errors import DataError
from calcli.importers.archive import Archive, one_line

__all__ = ["EXTENSIONS", "open_archive", "recognise"]

EXTENSIONS = {
    ".npz": "npz",
    ".npy": "npy",
    ".pt": "pt",
    ".pth": "pt",
    ".safetensors": "safetensors",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".p": "pickle",
    ".pkl": "pickle",
    ".pickle": "pickle",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".hdf": "hdf5",
}

HEAD = 4096
TORCH_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""A pickled number that files of torch.save begin with when they are not zip archives."""


def recognise(path: Path) -> tuple[str, str | None]:
    """The format of a file, by content: (format, a note when its name says otherwise).

    Raises DataError for a missing, empty or unknown file.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder, expected a file of scores")
    if not path.exists():
        raise DataError(f"{path}: no such file")
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as problem:
        raise DataError(f"{path}: cannot be read: {one_line(problem)}") from None
    if not head:
        raise DataError(f"{path}: the file is empty")
    if path.suffix.lower() == ".onnx" or (head.startswith(b"PK\x03\x04") and _is_model(path)):
        raise DataError(
            f"{path}: is a model, expected scores that a model has given; to run it:"
            f" calcli extract --model {path.name} --inputs INPUTS -o OUT.h5"
        )
    named = EXTENSIONS.get(path.suffix.lower())
    found = _by_content(path, head, named)
    if found is None:
        kinds = ", ".join(dict.fromkeys(EXTENSIONS.values()))
        told = (
            f"is not the {named} file its name promises (cut off at its start?)" if named else "is of no known format"
        )
        raise DataError(f"{path}: {told}, expected one of {kinds}")
    if named and found != named:
        return found, f"{path.name} is a {found} file in spite of its name; it is read as such"
    return found, None


def _by_content(path: Path, head: bytes, named: str | None) -> str | None:
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"\x89HDF\r\n\x1a\n") or (named == "hdf5" and b"\x89HDF\r\n\x1a\n" in head):
        return "hdf5"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"PK\x03\x04"):
        return _zip(path, named)
    if head.startswith(TORCH_LEGACY):
        return "pt"
    length = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and (named == "safetensors" or length < path.stat().st_size):
        return "safetensors"
    if head[0] == 0x80 and len(head) > 1 and head[1] <= 5:
        return "pickle"
    if named == "pickle" and head[:1] in b"(]}cli[":  # protocols 0 and 1 are half text
        return "pickle"
    if named in (None, "csv") or not any(byte < 9 for byte in head):
        return "csv" if _is_text(head) and (named == "csv" or any(c in head for c in b",;\t|")) else None
    return None


def _zip(path: Path, named: str | None) -> str | None:
    """npz and pt files are both zip archives."""
    members = _members(path)
    if members is None:
        return named if named in ("npz", "pt") else None  # the reader says what is wrong
    if any(name.endswith("data.pkl") for name in members):
        return "pt"
    return "npz" if any(name.endswith(".npy") for name in members) else None


def _is_model(path: Path) -> bool:
    """TorchScript archives carry code, exported programs a file that says what they are."""
    members = _members(path) or []
    return any(
        "/code/" in name or name.endswith(("archive_format", "serialized_exported_program.json")) for name in members
    )


def _members(path: Path) -> list[str] | None:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        if problem.start < len(head) - 3:  # else a character is cut in two
            return False
        text = head[: problem.start].decode("utf-8-sig")
    return "\0" not in text


def open_archive(path: Path, stack: ExitStack, labels: Sequence[str] = ()) -> Archive:
    """Open a file of arrays in any known format; ``stack`` closes it.

    labels : names of the arrays of labels, which tables need to know beforehand.
    """
    format, note = recognise(path)
    match format:
        case "npy":
            from calcli.importers.npz_npy import read_npy as reader
        case "npz":
            from calcli.importers.npz_npy import read_npz as reader
        case "pt":
            from calcli.importers.pt import read_pt as reader
        case "safetensors":
            from calcli.importers.safetensors import read_safetensors as reader
        case "pickle":
            from calcli.importers.nn_pickle import read_pickle as reader
        case "hdf5":
            from calcli.importers.foreign_hdf5 import read_hdf5 as reader
        case _:
            from calcli.importers import table

            read_table = table.read_csv if format == "csv" else table.read_parquet
            archive = read_table(path, stack, labels)
            return _noted(archive, note)
    return _noted(reader(path, stack), note)


def _noted(archive: Archive, note: str | None) -> Archive:
    if not archive.entries:
        raise DataError(f"{archive.path}: holds no arrays")
    if note is None:
        return archive
    return Archive(archive.path, archive.format, archive.entries, archive.loose, (*archive.notes, note))
