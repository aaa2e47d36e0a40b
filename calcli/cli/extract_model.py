"""The model half of calcli extract: what is run for a command, shard by shard."""

import os
from dataclasses import replace
from glob import glob
from pathlib import Path

from calcli.calibrator import Context
from calcli.cli.render import Talk
from calcli.cli.shards import ShardOutcome, attempted
from calcli.errors import DataError, UsageError
from calcli.extract.model_inputs import ModelJob, ModelOptions
from calcli.fast_dataclass import dataclass
from calcli.flags import taken
from calcli.importers.import_report import ImportReport, Splitting
from calcli.io.atomic import make_folder, refuse_inputs
from calcli.io.inputs import note
from calcli.io.locate import WILD, natural


def shards_of(
    asked: ModelOptions, output: Path, splitting: Splitting, *, labels: str | None, kind: str, force: bool
) -> "list[InputShard]":
    """What is to be run: one bundle, or of a pattern that several files match one each, in the folder ``output``.

    labels, kind : those of ``ModelJob``. Raises UsageError.
    """
    if asked.model is None or asked.inputs is None:
        raise UsageError(f"--model {asked.model}: needs --inputs FILE or FOLDER to run on")
    job = ModelJob(**taken(ModelOptions, asked), labels=labels, kind=kind, seed=splitting.seed)
    found = _matching(asked.inputs)
    if len(found) == 1:
        return [InputShard(replace(job, inputs=found[0]), output, splitting, force)]
    targets = [output / f"{Path(name.rpartition(':')[0] or name).stem}.h5" for name in found]
    if len(set(targets)) < len(targets):
        twice = next(str(t) for t in targets if targets.count(t) > 1)
        raise UsageError(f"--inputs {asked.inputs}: two of these files would be written to {twice}; give them names")
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
