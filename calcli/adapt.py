"""Adapt a calibrator to class frequencies that changed, from unlabelled rows or known frequencies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from calcli.calibrator import Calibrator, Context
from calcli.composition import Composition, Stage
from calcli.errors import DataError, FitError, UsageError
from calcli.fitting.compatibility import check_fits
from calcli.folds import content_folds
from calcli.io.artifact import Artifact, FitRecord
from calcli.io.dataset import DataSet
from calcli.methods.compared.identity import Identity
from calcli.methods.prior import LEAST, PriorShift
from calcli.metrics.collect import predicted
from calcli.numerics import FloatArray
from calcli.registry import method
from calcli.rows import Rows, ScoreKind
from calcli.statistics.label_shift import Sampling, Shift, Source, estimate_shift

FOLDS = 5
RESAMPLES = 200
OPEN = 0.05  # the calibrator is changed where the p-value of no shift is at most this
REFUSED = 0.01  # nothing is changed where the p-value of the assumption of label shift is at most this
ROWS_A_CLASS = 5  # fewest unlabelled rows per class


@dataclass(frozen=True)
class Adapted:
    """Result of an adaptation. artifact : the adapted calibrator, or the original where no shift was found. changed :
    was it adapted? source, target : (k,) class frequencies before and now. shift : the estimate from the rows, None
    where only the frequencies were given. n : number of unlabelled rows."""

    artifact: Artifact
    changed: bool
    source: FloatArray
    target: FloatArray
    shift: Shift | None
    n: int

    @property
    def holds(self) -> bool:
        """True unless the rows contradict label shift from the source."""
        return self.shift is None or self.shift.distance_p > REFUSED

    def to_dict(self) -> dict[str, Any]:
        """Content of ``calcli adapt --json``."""
        shift, k = self.shift, len(self.source)
        names: Sequence[str | None] = self.artifact.class_names or [None] * k
        ends = (
            [None] * k
            if shift is None
            else np.stack([shift.low, shift.high], axis=1).tolist()
        )
        keys = "index", "name", "source", "target", "ci"
        lines = zip(
            range(k),
            names,
            self.source.tolist(),
            self.target.tolist(),
            ends,
            strict=True,
        )
        facts = {"adapted": self.changed, "method": self.artifact.method, "n": self.n}
        p_values = {
            "no_shift_p_value": shift and shift.ratio_p,
            "label_shift_p_value": shift and shift.distance_p,
        }
        return {
            **facts,
            **p_values,
            "classes": [dict(zip(keys, line, strict=True)) for line in lines],
        }


def adapt(
    artifact: Artifact,
    where: str,
    rows: DataSet | None,
    source: DataSet | None,
    prior: Sequence[float] | None,
    context: Context,
    force: bool,
    own: bool,
) -> Adapted:
    """Adapt a calibrator to rows whose class frequencies differ from those of its fit.

    artifact : with class biases (``Laws.class_shares``); where : its name. rows : unlabelled, of the model as it is
    now. source : labelled rows of the model as it was: those of the fit (which are then cross-fitted), or others.
    prior : class frequencies now, if known. force : adapt even where the rows contradict label shift. own : source
    must hold the rows of the fit.

    Raises UsageError for a calibrator without class biases and for invalid shares; DataError for rows of other
    scores, and for a calibrator that lacks the class frequencies of its fit; FitError for fewer than 5 rows a class,
    and where the rows contradict label shift.
    """
    k = artifact.n_classes
    laws = artifact.calibrator.laws
    if artifact.method.endswith("+prior"):
        raise UsageError(
            f"{where}: is adapted already; adapt the calibrator that it was made from"
        )
    if (
        not laws.class_shares
        or (laws.top_label_only and k != 2)
        or artifact.input_kind == "confidence"
    ):
        lacks = "has no class biases, so it shows no class frequencies"
        raise UsageError(
            f"{where}: method {artifact.method} {lacks}; fit svs (or vs, auto) and adapt that"
        )
    shift, n = None, 0 if rows is None else rows.n
    if rows is not None and source is not None:
        for each in (rows, source):
            check_fits(artifact, where, each)
        if n < ROWS_A_CLASS * k:
            needed = f"at least {ROWS_A_CLASS * k}"
            raise FitError(
                f"{rows.name}: {n} rows say too little of {k} class frequencies; {needed}"
            )
        raw = Identity()
        before = Source(
            _held_out(artifact, source, context, own),
            source.labels(),
            _probabilities(raw, source),
            Sampling.of(source.n, source.units(), source.weights()),
        )
        p = _probabilities(artifact.calibrator, rows)
        shift = estimate_shift(
            p,
            _probabilities(raw, rows),
            before,
            RESAMPLES,
            context.rng(),
            Sampling.of(rows.n, rows.units(), rows.weights()),
        )
        shares = before.shares
    elif source is not None:
        p = _probabilities(artifact.calibrator, source)
        shares = np.average(p, axis=0, weights=source.weights())
    elif artifact.fit.effective_rows is not msgspec.UNSET:
        raise DataError(
            f"{where}: was fitted with sample weights, of which it keeps no class"
            " frequencies; name labelled rows of then: --source BUNDLE"
        )
    elif not artifact.fit.label_counts:
        lacks = "lacks the class frequencies of its fit, as calibrators of older versions do"
        raise DataError(
            f"{where}: {lacks}; fit again, or name labelled rows of then: --source BUNDLE"
        )
    else:
        shares = np.array(artifact.fit.label_counts, dtype=float) + 0.5
    shares = np.maximum(shares / shares.sum(), LEAST)
    target = shares if shift is None else shift.shares
    if prior is not None:
        target = checked_shares("--prior", prior, k)
    changed = prior is not None or (shift is not None and shift.ratio_p <= OPEN)
    target = np.maximum(target / target.sum(), LEAST)
    adapted = with_prior(artifact, shares, target, n) if changed else artifact
    found = Adapted(adapted, changed, shares, target, shift, n)
    if not found.holds and not force:
        assert rows is not None and source is not None and shift is not None
        raise _contradiction(rows.name, source, shift.distance_p)
    return found


def known_shift(
    source: Sequence[float], target: Sequence[float], kind: ScoreKind
) -> Adapted:
    """Correct scores of a model for class frequencies that are known, without any rows.

    source, target : frequencies in training and now. kind : of the scores to apply it to.
    Raises UsageError for shares that are none.
    """
    k = max(2, len(source))
    before = checked_shares("--from", source, k)
    now = checked_shares("--prior", target, k)
    artifact = Artifact(
        method="prior",
        options={},
        calibrator=PriorShift(before, now),
        n_classes=k,
        input_kind=kind,
        class_names=None,
        fit=FitRecord(n=0, status="ok"),
    )
    return Adapted(artifact, True, before, now, None, 0)


def checked_shares(option: str, shares: Sequence[float], k: int) -> FloatArray:
    """Shares of k classes, (k,). Raises UsageError unless they are positive and sum to 1."""
    given = np.array(shares, dtype=float)
    if len(given) == k and np.all(given > 0) and abs(given.sum() - 1.0) <= 1e-6:
        return np.maximum(given / given.sum(), LEAST)
    words = ",".join(f"{share:g}" for share in shares)
    raise UsageError(f"{option} {words}: expected {k} positive shares that sum to 1")


def _contradiction(name: str, source: DataSet, p_value: float) -> FitError:
    gone = np.flatnonzero(np.bincount(source.labels(), minlength=source.k) == 0)
    lacks = (
        f" or are of class {gone[0]}, which {source.name} lacks" if len(gone) else ""
    )
    told = f"is not what other class frequencies would make of {source.name} (p = {p_value:.3f})"
    why = f"the inputs have changed too{lacks}, and shares estimated from such rows do harm"
    return FitError(
        f"{name}: {told}: {why}; label some rows and refit, or pass --again"
    )


def with_prior(
    artifact: Artifact, source: FloatArray, target: FloatArray, n: int
) -> Artifact:
    """Append the prior shift as a last stage; the record of the fit is kept, with the number of rows adapted to."""
    old, options, name = (
        artifact.calibrator,
        artifact.options,
        f"{artifact.method}+prior",
    )
    if isinstance(old, Composition):
        stages = old.stages
    else:
        stages = (Stage(artifact.method, _options(artifact), old),)
        options = {f"{artifact.method}.{key}": value for key, value in options.items()}
    last = Stage("prior", PriorShift.Options(), PriorShift(source, target))
    calibrator = method(name)((*stages, last))  # type: ignore[call-arg]
    calibrator = calibrator.counting(old.zeros)
    fit = msgspec.structs.replace(
        artifact.fit, details={**artifact.fit.details, "adapted_to": n}
    )
    return msgspec.structs.replace(
        artifact, method=name, options=options, calibrator=calibrator, fit=fit
    )


def _options(artifact: Artifact) -> Any:
    return msgspec.convert(artifact.options, method(artifact.method).Options)


def _probabilities(calibrator: Calibrator, rows: Rows) -> FloatArray:
    return np.exp(predicted(rows, calibrator).log_probs)


def _held_out(
    artifact: Artifact, source: DataSet, context: Context, own: bool
) -> FloatArray:
    """Calibrated probabilities of labelled rows, (n, k); cross-fitted in 5 folds where they are the rows of the fit."""
    p = _probabilities(artifact.calibrator, source)
    if artifact.fit.data_sha256 != source.data_sha256:
        if own:
            told = "holds other rows than at the fit; name labelled rows of then: --source BUNDLE"
            raise DataError(f"{source.name}: {told}")
        return p
    fold = content_folds(source, FOLDS, context.seed)
    for f in np.unique(fold):
        context.progress("cross-fitting", int(f), FOLDS)
        kept, held = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        fitted = (
            method(artifact.method)
            .fit(source.take(kept), _options(artifact), Context(context.seed))
            .calibrator
        )
        p[held] = _probabilities(fitted, source.take(held))
    return p
