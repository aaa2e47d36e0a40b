"""Base of svs and sms: a smoothed temperature step, then a map under a ridge."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self, cast

import numpy as np

from calcli.block import Block
from calcli.calibrator import (
    Context,
    Fit,
    Prediction,
    param,
)
from calcli.errors import DataError
from calcli.folds import content_folds
from calcli.methods._affine.fitting import (
    FitNotes,
    folded,
    held_back,
    objective_of,
    split_map,
    time_of_matrix_fits,
)
from calcli.methods._affine.maps import SCALES, AffineMap
from calcli.methods._affine.objective import (
    Ridge,
    logits_as,
    rows_to_fit,
)
from calcli.methods._temperature import likeliest
from calcli.numerics import (
    LOG_ZERO,
    BoolArray,
    FloatArray,
    IntArray,
    log_normalizer,
    softmax,
)
from calcli.rows import Rows

# values of lambda in cross-validation, strongest first
LAMBDAS = (30.0, 10.0, 3.0, 1.0)
# rows per class below which lambda=auto of sms is cross-validated and svs is
# recommended
ROWS_PER_CLASS = 20

CLASSES_WITHOUT_ROWS = "each is predicted less; where they occur, ts serves better"
"""What happens to classes without rows, for which only the ridge speaks."""


@dataclass(frozen=True)
class Structured(AffineMap):
    """Base of svs and sms: an affine map behind a smoothed temperature step.

    It takes temperature-scaled log-probabilities, mixed with the uniform vector. held :
    classes whose probability the map leaves as the first step makes it; it moves
    probability among the others only.
    """

    temperature: float = param(within="positive")
    smoothing: float = param(within="0 to 1")
    _: KW_ONLY
    held: IntArray | None = param("held", dtype="int64", optional=True, default=None)

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        notes = FitNotes(rows, context)
        k = rows.k
        theta = cls.identity(rows.k)
        search = likeliest(rows, context, options.prior)
        temperature = search.temperature
        smoothing = 1.0 / (rows.effective_n + 1)
        if search.root.status in ("at_low", "at_high"):
            notes.warn(
                "the temperature of the first step ran into its bound: T ="
                f" {temperature:g}",
                "at_bound",
            )
        features = partial(smoothed_log_probs, temperature, smoothing)

        def ridge(lam: float, n: float) -> Ridge:
            """Make the ridge about the identity map.

            lam k/n on diagonal and bias, lam k (k - 1)/n off the diagonal.
            """
            weight = np.full(theta.shape, lam * k / n)
            if cls.full:
                weight[:, :-1] *= k - 1
                weight[np.arange(k), np.arange(k)] = lam * k / n
            return held_back(
                Ridge(weight, cls.identity(k)), 1.0, temperature, options.prior, n
            )

        held = np.array(context.held, dtype=np.int64) if context.held else None
        first_step = partial(cls, temperature, smoothing, held=held)
        build = cast(Callable[..., Self], first_step)
        if not notes.warn_of_absent_classes(CLASSES_WITHOUT_ROWS):
            return notes.fit(build(*split_map(theta)))
        lam = options.lambda_
        folds = min(5, rows.n)
        what = SCALES
        long = ""
        if cls.full:
            if rows.effective_n < ROWS_PER_CLASS * k:
                notes.warn(
                    f"{rows.effective_n:.0f} rows are fewer than {ROWS_PER_CLASS} per"
                    " class: svs serves better"
                )
                if lam == "auto":
                    lam = "cv"
            if lam == "auto":
                lam = 1.0
            fits = folds * len(LAMBDAS) + 1 if lam == "cv" else 1
            long = time_of_matrix_fits(rows, fits, "use svs, or give lambda")
            what = f"fitting{long}"
        fold = content_folds(rows, folds, context.seed) if lam == "cv" else None
        source = rows_to_fit(rows, features, cls.full, fold)
        if fold is not None:
            parts = folded(source.folds(), theta, complete=True)
            lam, thetas = notes.search_path(parts, LAMBDAS, ridge, theta, long)
            if cls.full:
                theta = np.mean(thetas, axis=0)
        notes.details["lambda"] = lam
        last = ridge(lam, rows.effective_n)
        objective = objective_of(source.chunks(), last, complete=True)
        best = notes.fit_map(cls, objective, lambda: theta, what)
        return notes.fit(build(*split_map(best)))

    def apply(self, block: Block) -> Prediction:
        prediction = super().apply(block)
        if self.held is None:
            return prediction
        is_held = np.isin(np.arange(len(self.bias)), self.held)
        first_step = self.features(block)
        log_p = with_classes_held(prediction.log_probs, first_step, is_held)
        return Prediction.by_argmax(log_p)

    def check_own(self, k: int) -> None:
        if self.held is None:
            return
        held = self.held.tolist()
        known = range(k)
        if len(set(held)) < len(held) or not set(held) < set(known):
            raise DataError(f"params.held is {held}, expected some of {k} classes")

    def features(self, block: Block) -> FloatArray:
        """log((1 - a) softmax(z / T) + a / k), (b, k)."""
        return smoothed_log_probs(self.temperature, self.smoothing, block)


def smoothed_log_probs(
    temperature: float, smoothing: float, block: Block, dtype: Any = np.float64
) -> Any:
    p = softmax(logits_as(block, dtype) / temperature)
    p *= 1.0 - smoothing
    p += smoothing / p.shape[1]
    return np.log(p, out=p)


def with_classes_held(
    log_p: FloatArray, held_log_p: FloatArray, is_held: BoolArray
) -> FloatArray:
    """Log-probabilities that have those of some classes from elsewhere.

    The other classes share what is left in the proportions that they have. log_p,
    held_log_p : (b, k). is_held : (k,).
    """
    left = log_normalizer(np.where(is_held, LOG_ZERO, held_log_p))
    sum_of_others = log_normalizer(np.where(is_held, LOG_ZERO, log_p))
    others = log_p + (left - sum_of_others)[:, None]
    return np.where(is_held, held_log_p, others)
