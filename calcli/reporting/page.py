"""The page as a whole: one file, no network, readable without its script."""

import base64
import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from calcli import __version__
from calcli.diagrams.curve import CurveSettings
from calcli.evaluation.results import Estimate
from calcli.evaluation.watch import State
from calcli.metrics.intervals import normal_quantile
from calcli.reporting.components import (
    GLOSSARY,
    NONE,
    Room,
    download,
    drawn_of,
    focus_of,
    section,
    state_word,
    table,
    term,
)
from calcli.reporting.gather import ModelResults, Threshold, Version
from calcli.reporting.markup import Safe, data_block, distinct, join, name, tag, visible
from calcli.reporting.number_format import count, fixed, samples, share, signed, span
from calcli.reporting.sections import card, model_body, signatures, watched
from calcli.reporting.verdicts import overall, report_of, tone, verdict_of

COLOURS = (("", "as the system"), ("light", "light"), ("dark", "dark"))

LARGEST = 1_900_000
"""Bytes of a page. One that would be larger has less of each model, and at last fewer models in full."""

ROOMS = (Room(), Room(short=True), Room(100, short=True), Room(20, short=True, tight=True))
"""From all there is to the least."""

MOST = (60, 120, 120)
"""Versions of all models above which the first rooms are not tried: their pages are sure to be too large."""


def page(
    models: Sequence[ModelResults],
    evaluation: Mapping[str, Any],
    *,
    title: str = "",
    limits: Sequence[tuple[bool, str]] = (),
    commands: Sequence[Sequence[str]] = (),
    watch: tuple[str, State] | None = None,
) -> str:
    """A whole HTML document. evaluation : the JSON of ``calcli evaluate``. limits : (crossed, sentence).

    watch : a state of ``calcli watch`` and the name of its file; with it there may be no models. The same input gives
    the same text: there is no clock in it.
    """
    one = len(models) == 1
    called = title or (models[0].name if one else f"{len(models)} models" if models else watch[0] if watch else "")
    facts = f" · {len(models)} models" if title and models else ""
    if one:
        known = f"{models[0].k} classes" if models[0].k > 1 else "confidences alone"
        facts = f" · {samples(models[0].n)} · {known}"
    settings = models[0].versions[0].top.settings if models else CurveSettings()
    foot = join([_how(models, commands), _words(settings)])
    between = join(
        [*([watched(watch[1], watch[0], "watch" if models else "verdict")] if watch else []), _limits(limits)]
    )
    around = _document(called, _header(called, facts), foot, data_block("calcli-evaluation", evaluation))
    versions = sum(len(m.versions) for m in models)
    for room in ROOMS[sum(versions > most for most in MOST) :]:
        bodies = {at: model_body(model, at, room) for at, model in enumerate(models)}
        data: list[Any] = [[_for_script(v) for v in drawn_of(model, room)[1].versions] for model in models]
        text = around(_content(models, between, bodies), data)
        if len(text.encode()) <= LARGEST:
            return text
    kept = sorted(range(len(models)), key=lambda at: -abs(report_of(models[at].versions[0]).overconfidence.value))
    while len(kept) > 1 and (spare := len(text.encode()) - LARGEST) > 0:
        while len(kept) > 1 and spare > 0:
            at = kept.pop()
            spare -= len(bodies[at].encode()) + len(json.dumps(data[at]))
            bodies[at], data[at] = _left_out(models[at]), []
        text = around(_content(models, between, bodies), data)
    return text


def _document(called: str, header: Safe, foot: Safe, evaluation: Safe) -> Callable[[Safe, Sequence[Any]], str]:
    """A function from the content, and what the script reads of each model, to the whole document."""
    style, script = (files("calcli.reporting").joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))

    def document(content: Safe, data: Sequence[Any]) -> str:
        body = tag(
            "body",
            tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
            header,
            tag("main", content, foot),
            evaluation,
            data_block("calcli-page", data),
            Safe(f"<script>{script}</script>"),
        )
        return f"<!DOCTYPE html>\n{tag('html', _head(called, style, script), body, lang='en')}\n"

    return document


