"""Fit a method to rows: an artifact, with its record of the fit."""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from calcli.calibrator import Context, CrossFitting, Fit, Options
from calcli.errors import FitError
from calcli.fit_summary import Summary
from calcli.fitting.fit_warnings import FittedRows, judged_fit
from calcli.io.artifact import Artifact, FitRecord
from calcli.io.dataset import DataSet
from calcli.io.row_facts import facts_of
from calcli.io.rows_seen import sketch
from calcli.kernels.numpy.temperature import summaries_at, summary_at
from calcli.metrics.collect import summarise
from calcli.numerics import BREAKDOWNS
from calcli.parallel import same_threads
from calcli.registry import (
    method,
    method_names,
    with_predictions_free,
    with_predictions_kept,
)
from calcli.rows import Rows
from calcli.statistics.units import label_effect

FOR_OPTIONS = "ts,ft,mono,iop"
"""Candidates of ``auto`` where columns are the options of the row."""


def fit_artifact(
    name: str,
    options: Options,
    rows: DataSet,
    context: Context,
    keep_predictions: bool | None = None,
) -> Artifact:
    """Fit a method; see ``fit_with_cross_fits``."""
    fitted = fit_with_cross_fits(name, options, rows, context, keep_predictions)
    return fitted.artifact


@dataclass(frozen=True)
class FittedArtifact:
    """An artifact, and calibrators without each fold where the fit has them."""

    artifact: Artifact
    cross_fits: CrossFitting | None = None


@same_threads()
def fit_with_cross_fits(
    name: str,
    options: Options,
    rows: DataSet,
    context: Context,
    keep_predictions: bool | None = None,
) -> FittedArtifact:
    """Fit a method and describe what it did to the calibration data.

    options : the method's own, from ``parse_options``. keep_predictions : of a method
    that moves predictions, keep them by a projection; False lets ``auto`` change them;
    None leaves the method as it is.

    Raises DataError for bad rows, FitError for a fit that is impossible. A fit that
    merely failed to help has a status and warnings.
    """
    try:
        fitted = _fit(name, options, rows, context, keep_predictions)
    except FitError as problem:
        raise FitError(f"{rows.name}: {problem}") from None
    except BREAKDOWNS as problem:
        raise _breakdown(name, rows, str(problem)) from problem
    if not np.isfinite(list(fitted.after.values().values())).all():
        raise _breakdown(name, rows, "its probabilities are not finite")
    artifact = Artifact(
        method=fitted.name,
        options=fitted.options.recorded(),
        calibrator=fitted.result.calibrator.counting(rows.zeros),
        n_classes=rows.k,
        input_kind=rows.kind,
        class_names=rows.class_names,
        fit=_record(fitted, rows, context),
        seconds=context.seconds,
    )
    return FittedArtifact(artifact, fitted.result.cross_fits)


def _fit(
    name: str,
    options: Options,
    rows: DataSet,
    context: Context,
    keep_predictions: bool | None,
) -> FittedRows:
    """Fit a method, and summarise its rows without and with it."""
    if rows.kind == "confidence":
        _check_fits_confidences(name)
    if rows.n_options is not None:
        options = for_options_of_rows(name, options)
    name, options = resolved(name, options, rows, keep_predictions)
    for column in method(name).columns_to_fit(options):
        rows.carry(column)
    counted = rows.counted()
    result = method(name).fit(counted, options, context)
    if result.chosen is not None:
        name, options = result.chosen
        options = method(name).resolve_options(options, rows.k)
    before, after = _before_and_after(counted, result, context)
    return FittedRows(name, options, result, counted, before, after)


