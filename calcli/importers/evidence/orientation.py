"""Whether the classes of scores are on the first axis, as some programs keep them."""

from calcli.errors import DataError
from calcli.importers.ragged import Shape


def refuse_classes_first(shape: Shape, label_shape: Shape, where: str) -> None:
    """Raise DataError for as many labels as columns of scores, not as rows.

    shape : of the scores, (rows, classes) as expected.
    """
    if len(shape) != 2:
        return
    k = max(shape[1], 2)
    if k != shape[0] and label_shape in ((k,), (k, 1), (1, k)):
        raise DataError(
            f"{where}: has shape {shape} for {k} labels: are the classes on the first"
            " axis? --class-axis 0 reads them so",
            option=["--class-axis", "0"],
        )
