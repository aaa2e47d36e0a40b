"""Names to metrics: what each is, how it is computed, what pins its definition.

To add a metric, write a function from ``Scope`` to ``Value`` in a family file and enter
it here; lists, help, signatures and the generic tests find it by this table.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from calcli import __version__
from calcli.errors import unknown_name
from calcli.metrics import families as f
from calcli.metrics import losses
from calcli.metrics.context import Scope, Settings, Value, norm_text

__all__ = [
    "DEFAULT",
    "FULL",
    "Metric",
    "class_bins_needed",
    "describe_metric",
    "measure",
    "metric",
    "metric_names",
    "signature",
    "tops_needed",
]


@dataclass(frozen=True)
class Metric:
    """One metric.

    title : help line. formula : in one line. reference : authors, year. better : which way
    is good, or None where neither end is. pins : settings and constants that belong to the
    signature; a value ``None`` means "as set". needs : ``classes`` class sums, ``columns``
    all probabilities class by class, ``tops`` the largest classes, or nothing beyond rows.
    """

    name: str
    title: str
    formula: str
    reference: str
    measure: Callable[[Scope], Value]
    better: Literal["low", "high"] | None = "low"
    pins: tuple[tuple[str, str | None], ...] = ()
    needs: str = ""


_BINS = (("norm", None), ("bins", None), ("scheme", None), ("closed", "right"), ("label", None))
_MASS = (("norm", None), ("bins", None), ("scheme", "mass"), ("closed", "right"), ("label", None))
_L2 = (("norm", "2"), ("bins", None), ("scheme", "mass"), ("closed", "right"), ("label", "top"))
_TOP = (("label", "top"),)

METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            "accuracy",
            "Share of rows whose predicted class is the label",
            "mean 1[argmax p = y], ties to the lowest index",
            "",
            losses.accuracy,
            "high",
        ),
        Metric(
            "nll",
            "Negative log-likelihood of the labels, natural logarithm",
            "mean -ln max(p_y, 1e-12)",
            "Good (1952)",
            losses.nll,
            pins=(("log", "e"), ("floor", "1e-12")),
        ),
        Metric(
            "brier",
            "Squared error of the probability vector, summed over classes",
            "mean sum_c (p_c - 1[y = c])^2, 0..2; other programs divide by k or by 2",
            "Brier (1950)",
            losses.brier,
            pins=(("classes", "sum"),),
        ),
        Metric(
            "brier_top",
            "Squared error of the confidence",
            "mean (confidence - 1[prediction = y])^2",
            "Brier (1950)",
            losses.brier_top,
            pins=_TOP,
        ),
        Metric(
            "mean_confidence",
            "Mean probability of the predicted class",
            "mean p_prediction",
            "",
            losses.mean_confidence,
            None,
            pins=_TOP,
        ),
        Metric(
            "confidence_variance",
            "Population variance of the confidence",
            "mean (c - mean c)^2",
            "Jang, Ivanov, Lee, Weimer (2021)",
            losses.confidence_variance,
            None,
            pins=_TOP,
        ),
        Metric(
            "gap",
            "Mean confidence minus accuracy: positive is overconfident",
            "mean (c - 1[prediction = y])",
            "Clarte et al. (2023)",
            losses.confidence_gap,
            None,
            pins=_TOP,
        ),
        Metric(
            "entropy_gap",
            "Mean NLL minus mean predictive entropy: positive is overconfident",
            "mean (-ln p_y - H(p)); 0 at the optimum of a temperature",
            "Guo et al. (2017), appendix S1",
            losses.entropy_gap,
            None,
            pins=(("log", "e"),),
        ),
        Metric(
            "ece",
            "Expected calibration error of the confidence over equal-width bins",
            "(sum_b share_b |confidence_b - accuracy_b|^norm)^(1/norm)",
            "Naeini, Cooper, Hauskrecht (2015); Guo et al. (2017), equation 3",
            f.ece,
            pins=_BINS,
        ),
        Metric(
            "ece_mass",
            "Expected calibration error over bins that hold equally many rows",
            "as ece; edges midway between neighbouring chunks of the sorted confidences",
            "Nguyen, O'Connor (2015); Kumar, Liang, Ma (2019)",
            f.ece_mass,
            pins=_MASS,
        ),
        Metric(
            "mce",
            "Largest gap of any bin that holds rows: very unstable",
            "max_b |confidence_b - accuracy_b|",
            "Naeini et al. (2015); Guo et al. (2017), equation 5",
            f.mce,
            pins=(("norm", "max"), *_BINS[1:]),
        ),
        Metric(
            "cwece",
            "Class-wise calibration error: mean over classes of each one-vs-all ECE",
            "(1/k) sum_c sum_b share_cb |p_cb - frequency_cb|; others sum over classes",
            "Kull et al. (2019); Nixon et al. (2019)",
            f.cwece,
            pins=(("norm", None), ("bins", None), ("scheme", "width"), ("closed", "right"), ("label", "class")),
            needs="classes",
        ),
        Metric(
            "cwece2",
            "Class-wise L2 calibration error, debiased, over width bins",
            "sqrt(max(0, mean_c sum_b share_cb [(p - f)^2 - f (1 - f)/(n - 1)]))",
            "Kumar, Liang, Ma (2019), definition 5.1, per class",
            f.cwece2,
            pins=(("norm", "2"), ("bins", None), ("scheme", "width"), ("closed", "right"), ("label", "class")),
            needs="classes",
        ),
        Metric(
            "tce2",
            "Top-label L2 calibration error, debiased",
            "sqrt(max(0, sum_b share_b [(confidence_b - acc_b)^2 - acc_b (1 - acc_b)/(n_b - 1)]))",
            "Kumar, Liang, Ma (2019), definition 5.1; interval: Sun et al. (2024)",
            f.tce2,
            pins=(*_L2, ("debiased", "yes")),
        ),
        Metric(
            "tce2_plugin",
            "Top-label L2 calibration error, plugin (biased upwards)",
            "sqrt(sum_b share_b (confidence_b - acc_b)^2)",
            "Kumar, Liang, Ma (2019), equation 7",
            f.tce2_plugin,
            pins=(*_L2, ("debiased", "no")),
        ),
        Metric(
            "marginal2",
            "Marginal L2 calibration error, debiased, each class on its own mass bins",
            "sqrt(max(0, mean_c signed square of class c)); --compat verified truncates each class first",
            "Kumar, Liang, Ma (2019), definitions 2.4 and 5.1",
            f.marginal2,
            pins=(*_L2[:4], ("label", "class"), ("debiased", "yes")),
            needs="columns",
        ),
        Metric(
            "marginal2_plugin",
            "Marginal L2 calibration error, plugin (biased upwards)",
            "sqrt(mean_c sum_b share_cb (p_cb - f_cb)^2)",
            "Kumar, Liang, Ma (2019), definition 2.4",
            f.marginal2_plugin,
            pins=(*_L2[:4], ("label", "class"), ("debiased", "no")),
            needs="columns",
        ),
        Metric(
            "smece",
            "Smooth calibration error: a reflected Gaussian kernel of its own width",
            "the s at which integral |mean_i K_s(t, c_i)(c_i - y_i)| dt = s",
            "Blasiok, Nakkiran (2024)",
            f.smece,
            pins=(("kernel", "reflected-gaussian"), *_TOP),
        ),
        Metric(
            "ks",
            "Kolmogorov-Smirnov calibration error: largest cumulative gap",
            "max_k |sum_{i<=k} (y_i - c_i)| / n, rows sorted by confidence",
            "Gupta et al. (2021)",
            f.ks,
            pins=_TOP,
        ),
        Metric(
            "kuiper",
            "Range of the cumulative gaps (ECCE-R)",
            "max_k C_k - min_k C_k, C_k = sum_{i<=k} (y_i - c_i)/n",
            "Arrieta-Ibarra, Gujral, Tannen, Tygert, Xu (2022)",
            f.kuiper,
            pins=_TOP,
        ),
        Metric(
            "auroc",
            "How well confidence separates right rows from wrong ones",
            "P(c_right > c_wrong) + P(equal)/2",
            "Hanley, McNeil (1982)",
            f.auroc,
            "high",
            pins=_TOP,
        ),
        Metric(
            "vce",
            "Spread of the bins' gaps around the ECE",
            "sum_b share_b (|gap_b| - ECE)^2",
            "Jang, Lee, Weimer (2021), ReCal's VCE",
            f.vce,
            pins=_BINS[1:],
        ),
        Metric(
            "ece_sweep",
            "ECE with as many mass bins as keep the bins' accuracies rising",
            "ece_mass at the largest such number of bins",
            "Roelofs, Cain, Shlens, Mozer (2022)",
            f.ece_sweep,
            pins=(("norm", "1"), ("scheme", "mass-monotone"), *_TOP),
        ),
        Metric(
            "ece_debiased",
            "Mass-bin error of any norm, debiased by resampling the bins' rates (removes part of the bias)",
            "2 plugin - mean plugin with rate_b ~ N(rate_b, rate_b (1 - rate_b)/n_b)",
            "Kumar, Liang, Ma (2019), section 5",
            f.ece_debiased,
            pins=(*_MASS[:4], ("label", "top"), ("debiased", "normal")),
        ),
        Metric(
            "spiegelhalter",
            "Spiegelhalter's z of the confidences",
            "sum (y - c)(1 - 2c) / sqrt(sum (1 - 2c)^2 c (1 - c))",
            "Spiegelhalter (1986)",
            f.spiegelhalter_z,
            None,
            pins=_TOP,
        ),
        Metric(
            "tcal",
            "Adaptive test of calibration over bins of all sizes: its statistic, with p-value",
            "max over 2^b bins of the pairwise squared error in null standard deviations",
            "Lee, Huang, Hassani, Dobriban (2023)",
            f.tcal,
            pins=(("bins", "2^b"), *_TOP),
        ),
        *(
            Metric(
                f"top{j}_gap",
                f"Mean mass of the {j} largest classes minus top-{j} accuracy",
                f"mean (sum of {j} largest p) - share of labels among them",
                "Clarte et al. (2023), top-n variant",
                losses.top_gap(j),
                None,
                pins=(("label", f"top-{j}"),),
                needs="tops",
            )
            for j in (2, 3, 5)
        ),
        Metric(
            "bound_printed",
            "Generalisation bound of the ECE as printed",
            "ECE + J sqrt(2 ln(4/delta)/N), delta = 1 - level",
            "Jang et al. (2021), theorem 2",
            f.bound_printed,
            pins=(("norm", "1"), ("bins", None), ("scheme", "width"), *_TOP),
        ),
        Metric(
            "bound_repaired",
            "Generalisation bound of the ECE as its proof supports it",
            "ECE + (J + 1) sqrt(2 ln(4J/delta)/N), delta = 1 - level",
            "after Jang et al. (2021), theorem 2",
            f.bound_repaired,
            pins=(("norm", "1"), ("bins", None), ("scheme", "width"), *_TOP),
        ),
    )
}

DEFAULT = (
    "accuracy",
    "nll",
    "brier",
    "brier_top",
    "mean_confidence",
    "ece",
    "ece_mass",
    "mce",
    "tce2",
    "smece",
)
FULL = (
    *DEFAULT,
    "confidence_variance",
    "gap",
    "entropy_gap",
    "cwece",
    "cwece2",
    "tce2_plugin",
    "ks",
    "kuiper",
    "auroc",
    "vce",
    "ece_sweep",
    "ece_debiased",
    "spiegelhalter",
    "tcal",
    "top2_gap",
    "top3_gap",
    "top5_gap",
    "bound_printed",
    "bound_repaired",
)


def metric_names() -> tuple[str, ...]:
    """All metric names, in the order of the table."""
    return tuple(METRICS)


def metric(name: str) -> Metric:
    """A metric by name. Raises UsageError for unknown names."""
    if name not in METRICS:
        raise unknown_name("metric", name, METRICS)
    return METRICS[name]


def signature(name: str, settings: Settings, pins: Iterable[tuple[str, str]] = ()) -> str:
    """What pins a value's definition: name, settings that matter, version.

    >>> signature("ece", Settings()).rsplit("|", 1)[0]
    'ece|norm:1|bins:15|scheme:width|closed:right|label:top'
    """
    own = dict(pins)
    set_here = {
        "norm": norm_text(settings.norm),
        "bins": str(settings.bins),
        "scheme": settings.scheme,
        "label": settings.label,
    }
    parts = [name]
    for key, constant in metric(name).pins:
        parts.append(f"{key}:{own.pop(key, constant if constant is not None else set_here[key])}")
    parts += [f"{key}:{text}" for key, text in own.items()]
    return "|".join([*parts, f"calcli:{__version__}"])


def class_bins_needed(names: Iterable[str], settings: Settings) -> int:
    """Width bins of the class sums that the metrics ask for, 0 for none."""
    asked = any(metric(name).needs == "classes" for name in names) or settings.label != "top"
    return settings.bins if asked else 0


def tops_needed(names: Iterable[str]) -> tuple[int, ...]:
    """Numbers of largest classes that the metrics ask for."""
    return tuple(j for j in (2, 3, 5) if f"top{j}_gap" in names)


def measure(name: str, scope: Scope) -> Value:
    """Measure one metric."""
    if scope.table.n == 0:
        return Value.undefined("no rows")
    if scope.table.weight is not None and not scope.table.weight.sum() > 0:
        return Value.undefined("all weights are 0")
    return metric(name).measure(scope)


def describe_metric(name: str) -> dict[str, str]:
    """Everything about one metric: name, summary, formula, direction, reference, signature, description."""
    m = metric(name)
    way = {
        "low": "low is good",
        "high": "high is good",
        None: "near 0 is good" if "gap" in name else "neither end is good",
    }
    facts = {
        "name": m.name,
        "summary": m.title,
        "formula": m.formula,
        "direction": way[m.better],
        "reference": m.reference or "-",
        "signature": signature(name, Settings()),
    }
    lines = [f"{m.title}.", "", *(f"{key}: {facts[key]}" for key in ("formula", "direction", "reference", "signature"))]
    return {**facts, "description": "\n".join(lines)}
