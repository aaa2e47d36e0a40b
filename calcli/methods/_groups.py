"""Base of the methods by group: a map for every group, shrunk towards a common map."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from msgspec import Meta

from calcli.block import Block, Codes
from calcli.calibrator import Calibrator, Context, Fit, Options, Status
from calcli.errors import DataError
from calcli.folds import content_folds
from calcli.methods._partial_pooling import (
    LEAST_VARIANCE,
    GroupSums,
    GroupWalk,
    Pooled,
    pool,
)
from calcli.names import places_of_groups
from calcli.numerics import (
    BoolArray,
    FloatArray,
    IntArray,
    entries,
    floored_log,
    in_column,
    ratio,
)
from calcli.rows import Rows

PREDICTION = "prediction"  # grouping by predicted class, which needs no column
FOLDS = 5
FEWEST_ROWS = 3  # rows of a group from which it can be a runaway
SURPRISING = 1e-4
"""P-value of a group's score, times their number, up to which the map of the others
does not explain it.
"""


class ByOptions(Options, frozen=True):
    by: Annotated[
        str,
        Meta(
            min_length=1,
            description=(
                "column with the group of every row (that of --group-by, if given), or"
                " prediction"
            ),
        ),
    ] = PREDICTION
    tau: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "standard deviation between groups; 0 estimates it (1e3 fits every"
                " group by itself)"
            ),
        ),
    ] = 0.0
    guard: Annotated[
        bool,
        Meta(
            description=(
                "keep the common map unless held-out rows of the calibration data"
                " speak for the groups"
            )
        ),
    ] = True


def groups_of(block: Block, by: str) -> Codes:
    """Groups of a block's rows. Raises DataError if the block lacks the column."""
    if by == PREDICTION:
        return Codes(tuple(map(str, range(block.scores.shape[1]))), block.prediction)
    if by not in block.columns:
        raise DataError(
            f"these rows do not say their {by!r}, by which the calibrator is"
        )
    return block.columns[by]


def places(by: str, names: Sequence[str], block: Block) -> IntArray:
    """Find the index in ``names`` of the group of every row, (b,).

    It is ``len(names)`` for a group that is not among them (see ``places_of_groups``).
    """
    groups = groups_of(block, by)
    known = places_of_groups(tuple(names), tuple(groups.names))
    return entries(groups.code, np.where(known < 0, len(names), known))


