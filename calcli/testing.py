"""Assertions on calibration, for the test suites of other programs."""

from collections.abc import Sequence
from typing import Any

from calcli.api import Evaluation, FittedCalibrator, Scores, evaluate
from calcli.errors import UsageError
from calcli.evaluation.verdict_limits import FailOn

__all__ = ["assert_calibrated"]

FAILING = ("overconfident", "underconfident", "mixed", "check_labels")
"""Verdicts that fail. Too few samples show nothing, and pass."""


def assert_calibrated(
    scores: Scores,
    labels: Any = None,
    calibrator: FittedCalibrator | None = None,
    kind: str | None = None,
    *,
    fail_on: str | Sequence[str] = FAILING,
    **settings: Any,
) -> Evaluation:
    """Assert that scores are calibrated, as far as these samples can tell.

    scores, labels, kind, settings : as for ``calcli.evaluate``. calibrator : applied to the
    scores before they are judged. fail_on : kinds of verdicts that fail; add ``too_few`` to
    ask for enough samples. Returns the evaluation. Raises AssertionError with the headline
    and all findings.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet(np.ones(3), size=5000)
    >>> labels = [rng.choice(3, p=row) for row in probs]
    >>> assert_calibrated(probs, labels).results[0].report.verdict.kind
    'calibrated'
    """
    if settings.get("metrics") is not None:
        raise UsageError(
            "metrics: they come without a verdict to assert; leave them out"
        )
    words = fail_on if isinstance(fail_on, str) else ",".join(fail_on)
    failing = FailOn.parse(words or None)
    calibrators = () if calibrator is None else (calibrator,)
    evaluation = evaluate(scores, labels, calibrators, kind, **settings)
    judged = evaluation.results[-1].report
    assert judged is not None
    if judged.verdict.kind in failing.kinds:
        raise AssertionError("\n  ".join([judged.headline, *judged.lines]))
    return evaluation
