"""Model inference: scores of every input, and of its transformed copies."""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from calcli import __version__
from calcli.calibrator import Context
from calcli.errors import (
    CalcliError,
    DataError,
    ResourceError,
    UsageError,
    check_choice,
    one_line,
)
from calcli.extracting.model import Model, load_model
from calcli.extracting.model_inputs import IMAGE_SUFFIXES, Inputs, ModelJob, open_inputs
from calcli.extracting.transforms import Transform, choose, parse
from calcli.importers.bundles import Imported, Slab
from calcli.importers.dealing import Splitting
from calcli.importers.proposal import Reading
from calcli.importers.remarks import remark, remarks
from calcli.importers.writing import ImportReport, write_groups
from calcli.io.atomic import check_output, real_place
from calcli.io.locate import split_where
from calcli.io.validate import check_labels, check_scores, score_kind
from calcli.io.writer import new_bundles
from calcli.logits import to_logits
from calcli.numerics import AnyArray, FloatArray
from calcli.rows import ScoreKind
from calcli.workers.journal import Journal, key_of

# ---- scores stored batch by batch in the job file beside the output, so that an interrupted job can resume


class KeptScores(Journal, AbstractContextManager["KeptScores"]):
    """The scores of a job: batches of rows, (rows, layers, k). done : rows that are there. k : classes, once known.

    job : fingerprint that identifies the job, JSON types. Use as a context manager: the file stays if the work is
    interrupted. Raises UsageError for the file of another job (unless ``force``, which starts anew), and as
    ``Journal`` does.
    """

    def __init__(self, path: Path, job: dict[str, Any], *, force: bool = False) -> None:
        super().__init__(path)
        self.job = json.loads(json.dumps(job))
        self.k: int | None = None
        self._starts = [0]
        try:
            self._go_on(force)
        except BaseException:
            self.close(done=False)
            raise

    @property
    def done(self) -> int:
        return self._starts[-1]

    def _go_on(self, force: bool) -> None:
        with suppress(KeyError):
            while True:
                job, rows = self[_key(self.done)]
                if job != self.job:
                    break
                self._took(rows)
            if not self.done and not force:
                different = sorted(
                    key
                    for key in {*job, *self.job}
                    if job.get(key) != self.job.get(key)
                )
                told = f"holds part of another job (other {', '.join(different)}); repeat that command to finish it"
                raise UsageError(
                    f"{self.path}: {told}, or delete the file or pass --force to start anew"
                )

    def _took(self, rows: AnyArray) -> None:
        self.k = rows.shape[2]
        self._starts.append(self.done + len(rows))

    def append(self, rows: AnyArray) -> None:
        """Append rows to the file. Raises ResourceError on failure."""
        try:
            self.add(_key(self.done), (self.job, rows))
        except OSError as problem:
            kept = (
                f"{self.done} rows are kept in it, make room and repeat the command"
                if self.done
                else "nothing kept"
            )
            raise ResourceError(
                f"{self.path}: cannot be written: {problem.strerror}; {kept}"
            ) from None
        self._took(rows)

    def batches(self) -> Iterator[tuple[int, AnyArray]]:
        """Yield the first row of every batch, and its rows."""
        for start in self._starts[:-1]:
            yield start, self[_key(start)][1]

    def __exit__(self, kind: type[BaseException] | None, *how: object) -> None:
        self.close(done=kind is None)


def _key(start: int) -> bytes:
    return key_of(b"scores", str(start).encode())


QUIET = Context()


