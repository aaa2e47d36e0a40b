"""What the user says about a source of scores."""

from dataclasses import dataclass

__all__ = ["Ask"]


@dataclass(frozen=True)
class Ask:
    """What the user says about the source; every reader receives it.

    scores, labels : names of arrays. kind : of all scores. groups : parts of the source to
    take. all_scores : take every array of scores. no_labels : labels may be missing.
    """

    scores: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    kind: str | None = None
    groups: tuple[str, ...] = ()
    all_scores: bool = False
    no_labels: bool = False
