"""Settings of metrics."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from calcli.errors import UsageError

Label = Literal["top", "positive", "class", "all"]

LARGEST_NORM = 100.0  # beyond it powers of small gaps are 0; the limit is ``max``


@dataclass(frozen=True)
class MetricSettings:
    """Settings of metrics.

    label : what the errors of a score are about: the prediction (``top``), P(class 1)
    of two classes (``positive``), every class, or all classes pooled. threshold :
    P(class 1) above which class 1 is predicted. level : of intervals. compat : another
    program's bins, or None. unit : what rows that belong together share, ``none`` where
    they are said to be independent; for the signature. ordered_levels : are the classes
    levels from low to high?
    """

    bins: Annotated[int, Meta(ge=1, le=10_000)] = 15
    norm: Annotated[float, Meta(ge=1)] = 1.0
    scheme: Literal["width", "mass"] = "width"
    label: Label = "top"
    compat: str | None = None
    level: Annotated[float, Meta(ge=0.5, le=0.9999)] = 0.95
    resamples: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    seed: Annotated[int, Meta(ge=0)] = 0
    unit: str | None = None
    ordered_levels: bool = False
    interval: Literal["auto", "bootstrap", "t"] = "auto"
    threshold: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.5


def norm_text(norm: float) -> str:
    """Text of the norm in a signature."""
    if math.isinf(norm):
        return "max"
    return f"{norm:g}"


def norm_of(text: str) -> float:
    """``--norm`` as a number: 1 or more, or ``max``. Raises UsageError."""
    try:
        norm = math.inf if text == "max" else float(text)
    except ValueError:
        norm = 0.0
    if not 1.0 <= norm <= LARGEST_NORM and text != "max":
        raise UsageError(
            f"--norm {text[:40]}: expected a number from 1 to {LARGEST_NORM:g}, or max"
        )
    return norm