def run_model(
    job: ModelJob,
    output: Path,
    splitting: Splitting = Splitting(),
    *,
    force: bool = False,
    context: Context = QUIET,
) -> ImportReport:
    """Run a model over inputs and write bundles of its scores.

    Scores are stored batch by batch in ``<output>.job``; repeating the same command after an interruption or an error
    resumes from there. ``context.progress`` is called for every batch; its seed and device are not used, the job has
    its own. Raises UsageError and DataError; scores extracted so far stay in the job file.
    """
    check_choice("--dtype", job.dtype, ("float16", "float32", "float64"))
    if job.scale is not None and not job.scale > 0:
        raise UsageError(f"--normalize scale={job.scale}: expected a positive number")
    if any(not s > 0 for s in job.std):
        raise UsageError(
            f"--normalize std={','.join(map(str, job.std))}: expected positive numbers"
        )
    kind = score_kind(job.kind)
    source = split_where(job.inputs)
    if not source[0].exists():
        raise DataError(f"{job.inputs}: no such file or folder of inputs")
    read = _read(job, source[0], output)
    check_output(output, force=force, inputs=read)
    specs = choose(job.transform, job.seed)
    with ExitStack() as stack:
        told = stack.enter_context(remarks())
        inputs = open_inputs(job, *source, stack)
        layers = _layers(specs, inputs, job.seed)
        # the split of the rows, decided before the model runs
        groups = (
            splitting.deal(inputs.n, inputs.labels, inputs.name)
            if splitting.parts
            else {"": None}
        )
        model = load_model(job.model, job.weights, job.device)
        # fingerprint of the job: everything that can change a score
        identity = {
            name: getattr(job, name)
            for name in ("mean", "std", "kind", "dtype", "seed")
        }
        own = {**inputs.identity, "rows": inputs.n}
        identity |= {"model": model.identity, "inputs": own, "transforms": list(specs)}
        path = Path(f"{real_place(output)}.job")
        now = {
            **identity,
            "stamps_sha256": sha256(repr(inputs.stamps).encode()).hexdigest(),
        }
        with KeptScores(path, now, force=force) as part:
            check_output(
                output, force=force, inputs=read
            )  # a job that has just ended may have made it
            remark(
                f"{path.name}: going on after {part.done} of {inputs.n} rows"
                if part.done
                else ""
            )
            _Extraction(job, kind, inputs, model, layers, part).run(context)
            about: dict[str, Any] = {
                "where": inputs.name,
                "kind": kind,
                "n": inputs.n,
                "k": part.k or 0,
            }
            about |= {"labels": inputs.labels, "class_names": inputs.class_names}
            about |= {
                "columns": {} if inputs.ids is None else {"ids": inputs.ids},
                "specs": specs,
                "parts": None,
            }
            rows = _Extracted(
                reading=Reading("", "", kind, "", None, {}),
                dtype=np.dtype(job.dtype),
                scores=part,
                **about,
            )
            origin = identity | {
                "calcli_version": __version__
            }  # without what a mere copy of the files would change
            with new_bundles(output, force=force, inputs=read) as out:
                return ImportReport(
                    write_groups(out, rows, groups, origin, splitting), told
                )


class _Extracted(Imported):
    """Scores of a job, checked batch by batch already."""

    def slabs(self) -> Iterator[Slab]:
        for start, batch in self.scores.batches():
            yield Slab(
                start,
                batch[:, 0],
                batch[:, 1:].transpose(1, 0, 2) if self.specs else None,
            )


def _read(job: ModelJob, source: Path, output: Path) -> list[Path]:
    """List the files that the job reads; includes ``output`` if it is in a folder of inputs."""
    named = [
        source,
        Path(job.model),
        *(split_where(name)[0] for name in (job.weights, job.labels) if name),
    ]
    inside = source.is_dir() and output.resolve().is_relative_to(source.resolve())
    own = [output] if inside and output.suffix.lower() in IMAGE_SUFFIXES else []
    return [*(path for path in named if path.is_file()), *own]


Layer = tuple[str, Transform, float, FloatArray]


def _layers(specs: Sequence[str], inputs: Inputs, seed: int) -> list[Layer]:
    """Parse each transform and draw its random number for every row. Raises UsageError."""
    layers = []
    for spec in specs:
        kind, argument = parse(spec)
        if not (inputs.layout == "sequence" if kind.sequences else inputs.images):
            need = "sequences (--layout sequence)" if kind.sequences else "images"
            raise UsageError(
                f"--transform {spec}: needs {need}, {inputs.name} is read as {inputs.layout!r}"
            )
        # Keyed by the transform's own name: adding a transform changes no other.
        chance = np.random.default_rng([seed, crc32(spec.encode())]).random(inputs.n)
        layers.append((spec, kind, argument, chance))
    return layers


