"""The public Python API: the same core as the command line, for arrays, tensors and
bundles.
"""

import json
import logging
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

from calcli.calibrator import Context
from calcli.diagrams.curve import CurveSettings
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.outputs import format_of, to_object
from calcli.diagrams.panels import Measured
from calcli.diagrams.reliability import Diagram
from calcli.diagrams.reliability_matplotlib import draw_into
from calcli.diagrams.style import Figure, Request
from calcli.diagrams.style import style as find_style
from calcli.diagrams.terminal import draw
from calcli.errors import DataError, FitError, UsageError, unknown_name
from calcli.evaluation.caveats import TriedArtifact, with_caveats
from calcli.evaluation.cross_validation import folds_of
from calcli.evaluation.evaluate_bundle import Assessed, assess
from calcli.evaluation.evaluation import Evaluation as Evaluation
from calcli.evaluation.evaluation import html_table
from calcli.evaluation.results import Result
from calcli.evaluation.subjects import Candidate, Plan, Subject, fit_size_of
from calcli.fit_words import fitted_sentence
from calcli.fitting.apply import calibrated_blocks
from calcli.fitting.compatibility import check_fits, unseen
from calcli.fitting.fit import fit_artifact
from calcli.fitting.rows_of_fit import fitted_on
from calcli.importers.evidence import kind_of_scores
from calcli.importers.labels import labels_in_memory
from calcli.importers.open_any_file import expand, open_data, open_rows
from calcli.importers.remarks import remarks
from calcli.io.artifact import Artifact, dumps
from calcli.io.artifact import save as save_artifact
from calcli.io.atomic import write_bytes
from calcli.io.cells import sortable
from calcli.io.dataset import DataSet
from calcli.io.harmless import finite
from calcli.io.locate import Layout
from calcli.io.memory import as_names, bundle_in_memory, plain_array
from calcli.io.provenance import title_of
from calcli.io.question_artifact import load as load_artifact
from calcli.io.validate import (
    check_confidences,
    check_scores,
    check_shape,
    doubts,
    score_kind,
)
from calcli.kernels.device import resolve
from calcli.metrics.catalog import metric, report_metrics
from calcli.metrics.collect import collect_all
from calcli.metrics.other_programs import PROGRAMS
from calcli.metrics.settings import MetricSettings, norm_of
from calcli.metrics.warnings import label_warnings
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.registry import (
    DEFAULT_METHOD,
    by_group,
    default_method,
    held_to,
    parse_options,
    split_method,
)
from calcli.rows import SCORE_KINDS, ArrayRows, Codes, Rows, ScoreKind, classes

# ---- input: arrays, tensors and paths as rows, keyword arguments as settings


LOG = logging.getLogger("calcli")
"""What the command line says on standard error, at level INFO."""

Made = TypeVar("Made")

