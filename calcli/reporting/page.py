"""The page as a whole: one file, no network, readable without its script."""

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from calcli import __version__
from calcli.diagrams.caption_text import distinct
from calcli.diagrams.curve import CurveSettings
from calcli.evaluation.results import Estimate
from calcli.evaluation.watch_state import State
from calcli.metrics.intervals import normal_quantile
from calcli.reporting.components import (
    GLOSSARY,
    NONE,
    Room,
    drawn_of,
    section,
    state_word,
    table,
    term,
    under,
)
from calcli.reporting.gather import ModelResults, Version
from calcli.reporting.markup import Safe, data_block, join, name, tag, visible
from calcli.reporting.number_format import count, fixed, samples, share, signed, span
from calcli.reporting.sections import card, model_body, signatures, watched
from calcli.reporting.verdicts import overall, tone

COLOURS = (("", "as the system"), ("light", "light"), ("dark", "dark"))
# Most bytes of a page. One that would be larger gets less detail per model, and in the end fewer models in full.
LARGEST = 1_900_000
ROOMS = (
    Room(),
    Room(short=True),
    Room(100, short=True),
    Room(20, short=True, tight=True),
)  # from full to least detail
MOST = (
    60,
    120,
    120,
)  # versions of all models above which a page of that detail is surely too large, and not tried


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
    called = title or (
        models[0].name
        if one
        else f"{len(models)} models"
        if models
        else watch[0]
        if watch
        else ""
    )
    facts = f" · {len(models)} models" if title and models else ""
    if one:
        known = f"{models[0].k} classes" if models[0].k > 1 else "confidences alone"
        facts = f" · {samples(models[0].n)} · {known}"
    header, foot = _header(called, facts), _foot(models, commands)
    evaluated = data_block("calcli-evaluation", evaluation)
    between = (
        [watched(watch[1], watch[0], "watch" if models else "verdict")] if watch else []
    )
    if limits:
        words = [
            tag("li", tag("strong", "✗ crossed: " if bad else "✓ holds: "), text)
            for bad, text in limits
        ]
        between.append(section("Limits", tag("ul", *words, class_="limits")))

    def whole(bodies: Mapping[int, Safe], data: Sequence[Any]) -> str:
        main = tag("main", _content(models, between, bodies), foot)
        return _document(called, join([header, main, evaluated]), data)

    versions = sum(len(m.versions) for m in models)
    for room in ROOMS[sum(versions > most for most in MOST) :]:
        bodies = {at: model_body(model, at, room) for at, model in enumerate(models)}
        data: list[Any] = [
            [_for_script(v) for v in drawn_of(model, room)[1].versions]
            for model in models
        ]
        done = whole(bodies, data)
        if len(done.encode()) <= LARGEST:
            return done
    kept = sorted(
        range(len(models)),
        key=lambda at: -abs(models[at].versions[0].report.overconfidence.value),
    )
    while len(kept) > 1 and (spare := len(done.encode()) - LARGEST) > 0:
        while len(kept) > 1 and spare > 0:
            at = kept.pop()
            spare -= len(bodies[at].encode()) + len(json.dumps(data[at]))
            again = ("calcli", "report", models[at].typed, "-o", "report.html")
            bodies[at] = tag(
                "p",
                "Left out to keep a page of so many models small. All of it: ",
                _command(again),
            )
            data[at] = []
        done = whole(bodies, data)
    return done


