"""Which of a bundle's transforms of the input a method uses."""

from collections.abc import Sequence

from calcli.errors import FitError, UsageError


def choose_pool(transforms: Sequence[str], pool: str, method: str) -> list[int]:
    """Indices of the transforms to draw from, in the order of the source.

    method : who asks. pool : ``all``, or names and full specs with commas between. Raises
    FitError when the rows have no transforms, UsageError for a name that none of them has.
    """
    if not transforms:
        raise FitError(
            f"{method} needs the scores of the same rows under transforms (dataset transforms/logits), these rows"
            " have none; calcli extract --model … --transform zoom:0.5:0.9 --transforms 10 makes them"
        )
    if pool == "all":
        return list(range(len(transforms)))
    wanted = [name.strip() for name in pool.split(",") if name.strip()]
    for name in wanted:
        if not any(name in (spec, spec.partition(":")[0]) for spec in transforms):
            raise UsageError(f"option pool={pool!r}: no transform is {name!r}; there are: {', '.join(transforms)}")
    return [m for m, spec in enumerate(transforms) if spec in wanted or spec.partition(":")[0] in wanted]
