"""What an import took for what: the one log of sentences for the user, kept while it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_log: ContextVar[list[str] | None] = ContextVar("remarks", default=None)


@contextmanager
def remarks() -> Iterator[list[str]]:
    """Every sentence that is remarked within, in its order."""
    kept: list[str] = []
    token = _log.set(kept)
    try:
        yield kept
    finally:
        _log.reset(token)


def remark(sentence: str) -> None:
    """Tell the user something of the source, once; nobody hears it where no import keeps remarks."""
    if (kept := _log.get()) is not None and sentence and sentence not in kept:
        kept.append(sentence)
