"""Weighted means of fitted calibrators: several methods, one set of probabilities."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from calcli.calibrator import Calibrator, Options, Prediction
from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.numerics import mixed_with_uniform
from calcli.rows import Block


class Member(NamedTuple):
    """One part of a mixture: the method's name, its options, the calibrator, its weight."""

    method: str
    options: Options
    calibrator: Calibrator
    weight: float


@dataclass(frozen=True)
class Mixture(Calibrator):
    """(1 - uniform) sum_j w_j p_j + uniform / k, the p_j from different calibrators.

    The prediction is the largest entry, or what it was where every member keeps predictions.
    """

    members: tuple[Member, ...]
    uniform: float

    @property
    def keeps_argmax(self) -> bool:
        """Whether predictions stay as they are: every member keeps them, in the vector as well."""
        return all(m.calibrator.laws.keeps_argmax and m.calibrator.laws.monotone for m in self.members)

    @property
    def required_transforms(self) -> Sequence[str]:
        return list(dict.fromkeys(spec for m in self.members for spec in m.calibrator.required_transforms))

    def apply(self, block: Block) -> Prediction:
        needed = self.required_transforms
        total = None
        for member in self.members:
            here = block
            if block.transformed is not None:
                own = [needed.index(spec) for spec in member.calibrator.required_transforms]
                here = replace(block, transformed=block.transformed[own])
            part = member.calibrator.apply(here).log_probs + np.log(member.weight)
            total = part if total is None else np.logaddexp(total, part, out=total)
        assert total is not None
        log_p = mixed_with_uniform(total, self.uniform)
        return Prediction(log_p, block.prediction if self.keeps_argmax else log_p.argmax(axis=1))

    def check(self, k: int) -> None:
        weights = np.array([member.weight for member in self.members])
        if not (len(weights) and np.all(weights > 0) and abs(weights.sum() - 1.0) <= 1e-9):
            raise DataError(f"weights of the members are {weights.tolist()}, expected positive ones that sum to 1")
        if not 0 <= self.uniform < 1:
            raise DataError(f"uniform is {self.uniform}, expected a share in [0, 1)")
        for member in self.members:
            member.calibrator.check(k)
