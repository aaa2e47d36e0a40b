"""Comparisons of methods."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calcli import __version__
from calcli.api.argument_words import says_arguments
from calcli.api.arguments import Scores, checked, open_scores, warn_all
from calcli.calibrator import Context
from calcli.errors import DataError
from calcli.evaluation.cross_validation import folds_of
from calcli.io.harmless import finite
from calcli.metrics.settings import MetricSettings

if TYPE_CHECKING:
    from calcli.evaluation.leaderboard import (
        CompareSettings,
        LeaderboardEntry,
        OpenedFolds,
    )


@says_arguments
def compare(
    scores: Scores,
    labels: Any = None,
    methods: str | Sequence[str] | None = None,
    kind: str | None = None,
    *,
    weights: Any = None,
    units: Any = None,
    class_names: Sequence[str] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Rank methods by rows that they were not fitted on.

    scores, labels, kind, weights, units, class_names : as for ``fit``. methods : names,
    with options as in ``hb(bins=20)``, or ``all``; left out, those that ``calcli
    methods`` lists first. settings : ``baseline``, the reference for differences,
    ``ts`` unless named; ``folds``, random parts of the rows (2..1000, else 5), each
    scored by the fit to the others; ``seed``; ``level`` of intervals; ``thorough``, of
    ``all`` also methods with more parameters than rows. Returns what ``calcli compare
    --json`` prints.

    Raises UsageError for methods and settings that do not exist, DataError for bad rows
    and for confidences. A method whose fit fails has ``status`` ``failed`` and a
    reason.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 300)
    >>> logits = 4 * (rng.normal(size=(300, 3)) + 1.5 * np.eye(3)[labels])
    >>> found = compare(logits, labels, ["ts", "ec"])
    >>> [each["method"] for each in found["results"]]
    ['ts', 'uncalibrated', 'ec']
    >>> found["differences"][0]["metrics"]["nll"]["value"] > 0  # of the uncalibrated scores minus ts
    True
    """
    from calcli.evaluation import leaderboard as board

    if methods is not None and not isinstance(methods, str):
        methods = ",".join(methods)
    how = checked(board.CompareSettings, settings)
    more = {"weights": weights, "units": units, "class_names": class_names}
    with open_scores(scores, labels, kind, prefer=("cal", "val"), **more) as rows:
        if rows.kind == "confidence":
            raise DataError(
                f"{rows.name}: holds confidences, which have no NLL of the label"
            )
        folds = folds_of(rows, Context(how.seed), how.folds)
        if not folds:
            raise DataError(
                f"{rows.name}: folds need two or more rows of positive weight"
            )
        board.check_folds(folds, how.folds, rows)
        for _ in rows.blocks():
            pass  # a complete walk checks every row and makes the hash
        warn_all(rows.caveats)
        names, _ = board.entrants(methods, rows, how.thorough)
        baseline = board.baseline_of(how.baseline, names)
        entries = _entries(board.OpenedFolds(rows, rows, folds), names, baseline, how)
    shared = board.SharedSettings(
        folds=how.folds,
        test=None,
        seed=how.seed,
        level=how.level,
        baseline=baseline,
        calcli_version=__version__,
    )
    comparison = board.comparison(entries, shared, None)
    return dict(finite(comparison.to_dict()))


def _entries(
    opened: "OpenedFolds",
    names: Sequence[str],
    baseline: str,
    how: "CompareSettings",
) -> list["LeaderboardEntry"]:
    """The baseline, then every other method, each scored out of sample."""
    from calcli.evaluation import leaderboard as board

    rows = opened.scored
    folds = opened.folds
    settings = MetricSettings(seed=how.seed, level=how.level)
    planned = board.LeaderboardEntry(
        rows.name,
        baseline,
        rows.n,
        rows.k,
        board.digest_of(rows),
        0.0,
        {},
        unit=rows.unit_name,
    )
    of_baseline = board.held_out(baseline, opened, how.seed, nullcontext(()))
    entries = [board.entered(planned, of_baseline, None, settings)]
    against = []
    if of_baseline.table is not None:
        for (_, held_out, _), fit in zip(folds, of_baseline.fits, strict=True):
            against.append((held_out, fit))
    for name in dict.fromkeys(names):
        if name == baseline:
            continue
        entry = replace(planned, method=name, against=(rows.name, baseline))
        outcome = board.held_out(name, opened, how.seed, nullcontext(against))
        entries.append(board.entered(entry, outcome, of_baseline, settings))
    return entries
