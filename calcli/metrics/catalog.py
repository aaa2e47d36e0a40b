"""Catalogue of metrics: find them by name, list them, state their signatures and measure one."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from calcli import __version__
from calcli.errors import UsageError, unknown_name
from calcli.metrics.context import MetricContext
from calcli.metrics.registry import METRICS as REGISTERED
from calcli.metrics.registry import Metric
from calcli.metrics.settings import MetricSettings, norm_text
from calcli.metrics.values import Undefined, Value
from calcli.output import Output

FAMILIES = (
    "losses",
    "binned_errors",
    "debiased",
    "smooth",
    "significance",
    "ranking",
    "risk",
    "levels",
    "coverage",
    "generalisation_bound",
)
"""Modules whose import registers metrics; lists of metrics have this order."""

MODULES = [import_module(f"calcli.metrics.{family}").__name__ for family in FAMILIES]


def _family_number(item: tuple[str, Metric]) -> int:
    return MODULES.index(item[1].measure.__module__)


METRICS = dict(sorted(REGISTERED.items(), key=_family_number))

# ``accuracy_at_coverage(0.9)``
AT_NUMBER = re.compile(r"(?P<name>[\w-]+)(\(|@)(?P<number>\d*\.?\d+)\)?")

ALIASES: dict[str, str] = {}
for _metric in METRICS.values():
    ALIASES |= dict.fromkeys(_metric.aliases, _metric.name)


def metric_names() -> tuple[str, ...]:
    """All metric names, in the order of the families."""
    return tuple(METRICS)


def metric(name: str) -> Metric:
    """A metric by its name or an alias, without regard to case.

    Raises UsageError for unknown names. ``accuracy_at_coverage(0.9)``, or
    ``accuracy_at_coverage@0.9``, is the metric at that number.
    """
    with_number = AT_NUMBER.fullmatch(name.strip())
    if with_number is not None:
        plain = metric(with_number["name"])
        if not plain.argument:
            raise UsageError(
                f"metric {plain.name} takes no number, {name!r} gives it one"
            )
        number = float(with_number["number"])
        measure = partial(plain.measure, **{plain.argument: number})
        return replace(plain, name=f"{plain.name}({number:g})", measure=measure)
    known = name
    if name not in METRICS:
        known = re.sub(r"[-\s]+", "_", name.strip().lower())
    known = ALIASES.get(known, known)
    if known not in METRICS:
        raise unknown_name("metric", name, METRICS, ALIASES)
    return METRICS[known]


def report_metrics(
    full: bool = False,
    k: int | None = None,
    ordered: bool = False,
    label: str | None = None,
) -> tuple[str, ...]:
    """Metrics of the default or the full report on k classes (None: of any number; 1:
    confidences alone), in order.

    label : what errors are about; with ``all``, metrics that do not pool the classes
    are left out.
    """
    wanted = {"default"}
    if full:
        wanted.add("full")
    if k == 2:
        wanted.add("two classes")
    if ordered:
        wanted.add("ordered levels")
    names = []
    for one in METRICS.values():
        needs_classes = k == 1 and one.whole
        is_per_label = label == "all" and not one.pools
        if one.report in wanted and not needs_classes and not is_per_label:
            names.append(one.name)
    return tuple(names)


def signature(
    name: str, settings: MetricSettings, of_value: Iterable[tuple[str, str]] = ()
) -> str:
    """Signature of a value, which pins its definition: name, settings that matter, version.

    of_value : entries of the value itself, added to its metric's or in place of them.

    >>> signature("ece", MetricSettings()).rsplit("|", 1)[0]
    'ece|norm:1|bins:15|scheme:width|closed:right|label:top'
    """
    added = dict(of_value)
    one = metric(name)
    if isinstance(one.measure, partial):
        numbers = {key: f"{x:g}" for key, x in one.measure.keywords.items()}
        added = numbers | added
    parts = [name.partition("(")[0]]
    for key, constant in one.signature:
        text = _as_set(settings, key) if constant is None else constant
        parts.append(f"{key}:{added.pop(key, text)}")
    parts += [f"{key}:{text}" for key, text in added.items()]
    if settings.unit is not None:
        parts.append(f"unit:{settings.unit}")
    return "|".join([*parts, f"calcli:{__version__}"])


def _as_set(settings: MetricSettings, key: str) -> str:
    """Text of a setting in a signature."""
    if key == "norm":
        return norm_text(settings.norm)
    value = getattr(settings, key)
    return f"{value:g}" if isinstance(value, float) else str(value)


def settings_of(names: Iterable[str]) -> set[str]:
    """The settings that pin the definition of one of these metrics: norm, bins, scheme,
    label, compat, threshold.
    """
    settings = set()
    for name in names:
        one = metric(name)
        settings |= {key for key, constant in one.signature if constant is None}
        if "bins" in settings or one.name == "smece":
            settings.add("compat")
        if one.name == "accuracy":
            settings.add("threshold")
    return settings


def gathering(
    names: Iterable[str],
    settings: MetricSettings,
    k: int,
    *,
    by_class: bool = False,
    all_columns: bool = False,
) -> dict[str, Any]:
    """Arguments of ``collect_all`` for what metrics need of rows of k classes.

    by_class : class sums are needed beside the metrics. all_columns : all columns of
    ``RowTable`` are needed, as where calibrators are compared; otherwise metrics that
    need no more of a row than its prediction, its confidence and its label get only
    these.
    """
    needs_classes = by_class or settings.label in ("class", "all")
    top_only = settings.label in ("top", "positive") and not by_class
    top_only = top_only and not all_columns
    asked = set()
    for name in names:
        one = metric(name)
        asked.add(one.name)
        if one.needs == "classes":
            needs_classes = True
        if one.rows is not None or one.needs:
            top_only = False
    return {
        "class_bins": settings.bins if needs_classes and k > 1 else 0,
        "tops": tuple(j for j in (2, 3, 5) if f"top{j}_gap" in asked),
        "top_only": top_only,
    }


def measure(name: str, context: MetricContext) -> Value:
    """Measure one metric."""
    if context.n == 0:
        return Value(None, "no rows")
    if context.table.weight is not None and not context.table.weight.sum() > 0:
        return Value(None, "all weights are 0")
    by_class = (
        context.settings.label in ("class", "all")
        and ("label", None) in metric(name).signature
    )
    if context.table.k == 1 and (metric(name).whole or by_class):
        return Value(
            None,
            "needs the probabilities of all classes, these rows hold one confidence"
            " each",
        )
    try:
        return metric(name).measure(context)
    except Undefined as why:
        return Value(None, str(why))


class MetricOutput(Output, kw_only=True):
    """A metric in the JSON of ``calcli metrics``."""

    name: str
    summary: str
    formula: str
    direction: str
    reference: str
    signature: str
    description: str


def describe_metric(name: str) -> MetricOutput:
    """Everything about one metric."""
    m = metric(name)
    way = {
        "low": "low is good",
        "high": "high is good",
        "zero": "near 0 is good",
        "one": "near 1 is good",
        None: "neither end is good",
    }
    direction = way[m.better]
    reference = m.reference or "-"
    signed = signature(m.name, MetricSettings())
    lines = [
        f"{m.title}.",
        "",
        f"formula: {m.formula}",
        f"direction: {direction}",
        f"reference: {reference}",
        f"signature: {signed}",
    ]
    return MetricOutput(
        name=m.name,
        summary=m.title,
        formula=m.formula,
        direction=direction,
        reference=reference,
        signature=signed,
        description="\n".join(lines),
    )
