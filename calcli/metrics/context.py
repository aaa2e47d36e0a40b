"""What metrics are computed from: the rows, the settings, and results that they share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast
from zlib import crc32

import numpy as np

from calcli.binning import BinStats, bin_index, mass_edges, width_edges
from calcli.errors import UsageError
from calcli.free_memory import check_memory
from calcli.metrics.other_programs import CONVENTIONS, Convention
from calcli.metrics.rowtable import RowTable
from calcli.metrics.settings import Label, MetricSettings
from calcli.metrics.values import Undefined
from calcli.numerics import AnyArray, FloatArray, IntArray, starts_of_ties
from calcli.records import cached_property
from calcli.statistics.nulls import (
    Laws,
    Null,
    bin_laws,
    bin_outcomes,
    expected_error,
    null_of,
    outcome_draws,
)
from calcli.statistics.shared_luck import (
    SharedLuck,
    opposed_luck,
)
from calcli.statistics.shared_outcomes import SharedOutcomes
from calcli.statistics.ties import Ranked
from calcli.statistics.weighted_sums import FEW_JUMPS, JumpSums, expected_jumps
from calcli.statistics.weights import effective_number

Columns = Callable[[], Iterator[tuple[int, FloatArray]]]
Work = TypeVar("Work", bound=Callable[..., Any])

# most resamples of an estimator that looks at every row of every resample
HEAVY_RESAMPLES = 200

COPIED = 100.0
"""Times the fewest carrying rows, below which these may be copies of fewer."""

MOST_OUTCOMES = 1 << 30
"""Most outcomes of rows in units that are drawn, eight to a byte; more rows: fewer
draws, to ``HEAVY_RESAMPLES``.
"""

FEWEST_CONTENTS = 30
EVEN = 0.5
LEAST_COPIES = 1.9
"""Different rows from which on counts alone tell copies, largest variance of the counts
in units of the mean, and least mean count: rounded scores that repeat by chance vary
far more.
"""

FEWEST_COPIED = 4
"""Fewest different rows that may be copies; below ``FEWEST_CONTENTS`` equal counts of
scores with one outcome each tell, which drawn rows have with chance .002 at 4 x 100,
and less of more rows.
"""

# how nulls of rows that belong together are drawn (``statistics.shared_luck.SharedLuck``)
SHARED_LUCK = "shared luck"


def made_once(make: Work) -> Work:
    """Cache the results of a function of a context, and perhaps of more arguments, in
    the context. ``MetricContext.instead`` may replace the function where there is no
    row table.
    """

    @wraps(make)
    def found(context: "MetricContext", *args: Any) -> Any:
        way = context.instead.get(found, make)
        return context.once((found, *args), lambda: way(context, *args))

    return cast(Work, found)


@dataclass
class MetricContext:
    """One set of calibrated rows, with what several metrics share computed once.

    table : of very many rows ``running_sums.RunningSums`` in its place. columns :
    probabilities class by class, or None where only the row table is at hand.
    raw_columns : each class's own value, before rows are divided by their sums;
    likewise. instead : how a subclass makes what is ``made_once``, where it has no
    table of the rows. neighbours : contexts of other groups of rows, itself among them,
    whose laws are made together with its own. heavy : most ``heavy_resamples``.
    """

    instead: ClassVar[Mapping[Any, Callable[..., Any]]] = {}

    table: RowTable
    settings: MetricSettings = field(default_factory=MetricSettings)
    columns: Columns | None = None
    raw_columns: Columns | None = None
    neighbours: "Sequence[MetricContext]" = ()
    heavy: int = HEAVY_RESAMPLES
    _cache: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def labelled(self, label: Label) -> "MetricContext":
        """Context of the same rows under another ``--label``."""
        if label == self.settings.label:
            return self
        return self.once(
            ("label", label),
            lambda: self.with_settings(replace(self.settings, label=label)),
        )

    def with_settings(self, settings: MetricSettings) -> "MetricContext":
        """Context of the same rows with other settings."""
        return MetricContext(self.table, settings, self.columns, self.raw_columns)

    def rng(self, name: str) -> np.random.Generator:
        """Random generator of its own for each use, so that asking for more metrics
        changes none.
        """
        return np.random.default_rng([self.settings.seed, crc32(name.encode())])

    def once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The result of ``make``, computed at the first call with this key."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def keep(self, key: tuple[Any, ...], result: Any) -> None:
        """Store a result computed elsewhere under this key."""
        self._cache[key] = result

    # ---- two classes

    @property
    def right(self) -> FloatArray:
        """1.0 where the prediction is the label, (n,); with two classes it follows the
        threshold.
        """
        return (self.predicted == self.table.y).astype(np.float64)

    @property
    def predicted(self) -> IntArray:
        """Predicted class, (n,): as the calibrator says, or by the threshold where one
        is set.
        """
        t = self.table
        threshold = self.settings.threshold
        if threshold == 0.5:
            return t.prediction
        if t.positive is None:
            raise UsageError(f"--threshold {threshold:g} is for two classes, {t.known}")
        return (t.positive > threshold).astype(np.int64)

    @property
    def threshold_signature(self) -> dict[str, str]:
        """Threshold part of a signature; empty at the default of 0.5."""
        threshold = self.settings.threshold
        if threshold == 0.5:
            return {}
        return {"threshold": f"{threshold:g}"}

    # ---- binned scores

    @property
    def scores(self) -> FloatArray:
        """Scores that ``--label`` selects, (n,): the confidence, or P(class 1)."""
        t = self.table
        if self.settings.label != "positive":
            return t.confidence
        if t.positive is None:
            raise UsageError(f"--label positive is for two classes, {t.known}")
        return t.positive

    @property
    def outcomes(self) -> FloatArray:
        """Outcomes of the scores, (n,): 1.0 where the prediction is correct, or where
        the label is class 1.
        """
        if self.settings.label == "positive":
            return (self.table.y == 1).astype(np.float64)
        return self.table.correct

    @property
    def n(self) -> int:
        return self.table.n

    @property
    def effective_n(self) -> float:
        """Kish's effective number of rows; the number of rows without weights."""
        weight = self.table.weight
        if weight is None:
            return float(self.n)
        return effective_number(weight)

    @cached_property
    def copies(self) -> float:
        """How often each row occurs, where all occur about equally often; else 1.

        Rounded scores repeat too, but those of confident rows far more often than
        others, and with more than one outcome.
        """
        t = self.table
        of_scores = self._counts_of(t.confidence, t.prediction, t.entropy)
        times = self._counts_of(t.confidence, t.prediction, t.entropy, t.y, t.nll)
        mean = float(times.mean())
        if len(times) >= FEWEST_CONTENTS:
            is_even = times.var() <= EVEN * mean
        else:
            has_one_outcome = len(of_scores) == len(times) >= FEWEST_COPIED
            is_even = has_one_outcome and times.max() - times.min() <= 1
        return mean if is_even and mean >= LEAST_COPIES else 1.0

    def _counts_of(self, *columns: AnyArray) -> IntArray:
        """How often each combination of values occurs, (distinct,); columns that the
        table lacks are left out."""
        known = np.stack([column for column in columns if len(column) == self.n])
        return np.unique(known, axis=1, return_counts=True)[1]

    @cached_property
    def distinct(self) -> int:
        """Number of distinct confidences, but for rounding."""
        return len(starts_of_ties(np.sort(self.table.confidence)))

    # ---- rows that belong together

    @property
    def has_plain_rows(self) -> bool:
        """True for independent rows that count alike: neither weights nor units."""
        return self.table.weight is None and self.table.units is None

    @cached_property
    def luck(self) -> SharedLuck | None:
        """Dependence of outcomes within units; None without units."""
        t = self.table
        if t.units is None:
            return None
        positive = self.settings.label == "positive"
        return SharedLuck.of(
            self.scores, self.outcomes, t.units, t.weight, both=positive
        )

    @property
    def few_wrong(self) -> str | None:
        """Reason why means over units have no interval (too few hold, or should hold, a
        wrong row), else None.
        """
        luck = self.luck
        if luck is None or luck.few_wrong is None:
            return None
        few = f"about {luck.few_wrong:.0f} of {luck.units} units"
        return f"{few} hold all errors: no interval"

    @cached_property
    def shared(self) -> SharedOutcomes | None:
        """Outcomes of the rows of units under calibration; None where each row is
        alone. Raises DataError for too many. One fewer than resamples, so that with the
        observed ones they are a round number; of very many rows fewer.
        """
        t = self.table
        luck = self.luck
        if luck is None or t.units is None:
            return None
        draws = (
            min(self.settings.resamples, max(HEAVY_RESAMPLES, MOST_OUTCOMES // t.n)) - 1
        )
        check_memory(
            draws * t.n // 8, f"{draws} draws of the outcomes of {t.n} rows in units"
        )
        share = [luck.share, 0.0]
        if self.settings.label == "positive" and luck.share < 1.0:
            right = self.labelled("top").luck
            assert right is not None
            opposed = opposed_luck(self.scores, self.outcomes, t.units, t.weight)
            share = [0.0, 1.0] if right.share == 1.0 else opposed
        return SharedOutcomes.drawn(
            self.scores,
            t.units,
            share[0],
            max(draws, 1),
            self.rng("shared"),
            share[1],
            self._drawn_with,
        )

    def drawn(self, name: str, draws: int) -> Iterator[tuple[slice, AnyArray]]:
        """Outcomes under calibration in the order of the scores, some draws at a time.

        name : of their generator.
        """
        if self.shared is not None:
            return self.shared.some(draws)
        return outcome_draws(np.sort(self.scores), draws, self.rng(name))

    @cached_property
    def rows_by_score(self) -> IntArray:
        """Rows (n,) by ascending score, as outcomes are drawn.

        What else the draws add up orders rows of equal scores, so that the draws do not
        depend on the order of the rows in the file.
        """
        if self.shared is not None:
            return self.shared.order
        order = np.argsort(self.scores, kind="stable")
        ordered = self.scores[order]
        if (ordered[1:] != ordered[:-1]).all():
            return order
        return np.lexsort([*self._drawn_with, self.scores])

    @property
    def _drawn_with(self) -> list[FloatArray]:
        """What draws add up beside the scores, (n,) each."""
        t = self.table
        keys = [t.varentropy, t.entropy]
        if t.weight is not None:
            keys.append(t.weight)
        return [key for key in keys if len(key) == t.n]

    @property
    def variance(self) -> float:
        """Variance of the sum of outcomes under calibration, sum w^2 c (1 - c)."""
        w = self.table.weight
        c = self.scores
        spread = c * (1.0 - c)
        if w is None:
            return float(spread.sum())
        return float(w**2 @ spread)

    @cached_property
    def few_jumps(self) -> bool:
        """True if so few rows carry the sum of outcomes that it is not normal, and
        their outcomes can be drawn.
        """
        jumps = JumpSums.of(self.scores, self.table.weight)
        return expected_jumps(jumps) < FEW_JUMPS

    def ranked(self) -> Ranked:
        """Scores in order, with outcomes."""
        return Ranked.of(self.scores, self.outcomes, self.table.weight)

    def ranked_by_odds(self) -> Ranked:
        """Log-odds of class 1 of two in order, with outcomes."""
        t = self.table
        assert t.log_odds is not None
        return Ranked.of(t.log_odds, (t.y == 1).astype(np.float64), t.weight, least=1.0)

    @cached_property
    def discrete(self) -> FloatArray | None:
        """Edges midway between the distinct scores, when there are at most n/4 of them.

        The output of a binning method is then binned by its own values.
        (verified_calibration switches likewise.)
        """
        return edges_of_values(self.scores)

    @made_once
    def edges(self, scheme: str) -> FloatArray:
        """Edges of the bins: ``width``, ``mass`` or ``values``."""
        if scheme == "values":
            assert self.discrete is not None
            return self.discrete
        return edges_of(scheme, self.scores, self.settings.bins, self.table.weight)

    @made_once
    def bins(self, scheme: str) -> BinStats:
        """Sums of scores and outcomes over bins."""
        return BinStats.of(
            self.scores, self.outcomes, self.edges(scheme), self.table.weight
        )

    def bins_used(self, scheme: str) -> int:
        """Bins that hold rows."""
        return int((self.bins(scheme).count > 0).sum())

    def foreign(self, scheme: str) -> Convention | None:
        """Binning of another program that replaces our width bins, if one is requested."""
        if scheme != "width" or self.settings.compat is None:
            return None
        return CONVENTIONS.get(self.settings.compat)

    @made_once
    def laws(self, scheme: str) -> Laws | None:
        """Laws of the bins' successes under calibration; None with weights or units."""
        if not self.has_plain_rows:
            return None
        contexts: Sequence[MetricContext] = self.neighbours or [self]
        if scheme == "values":
            contexts = [one for one in contexts if one.discrete is not None]
        binned = [(one.scores, one.edges(scheme)) for one in contexts]
        for one, laws in zip(contexts, bin_laws(binned), strict=True):
            one.keep((MetricContext.laws, scheme), laws)
        return cast(Laws, self._cache[MetricContext.laws, scheme])

    @made_once
    def expected(self, scheme: str) -> float:
        """Expected ECE (norm 1) under calibration."""
        return expected_error(
            self.scores, self.edges(scheme), self.table.weight, self.laws(scheme)
        )

    @made_once
    def null_outcomes(self, scheme: str) -> FloatArray:
        """Sums of outcomes per bin under calibration, (resamples, bins)."""
        s = self.settings
        known = self.table.null_outcomes
        key = (scheme, s.label, s.bins, s.resamples, s.seed)
        if key in known:
            return known[key]
        edges = self.edges(scheme)
        weight = self.table.weight
        if self.shared is not None:
            index = bin_index(self.scores, edges)
            outcomes = self.shared.by_bin(index, len(edges) - 1, weight)
        else:
            rng = self.rng("hits:" + scheme)
            laws = self.laws(scheme)
            outcomes = bin_outcomes(self.scores, edges, s.resamples, rng, weight, laws)
        known[key] = outcomes
        return outcomes

    @property
    def heavy_resamples(self) -> int:
        """Resamples for expensive estimators."""
        return min(self.settings.resamples, self.heavy)

    def drawn_finer(self, heavy: int) -> "MetricContext":
        """Context of the same rows with more draws for expensive estimators."""
        finer = copy(self)
        finer.heavy = heavy
        finer._cache = {}
        return finer

    @property
    def heavy_draws(self) -> int:
        """Draws of outcomes for expensive estimators."""
        if self.shared is None:
            return self.heavy_resamples
        return min(self.heavy_resamples - 1, len(self.shared))

    def null_of(
        self, observed: float, draws: FloatArray, mean: float | None = None
    ) -> Null:
        """``nulls.null_of``, with its method for rows in units."""
        null = null_of(observed, draws, mean)
        if self.table.units is None:
            return null
        return replace(null, method=SHARED_LUCK)

    # ---- classes

    def each_class(
        self, raw: bool = False
    ) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Iterate over class, its probabilities (n,), is it the label (n,).

        raw : its own value instead. Raises Undefined where only the row table is at
        hand.
        """
        columns = self.columns
        what = "probabilities"
        if raw:
            columns = self.raw_columns
            what = "values"
        if columns is None:
            raise Undefined(
                f"needs the {what} of every class, which are not at hand here"
            )
        for c, p in columns():
            yield c, p, (self.table.y == c).astype(np.float64)

    def class_bins(self, scheme: str) -> Iterator[BinStats]:
        """Bin sums of every class against "this is the label", from the probabilities
        themselves. By ``values`` they end at the first class that takes more than n/4
        of them.
        """
        bins = self.settings.bins
        weight = self.table.weight
        other = self.foreign(scheme)
        for _, p, outcome in self.each_class():
            if other is not None:
                yield other.binned(p, outcome, bins, weight)
                continue
            edges: FloatArray | None
            if scheme == "values":
                edges = edges_of_values(p)
            else:
                edges = edges_of(scheme, p, bins, weight)
            if edges is None:
                return
            yield BinStats.of(p, outcome, edges, weight)


def edges_of(
    scheme: str, scores: FloatArray, bins: int, weight: FloatArray | None
) -> FloatArray:
    """Edges of bins of equal ``width`` or ``mass``."""
    if scheme == "width":
        return width_edges(bins)
    return mass_edges(scores, bins, weight)


def edges_of_values(scores: FloatArray) -> FloatArray | None:
    """Edges of [0, 1] midway between the distinct scores, None where more than n/4 of
    them differ.
    """
    ordered = np.sort(scores)
    first = starts_of_ties(ordered)
    if len(first) > len(scores) / 4:
        return None
    return np.concatenate(
        [[0.0], 0.5 * (ordered[first[1:] - 1] + ordered[first[1:]]), [1.0]]
    )