@dataclass(frozen=True)
class _Extraction:
    """Run of a model over inputs. layers : transforms scored beside the inputs. part : store of the scores."""

    job: ModelJob
    kind: ScoreKind
    inputs: Inputs
    model: Model
    layers: Sequence[Layer]
    part: KeptScores

    def run(self, context: Context) -> None:
        """Compute the rows missing from ``part``."""
        inputs, part, model, dtype = self.inputs, self.part, self.model, self.job.dtype
        while (start := part.done) < inputs.n:
            context.progress("extracting rows", start, inputs.n)
            stop = min(start + (model.batch or self.job.batch), inputs.n)
            x = inputs.read(start, stop)
            low, high = (
                (float(x.min()), float(x.max()))
                if self.layers and inputs.images
                else (0.0, 1.0)
            )
            if low < -1e-6 or high > 1 + 1e-6:
                told = f"rows from {start} hold values from {low:g} to {high:g}, transforms need 0 (black) to 1"
                advice = "pass --normalize scale=WHITE, and mean=, std= for a model of normalised inputs"
                raise DataError(f"{inputs.name}: {told}; {advice}")
            rows: list[AnyArray] = []
            moves = (
                (spec, way.apply(x, at, chance[start:stop]))
                for spec, way, at, chance in self.layers
            )
            for name, moved in chain([("", x)], moves):
                where = f"{model.name}{f' under {name}' if name else ''}"
                scores = self._scores(self._prepared(moved), start, where)
                rows.append(to_logits(scores, self.kind) if name else scores)
                k, expected = scores.shape[1], part.k or rows[0].shape[1]
                if k != expected:
                    raise DataError(
                        f"{where}: returns {k} classes from row {start} on, expected {expected} as before"
                    )
                if part.k is None and not name:
                    self._check_classes(k)
            found, limit = np.stack(rows, axis=1), float(np.finfo(dtype).max)
            if np.abs(found).max() > limit:
                row = start + int(np.argmax(np.abs(found).max(axis=(1, 2)) > limit))
                told = f"scores of row {row} do not fit into {dtype} (up to {limit:g})"
                raise DataError(f"{model.name}: {told}; use --dtype float32")
            part.append(found.astype(dtype))
        context.progress("extracting rows", inputs.n, inputs.n)

    def _prepared(self, x: AnyArray) -> AnyArray:
        """Normalise and lay out for the model: images (b, c, h, w), other inputs unchanged; floats in float32."""
        for name, values, operation in (
            ("mean", self.job.mean, np.subtract),
            ("std", self.job.std, np.divide),
        ):
            if values:
                if len(values) not in (1, x.shape[-1]):
                    expected = f"expected 1 or {x.shape[-1]}, one per channel"
                    raise UsageError(
                        f"--normalize {name}: has {len(values)} numbers, {expected}"
                    )
                x = operation(
                    x.astype(np.float32), np.asarray(values, dtype=np.float32)
                )
        if x.dtype.kind == "f":
            x = x.astype(np.float32, copy=False)
        return (
            np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if self.inputs.images else x
        )

    def _scores(self, x: AnyArray, start: int, where: str) -> AnyArray:
        """Run one batch; any exception of the model becomes a one-line error that names the rows."""
        rows = len(x)
        if self.model.batch is not None and rows < self.model.batch:
            x = np.concatenate([x, np.repeat(x[-1:], self.model.batch - rows, axis=0)])
        try:
            scores = self.model(x)
        except CalcliError:
            raise
        except Exception as problem:
            text, last = one_line(problem), start + rows - 1
            memory = "out of memory" in text.lower() or isinstance(problem, MemoryError)
            hint = (
                f"use a --batch smaller than {self.job.batch}, then"
                if memory
                else "fix it, then"
            )
            kept = f"{start} rows before are kept in {self.part.path.name}"
            kept, kind = (
                kept if start else "no rows were extracted before",
                type(problem).__name__,
            )
            told = f"fails on rows {start}..{last}, inputs of shape {x.shape} {x.dtype}: {kind}: {text}"
            raise DataError(
                f"{where}: {told}; {kept}; {hint} repeat the command"
            ) from problem
        if scores.ndim not in (1, 2) or len(scores) != len(x):
            told = f"returns scores of shape {scores.shape} for {len(x)} inputs, expected ({len(x)}, classes)"
            raise DataError(
                f"{where}: {told}; models that pool nothing or return features cannot be calibrated"
            )
        return check_scores(
            scores[:rows], self.kind, f"{where} on {self.inputs.name}", start
        )

    def _check_classes(self, k: int) -> None:
        """Check labels and class names against the number of classes, known after the first batch."""
        inputs = self.inputs
        if inputs.class_names is not None and len(inputs.class_names) != k:
            told = f"has {len(inputs.class_names)} classes, but {self.model.name} gives {k} scores"
            advice = "every class of the model needs its name (or folder), in its order"
            raise DataError(f"{inputs.name}: {told}; {advice}")
        if inputs.labels is not None:
            check_labels(inputs.labels, inputs.n, k, f"labels of {inputs.name}")
