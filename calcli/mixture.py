"""Weighted means of the probabilities of several fitted calibrators."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calcli.block import Block
from calcli.calibrator import (
    Calibrator,
    Options,
    Prediction,
    check_numbers,
    transforms_read_by,
    with_transforms_of,
)
from calcli.composition import Stage, last_restoring
from calcli.errors import DataError
from calcli.mapped_rows import argmax_at_prediction
from calcli.numerics import FloatArray, mixed_with_uniform


class Member(NamedTuple):
    """One part of a mixture: the method's name, its options, calibrator and weight."""

    method: str
    options: Options
    calibrator: Calibrator
    weight: float


@dataclass(frozen=True)
class Mixture(Calibrator):
    """(1 - uniform) sum_j w_j p_j + uniform / k, the p_j from different calibrators.

    The prediction is the largest entry, or what it was where every member is
    accuracy-preserving. then : stages that follow the average, as in a composition. Of
    confidences the average is of the probability to be right.
    """

    members: tuple[Member, ...]
    uniform: float
    then: tuple[Stage, ...] = ()

    @property
    def members_keep_argmax(self) -> bool:
        """True if every member keeps the prediction and the argmax of the vector."""
        laws = [member.calibrator.laws for member in self.members]
        return all(law.keeps_argmax and law.monotone for law in laws)

    @property
    def keeps_argmax(self) -> bool:
        """True if prediction and argmax of the vector are those of the scores."""
        laws = [stage.calibrator.laws for stage in self.then]
        last = laws[last_restoring(laws) :]
        stages_keep = all(law.keeps_argmax and law.monotone for law in last)
        restored = any(law.restores_argmax for law in laws)
        return stages_keep and (restored or self.members_keep_argmax)

    @property
    def required_transforms(self) -> Sequence[str]:
        return transforms_read_by(member.calibrator for member in self.members)

    def apply(self, block: Block) -> Prediction:
        if block.kind == "confidence":
            return Prediction.of_confidence(self.mean_confidence(block))
        prediction = self.mean(block)
        for stage in self.then:
            block = block.calibrated(argmax_at_prediction(prediction))
            prediction = stage.calibrator.apply(block)
        return prediction

    def mean(self, block: Block) -> Prediction:
        """Weighted mean of the members, without the stages that follow."""
        needed = self.required_transforms
        total: FloatArray | None = None
        for member in self.members:
            here = with_transforms_of(member.calibrator, block, needed)
            part = member.calibrator.apply(here).log_probs + np.log(member.weight)
            total = part if total is None else np.logaddexp(total, part, out=total)
        assert total is not None
        log_p = mixed_with_uniform(total, self.uniform)
        label = block.prediction if self.members_keep_argmax else log_p.argmax(axis=1)
        return Prediction(log_p, label)

    def mean_confidence(self, block: Block) -> FloatArray:
        """Weighted mean of the members' confidences, mixed with one half, (b,)."""
        total = np.zeros(len(block))
        for member in self.members:
            total += member.weight * member.calibrator.apply(block).confidence
        return (1.0 - self.uniform) * total + 0.5 * self.uniform

    def check_own(self, k: int) -> None:
        weights = np.array([member.weight for member in self.members])
        are_positive = len(weights) > 0 and bool(np.all(weights > 0))
        if not are_positive or abs(weights.sum() - 1.0) > 1e-9:
            raise DataError(
                f"weights of the members are {weights.tolist()}, expected positive ones"
                " that sum to 1"
            )
        check_numbers("uniform", self.uniform, "share")
        for member in self.members:
            member.calibrator.check(k)
        for stage in self.then:
            stage.calibrator.check(k)
