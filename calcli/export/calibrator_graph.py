"""From a fitted calibrator to the graph of its ``apply``: each family registers how."""

import math
from dataclasses import replace
from functools import singledispatch

from calcli.calibrator import Calibrator
from calcli.composition import Composition
from calcli.errors import UsageError
from calcli.export.functions import is_class, log_add, mixed_with_uniform, row_argmax, row_max, where
from calcli.export.graph import GraphValue
from calcli.fast_dataclass import dataclass
from calcli.mixture import Mixture


@dataclass(frozen=True)
class Traced:
    """Rows on their way. z : logits (rows, k), or log-probabilities. label : the prediction so far, (rows, 1)."""

    z: GraphValue
    label: GraphValue
    k: int


@singledispatch
def lower(calibrator: Calibrator, x: Traced) -> Traced:
    """Log-probabilities and prediction of traced rows, as ``calibrator.apply`` gives them.

    Raises UsageError for what no graph can hold.
    """
    raise UsageError(f"{type(calibrator).__name__} cannot be exported: nobody has said how its map is computed")


@lower.register
def composition(calibrator: Composition, x: Traced) -> Traced:
    for i, stage in enumerate(calibrator.stages):
        x = lower(stage.calibrator, settled(x) if i else x)
    return x


@lower.register
def mixture(calibrator: Mixture, x: Traced) -> Traced:
    first, *others = [lower(m.calibrator, x).z + math.log(m.weight) for m in calibrator.members]
    for part in others:
        first = log_add(first, part)
    log_p = mixed_with_uniform(first, calibrator.uniform, x.k)
    return replace(x, z=log_p, label=x.label if calibrator.keeps_argmax else row_argmax(log_p))


def settled(x: Traced) -> Traced:
    """Log-probabilities whose argmax is the prediction (``composition.settled``)."""
    top = row_max(x.z)
    above = top + top.graph.op("abs", top) * 2.3e-16 + 1e-300
    agrees = x.label.graph.op("equal", row_argmax(x.z), x.label)
    return replace(x, z=where(is_class(x.label, x.k), where(agrees, x.z, above), x.z))
