"""Classifications as objects: a label, with a confidence where a model has given it."""

from collections.abc import Mapping, Sequence
from typing import Any

from calcli.errors import DataError

Classification = Mapping[str, Any]


def are_predictions(classifications: Sequence[Classification]) -> bool:
    """True where every label has a confidence."""
    return all(cell.get("confidence") is not None for cell in classifications)


def are_truths(classifications: Sequence[Classification]) -> bool:
    """True where no label has a confidence."""
    return all(cell.get("confidence") is None for cell in classifications)


def predictions_and_truths(
    fields: Mapping[str, Sequence[Classification]], where: object, advice: str
) -> tuple[Sequence[Classification], Sequence[Classification]]:
    """The one field of predictions, and the one of right labels. Raises DataError."""
    predicted = [name for name, cells in fields.items() if are_predictions(cells)]
    right = [name for name, cells in fields.items() if are_truths(cells)]
    if len(predicted) == 1 and len(right) == 1:
        return fields[predicted[0]], fields[right[0]]
    raise DataError(
        f"{where}: has {', '.join(predicted) or 'no field'} with confidences on all"
        f" samples; {', '.join(right) or 'no field'} without any; expected one field of"
        f" predictions, and one of right labels; {advice}"
    )
