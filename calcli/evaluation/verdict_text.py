"""The verdict in words: what the tests decided, one sentence about one set of rows.

Of two classes it speaks of P(class 1), which is all there is to be wrong; of more, of the
confidence first and of the other probabilities after it.
"""

import math

from calcli.evaluation.joint_test import JointTest
from calcli.evaluation.verdict_results import Classwise, Groupwise, Split
from calcli.metrics.intervals import normal_quantile
from calcli.metrics.significance import MeanGap

TWO_SIDED = normal_quantile(0.975)
ONE_SIDED = normal_quantile(0.95)
MENDS, HELPS = 0.9, 0.5
"""Shares of the calibration loss that a temperature must remove to be the remedy, or to be of use."""

CLEAN_DIRECTION = "neither over- nor underconfident beyond chance"


def direction_words(test: JointTest, k: int | None, rejected: bool) -> str:
    """In words what of a departure is an over- or underconfidence, and of what. k : None of confidences alone."""
    if not rejected:
        return CLEAN_DIRECTION
    gap_z, entropy_z = test.gap.z, test.entropy.z
    if abs(gap_z) <= TWO_SIDED and abs(entropy_z) <= TWO_SIDED:
        return "right on average, not at every confidence"
    if abs(gap_z) <= TWO_SIDED:
        return _sharpness(entropy_z, k)
    way = "overconfident" if gap_z > 0 else "underconfident"
    if abs(entropy_z) > TWO_SIDED and (entropy_z > 0) != (gap_z > 0):
        rest = (
            "on average, not at every confidence"
            if k == 2
            else "about the predicted class, the opposite about the others"
        )
        return f"{way} {rest}"
    return way


def _sharpness(entropy_z: float, k: int | None) -> str:
    """What is too sure, or not sure enough, where the mean confidence is right."""
    if k == 2:
        side = "too close to" if entropy_z > 0 else "too far from"
        return f"the confidence is right on average, but P(class 1) is often {side} 0 and 1"
    what = "single confidences are" if k is None else "the probabilities as a whole are"
    return f"the confidence is right on average, but {what} {'too sure' if entropy_z > 0 else 'not sure enough'}"


def clean_text(
    n: int,
    k: int | None,
    p: float,
    *,
    positive: MeanGap | None,
    classes: Classwise | None,
    groups: Groupwise | None,
    split: Split | None,
) -> str:
    """The verdict where the joint test finds nothing. The findings given are those beyond chance, else None."""
    what = "P(class 1)" if k == 2 else "the confidence"
    text = f"calibrated within noise: {n} rows cannot tell {what} from a calibrated one (p = {p:.2g})"
    found = []
    if split is not None:
        gain = f"{split.method} would take {_small(split.nll.calibration)} off a log loss of {split.nll.loss:.4f}"
        found.append(f"P(class 1) is off: {gain}" if k == 2 else f"the whole vector can be improved: {gain}")
    if positive is not None:
        found.insert(0, _positive(positive))
    elif classes is not None:
        get = "gets" if classes.n_significant == 1 else "get"
        found.append(f"{classes.n_significant} of {k} classes {get} too much or too little probability")
    if groups is not None:
        found.append(_groups(groups))
    return f"{text}, but {'; '.join(found)}" if found else text


def _positive(positive: MeanGap) -> str:
    return f"P(class 1) is too {'high' if positive.gap > 0 else 'low'} by {abs(positive.gap):.4f} on average"


def _groups(groups: Groupwise) -> str:
    count = f"{groups.n_significant} of {groups.n_groups} groups are off"
    return f"{count}, most of all {groups.worst} by {groups.worst_gap:+.4f}{' of P(class 1)' * groups.of_positive}"


def wrong_text(
    test: JointTest,
    k: int | None,
    split: Split | None,
    level: float,
    *,
    positive: MeanGap | None,
    groups: Groupwise | None,
) -> str:
    """The verdict where the joint test rejects: what is wrong, and whether a temperature mends it."""
    gap, z = test.gap.gap, test.gap.z
    if abs(z) > TWO_SIDED:
        reach = normal_quantile(0.5 + level / 2.0) * abs(gap / z)
        text = f"{'overconfident' if gap > 0 else 'underconfident'} by {abs(gap):.4f}"
        text += f" ±{reach:.4f} ({level:.0%})" if math.isfinite(z) else ""
    elif abs(test.entropy.z) > TWO_SIDED:
        text = _sharpness(test.entropy.z, k)
    else:
        text = "right on average, but too sure at some confidences and not sure enough at others"
    if positive is not None:
        text = f"{_positive(positive)}; {text}"
    if groups is not None:
        text += f"; {_groups(groups)}"
    if split is None or split.nll.z <= ONE_SIDED:
        return text
    by_temperature = split.temperature_nll.calibration
    share = by_temperature / split.nll.calibration
    if share >= MENDS or split.method == "ts":
        return f"{text}; a temperature would remove {_small(by_temperature)} of the log loss (calcli fit --method ts)"
    rest = f"{max(share, 0.0):.0%} of the {_small(split.nll.calibration)} of log loss that "
    # A scale and a bias of each of two log-probabilities are beta calibration's two slopes and its bias.
    rest += (
        "two slopes and a bias would remove (calcli fit --method beta)" if k == 2 else f"{split.method} would remove"
    )
    if share >= HELPS:
        return f"{text}; a temperature would remove only {rest}"
    return f"{text}; a temperature cannot fix this: it removes {rest}"


def _small(x: float) -> str:
    return f"{x:.4f}" if abs(x) >= 1e-4 else f"{x:.1e}"
