"""The verdict in words: what the tests decided, one sentence about one set of rows, and what to do.

Of two classes it speaks of P(class 1), which is all there is to be wrong; of more, of the
confidence first and of the other probabilities after it.
"""

import shlex

from calcli.evaluation.joint_test import JointTest
from calcli.evaluation.verdict_results import SIZES, Advice, Groupwise, Report, Split
from calcli.metrics.confidence_bins import ConfidenceBin
from calcli.metrics.intervals import normal_quantile

TWO_SIDED = normal_quantile(0.975)
MENDS = 0.9
"""Share of the calibration loss that a temperature must remove to be the remedy."""

CLEAN_DIRECTION = "neither over- nor underconfident beyond chance"


def direction_words(test: JointTest, k: int | None, rejected: bool) -> str:
    """In words what of a departure is an over- or underconfidence, and of what. k : None of confidences alone."""
    if not rejected:
        return CLEAN_DIRECTION
    gap_z, sharp_z = test.gap.z, test.sharpness.z
    off, sharp = abs(gap_z) > TWO_SIDED, abs(sharp_z) > TWO_SIDED
    if test.positive:
        bias = f"P(class 1) is too {'high' if gap_z > 0 else 'low'} on average"
        slope = f"{_sharpness(sharp_z, k, positive=True)}"
        found = [words for words, said in ((bias, off), (slope, sharp)) if said]
        return "; ".join(found) or "P(class 1) is right on average, not at every probability"
    if not off:
        return (
            f"the confidence is right on average, but {_sharpness(sharp_z, k)}"
            if sharp
            else "right on average, not at every confidence"
        )
    way = "overconfident" if gap_z > 0 else "underconfident"
    if sharp and (sharp_z > 0) != (gap_z > 0):
        rest = "on average, not at every confidence" if k in (None, 2) else "about the predicted class, the opposite"
        return f"{way} {rest}{'' if k in (None, 2) else ' about the others'}"
    return way


def _sharpness(z: float, k: int | None, positive: bool = False) -> str:
    """What is too sure, or not sure enough."""
    if positive or k == 2:
        return f"P(class 1) is often too {'close to' if z > 0 else 'far from'} 0 and 1"
    what = "single confidences are" if k is None else "NLL shows the probabilities as a whole to be"
    return f"{what} {'overconfident' if z > 0 else 'underconfident'}"


def sentence(report: Report, test: JointTest) -> str:
    """The verdict on what was judged: kind, size with interval, p-value, what else is off, and the remedy."""
    kind, over, n = report.verdict_kind, report.overconfidence, report.data.n
    if kind == "check_labels":
        return f"check the labels first: {report.doubt}"
    if kind == "too_few":
        tested = f"no evidence of miscalibration in {n} rows" if report.draws else f"too few rows to test: {n}"
        low, high = (whole_points(end) for end in (over.interval.low, over.interval.high))
        needed = f"about {report.rows_needed:,} rows tell it to within 1 point"
        return f"{tested}; the mean gap lies between {low} and {high} points ({needed})"
    if kind == "calibrated":
        what = " of P(class 1)" if test.positive else ""
        p = report.p_text.removeprefix(f"{report.tested}: ")
        return f"calibrated: no significant miscalibration{what} (n = {n}, {p}); overconfidence {over}"
    found = [*_gaps(report, test), *_clauses(report)]
    remedy = remedy_words(report.split, report.data.n_classes)
    command = f": {report.advice.command}" if report.advice.command else ""
    return "; ".join([*found, (remedy or "fit a calibrator" * bool(command)) + command]).removesuffix("; ")


def _gaps(report: Report, test: JointTest) -> list[str]:
    """What the joint test found: the gap first that gives the verdict its name."""
    k, over, positive = report.data.n_classes, report.overconfidence, report.positive_gap
    if "confidence" not in report.findings:
        return [f"mixed: {'P(class 1)' if test.positive else 'the confidence'} is right overall ({report.p_text})"]
    words = []
    if report.verdict_kind != "mixed":
        size = over if report.verdict_kind == "overconfident" else over.turned
        words.append(f"{report.verdict_kind} by {size} ({report.size}, {report.p_text})")
    if test.positive and positive is not None:
        bias, slope = abs(test.gap.z) > TWO_SIDED, abs(test.sharpness.z) > TWO_SIDED
        if bias:
            way, size = ("high", positive) if positive.value > 0 else ("low", positive.turned)
            words.append(f"P(class 1) is too {way} by {size}")
        if slope:
            words.append(_sharpness(test.sharpness.z, k, positive=True))
        if not words:
            words.append("P(class 1) is right on average, but not at every probability")
    elif report.verdict_kind == "mixed":
        words.append(direction_words(test, k, True))
    if report.verdict_kind == "mixed":
        words[0] = f"mixed: {words[0]} ({report.p_text})"
    return words


