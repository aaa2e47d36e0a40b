"""Hoki's fixed-point rounds: lines in the retention probability, one per bin of confidence."""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Literal

import numpy as np

from calcli.binning import bin_index, width_edges
from calcli.calibrator import Context
from calcli.errors import FitError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.folds import unit_folds
from calcli.kernels.device import kernels
from calcli.kernels.numpy import runner_up_gaps
from calcli.numerics import NLL_FLOOR, FloatArray, IntArray
from calcli.rows import Block, Rows
from calcli.statistics.units import Units

# ---- which of a bundle's transforms of the input a method uses


def choose_pool(transforms: Sequence[str], pool: str, method: str) -> list[int]:
    """Indices of the transforms to draw from, in the order of the source.

    method : who asks. pool : ``all``, or names and full specs with commas between. Raises
    FitError when the rows have no transforms, UsageError for a name that none of them has.
    """
    if not transforms:
        raise FitError(
            f"{method} needs the scores of the same rows under transforms (dataset transforms/logits), these rows"
            " have none; calcli extract --model … --transform zoom:0.5:0.9 --transforms 10 makes them"
        )
    if pool == "all":
        return list(range(len(transforms)))
    wanted = [name.strip() for name in pool.split(",") if name.strip()]
    for name in wanted:
        if not any(name in (spec, spec.partition(":")[0]) for spec in transforms):
            raise UsageError(f"option pool={pool!r}: no transform is {name!r}; there are: {', '.join(transforms)}")
    return [m for m, spec in enumerate(transforms) if spec in wanted or spec.partition(":")[0] in wanted]


SLACK = 1e-12
"""A confidence this little above an edge lies on it. Bins with equal retention get their
accuracy, a ratio of whole numbers that is often an edge, up to its last bit."""

ALL_ALIKE = 1e-9
"""A bin whose mean retention is this close to 0 or 1 cannot support a line."""


@dataclass(frozen=True)
class Evidence:
    """What a design is fitted to.

    gamma : (n,) retention probabilities. hit : (n,) 0.0 or 1.0, is the prediction right?
    weight : (n,) all > 0. start : (n,) confidences that the first round bins.
    """

    gamma: FloatArray
    hit: FloatArray
    weight: FloatArray
    start: FloatArray

    def part(self, index: IntArray) -> "Evidence":
        """Some of the rows."""
        return Evidence(self.gamma[index], self.hit[index], self.weight[index], self.start[index])

    @property
    def accuracy(self) -> float:
        """Proportion of right predictions."""
        return float(self.weight @ self.hit / self.weight.sum())


@dataclass(frozen=True)
class Design:
    """Fitted lines and how the rounds ended.

    alpha, beta : (rounds, bins), NaN where a bin was empty. confidence : (n,) of the rows
    they were fitted to. ended : fixed (the partition no longer changes), cycle (it came
    back after ``period`` rounds; the round with the least ECE was kept), or limit.
    """

    alpha: FloatArray
    beta: FloatArray
    confidence: FloatArray
    ended: Literal["fixed", "cycle", "limit"]
    period: int = 0


def design(evidence: Evidence, bins: int, limit: int) -> Design:
    """Repeat: bin the confidences, fit a line in every bin, take its values for confidences.

    The lines of a round depend on the partition alone, so the rounds have ended as soon as
    a partition comes back. (Algorithm 1; its empty bins, 0/0 there, become NaN.)
    """
    confidence = evidence.start
    seen: dict[bytes, int] = {}
    lines: list[tuple[FloatArray, FloatArray]] = []
    errors: list[float] = []
    ended: Literal["fixed", "cycle", "limit"] = "limit"
    period, kept = 0, limit
    for k in range(limit + 1):
        index = bin_of(confidence, bins)
        period = k - seen.setdefault(sha256(index.tobytes()).digest(), k)
        if period:
            ended = "fixed" if period == 1 else "cycle"
            kept = k - period + 1 + int(np.argmin(errors[k - period :]))
            break
        if k == limit:
            break
        lines.append(fit_lines(evidence, index, bins))
        if k == 0 and np.ptp(evidence.start) == 0:
            # One value for all rows is one bin, whatever the edges: its line serves every bin.
            lines[0] = tuple(np.full(bins, v[index[0]]) for v in lines[0])  # type: ignore[assignment]
        confidence = follow(confidence, evidence.gamma, *lines[-1])
        errors.append(width_error(confidence, evidence, bins))
    if kept < len(lines):
        confidence = replay(evidence.start, evidence.gamma, *(np.stack(v) for v in zip(*lines[:kept], strict=True)))
    alpha, beta = (np.stack(v) for v in zip(*lines[:kept], strict=True))
    return Design(alpha, beta, confidence, ended, period if ended == "cycle" else 0)


