"""Sections of a page about one model."""

from collections.abc import Sequence

from calcli.diagrams.caption_text import fall_words
from calcli.evaluation.results import sentence
from calcli.evaluation.watch_state import State
from calcli.metrics.intervals import normal_quantile
from calcli.metrics.significance import p_cell
from calcli.metrics.warnings import data_warnings
from calcli.reporting.components import (
    NONE,
    Chapter,
    Room,
    VersionTable,
    drawn_of,
    each_version,
    section,
    slider_panel,
    state_word,
    table,
    term,
    under,
)
from calcli.reporting.figures import (
    bars,
    dumbbell,
    evidence_figure,
    gap_line,
    reliability,
    risk,
    sample,
    sweep_figure,
)
from calcli.reporting.gather import ModelResults, Version
from calcli.reporting.markup import Safe, join, name, short, tag, text
from calcli.reporting.number_format import (
    count,
    fixed,
    in_words,
    per_cent,
    share,
    signed,
    span,
)
from calcli.reporting.verdicts import tone, verdict_of, way_words

NEWEST = 200  # batches of a watched calibrator that are listed
FIRST = 20  # lines of a long table that are shown before "show more"


def card(model: ModelResults, ident: str, level: str) -> Safe:
    """The verdict: sentence, two bars, three questions with answers, and the command."""
    base = model.versions[0]
    report, verdict = base.report, verdict_of(model)
    questions = (
        "Can its confidence be trusted?",
        "In which direction is it wrong?",
        "What to do?",
    )
    both = zip(
        questions, (verdict.trusted, verdict.direction, report.advice), strict=True
    )
    answers = [
        tag(
            "div",
            tag(f"h{int(level[1]) + 1}", words),
            tag("p", tag("strong", answer.lead), " ", answer.rest),
        )
        for words, answer in both
    ]
    headline = tag(
        level,
        tag("span", report.sign, aria_hidden="true"),
        " ",
        verdict.headline,
        class_="headline",
    )
    line = tag("p", f"verdict: {report.verdict}", class_="muted sentence")
    shown = bars(report.direction.gap + base.top.accuracy, base.top.accuracy)
    told = report.advice.command
    command = tag("p", tag("code", told), class_="command") if told else ""
    inner = headline, line, shown, tag("div", *answers, class_="answers"), command
    label = "Verdict" if ident == "verdict" else f"Verdict on {model.name}"
    return tag(
        "section", *inner, id=ident, class_=f"card {tone(report)}", aria_label=label
    )


def warnings(model: ModelResults) -> Safe:
    """Warnings about rows or fits that undo the verdict, above all figures, with the versions that they concern."""
    beside = data_warnings(
        model.n, None, 1.0, model.versions[0].top.settings.bins
    )  # tables show expected values
    about: dict[str, list[str]] = {}
    for v in model.versions:
        for each in dict.fromkeys(w for w in v.result.warnings if w not in beside):
            about.setdefault(each, []).append(v.name)
    every = len(model.versions)
    lines = (
        each if len(names) == every else f"{', '.join(names)}: {each}"
        for each, names in about.items()
    )
    notes = tag("ul", *(tag("li", line) for line in lines))
    return (
        tag("div", tag("strong", "Note."), notes, class_="note", role="note")
        if about
        else Safe("")
    )


