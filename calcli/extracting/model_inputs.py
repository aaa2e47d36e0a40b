"""Inputs of a model: arrays in a file, or a folder of images, read in row blocks.

``read`` returns the layout that transforms expect: images (b, h, w, c), sequences
(b, t, ...), anything else as it is stored.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError, blaming, check_choice
from calcli.importers.formats import open_table
from calcli.importers.names.roles import ROLES
from calcli.importers.table import Column, Table
from calcli.io.inputs import note, stamp
from calcli.io.locate import split_where
from calcli.numerics import AnyArray, whole_number
from calcli.optional_packages import optional_import

LAYOUTS = {
    "nhwc": (4,),
    "nchw": (4,),
    "nhw": (3,),
    "sequence": range(2, 99),
    "rows": range(2, 99),
}
"""Allowed numbers of dimensions by layout: colour images, grey images, (n, t, ...)
sequences, anything else.
"""

LARGEST_SIDE = 100_000  # maximum width and height of an image, in pixels

IMAGE_SUFFIXES = (
    ".png",
    ".jpg",
    ".jpeg",
    ".bmp",
    ".gif",
    ".tif",
    ".tiff",
    ".webp",
    ".ppm",
    ".pgm",
)
LABEL_NAMES = ROLES["labels"].words
INPUT_NAMES = ("inputs", "images", "x", "data", "X")


class Inputs(ABC):
    """Inputs of a model, n of them, read in blocks.

    layout : see LAYOUTS. labels : (n,) int64 or None. ids, class_names : or None.
    identity : what tells these inputs from others, for the fingerprint of a job. stamps
    : of their files. name : as messages say it.
    """

    n: int
    layout: str
    name: str
    identity: dict[str, Any]
    stamps: list[tuple[int, ...]]
    labels: AnyArray | None = None
    ids: AnyArray | None = None
    class_names: list[str] | None = None

    @abstractmethod
    def read(self, start: int, stop: int) -> AnyArray:
        """Read inputs start..stop-1; images as (b, h, w, c) float32 in [0, 1]."""

    @property
    def images(self) -> bool:
        """True if the inputs are images."""
        return self.layout in ("nhwc", "nchw", "nhw")


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options to run a model.

    resize : (height, width). transform : see ``transforms.choose``. mean, std : one
    number or one per channel. Raises UsageError.
    """

    model: str | None = None
    inputs: str | None = None
    weights: str | None = None
    layout: str | None = None
    scale: float | None = None
    resize: tuple[int, int] | None = None
    grey: bool = False
    transform: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    batch: int = 64
    device: str = "auto"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        read = {
            "mean": _numbers("--normalize mean", self.mean),
            "std": _numbers("--normalize std", self.std),
            "resize": _size(self.resize),
        }
        for name, value in (read | {"transform": tuple(self.transform or ())}).items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class ModelJob(ModelOptions):
    """Model run on inputs.

    labels : ARRAY of the same file, FILE or FILE:ARRAY, else found by name. kind : what
    the model returns.
    """

    model: str = field()
    inputs: str = field()
    labels: str | None = None
    kind: str = "logits"
    seed: int = 0


def _numbers(option: str, text: str | tuple[float, ...] | None) -> tuple[float, ...]:
    """Read ``0.5`` or ``0.485,0.456,0.406``. Raises UsageError."""
    if isinstance(text, tuple):
        return text
    try:
        numbers: tuple[float, ...] = ()
        if text:
            numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = (nan,)
    if not all(map(isfinite, numbers)):
        raise UsageError(
            f"{option}={text}: expected numbers with commas between, e.g."
            " 0.485,0.456,0.406"
        )
    return numbers


def _size(text: str | tuple[int, int] | None) -> tuple[int, int] | None:
    """Read ``224`` or ``HEIGHTxWIDTH``. Raises UsageError."""
    if text is None or isinstance(text, tuple):
        return text
    sides = [whole_number(side) or 0 for side in text.lower().split("x")]
    if len(sides) not in (1, 2) or not all(0 < side <= LARGEST_SIDE for side in sides):
        raise UsageError(
            f"--resize {text}: expected HEIGHTxWIDTH in pixels, e.g. 224x224"
        )
    return sides[0], sides[-1]


def open_inputs(
    job: ModelJob, path: Path, array: str | None, stack: ExitStack
) -> Inputs:
    """Open inputs: a folder of images, or a file of arrays in any format that extract
    imports.
    """
    check_choice("--layout", job.layout, LAYOUTS)
    if path.is_dir():
        return ImageFolder(path, job)
    if job.resize is not None:
        raise UsageError(
            "--resize is for image folders; arrays hold images of one size"
        )
    if job.grey:
        raise UsageError(
            "--grey is for image folders; arrays are read as they are stored"
        )
    return ArrayInputs(path, array, job, stack)