def replay(start: FloatArray, gamma: FloatArray, alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """Confidences after all rounds; a bin that was empty leaves a row's as it is. (Algorithm 2)"""
    confidence = start
    for a, b in zip(alpha, beta, strict=True):
        confidence = follow(confidence, gamma, a, b)
    return confidence


def follow(confidence: FloatArray, gamma: FloatArray, alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """One round: beta + (alpha - beta) gamma with the line of each row's bin."""
    index = bin_of(confidence, len(alpha))
    a, b = alpha[index], beta[index]
    return np.where(np.isnan(a), confidence, np.clip(b + (a - b) * gamma, 0.0, 1.0))


def fit_lines(evidence: Evidence, index: IntArray, bins: int) -> tuple[FloatArray, FloatArray]:
    """Accuracy of retained and of lost copies in every bin, (bins,) each; NaN where empty.

    alpha = sum corr gamma / sum gamma, beta = sum corr (1 - gamma) / sum (1 - gamma)
    (equations 1 and 2). A bin of which all copies, or none, are retained gets its accuracy
    for both.
    """

    def total(values: FloatArray) -> FloatArray:
        return np.bincount(index, weights=evidence.weight * values, minlength=bins).astype(np.float64, copy=False)

    kept, lost = evidence.gamma, 1.0 - evidence.gamma
    mass, mass_kept, mass_lost = total(np.ones(len(kept))), total(kept), total(lost)
    accuracy = ratio(total(evidence.hit), mass)
    line = (mass_kept > ALL_ALIKE * mass) & (mass_lost > ALL_ALIKE * mass)
    alpha = np.where(line, ratio(total(evidence.hit * kept), mass_kept), accuracy)
    beta = np.where(line, ratio(total(evidence.hit * lost), mass_lost), accuracy)
    return alpha, beta


def line_of_one_bin(evidence: Evidence) -> tuple[float, float]:
    """alpha and beta of a single bin."""
    alpha, beta = fit_lines(evidence, np.zeros(len(evidence.gamma), dtype=np.int64), 1)
    return float(alpha[0]), float(beta[0])


def ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Part of a whole in [0, 1]; NaN where the whole is 0."""
    out = np.full(len(part), np.nan)
    np.divide(part, whole, out=out, where=whole > 0)
    return np.minimum(out, 1.0, out=out)


def bin_of(confidence: FloatArray, bins: int) -> IntArray:
    """Equal-width bin of every confidence."""
    index: IntArray = bin_index(confidence - SLACK, width_edges(bins))
    return index


def width_error(confidence: FloatArray, evidence: Evidence, bins: int) -> float:
    """Expected calibration error over the equal-width bins."""
    surplus = evidence.weight * (confidence - evidence.hit)
    return float(np.abs(np.bincount(bin_of(confidence, bins), weights=surplus)).sum() / evidence.weight.sum())


# ---- what disturbs Hoki's rows: how often predictions survive it, and which noise at which scale


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
    gaps = runner_up_gaps(rows)[counted]
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
    units = rows.units()
    folds = two_folds(base.hit, context.seed, None if units is None else units.take(counted))
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


def two_folds(hit: FloatArray, seed: int, units: Units | None = None) -> tuple[IntArray, IntArray]:
    """Rows split in halves, right and wrong ones alike; or whole units."""
    rng = np.random.default_rng(seed)
    if units is not None:
        fold = unit_folds(units, 2, rng)
        return np.flatnonzero(fold == 0), np.flatnonzero(fold == 1)
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
