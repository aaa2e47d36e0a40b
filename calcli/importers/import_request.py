"""What the user says about a source of scores."""

from calcli.fast_dataclass import dataclass

REDUCE = ("none", "mean", "sum", "min", "first")
"""How the positions of a sequence become one."""


@dataclass(frozen=True)
class ImportRequest:
    """What the user says about the source; every reader receives it.

    scores, labels : names of arrays. kind : of all scores. groups : parts of the source to
    take. all_scores : take every array of scores. no_labels : labels may be missing.
    class_names : of the classes, in order. views : what to do with an axis of views,
    ``take=0``, ``mean`` or ``transforms``. normalize, choices, filter : of multiple-choice
    files: log-likelihoods per what, questions with how many candidates, after which filter.
    classes : how many there are, of which the scores of the best few are there. reduce : how
    the positions of a sequence become one. gold : a file of right answers, joined by ids.
    join : the sources are parts of one data set; drop_duplicates : of rows with one id keep
    the first. per_label : several labels may hold at once.
    confidence, correct : names of arrays that say how sure and whether right, instead of
    scores and labels; ``A=B`` for correct says where two arrays agree. corrupt_labels : share
    of the classes whose labels become random. draw : rows to draw with replacement.
    """

    scores: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    kind: str | None = None
    groups: tuple[str, ...] = ()
    all_scores: bool = False
    no_labels: bool = False
    class_names: tuple[str, ...] = ()
    views: str | None = None
    normalize: str = "none"
    choices: int | None = None
    filter: str | None = None
    join: bool = False
    gold: str | None = None
    classes: int | None = None
    reduce: str | None = None
    per_label: bool = False
    drop_duplicates: bool = False
    confidence: str | None = None
    correct: str | None = None
    corrupt_labels: float = 0.0
    draw: int | None = None