class ByGroup(Calibrator):
    """Base of the methods by group: a common map, and every group's difference.

    COMMON, OF_COMMON : name and class of the common map's method. FARTHEST : largest
    deviation of each parameter of a map from the common one. by : the column. groups :
    differences by group name.
    """

    by: str
    groups: Mapping[str, Any]

    composable = False
    Options: ClassVar[type[Options]] = ByOptions
    COMMON: ClassVar[str]
    FARTHEST: ClassVar[FloatArray]
    OF_COMMON: ClassVar[type[Calibrator]]

    @classmethod
    def without_last_digits(cls, common: Any) -> Any:
        """The common map, to digits that the order of the rows leaves alone."""
        return common

    @classmethod
    @abstractmethod
    def around(cls, common: Any, by: str, names: Sequence[str], pooled: Pooled) -> Self:
        """The maps of groups around a common map."""

    @classmethod
    @abstractmethod
    def walk_of(
        cls, rows: Rows, common: Any, codes: Codes
    ) -> Callable[[FloatArray], GroupSums]:
        """Sums over the rows of every group at deviations (g, m) from a common map."""

    @classmethod
    @abstractmethod
    def endless(cls, rows: Rows, common: Any, codes: Codes) -> BoolArray:
        """Find groups whose own best map is infinite, (g,).

        More of the same is always better there.
        """

    @property
    def required_columns(self) -> Mapping[str, Sequence[str]]:
        return {} if self.by == PREDICTION else {self.by: tuple(self.groups)}

    @classmethod
    def columns_to_fit(cls, options: ByOptions) -> Sequence[str]:
        return () if options.by == PREDICTION else (options.by,)

    @classmethod
    def fit(cls, rows: Rows, options: ByOptions, context: Context) -> Fit[Any]:
        plain = cls.OF_COMMON.resolve_options(cls.OF_COMMON.Options(), rows.k)
        common = cls.OF_COMMON.fit(rows, plain, context)
        groups = rows_by_group(rows, options.by)
        names = groups.names

        def keep_common(reason: str, **details: Any) -> Fit[Any]:
            """The common map, with the reason why groups have none of their own."""
            return replace(
                common,
                chosen=(cls.COMMON, plain),
                warnings=(*common.warnings, f"by {options.by}: {reason}"),
                details={**common.details, **details},
            )

        if len(names) < 2:
            return keep_common("there is one group, so the common map is kept")
        runaway = cls.runaway(rows, common, plain, groups, context)
        base = cls.fit_without(rows, common, plain, groups, runaway, context)
        if base.status != "ok":
            return keep_common(f"status {base.status}, so the common map is kept")
        calibrator, pooled = cls.pooled(
            rows, base.calibrator, groups, options, None, runaway
        )
        alike = not options.tau and bool((pooled.variance <= LEAST_VARIANCE).all())
        if alike and not runaway.any():
            return keep_common("the groups do not differ, so the common map is kept")
        details: dict[str, Any] = {"groups": len(names), "passes": pooled.passes}
        if options.guard:
            nll_by_group, nll_common = cls.held_out(
                rows, plain, groups, options, context, pooled, runaway
            )
            details["held_out_nll"] = {"by_group": nll_by_group, "common": nll_common}
            if nll_by_group >= nll_common:
                reason = (
                    f"held-out NLL {nll_by_group:.5f}, of the common map"
                    f" {nll_common:.5f}, which is kept"
                )
                return keep_common(reason, **details)
        warnings = list[str]()
        if runaway.any():
            details["runaway"] = [names[g] for g in np.flatnonzero(runaway)]
            warnings.append(_runaway_words(options.by, details["runaway"]))
        status: Status = "ok"
        if not pooled.converged:
            warnings.append("the search for the groups' maps did not converge")
            status = "not_converged"
        return Fit(calibrator, status, tuple(warnings), details)

    @classmethod
    def pooled(
        cls,
        rows: Rows,
        common: Any,
        codes: Codes,
        by: ByOptions,
        start: Pooled | None,
        runaway: BoolArray,
    ) -> tuple[Self, Pooled]:
        """Fit the groups' maps around a common map; start, runaway : see ``pool``."""
        common = cls.without_last_digits(common)
        sums = cls.walk_of(rows, common, codes)
        walk = GroupWalk(sums, group_factors(rows, codes), runaway, cls.FARTHEST)
        pooled = pool(walk, by.tau, start)
        return cls.around(common, by.by, codes.names, pooled), pooled

    @classmethod
    def runaway(
        cls, rows: Rows, common: Fit[Any], plain: Any, codes: Codes, context: Context
    ) -> BoolArray:
        """Find groups whose best map is infinite and unlike that of the others, (g,).

        A few rows that are all right are ordinary luck. Under the map of the groups
        that have a finite best map, the score of a group that is none is far from 0.
        """
        endless = cls.endless(rows, common.calibrator, codes)
        if not endless.any():
            return endless
        base = cls.fit_without(rows, common, plain, codes, endless, context)
        if base.status != "ok":
            return np.zeros_like(endless)
        walk = cls.walk_of(rows, base.calibrator, codes)
        g = len(codes.names)
        sums = walk(np.zeros((g, len(cls.FARTHEST))))
        inverse = np.linalg.pinv(sums.information)
        square = np.einsum("gi,gij,gj->g", sums.gradient, inverse, sums.gradient)
        least = -NormalDist().inv_cdf(SURPRISING / (2.0 * g))
        rows_of_group = np.bincount(codes.code, minlength=g)
        enough = rows_of_group >= FEWEST_ROWS
        return endless & enough & (square > least**2)

    @classmethod
    def fit_without(
        cls,
        rows: Rows,
        common: Fit[Any],
        plain: Any,
        codes: Codes,
        groups: BoolArray,
        context: Context,
    ) -> Fit[Any]:
        """Fit the common map of all rows but those of some groups.

        Returns the one of all rows where there are no such groups, or no others.
        """
        rest = np.flatnonzero(~groups[codes.code])
        if not groups.any() or len(rest) == 0:
            return common
        fresh = Context(context.seed, context.device, notes=context.notes)
        return cls.OF_COMMON.fit(rows.take(rest), plain, fresh)

    @classmethod
    def held_out(
        cls,
        rows: Rows,
        plain: Any,
        groups: Codes,
        options: ByOptions,
        context: Context,
        start: Pooled,
        runaway: BoolArray,
    ) -> tuple[float, float]:
        """Cross-validate the mean NLL by group and of the common map.

        Folds keep units together. start : result of the fit to all rows.
        """
        losses = np.empty((2, rows.n))
        fold = content_folds(rows, FOLDS, context.seed)
        for f in np.unique(fold):
            context.progress("cross-validating", int(f), FOLDS)
            held_out = np.flatnonzero(fold == f)
            others = np.flatnonzero(fold != f)
            train = rows.take(others)
            train_groups = groups.take(others)
            fresh = Context(context.seed, context.device, notes=context.notes)
            common = cls.OF_COMMON.fit(train, plain, fresh)
            base = cls.fit_without(train, common, plain, train_groups, runaway, context)
            pooled, _ = cls.pooled(
                train, base.calibrator, train_groups, options, start, runaway
            )
            test = rows.take(held_out)
            losses[0, held_out] = _losses(pooled, test)
            losses[1, held_out] = _losses(common.calibrator, test)
        weights = rows.weights()
        nll_by_group = float(np.average(losses[0], weights=weights))
        nll_common = float(np.average(losses[1], weights=weights))
        return nll_by_group, nll_common


