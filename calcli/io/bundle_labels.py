"""Labels of a bundle, and predictions that it holds, checked."""

from typing import TypeAlias

import h5py
import numpy as np

from calcli.block import rows_of_column
from calcli.errors import InvalidRows, UsageError
from calcli.io import validate
from calcli.io.bundle_group import BundleColumns, BundleGroup
from calcli.io.bundle_scores import BundleScores
from calcli.io.dataset import CACHE_BYTES
from calcli.io.hdf5 import names_in, read
from calcli.io.locate import NoBundles
from calcli.numerics import AnyArray, BoolArray

AT_ONCE = 1 << 20  # rows of labels read and checked at once


StoredClasses: TypeAlias = AnyArray | h5py.Dataset
"""Classes of the rows kept, or the dataset of them if it is too large to hold."""


class BundleLabels:
    """Labels and predictions of the rows of a bundle.

    Those with an ignored label are left out, which sets ``columns.keep``.
    """

    def __init__(
        self, group: BundleGroup, scores: BundleScores, columns: BundleColumns
    ) -> None:
        self._group = group
        self._scores = scores
        self._columns = columns

    def labels(
        self, ignore: tuple[float, ...], are_needed: bool
    ) -> StoredClasses | None:
        """Labels of the rows kept; sets which rows are kept.

        None where there are none, unless they are needed. Raises DataError.
        """
        named = self._group.layout.labels
        is_confidence = self._scores.kind == "confidence"
        path = named or ("correct" if is_confidence else "labels")
        dataset = self._group.find(path)
        if dataset is None:
            if not (are_needed or named is not None or ignore):
                return None
            what = "whether answers are right is" if is_confidence else "labels are"
            listing = names_in(self._group.node)
            if self._group.layout.scores is not None and named is None:
                # An import finds labels of other names beside these scores.
                raise NoBundles(f"{self._group.name}: has no dataset {path!r}")
            raise InvalidRows(
                f"{self._group.name}: has no dataset {path!r}, and {what} needed here;"
                f" it holds: {listing}; name them with --labels PATH",
                no_command="nothing says which array they are",
            )
        where = self._group.where(dataset)
        if not is_confidence:
            shape = dataset.shape
            dtype = dataset.dtype
            total = self._scores.total
            validate.check_label_shape(shape, dtype, total, self._scores.k, where)
            return self._classes(dataset, where, ignore)
        if ignore:
            raise UsageError(
                f"--ignore-label: {self._group.name} holds confidences;"
                " calcli extract can leave rows out"
            )
        outcomes = self._columns.of_all_rows(dataset)
        correct = validate.check_correct(outcomes, self._scores.total, where)
        return correct.astype(np.uint8)

    def predictions(self) -> StoredClasses | None:
        """Predictions that the bundle holds; None without any."""
        if self._scores.kind == "confidence":
            return None
        dataset = self._group.find("prediction")
        if dataset is None:
            return None
        self._columns.check_length(dataset)
        return self._classes(
            dataset, f"{self._group.name}: prediction", what="prediction"
        )

    def _classes(
        self,
        dataset: h5py.Dataset,
        where: str,
        ignore: tuple[float, ...] = (),
        what: str = "label",
    ) -> StoredClasses:
        """Check labels or predictions of the rows kept.

        Returns an array, or the dataset itself if it is too large to hold. Sets which
        rows are kept if labels are to be ignored. Raises DataError.
        """
        total = self._scores.total
        k = self._scores.k
        smallest_type = np.min_scalar_type(k - 1)
        known_keep = self._columns.keep
        # Each read would unpack all of it.
        is_tall = dataset.chunks is not None and dataset.chunks[0] > AT_ONCE
        is_small = total * smallest_type.itemsize <= CACHE_BYTES
        stays_in_memory = is_tall or bool(ignore) or known_keep is not None or is_small
        step = total if is_tall else AT_ONCE
        checked = []
        masks = []
        for start in range(0, total, step):
            rows = slice(start, start + step)
            values = read(dataset, rows, where)
            n_options = rows_of_column(self._scores.n_options, rows)
            if known_keep is not None:
                values = values[known_keep[rows]]
                n_options = rows_of_column(n_options, known_keep[rows])
            values = validate.check_labels(
                values, len(values), k, where, ignore, what, start
            )
            if n_options is not None:
                validate.check_places(values, n_options, where, ignore, what, start)
            if ignore:
                mask = ~validate.to_ignore(values, ignore)
                masks.append(mask)
                values = values[mask]
            if stays_in_memory:
                checked.append(values.astype(smallest_type))
        if ignore:
            self._keep(np.concatenate(masks))
        if stays_in_memory:
            return np.concatenate(checked)
        return dataset

    def _keep(self, mask: BoolArray) -> None:
        """Set which rows are kept, unless all are. Raises InvalidRows for none."""
        if mask.all():
            return
        self._columns.keep = mask
        if not mask.any():
            raise InvalidRows(
                f"{self._scores.where}: every row has an ignored label, nothing is left"
            )
