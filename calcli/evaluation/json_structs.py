"""The JSON of ``calcli evaluate`` as structs, of which its schema is made."""

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from calcli.output import Ends, Number, OpenEnds, Output, with_more
from calcli.records import JsonObject


class Verdict(Output, kw_only=True):
    """Kind and p-value of a verdict."""

    kind: str
    p_value: Number


class Data(Output, kw_only=True):
    """The evaluated rows. n_classes is null for confidences without classes."""

    n: int
    n_classes: int | None
    kind: str
    weighted: bool
    largest_class_share: Number
    smallest_class_share: Number
    absent_classes: int
    distinct_confidences: int
    class_1: str | None


class Direction(Output, kw_only=True):
    """Mean confidence minus accuracy, and NLL minus entropy, each with its z."""

    gap: Number
    gap_z: Number
    entropy_gap: Number
    entropy_z: Number


class Classwise(Output, kw_only=True):
    """Calibration class by class; significant_classes holds the clearest twenty."""

    value: Number
    signed_square: Number
    p_value: Number
    n_significant: int
    significant_classes: list[int]


class Groups(Output, kw_only=True):
    """Calibration group by group, and the group with the clearest gap.

    worst_predicted and worst_observed are mean P(class 1) and frequency of class 1
    where of_positive, else mean confidence and accuracy.
    """

    n_groups: int
    n_significant: int
    worst: str
    worst_n: int
    worst_gap: Number
    worst_predicted: Number
    worst_observed: Number
    p_value: Number
    of_positive: bool


class Gap(Output, kw_only=True):
    """A mean gap with its interval; without one, ci is null and ci_reason says why."""

    value: Number
    ci: Ends | None
    ci_level: float | UnsetType = UNSET
    ci_method: str | UnsetType = UNSET
    ci_reason: str | UnsetType = UNSET


class Positive(Output, kw_only=True):
    """Mean P(class 1) minus the frequency of class 1, and the logistic slope."""

    predicted: Number
    observed: Number
    gap: Number
    z: Number
    p_value: Number
    slope: Number
    ci: Ends | None
    ci_level: float | UnsetType = UNSET
    ci_method: str | UnsetType = UNSET
    ci_reason: str | UnsetType = UNSET


class Part(Output, kw_only=True):
    """A loss: value = refinement + calibration."""

    value: Number
    refinement: Number
    calibration: Number
    calibration_se: Number
    calibration_share: Number


class Temperature(Output, kw_only=True):
    """Decomposition of the NLL by temperature scaling alone."""

    nll: Part


class Split(Output, kw_only=True):
    """Cross-fitted decompositions of the losses."""

    method: str
    folds: int
    nll: Part
    brier: Part
    temperature: Temperature


class Bin(Output, kw_only=True):
    """Rows whose confidence lies in (low, high]."""

    low: float
    high: float
    n: int
    confidence: Number
    accuracy: Number
    accuracy_low: Number
    accuracy_high: Number
    p_adjusted: Number
    significant: bool


class Message(Output, kw_only=True):
    """A finding: its kind and its sentence. Most have numbers of their own, too."""

    kind: str
    text: str


MessageObject = Annotated[JsonObject, with_more(Message)]
"""A finding: the keys of ``Message``, then the numbers of its kind by name."""


class Report(Output, kw_only=True):
    """Verdict on one set of rows, and its evidence.

    verdict is the headline, messages are the findings as objects with kind, text and
    their numbers, findings the names of the tests that reject, next one command to
    run, recommended the title of the evaluated calibrator to apply. p_value is that of
    the joint test, p_overall that of all tests. exact : the tests that know nothing of
    the error of a fit.
    """

    data: Data
    verdict: str
    verdict_kind: str
    messages: list[MessageObject]
    next: str | None
    recommended: str | None
    exact: Verdict
    overconfidence: Gap
    direction: Direction
    positive: Positive | None
    classwise: Classwise | None
    groups: Groups | None
    split: Split | None
    bins: list[Bin]
    findings: list[str]
    rows_needed: int
    tested: str
    p_value: Number
    p_overall: Number


class ScoreOutput(Output, kw_only=True):
    """One metric. Some metrics have further keys of their own, numbers or words."""

    value: Number
    signature: str
    reason: str | UnsetType = UNSET
    se: Number | UnsetType = UNSET
    ci: OpenEnds | UnsetType | None = UNSET
    ci_level: float | UnsetType = UNSET
    ci_method: str | UnsetType = UNSET
    ci_reason: str | UnsetType = UNSET
    null_mean: Number | UnsetType = UNSET
    null_q95: Number | UnsetType = UNSET
    null_method: str | UnsetType = UNSET
    p_value: Number | UnsetType = UNSET


