"""Model inference: scores of every input, and of its transformed copies."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn
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
from calcli.importers.building.dealing import Dealt, Splitting
from calcli.importers.building.imported import Imported, Slab
from calcli.importers.building.writing import ImportReport, write_groups
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark, remarks
from calcli.io.atomic import check_output, real_place
from calcli.io.locate import split_where
from calcli.io.validate import check_labels, check_scores, score_kind
from calcli.io.writer import check_ending, new_bundles
from calcli.logits import to_logits
from calcli.numerics import AnyArray, FloatArray
from calcli.rows import ScoreKind
from calcli.workers.journal import Journal, key_of

# ---- scores stored batch by batch in the job file beside the output


class KeptScores(Journal, AbstractContextManager["KeptScores"]):
    """The scores of a job: batches of rows, (rows, layers, k).

    done : rows that are there. k : classes, once known. job : fingerprint that
    identifies the job, JSON types. Use as a context manager: the file stays if the work
    is interrupted, so that the job can resume. Raises UsageError for the file of
    another job (unless ``force``, which starts anew), and as ``Journal`` does.
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
        """Count the rows that are there, up to those of another job."""
        with suppress(KeyError):
            while True:
                job, rows = self[_key(self.done)]
                if job != self.job:
                    break
                self._took(rows)
            if not self.done and not force:
                self._refuse_other(job)

    def _refuse_other(self, job: Mapping[str, Any]) -> NoReturn:
        keys = {*job, *self.job}
        different = sorted(key for key in keys if job.get(key) != self.job.get(key))
        raise UsageError(
            f"{self.path}: holds part of another job (other {', '.join(different)});"
            " repeat that command to finish it, or delete the file or pass --force to"
            " start anew"
        )

    def _took(self, rows: AnyArray) -> None:
        self.k = rows.shape[2]
        self._starts.append(self.done + len(rows))

    def append(self, rows: AnyArray) -> None:
        """Append rows to the file. Raises ResourceError on failure."""
        try:
            self.add(_key(self.done), (self.job, rows))
        except OSError as problem:
            kept = "nothing kept"
            if self.done:
                kept = (
                    f"{self.done} rows are kept in it, make room and repeat the command"
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

    Scores are stored batch by batch in ``<output>.job``; repeating the same command
    after an interruption or an error resumes from there. ``context.progress`` is called
    for every batch; its seed and device are not used, the job has its own. Raises
    UsageError and DataError; scores extracted so far stay in the job file.
    """
    _check_numbers_of(job)
    kind = score_kind(job.kind)
    source, array = split_where(job.inputs)
    if not source.exists():
        raise DataError(f"{job.inputs}: no such file or folder of inputs")
    files_read = _files_read(job, source, output)
    check_output(output, force=force, inputs=files_read)
    check_ending(output)
    specs = choose(job.transform, job.seed)
    with ExitStack() as stack:
        notes = stack.enter_context(remarks())
        inputs = open_inputs(job, source, array, stack)
        layers = _layers(specs, inputs, job.seed)
        # the split of the rows, decided before the model runs
        groups: Dealt = {"": None}
        if splitting.parts:
            groups = splitting.deal(inputs.n, inputs.labels, inputs.name)
        model = load_model(job.model, job.weights, job.device)
        identity = _identity(job, inputs, model, specs)
        stamps_sha256 = sha256(repr(inputs.stamps).encode()).hexdigest()
        path = Path(f"{real_place(output)}.job")
        fingerprint = {**identity, "stamps_sha256": stamps_sha256}
        with KeptScores(path, fingerprint, force=force) as part:
            # a job that has just ended may have made it
            check_output(output, force=force, inputs=files_read)
            if part.done:
                remark(f"{path.name}: going on after {part.done} of {inputs.n} rows")
            _Extraction(job, kind, inputs, model, layers, part).run(context)
            rows = _extracted(job, kind, inputs, specs, part)
            # without the stamps, which change where files are merely copied
            origin = {**identity, "calcli_version": __version__}
            with new_bundles(output, force=force, inputs=files_read) as out:
                written = write_groups(out, rows, groups, origin, splitting)
                return ImportReport(written, notes)


def _check_numbers_of(job: ModelJob) -> None:
    """Raise UsageError for a type or a normalisation that is not allowed."""
    check_choice("--dtype", job.dtype, ("float16", "float32", "float64"))
    if job.scale is not None and not job.scale > 0:
        raise UsageError(f"--normalize scale={job.scale}: expected a positive number")
    if any(not s > 0 for s in job.std):
        raise UsageError(
            f"--normalize std={','.join(map(str, job.std))}: expected positive numbers"
        )


def _identity(
    job: ModelJob, inputs: Inputs, model: Model, specs: Sequence[str]
) -> dict[str, Any]:
    """Fingerprint of the job: everything that can change a score."""
    return {
        "mean": job.mean,
        "std": job.std,
        "kind": job.kind,
        "dtype": job.dtype,
        "seed": job.seed,
        "model": model.identity,
        "inputs": {**inputs.identity, "rows": inputs.n},
        "transforms": list(specs),
    }


def _extracted(
    job: ModelJob,
    kind: ScoreKind,
    inputs: Inputs,
    specs: tuple[str, ...],
    part: KeptScores,
) -> "_Extracted":
    """The scores of a job that is done, as a bundle to be written."""
    columns: dict[str, Any] = {}
    if inputs.ids is not None:
        columns["ids"] = inputs.ids
    return _Extracted(
        reading=Reading("", "", kind, "", None, {}),
        where=inputs.name,
        kind=kind,
        n=inputs.n,
        k=part.k or 0,
        dtype=np.dtype(job.dtype),
        labels=inputs.labels,
        columns=columns,
        scores=part,
        class_names=inputs.class_names,
        specs=specs,
    )


class _Extracted(Imported):
    """Scores of a job, checked batch by batch already."""

    def slabs(self) -> Iterator[Slab]:
        for start, batch in self.scores.batches():
            transformed = None
            if self.specs:
                transformed = batch[:, 1:].transpose(1, 0, 2)
            yield Slab(start, batch[:, 0], transformed)


def _files_read(job: ModelJob, source: Path, output: Path) -> list[Path]:
    """List the files that the job reads.

    Includes ``output`` where it would be an image in a folder of inputs.
    """
    named = [source, Path(job.model)]
    for name in (job.weights, job.labels):
        if name:
            named.append(split_where(name)[0])
    files = [path for path in named if path.is_file()]
    is_inside = source.is_dir() and output.resolve().is_relative_to(source.resolve())
    if is_inside and output.suffix.lower() in IMAGE_SUFFIXES:
        files.append(output)
    return files


Layer = tuple[str, Transform, float, FloatArray]


def _layers(specs: Sequence[str], inputs: Inputs, seed: int) -> list[Layer]:
    """Parse each transform and draw its random number for every row.

    Raises UsageError.
    """
    layers = []
    for spec in specs:
        kind, argument = parse(spec)
        need = "images"
        is_met = inputs.images
        if kind.sequences:
            need = "sequences (--layout sequence)"
            is_met = inputs.layout == "sequence"
        if not is_met:
            raise UsageError(
                f"--transform {spec}: needs {need}, {inputs.name} is read as"
                f" {inputs.layout!r}"
            )
        # Keyed by the transform's own name: adding a transform changes no other.
        chance = np.random.default_rng([seed, crc32(spec.encode())]).random(inputs.n)
        layers.append((spec, kind, argument, chance))
    return layers


@dataclass(frozen=True)
class _Extraction:
    """Run of a model over inputs.

    layers : transforms scored beside the inputs. part : store of the scores.
    """

    job: ModelJob
    kind: ScoreKind
    inputs: Inputs
    model: Model
    layers: Sequence[Layer]
    part: KeptScores

    def run(self, context: Context) -> None:
        """Compute the rows missing from ``part``."""
        inputs = self.inputs
        batch = self.model.batch or self.job.batch
        while self.part.done < inputs.n:
            start = self.part.done
            context.progress("extracting rows", start, inputs.n)
            stop = min(start + batch, inputs.n)
            x = inputs.read(start, stop)
            if self.layers and inputs.images:
                self._check_range(x, start)
            scores = self._scores_of_layers(x, start)
            self._check_fits_type(scores, start)
            self.part.append(scores.astype(self.job.dtype))
        context.progress("extracting rows", inputs.n, inputs.n)

    def _scores_of_layers(self, x: AnyArray, start: int) -> FloatArray:
        """Scores of inputs and of their transformed copies, (b, 1 + m, k)."""
        scores = self._scores(self._prepared(x), start, self.model.name)
        k = self._check_same_number(scores, self.part.k, start, self.model.name)
        if self.part.k is None:
            self._check_classes(k)
        layers = [scores]
        for spec, transform, argument, chance in self.layers:
            where = f"{self.model.name} under {spec}"
            moved = transform.apply(x, argument, chance[start : start + len(x)])
            scores = self._scores(self._prepared(moved), start, where)
            logits = to_logits(scores, self.kind)
            self._check_same_number(logits, k, start, where)
            layers.append(logits)
        return np.stack(layers, axis=1)

    def _check_range(self, x: AnyArray, start: int) -> None:
        """Raise DataError for images that are not within 0 and 1, as transforms need."""
        low = float(x.min())
        high = float(x.max())
        if low < -1e-6 or high > 1 + 1e-6:
            raise DataError(
                f"{self.inputs.name}: rows from {start} hold values from {low:g} to"
                f" {high:g}, transforms need 0 (black) to 1; pass --normalize"
                " scale=WHITE, and mean=, std= for a model of normalised inputs"
            )

    def _check_same_number(
        self, scores: AnyArray, expected: int | None, start: int, where: str
    ) -> int:
        """Number of classes of the scores. Raises DataError where it is another."""
        k = scores.shape[1]
        if expected is not None and k != expected:
            raise DataError(
                f"{where}: returns {k} classes from row {start} on, expected"
                f" {expected} as before"
            )
        return k

    def _check_fits_type(self, scores: FloatArray, start: int) -> None:
        """Raise DataError for scores that are too large for the type to be stored."""
        dtype = self.job.dtype
        limit = float(np.finfo(dtype).max)
        size = np.abs(scores).max(axis=(1, 2))
        if size.max() > limit:
            row = start + int(np.argmax(size > limit))
            raise DataError(
                f"{self.model.name}: scores of row {row} do not fit into {dtype} (up to"
                f" {limit:g}); use --dtype float32"
            )

    def _prepared(self, x: AnyArray) -> AnyArray:
        """Normalise and lay out for the model: images (b, c, h, w), others unchanged.

        Floats are in float32.
        """
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
        if not self.inputs.images:
            return x
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))

    def _scores(self, x: AnyArray, start: int, where: str) -> AnyArray:
        """Run one batch.

        Any exception of the model becomes a one-line error that names the rows.
        """
        rows = len(x)
        if self.model.batch is not None and rows < self.model.batch:
            x = np.concatenate([x, np.repeat(x[-1:], self.model.batch - rows, axis=0)])
        try:
            scores = self.model(x)
        except CalcliError:
            raise
        except Exception as problem:
            last = start + rows - 1
            raise self._failure(
                problem,
                f"{where}: fails on rows {start}..{last}, inputs of shape {x.shape}"
                f" {x.dtype}",
                start,
            ) from problem
        if scores.ndim not in (1, 2) or len(scores) != len(x):
            raise DataError(
                f"{where}: returns scores of shape {scores.shape} for {len(x)} inputs,"
                f" expected ({len(x)}, classes); models that pool nothing or return"
                " features cannot be calibrated"
            )
        return check_scores(
            scores[:rows], self.kind, f"{where} on {self.inputs.name}", start
        )

    def _failure(self, problem: Exception, what: str, start: int) -> DataError:
        """The error for a model that fails on the batch that begins at row ``start``."""
        text = one_line(problem)
        hint = "fix it, then"
        if "out of memory" in text.lower() or isinstance(problem, MemoryError):
            hint = f"use a --batch smaller than {self.job.batch}, then"
        kept = "no rows were extracted before"
        if start:
            kept = f"{start} rows before are kept in {self.part.path.name}"
        kind = type(problem).__name__
        return DataError(f"{what}: {kind}: {text}; {kept}; {hint} repeat the command")

    def _check_classes(self, k: int) -> None:
        """Check labels and class names against the number of classes.

        It is known after the first batch.
        """
        inputs = self.inputs
        if inputs.class_names is not None and len(inputs.class_names) != k:
            raise DataError(
                f"{inputs.name}: has {len(inputs.class_names)} classes, but"
                f" {self.model.name} gives {k} scores; every class of the model needs"
                " its name (or folder), in its order"
            )
        if inputs.labels is not None:
            check_labels(inputs.labels, inputs.n, k, f"labels of {inputs.name}")
