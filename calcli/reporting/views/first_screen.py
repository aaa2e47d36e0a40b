"""The first screen: headline, what it was before, picture, three answers, next command."""

from dataclasses import dataclass

from markupsafe import Markup

from calcli.reporting.answers import Answers, answers_on
from calcli.reporting.figures.reliability import DrawnCurve, reliability_figure
from calcli.reporting.gather import ModelResults
from calcli.reporting.number_format import typeset
from calcli.reporting.views.room import Chapter
from calcli.reporting.views.states import SIGNS, WORDS, tone_of


@dataclass(frozen=True)
class FirstScreen:
    """The first screen of one model.

    verdict : the headline exactly as in the JSON. strong, rest : its words in the
    notation of the page, the first of them strong. before : headline of the
    uncalibrated scores, where another version stands above. level : of the heading.
    picture : None where there is no room.
    """

    ident: str
    label: str
    level: int
    tone: str
    sign: str
    version: str
    is_recommended: bool
    has_versions: bool
    verdict: str
    strong: str
    rest: str
    before: str
    picture: Markup | None
    picture_ident: str
    answers: Answers
    command: str | None


def first_screen(chapter: Chapter, ident: str, level: int) -> FirstScreen:
    """The first screen on a model. ident : of its section."""
    model = chapter.model
    focus = model.focus
    version = model.versions[focus]
    report = version.report
    headline = typeset(report.headline)
    strong = _strong_words(headline, WORDS[report.kind])
    before = ""
    if focus:
        before = typeset(model.versions[0].report.headline)
    picture_ident = chapter.ident("before-after")
    picture = None
    if not chapter.room.short:
        picture = before_and_after(model, picture_ident)
    return FirstScreen(
        ident=ident,
        label="Verdict" if ident == "verdict" else f"Verdict on {model.name}",
        level=level,
        tone=tone_of(report),
        sign=SIGNS[report.kind],
        version=version.name,
        is_recommended=model.recommended == focus,
        has_versions=len(model.versions) > 1,
        verdict=report.headline,
        strong=strong,
        rest=headline.removeprefix(strong),
        before=before,
        picture=picture,
        picture_ident=picture_ident,
        answers=answers_on(model),
        command=model.versions[0].report.next_step.command,
    )


def _strong_words(headline: str, word: str) -> str:
    """The words of a headline that are its verdict. word : of its kind."""
    if headline.startswith(word):
        return word
    return headline.partition(":")[0]


def before_and_after(model: ModelResults, ident: str) -> Markup:
    """Reliability of the uncalibrated scores and of the version in focus."""
    curves = []
    for number in dict.fromkeys((0, model.focus)):
        version = model.versions[number]
        curve = version.top
        if model.is_about_class_one and version.positive is not None:
            curve = version.positive
        curves.append(DrawnCurve(curve, number))
    return reliability_figure(curves, model.focus, ident)
