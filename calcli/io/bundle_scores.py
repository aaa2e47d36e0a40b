"""Scores of a bundle: which dataset holds them, what they are, checked rows of them."""

import posixpath
from collections.abc import Sequence

import h5py
import numpy as np

from calcli.errors import DataError, InvalidRows, SaysHow, UsageError
from calcli.free_memory import available_memory
from calcli.io import validate
from calcli.io.bundle_group import BundleGroup
from calcli.io.dataset import CACHE_BYTES
from calcli.io.hdf5 import names_in, read
from calcli.io.locate import NoBundles, kinds_in
from calcli.io.option_columns import dtype_with_padding, scores_in_memory
from calcli.io.tall_chunks import UnpackedScores, is_tall
from calcli.numerics import AnyArray, IntArray, bfloat16_to_float32, is_bfloat16
from calcli.records import cached_property
from calcli.rows import SCORE_KINDS, ScoreKind
from calcli.zeros import Zeros

UNPACKED_BYTES = 160 << 20
"""Maximum size of chunked scores kept in memory, as every pass looks up and unpacks
chunks again; contiguous scores (limit: ``CACHE_BYTES``) are read as fast as memory
is allocated.
"""


class BundleScores:
    """Scores of a bundle, as its file holds them and as its rows have them.

    dataset : of the file. where : it lies, for messages. total, k : rows and classes.
    one_column : whether it has one number a row. kind, dtype : of the scores that
    ``rows`` returns. n_options : (total,) where columns are options. small : whether the
    scores stay in memory after the first pass.

    part : name of the group in its file, for commands.
    """

    def __init__(self, group: BundleGroup, part: str) -> None:
        self._group = group
        self._part = part
        self.dataset, self.kind = find_scores(group)
        self._stored_kind = self.kind
        shape = self.dataset.shape
        self.where = group.where(self.dataset)
        declared = self.dataset.attrs.get("dtype")
        self._is_bfloat16 = is_bfloat16(self.dataset.dtype, declared)
        dtype = np.dtype(np.float32) if self._is_bfloat16 else self.dataset.dtype
        self.total, self.k = validate.check_shape(shape, dtype, self.where)
        self.dtype = dtype.newbyteorder("=")
        self.one_column = shape in ((self.total,), (self.total, 1))
        self.n_options: IntArray | None = None
        self.small = False
        self._cache: AnyArray | None = None
        self._unpacked: UnpackedScores | None = None
        if self.kind != "confidence":
            return
        self.k = 1
        if not self.one_column:
            raise InvalidRows(
                f"{self.where}: has shape {shape}, expected (rows,): one a row"
            )

    def take_options(self, n_options: IntArray) -> None:
        """Take the columns for options; scores are then padded, and no ``probs``."""
        self.n_options = n_options
        if self.kind == "probs":
            self.kind = "log_probs"
            self.dtype = np.dtype(np.float64)
        else:
            self.dtype = dtype_with_padding(self.dtype)

    @cached_property
    def recorded_zeros(self) -> Zeros | None:
        """Resolution of the probabilities, as the bundle's attributes record it.

        None where they do not. Raises DataError.
        """
        if self.kind not in ("probs", "confidence"):
            return None
        zeros = self._group.zeros
        return None if zeros is None else zeros.of_classes(self.k, self._group.name)

    @property
    def chunk_rows(self) -> int | None:
        """Rows of a chunk, which are to be read together; None where any will do."""
        if not self.dataset.chunks or self._cache is not None or is_tall(self.dataset):
            return None
        return int(self.dataset.chunks[0])

    def hold(self) -> None:
        """Keep small scores in memory, all of them checked."""
        if self.small and self._cache is None:
            self._cache = self._checked(0, self.total)
            self._cache.flags.writeable = False

    def rows(self, start: int, stop: int) -> AnyArray:
        """Scores of some rows of the file, checked. Raises DataError."""
        if self._cache is None:
            return self._checked(start, stop)
        return self._cache[start:stop]

    def _checked(self, start: int, stop: int) -> AnyArray:
        """Scores of some rows of the file, checked."""
        scores = self._stored_scores(start, stop)
        if self.kind == "confidence":
            return validate.check_confidences(scores, self.where, start)
        if self.n_options is not None:
            n_options = self.n_options[start:stop]
            where = self.where
            scores = scores_in_memory(
                scores, n_options, self._stored_kind, where, start
            )
        try:
            return validate.check_scores(
                scores, self.kind, self.where, start, self.recorded_zeros
            )
        except validate.MissingScore as problem:
            if posixpath.basename(self.dataset.name) != self.kind:
                raise  # names of its own, which the command would need too
            raise problem.advising(self._without_missing_rows()) from None

    def _without_missing_rows(self) -> list[str]:
        """Command that writes this bundle without the rows that lack a score."""
        command = ["calcli", "extract", str(self._group.path)]
        if self._part:
            command += ["--part", self._part]
        return [
            *command,
            "--drop-missing",
            "-o",
            f"{self._group.path.stem}.complete.h5",
        ]

    def _stored_scores(self, start: int, stop: int) -> AnyArray:
        """Scores of some rows as the file holds them; bfloat16 becomes float32."""
        if self._cache is None and not self.small and is_tall(self.dataset):
            self._unpacked = self._unpacked or UnpackedScores(self.dataset, self.where)
            scores = self._unpacked.rows(start, stop)
        else:
            scores = read(self.dataset, np.s_[start:stop], self.where)
        if self._is_bfloat16:
            return bfloat16_to_float32(scores)
        return scores.astype(self.dtype, copy=False)