class ArrayInputs(Inputs):
    """Inputs in an array of an npz, npy, HDF5, pt or safetensors file."""

    def __init__(
        self, path: Path, array: str | None, job: ModelJob, stack: ExitStack
    ) -> None:
        table = open_table(path, stack)
        column = _pick(table, array, INPUT_NAMES, path, "inputs")
        self._data = column.load()
        self.name = column.where
        shape = tuple(self._data.shape)
        if len(shape) < 2 or shape[0] == 0:
            raise DataError(
                f"{self.name}: has shape {shape}, expected (rows, ...) with at least"
                " one row"
            )
        if self._data.dtype.kind not in "fiub":
            raise DataError(f"{self.name}: holds {self._data.dtype}, expected numbers")
        self.n = shape[0]
        self.layout = _layout(shape, job.layout, self.name)
        white = (
            WHITE.get(f"{self._data.dtype.kind}{self._data.dtype.itemsize}", 1.0)
            if self.images
            else 1.0
        )
        self.scale = job.scale or white
        rest = {
            name: other for name, other in table.columns.items() if other is not column
        }
        self.labels = self._labels(rest, job.labels, stack)
        if "ids" in rest and len(rest["ids"].written_cells()) == self.n:
            self.ids = rest["ids"].names("ids")
        if "class_names" in rest:
            self.class_names = list(
                map(str, np.asarray(rest["class_names"].load()).tolist())
            )
        self.stamps = [stamp(path)]
        self.identity = {
            "file": path.name,
            "bytes": path.stat().st_size,
            "array": column.name,
        }
        self.identity |= {"layout": self.layout, "scale": self.scale}

    def _labels(
        self, columns: dict[str, Column], option: str | None, stack: ExitStack
    ) -> AnyArray | None:
        """Labels beside the inputs, or where ``--labels`` says. Raises DataError."""
        column = self._label_column(columns, option, stack)
        if column is None:
            return None
        labels = np.asarray(column.load()[...])
        if labels.shape != (self.n,):
            message = f"labels have shape {labels.shape}, expected ({self.n},)"
            raise DataError(f"{column.where}: {message}: one per input")
        if labels.dtype.kind not in "iu":
            message = f"labels have type {labels.dtype}, expected integers"
            raise DataError(f"{column.where}: {message}")
        return labels.astype(np.int64)

    def _label_column(
        self, columns: dict[str, Column], option: str | None, stack: ExitStack
    ) -> Column | None:
        if option is None:
            named = [name for name in LABEL_NAMES if name in columns]
            return columns[named[0]] if named else None
        if option in columns:
            return columns[option]
        file, array = split_where(option)
        if not file.is_file():
            have = ", ".join(columns) or "no other array"
            message = f"is neither an array beside {self.name} ({have}) nor a file"
            raise DataError(f"--labels {option}: {message}")
        return _pick(open_table(file, stack), array, LABEL_NAMES, file, "labels")

    def read(self, start: int, stop: int) -> AnyArray:
        x = np.asarray(self._data[start:stop])
        if self.images or self.scale != 1.0:
            x = x.astype(np.float32) / np.float32(self.scale)
        if self.layout == "nchw":
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        return x[..., None] if self.layout == "nhw" else x


def _pick(
    table: Table, option: str | None, names: Sequence[str], path: Path, what: str
) -> Column:
    """The array that an option names, else the first of these names.

    Raises DataError.
    """
    columns = table.columns
    if option is not None:
        if option not in columns:
            listing = ", ".join(columns)
            raise DataError(f"{path}: has no array {option!r}; it holds: {listing}")
        return columns[option]
    for name in names:
        if name in columns:
            return columns[name]
    if table.is_single or len(columns) == 1:
        return next(iter(columns.values()))
    listing = f"{', '.join(names[:4])}, … (it has: {', '.join(columns)})"
    advice = f"name the {what} with --{what} FILE:NAME"
    raise DataError(f"{path}: holds no array named {listing}; {advice}")


CHANNELS = (1, 3, 4)
BILINEAR = 2  # Pillow's constant
WHITE = {"u1": 255.0, "u2": 65535.0}  # default divisor of pixels by their type


