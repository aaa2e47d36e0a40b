"""What a metric is: one decorated function of a context in a family file of this
package.

Lists, help, signatures, limits and the generic tests find it by that.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, Literal, get_args

from calcli.errors import check_choice
from calcli.metrics.context import MetricContext
from calcli.metrics.values import Value
from calcli.numerics import FloatArray

Measure = Callable[..., Value]
Better = Literal["low", "high", "zero", "one"]


@dataclass(frozen=True)
class Metric:
    """One metric.

    title : help line. formula : in one line. reference : authors, year. better : which
    way is good, or None where neither end is. signature : settings and constants that
    pin the definition; a value ``None`` means "as set". needs : ``classes`` class sums,
    ``tops`` the largest classes, or nothing beyond rows. reads : what it asks of its
    context: the row table, or only what ``LongContext`` has without one, sums over rows
    or the scores in order too. aliases : what else people call it. whole : needs the
    probabilities of all classes, not the confidence alone; where there are ``needs`` it
    does. report : which report shows it: always, for two classes, ``--full``, or None
    on request only. in_table : is it in the table for people, or in the JSON only?
    meaning : a few words beside its name in that table; ``gap``, ``of`` and ``bins`` in
    them are as the settings say. rows : for a mean over rows, its column (n,). argument
    : of a metric that is asked for at a number, ``accuracy_at_coverage(0.9)``, the name
    that ``measure`` gives the number; it has a default. pools : has a value for all
    classes pooled (``--label all``); reports on these leave others out.
    """

    name: str
    title: str
    formula: str
    measure: Measure
    reference: str = ""
    better: Better | None = "low"
    signature: tuple[tuple[str, str | None], ...] = ()
    needs: Literal["", "classes", "tops"] = ""
    reads: Literal["table", "sums", "order"] = "table"
    aliases: tuple[str, ...] = ()
    whole: bool = False
    report: Literal["default", "two classes", "ordered levels", "full"] | None = None
    in_table: bool = True
    meaning: str = ""
    rows: Callable[[MetricContext], FloatArray] | None = None
    argument: str = ""
    pools: bool = True


# every metric by name, in the order in which the family files register them
METRICS: dict[str, Metric] = {}

SAID = {"Reference": "reference", "Also called": "aliases", "In tables": "meaning"}
"""Labels in docstrings of metrics, after title and formula, and the field of ``Metric``
that each fills.
"""


def metric(
    signature: str = "", name: str = "", text: str = "", **facts: Any
) -> Callable[[Measure], Measure]:
    """Register the decorated function as a metric.

    signature : a word each, ``closed:right``, or ``bins`` as set. name : where it is
    not the function's. text : in place of its docstring, which is title, formula and
    what else is said of it (``SAID``). facts : fields of ``Metric``.
    """
    facts = {"whole": "needs" in facts} | facts
    entries = []
    for word in signature.split():
        key, _, constant = word.partition(":")
        entries.append((key, constant or None))
    facts["signature"] = tuple(entries)

    def register(measure: Measure) -> Measure:
        metric_name = name or measure.__name__
        assert metric_name not in METRICS, f"metric {metric_name!r} is registered twice"
        check_choice(
            f"metric {metric_name}: better", facts.get("better"), get_args(Better)
        )
        title, _, rest = cleandoc(text or measure.__doc__ or "").partition(".\n\n")
        labels = "|".join(SAID)
        formula, *said = re.split(f"^({labels}): ", rest, flags=re.MULTILINE)
        formula = " ".join(formula.split())
        words: dict[str, Any] = {}
        for label, words_of_label in zip(said[::2], said[1::2], strict=True):
            words[SAID[label]] = " ".join(words_of_label.split())
        words["aliases"] = tuple(words.get("aliases", "").replace(",", "").split())
        METRICS[metric_name] = Metric(
            metric_name, title, formula, measure, **words, **facts
        )
        return measure

    return register
