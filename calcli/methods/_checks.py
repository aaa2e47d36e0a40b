"""What fitted parameters must be, as an artifact that holds them is read."""

import numpy as np

from calcli.errors import DataError
from calcli.numerics import FloatArray


def check_finite(**params: float | FloatArray | None) -> None:
    """Raise DataError for a parameter that holds NaN or infinity."""
    for name, value in params.items():
        if value is not None and not np.isfinite(value).all():
            raise DataError(f"params.{name} holds a number that is not finite")


def check_positive(**params: float | FloatArray | None) -> None:
    """Raise DataError for a parameter, one number or several, that is not positive and finite."""
    for name, value in params.items():
        if value is not None and not np.all((np.asarray(value) > 0) & np.isfinite(value)):
            raise DataError(f"{name} is {value}, expected a positive number")


def check_uniform(uniform: float) -> None:
    """Raise DataError for a share of the uniform distribution outside [0, 1)."""
    if not 0 <= uniform < 1:
        raise DataError(f"uniform is {uniform}, expected a share in [0, 1)")