def _document(called: str, content: Safe, data: Sequence[Any]) -> str:
    """HTML document. data : the script's data on each model. Its security policy loads nothing, and allows only this
    style and this script."""
    style, script = (
        files("calcli.reporting").joinpath(f"page.{kind}").read_text("utf-8")
        for kind in ("css", "js")
    )
    of_style, of_script = (
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
        for code in (style, script)
    )
    policy = f"default-src 'none'; script-src {of_script}; style-src {of_style}; img-src data:"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content=f"{policy}; base-uri 'none'; form-action 'none'",
        ),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"calcli {__version__}"),
        tag("title", f"Confidence report: {called}"),
        tag("link", rel="icon", href="data:,"),
        Safe(f"<style>{style}</style>"),
    )
    skip = tag("a", "Skip to the verdict", href="#verdict", class_="skip")
    body = tag(
        "body",
        skip,
        content,
        data_block("calcli-page", data),
        Safe(f"<script>{script}</script>"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _header(called: str, facts: str) -> Safe:
    """The name of the page, its colours, and the button that prints it."""
    choice = tag(
        "select",
        *(tag("option", words, value=value) for value, words in COLOURS),
        id="colours",
    )
    title = tag(
        "h1",
        "Confidence report: ",
        name(called, 90),
        tag("span", facts, class_="muted"),
    )
    tools = (
        tag("label", "Colours ", choice),
        tag("button", "Print", type="button", id="print"),
    )
    return tag("header", title, tag("div", *tools, class_="script tools"))


def _content(
    models: Sequence[ModelResults], between: Sequence[Safe], bodies: Mapping[int, Safe]
) -> Safe:
    """Verdict and sections of one model, or an overview and an article per model. bodies : sections by model.

    between : sections that follow the verdict or overview; the only ones if there is no model.
    """
    parts = [
        tag("div", body, class_="body", data_body=at) for at, body in bodies.items()
    ]
    if not models:
        return join(between)
    if len(models) == 1:
        return join([card(models[0], "verdict", "h2"), *between, *parts])
    articles = []
    for at, m in enumerate(models):
        inner = tag("h2", name(m.name)), card(m, f"verdict-{at}", "h3"), parts[at]
        articles.append(
            tag("article", *inner, id=f"model-{at}", class_="model", data_model=at)
        )
    return join([_overview(models), *between, *articles])


def _command(words: Sequence[str]) -> Safe:
    return tag("code", " ".join(shlex.quote(visible(word)) for word in words))


def _foot(models: Sequence[ModelResults], commands: Sequence[Sequence[str]]) -> Safe:
    """Foot of the page: commands, definitions and version, and the glossary."""
    made = tag("p", "What made this page, and what shows its numbers again:")
    told = [tag("pre", _command(words), tabindex=0) for words in commands]
    kept = tag(
        "p",
        f"calcli {__version__}. This page needs no network and keeps nothing.",
        class_="muted",
    )
    how = section("Commands", made, *told, signatures(models) if models else "", kept)
    settings = models[0].versions[0].top.settings if models else CurveSettings()
    numbers = {"level": f"{100 * settings.level:g}", "bins": str(settings.bins)}
    explained = []
    for key, (word, meaning) in GLOSSARY.items():
        explained += [
            tag("dt", word, id=f"word-{key}"),
            tag("dd", meaning.format(**numbers)),
        ]
    return join([how, section("Words", tag("dl", *explained))])


def _overview(models: Sequence[ModelResults]) -> Safe:
    """Overview of several models: the number of each verdict, and a table, the least absolute overconfidence first."""
    reports = [m.versions[0].report for m in models]
    states = [report.overconfidence for report in reports]
    called, ranks = distinct([m.name for m in models]), _ranks(states)
    rows = []
    for at in sorted(range(len(models)), key=lambda at: abs(states[at].value)):
        m, s = models[at], states[at]
        base, focus = m.versions[0], m.versions[m.focus]
        nll = base.result.scores.get("nll")
        title = tag(
            "a",
            name(called[at]),
            href=f"#model-{at}",
            data_open=at,
            title=visible(m.name),
        )
        gap = under(signed(100 * s.value), span(s.interval.low, s.interval.high))
        loss, best = (
            NONE if nll is None else fixed(nll.value),
            NONE if focus is base else name(focus.name),
        )
        rows.append(
            (
                title,
                ranks[at],
                state_word(base),
                gap,
                share(base.top.accuracy),
                loss,
                count(m.n),
                best,
            )
        )
    off = join(["Overconfidence (points, ", term("interval", "interval"), ")"])
    head = (
        "Model",
        "Rank",
        "Verdict",
        off,
        "Accuracy",
        term("loss"),
        "Samples",
        "Best calibrator given",
    )
    choice = tag(
        "select",
        *(tag("option", m.name, value=at) for at, m in enumerate(models)),
        id="model",
    )
    chooser = tag("label", "Model shown below ", choice, class_="script")
    caption = "By absolute overconfidence, the least first; models whose intervals overlap share ranks."
    listing = table(caption, head, rows, "models", data_list=True)
    search = tag("label", "Find models ", tag("input", type="search", class_="search"))
    finder = tag(
        "div",
        search,
        tag("span", class_="shown", role="status"),
        class_="script finder",
    )
    leads = [report.advice.lead.rstrip(".,: ") for report in reports]
    todo = "; ".join(
        f"{lead}: {leads.count(lead)} of {len(models)}" for lead in dict.fromkeys(leads)
    )
    headline = (
        tag("h2", overall(models), class_="headline"),
        tag("p", tag("strong", "What to do?"), f" {todo}."),
    )
    tones = {tone(report) for report in reports}
    kind = f"card parts overview {tones.pop() if len(tones) == 1 else 'warning'}"
    inner = *headline, finder, listing, chooser
    return tag("section", *inner, id="verdict", class_=kind, aria_label="Verdict")


def _ranks(states: Sequence[Estimate]) -> list[str]:
    """Range of ranks that each model may have, given the intervals of absolute overconfidence."""
    ends = np.array([(each.interval.low, each.interval.high) for each in states])
    size = np.abs(ends)
    low, high = (
        np.where((ends[:, 0] < 0) & (ends[:, 1] > 0), 0.0, size.min(axis=1)),
        size.max(axis=1),
    )
    places = [
        (1 + (high < a).sum(), len(states) - (low > b).sum())
        for a, b in zip(low, high, strict=True)
    ]
    return [f"{best}" if best == worst else f"{best}–{worst}" for best, worst in places]


def _for_script(version: Version) -> dict[str, Any]:
    """Data on one version that the script's slider and switches read."""
    grid, (x, _), band = (
        np.arange(101) / 100,
        version.top.isotonic.knots,
        version.top.band,
    )
    seen = (grid >= x[0] - 0.005) & (grid <= x[-1] + 0.005)
    limits = [np.interp(grid[::2], band.x, side) for side in (band.low, band.high)]
    thresholds = []
    for t in (
        version.thresholds
    ):  # samples, accuracy, mean confidence; if weighted, coverage and effective number
        weighted = t.n and t.effective != t.n
        more = [_four(t.coverage), round(t.effective, 1)] if weighted else []
        thresholds.append([t.n, _four(t.right), _four(t.promised), *more])
    windows = []
    for b in version.report.bins:
        shares = map(_four, (b.accuracy, b.accuracy_low, b.accuracy_high, b.confidence))
        windows.append([round(b.low, 2), round(b.high, 2), b.n, *shares])
    curve = [
        _four(y) for y in np.where(seen, version.top.isotonic.at(grid), np.nan).tolist()
    ]
    drawn_band = [
        [round(x, 3) for x in each]
        for each in np.column_stack([grid[::2], *limits]).tolist()
    ]
    z = round(normal_quantile(0.5 + version.top.settings.level / 2), 6)
    drawn = {
        "name": visible(version.name),
        "curve": curve,
        "windows": windows,
        "band": drawn_band,
    }
    return {**drawn, "thresholds": thresholds, "n": version.result.n, "z": z}


def _four(value: float) -> float | None:
    return round(value, 4) if value == value else None