def compare(model: ModelResults, m: int) -> Safe:
    """One row per version: state, mean confidence beside accuracy, error beside its expected value, NLL."""
    loss, called = (
        ("nll", term("loss", "NLL")) if model.k > 1 else ("brier_top", "Squared error")
    )
    off = join(
        [term("overconfidence"), " (points, ", term("interval", "interval"), ")"]
    )
    error, changed = (
        join([term("ece", "Calibration error"), " (points)"]),
        "NLL" if model.k > 1 else "squared error",
    )
    dots = "● accuracy, ○ mean confidence"
    head = (
        "Version",
        "Verdict",
        dots,
        off,
        error,
        called,
        f"Change in {changed}",
        "Accuracy",
    )
    rows = []
    best, star = model.focus, tag("span", "★ recommended", class_="recommended")
    for at, v in enumerate(model.versions):
        over, scores = v.report.overconfidence, v.result.scores
        ece, measured, ends = scores["ece"], scores[loss], scores["accuracy"].interval
        by_chance, change = "no expected value", NONE
        if ece.null is not None:
            mean, q95 = ece.null.mean, ece.null.q95
            by_chance = f"expected {signed(100 * mean)}, 95th percentile {signed(100 * q95)}".replace(
                "+", ""
            )
        if v.result.paired is not None and loss in v.result.paired.differences:
            d = v.result.paired.differences[loss]
            interval = (
                span(d.interval.low, d.interval.high, 1, 4)
                if d.interval
                else d.reason or "no interval"
            )
            change = under(signed(d.value, 4), interval)
        title = join(
            [sample(at), " ", name(v.name), *([" ", star] if at and at == best else [])]
        )
        gap = under(
            signed(100 * over.value), span(over.interval.low, over.interval.high)
        )
        found = under(
            tag("data", fixed(100 * (ece.value or 0), 1), value=repr(ece.value)),
            by_chance,
        )
        lost = under(fixed(measured.value, 4), measured.more.get("ci_reason"))
        right = under(
            share(v.top.accuracy),
            f"{share(ends.low)} to {share(ends.high)}" if ends else "",
        )
        drawn = dumbbell(v.top.mean_confidence, v.top.accuracy)
        rows.append((title, state_word(v), drawn, gap, found, lost, change, right))
    listing = table(
        "Accuracy ● and mean confidence ○ should coincide.", head, rows, f"versions-{m}"
    )
    return section("With and without a calibrator", listing)


def controls(c: Chapter) -> Safe:
    """Controls for the version in focus and the curves that are drawn."""
    versions = c.model.versions
    options = [
        tag("option", v.name, value=at, selected=at == c.model.focus)
        for at, v in enumerate(versions)
    ]
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", checked=True, data_toggle=at),
            sample(at),
            " ",
            name(v.name),
        )
        for at, v in enumerate(versions)
    ]
    chosen = tag(
        "label",
        "Version in focus ",
        tag("select", *options, class_="focus"),
        class_="script",
    )
    named = tag(
        "span",
        "In focus: ",
        tag("bdi", versions[c.model.focus].name),
        class_="noscript",
    )
    shown = tag("fieldset", tag("legend", "Curves shown"), *boxes, class_="script")
    return tag("div", chosen, named, shown, class_="controls", id=f"controls-{c.m}")


def where_wrong(c: Chapter) -> Safe:
    """Section of reliability diagrams, the confidence slider, and the table of bins, which says the same as text."""
    right, verdict = (
        ["Accuracy, ", term("interval", "interval")],
        ["Verdict (", term("beyond", "significant"), ")"],
    )
    head = ("Confidence", "Samples", "Mean confidence", join(right), join(verdict))

    def ranges(v: Version) -> VersionTable:
        rows = []
        for b in (b for b in v.report.bins if b.n):
            accuracy = under(
                share(b.accuracy),
                f"{share(b.accuracy_low)} to {share(b.accuracy_high)}",
            )
            said = (
                f"{'▲' if b.gap > 0 else '▼'} {way_words(b.gap)}"
                if b.significant
                else "not significant"
            )
            rows.append(
                (
                    f"{100 * b.low:.0f}–{100 * b.high:.0f}%",
                    count(b.n),
                    share(b.confidence),
                    accuracy,
                    said,
                )
            )
        return ", by bins of confidence", head, rows

    both, m = c.model.k == 2, c.m
    names = [f"reliability-class1-{m}"] * both + [f"reliability-{m}"]
    figures = [
        reliability(c.model, c.model.focus, "class1" in each, each) for each in names
    ]
    curves = [
        curve
        for v in c.model.versions
        for curve in (v.positive, v.top)
        if curve is not None
    ]
    curve = (
        "Each curve shows the accuracy at every stated ",
        term("confidence", "confidence"),
        ".",
    )
    inside = (
        " A curve inside the ",
        term("band", "grey band"),
        " is what a calibrated model shows on so many samples.",
    )
    more = (
        " Of two classes the first figure shows the probability of class 1."
        if both
        else ""
    )
    falls = [(each.label, fall_words(each, "the crosses show bins")) for each in curves]
    told = (tag("p", f"{label}: {words}.") for label, words in falls if words)
    slider = slider_panel("Read the curves at a confidence of ", "Confidence")
    shown = (
        tag("div", *figures, class_="figures"),
        slider,
        each_version(c, "ranges", ranges),
    )
    return section("Where it is wrong", tag("p", *curve, *inside, more), *told, *shown)


