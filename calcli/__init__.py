"""Post-hoc confidence calibration of classifiers on saved logit files."""

__version__ = "0.1.0"