def _record(fitted: FittedRows, rows: DataSet, context: Context) -> FitRecord:
    """What the artifact says of its fit. rows : as they were read."""
    before = fitted.before
    status, warnings = judged_fit(fitted, rows, context)
    resolution: float | list[float] | UnsetType = UNSET
    clip: float | UnsetType = UNSET
    zeros = rows.zeros
    if zeros is not None:
        resolution = zeros.resolution
        if zeros.clip:
            clip = zeros.clip
    details = dict(fitted.result.details)
    held_out = fitted.result.held_out
    if held_out is not None and held_out.n == fitted.rows.n:
        details["held_out"] = {**summarise(held_out, None, context.progress).values()}
    effect: float | UnsetType = UNSET
    units = fitted.rows.units()
    if units is not None:
        details["units"] = units.n
        if rows.k > 1:
            effect = label_effect(fitted.rows.labels(), rows.k, units)
    return FitRecord(
        n=before.n,
        status=status,
        warnings=warnings,
        source=rows.name,
        data_sha256=rows.data_sha256,
        row_sketch=sketch(facts_of(rows)),
        label_counts=before.label_counts.tolist() if rows.k > 1 else [],
        label_effect=effect,
        effective_rows=float(before.weight) if before.weighted else UNSET,
        ignored=rows.ignored,
        seed=context.seed,
        resolution=resolution,
        clip=clip,
        before={**before.values()},
        after={**fitted.after.values()},
        details=details,
        upstream=list(rows.upstream) or None,
    )


def _check_fits_confidences(name: str) -> None:
    """Refuse a method that needs the scores of every class. Raises FitError."""
    if method(name).laws.confidence:
        return
    others = [other for other in method_names() if method(other).laws.confidence]
    others.sort(key=lambda other: method(other).list_order)
    raise FitError(
        f"method {name} needs the scores of every class, this bundle holds one"
        f" confidence a row; these methods need no more: {', '.join(others)}"
    )


def resolved(
    name: str, options: Options, rows: Rows, keep_predictions: bool | None
) -> tuple[str, Options]:
    """The method for these rows, with all options explicit.

    keep_predictions : as for ``fit_artifact``. Raises FitError.
    """
    options = method(name).resolve_options(options, rows.k)
    if keep_predictions is None or rows.kind == "confidence":
        return name, options
    if keep_predictions:
        return with_predictions_kept(name, options)
    return with_predictions_free(name, options)


def treats_options_alike(name: str) -> bool:
    """True for a method without parameters of classes, for options of the row."""
    laws = method(name).laws
    is_of_rows = laws.keeps_argmax or laws.top_label_only
    return laws.equivariant and is_of_rows and not laws.needs_transforms


def for_options_of_rows(name: str, options: Options) -> Options:
    """Options of a method for rows whose columns are the options of the row.

    Raises FitError for a method with parameters of classes.
    """
    if name == "auto":
        if not getattr(options, "candidates", ""):
            return msgspec.structs.replace(options, candidates=FOR_OPTIONS)
        return options
    for part in name.split("+"):
        if not treats_options_alike(part):
            raise FitError(
                f"method {part} has parameters of classes, and columns are the"
                " options of the row here; ts, ec, ets, ft, mono, iop, auto and maps of"
                " the confidence treat all options alike"
            )
    return options


def _breakdown(name: str, rows: Rows, reason: str) -> FitError:
    lowest: list[float] = []
    highest: list[float] = []
    for block in rows.blocks():
        lowest.append(float(block.scores.min()))
        highest.append(float(block.scores.max()))
    reach = f"their {rows.kind} go from {min(lowest):.3g} to {max(highest):.3g}"
    masks = "are some of them masks? ts and ec stand any range"
    return FitError(
        f"method {name} broke down on these rows ({reason}); {reach}: {masks}"
    )


def _before_and_after(
    rows: Rows, fitted: Fit[Any], context: Context
) -> tuple[Summary, Summary]:
    """Summaries of the rows without and with a fitted calibrator."""
    scale = fitted.calibrator.logit_scale
    if scale is not None and _are_logits(rows):
        both = summaries_at(rows, scale)
        return both.before, both.after
    before = _summary_before(rows, context)
    if fitted.after is not None:
        return before, fitted.after()
    return before, summarise(rows, fitted.calibrator, context.progress)


def _summary_before(rows: Rows, context: Context) -> Summary:
    """Summary of the rows without a calibrator, by the faster loop if there is one."""
    if _are_logits(rows):
        return summary_at(rows, 1.0)
    return summarise(rows, None, context.progress)


def _are_logits(rows: Rows) -> bool:
    return rows.kind in ("logits", "log_probs")
