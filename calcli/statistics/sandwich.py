"""Sandwich covariance of an estimate, where rows have weights or belong to units.

An estimate solves sum_i s_i = 0, with s_i the scores of the rows and A the sum of
their informations. The covariance is A^-1 (sum_g u_g u_g') A^-1, with u_g the sum of
the scores of unit g (Huber 1967; Liang, Zeger 1986). With few units, or few that count,
it is too small and varies itself; the jackknife form and degrees of freedom allow for
both.
"""

from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, IntArray

LEAST_LEFT = 1e-9
"""Least share of the information, as a determinant, that must remain without a unit."""

SMALLEST = 1e-300  # of influences that are not 0


@dataclass(frozen=True)
class Sandwich:
    """Sandwich covariance of k parameters from the scores of g units.

    covariance : (k, k), with the factor g / (g - 1). jackknife : (k, k), with the score
    that each unit has at the estimate without it; at least ``covariance`` of
    independent rows in every variance. degrees : (k,) degrees of freedom of the
    variances of ``jackknife``: few, where few units carry them.
    """

    covariance: FloatArray
    jackknife: FloatArray
    degrees: FloatArray
    units: int

    @property
    def standard_errors(self) -> FloatArray:
        """Standard errors of the parameters, (k,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def cautious_errors(self) -> FloatArray:
        """Standard errors behind intervals and tests, (k,)."""
        return np.sqrt(np.diag(self.jackknife))


def sandwich(
    scores: FloatArray,
    informations: FloatArray,
    code: IntArray,
    spread: FloatArray,
) -> Sandwich | None:
    """Sandwich covariance by unit; None where one unit holds all the information.

    scores : (n, k). informations : (n, k, k). code : (n,) unit of each row, 0..g-1.
    spread : (k, k) variance of the sum of the scores that the model gives independent
    rows.

    Reference: Bell, McCaffrey (2002), Survey Methodology 28, 169-181, for the jackknife
    (CR3) and for degrees of freedom by Satterthwaite's formula, here from the observed
    second and fourth moments of the units' influences.
    """
    k = scores.shape[1]
    units = int(code.max()) + 1
    if units < 2:
        return None
    unit_scores = _sums(scores, code, units)
    flat = informations.reshape(len(informations), k * k)
    unit_informations = _sums(flat, code, units).reshape(units, k, k)
    inverse = np.linalg.inv(unit_informations.sum(axis=0))
    influences = unit_scores @ inverse
    covariance = influences.T @ influences * units / (units - 1)

    left = np.eye(k) - unit_informations @ inverse
    if np.linalg.det(left).min() < LEAST_LEFT:
        return None
    without = np.asarray(
        np.linalg.solve(left, unit_scores[:, :, None])[:, :, 0] @ inverse,
        dtype=np.float64,
    )
    least = np.diag(inverse @ spread @ inverse)
    return Sandwich(
        covariance=covariance,
        jackknife=_at_least(without.T @ without * (units - 1) / units, least),
        degrees=_degrees(without),
        units=units,
    )


def _at_least(covariance: FloatArray, variances: FloatArray) -> FloatArray:
    """Covariance (k, k) with variances of at least (k,), its correlations kept."""
    variance = np.diag(covariance)
    raised = np.maximum(variance, variances)
    factor = np.sqrt(raised / np.where(variance > 0.0, variance, 1.0))
    larger = covariance * np.outer(factor, factor)
    np.fill_diagonal(larger, raised)
    return larger


def _sums(values: FloatArray, code: IntArray, units: int) -> FloatArray:
    """Sums of values (n, m) over the rows of each unit, (g, m)."""
    columns = [np.bincount(code, column, units) for column in values.T]
    return np.stack(columns, axis=1)


def _degrees(influences: FloatArray) -> FloatArray:
    """Degrees of freedom of the sums of squares of influences (g, k), (k,), 1 or more.

    A sum of squares of variance V and mean M has 2 M^2 / V of them (Satterthwaite). Of
    g equal normal influences these are g; one is lost to the estimate.
    """
    units = len(influences)
    scaled = influences / np.maximum(np.abs(influences).max(axis=0), SMALLEST)
    squares = (scaled**2).sum(axis=0)
    fourths = (scaled**4).sum(axis=0)
    variance = fourths - squares**2 / units
    fewer = 2.0 * squares**2 < units * variance
    degrees = np.full(influences.shape[1], float(units))
    np.divide(2.0 * squares**2, variance, out=degrees, where=fewer)
    return np.maximum(degrees - 1.0, 1.0)
