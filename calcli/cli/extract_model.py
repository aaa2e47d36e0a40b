"""The model half of calcli extract: its options, and the call."""

import os
from dataclasses import replace
from glob import glob
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING

from calcli.calibrator import Context
from calcli.cli.render import Talk
from calcli.cli.shards import ShardOutcome, attempted
from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.flags import flag
from calcli.importers.import_report import ImportReport, Splitting
from calcli.io.atomic import make_folder, refuse_inputs
from calcli.io.inputs import note
from calcli.io.locate import WILD, natural

if TYPE_CHECKING:
    from calcli.extract.model_inputs import ModelJob
from calcli.numerics import whole_number

LARGEST_SIDE = 100_000
"""Pixels."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How to run a model, over what."""

    model: str | None = flag(
        None,
        "torch.export .pt2, TorchScript .pt, .onnx, or package.module:factory. A model is a program: run only"
        " one that you trust.",
        "MODEL",
    )
    inputs: str | None = flag(
        None,
        "Array file (FILE or FILE:NAME), or a folder with one sub-folder of images per class; a quoted"
        " pattern of array files writes a bundle each into the folder OUT.",
        "INPUTS",
    )
    weights: str | None = flag(None, "State dict for a factory: .pt or .safetensors.", "FILE")
    layout: str | None = flag(
        None, "How an input array is stored, when its shape does not say.", "nhwc|nchw|nhw|sequence|rows"
    )
    scale: float | None = flag(None, "Value of white: inputs are divided by it (bytes: 255).", "WHITE")
    resize: str | None = flag(None, "Bring the images of a folder to one size.", "HxW")
    grey: bool = flag(False, "Read the images of a folder as grey.")
    transform: list[str] | None = flag(
        None,
        "Also score a lossy version: zoom, brightness, contrast, blur, pixelate, jpeg, drop, frames"
        " (repeatable; NAME:FROM:TO draws --transforms values).",
        "NAME:ARG[:TO]",
    )
    transforms: int = flag(10, "Values to draw from each range.", "N", min=1, max=10_000)
    mean: str | None = flag(None, "The model's own normalisation, after the transforms.", "M[,M,M]")
    std: str | None = flag(None, "See --mean.", "S[,S,S]")
    batch: int = flag(64, "Inputs at a time.", "N", min=1, max=1_000_000)
    device: str = flag("auto", "Where the model runs.", "auto|cpu|cuda")
    amp: str = flag("off", "Mixed precision of a torch model.", "off|bf16|fp16")
    dtype: str = flag("float32", "Precision to store scores in.", "float16|float32|float64")

    def shards(
        self, output: Path, splitting: Splitting, *, labels: str | None, kind: str, force: bool
    ) -> "list[InputShard]":
        """What is to be run: one bundle, or of a pattern that several files match one each, in the folder ``output``.

        labels, kind : those of ``extract.ModelJob``. Raises UsageError.
        """
        from calcli.extract.model_inputs import ModelJob

        if self.model is None or self.inputs is None:
            raise UsageError(f"--model {self.model}: needs --inputs FILE or FOLDER to run on")
        job = ModelJob(
            model=self.model, inputs=self.inputs, weights=self.weights, labels=labels, kind=kind, seed=splitting.seed,
            layout=self.layout, scale=self.scale, grey=self.grey, resize=_size(self.resize),
            transform=tuple(self.transform or ()), transforms=self.transforms,
            mean=_numbers("--mean", self.mean), std=_numbers("--std", self.std),
            batch=self.batch, device=self.device, amp=self.amp, dtype=self.dtype,
        )  # fmt: skip
        found = _matching(self.inputs)
        if len(found) == 1:
            return [InputShard(replace(job, inputs=found[0]), output, splitting, force)]
        targets = [output / f"{Path(name.rpartition(':')[0] or name).stem}.h5" for name in found]
        if len(set(targets)) < len(targets):
            twice = next(str(t) for t in targets if targets.count(t) > 1)
            raise UsageError(f"--inputs {self.inputs}: two of these files would be written to {twice}; give them names")
        make_folder(output)
        for name in found:
            note(name if os.path.exists(name) else name.rpartition(":")[0])
        refuse_inputs(targets)
        pairs = zip(found, targets, strict=True)
        return [InputShard(replace(job, inputs=name), target, splitting, force) for name, target in pairs]


@dataclass(frozen=True)
class InputShard:
    """One file of inputs, as a task for a worker."""

    job: "ModelJob"
    target: Path
    splitting: Splitting
    force: bool

    @property
    def name(self) -> str:
        """What people call the work."""
        return self.job.inputs

    def run(self, talk: Talk) -> ImportReport:
        """Run the model and write its scores."""
        from calcli.extract.run import run_model

        try:
            return run_model(
                self.job, self.target, self.splitting, force=self.force, context=Context(progress=talk.progress)
            )
        except KeyboardInterrupt:
            talk.say(f"interrupted; what is done is kept in {self.target}.part, repeat the command to go on")
            raise
        finally:
            talk.clear()

    def __call__(self) -> ShardOutcome:
        return attempted(self.run)

    @property
    def key(self) -> bytes:
        """What determines the output. Raises DataError for inputs that are gone."""
        from calcli.workers.journal import key_of
        from calcli.workers.task import mark

        files = (self.job.inputs.rpartition(":")[0] or self.job.inputs, self.job.model, self.job.weights)
        stamps = [mark(name) for name in files if name is not None and Path(name).exists()]
        return key_of(repr((self.job, self.target, self.splitting, stamps)).encode())

    def absolute(self) -> "InputShard":
        """The same for a process in another folder."""

        def there(name: str) -> str:
            return str(Path(name).absolute()) if Path(name.rpartition(":")[0] or name).exists() else name

        weights, labels = (None if name is None else there(name) for name in (self.job.weights, self.job.labels))
        inputs, model = there(self.job.inputs), there(self.job.model)
        job = replace(self.job, inputs=inputs, model=model, weights=weights, labels=labels)
        return replace(self, job=job, target=self.target.absolute())


def _matching(inputs: str) -> list[str]:
    """The files that ``--inputs`` stands for: itself, or what matches a quoted pattern, FILES or FILES:ARRAY."""
    file, colon, array = inputs.rpartition(":") if ":" in inputs and not Path(inputs).exists() else (inputs, "", "")
    if Path(file).exists() or not any(c in file for c in WILD):
        return [inputs]
    found = sorted((name for name in glob(file, recursive=True) if Path(name).is_file()), key=natural)
    if not found:
        raise DataError(f"--inputs {inputs}: no file matches; patterns are those of the shell, quoted")
    return [f"{name}{colon}{array}" for name in found]


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    """Read ``0.5`` or ``0.485,0.456,0.406``. Raises UsageError."""
    try:
        numbers = tuple(float(piece) for piece in text.split(",")) if text else ()
    except ValueError:
        numbers = (nan,)
    if not all(map(isfinite, numbers)):
        raise UsageError(f"{option} {text}: expected numbers with commas between, e.g. 0.485,0.456,0.406")
    return numbers


def _size(text: str | None) -> tuple[int, int] | None:
    """Read ``224`` or ``HEIGHTxWIDTH``. Raises UsageError."""
    if text is None:
        return None
    sides = [whole_number(side) or 0 for side in text.lower().split("x")]
    if len(sides) not in (1, 2) or not all(0 < side <= LARGEST_SIDE for side in sides):
        raise UsageError(f"--resize {text}: expected HEIGHTxWIDTH in pixels, e.g. 224x224")
    return sides[0], sides[-1]
