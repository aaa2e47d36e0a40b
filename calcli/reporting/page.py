"""The page as a whole: one file, no network, readable without its script."""

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from calcli import __version__
from calcli.diagrams.curve import CurveSettings
from calcli.evaluation.watch_state import State
from calcli.reporting.gather import ModelResults
from calcli.reporting.glossary import GLOSSARY
from calcli.reporting.markup import json_script, rendered, resource, visible
from calcli.reporting.number_format import count, samples
from calcli.reporting.script_data import data_of
from calcli.reporting.views.batches import batch_tables
from calcli.reporting.views.benefit import benefit_view
from calcli.reporting.views.evidence import (
    decomposition_view,
    files_view,
    numbers_view,
    signatures,
    temperature_view,
    test_lines,
)
from calcli.reporting.views.first_screen import FirstScreen, first_screen
from calcli.reporting.views.overview import overview_view
from calcli.reporting.views.parts import parts_view
from calcli.reporting.views.room import (
    ROOMS,
    Chapter,
    Room,
    drawn_only,
    with_drawn_first,
)
from calcli.reporting.views.selective import selective_view
from calcli.reporting.views.versions import versions_view
from calcli.reporting.views.watch import WatchView, watch_view
from calcli.reporting.views.where_wrong import readings, switches

LARGEST = 1_900_000
"""Most bytes of a page.

One that would be larger gets less detail per model, and in the end fewer models in
full.
"""

MOST_VERSIONS = (60, 120, 120)
"""Versions of all models above which a page of that detail is surely too large.

It is not tried then.
"""


@dataclass(frozen=True)
class Limit:
    """A limit of --max or --min, as a sentence."""

    is_crossed: bool
    sentence: str


@dataclass(frozen=True)
class ExplainedTerm:
    """A term of the glossary with its meaning on this page."""

    key: str
    word: str
    meaning: str


@dataclass(frozen=True)
class Document:
    """The frame of the page. facts : behind its title."""

    heading: str
    title: str
    facts: str
    version: str
    policy: str
    style: Markup
    script: Markup


@dataclass(frozen=True)
class ModelPart:
    """The part of the page about one model. data : for the script."""

    first_screen: FirstScreen
    name: str
    body: Markup
    data: Sequence[Any]

    @property
    def size(self) -> int:
        """Bytes of what can be left out."""
        return len(self.body.encode()) + len(json.dumps(self.data))


@dataclass(frozen=True)
class Contents:
    """What a page is about. watched : name of the state file."""

    models: Sequence[ModelResults]
    evaluation: Mapping[str, Any]
    title: str
    limits: Sequence[Limit]
    commands: Sequence[str]
    watch: WatchView | None
    watched: str


def page(
    models: Sequence[ModelResults],
    evaluation: Mapping[str, Any],
    *,
    title: str = "",
    limits: Sequence[Limit] = (),
    commands: Sequence[Sequence[str]] = (),
    watch: tuple[str, State] | None = None,
) -> str:
    """A whole HTML document.

    evaluation : the JSON of ``calcli evaluate``. watch : the name of a state file of
    ``calcli watch`` and the state; with it there may be no models. The same input gives
    the same text: there is no clock in it.
    """
    view = None
    if watch is not None:
        path, state = watch
        view = watch_view(state, path, "watch" if models else "verdict")
    contents = Contents(
        models=models,
        evaluation=evaluation,
        title=title,
        limits=limits,
        commands=[command_line(words) for words in commands],
        watch=view,
        watched="" if watch is None else watch[0],
    )
    text = ""
    parts: list[ModelPart] = []
    for room in _rooms_to_try(models):
        parts = [
            _model_part(model, number, room, len(models))
            for number, model in enumerate(models)
        ]
        text = _whole(contents, parts)
        if len(text.encode()) <= LARGEST:
            return text
    return _with_fewer_models(contents, parts, text)


def _rooms_to_try(models: Sequence[ModelResults]) -> Sequence[Room]:
    """Amounts of detail for which the page may be small enough."""
    n_versions = sum(len(model.versions) for model in models)
    n_hopeless = sum(n_versions > most for most in MOST_VERSIONS)
    return ROOMS[n_hopeless:]


def _with_fewer_models(
    contents: Contents, parts: Sequence[ModelPart], text: str
) -> str:
    """The page with the best calibrated models left out, until it is small enough.

    Of these their first screens stay, and the command that shows the rest.
    """
    models = contents.models
    parts = list(parts)
    kept = sorted(range(len(models)), key=lambda number: -_absolute_gap(models[number]))
    excess = len(text.encode()) - LARGEST
    while len(kept) > 1 and excess > 0:
        while len(kept) > 1 and excess > 0:
            number = kept.pop()
            excess -= parts[number].size
            parts[number] = _left_out(parts[number], models[number])
        text = _whole(contents, parts)
        excess = len(text.encode()) - LARGEST
    return text