ScoreObject = Annotated[JsonObject, with_more(ScoreOutput)]
"""One metric: the keys of ``ScoreOutput``, then the metric's own by name."""


class DifferenceOutput(Output, kw_only=True):
    """Paired difference of a metric, calibrator minus baseline."""

    value: Number
    se: Number
    ci: Ends | UnsetType | None = UNSET
    ci_level: float | UnsetType = UNSET
    ci_method: str | UnsetType = UNSET
    ci_reason: str | UnsetType = UNSET
    p_value: Number | UnsetType = UNSET
    become_right: int | UnsetType = UNSET
    become_wrong: int | UnsetType = UNSET


class PairedOutput(Output, kw_only=True):
    """Paired differences; baseline is null for the uncalibrated scores."""

    baseline: str | None
    differences: dict[str, DifferenceOutput]


class ClassOutput(Output, kw_only=True):
    """One class: p_adjusted is adjusted for all classes and the verdict."""

    index: int = msgspec.field(name="class")
    name: str | None
    n: int
    predicted: int
    share: Number
    mean_probability: Number
    gap: Number
    p_value: Number
    p_adjusted: Number
    significant: bool
    precision: Number
    recall: Number
    ece: Number


class GroupOutput(Output, kw_only=True):
    """One group of rows: gap = predicted - observed.

    These are mean P(class 1) and frequency of class 1 where of_positive, else mean
    confidence and accuracy. margin : a group of one column where there are several.
    """

    group: str | int | float | bool | None
    n: int
    gap: Number
    of_positive: bool
    p_value: Number
    p_adjusted: Number
    significant: bool
    predicted: Number
    observed: Number
    margin: bool
    metrics: dict[str, ScoreObject]
    ci: Ends | None
    ci_level: float | UnsetType = UNSET
    ci_method: str | UnsetType = UNSET
    ci_reason: str | UnsetType = UNSET


class UnitsOutput(Output, kw_only=True):
    """Units of the rows; the name alone where rows are declared independent."""

    name: str
    n: int | UnsetType = UNSET
    largest: int | UnsetType = UNSET
    design_effect: Number | UnsetType = UNSET
    effective_rows: Number | UnsetType = UNSET
    luck: Number | UnsetType = UNSET
    wrong_units: Number | UnsetType = UNSET


class ResultOutput(Output, kw_only=True):
    """One bundle with one calibrator; calibrator is null for the scores as given."""

    bundle: str
    calibrator: str | None
    method: str
    n: int
    n_classes: int | None
    metrics: dict[str, ScoreObject]
    warnings: list[str]
    paired: PairedOutput | UnsetType = UNSET
    counts: dict[str, int] | UnsetType = UNSET
    report: Report | UnsetType = UNSET
    per_class: list[ClassOutput] | UnsetType = UNSET
    per_group: list[GroupOutput] | UnsetType = UNSET
    units: UnitsOutput | UnsetType = UNSET
    cross_fitted_folds: int | UnsetType = UNSET


class FriedmanOutput(Output, kw_only=True):
    """Average ranks by one metric, and the Friedman test that all are alike."""

    ranks: list[float]
    chi2: Number
    p_value: Number
    iman_davenport_f: Number
    iman_davenport_p_value: Number


class RanksOutput(Output, kw_only=True):
    """Average ranks of the calibrators over bundles, by metric; 1 is best."""

    calibrators: list[str]
    n_bundles: int
    metrics: dict[str, FriedmanOutput]


class LimitOutput(Output, kw_only=True):
    """Outcome of one limit on one result; value is the kind of verdict for --fail-on.

    group : absent where the limit is on all rows.
    """

    limit: str
    bundle: str
    calibrator: str | None
    group: str | int | float | bool | UnsetType = UNSET
    value: float | str | None
    crossed: bool
    reason: str | UnsetType = UNSET
    false_alarm: float | UnsetType = UNSET
    null_q95: float | UnsetType = UNSET


class EvaluationOutput(Output, kw_only=True):
    """The whole object."""

    calcli_evaluation: int
    results: list[ResultOutput]
    ranks: RanksOutput | UnsetType = UNSET
    limits: list[LimitOutput] | UnsetType = UNSET