def _head(called: str, style: str, script: str) -> Safe:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"calcli {__version__}"),
        tag("title", f"Confidence report: {called}"),
        tag("link", rel="icon", href="data:,"),
        Safe(f"<style>{style}</style>"),
    )


def _header(called: str, facts: str) -> Safe:
    """The name of the page, its colours, and the button that prints it."""
    choice = tag("select", *(tag("option", words, value=value) for value, words in COLOURS), id="colours")
    return tag(
        "header",
        tag("h1", "Confidence report: ", name(called, 90), tag("span", facts, class_="muted")),
        tag(
            "div",
            tag("label", "Colours ", choice),
            tag("button", "Print", type="button", id="print"),
            class_="script tools",
        ),
    )


def _content(models: Sequence[ModelResults], limits: Safe, bodies: Mapping[int, Safe]) -> Safe:
    """Verdict, limits and all about one model, or an overview and an article a model. bodies : by model.

    limits : what stands between, and alone where there is no model.
    """
    if not models:
        return limits

    def body(at: int) -> Safe:
        return tag("div", bodies[at], class_="body", data_body=at)

    if len(models) == 1:
        return join([card(models[0], verdict_of(models[0]), "verdict", "h2"), limits, body(0)])
    articles = [
        tag(
            "article",
            tag("h2", name(m.name)),
            card(m, verdict_of(m), f"verdict-{at}", "h3"),
            body(at),
            id=f"model-{at}",
            class_="model",
            data_model=at,
        )
        for at, m in enumerate(models)
    ]
    return join([_overview(models), limits, *articles])


def _left_out(model: ModelResults) -> Safe:
    """What stands in the place of a body for which there is no room."""
    command = " ".join(shlex.quote(visible(word)) for word in ("calcli", "report", model.typed, "-o", "report.html"))
    return tag("p", "Left out to keep a page of so many models small. All of it: ", tag("code", command))


def _words(settings: CurveSettings) -> Safe:
    """The glossary."""
    numbers = {"level": f"{100 * settings.level:g}", "bins": str(settings.bins)}
    explained = (
        (tag("dt", word, id=f"word-{key}"), tag("dd", meaning.format(**numbers)))
        for key, (word, meaning) in GLOSSARY.items()
    )
    return section("Words", tag("dl", *map(join, explained)))


def _how(models: Sequence[ModelResults], commands: Sequence[Sequence[str]]) -> Safe:
    """Commands, definitions and version."""
    lines = (" ".join(shlex.quote(visible(word)) for word in words) for words in commands)
    return section(
        "Commands",
        tag("p", "What made this page, and what shows its numbers again:"),
        *(tag("pre", tag("code", line), tabindex=0) for line in lines),
        signatures(models) if models else "",
        tag("p", f"calcli {__version__}. This page needs no network and keeps nothing.", class_="muted"),
    )


