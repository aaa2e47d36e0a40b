"""What an import tells the user: remarks on what it read, and errors of readers."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from calcli.errors import CalcliError, DataError, one_line

STAND_INS = (
    "calcli.importers.readers.",
    "calcli.importers.pickled",
    "calcli.importers.torch_tensors",
)
"""Modules whose objects stand in for those of a pickle."""

_remarks: ContextVar[list[str] | None] = ContextVar("remarks", default=None)


@contextmanager
def remarks() -> Iterator[list[str]]:
    """Collect the remarks made within the context, in order."""
    sentences: list[str] = []
    token = _remarks.set(sentences)
    try:
        yield sentences
    finally:
        _remarks.reset(token)


def remark(sentence: str) -> None:
    """Add a remark for the user, once. Outside of ``remarks()`` it is dropped."""
    sentences = _remarks.get()
    if sentences is not None and sentence and sentence not in sentences:
        sentences.append(sentence)


def remark_left_out(name: str, n_left_out: int, n: int, what: str) -> None:
    """Remark that some rows of a file, if any, were left out, and what they are."""
    if n_left_out:
        remark(f"{name}: {n_left_out} of {n} {what}: left out")


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn any error of a reader on a broken file into a DataError of one line.

    Errors that no file can cause, which are bugs, pass unchanged.
    """
    try:
        yield
    except CalcliError:
        raise
    except MemoryError:
        raise DataError(
            f"{path}: {what} does not fit into memory; .npy and HDF5 are streamed"
        ) from None
    except (NameError, ImportError):
        raise
    except Exception as problem:  # NumPy, h5py, pyarrow and torch raise many types
        if _is_bug(problem):
            raise
        reason = one_line(problem)
        if isinstance(problem, KeyError):
            reason = f"a part has no {reason}"
        raise DataError(
            f"{path}: cannot read {what}: {reason}; is the file complete?"
        ) from problem


def _is_bug(problem: Exception) -> bool:
    """Check for a missing attribute of one of calcli's own objects.

    The stand-ins of the pickle reader lack attributes on purpose.
    """
    if not isinstance(problem, AttributeError):
        return False
    home = type(problem.obj).__module__
    return home.startswith("calcli.") and not home.startswith(STAND_INS)
