"""The model half of calcli extract: its options, and the call."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from calcli.cli.render import Talk
    from calcli.importers.report import Report, Splitting

PANEL = "Running a model"

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="torch.export .pt2, TorchScript .pt, .onnx, or package.module:factory.",
        rich_help_panel=PANEL,
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights", metavar="FILE", help="State dict for a factory: .pt or .safetensors.", rich_help_panel=PANEL
    ),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="INPUTS",
        help="Array file (FILE or FILE:NAME), or a folder with one sub-folder of images per class.",
        rich_help_panel=PANEL,
    ),
]
Layout = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="nhwc|nchw|nhw|sequence|rows",
        help="How an input array is stored, when its shape does not say.",
        rich_help_panel=PANEL,
    ),
]
Scale = Annotated[
    float | None,
    typer.Option(
        "--scale",
        metavar="WHITE",
        help="Value of white: inputs are divided by it (bytes: 255).",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Resize = Annotated[
    str | None,
    typer.Option("--resize", metavar="HxW", help="Bring the images of a folder to one size.", rich_help_panel=PANEL),
]
Grey = Annotated[bool, typer.Option("--grey", help="Read the images of a folder as grey.", rich_help_panel=PANEL)]
Transform = Annotated[
    list[str] | None,
    typer.Option(
        "--transform",
        metavar="NAME:ARG[:TO]",
        help="Also score a lossy version: zoom, brightness, contrast, blur, pixelate, jpeg, drop, frames"
        " (repeatable; NAME:FROM:TO draws --transforms values).",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Transforms = Annotated[
    int, typer.Option("--transforms", metavar="N", min=1, help="Values to draw from each range.", rich_help_panel=PANEL)
]
Mean = Annotated[
    str | None,
    typer.Option(
        "--mean", metavar="M[,M,M]", help="The model's own normalisation, after the transforms.", rich_help_panel=PANEL
    ),
]
Std = Annotated[str | None, typer.Option("--std", metavar="S[,S,S]", help="See --mean.", rich_help_panel=PANEL)]
Batch = Annotated[int, typer.Option("--batch", metavar="N", min=1, help="Inputs at a time.", rich_help_panel=PANEL)]
ModelDevice = Annotated[
    str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where the model runs.", rich_help_panel=PANEL)
]
Amp = Annotated[
    str, typer.Option("--amp", metavar="off|bf16|fp16", help="Mixed precision of a torch model.", rich_help_panel=PANEL)
]
Dtype = Annotated[
    str,
    typer.Option(
        "--dtype", metavar="float16|float32|float64", help="Precision to store scores in.", rich_help_panel=PANEL
    ),
]


def numbers(option: str, text: str | None) -> tuple[float, ...]:
    """Read ``0.5`` or ``0.485,0.456,0.406``. Raises UsageError."""
    from calcli.errors import UsageError

    try:
        return tuple(float(piece) for piece in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(f"{option} {text}: expected numbers with commas between, e.g. 0.485,0.456,0.406") from None


def size(text: str | None) -> tuple[int, int] | None:
    """Read ``224`` or ``HEIGHTxWIDTH``. Raises UsageError."""
    from calcli.errors import UsageError

    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) not in (1, 2) or not all(side.isdigit() and int(side) > 0 for side in sides):
        raise UsageError(f"--resize {text}: expected HEIGHTxWIDTH in pixels, e.g. 224x224")
    return int(sides[0]), int(sides[-1])


def run(
    model: str,
    inputs: str | None,
    output: Path,
    splitting: "Splitting",
    talk: "Talk",
    *,
    mean: str | None,
    std: str | None,
    resize: str | None,
    transform: list[str] | None,
    force: bool,
    **settings: Any,
) -> "Report":
    """Run the model half; ``settings`` are further fields of ``extract.ModelJob``."""
    from calcli.calibrator import Context
    from calcli.errors import UsageError
    from calcli.extract.run import ModelJob, run_model

    if inputs is None:
        raise UsageError(f"--model {model}: needs --inputs FILE or FOLDER to run on")
    job = ModelJob(
        model=model,
        inputs=inputs,
        transform=tuple(transform or ()),
        mean=numbers("--mean", mean),
        std=numbers("--std", std),
        resize=size(resize),
        **settings,
    )
    try:
        return run_model(job, output, splitting, force=force, context=Context(progress=talk.progress))
    except KeyboardInterrupt:
        talk.say(f"interrupted; what is done is kept in {output}.part, repeat the command to go on")
        raise
    finally:
        talk.clear()