def _layout(shape: tuple[int, ...], wish: str | None, where: str) -> str:
    """Infer the layout from the shape. Raises DataError if it is ambiguous."""
    if wish is not None:
        if len(shape) not in LAYOUTS[wish]:
            raise DataError(
                f"{where}: has shape {shape}, which --layout {wish} does not fit"
            )
        return wish
    if len(shape) == 2:
        return "rows"
    if len(shape) == 4 and (shape[1] in CHANNELS) != (shape[3] in CHANNELS):
        return "nchw" if shape[1] in CHANNELS else "nhwc"
    options = "nhw (grey images), sequence or rows (as it is)"
    if len(shape) == 4:
        options = "nhwc or nchw"
    raise DataError(
        f"{where}: has shape {shape}, which does not say how inputs are stored; pass"
        f" --layout {options}"
    )


class ImageFolder(Inputs):
    """Images in one sub-folder per class, or all in one folder without labels.

    Classes are the sub-folders in alphabetical order, ids the paths within the folder.
    """

    layout = "nhwc"

    def __init__(self, path: Path, job: ModelJob) -> None:
        self.path = path
        self.name = str(path)
        self.resize = job.resize
        self.grey = job.grey
        if job.layout not in (None, "nhwc"):
            raise UsageError(
                f"--layout {job.layout}: is for arrays; images of a folder are read as"
                " nhwc"
            )
        if job.labels is not None:
            raise UsageError(
                f"--labels {job.labels}: labels of an image folder are its sub-folders"
            )
        self.scale = 255.0 if job.scale is None else job.scale
        self.files, self.labels, self.class_names = self._list()
        self.n = len(self.files)
        for file in self.files:
            if not (path / file).is_file():
                raise DataError(
                    f"{path / file}: is no ordinary file, or leads to none; expected an"
                    " image"
                )
            note(path / file)
        self.ids = np.asarray(self.files)
        self.stamps = [stamp(path / file) for file in self.files]
        listing = "\n".join(
            f"{file} {size}"
            for file, (_, _, size, *_) in zip(self.files, self.stamps, strict=True)
        )
        self.identity = {
            "folder": path.name,
            "files_sha256": sha256(listing.encode()).hexdigest(),
        }
        self.identity |= {"resize": self.resize, "grey": self.grey, "scale": self.scale}
        if self.resize is not None:
            return
        sizes = {}
        for file in self.files:
            with self._open(file) as image:
                sizes[image.size] = file
            if len(sizes) > 1:
                (width, height), (w, h) = sizes
                raise DataError(
                    f"{path}: {self.files[0]} is {width} x {height} pixels but {file}"
                    f" is {w} x {h}; pass --resize HEIGHTxWIDTH to make them equal"
                )

    def _list(self) -> tuple[list[str], AnyArray | None, list[str] | None]:
        """Files, their classes, and the names of the classes; None without folders."""
        with os.scandir(self.path) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
        visible.sort(key=lambda entry: entry.name)
        folders = [entry.name for entry in visible if entry.is_dir()]
        loose = [
            entry.name
            for entry in visible
            if entry.name.lower().endswith(IMAGE_SUFFIXES)
        ]
        suffixes = ", ".join(IMAGE_SUFFIXES)
        if folders and loose:
            raise DataError(
                f"{self.path}: has images beside its class folders ({loose[0]}); put"
                " them into a class"
            )
        if loose:
            return loose, None, None
        if not folders:
            raise DataError(
                f"{self.path}: holds no class folders and no images ({suffixes});"
                " expected one sub-folder per class"
            )
        files: list[str] = []
        sizes: list[int] = []
        for folder in folders:
            images = self._images_in(folder)
            if not images:
                raise DataError(
                    f"{self.path / folder}: class folder without images ({suffixes});"
                    " fill it or remove it"
                )
            files += images
            sizes.append(len(images))
        return files, np.repeat(np.arange(len(sizes)), sizes), folders

    def _images_in(self, folder: str) -> list[str]:
        """Images in a folder and below it, relative to the folder of all classes."""
        images = []
        for root, _, names in os.walk(self.path / folder):
            for name in names:
                if name.lower().endswith(IMAGE_SUFFIXES):
                    images.append(str(Path(root, name).relative_to(self.path)))
        return sorted(images)

    def _open(self, file: str) -> Any:
        with optional_import("PIL", "reading image folders"):
            from PIL import Image
        with blaming(f"{self.path / file}: cannot be read as an image"):
            return Image.open(self.path / file)

    def read(self, start: int, stop: int) -> AnyArray:
        pictures = []
        for file in self.files[start:stop]:
            with (
                self._open(file) as image,
                blaming(f"{self.path / file}: cannot be decoded"),
            ):
                picture = image.convert("L" if self.grey else "RGB")
                if self.resize is not None:
                    picture = picture.resize(self.resize[::-1], BILINEAR)
                pictures.append(
                    np.asarray(picture, dtype=np.float32) / np.float32(self.scale)
                )
        pixels = np.stack(pictures)
        return pixels[..., None] if self.grey else pixels
