"""From a fitted calibrator to the graph of its ``apply``, which is run on traced values; few methods need more."""

from functools import singledispatch

import numpy as np

from calcli.calibrator import Calibrator, Prediction
from calcli.composition import Composition, settled
from calcli.mixture import Mixture
from calcli.numerics import mixed_with_uniform
from calcli.rows import Block


@singledispatch
def lower(calibrator: Calibrator, block: Block) -> Prediction:
    """Log-probabilities and prediction of traced rows. Raises UsageError for what no graph can hold."""
    return calibrator.apply(block)


@lower.register
def composition(calibrator: Composition, block: Block) -> Prediction:
    first, *others = (stage.calibrator for stage in calibrator.stages)
    done = lower(first, block)
    for stage in others:
        done = lower(stage, block.calibrated(settled(done)))
    return done


@lower.register
def mixture(calibrator: Mixture, block: Block) -> Prediction:
    first, *others = [lower(m.calibrator, block).log_probs + np.log(m.weight) for m in calibrator.members]
    for part in others:
        first = np.logaddexp(first, part)
    log_p = mixed_with_uniform(first, calibrator.uniform)
    return Prediction(log_p, block.prediction if calibrator.keeps_argmax else log_p.argmax(axis=1))