def alone(c: Chapter) -> Safe:
    """Section on selective prediction: accuracy and coverage above a threshold."""
    head = (
        "Threshold",
        term("coverage"),
        "Samples",
        "Accuracy",
        term("interval"),
        "Mean confidence",
    )

    def thresholds(v: Version) -> VersionTable:
        rows = []
        for t in (
            t
            for t in v.thresholds
            if t.n and round(100 * t.at) in (0, 50, 60, 70, 80, 90, 95, 99)
        ):
            right = share(t.right), f"{share(t.right_low)} to {share(t.right_high)}"
            rows.append(
                (
                    f"{100 * t.at:.0f}%",
                    share(t.coverage),
                    count(t.n),
                    *right,
                    share(t.promised),
                )
            )
        return ", thresholds", head, rows

    most = tag(
        "input", type="number", min=0.1, max=99, step=0.1, value=5, class_="wanted"
    )
    find = tag("button", "Find the threshold", type="button", class_="find")
    wanted = tag(
        "label", "Or: at most ", most, " of 100 decided alone may be wrong ", find
    )
    words = tag(
        "p", "Above the threshold the model decides alone; below it, a person looks."
    )
    slider = slider_panel("Decide alone from a confidence of ", "Threshold", wanted)
    listing = each_version(c, "thresholds", thresholds)
    return section(
        "Selective prediction", words, slider, listing, risk(c.model, f"risk-{c.m}")
    )


def batches(c: Chapter) -> Safe:
    """Section of batches in order of time: accuracy, overconfidence with its interval, ECE and NLL of each."""
    dots = "◀ underconfident · overconfident ▶"
    head = (
        "Batch",
        "Samples",
        "Accuracy",
        dots,
        "Points",
        term("interval"),
        "ECE",
        "Expected",
        "NLL",
    )

    def body(v: Version) -> VersionTable:
        lines = v.result.per_group or ()
        reach = max((g.reach for g in v.groups), default=1.0)
        rows = []
        for line, gap in zip(lines, v.groups, strict=True):
            ece, value = (
                line.scores.get("ece"),
                {each: score.value for each, score in line.scores.items()},
            )
            by_chance = None if ece is None or ece.null is None else ece.null.mean
            drawn = (
                gap_line(gap, reach),
                signed(100 * line.gap),
                span(line.interval.low, line.interval.high),
            )
            losses = map(fixed, (value.get("ece"), by_chance, value.get("nll")))
            rows.append(
                (
                    name(str(line.group)),
                    count(line.n),
                    fixed(value.get("accuracy")),
                    *drawn,
                    *losses,
                )
            )
        off = sum(line.significant for line in lines)
        said = f": {off} of {len(lines)} batches {'is' if off == 1 else 'are'} significantly miscalibrated."
        return said, head, rows

    asked = tag("p", "By how many points is each batch over- or underconfident?")
    return section(
        "Batches in order of time",
        asked,
        each_version(c, "batches", body, data_list=True),
        class_="parts",
    )


def watched(state: State, path: str, ident: str) -> Safe:
    """Card of a deployed calibrator under ``calcli watch``: the alarm, the evidence, and the newest batches."""
    alarm, level = state.alarm_at, state.settings.level
    lead = (
        text("○ No alarm")
        if alarm is None
        else join(["✗ Alarm since ", name(state.current[alarm - 1].name)])
    )
    rows = []
    for batch in state.batches[-NEWEST:]:
        off, evidence = (
            signed(100 * batch.overconfidence),
            f"{batch.e:.3g}{' ✗' * (batch.e >= 1 / level)}",
        )
        rows.append(
            (
                name(batch.name),
                count(batch.n),
                share(batch.accuracy),
                off,
                evidence,
                count(batch.episode),
            )
        )
    right = "Accuracy" if state.settings.label == "top" else "Class 1"
    head = ("Batch", "Samples", right, "Overconfidence (points)", "Evidence", "Episode")
    order = f"The newest {len(rows)} of {len(state.batches)} batches in order of time"
    caption = f"{order}; ✗: evidence of {1 / level:g} or more."
    promise = (
        f"While the confidence is right within the tolerance, the evidence ever reaches {1 / level:g} with chance"
        f" at most {per_cent(level)}, however often one looks."
    )
    sentences = (
        tag("p", name(path), f": {state.sentence()}.", class_="sentence"),
        tag("p", promise, class_="muted"),
    )
    shown = evidence_figure(state, "evidence"), table(caption, head, rows, "watched")
    inner = tag("h2", lead, class_="headline"), *sentences, *shown
    return tag(
        "section",
        *inner,
        id=ident,
        class_=f"card{' unknown' * (alarm is None)}",
        aria_label="Watch",
    )