def most_in_memory(scores: h5py.Dataset) -> int:
    """Bytes up to which scores are kept in memory."""
    if not scores.chunks:
        return CACHE_BYTES
    free = available_memory()
    most = UNPACKED_BYTES
    if free is not None:
        most = min(most, free // 4)
    return max(CACHE_BYTES, most)


def find_scores(group: BundleGroup) -> tuple[h5py.Dataset, ScoreKind]:
    """The dataset of the scores, and their kind, as named or as the only one."""
    layout = group.layout
    present = kinds_in(group.node)
    if layout.scores is not None:
        present = [layout.scores]
    if len(present) != 1:
        expected = f"{group.name}: expected exactly one of {', '.join(SCORE_KINDS)}"
        if not present:
            raise DataError(
                f"{expected}, found none; choose with --scores PATH --kind KIND"
            )
        raise SaysHow(
            f"{expected}, found {' and '.join(present)}; choose one, as with"
            f" --scores {present[0]}"
        )
    path = present[0]
    name = path.rpartition("/")[2]
    if layout.scores is None:
        if layout.kind is not None and name == "confidence":
            raise UsageError(
                f"--kind {layout.kind}: {group.name} holds confidences, no scores of"
                " classes"
            )
    elif layout.kind is None and name not in SCORE_KINDS:
        # An import looks at the values.
        raise NoBundles(
            f"--scores {path}: say what they are with --kind {'|'.join(SCORE_KINDS)}"
        )
    dataset = group.find(path)
    if dataset is None:
        listing = names_in(group.node)
        raise DataError(
            f"{group.name}: has no dataset {path!r}, it holds: {listing}; name"
            " another with --scores PATH"
        )
    return dataset, validate.score_kind(layout.kind or name, confidence=True)


class TransformedScores:
    """Scores of a bundle under transforms of its inputs, as names say.

    specs : names of the transforms; empty without any.
    """

    def __init__(self, group: BundleGroup, total: int, k: int) -> None:
        self._path = group.path
        self._dataset = group.find("transforms/logits")
        self.specs: tuple[str, ...] = ()
        if self._dataset is None:
            return
        self.specs = tuple(group.strings("transforms/specs") or ())
        n_specs = len(self.specs)
        expected = (n_specs, total, k)
        if self._dataset.shape != expected:
            raise InvalidRows(
                f"{group.name}: transforms/logits has shape {self._dataset.shape},"
                f" expected {expected}: {n_specs} specs, and the same rows and"
                " classes as the scores"
            )
        validate.check_type(self._dataset.dtype, group.where(self._dataset))

    def rows(self, start: int, stop: int, indices: Sequence[int]) -> AnyArray | None:
        """Scores (m, b, k) of some rows of the file under m transforms."""
        if not indices:
            return None
        checked = []
        for index in indices:
            where = f"{self._path}: transforms/logits[{index}] ({self.specs[index]})"
            scores = read(self._dataset, np.s_[index, start:stop], where)
            checked.append(validate.check_scores(scores, "logits", where, start))
        return np.stack(checked)
