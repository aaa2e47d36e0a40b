"""Bayesian binning into quantiles."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from calcli.binning import ends
from calcli.methods._binary.log_odds import MapFit, Sample
from calcli.methods._binary.maps import TOP_LABEL, ModeOptions
from calcli.methods._binary.tables import Steps
from calcli.numerics import BoolArray, FloatArray, IntArray, sigmoid, tie_groups

NEGLIGIBLE = 1e-12  # models of a smaller posterior weight are dropped
ELBOW = 1e-3  # threshold of the authors' rule for how many models to keep


class BayesianBinningOptions(ModeOptions, frozen=True):
    prior: Annotated[
        Literal["midpoint", "bdeu"],
        Meta(
            description=(
                "Beta prior of a bin: midpoint (mean at the bin's midpoint, two rows"
                " strong), bdeu (mean 1/2, two rows shared by all bins)"
            )
        ),
    ] = "midpoint"
    theta: Annotated[
        Literal["posterior", "official"],
        Meta(
            description=(
                "value of a bin: its posterior mean, or the authors' code's (m + p0) /"
                " (n + 1) with p0 = (sum of the positives' scores + midpoint) / (m + 1)"
            )
        ),
    ] = "posterior"
    prune: Annotated[
        Literal["weight", "elbow"],
        Meta(
            description=(
                "models kept: all of weight above 1e-12, or by the authors' code's"
                " elbow rule"
            )
        ),
    ] = "weight"


@dataclass(frozen=True)
class BayesianBinning(Steps):
    """Average equal-frequency binnings, each weighted by how well it explains outcomes.

    Binnings M with B = max(1, floor(n^(1/3) / 10)) .. min(ceil(n / 5), ceil(10
    n^(1/3))) bins of floor(n / B) rows (the last takes the remainder; bins whose scores
    tie across a cut are one). With m_b positives among the n_b rows of bin b, whose
    midpoint is p_b in [0.005, 0.995], alpha_b = 2 p_b and beta_b = 2 (1 - p_b):

    log P(D | M) = sum_b [ lnG(2) - lnG(n_b + 2) + lnG(m_b + alpha_b) - lnG(alpha_b)
                           + lnG(n_b - m_b + beta_b) - lnG(beta_b) ]
    q = sum_M P(M | D) (m_b + alpha_b) / (n_b + 2), P(M | D) proportional to P(D | M).

    An average of step functions is a step function: that is what is stored, as edges
    and values. (netcal replaces the marginal likelihood by an information criterion and
    the quantiles by equal widths: another method.)

    Reference: Naeini, Cooper, Hauskrecht (2015), AAAI; options ``official`` and
    ``elbow`` follow the authors' code.
    """

    list_order = 36
    use = "the confidence alone, to compare with: averages over binnings"
    title = "Bayesian binning into quantiles"
    laws = replace(TOP_LABEL, weights=False)
    Options = BayesianBinningOptions

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        edges, values, weights, bins = fit_bbq(
            sample, options.prior, options.theta, options.prune
        )
        record = {
            "models": float(1.0 / (weights @ weights)),
            "best_bins": float(bins[weights.argmax()]),
        }
        return MapFit.table(sample, edges, values, record)


@lru_cache(maxsize=2)
def all_binnings(n: int) -> tuple[IntArray, IntArray]:
    """List the first row of each bin of all binnings, laid end to end.

    The binnings are those averaged over, of n sorted rows. Also where each model's bins
    begin there and their total number, (models + 1,).
    """
    root = n ** (1.0 / 3.0)
    least = max(1, int(root / 10.0))
    most = max(least, min(-(-n // 5), int(np.ceil(10.0 * root))))
    sizes = np.arange(least, most + 1)
    cut = np.concatenate([np.arange(bins) * (n // bins) for bins in sizes])
    return cut, np.concatenate([[0], np.cumsum(sizes)])


@dataclass(frozen=True)
class BinsOfModels:
    """The bins of all models, end to end.

    first : (models + 1,) where the bins of each model begin. model : (bins,) the model of
    each. low, center : (bins,) lower end (as ``sample.x``) and midpoint (a probability).
    count, positive, scored : (bins,) rows, positives, and the sum of the positives'
    scores. least, most : ends of the range of scores.
    """

    first: IntArray
    model: IntArray
    low: FloatArray
    center: FloatArray
    count: FloatArray
    positive: FloatArray
    scored: FloatArray
    least: float
    most: float

    @classmethod
    def of(cls, sample: Sample) -> "BinsOfModels":
        x, which = tie_groups(sample.x, float(sample.in_log_odds))
        order = np.argsort(which, kind="stable")
        s = x[which[order]]
        p = sample.p[order]
        hit = sample.hit[order]
        n = len(s)
        least, most = ends(log_odds=sample.in_log_odds)
        cut, first = all_binnings(n)
        # A cut inside a run of equal scores separates nothing: its bin joins the one
        # before.
        real = (cut == 0) | (s[cut] > s[cut - 1])
        first = np.concatenate([[0], np.cumsum(real)])[first]
        cut = cut[real]
        # Rows and ends of every bin; the last bin of a model has the last row.
        stop = np.append(cut[1:], n)
        stop[first[1:] - 1] = n
        low = np.where(cut == 0, least, 0.5 * (s[np.maximum(cut, 1) - 1] + s[cut]))
        high = np.append(low[1:], most)
        high[first[1:] - 1] = most
        center = 0.5 * (low + high)
        if sample.in_log_odds:
            center = 0.5 * (sigmoid(low) + sigmoid(high))
        ones = np.concatenate([[0.0], np.cumsum(hit)])
        scored = np.concatenate([[0.0], np.cumsum(hit * p)])
        return cls(
            first=first,
            model=np.repeat(np.arange(len(first) - 1), np.diff(first)),
            low=low,
            center=center,
            count=(stop - cut).astype(np.float64),
            positive=ones[stop] - ones[cut],
            scored=scored[stop] - scored[cut],
            least=least,
            most=most,
        )

    def beta_prior(self, prior: str) -> tuple[FloatArray, FloatArray]:
        """Parameters alpha and beta of the prior of every bin, (bins,) each."""
        if prior == "bdeu":
            alpha = 1.0 / np.diff(self.first)[self.model]
            return alpha, alpha
        middle = np.clip(self.center, 0.005, 0.995)
        return 2.0 * middle, 2.0 * (1.0 - middle)

    def log_evidence(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        """Logarithm of the marginal likelihood of every model, (models,)."""
        from scipy.special import gammaln

        strength = alpha + beta
        negative = self.count - self.positive
        terms = gammaln(strength) - gammaln(self.count + strength)
        terms += gammaln(self.positive + alpha) - gammaln(alpha)
        terms += gammaln(negative + beta) - gammaln(beta)
        return np.bincount(self.model, weights=terms).astype(np.float64)

    def values(self, theta: str, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        """Value of every bin, (bins,)."""
        if theta == "official":
            p0 = (self.scored + self.center) / (self.positive + 1.0)
            return (self.positive + p0) / (self.count + 1.0)
        return (self.positive + alpha) / (self.count + (alpha + beta))

    def average(
        self, value: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Edges and values of the average of the models under their weights."""
        # Neighbouring bins often have the very same value (no positives, lowest
        # midpoint): drop the cut.
        is_new_value = value[1:] != value[:-1]
        is_new_model = self.model[1:] != self.model[:-1]
        fresh = np.append(True, is_new_value | is_new_model)
        low = self.low[fresh]
        value = value[fresh]
        first = np.concatenate([[0], np.cumsum(fresh)])[self.first]
        kept = np.flatnonzero(weights)
        # Every model is constant on each piece between the union of all cuts.
        inner = [low[first[m] + 1 : first[m + 1]] for m in kept]
        cuts = np.unique(np.concatenate([*inner, [self.most]]))
        edges = np.concatenate([[self.least], cuts])
        average = np.zeros(len(edges) - 1)
        for m, cuts_of_model in zip(kept, inner, strict=True):
            values_of_model = value[first[m] : first[m + 1]]
            piece = np.searchsorted(cuts_of_model, edges[1:], side="left")
            average += weights[m] * values_of_model[piece]
        return edges, np.clip(average, 0.0, 1.0)


