"""Post-hoc confidence calibration of classifiers on saved logit files."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("calcli")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+source"
