"""Classifications as objects: a label, with a confidence where a model has given it."""

from collections.abc import Mapping, Sequence
from typing import Any

from calcli.errors import DataError
from calcli.items import present

Classification = Mapping[str, Any]


def are_predictions(classifications: Sequence[Classification]) -> bool:
    """True where every label has a confidence."""
    return _n_confidences(classifications) == len(classifications)


def _n_confidences(classifications: Sequence[Classification]) -> int:
    return len(present(cell.get("confidence") for cell in classifications))


def predictions_and_truths(
    fields: Mapping[str, Sequence[Classification]], where: object, advice: str
) -> tuple[Sequence[Classification], Sequence[Classification]]:
    """The one field of predictions, and the one of right labels. Raises DataError."""
    predicted = []
    right = []
    for name, classifications in fields.items():
        if are_predictions(classifications):
            predicted.append(name)
        elif _n_confidences(classifications) == 0:
            right.append(name)
    if len(predicted) == 1 and len(right) == 1:
        return fields[predicted[0]], fields[right[0]]
    raise DataError(
        f"{where}: has {', '.join(predicted) or 'no field'} with confidences on all"
        f" samples; {', '.join(right) or 'no field'} without any; expected one field of"
        f" predictions, and one of right labels; {advice}"
    )