def fit_bbq(
    sample: Sample, prior: str, theta: str, prune: str
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Fit the averaged map.

    Returns its edges (as ``sample.x``) and values, and weights (m,) and bins (m,) of
    the models kept.
    """
    bins = BinsOfModels.of(sample)
    alpha, beta = bins.beta_prior(prior)
    evidence = bins.log_evidence(alpha, beta)
    weights = np.exp(evidence - evidence.max())
    is_kept = weights > NEGLIGIBLE * weights.sum()
    if prune == "elbow":
        is_kept = elbow(weights)
    weights[~is_kept] = 0.0
    weights /= weights.sum()
    edges, values = bins.average(bins.values(theta, alpha, beta), weights)
    kept = np.flatnonzero(weights)
    return edges, values, weights[kept], np.diff(bins.first)[kept]


def elbow(likelihood: FloatArray) -> BoolArray:
    """Find the models that the authors' code keeps, as a mask.

    These are the ones before the relative likelihoods, sorted, stop falling by more
    than 0.001 of their variance from one to the next.
    """
    order = np.argsort(-likelihood, kind="stable")
    falling = likelihood[order]
    last = len(falling) - 1
    k = 0
    while k < last and falling[k] == falling[k + 1]:
        k += 1
    variance = likelihood.var()
    while k < last and falling[k] - falling[k + 1] > ELBOW * variance:
        k += 1
    kept = np.zeros(len(likelihood), dtype=np.bool_)
    kept[order[: max(k, 1)]] = True
    return kept