def parts(c: Chapter, what: str, title: str) -> Safe:
    """Classes or groups, sorted by how far they are off, each with its interval and its dot."""
    everything = [getattr(v, what) for v in c.model.versions]
    if not any(everything) or len(everything[0]) < 2:
        return Safe("")
    total, called = (
        len(everything[0]),
        "predicted classes" if what == "classes" else what,
    )
    positive = what == "groups" and c.model.versions[0].groups_about == "positive"
    low, high = (
        ("too low", "too high") if positive else ("underconfident", "overconfident")
    )
    head = (title, "Samples", f"◀ {low} · {high} ▶", "Points", term("interval"))

    def body(v: Version) -> VersionTable:
        gaps = sorted(
            (g for g in getattr(v, what) if g.gap == g.gap),
            key=lambda g: (not g.beyond, -abs(g.gap)),
        )
        reach = max((g.reach for g in gaps), default=1.0)
        beyond, same = (
            sum(g.beyond for g in gaps),
            sum(g.beyond and g.gap > 0 for g in gaps),
        )
        kept = gaps[: c.room.lines]
        rows = [
            Safe(
                f"<tr{'' if at_row < FIRST else ' data-more'}{' data-beyond' if g.beyond else ''}>"
                f'<th scope="row">{name(g.part)}<td>{count(g.n)}<td>{gap_line(g, reach)}'
                f"<td>{signed(100 * g.gap)}<td>{span(g.low, g.high)}"  # HTML ends cells and rows by itself
            )
            for at_row, g in enumerate(kept)
        ]
        are = "is" if beyond == 1 else "are"
        said = f": None of {total} {called} is significantly miscalibrated."
        if beyond:
            said = f": {beyond} of {total} {called} {are} significantly miscalibrated, {same} of them {high}."
        found = (
            v.result.report.groups if positive and v.result.report is not None else None
        )
        if found is not None and found.n_significant > beyond:
            said += f" With their confidence counted too, {found.n_significant} of {total} are."
        said += (
            " That is the whole model rather than single ones."
            if beyond > total / 2
            else ""
        )
        said += (
            ""
            if len(kept) == len(gaps)
            else f" The {len(kept)} furthest off are listed."
        )
        return said, head, rows

    tools = (
        tag("label", f"Find {what} ", tag("input", type="search", class_="search")),
        tag("label", tag("input", type="checkbox", class_="only"), " only significant"),
        tag("button", "Show more", type="button", class_="more"),
        tag("span", class_="shown", role="status"),
    )
    asked = "When it answers with this class" if what == "classes" else "In this group"
    about = f"{asked}: by how many points is {'P(class 1)' if positive else 'it'} {low} or {high}? Filled dots are "
    inner = (
        tag("p", about, term("beyond", "significant"), "."),
        tag("div", *tools, class_="script panel finder"),
    )
    heading = title if what == "groups" else "Predicted classes"
    return section(
        heading, *inner, each_version(c, what, body, data_list=True), class_="parts"
    )


def loss_split(model: ModelResults, m: int) -> Safe:
    """Section on the NLL decomposition: the loss that recalibration could reduce."""
    rows = []
    for v in model.versions:
        if (split := v.report.split) is None:
            continue
        for what, part in (("NLL", split.nll), ("Brier score", split.brier)):
            half = normal_quantile(0.5 + v.top.settings.level / 2) * part.se
            found = fixed(part.calibration, 4) if part.detected else "none detected"
            ends = span(part.calibration - half, part.calibration + half, 1, 4)
            parts = fixed(part.loss, 4), fixed(part.refinement, 4), found, ends
            rows.append((join([name(v.name), ", ", what]), *parts, split.method))
    head = ("Of", "Whole", "Refinement", "Calibration", term("interval"), "Found by")
    listing = table("Cross-validated on these samples.", head, rows, f"split-{m}")
    return section(term("split"), listing) if rows else Safe("")


