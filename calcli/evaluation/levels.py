"""Levels of the verdict's tests and its other gates, in one table."""

from types import MappingProxyType

LEVEL = 0.05
"""Probability of a finding on calibrated rows."""

TEST_LEVELS = MappingProxyType(
    {
        "confidence": 0.045,  # the joint test of gap, sharpness and smooth error
        "classes": 0.004,
        "groups": 0.004,
        "bins": 0.004,
        "split": 0.004,
        "errors": 0.004,
    }
)
"""Level of each test of the verdict.

They sum to more than ``LEVEL`` (.065), but the tests are correlated: .02 to .06 of
simulated calibrated sets are rejected (``benchmarks/levels.json``), without a bound.
"""

PARTS = tuple(TEST_LEVELS)
"""Names of the tested parts, the most important first."""

LACKING_LEVEL = 1e-3
"""Probability that some class of calibrated scores is called lacking."""

WIDE = 0.03
"""Half width of the gap's interval above which "not significant" means too few rows.

A convention, not an estimate: three points, which some 1000 samples give at an
accuracy of .6 (1.96 sqrt(.6 .4 / 1000) = .030), and fewer at one that is nearer to 1.
The advice on more samples aims at it.
"""

FEW_ERRORS = 3
"""Errors up to which cross-fitting finds no overconfidence.

One fold may hold them all, as it does 3 of five folds' in one set of 25. The fit
without it has seen none and claims certainty, which the calibrator of all rows does
not.
"""

MOST_GROUPS = 1000
"""Groups above which no finding by group is made."""

ERROR_METRICS = ("ece", "ece_positive", "ece_mass", "tce2", "smece")
"""Calibration errors of the default report, which the verdict must mention."""
