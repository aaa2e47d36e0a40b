"""Decide from facts what is significant, and which kind of verdict that is."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from calcli.evaluation.facts import ClassFindings, Facts, GroupFindings
from calcli.evaluation.levels import FEW_ERRORS, LEVEL, PARTS, TEST_LEVELS, WIDE
from calcli.metrics.confidence_bins import ConfidenceBin
from calcli.metrics.joint_test import JointTest
from calcli.metrics.losses import FEW
from calcli.statistics.intervals import normal_quantile, normal_tail
from calcli.statistics.shared_luck import FEWEST_UNITS

VerdictKind = Literal[
    "calibrated", "overconfident", "underconfident", "mixed", "too_few", "check_labels"
]

TWO_SIDED = normal_quantile(0.975)
"""Standard score from which a gap is significant, two-sided at 5 %."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of all tests together: what is significant, and the kind of verdict.

    p_value : of the joint test. p_overall : of all tests, adjusted to ``LEVEL``.
    significant : names of the tests that reject, of ``PARTS``.
    """

    kind: VerdictKind
    significant: tuple[str, ...]
    p_value: float
    p_overall: float


@dataclass(frozen=True)
class Verdict:
    """Verdict on one set of rows.

    kind, significant, p_value, p_overall : as in ``Outcome``; up to the error of the
    fit where one is known. exact : what tests that know nothing of a fit find. gates :
    p-value that a class, group or bin must pass before it alone is called significant,
    by part. bins, classes, groups : those of the facts with their final significance.
    by_nll_only : is the direction that of the NLL, with a mean gap that is not
    significant? draws : behind the p-value of the joint test; 0 where there are too few
    rows.
    """

    kind: VerdictKind
    significant: tuple[str, ...]
    p_value: float
    p_overall: float
    exact: Outcome
    gates: Mapping[str, float]
    bins: tuple[ConfidenceBin, ...]
    classes: ClassFindings | None
    groups: GroupFindings | None
    by_nll_only: bool
    draws: float

    @property
    def has_findings(self) -> bool:
        """True if some part is significantly miscalibrated."""
        return bool(self.significant)

    @property
    def is_limited_by_fit(self) -> bool:
        """True if only the exact test, which knows nothing of the fit, rejects."""
        is_calibrated = self.kind in ("calibrated", "too_few")
        return is_calibrated and self.exact.kind not in ("calibrated", "too_few")


TOO_FEW = Outcome("too_few", (), 1.0, 1.0)
"""Where nothing is tested."""


def judge(facts: Facts) -> Verdict:
    """Judge one set of rows.

    Calibrated rows get the verdict ``calibrated`` with probability about 95 %: each
    test has its level in ``TEST_LEVELS``. Fewer than ``FEW`` rows, or ``FEWEST_UNITS``
    units, have no findings. Without a finding the verdict is ``calibrated`` if the gap
    is known to within ``WIDE``, else ``too_few``. So it is where cross-fitting finds
    overconfidence with ``FEW_ERRORS`` or fewer.
    """
    p_values = _part_p_values(facts, facts.judged)
    outcome = _outcome(facts, facts.judged, p_values)
    too_few_to_test = has_too_few_rows(facts) or outcome is TOO_FEW
    exact = outcome
    if facts.fit is not None:
        of_judged = _part_p_values(facts, facts.test)
        exact = _outcome(facts, facts.test, {**of_judged, **facts.exact_p_values})
    gates = dict.fromkeys(PARTS, 1.0)
    if not too_few_to_test:
        gates = {part: _gate(outcome.p_value, part, p_values[part]) for part in PARTS}
    draws = 0.0
    if not too_few_to_test:
        at_level = TEST_LEVELS["confidence"] / LEVEL
        draws = (facts.judged.draws + 1) * at_level - 1
    return Verdict(
        kind=outcome.kind,
        significant=outcome.significant,
        p_value=outcome.p_value,
        p_overall=min(gates.values()),
        exact=exact,
        gates=gates,
        bins=_gated_bins(facts.bins, gates["bins"]),
        classes=_gated_classes(facts.classes, gates["classes"]),
        groups=_gated_groups(facts.groups, gates["groups"]),
        by_nll_only=_is_by_nll_only(facts, outcome),
        draws=draws,
    )


def has_too_few_rows(facts: Facts) -> bool:
    """True if there are too few rows, or units, for any test."""
    units = facts.data.units
    if units is not None and units < FEWEST_UNITS:
        return True
    return facts.data.independent_rows < FEW


def has_few_errors(facts: Facts) -> bool:
    """True if cross-fitting is known to blame a calibrator for the luck of its folds."""
    is_cross_fitted = facts.fit is not None and facts.fit.n_folds > 0
    return is_cross_fitted and round(facts.rarer_outcomes) <= FEW_ERRORS


def gap_half_width(facts: Facts) -> float:
    """Half width of the interval of the judged gap; infinite where unknown."""
    interval = facts.main_gap.interval
    if not interval.known:
        return float("inf")
    return (interval.high - interval.low) / 2.0


# ---- the tests


def _part_p_values(facts: Facts, test: JointTest) -> dict[str, float]:
    """P-value of every part, 1 where it is not tested."""
    p_values = dict.fromkeys(PARTS, 1.0)
    p_values["confidence"] = test.p_value
    if facts.classes is not None and not test.positive:
        p_values["classes"] = facts.classes.p_value
    if facts.groups is not None:
        p_values["groups"] = facts.groups.p_value
    if facts.bins:
        p_values["bins"] = min(one.p_adjusted for one in facts.bins)
    if facts.decomposition is not None:
        p_values["split"] = normal_tail(facts.decomposition.nll.z)
    if facts.errors:
        p_values["errors"] = min(facts.errors.values())
    return p_values


def _outcome(facts: Facts, test: JointTest, p_values: Mapping[str, float]) -> Outcome:
    """What the tests find, and the kind of verdict."""
    if has_too_few_rows(facts):
        return replace(TOO_FEW, kind="check_labels") if facts.doubts else TOO_FEW
    significant = tuple(part for part in PARTS if p_values[part] <= TEST_LEVELS[part])
    kind = _kind(facts, test, significant)
    is_luck = kind in ("overconfident", "mixed") or test.positive
    if significant and is_luck and has_few_errors(facts):
        return TOO_FEW
    p_value = min(1.0, p_values["confidence"] * LEVEL / TEST_LEVELS["confidence"])
    gates = [_gate(p_value, part, p_values[part]) for part in PARTS]
    return Outcome(
        kind=kind,
        significant=significant,
        p_value=p_value,
        p_overall=min(gates),
    )


def _gate(joint_p: float, part: str, p: float) -> float:
    """P-value that parts of a kind must pass: of the joint test or of their own."""
    return min(joint_p, p * LEVEL / TEST_LEVELS[part])


def _gated_bins(
    bins: tuple[ConfidenceBin, ...], gate: float
) -> tuple[ConfidenceBin, ...]:
    gated = []
    for one in bins:
        p_adjusted = max(one.p_adjusted, gate)
        significant = p_adjusted <= LEVEL
        gated.append(replace(one, p_adjusted=p_adjusted, significant=significant))
    return tuple(gated)


def _gated_classes(classes: ClassFindings | None, gate: float) -> ClassFindings | None:
    if classes is None:
        return None
    p_value = max(classes.p_value, gate)
    significant = classes.significant if p_value <= LEVEL else ()
    return replace(classes, p_value=p_value, significant=significant)


def _gated_groups(groups: GroupFindings | None, gate: float) -> GroupFindings | None:
    if groups is None:
        return None
    p_value = max(groups.p_value, gate)
    n_significant = groups.n_significant if p_value <= LEVEL else 0
    return replace(groups, p_value=p_value, n_significant=n_significant)


# ---- the kind


def _kind(facts: Facts, test: JointTest, significant: tuple[str, ...]) -> VerdictKind:
    if facts.doubts or facts.too_good:
        return "check_labels"
    if not significant:
        return "too_few" if gap_half_width(facts) > WIDE else "calibrated"
    if "confidence" not in significant:
        return "mixed"
    direction = _direction(facts, test)
    if direction == 0:
        return "mixed"
    return "overconfident" if direction > 0 else "underconfident"


def _direction(facts: Facts, test: JointTest) -> int:
    """Direction of the miscalibration: 1 over-, -1 underconfident, 0 neither.

    The mean gap decides where it is significant, else the sharpness. For P(class 1)
    the sharpness (the slope) decides first, as its mean gap is a bias that can make a
    model over- or underconfident. Where both are significant and contradict each
    other, neither is the direction.
    """
    gap = _sign(_confidence_gap_z(facts))
    if not test.positive:
        return gap or _sign(test.sharpness.z)
    sharpness = spread_sign(facts, test)
    if gap * sharpness < 0:
        return 0
    return sharpness or gap


def spread_sign(facts: Facts, test: JointTest) -> int:
    """1 where P(class 1) is significantly too extreme, -1 too moderate, 0 neither.

    The score test of the slope holds near calibration only: far from it the interval
    of the slope, where there is one, must agree.
    """
    sign = _sign(test.sharpness.z)
    slope = None if facts.class_one is None else facts.class_one.slope
    if slope is None or not slope.interval.known:
        return sign
    if sign > 0 and not slope.interval.high < 1.0:
        return 0
    if sign < 0 and not slope.interval.low > 1.0:
        return 0
    return sign


def _confidence_gap_z(facts: Facts) -> float:
    """Z of the overconfidence, 0 where its interval contains 0."""
    if not facts.overconfidence.is_significant:
        return 0.0
    return facts.gap_z


def _sign(z: float) -> int:
    if abs(z) <= TWO_SIDED:
        return 0
    return 1 if z > 0.0 else -1


def _is_by_nll_only(facts: Facts, outcome: Outcome) -> bool:
    """True if only the NLL, not the mean gap, shows the direction."""
    if outcome.kind not in ("overconfident", "underconfident"):
        return False
    return not facts.is_about_class_one and _confidence_gap_z(facts) == 0.0
