"""What a deployed calibrator needs: a threshold, and a watch over it."""

from os import PathLike
from typing import Any

from calcli.api.argument_words import says_arguments
from calcli.api.arguments import Scores, checked, open_held_out, path_of
from calcli.api.calibrators import FittedCalibrator, artifacts_of
from calcli.errors import FitError
from calcli.fitting.rows_of_fit import fitted_on


@says_arguments
def threshold(
    scores: Scores,
    labels: Any = None,
    calibrator: FittedCalibrator | None = None,
    kind: str | None = None,
    *,
    accuracy: float,
    confidence: float = 0.95,
    units: Any = None,
    groups: Any = None,
    again: bool = False,
) -> dict[str, Any]:
    """Find the lowest confidence above which accuracy is at least ``accuracy``, with a
    guarantee.

    scores, labels, kind, units, groups, again : as for ``evaluate``; held-out rows,
    without weights. accuracy : in 0..1, of the rows that are accepted. confidence :
    probability with which the guarantee holds. Returns what ``calcli threshold --json``
    prints: ``threshold``, ``coverage``, ``accuracy``, ``accuracy_lower``, ``level``, …

    Raises FitError where no threshold guarantees it, UsageError for an accuracy outside
    0..1, DataError for bad rows.

    >>> import numpy as np
    >>> right = np.arange(1000) >= 100
    >>> threshold(np.linspace(0.5, 1.0, 1000), right, kind="confidence", accuracy=0.95)["accuracy"] >= 0.95
    True
    """
    from calcli.evaluation.selective_threshold import search_threshold

    artifacts = [] if calibrator is None else artifacts_of(calibrator)
    artifact = None
    name = None
    if artifacts:
        artifact = artifacts[0]
        name = artifact.method
    with open_held_out(scores, labels, kind, artifacts, groups, again, units=units) as (
        rows,
        notes,
    ):
        searched = search_threshold(rows, artifact, accuracy, confidence, name)
        notes += rows.caveats
        if artifact is not None:
            rows_of_fit = fitted_on(artifact, rows)
            if rows_of_fit is not None:
                notes.append(
                    f"{name} was fitted on {rows_of_fit}: here the guarantee does not"
                    " hold"
                )
    if searched.choice.best is None:
        raise FitError(searched.why_not)
    return searched.output.to_dict()


@says_arguments
def watch(
    scores: Scores,
    labels: Any = None,
    calibrator: FittedCalibrator | None = None,
    kind: str | None = None,
    *,
    units: Any = None,
    groups: Any = None,
    state: str | PathLike[str],
    reset: bool = False,
    again: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Take one batch of labelled rows into a state file, and say whether a deployed
    calibrator still holds.

    scores, labels, kind, units, groups, again : as for ``evaluate``. state : the file
    of ``calcli watch``, made at the first batch. reset : open a new episode. settings :
    ``tolerance`` (0..0.5), ``level`` (0..1), ``label`` (``top`` or ``positive``); left
    out, those of the batches before. Returns what ``calcli watch --json`` prints:
    ``alarm``, ``e``, ``log_e``, ``batches``, ``rows``, ``overconfidence``, ``since``, …

    Raises UsageError for settings that do not exist, DataError for bad rows, a batch
    that was already counted, rows of the fit, and where calibrator or settings are others
    than before.
    """
    from calcli.evaluation.watch import check_state_path
    from calcli.evaluation.watch import watch as take_in
    from calcli.evaluation.watch_state import Settings

    path = path_of(state, "state")
    artifacts = [] if calibrator is None else artifacts_of(calibrator)
    artifact = artifacts[0] if artifacts else None
    settings_given = {}
    for name, value in settings.items():
        settings_given[name] = getattr(checked(Settings, {name: value}), name)
    with open_held_out(scores, labels, kind, artifacts, groups, again, units=units) as (
        rows,
        notes,
    ):
        notes += rows.caveats
        if rows.location.name:
            check_state_path(path, [rows.path])
        state_after = take_in(
            path, rows, artifact, settings_given, new_episode=reset, tell=notes.append
        )
        return state_after.facts.to_dict()
