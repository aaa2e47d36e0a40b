"""Other libraries' calibrators; run by their own Python as a worker of ``quality.py``.

    python quality_worker.py SECONDS < requests > answers

A request is a line with the path of an .npz (z, y, z_test, y_test); the answer is a line of JSON:
per calibrator the test NLL and the processor seconds, or the reason why there is none.
"""

import contextlib
import importlib
import json
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

LIBRARIES = (
    "probmetrics.calibrators",
    "netcal.scaling",
    "sklearn.calibration",
    "venn_abers",
)

FLOOR = 1e-12
"""Probabilities of 0 are raised to this, so that a peer's mean is finite."""


def log_softmax(z: Any) -> Any:
    z = z - z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def probmetrics_named(name: str) -> Callable[..., Any]:
    def run(z: Any, y: Any, z_test: Any) -> Any:
        from probmetrics.calibrators import get_calibrator

        fitted = get_calibrator(name).fit(np.exp(log_softmax(z)), y)
        return fitted.predict_proba(np.exp(log_softmax(z_test)))

    return run


def probmetrics_beta(z: Any, y: Any, z_test: Any) -> Any:
    """Beta calibration of P(1), or of every class against the rest, divided by the sum."""
    from probmetrics.calibrators.base import MulticlassOneVsRestCalibrator
    from probmetrics.calibrators.logistic import BetacalCalibrator

    fitted = MulticlassOneVsRestCalibrator(BetacalCalibrator()).fit(
        np.exp(log_softmax(z)), y
    )
    return fitted.predict_proba(np.exp(log_softmax(z_test)))


def netcal_named(name: str) -> Callable[..., Any]:
    def run(z: Any, y: Any, z_test: Any) -> Any:
        from netcal import scaling

        fitted = getattr(scaling, name)()
        p, p_test = np.exp(log_softmax(z)), np.exp(log_softmax(z_test))
        two = z.shape[1] == 2
        fitted.fit(p[:, 1] if two else p, y)
        q = np.asarray(fitted.transform(p_test[:, 1] if two else p_test))
        return np.stack([1 - q, q], axis=1) if q.ndim == 1 else q

    return run


def scikit_learn_named(name: str) -> Callable[..., Any]:
    def run(z: Any, y: Any, z_test: Any) -> Any:
        from sklearn.base import BaseEstimator, ClassifierMixin
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        class Scores(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
            """Passes scores through."""

            def fit(self, x: Any, y: Any = None) -> Any:
                return self

            def decision_function(self, x: Any) -> Any:
                return x[:, 1] - x[:, 0] if x.shape[1] == 2 else x

            def predict(self, x: Any) -> Any:
                return x.argmax(axis=1)

        scores = Scores()
        scores.classes_ = np.arange(z.shape[1])
        scores.n_features_in_ = z.shape[1]
        fitted = CalibratedClassifierCV(FrozenEstimator(scores), method=name).fit(z, y)
        q = np.zeros(z_test.shape)
        q[:, fitted.classes_] = fitted.predict_proba(z_test)
        return q

    return run


def venn_abers(z: Any, y: Any, z_test: Any) -> Any:
    from venn_abers import VennAbersCalibrator

    p, p_test = np.exp(log_softmax(z)), np.exp(log_softmax(z_test))
    return VennAbersCalibrator().predict_proba(
        p_cal=p, y_cal=y, p_test=p_test, va_type="one_vs_all"
    )


TWO, TEN, ANY = 2, 12, 1_000_000

PEERS: dict[str, tuple[int, Callable[..., Any]]] = {
    "probmetrics temp-scaling": (ANY, probmetrics_named("temp-scaling")),
    "probmetrics svs": (ANY, probmetrics_named("svs")),
    "probmetrics sms": (ANY, probmetrics_named("sms")),
    "probmetrics beta": (100, probmetrics_beta),
    "probmetrics quadratic": (TWO, probmetrics_named("quadratic-scaling")),
    "probmetrics affine": (TWO, probmetrics_named("affine-scaling")),
    "netcal temperature": (TEN, netcal_named("TemperatureScaling")),
    "netcal beta": (TEN, netcal_named("BetaCalibration")),
    "scikit-learn temperature": (ANY, scikit_learn_named("temperature")),
    "scikit-learn sigmoid": (100, scikit_learn_named("sigmoid")),
    "scikit-learn isotonic": (100, scikit_learn_named("isotonic")),
    "venn-abers": (TEN, venn_abers),
}
"""Name to the most classes it is asked to serve, and how it is run: z, y, z_test to probabilities."""


class TooLong(Exception):
    """The seconds are over."""


def ring(*_: Any) -> None:
    raise TooLong


def answer(path: str, seconds: int) -> dict[str, Any]:
    with np.load(path) as file:
        z, y, z_test, y_test = (file[name] for name in ("z", "y", "z_test", "y_test"))
    found: dict[str, Any] = {}
    for name, (most, run) in PEERS.items():
        if z.shape[1] > most:
            continue
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            q = np.maximum(np.asarray(run(z, y, z_test), dtype=float), FLOOR)
            nll = -np.log(
                (q / q.sum(axis=1, keepdims=True))[np.arange(len(y_test)), y_test]
            ).mean()
            found[name] = {
                "nll": float(nll),
                "cpu_seconds": time.process_time() - began,
            }
        except TooLong:
            found[name] = {"skipped": f"not done after {seconds} processor seconds"}
        # a peer that breaks, or is not there, is a result too
        except Exception as problem:
            found[name] = {
                "skipped": f"{type(problem).__name__}: {problem}".split("\n")[0][:200]
            }
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return found


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr  # some libraries print
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, ring)
    # outside any limit: an interrupted import breaks what comes after
    for library in LIBRARIES:
        with contextlib.suppress(Exception):
            importlib.import_module(library)
    for line in sys.stdin:
        print(
            json.dumps(answer(line.strip(), int(sys.argv[1]))), file=answers, flush=True
        )


if __name__ == "__main__":
    main()