Scores = Any
"""An array (n, k), or (n,) for two classes.

A torch tensor; or ``"FILE.h5"`` / ``"FILE.h5:GROUP"``, a pattern of such names, or a
list of them, which are one data set.
"""


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number."""
    return value.item() if isinstance(value, np.generic) else value


def checked(cls: type[Made], settings: Mapping[str, Any]) -> Made:
    """Build settings from keyword arguments, checked against the types and bounds of
    the fields (``held_to``).
    """
    types = get_type_hints(cls, include_extras=True)
    types.pop("unit", None)  # no setting: the rows say what their units are called
    return cls(
        **held_to(
            types, {name: plain(value) for name, value in settings.items()}, "setting"
        )
    )


def _kind_of(scores: AnyArray, kind: str | None) -> ScoreKind:
    """Kind of scores: as given, else as all values prove. Raises DataError."""
    if kind is not None:
        return score_kind(kind, confidence=True)
    evidence = kind_of_scores(scores)
    if evidence.kind is None and _are_log_odds(scores):
        return "logits"
    if evidence.kind is None:
        kinds = ", ".join(f"kind={name!r}" for name in (*SCORE_KINDS, "confidence"))
        raise DataError(
            f"scores: {evidence.reason}, which does not say their kind; pass {kinds}"
        )
    return evidence.kind


def _are_log_odds(scores: AnyArray) -> bool:
    """True for one column of numbers that are neither probabilities nor their
    logarithms.

    Scores of a file may be another column; an argument is what it is called.
    """
    has_one_column = scores.ndim == 1 or scores.shape[1:] == (1,)
    if not has_one_column or not scores.size:
        return False
    are_probabilities = scores.min() >= 0.0 and scores.max() <= 1.0
    return bool(not are_probabilities and scores.max() > 0.0)


@contextmanager
def open_scores(
    scores: Scores,
    labels: Any,
    kind: str | None,
    *,
    prefer: Sequence[str],
    weights: Any = None,
    units: Any = None,
    class_names: Sequence[str] | None = None,
) -> Iterator[DataSet]:
    """Open labelled rows from arrays or bundles.

    units : (n,) for arrays; for bundles the name of a dataset.
    """
    sources = scores if isinstance(scores, list | tuple) else [scores]
    if sources and all(isinstance(name, str | PathLike) for name in sources):
        if labels is not None:
            raise DataError(
                f"{sources[0]}: a bundle brings its own labels; leave labels out"
            )
        if units is not None and not isinstance(units, str):
            raise DataError(
                f"{sources[0]}: a bundle brings its own units; name their dataset,"
                " units='NAME', or 'none'"
            )
        layout = Layout(unit=units)
        names = []
        for source in sources:
            names += expand(str(source), layout)
        with open_data(names, prefer=prefer, layout=layout, tell=LOG.info) as rows:
            yield rows
        return
    scores = plain_array(scores, "scores")
    score_type = _kind_of(scores, kind)
    if labels is not None and score_type != "confidence":
        with remarks() as message:
            labels, words = labels_in_memory(labels, scores.shape, class_names)
        class_names = class_names or words
        warn_all(message)
    with bundle_in_memory(
        scores,
        labels,
        score_type,
        weights=weights,
        units=units,
        class_names=class_names,
    ) as rows:
        yield rows


def _bring(
    rows: Rows, groups: Any, artifacts: Sequence[Artifact], *columns: str
) -> None:
    """Attach groups (n,) to rows of arrays, as ``columns`` and as the columns that
    calibrators by group read.

    Raises DataError for groups of another shape.
    """
    if groups is None:
        return
    values = _groups_of(groups, rows.n)
    names: list[str] = []
    for artifact in artifacts:
        names += artifact.calibrator.required_columns
    rows.columns = {
        **rows.columns,
        **dict.fromkeys([*columns, *names], Codes.of(values)),
    }


def _groups_of(groups: Any, n: int) -> AnyArray:
    """Names of the groups of n rows. Raises DataError for another number of them."""
    names = sortable(as_names(groups, "groups", "group"))
    if names.shape != (n,):
        message = f"have shape {names.shape}, expected ({n},): one per row"
        raise DataError(f"groups: {message}")
    return names


@contextmanager
def _held_out(
    scores: Scores,
    labels: Any,
    kind: str | None,
    artifacts: Sequence[Artifact],
    groups: Any,
    again: bool = False,
    **about: Any,
) -> Iterator[tuple[DataSet, list[str]]]:
    """Open labelled rows that the calibrators fit, with a list of warnings, issued at
    the end, to append to.
    """
    with open_scores(scores, labels, kind, prefer=("test",), **about) as rows:
        _bring(rows, groups, artifacts)
        notes: list[str] = []
        for artifact in artifacts:
            notes += check_fits(artifact, artifact.method, rows, again=again)
        yield rows, notes
        warn_all(notes)


@contextmanager
def open_unlabelled(scores: Scores, kind: str) -> Iterator[Rows]:
    """Open rows to apply a calibrator to: those of a bundle, or an array in memory."""
    if isinstance(scores, str | PathLike):
        with open_rows(str(scores), prefer=("test",), need_labels=False) as rows:
            yield rows
        return
    array = plain_array(scores, "scores")
    score_type = score_kind(kind, confidence=True)
    n, _ = check_shape(array.shape, array.dtype, "scores")
    if score_type == "confidence" and array.size != n:
        raise DataError(
            f"scores: have shape {array.shape}, expected one confidence a row, ({n},)"
        )
    checked = (
        check_confidences(array, "scores")
        if score_type == "confidence"
        else check_scores(array, score_type, "scores")
    )
    held = ArrayRows(checked, kind=score_type)
    held.dtype = array.dtype
    held.one_column = array.ndim == 1 or array.shape[1] == 1
    yield held


def fit(
    scores: Scores,
    labels: Any = None,
    method: str = DEFAULT_METHOD,
    kind: str | None = None,
    *,
    weights: Any = None,
    units: Any = None,
    groups: Any = None,
    class_names: Sequence[str] | None = None,
    keep_predictions: bool | None = None,
    seed: int = 0,
    device: str = "auto",
    **options: Any,
) -> "FittedCalibrator":
    """Fit one calibrator to scores with labels.

    scores : (n, k) array or tensor, (n,) for a binary model's score of class 1, or the
    path of a bundle (or several, taken together), whose labels, weights and kind are
    then its own. labels : (n,) integers in 0..k-1; also words (of ``class_names``, or
    two), bool or -1 and +1, where a warning says what was read as class 1. method : a
    name of ``calcli methods``, or a composition such as ``ts+hb``; left out, ``auto``,
    which weighs the best few by cross-validation (by group ``ts``, of confidences
    ``platt``). kind : ``logits``, ``log_probs`` or ``probs`` (natural logarithm, 0..1);
    left out, what all values prove. Or ``confidence``, where scores are (n,)
    confidences and labels whether each answer was right (bool or 0/1), for methods of
    the top label. units : (n,) names (numbers, words, dates) that rows which belong
    together share (a patient, an image, a question); of a bundle the name of its
    dataset, or ``none``. groups : (n,) names, each of which gets a map of its own,
    pulled towards the common one; of a bundle the name of its dataset, or
    ``prediction`` (methods ts and platt). keep_predictions : True changes no
    prediction, by a projection, whatever the method; False lets ``auto`` change them;
    left out, ``auto`` changes those of three and more classes only where that is shown
    to help. options : those of ``calcli methods NAME``; a trailing underscore is
    dropped (``lambda_=1``).

    Raises UsageError for methods and options that do not exist, DataError for bad rows,
    FitError where a fit is impossible. A fit that went badly has a ``status`` and
    ``warnings``, which are Python's warnings too.

    >>> import numpy as np
    >>> logits = np.array([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
    >>> calibrator = fit(logits, [0, 1, 0, 1], method="ts", kind="logits")
    >>> round(calibrator.params["temperature"], 4), calibrator.status
    (3.641, 'ok')
    """
    seed = checked(MetricSettings, {"seed": seed}).seed
    more = {"weights": weights, "units": units, "class_names": class_names}
    with open_scores(scores, labels, kind, prefer=("cal", "val"), **more) as rows:
        if groups is not None and method == DEFAULT_METHOD:
            method = default_method(rows, by=True)
        method, written = split_method(method)
        if groups is not None:
            method = by_group(method)
            written = written | {"by": groups if isinstance(groups, str) else "group"}
        chosen = parse_options(
            method,
            written
            | {name.rstrip("_"): plain(value) for name, value in options.items()},
        )
        _bring(rows, None if isinstance(groups, str) else groups, (), "group")
        context = Context(seed=seed, device=resolve(device, method, rows.n * rows.k))
        artifact = fit_artifact(method, chosen, rows, context, keep_predictions)
        fitted = FittedCalibrator(artifact)
    LOG.info("%s", fitted_sentence(artifact))
    warn_all(fitted.warnings)
    return fitted


def evaluate(
    scores: Scores,
    labels: Any = None,
    calibrators: "FittedCalibrator | Sequence[FittedCalibrator]" = (),
    kind: str | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    weights: Any = None,
    units: Any = None,
    groups: Any = None,
    class_names: Sequence[str] | None = None,
    again: bool = False,
    **settings: Any,
) -> Evaluation:
    """Measure scores with labels, uncalibrated and through each calibrator, with
    uncertainty.

    scores, labels, kind, weights, units, class_names : as for ``fit``. groups : (n,) of
    arrays, for findings by group and for calibrators by group. metrics : a name of
    ``calcli metrics``, or several; left out, the report with its verdict. settings :
    fields of ``MetricSettings`` (``bins``, ``norm``, ``scheme``, ``label``, ``level``,
    ``resamples``, ``seed``, ``threshold``, …). again : accept rows that a calibrator
    has been applied to. The result's ``to_dict()`` is the JSON of ``calcli evaluate``.

    Raises UsageError for metrics and settings that do not exist, DataError for bad rows
    and for calibrators of other classes.

    >>> import numpy as np
    >>> probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])
    >>> found = evaluate(probabilities, [0, 1, 1, 0], kind="probs", metrics=["accuracy", "ece"])
    >>> found.results[0].scores["accuracy"].value
    0.75
    """
    asked = [metrics] if isinstance(metrics, str) else metrics
    plan = _plan(asked and [metric(name).name for name in asked], settings)
    about = {
        "weights": weights,
        "units": units,
        "class_names": class_names,
        "groups": groups,
        "again": again,
    }
    artifacts = _artifacts(calibrators)
    with _tried(scores, labels, kind, artifacts, **about) as (
        rows,
        subject,
        candidates,
        doubts,
    ):
        assessed = assess(
            subject if plan.report else replace(subject, group=None), candidates, plan
        )
        doubts += label_warnings(assessed.seen, subject.class_names)
        results = _with_caveats(assessed, rows, artifacts, plan)
    for result in results:
        if result.report is not None:
            LOG.info("%s: %s", result.title, result.report.headline)
    return Evaluation([results])


def _with_caveats(
    assessed: Assessed, rows: DataSet, artifacts: Sequence[Artifact], plan: Plan
) -> list[Result]:
    """The results with doubts about rows and fits among their findings."""
    tried = [TriedArtifact(artifact) for artifact in artifacts]
    bins = plan.settings.bins
    return with_caveats(assessed.results, rows, assessed.seen, tried, bins)


def report(
    scores: Scores,
    labels: Any = None,
    calibrators: "FittedCalibrator | Sequence[FittedCalibrator]" = (),
    kind: str | None = None,
    *,
    path: str | PathLike[str],
    title: str = "",
    force: bool = False,
    **how: Any,
) -> Evaluation:
    """Write an HTML report of scores with labels, uncalibrated and through each
    calibrator.

    path : of the page, which ends in .html. title : its name. how : all else that
    ``evaluate`` takes but ``metrics``. Its result is returned; the page holds its JSON.
    Raises UsageError where a file exists, unless ``force``, and what ``evaluate``
    raises.

    >>> import tempfile, numpy as np
    >>> page = Path(tempfile.mkdtemp()) / "report.html"
    >>> found = report(np.eye(2)[[0, 1, 1, 0]] * 3, [0, 1, 1, 1], kind="logits", path=page)
    >>> page.exists(), found.results[0].method
    (True, 'uncalibrated')
    """
    from calcli.reporting.gather import gather, metrics_of_page
    from calcli.reporting.page import page

    target = _path(path, "path")
    artifacts = _artifacts(calibrators)
    if target.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{target}: expected a name that ends in .html")
    _check_free(target, force)
    about = {
        name: how.pop(name)
        for name in ("weights", "units", "class_names", "groups", "again")
        if name in how
    }
    plan = replace(_plan(None, how), metrics=metrics_of_page())
    with _tried(scores, labels, kind, artifacts, **about) as (
        rows,
        subject,
        candidates,
        doubts,
    ):
        model, assessed = gather(subject, candidates, plan)
        doubts += label_warnings(assessed.seen, rows.class_names)
        results = _with_caveats(assessed, rows, artifacts, plan)
        files = [
            None,
            *((f"{artifact.method}.json", artifact) for artifact in artifacts),
        ]
        versions = tuple(
            replace(version, result=result, file=file)
            for version, result, file in zip(
                model.versions, results, files, strict=True
            )
        )
        model = replace(
            model, versions=versions, source=rows.source, data_sha256=rows.data_sha256
        )
        evaluation = Evaluation([results])
    write_bytes(target, page([model], evaluation.to_dict(), title=title), force=force)
    return evaluation


def _plan(names: Sequence[str] | None, settings: Mapping[str, Any]) -> Plan:
    """Plan of an evaluation: the metrics named, or else the report.

    Raises UsageError for unknown settings.
    """
    how = checked(MetricSettings, settings)
    norm_of("max" if math.isinf(how.norm) else str(how.norm))
    if how.compat is not None and how.compat not in PROGRAMS:
        raise unknown_name("program", how.compat, PROGRAMS)
    return Plan(
        tuple(names or report_metrics(label=how.label)),
        how,
        report=names is None,
        about=settings.get("label"),
    )


@contextmanager
def _tried(
    scores: Scores,
    labels: Any,
    kind: str | None,
    artifacts: Sequence[Artifact],
    groups: Any = None,
    **about: Any,
) -> Iterator[tuple[DataSet, Subject, list[Candidate], list[str]]]:
    """Open rows to evaluate: rows, subject, candidates, and a list of warnings to
    append to.
    """
    if groups is not None:
        groups = as_names(groups, "groups", "group")  # a generator gives them once
    with _held_out(scores, labels, kind, artifacts, groups, **about) as (rows, notes):
        candidates = [Candidate(None, "uncalibrated", None)]
        doubts = list[str]()
        methods = [artifact.method for artifact in artifacts]
        for i, own in enumerate(artifacts):
            rows.places_of(own.calibrator.required_transforms, rows.name)
            name = (
                own.method
                if methods.count(own.method) == 1
                else f"{own.method} {i + 1}"
            )
            candidates.append(
                Candidate(
                    name,
                    own.method,
                    own.calibrator,
                    fit_size=fit_size_of(own),
                    seen=partial(fitted_on, own, rows),
                )
            )
        group = rows.column("group") if groups is None else _groups_of(groups, rows.n)
        yield rows, Subject.of(rows, group), candidates, doubts
        met = [(own.method, fitted_on(own, rows)) for own in artifacts]
        seen = [
            f"{name} was fitted on {what}: evaluate it on held-out rows"
            for name, what in met
            if what is not None
        ]
        notes += [*rows.caveats, *doubts, *seen]


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

    asked = (
        methods if methods is None or isinstance(methods, str) else ",".join(methods)
    )
    s = checked(board.CompareSettings, settings)
    how = MetricSettings(seed=s.seed, level=s.level)
    more = {"weights": weights, "units": units, "class_names": class_names}
    with open_scores(scores, labels, kind, prefer=("cal", "val"), **more) as rows:
        if rows.kind == "confidence":
            raise DataError(
                f"{rows.name}: holds confidences, which have no NLL of the label"
            )
        parts = folds_of(rows, Context(s.seed), s.folds)
        if not parts:
            raise DataError(f"{rows.name}: has {rows.n} row, folds need two or more")
        for _ in rows.blocks():
            pass  # a complete walk checks every row and makes the hash
        warn_all(rows.caveats)
        names, _ = board.entrants(asked, rows, s.thorough)
        base = board.baseline_of(s.baseline, names)
        scene = board.OpenedFolds(rows, rows, parts)
        first = board.held_out(base, scene, s.seed, nullcontext(()))
        fits = first.fits if first.table is not None else ()
        against = [
            (held_out, fit) for (_, held_out, _), fit in zip(parts, fits, strict=False)
        ]
        facts = rows.name, base, rows.n, rows.k, board.digest_of(rows)
        planned = board.LeaderboardEntry(*facts, 0.0, {}, unit=rows.unit_name)
        entries = [board.entered(planned, first, None, how)]
        for name in dict.fromkeys(names):
            if name != base:
                plan = replace(planned, method=name, against=(rows.name, base))
                done = board.held_out(name, scene, s.seed, nullcontext(against))
                entries.append(board.entered(plan, done, first, how))
    common = {
        "folds": s.folds,
        "test": None,
        "seed": s.seed,
        "level": s.level,
        "baseline": base,
    }
    return dict(finite(board.comparison(entries, common, None)))


def threshold(
    scores: Scores,
    labels: Any = None,
    calibrator: "FittedCalibrator | None" = None,
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

    artifacts = _artifacts(() if calibrator is None else calibrator)
    artifact, name = (artifacts[0], artifacts[0].method) if artifacts else (None, None)
    with _held_out(scores, labels, kind, artifacts, groups, again, units=units) as (
        rows,
        notes,
    ):
        searched = search_threshold(rows, artifact, accuracy, confidence, name)
        met = None if artifact is None else fitted_on(artifact, rows)
        seen = (
            []
            if met is None
            else [f"{name} was fitted on {met}: here the guarantee does not hold"]
        )
        notes += [*rows.caveats, *seen]
    if searched.choice.best is None:
        raise FitError(searched.why_not)
    return searched.content


def export(
    calibrator: "FittedCalibrator",
    path: str | PathLike[str],
    to: str | None = None,
    *,
    onto: str | PathLike[str] | None = None,
    at: str | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write a calibrator for a serving stack: ONNX, torch, or a Python file that needs
    NumPy only.

    to : ``onnx``, ``torch`` or ``python``; left out, by the ending of ``path`` (.onnx,
    .pt2, .py). onto : an ONNX classifier to join it to, at its output ``at``. What was
    written is run beside the calibrator before it is kept. Returns what ``calcli export
    --json`` prints: ``rows`` tried, the largest ``difference``, ``labels_differ``, …

    Raises UsageError for another target, for a method that cannot be exported, for a
    package that is missing, and where a file exists, unless ``force``; CalcliError
    where the export differs by more than 1e-6.

    >>> import tempfile, numpy as np
    >>> file = Path(tempfile.mkdtemp()) / "calibrator.py"
    >>> logits = np.array([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
    >>> export(fit(logits, [0, 1, 0, 1], kind="logits"), file)["labels_differ"]
    0
    """
    from calcli.exporting.exporting import check, export_facts, target_of
    from calcli.exporting.exporting import export as made_of

    (artifact,) = _artifacts(calibrator)
    _check_free(_path(path, "path"), force)
    target = target_of(str(path), to)
    made = made_of(artifact, target, None if onto is None else str(onto), at)
    warn_all(made.notes)
    check(made.agreement, str(path))
    write_bytes(Path(path), made.data, force=force)
    return export_facts(str(path), target, artifact, made, made.agreement)


