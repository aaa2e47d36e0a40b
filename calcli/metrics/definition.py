"""What a metric is, and how it registers itself.

A metric is one decorated function from ``MetricContext`` to ``Value`` in a family file of
this package. Lists, help, signatures, limits and the generic tests find it by that.
"""

from collections.abc import Callable
from typing import Any, Literal

from calcli.fast_dataclass import dataclass
from calcli.metrics.context import MetricContext, Value
from calcli.numerics import FloatArray

Better = Literal["low", "high", "zero"]
Report = Literal["default", "two classes", "full"]

TOP = (("label", "top"),)
BINNED_L1 = (("norm", None), ("bins", None), ("scheme", None), ("closed", "right"), ("label", None))


@dataclass(frozen=True)
class Metric:
    """One metric.

    title : help line. formula : in one line. reference : authors, year. better : which way
    is good, or None where neither end is. signature : settings and constants that pin the
    definition; a value ``None`` means "as set". needs : ``classes`` class sums, ``tops``
    the largest classes, or nothing beyond rows. reads : what it asks of its context: the row table, or
    only what ``LongContext`` has without one, sums over rows or the scores in order too. aliases : what
    else people call it.
    whole : needs the probabilities of all classes, not the confidence alone.
    report : which report shows it: always, for two classes, ``--full``, or None on request
    only. in_table : is it in the table for people, or in the JSON only? meaning : a few
    words beside its name in that table; ``gap``, ``of`` and ``bins`` in them are as the settings
    say. rows : for a mean
    over rows, its column (n,). argument : of a metric that is asked for at a number,
    ``accuracy_at_coverage(0.9)``, the name that ``measure`` gives the number; it has a default.
    """

    name: str
    title: str
    formula: str
    measure: Callable[..., Value]
    reference: str = ""
    better: Better | None = "low"
    signature: tuple[tuple[str, str | None], ...] = ()
    needs: Literal["", "classes", "tops"] = ""
    reads: Literal["table", "sums", "order"] = "table"
    aliases: tuple[str, ...] = ()
    whole: bool = False
    report: Report | None = None
    in_table: bool = True
    meaning: str = ""
    rows: Callable[[MetricContext], FloatArray] | None = None
    argument: str = ""


METRICS: dict[str, Metric] = {}
"""Every metric by name, in the order in which the family files register them."""


def metric(name: str, title: str, formula: str, **facts: Any) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register the decorated function as a metric; ``facts`` are fields of ``Metric``."""

    def register(measure: Callable[..., Value]) -> Callable[..., Value]:
        assert name not in METRICS, f"metric {name!r} is registered twice"
        METRICS[name] = Metric(name, title, formula, measure, **facts)
        return measure

    return register
