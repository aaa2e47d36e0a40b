"""What disturbs Hoki's rows: how often predictions survive it, and which noise at which scale."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from calcli.calibrator import Context
from calcli.errors import UsageError
from calcli.fast_dataclass import dataclass
from calcli.kernels.device import kernels
from calcli.methods._hoki.rounds import Evidence, design, line_of_one_bin, replay
from calcli.numerics import NLL_FLOOR, FloatArray, IntArray
from calcli.rows import Block, Rows

FAMILIES = ("gaussian", "uniform", "gumbel")
PRINTED = {"gaussian": 20, "uniform": 40, "gumbel": 20}
"""Largest scale of the paper's grids of whole numbers (it has no Gumbel noise)."""


@dataclass(frozen=True)
class NoiseChoice:
    """A noise and its scale, the rows' retention probabilities (n,), and what there is to say."""

    noise: str
    scale: float
    gamma: FloatArray
    details: dict[str, Any]
    warnings: tuple[str, ...] = ()
    at_bound: bool = False


def retention(rows: Rows, noise: str, scales: list[float], context: Context, draws: Any = None) -> FloatArray:
    """Retention probability of every row at every scale, (n, scales)."""
    report = lambda done: context.progress("retention probabilities", done, rows.n)  # noqa: E731
    return np.asarray(kernels(context).retention_rates(rows, noise, scales, draws, report))


# ---- transforms of the input


def agreement(block: Block, transforms: int) -> FloatArray:
    """Share of the transforms under which each row's largest logit stays the largest, (b,)."""
    top = block.z.argmax(axis=1)
    kept = sum((block.transformed_z(m).argmax(axis=1) == top).astype(np.float64) for m in range(transforms))
    return np.asarray(kept / transforms)


def survival(rows: Rows, transforms: Sequence[int]) -> FloatArray:
    """``agreement`` of all rows, (n,)."""
    return np.concatenate(list(rows.each(partial(agreement, transforms=len(transforms)), transforms=transforms)))


# ---- choosing the noise


def listed_scales(text: str) -> list[float]:
    """Scales written with commas, ascending. Raises UsageError for anything else."""
    try:
        found = sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        found = [np.nan]
    if not all(1e-9 <= scale <= 1e9 for scale in found):
        raise UsageError(f"option scales={text!r}: expected numbers from 1e-9 to 1e+09 with commas, e.g. scales=1,2,4")
    return found


def searched_families(options: Any) -> tuple[str, ...]:
    """The families to search, in the order of FAMILIES. Raises UsageError for a name that is none of them."""
    if options.noise != "auto":
        return (options.noise,)
    asked = {part.strip() for part in options.families.split(",")}
    if not asked <= set(FAMILIES):
        raise UsageError(f"option families={options.families!r}: expected some of {','.join(FAMILIES)}, with commas")
    return tuple(family for family in FAMILIES if family in asked)


def grid(rows: Rows, options: Any, context: Context, counted: IntArray, family: str) -> list[float]:
    """The scales to search in a family, ascending."""
    if options.scale is not None:
        return [options.scale]
    if options.scales:
        return listed_scales(options.scales)
    if options.grid == "printed":
        return [float(scale) for scale in range(1, PRINTED[family] + 1)]
    gaps = kernels(context).runner_up_gaps(rows)[counted]
    unit = float(np.median(gaps)) or float(gaps.mean()) or 1.0
    return [unit * 2.0 ** (i / 2) for i in range(-6, 7)]


def choose_noise(rows: Rows, options: Any, context: Context, counted: IntArray, base: Evidence) -> NoiseChoice:
    """The family and scale with the best criterion; of equal ones the family named first, then the least scale."""
    families = searched_families(options)
    if len(families) == 1 and options.scale is not None:
        gamma = np.empty(len(counted))
        if options.gamma == "exact":
            gamma = retention(rows, families[0], [options.scale], context)[counted, 0]
        return NoiseChoice(families[0], options.scale, gamma, {})
    folds = two_folds(base.hit, context.seed)
    found: list[tuple[float, NoiseChoice]] = []
    for family in families:
        scales = grid(rows, options, context, counted, family)
        gammas = retention(rows, family, scales, context)[counted]
        evidences = [Evidence(g, base.hit, base.weight, base.start) for g in gammas.T]
        if options.select == "sd":
            values = [one_bin_sd(e) for e in evidences]
            best = int(np.argmax(values))
        else:
            values = [cross_validated_nll(e, folds, options) for e in evidences]
            best = int(np.argmin(values))
        details = {"scales": scales, "select": options.select, "criterion": values}
        at_end = len(scales) > 1 and np.ptp(values) > 0 and best in (0, len(scales) - 1)
        warning = (
            f"the best scale {scales[best]:.4g} is the {'smallest' if best == 0 else 'largest'} of those searched;"
            " set scale= or scales= to look beyond"
        )
        told = (warning,) if at_end else ()
        found.append((values[best], NoiseChoice(family, scales[best], gammas[:, best], details, told, bool(at_end))))
    if len(found) > 1:
        for _, choice in found:
            choice.details["families"] = {other.noise: value for value, other in found}
    return (max if options.select == "sd" else min)(found, key=lambda pair: pair[0])[1]


def one_bin_sd(evidence: Evidence) -> float:
    """Standard deviation of the confidence when there is one bin, \\|alpha - beta\\| sd(gamma)."""
    alpha, beta = line_of_one_bin(evidence)
    return abs(alpha - beta) * spread(evidence)


def spread(evidence: Evidence) -> float:
    """Standard deviation of the retention probabilities."""
    share = evidence.weight / evidence.weight.sum()
    return float(np.sqrt(share @ (evidence.gamma - share @ evidence.gamma) ** 2))


def two_folds(hit: FloatArray, seed: int) -> tuple[IntArray, IntArray]:
    """Rows split in halves, right and wrong ones alike."""
    rng = np.random.default_rng(seed)
    groups = [rng.permutation(np.flatnonzero(hit == outcome)) for outcome in (0.0, 1.0)]
    return tuple(np.sort(np.concatenate([g[i::2] for g in groups])) for i in (0, 1))  # type: ignore[return-value]


def cross_validated_nll(evidence: Evidence, folds: tuple[IntArray, IntArray], options: Any) -> float:
    """Mean NLL of right/wrong, each half under the design of the other.

    The rest of a row's vector keeps its proportions, so the NLL of the label differs from
    this by a number that does not depend on the scale.
    """
    total = 0.0
    for here, there in (folds, folds[::-1]):
        if not len(here) or not len(there):
            continue
        past, new = evidence.part(there), evidence.part(here)
        if options.init == "accuracy":
            new = Evidence(new.gamma, new.hit, new.weight, np.full(len(here), past.accuracy))
            past = Evidence(past.gamma, past.hit, past.weight, np.full(len(there), past.accuracy))
        found = design(past, options.bins, options.rounds)
        q = replay(new.start, new.gamma, found.alpha, found.beta)
        p_outcome = np.where(new.hit > 0, q, 1.0 - q)
        total -= float(new.weight @ np.log(np.maximum(p_outcome, NLL_FLOOR)))
    return total / float(evidence.weight.sum())