def _policy(style: str, script: str) -> str:
    """Nothing may load, and only this style and this script count."""

    def digest(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    return (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )


def _overview(models: Sequence[ModelResults]) -> Safe:
    """Of several models how many are what, and a table of them, the one closest to calibrated first."""
    reports = [report_of(m.versions[0]) for m in models]
    states = [report.overconfidence for report in reports]
    called = distinct([m.name for m in models])
    rows = []
    for at in sorted(range(len(models)), key=lambda at: abs(states[at].value)):
        m, s = models[at], states[at]
        base, focus = m.versions[0], m.versions[focus_of(m)]
        nll = base.result.scores.get("nll")
        rows.append(
            (
                tag("a", name(called[at]), href=f"#model-{at}", data_open=at, title=visible(m.name)),
                _rank(s, states),
                state_word(m.versions[0]),
                join([signed(100 * s.value), tag("small", span(s.interval.low, s.interval.high))]),
                share(base.top.accuracy),
                NONE if nll is None else fixed(nll.value),
                count(m.n),
                NONE if focus is base else name(focus.name),
            )
        )
    head = (
        "Model",
        "Rank",
        "Verdict",
        join(["Overconfidence (points, ", term("interval", "interval"), ")"]),
        "Accuracy",
        term("loss"),
        "Samples",
        "Best calibrator given",
    )
    chooser = tag(
        "label",
        "Model shown below ",
        tag("select", *(tag("option", m.name, value=at) for at, m in enumerate(models)), id="model"),
        class_="script",
    )
    caption = "By absolute overconfidence, the least first; models whose intervals overlap share ranks."
    listing = table(caption, head, rows, "models", data_list=True)
    finder = tag(
        "div",
        tag("label", "Find models ", tag("input", type="search", class_="search")),
        tag("span", class_="shown", role="status"),
        class_="script finder",
    )
    leads = [report.advice.lead.rstrip(".,: ") for report in reports]
    todo = "; ".join(f"{lead}: {leads.count(lead)} of {len(models)}" for lead in dict.fromkeys(leads))
    tones = {tone(report) for report in reports}
    return tag(
        "section",
        tag("h2", overall(models), class_="headline"),
        tag("p", tag("strong", "What to do?"), f" {todo}."),
        finder,
        listing,
        download("t-models"),
        chooser,
        id="verdict",
        class_=f"card parts overview {tones.pop() if len(tones) == 1 else 'warning'}",
        aria_label="Verdict",
    )


def _rank(state: Estimate, states: Sequence[Estimate]) -> str:
    """The places that a model may have, given the interval of its absolute overconfidence and those of the others."""
    low, high = _size(state)
    best = 1 + sum(_size(other)[1] < low for other in states)
    worst = len(states) - sum(_size(other)[0] > high for other in states)
    return f"{best}" if best == worst else f"{best}–{worst}"


def _size(state: Estimate) -> tuple[float, float]:
    """The interval of the absolute value."""
    ends = abs(state.interval.low), abs(state.interval.high)
    return (0.0 if state.interval.low < 0 < state.interval.high else min(ends)), max(ends)


def _limits(limits: Sequence[tuple[bool, str]]) -> Safe:
    if not limits:
        return Safe("")
    words = [tag("li", tag("strong", "✗ crossed: " if crossed else "✓ holds: "), text) for crossed, text in limits]
    return section("Limits", tag("ul", *words, class_="limits"))


def _for_script(version: Version) -> dict[str, Any]:
    """What slider and switches read of one version."""
    grid = [at / 100 for at in range(101)]
    x, _ = version.top.isotonic.knots
    curve = [
        round(float(y), 4) if x[0] - 0.005 <= g <= x[-1] + 0.005 else None
        for g, y in zip(grid, version.top.isotonic.at(grid), strict=True)  # type: ignore[arg-type]
    ]
    return {
        "name": visible(version.name),
        "curve": curve,
        "windows": [
            [round(b.low, 2), round(b.high, 2), b.n]
            + [_four(value) for value in (b.accuracy, b.accuracy_low, b.accuracy_high, b.confidence)]
            for b in report_of(version).bins
        ],
        "band": [[round(g, 2), *_band_at(version, g)] for g in grid[::2]],
        "thresholds": [_threshold(t) for t in version.thresholds],
        "n": version.result.n,
        "z": round(normal_quantile(0.5 + version.top.settings.level / 2), 6),
    }


def _threshold(t: Threshold) -> list[int | float | None]:
    """Samples, share right and promise; of weighted rows also the coverage and the effective number of samples."""
    found: list[int | float | None] = [t.n, _four(t.right), _four(t.promised)]
    return found if not t.n or t.effective == t.n else [*found, _four(t.coverage), round(t.effective, 1)]


def _four(value: float) -> float | None:
    return round(value, 4) if value == value else None


def _band_at(version: Version, g: float) -> list[float]:
    band = version.top.band
    return [round(float(np.interp(g, band.x, side)), 3) for side in (band.low, band.high)]
