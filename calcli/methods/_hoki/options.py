"""The options of Hoki."""

from typing import Annotated, Literal

from msgspec import Meta

from calcli.calibrator import Options

FAMILIES = ("gaussian", "uniform", "gumbel")

NOISE = Meta(
    description=(
        "family of the noise, drawn independently for every class; auto searches"
        " several together, transforms asks instead how often the prediction survives"
        " the bundle's transforms of the input"
    )
)

SCALE = Meta(
    description=(
        "standard deviation (gaussian), width (uniform) or scale (gumbel) of the"
        " noise, in units of the logits; searched when absent"
    )
)

GRID = Meta(
    description=(
        "scales to search: thirteen around the median gap of the two largest logits"
        " (relative), or 1, 2, ... 20 (40 for uniform noise), as printed"
    )
)

POOL = Meta(
    description=(
        "transforms of noise=transforms and of mix: all, or names and specs with"
        " commas (zoom,brightness:0.35)"
    )
)

SHARE = (
    "share of the bundle's transforms in the retention probability, the rest is the"
    " noise's"
)

MIX = (
    f"{SHARE} (0.5: the mixture of the paper's outlook); its transforms are then"
    " needed for new rows"
)

SELECT = Meta(
    description=(
        "how a scale is chosen: sd (the paper's largest standard deviation of the"
        " one-bin confidence), cv-nll (least NLL of right/wrong in a two-fold"
        " cross-validation)"
    )
)

GAMMA = Meta(
    description=(
        "retention probability: exact (an integral), mc (shared draws, as in the paper)"
    )
)

START = Meta(
    description=(
        "where the rounds start: one bin at the accuracy, or the uncalibrated"
        " confidence"
    )
)


class HokiOptions(Options, frozen=True):
    noise: Annotated[
        Literal["gaussian", "uniform", "gumbel", "auto", "transforms"], NOISE
    ] = "gaussian"
    families: Annotated[
        str,
        Meta(
            description=(
                "families that noise=auto searches, with commas (the paper has"
                " gaussian,uniform)"
            )
        ),
    ] = ",".join(FAMILIES)
    scale: Annotated[Annotated[float, Meta(ge=1e-9, le=1e9)] | None, SCALE] = None
    scales: Annotated[
        str,
        Meta(
            description=(
                "scales to search, with commas (1,2,4); instead of the grid when given"
            )
        ),
    ] = ""
    grid: Annotated[Literal["relative", "printed"], GRID] = "relative"
    pool: Annotated[str, POOL] = "all"
    mix: Annotated[float, Meta(ge=0.0, le=1.0, description=MIX)] = 0.0
    select: Annotated[Literal["sd", "cv-nll"], SELECT] = "sd"
    gamma: Annotated[Literal["exact", "mc"], GAMMA] = "exact"
    samples: Annotated[
        int,
        Meta(
            ge=1, le=1_000_000, description="draws of gamma=mc, the same for all rows"
        ),
    ] = 1000
    bins: Annotated[
        int, Meta(ge=1, le=10_000, description="equal-width bins of the confidence")
    ] = 15
    rounds: Annotated[
        int,
        Meta(ge=1, le=10_000, description="most rounds until the bins have to stay"),
    ] = 50
    init: Annotated[Literal["accuracy", "confidence"], START] = "accuracy"
    mean: Annotated[
        float | None,
        Meta(
            description=(
                "mean of the noise: accepted, without effect (argmax ignores it)"
            )
        ),
    ] = None
