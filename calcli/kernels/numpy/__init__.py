"""The heavy loops, in NumPy: the reference that the torch twins must equal.

Each family is one module.
"""

from calcli.kernels.numpy.hoki_retention import retention_rates
from calcli.kernels.numpy.recal import RowSharpness

__all__ = ["RowSharpness", "retention_rates"]
