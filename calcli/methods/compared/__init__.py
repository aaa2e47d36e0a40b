"""Methods to compare with, in files as in ``calcli/methods``."""
