"""Base class of calibration methods and its types. ``Calibrator``'s docstring is the
guide to adding a method.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_args

import msgspec
import numpy as np

from calcli.block import Block
from calcli.errors import DataError
from calcli.fit_summary import Summary
from calcli.numerics import (
    LOG_ZERO,
    FloatArray,
    IntArray,
    floored_log,
    log_normalizer,
)
from calcli.rows import Rows
from calcli.zeros import Zeros

Status = Literal["ok", "at_bound", "no_root", "degenerate", "not_converged"]
Memory = Literal["stream", "row", "array"]
Progress = Callable[[str, int, int], None]

# one 1-D array (one map for all), or one per class (lengths may differ)
Curves = FloatArray | tuple[FloatArray, ...]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of a method: every field has a default, bounds and a description.

    ``--set name=value``, the artifact, ``calcli methods NAME`` and the documentation
    are all read from the fields, declared like ``bins: Annotated[int, Meta(ge=1,
    le=100_000, description="number of bins")] = 15`` or with ``Literal[...]`` for
    choices. A reserved word gets a trailing underscore and ``msgspec.field(name=...)``.
    An option that came later, so marked by ``Meta(extra=...)``, is recorded only where
    it is not at its default: fits without it keep their bytes.
    """

    def recorded(self) -> dict[str, Any]:
        """Options as an artifact records them."""
        named = msgspec.to_builtins(self)
        for option in msgspec.structs.fields(type(self)):
            came_later = any(
                getattr(meta, "extra", None) for meta in get_args(option.type)
            )
            if came_later and named[option.encode_name] == option.default:
                del named[option.encode_name]
        return dict(named)


@dataclass(frozen=True, kw_only=True)
class Laws:
    """Guarantees of a method, none unless declared. Generic tests check them for every registered method.

    keeps_argmax : ``prediction`` is always the argmax of the uncalibrated scores.
    monotone : the argmax of the calibrated vector stays too (it never differs from ``prediction``).
    shift_invariant : a constant added to all logits of a row changes nothing.
    equivariant : relabelling the classes relabels the output and changes nothing else.
    improves_nll : on the calibration data NLL never ends above that of the identity.
    confidence : also calibrates confidences without class scores (kind ``confidence``).
    restores_argmax : in a composition, the prediction is again that of the scores, whatever the stages before did.
    top_label_only : calibrates the confidence of the predicted class; the other classes
        share the rest in the proportions they had. Comes last in a composition.
    weights : sample weights enter the fit (else their presence records a warning).
    class_shares : the mean probability of every class is nearly its share among the calibration rows (of a top-label
        method for two classes only), so that ``calcli adapt`` may follow.
    needs_transforms : reads the scores of the same rows under transforms of the input.
    memory : ``stream`` constant, ``row`` some numbers per row, ``array`` the whole array.
    """

    keeps_argmax: bool = False
    monotone: bool = False
    shift_invariant: bool = False
    equivariant: bool = False
    improves_nll: bool = False
    confidence: bool = False
    top_label_only: bool = False
    weights: bool = False
    class_shares: bool = False
    memory: Memory = "array"
    needs_transforms: bool = False
    restores_argmax: bool = False


ORDER_PRESERVING = Laws(
    keeps_argmax=True,
    monotone=True,
    shift_invariant=True,
    equivariant=True,
    weights=True,
)
"""Guarantees of a method that applies one increasing map to all scores of a row."""