def _runaway_words(by: str, names: Sequence[str]) -> str:
    """Warning that names groups whose deviation is bounded."""
    shown = ", ".join(names[:8])
    if len(names) > 8:
        shown += f" and {len(names) - 8} more"
    return (
        f"by {by}: no finite map is best for {shown} (all rows right, or wrong as in no"
        " other group): bounded, and left out of the fit of the other groups"
    )


def group_factors(rows: Rows, codes: Codes) -> FloatArray:
    """Factors that bring each group's weights to its effective number of rows, (g,)."""
    weight = rows.weights()
    if weight is None:
        return np.ones(len(codes.names))
    order = np.lexsort((weight, codes.code))  # rows in any order have the same sums
    code = codes.code[order]
    weight = weight[order]
    total = np.bincount(code, weights=weight, minlength=len(codes.names))
    square = np.bincount(code, weights=weight**2, minlength=len(codes.names))
    return ratio(total, square, otherwise=1.0)


def rows_by_group(rows: Rows, by: str) -> Codes:
    """Groups of the rows that have weight, and the group of every row.

    Rows of other groups have the number of the groups.
    """
    weights = rows.sum(partial(_group_weights, by))
    names = tuple(name for name, weight in weights.items() if weight > 0)
    return Codes(names, np.concatenate(list(rows.each(partial(places, by, names)))))


def _group_weights(by: str, block: Block) -> Counter[str]:
    """Total weight of the rows of every group, by its name."""
    names, code = groups_of(block, by)
    weights = np.bincount(code, weights=block.weight, minlength=len(names))
    return Counter(dict(zip(names, weights.tolist(), strict=True)))


def _losses(calibrator: Calibrator, rows: Rows) -> FloatArray:
    """Compute the NLL of every row through a calibrator, (n,).

    Of confidences it is that of the outcome right or wrong.
    """
    return np.concatenate(list(rows.each(partial(_losses_of, calibrator))))


def _losses_of(calibrator: Calibrator, block: Block) -> FloatArray:
    prediction = calibrator.apply(block)
    if block.kind != "confidence":
        return -in_column(prediction.log_probs, block.labels)
    confidence = prediction.confidence
    q = np.where(block.labels == 1, confidence, 1.0 - confidence)
    return -floored_log(q)
