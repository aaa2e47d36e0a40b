"""Several models: how many have each verdict, and a table of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.diagrams.caption_text import distinct
from calcli.evaluation.facts import Estimate
from calcli.reporting.answers import actions_of_several, headline_of_several
from calcli.reporting.gather import ModelResults
from calcli.reporting.number_format import (
    NONE,
    count,
    fixed,
    share,
    signed_points,
    span,
)
from calcli.reporting.views.states import State, state_of, tone_of


@dataclass(frozen=True)
class ModelRow:
    """A model. short : its name without what all names share. after : recommended."""

    number: int
    name: str
    short: str
    rank: str
    state: State
    gap: str
    interval: str
    accuracy: str
    nll: str
    samples: str
    best: str


@dataclass(frozen=True)
class Action:
    """What to do, and about how many models."""

    lead: str
    about: str


@dataclass(frozen=True)
class OverviewView:
    """The first screen of several models, the best calibrated first."""

    headline: str
    tone: str
    actions: Sequence[Action]
    rows: Sequence[ModelRow]
    names: Sequence[str]
    has_best: bool


def overview_view(models: Sequence[ModelResults]) -> OverviewView:
    """The table of models by absolute overconfidence, the least first."""
    gaps = [model.versions[0].report.facts.overconfidence for model in models]
    short_names = distinct([model.name for model in models])
    ranks = rank_ranges(gaps)
    order = sorted(range(len(models)), key=lambda number: abs(gaps[number].value))
    rows = []
    for number in order:
        rows.append(_row(models[number], number, short_names[number], ranks[number]))
    tones = {tone_of(model.versions[0].report) for model in models}
    actions = []
    for lead, n in actions_of_several(models):
        actions.append(Action(lead, f"{count(n)} of {count(len(models))}"))
    return OverviewView(
        headline=headline_of_several(models),
        tone=tones.pop() if len(tones) == 1 else "warning",
        actions=actions,
        rows=rows,
        names=[model.name for model in models],
        has_best=any(row.best != NONE for row in rows),
    )


def _row(model: ModelResults, number: int, short: str, rank: str) -> ModelRow:
    first = model.versions[0]
    gap = first.report.facts.overconfidence
    nll = first.result.scores.get("nll")
    best = NONE
    if model.recommended is not None:
        best = model.versions[model.recommended].name
    return ModelRow(
        number=number,
        name=model.name,
        short=short,
        rank=rank,
        state=state_of(first.report),
        gap=signed_points(gap.value),
        interval=span(gap.interval.low, gap.interval.high),
        accuracy=share(first.report.facts.accuracy),
        nll=NONE if nll is None else fixed(nll.value),
        samples=count(model.n),
        best=best,
    )


def rank_ranges(gaps: Sequence[Estimate]) -> list[str]:
    """Ranks that each model may have, given intervals of absolute overconfidence."""
    ends = np.array([(gap.interval.low, gap.interval.high) for gap in gaps])
    sizes = np.abs(ends)
    holds_zero = (ends[:, 0] < 0.0) & (ends[:, 1] > 0.0)
    low = np.where(holds_zero, 0.0, sizes.min(axis=1))
    high = sizes.max(axis=1)
    ranks = []
    for least, most in zip(low, high, strict=True):
        best = 1 + int((high < least).sum())
        worst = len(gaps) - int((low > most).sum())
        ranks.append(f"{best}" if best == worst else f"{best}–{worst}")
    return ranks
