"""The judgement beside the metrics, as objects: what was evaluated, how it is off, and what would mend it."""

from dataclasses import asdict
from typing import Any

from calcli.fast_dataclass import dataclass
from calcli.metrics.significance import MeanGap


@dataclass(frozen=True)
class LossPart:
    """loss = refinement + calibration; se of the calibration part from paired differences."""

    loss: float
    refinement: float
    calibration: float
    se: float

    @property
    def z(self) -> float:
        """Standard score of the calibration part; 0 where it has no spread."""
        return self.calibration / self.se if self.se > 0 else 0.0

    def to_dict(self) -> dict[str, float]:
        return {
            "value": self.loss,
            "refinement": self.refinement,
            "calibration": self.calibration,
            "calibration_se": self.se,
            "calibration_share": self.calibration / self.loss if self.loss > 0 else 0.0,
        }


@dataclass(frozen=True)
class Split:
    """The split by one recalibration method, and what a temperature alone would remove of the NLL."""

    method: str
    folds: int
    nll: LossPart
    brier: LossPart
    temperature_nll: LossPart

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "folds": self.folds,
            "nll": self.nll.to_dict(),
            "brier": self.brier.to_dict(),
            "temperature": {"nll": self.temperature_nll.to_dict()},
        }


@dataclass(frozen=True)
class DataSummary:
    """What was evaluated: rows, classes, class balance, distinct confidences.

    Of confidences alone there are no classes: None, and neither are their shares. class_1 : name of
    class 1 of two, where the classes have names.
    """

    n: int
    n_classes: int | None
    kind: str
    weighted: bool
    largest_class_share: float | None
    smallest_class_share: float | None
    absent_classes: int
    distinct_confidences: int
    class_1: str | None = None


@dataclass(frozen=True)
class Direction:
    """Mean confidence minus accuracy and NLL minus entropy, each with its z; in words what of it is beyond chance."""

    gap: float
    gap_z: float
    entropy_gap: float
    entropy_z: float
    words: str


@dataclass(frozen=True)
class Classwise:
    """Calibration class by class: debiased L2 error, and the classes whose total probability is off.

    p_value : that no class is off, all classes considered.
    """

    value: float | None
    signed_square: float
    p_value: float
    n_significant: int
    significant_classes: tuple[int, ...]


@dataclass(frozen=True)
class Groupwise:
    """Calibration group by group: how many are off on average, and the worst, by significance.

    p_value : that no group is off, all groups considered. of_positive : is the worst gap that of P(class 1)?
    """

    n_groups: int
    n_significant: int
    worst: str
    worst_n: int
    worst_gap: float
    p_value: float
    of_positive: bool = False


@dataclass(frozen=True)
class Report:
    """The judgement beside the metrics. verdict : one sentence.

    p_value : of the joint test of the confidence. p_overall : of the whole verdict, its clauses
    on classes, groups and the split included; both are significant from 0.05 down. positive : of two
    classes, mean P(class 1) minus the share of class 1. findings : what the verdict found off:
    ``confidence``, ``classes``, ``groups``, ``split``.
    """

    data: DataSummary
    direction: Direction
    classwise: Classwise | None
    split: Split | None
    verdict: str
    p_value: float = 1.0
    p_overall: float = 1.0
    groups: Groupwise | None = None
    positive: MeanGap | None = None
    findings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        classwise = None
        if self.classwise is not None:
            classwise = asdict(self.classwise) | {"significant_classes": list(self.classwise.significant_classes)}
        return {
            "data": asdict(self.data),
            "direction": asdict(self.direction),
            "classwise": classwise,
            "split": None if self.split is None else self.split.to_dict(),
            "groups": None if self.groups is None else asdict(self.groups),
            "positive": None if (p := self.positive) is None else {"gap": p.gap, "z": p.z, "p_value": p.p_value},
            "findings": list(self.findings),
            "verdict": self.verdict,
            "p_value": self.p_value,
            "p_overall": self.p_overall,
        }