def extract(
    sources: str | PathLike[str] | Sequence[str | PathLike[str]],
    path: str | PathLike[str],
    *,
    split: str | Sequence[str] = (),
    stratify: bool = True,
    ordered: bool = False,
    seed: int = 0,
    ignore_labels: Sequence[int] = (),
    force: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Import files of saved scores into a bundle.

    sources : one file or several, of any format of ``calcli extract``. path : the HDF5
    file to write. split : ``cal=0.5``, ``test=rest``, …: named parts of the rows,
    stratified by label unless ``stratify`` is False, drawn by ``seed``, or in order if
    ``ordered``. ignore_labels : rows with these are left out. options : fields of
    ``ImportRequest``, those of the command with underscores
    (``scores=("val_logits",)``, ``kind``, ``confidence``, ``unit``, …). Returns what
    ``calcli extract --json`` prints: ``bundles`` with their sizes, and ``notes``.

    Raises UsageError for options that do not exist and where a file exists, unless
    ``force``; DataError for sources that cannot be read; then nothing is written.

    >>> import tempfile, numpy as np
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.savez(folder / "a.npz", logits=3 * np.eye(3)[[0, 1, 2, 0]], labels=[0, 1, 2, 1])
    >>> made = extract(folder / "a.npz", folder / "a.h5", split=["cal=0.5", "test=rest"], stratify=False)
    >>> [(bundle["name"], bundle["n"]) for bundle in made["bundles"]]
    [('cal', 2), ('test', 2)]
    """
    from calcli.importers.dealing import Splitting
    from calcli.importers.import_request import ImportRequest
    from calcli.importers.import_scores import import_scores
    from calcli.io.split import parse_split

    output = _path(path, "path")
    files: Any = sources
    if isinstance(sources, str | PathLike) or not isinstance(sources, Iterable):
        files = [sources]
    where = [_path(file, "sources") for file in files]
    texts = (split,) if isinstance(split, str) else tuple(split)
    splitting = Splitting(
        tuple(map(parse_split, texts)), seed, stratify, ordered, texts
    )
    lists = ("scores", "labels", "groups")  # one name or several
    many = {
        name: (value,)
        for name, value in options.items()
        if name in lists and isinstance(value, str)
    }
    ask = checked(ImportRequest, {**options, **many, "seed": seed})
    ignored = tuple(ignore_labels)
    made = import_scores(
        where, output, ask, splitting, ignore_labels=ignored, force=force
    )
    return made.to_dict(str(path))


class Picture:
    """A reliability diagram, as ``diagram`` gives it; a notebook shows it."""

    def __init__(self, figure: Figure) -> None:
        self._figure = figure

    def save(self, path: str | PathLike[str], *, force: bool = False) -> None:
        """Write the diagram in the format of the file's ending: png, svg, pdf (with
        matplotlib), json or csv.

        Raises UsageError for another ending, and where a file exists, unless ``force``.
        """
        target = _path(path, "path")
        _check_free(target, force)
        write_bytes(target, format_of(target)(self._figure, Paper()), force=force)

    def to_dict(self) -> dict[str, Any]:
        """All numbers that are drawn, those of ``calcli diagram --json``."""
        return to_object(self._figure)

    def __str__(self) -> str:
        return draw(self._figure)

    def __repr__(self) -> str:
        return f"<calcli diagram: {self.to_dict()['style']}>"

    def _repr_svg_(self) -> str:
        return format_of(Path("figure.svg"))(self._figure, Paper()).decode()


def diagram(
    scores: Scores,
    labels: Any = None,
    calibrators: "FittedCalibrator | Sequence[FittedCalibrator]" = (),
    kind: str | None = None,
    *,
    style: str = "corp",
    title: str | None = None,
    weights: Any = None,
    units: Any = None,
    groups: Any = None,
    again: bool = False,
    ax: Any = None,
    **settings: Any,
) -> Picture:
    """Draw the reliability of scores with labels, uncalibrated and through each
    calibrator.

    scores, labels, calibrators, kind, weights, units, groups, again : as for
    ``evaluate``. style : one of ``calcli diagram --help``. ax : matplotlib axes to draw
    all curves into, without histogram and numbers, of the styles ``corp`` and ``bins``.
    settings : fields of ``CurveSettings`` (``bins``, ``scheme``, ``level``,
    ``resamples``, ``seed``). Raises UsageError and DataError as ``evaluate`` does.

    >>> import numpy as np
    >>> picture = diagram(np.eye(2)[[0, 1, 1, 0]], [0, 1, 1, 1], resamples=100)
    >>> picture.to_dict()["style"]
    'corp'
    """
    artifacts = _artifacts(calibrators)
    how = find_style(style)
    if how.needs_scores:
        raise UsageError(f"style {style!r} is drawn by calcli diagram only")
    curves = checked(CurveSettings, settings)
    with _held_out(
        scores, labels, kind, artifacts, groups, again, weights=weights, units=units
    ) as (rows, notes):
        tables = collect_all(
            rows, [None, *(artifact.calibrator for artifact in artifacts)]
        )
        notes += [*rows.caveats, *label_warnings(tables[0], rows.class_names)]
        names = [title_of(rows.upstream), *(artifact.method for artifact in artifacts)]
        sets = [
            Measured(rows.name, name, table)
            for name, table in zip(names, tables, strict=True)
        ]
        request = Request(
            curves,
            sets=sets,
            title=title,
            names=rows.class_names,
            layout="side" if ax is None else "overlay",
        )
        figure = how.measure(request)
    if ax is not None:
        if not isinstance(figure, Diagram):
            raise UsageError(
                f"style {style!r} draws no curves into ax=; corp and bins do"
            )
        draw_into(figure, ax)
    return Picture(figure)


def watch(
    scores: Scores,
    labels: Any = None,
    calibrator: "FittedCalibrator | None" = None,
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

    path = _path(state, "state")
    artifact = None if calibrator is None else _artifacts(calibrator)[0]
    settings_given = {
        name: getattr(checked(Settings, {name: value}), name)
        for name, value in settings.items()
    }
    with _held_out(
        scores, labels, kind, [artifact] if artifact else [], groups, again, units=units
    ) as (rows, notes):
        notes += rows.caveats
        if rows.location.name:
            check_state_path(path, [rows.path])
        state_after = take_in(
            path, rows, artifact, settings_given, new_episode=reset, tell=notes.append
        )
        return state_after.to_dict()


def _artifacts(
    calibrators: "FittedCalibrator | Sequence[FittedCalibrator]",
) -> list[Artifact]:
    """Artifacts of one calibrator or a list of them.

    Raises UsageError for anything else.
    """
    calibrator_list = (
        [calibrators]
        if isinstance(calibrators, FittedCalibrator | str | PathLike)
        else list(calibrators)
    )
    for calibrator in calibrator_list:
        if not isinstance(calibrator, FittedCalibrator):
            raise UsageError(
                f"calibrators: found {calibrator!r}, expected what fit or load gives:"
                " calcli.load(PATH)"
            )
    return [calibrator._artifact for calibrator in calibrator_list]


def _is_data_frame(scores: Any) -> bool:
    """True for a DataFrame of pandas, which need not be installed."""
    return type(scores).__name__ == "DataFrame" and hasattr(scores, "iloc")


def warn_all(notes: Sequence[str]) -> None:
    """Issue Python warnings, attributed to the nearest caller outside calcli."""
    level = 1
    frame = sys._getframe()
    ours = ("calcli", "contextlib")
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] in ours
    ):
        level = level + 1
        frame = frame.f_back
    for note in notes:
        warnings.warn(note, stacklevel=level)


def load(path: str | PathLike[str]) -> "FittedCalibrator":
    """Read a calibrator that ``calcli fit`` or ``FittedCalibrator.save`` has written.

    Nothing in the file is executed. Raises DataError for anything that is no valid
    artifact.
    """
    return FittedCalibrator(load_artifact(str(path)))


class FittedCalibrator:
    """A fitted calibrator, as ``fit`` and ``load`` give it.

    method, options, params : as in the artifact, every option with its value. status :
    ``ok``, ``at_bound``, ``no_root``, ``degenerate`` or ``not_converged``. warnings :
    what a user should know about the fit. before, after : accuracy, NLL, Brier score
    and ECE of the calibration rows. n_classes : 1 where it was fitted to confidences.
    kind : of the scores it was fitted on.
    """

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        fit = artifact.fit
        self.method = artifact.method
        self.kind = artifact.input_kind
        self.n_classes = artifact.n_classes
        self.options: Mapping[str, Any] = artifact.options
        self.status = fit.status
        self.warnings = tuple(fit.warnings)
        self.before: Mapping[str, float | None] = fit.before
        self.after: Mapping[str, float | None] = fit.after

    @property
    def params(self) -> Mapping[str, Any]:
        """Fitted parameters under the names of the artifact."""
        return dict(self.to_dict()["params"])

    def predict_proba(
        self, scores: Scores, kind: str | None = None, groups: Any = None
    ) -> Any:
        """Calibrated probabilities, (n, k) float64; every row sums to 1.

        scores : as for ``fit``. kind : of the scores, where it is not that of the fit.
        groups : (n,), which a calibrator by group needs beside an array; those that its
        fit has not seen get the common map. Of confidences the columns are the
        probabilities that the answer is wrong, and right. Raises DataError for scores
        of other classes or kinds, for NaN, and where the fit has seen the group of no
        row. A pandas DataFrame of scores gives one of probabilities, with its index and
        the names of the classes.
        """
        probs, _ = self._applied(scores, kind, groups)
        if not _is_data_frame(scores):
            return probs
        columns = self._artifact.class_names
        if columns is None and scores.shape[1] == probs.shape[1]:
            columns = list(scores.columns)
        return type(scores)(probs, index=scores.index, columns=columns)

    def predict(
        self, scores: Scores, kind: str | None = None, groups: Any = None
    ) -> IntArray:
        """Predicted classes, (n,) int64.

        Of confidences 1 where the answer is likelier right than wrong.

        They need not be the largest probability's: see the method's laws.
        """
        return self._applied(scores, kind, groups)[1]

    def save(self, path: str | PathLike[str], *, force: bool = False) -> None:
        """Write the artifact that ``calcli apply`` reads.

        Raises UsageError where a file exists, unless ``force``.
        """
        _check_free(_path(path, "path"), force)
        save_artifact(self._artifact, str(path), force=force)

    def to_dict(self) -> dict[str, Any]:
        """The artifact as plain values, those of its JSON."""
        return dict(json.loads(dumps(self._artifact)))

    def _applied(
        self, scores: Scores, kind: str | None, groups: Any
    ) -> tuple[FloatArray, IntArray]:
        calibrator = self._artifact.calibrator
        with open_unlabelled(scores, kind or self.kind) as rows:
            _bring(rows, groups, [self._artifact])
            warn_all(doubts(rows))
            if isinstance(rows, DataSet):
                check_fits(self._artifact, self.method, rows)
            elif "confidence" in {rows.kind, self.kind} and rows.kind != self.kind:
                raise DataError(
                    f"scores are {rows.kind}, this calibrator was fitted on"
                    f" {self.kind}: the kinds differ"
                )
            elif rows.k != self.n_classes:
                raise DataError(
                    f"scores have {rows.k} classes, this calibrator was fitted for"
                    f" {self.n_classes}"
                )
            elif lacking := [
                c for c in calibrator.required_columns if c not in rows.columns
            ]:
                raise DataError(
                    f"scores: this calibrator is by {lacking[0]!r}; pass groups= with"
                    " one value per row"
                )
            else:
                warn_all(unseen(calibrator, rows, "scores"))
            transforms = rows.places_of(calibrator.required_transforms, "scores")
            alone = rows.kind == "confidence"
            probs = np.empty((rows.n, max(rows.k, 2)))
            labels = np.empty(rows.n, dtype=np.int64)
            what: ScoreKind = "confidence" if alone else "probs"
            for start, p, columns, _ in calibrated_blocks(
                calibrator, rows, what, transforms
            ):
                stop = start + len(p)
                probs[start:stop] = np.stack([1.0 - p, p], axis=1) if alone else p
                labels[start:stop] = p > 0.5 if alone else columns["prediction"]
        return probs, labels

    def __repr__(self) -> str:
        n = self._artifact.fit.n
        origin = f"fitted to {n} rows" if n else "from known class frequencies"
        return (
            f"<calcli {self.method}: {classes(self.n_classes)}, {origin},"
            f" {self.status}>"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks: what the fit did to the calibration rows."""
        if not self._artifact.fit.n:
            return f"<p>{escape(repr(self))}</p>"
        rows = {"before": self.before, "after": self.after}
        lines = {
            name: ["-" if x is None else f"{x:.4f}" for x in values.values()]
            for name, values in rows.items()
        }
        title = (
            f"{self.method}, {classes(self.n_classes)}, {self._artifact.fit.n} rows,"
            f" status {self.status}"
        )
        return html_table(title, list(self.before), lines, self.warnings)


def _path(value: Any, name: str) -> Path:
    """The path of an argument. Raises UsageError for what is none."""
    if not isinstance(value, str | PathLike):
        raise UsageError(f"{name}: is {value!r}, expected the path of a file")
    return Path(value)


def _check_free(path: Path, force: bool) -> None:
    """Raise UsageError where a file exists, unless ``force``.

    (The command line names its own option.)
    """
    if path.exists() and not force:
        raise UsageError(
            f"{path}: exists already; choose another name or pass force=True to"
            " replace it"
        )
