"""Logs of decision models: answers to typed questions, with probabilities.

``answers`` finds the answers in a JSON record, ``labels`` what is right, ``log`` reads
whole logs, ``wire_confidence`` knows the formulas of the field ``confidence``,
``calibrate`` replaces the numbers of an answer. Nothing here needs h5py.

``load`` reads a calibrator that ``calcli fit LOG`` wrote, for clients: its method
``answers(response)`` returns the response with calibrated answers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calcli.decisions.calibrate import AnswerCalibrator as AnswerCalibrator
    from calcli.decisions.calibrate import load as load


def __getattr__(name: str) -> Any:
    """Load the client's part when it is used."""
    if name not in ("AnswerCalibrator", "load"):
        raise AttributeError(f"module 'calcli.decisions' has no attribute {name!r}")
    from calcli.decisions import calibrate

    return getattr(calibrate, name)
