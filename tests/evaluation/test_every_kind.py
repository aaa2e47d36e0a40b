"""Data that show every kind of finding and every kind of verdict, in real evaluations."""

import warnings
from typing import get_args

import numpy as np
import pytest
from metric_cases import draw_labels, softmax

import calcli
from calcli.evaluation.verdict import VerdictKind
from calcli.evaluation.words import _LINES


def logistic(s):
    return 1.0 / (1.0 + np.exp(-s))


def two(s):
    """Logits of two classes with log-odds ``s``."""
    return np.stack([np.zeros_like(s), s], axis=1)


def evaluated(scores, labels, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calcli.evaluate(scores, labels, **more)


def risks(n=1000, slope=1.0, bias=0.0, seed=0):
    """Log-odds, and labels that are drawn with ``slope`` and ``bias``."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n) * 2
    return s, (rng.random(n) < logistic(slope * s + bias)).astype(int)


def calibrated():
    s, y = risks()
    return evaluated(two(s), y)


def overconfident():
    s, y = risks(slope=0.5)
    return evaluated(two(s), y)


def underconfident():
    s, y = risks(slope=2.0)
    return evaluated(two(s), y)


def few_rows():
    s, y = risks(n=10)
    return evaluated(two(s), y)


def reversed_labels():
    s, y = risks()
    return evaluated(two(s), 1 - y)


def one_frequency():
    """Every row states (.4, .3, .3); the labels are drawn from (.4, .2, .4)."""
    y = np.random.RandomState(3).choice(3, 1000, p=[0.4, 0.2, 0.4])
    return evaluated(np.tile([0.4, 0.3, 0.3], (1000, 1)), y, kind="probs")


def exact_frequencies():
    """Each of 20 probabilities p, for 500 rows of which 500 p are of class 1."""
    p = np.repeat(np.arange(1, 21) / 22.0, 500)
    y = np.concatenate([np.arange(500) < round(500 * q) for q in p[::500]])
    return evaluated(np.stack([1 - p, p], axis=1), y.astype(int), kind="probs")


def copies():
    """Every row twice, without ids."""
    s, y = risks(n=300)
    return evaluated(two(np.repeat(s, 2)), np.repeat(y, 2))


def without_a_class():
    """Labels that the scores are right about, without those of class 4."""
    rng = np.random.RandomState(0)
    z = rng.normal(size=(600, 5)) * 2
    y = draw_labels(softmax(z), rng)
    return evaluated(z[y != 4], y[y != 4])


def balanced_samples():
    """Right risks of a rare class, and samples of which half are of that class."""
    rng = np.random.default_rng(0)
    s = rng.normal(size=100_000) * 1.5 - 3.6
    y = (rng.random(len(s)) < logistic(s)).astype(int)
    chosen = np.concatenate([np.flatnonzero(y == c)[:600] for c in (0, 1)])
    return evaluated(two(s[chosen]), y[chosen])


def few_events():
    rng = np.random.default_rng(0)
    s = rng.normal(size=2000) * 1.5 - 7.5
    y = (rng.random(2000) < logistic(s / 1.6 - 1.0)).astype(int)
    return evaluated(two(s), y)


def wrong_in_groups(n):
    """Log-odds that are right in one group, too high and too low in the others."""
    rng = np.random.default_rng(1)
    group = np.arange(n) % 3
    s = rng.normal(size=n)
    bias = np.array([-1.0, 1.0, 0.0])[group]
    y = (rng.random(n) < logistic(s + bias)).astype(int)
    return evaluated(two(s), y, groups=np.array(["north", "south", "west"])[group])


def rounded():
    """Probabilities with two decimals."""
    z = np.random.RandomState(0).normal(size=(400, 3)) * 2
    p = softmax(z)
    return evaluated(p.round(2), draw_labels(p, np.random.RandomState(1)), kind="probs")


def some_groups():
    return wrong_in_groups(1500)


def many_rows_in_groups():
    """More rows than calibrators by group are tried on."""
    return wrong_in_groups(101_000)


def nearly_constant():
    """Confidences .70 to .71 that are right in 55 to 85 %, .70 on average."""
    rng = np.random.RandomState(0)
    step = np.arange(2000) % 4
    c = 0.7 + 1e-4 * step + 1e-5 * rng.random_sample(2000)
    is_right = rng.random_sample(2000) < 0.55 + 0.1 * step
    return evaluated(c, is_right.astype(int), kind="confidence")


def calibrators():
    """Bent logits, for which no temperature is right, with one of 600 other rows."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(3600, 6)) * 2.0
    bent = 1.5 * np.sign(z) * np.abs(z) ** 0.75
    y = (bent + rng.gumbel(size=z.shape)).argmax(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = calcli.fit(z[:600], y[:600], "ts")
    return evaluated(z[600:], y[600:], calibrators=[fitted])


VERDICTS = {
    "calibrated": calibrated,
    "overconfident": overconfident,
    "underconfident": underconfident,
    "mixed": one_frequency,
    "too_few": few_rows,
    "check_labels": reversed_labels,
}
"""Kind of verdict -> data whose scores as given have it."""

FINDINGS = {
    "labels": reversed_labels,
    "data": copies,
    "too_good": exact_frequencies,
    "lacking": without_a_class,
    "sampled": balanced_samples,
    "few_events": few_events,
    "groups": some_groups,
    "by_group": some_groups,
    "by_group_untried": many_rows_in_groups,
    "classes": one_frequency,
    "range": overconfident,
    "errors": nearly_constant,
    "gain": overconfident,
    "left_by_fit": calibrators,
    "effect": calibrators,
    "note": rounded,
}
"""Kind of finding -> data that have it."""


@pytest.mark.parametrize(("kind", "data"), list(VERDICTS.items()))
def test_data_have_the_verdict(kind, data):
    report = data().to_dict()["results"][0]["report"]
    assert report["verdict_kind"] == kind
    assert report["verdict"]


@pytest.mark.parametrize(("kind", "data"), list(FINDINGS.items()))
def test_data_have_the_finding(kind, data):
    messages = []
    for result in data().to_dict()["results"]:
        messages += result["report"]["messages"]
    texts = [message["text"] for message in messages if message["kind"] == kind]
    assert texts and all(texts)


def test_every_kind_of_verdict_has_data():
    assert set(VERDICTS) == set(get_args(VerdictKind)), "data for it in VERDICTS"


def test_every_kind_of_finding_has_data():
    """``test_verdict.py`` holds that ``_LINES`` has every kind that is made."""
    assert set(FINDINGS) == set(_LINES), "data for it in FINDINGS"
