"""Options of ``calcli extract``: how saved scores are read, and how a model is run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from calcli.cli.options import Columns
from calcli.errors import UsageError
from calcli.extracting.model_inputs import LAYOUTS, ModelOptions
from calcli.importers.import_request import REDUCE, ImportOptions
from calcli.settings import common_fields

MODELS = "torch.export .pt2, TorchScript .pt, .onnx, or package.module:factory"
INPUTS = (
    "Array file (FILE or FILE:NAME), or a folder with one sub-folder of images per"
    " class; a quoted pattern of array files writes a bundle each into the folder OUT."
)
LOSSY = (
    "Also score a lossy version: zoom, brightness, contrast, blur, pixelate, jpeg,"
    " drop, frames (repeatable; NAME:FROM:TO[:N] draws N values)."
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
            rich_help_panel="Input",
        ),
    ] = None
    choices: Annotated[
        int | None,
        typer.Option(
            "--choices",
            metavar="N",
            help="Take the questions with N candidates only.",
            rich_help_panel="Language models",
        ),
    ] = None
    filter: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="NAME",
            help="Take the answers after this filter.",
            rich_help_panel="Language models",
        ),
    ] = None
    classes: Annotated[
        int | None,
        typer.Option(
            "--classes",
            metavar="C",
            help="Of top-k tables: how many classes there are.",
            min=2,
            rich_help_panel="Input",
        ),
    ] = None
    class_axis: Annotated[
        int | None,
        typer.Option(
            "--class-axis",
            metavar="AXIS",
            help="Axis of the classes: 0 of (classes, rows), else of pixels or tokens.",
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
            rich_help_panel="Language models",
        ),
    ] = None
    gold: Annotated[
        str | None,
        typer.Option(
            "--gold",
            metavar="FILE|COLUMN",
            help="Another file with the right answers, joined by ids; with --votes"
            " their column.",
            rich_help_panel="Input",
        ),
    ] = None
    votes: Annotated[
        str | None,
        typer.Option(
            "--votes",
            metavar="COLUMN|A:B",
            help="Answers drawn several times a question; see --gold and --unit.",
            rich_help_panel="Language models",
        ),
    ] = None
    join: Annotated[
        bool,
        typer.Option(
            "--join",
            help="The sources are parts of one data set: shards, ranks.",
            rich_help_panel="Input",
        ),
    ] = False
    drop_duplicates: Annotated[
        bool,
        typer.Option(
            "--drop-duplicates",
            help="Drop rows that repeat id, scores and label of an earlier one; count"
            " them.",
            rich_help_panel="Rows",
        ),
    ] = False
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Leave out rows where a score, the label or a column in use is empty;"
            " count.",
            rich_help_panel="Rows",
        ),
    ] = False
    percent: Annotated[
        bool,
        typer.Option(
            "--percent",
            help="Probabilities and confidences go from 0 to 100.",
            rich_help_panel="Input",
        ),
    ] = False
    per_label: Annotated[
        bool,
        typer.Option(
            "--per-label",
            help="Labels of which several may hold: a two-class bundle for each.",
            rich_help_panel="Input",
        ),
    ] = False
    confidence: Annotated[
        str | None,
        typer.Option(
            "--confidence",
            metavar="NAME",
            help="Array of confidences, instead of scores.",
            rich_help_panel="Input",
        ),
    ] = None
    correct: Annotated[
        str | None,
        typer.Option(
            "--correct",
            metavar="NAME|A=B",
            help="Array of right and wrong; A=B: where two, or one and a word, agree.",
            rich_help_panel="Input",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunningModel:
    """Options to run a model."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help=f"{MODELS}. A model is a program: run only one that you trust.",
            rich_help_panel="Running a model",
        ),
    ] = None
    inputs: Annotated[
        str | None,
        typer.Option(
            "--inputs", metavar="INPUTS", help=INPUTS, rich_help_panel="Running a model"
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="FILE",
            help="State dict for a factory: .pt or .safetensors.",
            rich_help_panel="Running a model",
        ),
    ] = None
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout",
            metavar="|".join(LAYOUTS),
            help="How an input array is stored, when its shape does not say.",
            rich_help_panel="Running a model",
        ),
    ] = None
    resize: Annotated[
        str | None,
        typer.Option(
            "--resize",
            metavar="HxW",
            help="Bring the images of a folder to one size.",
            rich_help_panel="Running a model",
        ),
    ] = None
    grey: Annotated[
        bool,
        typer.Option(
            "--grey",
            help="Read the images of a folder as grey.",
            rich_help_panel="Running a model",
        ),
    ] = False
    transform: Annotated[
        list[str] | None,
        typer.Option(
            "--transform",
            metavar="NAME:ARG[:TO[:N]]",
            help=LOSSY,
            rich_help_panel="Running a model",
        ),
    ] = None
    batch: Annotated[
        int,
        typer.Option(
            "--batch",
            metavar="N",
            help="Inputs at a time.",
            min=1,
            max=1_000_000,
            rich_help_panel="Running a model",
        ),
    ] = 64
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="auto|cpu|cuda",
            help="Where the model runs.",
            rich_help_panel="Running a model",
        ),
    ] = "auto"
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype",
            metavar="float16|float32|float64",
            help="Precision to store scores in.",
            rich_help_panel="Running a model",
        ),
    ] = "float32"


@dataclass(frozen=True, kw_only=True)
class ExtractOptions(RunningModel, Importing):
    """Options to import saved scores, or to run a model."""

    normalize: Annotated[
        list[str] | None,
        typer.Option(
            "--normalize",
            metavar="HOW|NAME=VALUE",
            help="Saved scores: sum divides probabilities by the sum of their row;"
            " chars, bytes, mutual: log-likelihoods of choices. Inputs of a --model"
            " (repeatable): scale=WHITE, mean=M[,M,M], std=S[,S,S].",
            rich_help_panel="Input",
        ),
    ] = None

    @property
    def import_options(self) -> ImportOptions:
        """The options as readers take them. Raises UsageError."""
        fields = common_fields(ImportOptions, self)
        fields["normalize"] = "none"
        if self.model is None:
            fields["normalize"] = self._normalization_of_scores()
        return ImportOptions(**fields)

    def _normalization_of_scores(self) -> str:
        words = self.normalize or ["none"]
        for word in words:
            if "=" in word:
                raise UsageError(
                    f"--normalize {word}: is about inputs of a --model to run, and none"
                    " is named"
                )
        if len(words) > 1:
            raise UsageError(f"--normalize {' and '.join(words)}: expected one of them")
        return words[0]

    @property
    def model_options(self) -> ModelOptions:
        """The options as the run of a model takes them. Raises UsageError."""
        fields = common_fields(ModelOptions, self)
        if self.model is not None:
            fields.update(normalization_of_inputs(self.normalize or ()))
        return ModelOptions(**fields)


def normalization_of_inputs(words: Sequence[str]) -> dict[str, Any]:
    """Fields ``scale``, ``mean`` and ``std`` of ``ModelOptions``.

    words : ``NAME=VALUE``. Raises UsageError.
    """
    values: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in ("scale", "mean", "std") or name in values:
            raise UsageError(
                f"--normalize {word}: expected scale=WHITE, mean=M[,M,M] and"
                " std=S[,S,S] of a model's inputs, each once"
            )
        values[name] = value
    if "scale" in values:
        values["scale"] = _white(values["scale"])
    return values


def _white(text: str) -> float:
    """The value of white, by which inputs are divided."""
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--normalize scale={text}: expected a number") from None
