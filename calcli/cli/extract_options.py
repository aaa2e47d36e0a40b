"""Options of ``calcli extract``: how saved scores are read, and how a model is run."""

from dataclasses import dataclass
from typing import Annotated

import typer

from calcli.cli.options import Columns
from calcli.extracting.model_inputs import LAYOUTS, ModelOptions
from calcli.importers.import_request import NORMALIZE, REDUCE, ImportOptions
from calcli.settings import common_fields

MODELS = "torch.export .pt2, TorchScript .pt, .onnx, or package.module:factory"
INPUTS = (
    "Array file (FILE or FILE:NAME), or a folder with one sub-folder of images per class; a quoted pattern of array"
    " files writes a bundle each into the folder OUT."
)
LOSSY = (
    "Also score a lossy version: zoom, brightness, contrast, blur, pixelate, jpeg, drop, frames (repeatable;"
    " NAME:FROM:TO draws --transforms values)."
)


@dataclass(frozen=True, kw_only=True)
class Importing(Columns):
    """Options for reading arrays whose names do not determine their meaning."""

    class_names: Annotated[
        str | None,
        typer.Option(
            "--class-names",
            metavar="A,B,…",
            help="Names of the classes, in the order of the scores.",
            show_default=False,
        ),
    ] = None
    normalize: Annotated[
        str,
        typer.Option(
            "--normalize",
            metavar="|".join(NORMALIZE),
            help="Probabilities: divided by the sum of their row. Log-likelihoods of choices:"
            " per character, per byte, or minus the unconditional ones.",
        ),
    ] = "none"
    choices: Annotated[
        int | None,
        typer.Option(
            "--choices", metavar="N", help="Take the questions with N candidates only."
        ),
    ] = None
    filter: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="NAME", help="Take the answers after this filter."
        ),
    ] = None
    classes: Annotated[
        int | None,
        typer.Option(
            "--classes",
            metavar="C",
            help="Of top-k tables: how many classes there are.",
            min=2,
        ),
    ] = None
    class_axis: Annotated[
        int | None,
        typer.Option(
            "--class-axis",
            metavar="AXIS",
            help="Axis of the classes, of scores of pixels or tokens.",
            min=-9,
            max=9,
        ),
    ] = None
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            help="Take N positions, or rows, of each unit, drawn by --seed.",
            min=1,
        ),
    ] = None
    reduce: Annotated[
        str | None,
        typer.Option(
            "--reduce",
            metavar="|".join(REDUCE),
            help="Of several scores a row (tokens, prompts): how they become one.",
        ),
    ] = None
    gold: Annotated[
        str | None,
        typer.Option(
            "--gold",
            metavar="FILE|COLUMN",
            help="Another file with the right answers, joined by ids; with --votes their"
            " column.",
        ),
    ] = None
    votes: Annotated[
        str | None,
        typer.Option(
            "--votes",
            metavar="COLUMN|A:B",
            help="Answers drawn several times a question; see --gold and --unit.",
        ),
    ] = None
    join: Annotated[
        bool,
        typer.Option(
            "--join", help="The sources are parts of one data set: shards, ranks."
        ),
    ] = False
    drop_duplicates: Annotated[
        bool,
        typer.Option(
            "--drop-duplicates",
            help="Drop rows that repeat id, scores and label of an earlier one; count them.",
        ),
    ] = False
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Leave out rows where a score, the label or a column in use is empty; count.",
        ),
    ] = False
    percent: Annotated[
        bool,
        typer.Option(
            "--percent", help="Probabilities and confidences go from 0 to 100."
        ),
    ] = False
    per_label: Annotated[
        bool,
        typer.Option(
            "--per-label",
            help="Labels of which several may hold: a two-class bundle for each.",
        ),
    ] = False
    confidence: Annotated[
        str | None,
        typer.Option(
            "--confidence",
            metavar="NAME",
            help="Array of confidences, instead of scores.",
        ),
    ] = None
    correct: Annotated[
        str | None,
        typer.Option(
            "--correct",
            metavar="NAME|A=B",
            help="Array of right and wrong, or two whose agreement is right.",
        ),
    ] = None

    @property
    def import_options(self) -> ImportOptions:
        """The options as readers take them. Raises UsageError."""
        return ImportOptions(**common_fields(ImportOptions, self))


@dataclass(frozen=True, kw_only=True)
class RunningModel:
    """Options to run a model."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help=f"{MODELS}. A model is a program: run only one that you trust.",
        ),
    ] = None
    inputs: Annotated[
        str | None, typer.Option("--inputs", metavar="INPUTS", help=INPUTS)
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="FILE",
            help="State dict for a factory: .pt or .safetensors.",
        ),
    ] = None
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout",
            metavar="|".join(LAYOUTS),
            help="How an input array is stored, when its shape does not say.",
        ),
    ] = None
    scale: Annotated[
        float | None,
        typer.Option(
            "--scale",
            metavar="WHITE",
            help="Value of white: inputs are divided by it (bytes: 255).",
        ),
    ] = None
    resize: Annotated[
        str | None,
        typer.Option(
            "--resize", metavar="HxW", help="Bring the images of a folder to one size."
        ),
    ] = None
    grey: Annotated[
        bool, typer.Option("--grey", help="Read the images of a folder as grey.")
    ] = False
    transform: Annotated[
        list[str] | None,
        typer.Option("--transform", metavar="NAME:ARG[:TO]", help=LOSSY),
    ] = None
    transforms: Annotated[
        int,
        typer.Option(
            "--transforms",
            metavar="N",
            help="Values to draw from each range.",
            min=1,
            max=10_000,
        ),
    ] = 10
    mean: Annotated[
        str | None,
        typer.Option(
            "--mean",
            metavar="M[,M,M]",
            help="The model's own normalisation, after the transforms.",
        ),
    ] = None
    std: Annotated[
        str | None, typer.Option("--std", metavar="S[,S,S]", help="See --mean.")
    ] = None
    batch: Annotated[
        int,
        typer.Option(
            "--batch", metavar="N", help="Inputs at a time.", min=1, max=1_000_000
        ),
    ] = 64
    device: Annotated[
        str,
        typer.Option("--device", metavar="auto|cpu|cuda", help="Where the model runs."),
    ] = "auto"
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype",
            metavar="float16|float32|float64",
            help="Precision to store scores in.",
        ),
    ] = "float32"

    @property
    def model_options(self) -> ModelOptions:
        """The options as the run of a model takes them. Raises UsageError."""
        return ModelOptions(**common_fields(ModelOptions, self))