@dataclass(frozen=True)
class Context:
    """Environment of a fit: seed, device, progress callback.

    device : "cpu" or "cuda", already resolved. progress(what, done, total) may be
    called any number of times. seconds : time per part of the work, by name; reported,
    never stored. notes : events of the fit for the user, which become warnings of its
    record. start : a warm start, a calibrator of the same method fitted to nearly the
    same rows (folds of a cross-validation): a search may begin near its parameters.
    loose : a search may end with a Newton step that promises to lower the mean loss by
    at most this, in nats; 0 for the digits of float64. held : classes without rows,
    whose probability ``svs`` and ``sms`` leave as their first step makes it.
    """

    seed: int = 0
    device: str = "cpu"
    progress: Progress = lambda what, done, total: None
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    start: "Calibrator | None" = None
    loose: float = 0.0
    held: tuple[int, ...] = ()

    def rng(
        self,
    ) -> "np.random.Generator":  # quoted: np.random is imported on first use
        """A fresh generator; the same seed gives the same draws."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True)
class Prediction:
    """Calibrated rows.

    log_probs : (b, k) float64, normalised, finite (a zero is log of the smallest
    float). label : (b,) int64, the prediction, which need not be the vector's argmax.
    counts : events to report, summed over blocks, e.g. {"zero_rows": 3}. stated : (b,)
    the exact confidence, where rounding by log and exp could move it off a bin's edge.
    floored : whether probabilities of 0 may occur; without, logarithms are exact
    however small. columns : further columns to write, (b,) each: p0 and p1 of
    ``venn-abers``.
    """

    log_probs: FloatArray
    label: IntArray
    counts: Mapping[str, int] = field(default_factory=dict)
    stated: FloatArray | None = None
    floored: bool = False
    columns: Mapping[str, FloatArray] = field(default_factory=dict)

    @classmethod
    def by_argmax(cls, log_probs: FloatArray) -> "Prediction":
        """Calibrated rows whose prediction is the largest entry."""
        return cls(log_probs, log_probs.argmax(axis=1))

    @classmethod
    def of_confidence(cls, q: FloatArray) -> "Prediction":
        """Calibrated rows of kind ``confidence``. q : (b,) in [0, 1]."""
        return cls(floored_log(q)[:, None], np.zeros(len(q), dtype=np.int64), stated=q)

    @property
    def confidence(self) -> FloatArray:
        """Probability of the predicted class, (b,) float64 in [0, 1]."""
        if self.stated is not None:
            return self.stated
        return np.minimum(
            np.exp(self.log_probs[np.arange(len(self.label)), self.label]), 1.0
        )


@dataclass(frozen=True)
class CrossFits:
    """Calibrators that did not see a fold of the rows.

    parts : the calibrator without each fold. fold : (n,) fold of every row.
    """

    parts: Sequence["Calibrator"]
    fold: IntArray

    def in_order(self, order: IntArray) -> "CrossFits":
        """The same, where the rows had been put in another order: (n,) indices."""
        fold = np.empty_like(self.fold)
        fold[order] = self.fold
        return CrossFits(self.parts, fold)


CrossFitting = Callable[[Progress], CrossFits]
"""Makes calibrators without each fold, reporting progress."""


C = TypeVar("C", bound="Calibrator")


@dataclass(frozen=True)
class Fit(Generic[C]):
    """A fitted calibrator and how the fit went.

    warnings : plain sentences for the user. details : numbers worth recording in the
    artifact (iterations, gradient norm, choices made); JSON types only. chosen : method
    and options, for a method that selects another one. after : computes the summary of
    the calibrated rows from the state of the fit, faster than applying the calibrator
    would. out_of_fold : rows of the fit, calibrated by fits that did not see them,
    which the next stage of a composition is fitted to. held_out : the same without any
    stage that was fitted to those calibrated rows. cross_fits : gives calibrators
    without each fold of the rows, from what the fit has tried, faster than fitting anew
    would.
    """

    calibrator: C
    status: Status = "ok"
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    chosen: tuple[str, Options] | None = None
    after: Callable[[], Summary] | None = None
    out_of_fold: Rows | None = None
    held_out: Rows | None = None
    cross_fits: CrossFitting | None = None


def param(
    *shape: str | int,
    dtype: str = "float64",
    optional: bool = False,
    default: Any = MISSING,
    within: str = "",
) -> Any:
    """Declare a fitted parameter of a calibrator: a field that the artifact stores.

    shape : its dimensions; "k" is the number of classes, an integer is itself, any
    other name must agree between the parameters of one calibrator. No shape at all
    means a scalar of the annotated type (float, int, bool, str). dtype : "float64",
    "int64" or "str" for arrays. A field annotated ``Curves`` holds one 1-D array or a
    tuple of them. optional : may be None. default : a value that artifacts omit, as
    those of earlier versions do; such fields are last (below ``_: KW_ONLY``). within :
    a key of ``WITHIN``, the condition on the numbers; finite by default. For a str, its
    allowed values: ``oi|op``.
    """
    return field(
        default=default,
        metadata={
            "shape": shape,
            "dtype": dtype,
            "optional": optional,
            "within": within,
        },
    )


@dataclass(frozen=True)
class Calibrator(ABC):
    """A fitted calibration method: a frozen dataclass whose fields are its parameters.

    To add a method, write ``calcli/methods/<name>.py`` (the command-line name with ``_``
    for ``-``; in ``methods/compared/`` if people should rather choose another) with a
    subclass that has a ``title``; every list, help text and generic test then finds it.

    - The class docstring is the documentation: first line is the help text, then the
      formula, where we differ from other implementations and why, and a line that starts
      with ``Reference:`` (authors, year, equation).
    - ``title`` is the method's name in words, ``aliases`` are further names that people type;
      case, ``_`` and blanks do not matter. ``use`` says in a phrase when to use it, and
      ``list_order`` is its rank in lists (least first). ``laws`` says what it promises.
      ``Options`` are its options. ``composable`` is False for a method whose fit is
      that of another (``Fit.chosen``), which no composition can hold.
    - Fields are declared with ``param``; they hold float, int, bool, str or arrays, never
      objects. Numbers that are not finite, or not ``within`` what is declared, are refused, as is what ``check_own``
      finds that cannot come from a fit.
    - ``fit`` is a class method: rows, options and context in, ``Fit`` out. It never
      raises for data that merely make the method useless: it returns parameters that do
      no harm, a status and a warning in plain words. FitError is for the impossible.
    - ``apply`` maps one block to calibrated log-probabilities. It must not depend on how
      rows are cut into blocks. Written in NumPy's functions of whole arrays, it is exported as it is.
    - Natural logarithm, float64 results, 0-based class indices, ties to the lowest index.
    - Heavy imports (scipy, torch) go inside the functions that need them.
    - A method never sees a path, a console or h5py.
    """

    list_order: ClassVar[int] = 90
    aliases: ClassVar[tuple[str, ...]] = ()
    use: ClassVar[str] = ""
    title: ClassVar[str]
    laws: ClassVar[Laws]
    composable: ClassVar[bool] = True
    zeros: ClassVar[Zeros | None] = None  # set by ``counting`` for one calibrator
    Options: ClassVar[type[Options]] = Options  # without fields

    @classmethod
    @abstractmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        """Fit to labelled rows."""

    @abstractmethod
    def apply(self, block: Block) -> Prediction:
        """Calibrate one block."""

    def counting(self, zeros: Zeros | None) -> Self:
        """Copy of a fitted calibrator that knows what the zeros of its fit counted as."""
        made = copy(self)
        vars(made)["zeros"] = zeros  # no parameter, so no field
        return made

    def calibrate(self, block: Block) -> Prediction:
        """Calibrated rows of a block; options that a row does not have get nothing."""
        prediction = self.apply(self.reading(block))
        if not block.of_options:
            return prediction
        log_probs = np.where(block.padding, LOG_ZERO, prediction.log_probs)
        log_probs = log_probs - log_normalizer(log_probs)[:, None]
        return replace(prediction, log_probs=np.maximum(log_probs, LOG_ZERO))

    def reading(self, block: Block) -> Block:
        """Block whose zeros count as in the fit, whatever other rows stand beside
        these.

        Where the rows of the fit were not rounded and these are, their own digits say
        more.
        """
        of_fit = self.zeros
        if of_fit is None or block.kind not in ("probs", "confidence"):
            return block
        of_block = block.zeros
        if of_block is not None and of_block.is_rounded and not of_fit.is_settled:
            return block
        return replace(block, zeros=of_fit)

    def marginals(self, block: Block) -> FloatArray:
        """Calibrated probability of each class by itself, (b, k) float64: for methods
        with one map per class, before ``apply`` divides by the row's sum.
        """
        return np.exp(self.apply(block).log_probs)

    @classmethod
    def takes_logarithms(cls) -> bool:
        """True if the method works on log-scores, so that a probability of 0 is a
        problem.
        """
        return True

    @property
    def required_transforms(self) -> Sequence[str]:
        """Specs of the transforms whose scores ``apply`` reads, in the order of
        ``Block.transformed``; mostly none.
        """
        return ()

    @property
    def required_columns(self) -> Mapping[str, Sequence[str]]:
        """Columns of ``Block.columns`` that ``apply`` reads, each with the names it
        knows; most methods need none.
        """
        return {}

    @property
    def logit_scale(self) -> float | None:
        """Inverse temperature of a method that only scales the logits; else None."""
        return None

    def check_own(self, k: int) -> None:  # noqa: B027 (most methods add nothing)
        """Raise DataError for parameters impossible for k classes.

        Adds to the checks declared by ``param``.
        """

    def check(self, k: int) -> None:
        """Raise DataError for parameters that no fit to k classes could have produced."""
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            within = parameter.metadata.get("within", "")
            values = value if isinstance(value, tuple) else (value,)
            for one in values:
                _check_parameter(parameter.name, one, within)
        self.check_own(k)

    @classmethod
    def resolve_options(cls, options: Any, k: int) -> Any:
        """Replace defaults that depend on the number of classes k by explicit values,
        for the artifact. Raises FitError for options that cannot serve k classes.
        """
        return options

    @classmethod
    def moves_predictions(cls, options: Any) -> bool:
        """True if the method may change predictions.

        options : as of ``resolve_options``.
        """
        return not cls.laws.keeps_argmax

    @classmethod
    def is_stage(cls, options: Any) -> bool:
        """True if a composition can hold the method with these options."""
        return cls.composable

    @classmethod
    def columns_to_fit(cls, options: Any) -> Sequence[str]:
        """Names of the columns of ``Block.columns`` that ``fit`` reads."""
        return ()

    @classmethod  # noqa: B027 (for most methods every combination is allowed)
    def check_options(cls, options: Any) -> None:
        """Raise UsageError for incompatible options."""


# ---- conditions on fitted parameters, checked as an artifact is read


WITHIN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "": (np.isfinite, "a finite number"),
    "positive": (lambda v: (v > 0) & (v < np.inf), "a positive number"),
    "from 0": (lambda v: (v >= 0) & (v < np.inf), "a number from 0"),
    "share": (lambda v: (v >= 0) & (v < 1), "a share in [0, 1)"),
    "0 to 1": (lambda v: (v >= 0) & (v <= 1), "a number between 0 and 1"),
    "gaps": (
        lambda v: np.isnan(v) | ((v >= 0) & (v <= 1)),
        "a number between 0 and 1, or null",
    ),
    "weights": (
        lambda v: (v >= 0).all() and abs(v.sum() - 1.0) <= 1e-9,
        "numbers from 0 that sum to 1",
    ),
    "shares": (
        lambda v: (v > 0).all() and abs(v.sum() - 1.0) < 1e-6,
        "positive shares that sum to 1",
    ),
    "rising": (
        lambda v: np.isfinite(v).all() and (np.diff(v) > 0).all(),
        "finite numbers that rise",
    ),
}
"""Conditions on a parameter or on each of its numbers, by name: a test, and its
description for messages.
"""


def _check_parameter(name: str, value: Any, within: str) -> None:
    """Raise DataError for a word that is no choice, or a number out of its range."""
    if isinstance(value, str) and within and value not in within.split("|"):
        expected = " or ".join(within.replace("|", ", ").rsplit(", ", 1))
        raise DataError(f"params.{name} is {value!r}, expected {expected}")
    is_float_array = getattr(getattr(value, "dtype", None), "kind", "") == "f"
    is_bounded_integer = bool(within) and isinstance(value, int)
    if is_float_array or isinstance(value, float) or is_bounded_integer:
        check_numbers(name, value, within)


def check_numbers(name: str, value: float | FloatArray, within: str = "") -> None:
    """Raise DataError for a parameter that is not finite, or violates the condition
    ``within`` (see ``WITHIN``).
    """
    holds, expected = WITHIN[within]
    good = np.asarray(holds(np.asarray(value)))
    if good.all():
        return
    if good.ndim:
        place = np.argwhere(~good)[0].tolist()
        name = f"{name}{place}"
        value = np.asarray(value)[tuple(place)]
    raise DataError(f"params.{name} is {value}, expected {expected}")


def transforms_read_by(calibrators: Iterable[Calibrator]) -> list[str]:
    """Specs of the transforms that any of some calibrators reads, each once."""
    specs: dict[str, None] = {}
    for calibrator in calibrators:
        specs |= dict.fromkeys(calibrator.required_transforms)
    return list(specs)


def with_transforms_of(
    calibrator: Calibrator, block: Block, specs: Sequence[str]
) -> Block:
    """The block with those transforms alone that a calibrator reads, in its order.

    specs : of all transforms of the block.
    """
    needed = calibrator.required_transforms
    if block.transformed is None or list(needed) == list(specs):
        return block
    places = [specs.index(spec) for spec in needed]
    return replace(block, transformed=block.transformed[places])
