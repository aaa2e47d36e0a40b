"""A deployed calibrator under ``calcli watch``: alarm, evidence, newest batches."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from calcli.evaluation.watch_state import Batch, State
from calcli.reporting.figures.evidence import LARGEST_EVIDENCE, evidence_figure
from calcli.reporting.number_format import count, samples, share, signed_points

NEWEST = 200
"""Batches that are listed."""


@dataclass(frozen=True)
class WatchedBatch:
    """One batch. is_alarm : is its evidence enough for an alarm?"""

    name: str
    samples: str
    accuracy: str
    gap: str
    evidence: str
    is_alarm: bool
    episode: str


@dataclass(frozen=True)
class WatchView:
    """The state of a watched calibrator.

    path : name of its file where the page has another title. since : batch of the
    alarm, None for none.
    """

    ident: str
    path: str
    since: str | None
    sentence: str
    evidence: str
    promise: str
    figure: Markup
    accuracy_head: str
    caption: str
    rows: Sequence[WatchedBatch]


def watch_view(state: State, path: str, ident: str) -> WatchView:
    """The view of a state file. path : its name. ident : of the section."""
    alarm_at = state.current.alarm_at
    level = state.settings.level
    threshold = f"{1.0 / level:.3g}"
    newest = state.batches[-NEWEST:]
    listed = f"The newest {count(len(newest))} of {count(len(state.batches))} batches"
    sentence = _sentence(state)
    promise = (
        f"While the confidence is right within the tolerance, the evidence ever reaches"
        f" {threshold} with probability at most {share(level)}, however often one"
        " looks."
    )
    return WatchView(
        ident=ident,
        path=path if ident == "watch" else "",
        since=None if alarm_at is None else state.current_batches[alarm_at - 1].name,
        sentence=sentence,
        evidence=_evidence_sentence(state),
        promise=promise,
        figure=evidence_figure(state, sentence, "evidence"),
        accuracy_head="Accuracy" if state.settings.label == "top" else "Class 1",
        caption=f"{listed} in order of time; ✗: evidence of {threshold} or more.",
        rows=[_row(batch, 1.0 / level) for batch in newest],
    )


def _sentence(state: State) -> str:
    """Whether the confidence is still right, and what to do if not."""
    tolerance = f"{100 * state.settings.tolerance:g} points"
    if state.current.alarm_at is None:
        return f"Nothing shows that the confidence is off by more than {tolerance}."
    return (
        f"The confidence is off by more than {tolerance}: fit a calibrator to newer"
        " samples, then watch with --reset."
    )


def _evidence_sentence(state: State) -> str:
    """The evidence of the current episode in numbers."""
    batches = state.current_batches
    if not batches:
        return f"Episode {state.episode} has no batch yet."
    evidence = evidence_text(batches[-1].e)
    alarm = f"{1.0 / state.settings.level:.3g}"
    n = sum(batch.n for batch in batches)
    plural = "batch" if len(batches) == 1 else "batches"
    parts = [
        f"Evidence {evidence} (alarm at {alarm})",
        f"{count(len(batches))} {plural}, {samples(n)}",
        f"newest batch {signed_points(batches[-1].overconfidence)} points",
    ]
    since = state.evidence.since
    if state.current.alarm_at is not None and 0 < since <= len(batches):
        parts.append(f"the change seems to start at {batches[since - 1].name}")
    return f"{'; '.join(parts)}."


def _row(batch: Batch, alarm_at: float) -> WatchedBatch:
    return WatchedBatch(
        name=batch.name,
        samples=count(batch.n),
        accuracy=share(batch.accuracy),
        gap=signed_points(batch.overconfidence),
        evidence=evidence_text(batch.e),
        is_alarm=batch.e >= alarm_at,
        episode=count(batch.episode),
    )


def evidence_text(evidence: float) -> str:
    """Evidence with three digits; what is very large without them."""
    if evidence > LARGEST_EVIDENCE:
        return f"over {count(round(LARGEST_EVIDENCE))}"
    if evidence >= 1000.0:
        return count(round(evidence))
    if evidence < 0.001:
        return "under 0.001"
    return f"{evidence:.3g}"