def _absolute_gap(model: ModelResults) -> float:
    return abs(model.versions[0].report.facts.overconfidence.value)


def _left_out(part: ModelPart, model: ModelResults) -> ModelPart:
    words = ("calcli", "report", model.typed, "-o", "report.html")
    body = rendered("left_out.html", command=command_line(words))
    return ModelPart(part.first_screen, part.name, body, data=[])


def command_line(words: Sequence[str]) -> str:
    """A command that can be pasted; characters that nobody sees are spelled."""
    return " ".join(shlex.quote(visible(word)) for word in words)


# ---- parts


def _model_part(
    model: ModelResults, number: int, room: Room, n_models: int
) -> ModelPart:
    """The first screen and the sections about one model."""
    if room.tight:
        model = with_drawn_first(model)
    drawn = drawn_only(model) if room.tight else model
    chapter = Chapter(model, number, room)
    ident = "verdict"
    level = 2
    if n_models > 1:
        ident = f"verdict-{number}"
        level = 3
    return ModelPart(
        first_screen=first_screen(chapter, ident, level),
        name=model.name,
        body=_body(chapter, Chapter(drawn, number, room)),
        data=data_of(drawn),
    )


def _body(chapter: Chapter, drawn: Chapter) -> Markup:
    """All sections about one model.

    drawn : with those of its versions that are drawn.
    """
    batches = None
    parts = [parts_view(drawn, "groups"), parts_view(drawn, "classes")]
    if chapter.model.ordered:
        batches = batch_tables(drawn)
        parts = parts[1:]
    return rendered(
        "body.html",
        number=chapter.number,
        versions=versions_view(chapter),
        switches=switches(drawn),
        readings=readings(drawn),
        batches=batches,
        parts=[part for part in parts if part is not None],
        benefit=benefit_view(drawn),
        selective=selective_view(drawn),
        temperature=temperature_view(drawn),
        tests=test_lines(drawn),
        decomposition=decomposition_view(drawn),
        files=files_view(drawn),
        numbers=numbers_view(drawn),
    )


# ---- the whole


def _whole(contents: Contents, parts: Sequence[ModelPart]) -> str:
    models = contents.models
    markup = rendered(
        "page.html",
        document=_document(contents),
        overview=overview_view(models) if len(models) > 1 else None,
        watch=contents.watch,
        limits=contents.limits,
        chapters=parts,
        commands=contents.commands,
        signatures=signatures(models),
        explained=_explained(models),
        evaluation=json_script("calcli-evaluation", contents.evaluation),
        data=json_script("calcli-page", [part.data for part in parts]),
    )
    return str(markup)


def _document(contents: Contents) -> Document:
    style = resource("page.css")
    script = resource("page.js")
    return Document(
        heading="Confidence report" if contents.models else "Calibration watch",
        title=_title(contents),
        facts=_facts(contents),
        version=__version__,
        policy=_security_policy(style, script),
        style=Markup(style),
        script=Markup(script),
    )


def _title(contents: Contents) -> str:
    """Name of the page: as given, else that of what it is about."""
    if contents.title:
        return contents.title
    if len(contents.models) == 1:
        return contents.models[0].name
    if contents.models:
        return f"{count(len(contents.models))} models"
    return contents.watched


def _facts(contents: Contents) -> str:
    """Number of samples and classes of one model, or number of models."""
    models = contents.models
    if len(models) == 1:
        model = models[0]
        classes = f"{count(model.k)} classes" if model.k > 1 else "confidences alone"
        return f" · {samples(model.n)} · {classes}"
    if contents.title and models:
        return f" · {count(len(models))} models"
    return ""


def _security_policy(style: str, script: str) -> str:
    """A policy that loads nothing, and allows only this style and this script."""
    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{_sha256(script)}'",
        f"style-src 'sha256-{_sha256(style)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


def _sha256(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def _explained(models: Sequence[ModelResults]) -> list[ExplainedTerm]:
    """The glossary, with the level of intervals and the bins of this page."""
    settings = models[0].versions[0].top.settings if models else CurveSettings()
    explained = []
    for term in GLOSSARY.values():
        meaning = term.explained(settings.level, settings.bins)
        explained.append(ExplainedTerm(term.key, term.word, meaning))
    return explained
