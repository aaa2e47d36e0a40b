"""What a calibration method is. ``Calibrator``'s docstring is the guide to adding one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_args

import msgspec
import numpy as np

from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.fit_summary import Summary
from calcli.numerics import FloatArray, IntArray, floored_log
from calcli.rows import Block, Rows

Status = Literal["ok", "at_bound", "no_root", "degenerate", "not_converged"]
Memory = Literal["stream", "row", "array"]
Progress = Callable[[str, int, int], None]

Curves = FloatArray | tuple[FloatArray, ...]  # one 1-D array (one map for all), or one per class (lengths may differ)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of a method: every field has a default, bounds and a description.

    ``--set name=value``, the artifact, ``calcli methods NAME`` and the documentation are all read from the fields,
    declared like ``bins: Annotated[int, Meta(ge=1, le=100_000, description="number of bins")] = 15`` or with
    ``Literal[...]`` for choices. A reserved word gets a trailing underscore and ``msgspec.field(name=...)``. An option
    that came later, so marked by ``Meta(extra=...)``, is recorded only where it is not at its default: fits without it
    keep their bytes.
    """

    def recorded(self) -> dict[str, Any]:
        """What an artifact holds of them."""
        named = msgspec.to_builtins(self)
        for each in msgspec.structs.fields(type(self)):
            later = any(getattr(meta, "extra", None) for meta in get_args(each.type))
            if later and named[each.encode_name] == each.default:
                del named[each.encode_name]
        return dict(named)


@dataclass(frozen=True, kw_only=True)
class Laws:
    """What a method promises; what is not named is not promised. Generic tests hold every registered method to it.

    keeps_argmax : ``prediction`` is always the argmax of the uncalibrated scores.
    monotone : the vector's own argmax stays too (no conflict with ``prediction``).
    shift_invariant : a constant added to all logits of a row changes nothing.
    equivariant : relabelling the classes relabels the output and changes nothing else.
    improves_nll : on the calibration data NLL never ends above that of the identity.
    confidence : also calibrates confidences of which no class is known (kind ``confidence``).
    top_label_only : calibrates the confidence of the predicted class; the other classes
        share the rest in the proportions they had. Comes last in a composition.
    weights : sample weights enter the fit (else their presence is a recorded warning).
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


ORDER_PRESERVING = Laws(keeps_argmax=True, monotone=True, shift_invariant=True, equivariant=True, weights=True)
"""One increasing map for the scores of a row."""


@dataclass(frozen=True)
class Context:
    """What a fit may use from outside: a seed, a device, a place to report progress.

    device : "cpu" or "cuda", already resolved. progress(what, done, total) may be called as often as wanted. seconds :
    time spent on the parts of the work, by name; told, never stored. start : a calibrator of the same method fitted to
    much the same rows (folds of a cross-validation): near its parameters a search may begin, and it may end when
    the loss is right to about 1e-7.
    """

    seed: int = 0
    device: str = "cpu"
    progress: Progress = lambda what, done, total: None
    seconds: dict[str, float] = field(default_factory=dict)
    start: "Calibrator | None" = None

    def rng(self) -> "np.random.Generator":  # quoted: np.random is imported on first use
        """A fresh generator; the same seed gives the same draws."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True)