def temperatures(model: ModelResults, m: int) -> Safe:
    """Section on the temperature sweep, with a table of the marked temperatures."""
    if model.sweep is None:
        return Safe("")
    s = model.sweep
    rows = [
        (
            name(k.name),
            fixed(k.temperature),
            fixed(k.nll, 4),
            fixed(100 * k.ece, 1),
            share(k.mean_confidence),
        )
        for k in s.marks
    ]
    part = (
        ""
        if model.swept_rows == model.n
        else f" On {count(model.swept_rows)} samples drawn from {count(model.n)}."
    )
    head = (
        term("temperature"),
        "T",
        term("loss", "NLL"),
        term("ece", "Calibration error"),
        "Mean confidence",
    )
    words = tag("p", f"What dividing all scores by one number does.{part}")
    listing = table("Marked temperatures", head, rows, f"temperatures-{m}")
    return section(
        "One temperature", words, sweep_figure(s, f"temperature-{m}"), listing
    )


def numbers(model: ModelResults, m: int) -> Safe:
    """Every metric of every version with interval, expected value, p-value and signature."""
    rows = []
    for v in model.versions:
        for score in v.result.scores.values():
            i = score.interval
            value = (
                NONE
                if score.value is None
                else tag("data", fixed(score.value, 4), value=repr(score.value))
            )
            reason = tag(
                "small", score.reason or score.more.get("ci_reason", "not computed")
            )
            ends = (
                under(span(i.low, i.high, 1, 4), score.end_words or None)
                if i
                else reason
            )
            null = (
                f"{fixed(score.null.mean, 4)}, 95th percentile {fixed(score.null.q95, 4)}"
                if score.null
                else NONE
            )
            p = NONE if score.p_value is None else p_cell(score.p_value, score.draws)
            rows.append((join([name(v.name), ", ", score.name]), value, ends, null, p))
    head = (
        "Metric",
        "Value",
        term("interval"),
        "Expected under calibration",
        "p-value",
    )
    inner = table("All numbers", head, rows, f"numbers-{m}")
    legends = dict.fromkeys(v.result.p_legend(v.result.scores) for v in model.versions)
    told = (tag("p", line, class_="muted") for line in legends)
    return tag("details", tag("summary", "All numbers"), inner, *told)


def signatures(models: Sequence[ModelResults]) -> Safe:
    """Signatures, which define every metric, once for the page."""
    found = dict.fromkeys(
        s.signature
        for m in models
        for v in m.versions
        for s in v.result.scores.values()
    )
    lines = [tag("li", tag("code", signature)) for signature in found]
    return tag(
        "details",
        tag("summary", "Signatures: how every number is defined"),
        tag("ul", *lines),
    )


def provenance(model: ModelResults, m: int) -> Safe:
    """Table of the files and origins of rows and calibrators."""

    def origin(sha: str | None, *words: object) -> Safe:
        return under(
            tag("p", *words),
            join(["SHA-256 of scores and labels ", tag("code", sha or "not recorded")]),
        )

    recorded = "not recorded" if model.source is None else short(in_words(model.source))
    source = origin(model.data_sha256, f"{sentence(recorded)}.")
    rows: list[Sequence[object]] = [
        ("Samples", name(model.name), count(model.n), source)
    ]
    for v in model.versions:
        if v.file is not None:
            path, artifact = v.file
            options = (
                f" with {short(in_words(artifact.options))}" if artifact.options else ""
            )
            words, rows_of_fit = (
                f"Method {artifact.method}{options}; fitted on ",
                artifact.fit.source or "unknown rows",
            )
            made = origin(artifact.fit.data_sha256, words, name(rows_of_fit), ".")
            rows.append(
                (
                    join(["Calibrator ", name(v.name)]),
                    name(path),
                    count(artifact.fit.n),
                    made,
                )
            )
    return table("Files", ("What", "File", "Samples", "Origin"), rows, f"files-{m}")


def model_body(model: ModelResults, m: int, room: Room) -> Safe:
    """All sections about one model after its verdict."""
    everything, model = drawn_of(model, room)
    c = Chapter(model, m, room)
    wrong = where_wrong(c), parts(c, "classes", "Class")
    of_groups = batches(c) if model.ordered else parts(c, "groups", "Groups")
    swept, every = (
        "" if room.tight else temperatures(model, m),
        "" if room.short else numbers(model, m),
    )
    measured = section("How it was measured", provenance(model, m), every)
    seen = warnings(everything), compare(everything, m), controls(c), alone(c)
    return join([*seen, *wrong, of_groups, loss_split(model, m), swept, measured])