def _clauses(report: Report) -> list[str]:
    """What single classes, groups and bins show beside it."""
    found, classes = [], report.classwise
    if "classes" in report.findings and classes is not None and "confidence" not in report.findings:
        are = "is" if classes.n_significant == 1 else "are"
        found.append(f"{classes.n_significant} of {report.data.n_classes} classes {are} miscalibrated in frequency")
    if "groups" in report.findings and report.groups is not None:
        found.append(groups_words(report.groups))
    if "bins" in report.findings and report.size in ("", SIZES[0][1]):
        found.append(bin_words(max(report.bins, key=lambda b: abs(b.gap) if b.significant else -1.0)))
    return found


def groups_words(groups: Groupwise) -> str:
    """How many groups are off, and the worst."""
    count = f"{groups.n_significant} of {groups.n_groups} groups are off"
    return f"{count}, most of all {groups.worst} by {groups.worst_gap:+.4f}{' of P(class 1)' * groups.of_positive}"


def bin_words(b: ConfidenceBin) -> str:
    """What happens in one bin of confidences."""
    ends = f"[{b.accuracy_low:.4f}, {b.accuracy_high:.4f}]"
    return f"of {b.n} rows with confidence {b.low:g} to {b.high:g}, {b.accuracy:.4f} {ends} are right"


def whole_points(gap: float) -> str:
    """A gap in whole percentage points, with its sign."""
    return f"{round(100 * gap):+d}" if round(100 * gap) else "0"


def remedy_method(split: Split | None, k: int | None, biased: bool) -> str:
    """The method to fit: what the split of the loss found, or what mends the commonest departure."""
    if split is None or not split.nll.detected:
        return "platt" if k is None or biased else "ts"
    if split.temperature_nll.calibration >= MENDS * split.nll.calibration or split.method == "ts":
        return "ts"
    # A scale and a bias of each of two log-probabilities are beta calibration's two slopes and its bias.
    return "beta" if k == 2 else split.method


def remedy_words(split: Split | None, k: int | None) -> str:
    """By how much recalibration could reduce the NLL, where held-out rows show that it could."""
    if split is None or not split.nll.detected:
        return ""
    method, by_temperature = remedy_method(split, k, False), split.temperature_nll.calibration
    if method == "ts":
        return f"temperature scaling could reduce NLL by {small(by_temperature)} (cross-validated)"
    share = max(by_temperature / split.nll.calibration, 0.0)
    return (
        f"recalibration could reduce NLL by {small(split.nll.calibration)} (cross-validated {split.method});"
        f" temperature scaling achieves {share:.0%} of it"
    )


def advice_on(report: Report, test: JointTest, name: str) -> Advice:
    """What to do about the rows called ``name``, from themselves alone."""
    kind, split, k = report.verdict_kind, report.split, report.data.n_classes
    if kind == "check_labels":
        command = f"calcli inspect {shlex.quote(name)}" if name else ""
        return Advice("Check the labels first.", report.doubt[0].upper() + report.doubt[1:], command)
    if kind == "too_few":
        why = "which tell the mean gap to within 1 point. Until then do not rely on it."
        return Advice(f"Label about {report.rows_needed:,} samples,", why)
    if kind == "calibrated":
        return Advice("Nothing.", "Measure again when the data change.")
    apart = " Groups need calibrators of their own." if "groups" in report.findings else ""
    if not {"confidence", "split"} & set(report.findings):
        per = "groups" if "groups" in report.findings else "classes" if "classes" in report.findings else ""
        rest = "or calibrate with a per-class method (svs, vs), or collect more such samples."
        if per != "classes":
            rest = "or fit a calibrator that bends (auto)." if not per else "or collect more of them."
        return Advice("Do not use it there,", rest + apart)
    method = remedy_method(split, k, test.positive and abs(test.gap.z) > TWO_SIDED)
    if kind == "mixed" and method == "ts" and (split is None or not split.nll.detected):
        method = "auto"  # the average is right: no one temperature mends it
    words = remedy_words(split, k)
    rest = f"on other labelled samples of this model. {words[:1].upper()}{words[1:]}{'.' * bool(words)}"
    return Advice(f"Fit a calibrator ({method})", f"{rest}{apart}".strip(), f"calcli fit --method {method} OTHERS.h5")


def small(x: float) -> str:
    """A gain in nats."""
    return f"{x:.4f}" if abs(x) >= 1e-4 else f"{x:.1e}"
