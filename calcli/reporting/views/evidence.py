"""Evidence: temperatures, decomposition of the loss, all numbers, files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from calcli.evaluation.facts import LossPart
from calcli.evaluation.scores import Score
from calcli.reporting.figures.temperature import temperature_figure
from calcli.reporting.gather import ModelResults, Version
from calcli.reporting.markup import beginning
from calcli.reporting.number_format import (
    NONE,
    count,
    fixed,
    in_words,
    samples,
    sentence,
    share,
    span,
    typeset,
)
from calcli.reporting.views.room import Chapter
from calcli.statistics.intervals import normal_quantile
from calcli.statistics.p_values import p_cell, p_text

NOT_RECORDED = "not recorded"


# ---- one temperature


@dataclass(frozen=True)
class TemperatureRow:
    """A marked temperature."""

    name: str
    temperature: str
    nll: str
    error: str
    confidence: str


@dataclass(frozen=True)
class TemperatureView:
    """What dividing all scores by one number does. sample : where not all were read."""

    ident: str
    figure: Markup
    figure_ident: str
    rows: Sequence[TemperatureRow]
    sample: str


def temperature_view(chapter: Chapter) -> TemperatureView | None:
    """The temperature sweep, None where there is none or no room for it."""
    model = chapter.model
    sweep = model.sweep
    if sweep is None or chapter.room.tight:
        return None
    rows = []
    for mark in sweep.marks:
        rows.append(
            TemperatureRow(
                name=mark.name,
                temperature=fixed(mark.temperature),
                nll=fixed(mark.nll, 4),
                error=fixed(100 * mark.ece, 1),
                confidence=share(mark.mean_confidence),
            )
        )
    sample = ""
    if model.swept_rows != model.n:
        sample = f"On {count(model.swept_rows)} samples drawn from {count(model.n)}."
    ident = chapter.ident("temperature")
    return TemperatureView(
        ident=chapter.ident("temperatures"),
        figure=temperature_figure(sweep, ident),
        figure_ident=ident,
        rows=rows,
        sample=sample,
    )


# ---- the decomposition of the loss


@dataclass(frozen=True)
class DecompositionRow:
    """The decomposition of one loss of one version."""

    version: str
    loss: str
    whole: str
    refinement: str
    calibration: str
    interval: str
    method: str


@dataclass(frozen=True)
class DecompositionView:
    """Decompositions of the losses of all versions."""

    ident: str
    rows: Sequence[DecompositionRow]


def decomposition_view(chapter: Chapter) -> DecompositionView | None:
    """The decompositions, None where none was made."""
    rows = []
    for version in chapter.model.versions:
        losses = version.report.facts.decomposition
        if losses is None:
            continue
        rows.append(_decomposition_row(version, "NLL", losses.nll, losses.method))
        rows.append(
            _decomposition_row(version, "Brier score", losses.brier, losses.method)
        )
    if not rows:
        return None
    return DecompositionView(chapter.ident("split"), rows)


def _decomposition_row(
    version: Version, loss: str, part: LossPart, method: str
) -> DecompositionRow:
    half = normal_quantile(0.5 + version.top.settings.level / 2.0) * part.se
    calibration = "none detected"
    if part.is_detected:
        calibration = fixed(part.calibration, 4)
    return DecompositionRow(
        version=version.name,
        loss=loss,
        whole=fixed(part.loss, 4),
        refinement=fixed(part.refinement, 4),
        calibration=calibration,
        interval=span(part.calibration - half, part.calibration + half, 1.0, 4),
        method=method,
    )


# ---- the tests behind the verdicts


@dataclass(frozen=True)
class TestLine:
    """The joint test behind the verdict on one version, in words."""

    version: str
    text: str


def test_lines(chapter: Chapter) -> list[TestLine]:
    """The test of every version; where a fit is known, the exact one too."""
    lines = []
    for version in chapter.model.versions:
        report = version.report
        facts = report.facts
        tested = "P(class 1)" if facts.is_about_class_one else "confidence"
        text = f"{tested} calibrated: {report.p_text}"
        if facts.fit is not None:
            n_fit = samples(facts.fit.n)
            exact = p_text(report.verdict.exact.p_value, report.verdict.draws)
            text = f"{text} up to the error of a fit to {n_fit}, else {exact}"
        lines.append(TestLine(version.name, typeset(text)))
    return lines


# ---- all numbers


@dataclass(frozen=True)
class NumberRow:
    """One metric of one version. raw : the value with all its digits."""

    version: str
    metric: str
    value: str
    raw: str
    interval: str
    note: str
    expected: str
    p: str


@dataclass(frozen=True)
class NumbersView:
    """All metrics of all versions, and the tests behind their p-values."""

    ident: str
    rows: Sequence[NumberRow]
    legends: Sequence[str]


def numbers_view(chapter: Chapter) -> NumbersView | None:
    """All numbers, None where there is no room for them."""
    if chapter.room.short:
        return None
    rows = []
    legends = []
    for version in chapter.model.versions:
        result = version.result
        for score in result.scores.values():
            rows.append(_number_row(version, score))
        legends.append(typeset(result.p_legend(result.scores)))
    return NumbersView(chapter.ident("numbers"), rows, list(dict.fromkeys(legends)))


def _number_row(version: Version, score: Score) -> NumberRow:
    interval = ""
    note = score.reason or score.no_interval or "not computed"
    if score.interval is not None:
        interval = span(score.interval.low, score.interval.high, 1.0, 4)
        note = score.end_words
    expected = NONE
    if score.null is not None:
        mean = fixed(score.null.mean, 4)
        high = fixed(score.null.q95, 4)
        expected = f"{mean}, 95th percentile {high}"
    p = NONE
    if score.p_value is not None:
        p = p_cell(score.p_value, score.draws)
    return NumberRow(
        version=version.name,
        metric=score.name,
        value=fixed(score.value, 4),
        raw="" if score.value is None else repr(score.value),
        interval=interval,
        note=note,
        expected=expected,
        p=p,
    )


def signatures(models: Iterable[ModelResults]) -> list[str]:
    """Signatures, which define every metric, each once."""
    once: dict[str, None] = {}
    for model in models:
        for version in model.versions:
            for score in version.result.scores.values():
                once[score.signature] = None
    return list(once)


# ---- files


@dataclass(frozen=True)
class FileRow:
    """A file: the samples, or a calibrator. origin : before and after a name."""

    what: str
    version: str
    file: str
    samples: str
    origin: str
    rows_of_fit: str
    units: str
    sha256: str


@dataclass(frozen=True)
class FilesView:
    """Files and origins of samples and calibrators."""

    ident: str
    rows: Sequence[FileRow]


def files_view(chapter: Chapter) -> FilesView:
    """The files that the numbers come from."""
    model = chapter.model
    source = NOT_RECORDED
    if model.source is not None:
        source = beginning(in_words(model.source))
    rows = [
        FileRow(
            what="Samples",
            version="",
            file=model.name,
            samples=count(model.n),
            origin=sentence(source),
            rows_of_fit="",
            units=_units_sentence(model),
            sha256=model.data_sha256 or NOT_RECORDED,
        )
    ]
    for version in model.versions:
        if version.file is not None:
            rows.append(_calibrator_row(version))
    return FilesView(chapter.ident("files"), rows)


def _units_sentence(model: ModelResults) -> str:
    """How many units the samples belong to, empty where none are known."""
    units = model.versions[0].result.units
    return "" if units is None else typeset(sentence(units.sentence))


def _calibrator_row(version: Version) -> FileRow:
    assert version.file is not None
    path, artifact = version.file
    options = ""
    if artifact.options:
        options = f" with {beginning(in_words(artifact.options))}"
    return FileRow(
        what="Calibrator",
        version=version.name,
        file=path,
        samples=count(artifact.fit.n),
        origin=f"Method {artifact.method}{options}; fitted on",
        rows_of_fit=artifact.fit.source or "unknown samples",
        units="",
        sha256=artifact.fit.data_sha256 or NOT_RECORDED,
    )