class Prediction:
    """Calibrated rows.

    log_probs : (b, k) float64, normalised, finite (a zero is log of the smallest float). label : (b,) int64, the
    prediction, which need not be the vector's argmax. counts : occurrences worth telling, summed over blocks, e.g.
    {"zero_rows": 3}. stated : (b,) the confidence itself, where no logarithm and back may move it off a bin's edge.
    floored : whether probabilities of 0 may occur; without, logarithms are exact however small. columns : further
    numbers of every row, (b,) each, that are written beside: p0 and p1 of ``venn-abers``.
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
        return np.minimum(np.exp(self.log_probs[np.arange(len(self.label)), self.label]), 1.0)


C = TypeVar("C", bound="Calibrator")


@dataclass(frozen=True)
class Fit(Generic[C]):
    """A fitted calibrator and how the fit went.

    warnings : plain sentences for the user. details : numbers worth recording in the artifact (iterations, gradient
    norm, choices made); JSON types only. chosen : method and options, where the method's job was to pick another.
    before : the summary of the rows as they came, where the fit's own walk has made it. verify : given the summary of
    the calibrated rows, a better fit, or None where its optimum holds on them. after : makes the summary of the
    calibrated rows of what the fit knows of them, sooner than the calibrator would.
    """

    calibrator: C
    status: Status = "ok"
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    chosen: tuple[str, Options] | None = None
    before: Summary | None = None
    verify: "Callable[[Summary], Fit[C] | None] | None" = None
    after: Callable[[], Summary] | None = None


def param(
    *shape: str | int, dtype: str = "float64", optional: bool = False, default: Any = MISSING, within: str = ""
) -> Any:
    """Declare a fitted parameter of a calibrator: a field that the artifact stores.

    shape : its dimensions; "k" is the number of classes, an integer is itself, any other name must agree between the
    parameters of one calibrator. No shape at all means a scalar of the annotated type (float, int, bool, str). dtype :
    "float64", "int64" or "str" for arrays. A field annotated ``Curves`` holds one 1-D array or a tuple of them.
    optional : may be None. default : the value of a parameter that artifacts leave out when it has that value, as those
    of earlier versions do; such fields come last (below ``_: KW_ONLY``). within : a word of ``WITHIN``, for what the
    numbers must be; finite unless it says otherwise. Of a str, what it may be: ``oi|op``.
    """
    return field(default=default, metadata={"shape": shape, "dtype": dtype, "optional": optional, "within": within})


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
    Options: ClassVar[type[Options]] = Options  # none

    @classmethod
    @abstractmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        """Fit to labelled rows."""

    @abstractmethod
    def apply(self, block: Block) -> Prediction:
        """Calibrate one block."""

    def marginals(self, block: Block) -> FloatArray:
        """Every class's calibrated probability by itself, (b, k) float64: of methods with one map per class the values
        that ``apply`` divides by the row's sum."""
        return np.exp(self.apply(block).log_probs)

    @classmethod
    def takes_logarithms(cls) -> bool:
        """Whether scores enter as logarithms, which a probability of 0 lacks."""
        return True

    @property
    def required_transforms(self) -> Sequence[str]:
        """Specs of the transforms whose scores ``apply`` reads, in the order of ``Block.transformed``; mostly none."""
        return ()

    @property
    def required_columns(self) -> Mapping[str, Sequence[str]]:
        """Columns of ``Block.columns`` that ``apply`` reads, each with the names it knows; most methods need none."""
        return {}

    @property
    def logit_scale(self) -> float | None:
        """What every logit is multiplied by, of a method that does nothing else; else None."""
        return None

    def check_own(self, k: int) -> None:  # noqa: B027 (most methods have nothing to add)
        """Raise DataError for parameters no fit could have produced, beside what is declared of them (k classes)."""

    def check(self, k: int) -> None:
        """Raise DataError for parameters no fit could have produced (k classes)."""
        for each in fields(self):
            value, within = getattr(self, each.name), each.metadata.get("within", "")
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, str) and within and one not in within.split("|"):
                    expected = " or ".join(within.replace("|", ", ").rsplit(", ", 1))
                    raise DataError(f"params.{each.name} is {one!r}, expected {expected}")
                kind = getattr(getattr(one, "dtype", None), "kind", "")
                if kind == "f" or isinstance(one, float) or (within and isinstance(one, int)):
                    check_numbers(each.name, one, within)
        self.check_own(k)

    @classmethod
    def resolve_options(cls, options: Any, k: int) -> Any:
        """The options, which an artifact records, with every default that depends on the number of classes k spelt
        out. Raises FitError for options that cannot serve k classes."""
        return options

    @classmethod
    def columns_to_fit(cls, options: Any) -> Sequence[str]:
        """Names of the columns of ``Block.columns`` that ``fit`` reads."""
        return ()

    @classmethod  # noqa: B027 (for most methods every combination is allowed)
    def check_options(cls, options: Any) -> None:
        """Raise UsageError for options that do not go together."""


# ---- what fitted parameters must be, as an artifact that holds them is read


WITHIN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "": (np.isfinite, "a finite number"),
    "positive": (lambda v: (v > 0) & (v < np.inf), "a positive number"),
    "from 0": (lambda v: (v >= 0) & (v < np.inf), "a number from 0"),
    "share": (lambda v: (v >= 0) & (v < 1), "a share in [0, 1)"),
    "0 to 1": (lambda v: (v >= 0) & (v <= 1), "a number between 0 and 1"),
    "gaps": (lambda v: np.isnan(v) | ((v >= 0) & (v <= 1)), "a number between 0 and 1, or null"),
    "weights": (lambda v: (v >= 0).all() and abs(v.sum() - 1.0) <= 1e-9, "numbers from 0 that sum to 1"),
    "shares": (lambda v: (v > 0).all() and abs(v.sum() - 1.0) < 1e-6, "positive shares that sum to 1"),
    "rising": (lambda v: np.isfinite(v).all() and (np.diff(v) > 0).all(), "finite numbers that rise"),
}
"""By the word for it, what holds of a parameter, or of each of its numbers, and what is expected."""


def check_numbers(name: str, value: float | FloatArray, within: str = "") -> None:
    """Raise DataError for a parameter that holds NaN or infinity, or a number outside what is declared of it."""
    holds, expected = WITHIN[within]
    good = np.asarray(holds(np.asarray(value)))
    if good.all():
        return
    if good.ndim:
        at = np.argwhere(~good)[0].tolist()
        name, value = f"{name}{at}", np.asarray(value)[tuple(at)]
    raise DataError(f"params.{name} is {value}, expected {expected}")
