"""The JSON of ``calcli apply``."""

from dataclasses import dataclass
from typing import Literal

from calcli.output import Count, Output


@dataclass(frozen=True, kw_only=True)
class AppliedBundle:
    """What was written of one bundle.

    A dataclass, as job files keep it. counts : of what happened to rows, by its name.
    """

    bundle: str
    output: str
    n: Count
    ignored: Count
    counts: dict[str, Count]


class ApplyOutput(Output, kw_only=True):
    """The JSON of ``calcli apply``."""

    calcli_apply: Literal[1]
    results: list[AppliedBundle]
