"""Transforms of model inputs that remove information and preserve the label.

A transform is written ``name:argument`` (``zoom:0.62``), one after another with ``+``
between them (``zoom:0.5+brightness:0.5``). Images are (b, h, w, c) float32 with values
in [0, 1] and 0 black; sequences are (b, t, ...). Transforms act before the model's own
normalisation. NumPy only, but for blur and JPEG.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from calcli.errors import UsageError, unknown_name
from calcli.numerics import AnyArray, FloatArray, whole_number
from calcli.optional_packages import optional_import

Images = NDArray[np.float32]
Apply = Callable[[AnyArray, float, FloatArray], AnyArray]


@dataclass(frozen=True)
class Transform:
    """Transform of model inputs, with its range of arguments.

    apply : inputs, argument and one random number in [0, 1) per row to inputs. low,
    high : allowed arguments, both included. step : spacing of the values drawn.
    argument : meaning of the number. sequences : acts on sequences, else on images.
    """

    apply: Apply
    low: float
    high: float
    step: float
    argument: str
    sequences: bool = False


def zoom(x: Images, s: float, _: FloatArray) -> Images:
    """Zoom out: the image shrinks to the fraction s of its size, on black.

    Black is padded around it, int(w (1 - s) / s) pixels along an axis of w (the odd one
    right or below), and the whole is resized back to w by linear interpolation with a
    triangle as wide as the shrinking asks for.

    Reference: Jang, Lee, Weimer (2020), section 5, with the padding of the released
    code.
    """
    return _separable(x, _zoom_matrix, s)


@lru_cache(maxsize=64)
def _zoom_matrix(size: int, s: float) -> Images:
    """Make the (size, size) matrix of one axis: padding, then linear resizing with a
    triangle as wide as Pillow's.
    """
    padding = int(size * (1 - s) / s + 1e-9)
    wide = size + padding
    before = padding // 2
    ratio = wide / size
    centre = (np.arange(size) + 0.5) * ratio
    weight = np.maximum(
        1.0 - np.abs(np.arange(wide) + 0.5 - centre[:, None]) / ratio, 0.0
    )
    return (
        (weight / weight.sum(axis=1, keepdims=True))
        .astype(np.float32)[:, before : before + size]
        .copy()
    )


def _separable(
    x: Images, matrix: Callable[[int, float], Images], argument: float
) -> Images:
    """Multiply every channel of every image by the (size, size) matrices of its height
    and its width.
    """
    wide = np.einsum("ih,bhwc->biwc", matrix(x.shape[1], argument), x, optimize=True)
    return np.ascontiguousarray(
        np.einsum("jw,biwc->bijc", matrix(x.shape[2], argument), wide, optimize=True)
    )


def brightness(x: Images, f: float, _: FloatArray) -> Images:
    """Darken: every value times f (brighten for f > 1), clipped to [0, 1]."""
    return np.clip(x * np.float32(f), 0.0, 1.0)


# weights of red, green and blue in grey (ITU-R BT.601)
GREY = np.asarray([0.299, 0.587, 0.114], dtype=np.float32)


def contrast(x: Images, f: float, _: FloatArray) -> Images:
    """Flatten: m + f (x - m), clipped to [0, 1], with m the mean grey of the image."""
    grey = x @ GREY if x.shape[3] == 3 else x.mean(axis=3)
    m = grey.mean(axis=(1, 2))[:, None, None, None]
    return np.clip(m + np.float32(f) * (x - m), 0.0, 1.0)


def blur(x: Images, sigma: float, _: FloatArray) -> Images:
    """Blur with a Gaussian of sigma pixels.

    It is cut at 4 sigma, the image mirrored at its edges.
    """
    from scipy.ndimage import gaussian_filter  # the only transform that needs SciPy

    reach = int(np.ceil(4 * sigma))
    return gaussian_filter(x, (0, sigma, sigma, 0), radius=(0, reach, reach, 0))


def pixelate(x: Images, s: float, _: FloatArray) -> Images:
    """Pixelate to max(1, round(s w)) pixels along an axis of w.

    Areas are averaged, and the averages repeated to the size of the image.
    """
    return _separable(x, _pixelate_matrix, s)


@lru_cache(maxsize=64)
def _pixelate_matrix(size: int, s: float) -> Images:
    few = max(1, int(np.floor(s * size + 0.5)))
    edges = np.linspace(0, size, few + 1)
    pixel = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(
        edges[:-1, None], pixel
    )
    down = np.maximum(overlap, 0.0)
    down /= down.sum(axis=1, keepdims=True)
    nearest = np.minimum(((pixel + 0.5) * few / size).astype(np.int64), few - 1)
    return down[nearest].astype(np.float32)


def jpeg(x: Images, quality: float, _: FloatArray) -> Images:
    """Compress as JPEG of this quality (1 worst to 95), with Pillow."""
    with optional_import("PIL", "transform jpeg"):
        from PIL import Image
    if x.shape[3] not in (1, 3):
        raise UsageError(
            f"transform jpeg needs images of 1 or 3 channels, these have {x.shape[3]}"
        )
    eight = np.round(np.clip(x, 0.0, 1.0) * 255).astype(np.uint8)
    out = np.empty_like(x)
    for i, pixels in enumerate(eight):
        buffer = BytesIO()
        Image.fromarray(pixels[..., 0] if x.shape[3] == 1 else pixels).save(
            buffer, "JPEG", quality=int(quality)
        )
        with Image.open(buffer) as image:
            out[i] = np.asarray(image, dtype=np.float32).reshape(x.shape[1:]) / 255
    return out


def drop(x: Images, share: float, chance: FloatArray) -> Images:
    """Blacken every pixel, all channels at once, with this probability."""
    out = np.array(x)
    for i, seed in enumerate(chance):
        out[i][np.asarray(_generator(seed).random(x.shape[1:3])) < share] = 0.0
    return out


def frames(x: AnyArray, share: float, chance: FloatArray) -> AnyArray:
    """Blank (set to 0) every time step with this probability; one at least is left."""
    out = np.array(x)
    for i, seed in enumerate(chance):
        u = np.asarray(_generator(seed).random(x.shape[1]))
        out[i][(u < share) & (np.arange(len(u)) != u.argmax())] = 0
    return out


def _generator(chance: float) -> np.random.Generator:
    """Make a generator for one row, so that its draw does not depend on other rows."""
    return np.random.default_rng(int(chance * 2**53))


TRANSFORMS: dict[str, Transform] = {
    kind.apply.__name__: kind
    for kind in (
        Transform(zoom, 0.01, 1.0, 0.01, "fraction of the size that is left"),
        Transform(brightness, 0.0, 10.0, 0.01, "factor"),
        Transform(contrast, 0.0, 10.0, 0.01, "factor"),
        Transform(blur, 0.01, 100.0, 0.01, "standard deviation in pixels"),
        Transform(pixelate, 0.001, 1.0, 0.01, "fraction of the pixels along an axis"),
        Transform(jpeg, 1, 95, 1, "quality"),
        Transform(drop, 0.0, 1.0, 0.01, "share of the pixels"),
        Transform(frames, 0.0, 1.0, 0.01, "share of the time steps", sequences=True),
    )
}


def parse(spec: str) -> tuple[Transform, float]:
    """Read ``name:argument``, as ``choose`` writes it.

    Several with + between them make one transform.
    """
    parts: list[tuple[Transform, float]] = []
    for part in spec.split("+"):
        name, number = part.split(":")
        parts.append((TRANSFORMS[name], float(number)))
    if len({kind.sequences for kind, _ in parts}) > 1:
        names = " and ".join(kind.apply.__name__ for kind, _ in parts)
        raise UsageError(f"transforms {names} act on different kinds of inputs")

    def apply(x: AnyArray, _: float, chance: FloatArray) -> AnyArray:
        for kind, argument in parts:
            x = kind.apply(x, argument, chance)
        return x

    first, argument = parts[0]
    return replace(first, apply=apply), argument


MOST_DRAWS = 10_000

DRAWS = 10
"""Values that are drawn from a range without a number behind it."""


def choose(wanted: Sequence[str], seed: int) -> tuple[str, ...]:
    """Expand requested transforms into specs with exact arguments.

    wanted : ``zoom:0.62`` is used as it is; ``zoom:0.5:0.9:20`` stands for 20 values,
    ``zoom:0.5:0.9`` for ``DRAWS``, drawn without replacement from {0.5, 0.51, ... <
    0.9} (whole numbers for jpeg), written in increasing order; in
    ``zoom:0.5:0.9+brightness:0.5`` for a part. Raises UsageError for invalid or
    repeated requests.

    Reference: Jang, Lee, Weimer (2020), section 5.
    """
    rng = np.random.default_rng(seed)
    chosen: list[str] = []
    for spec in wanted:
        parts = [_values(part, rng) for part in spec.split("+")]
        longest = max(map(len, parts))
        columns: list[list[str]] = []
        for part in parts:
            column = part * longest if len(part) == 1 else part
            if columns and len(column) > 1:
                # Draws of several parts are paired at random, not in increasing order.
                column = rng.permutation(column).tolist()
            columns.append(column)
        chosen += ["+".join(column) for column in zip(*columns, strict=True)]
    for spec in chosen:
        parse(spec)
        if chosen.count(spec) > 1:
            raise UsageError(f"transform {spec!r} is asked for twice")
    return tuple(chosen)


def _values(spec: str, rng: np.random.Generator) -> list[str]:
    """Expand one spec into ``name:argument`` with exact arguments."""
    name, *numbers = spec.strip().split(":")
    if name not in TRANSFORMS:
        raise unknown_name("transform", name, TRANSFORMS)
    if len(numbers) not in (1, 2, 3):
        raise UsageError(
            f"transform {spec!r}: expected {name}:NUMBER or {name}:FROM:TO[:N]"
        )
    kind = TRANSFORMS[name]
    count = DRAWS
    if len(numbers) == 3:
        count = _count(numbers.pop(), spec)
    low = _number(numbers[0], spec, kind)
    if len(numbers) == 1:
        return [f"{name}:{low:g}"]
    high = _number(numbers[1], spec, kind)
    size = int(np.ceil((high - low) / kind.step - 1e-9))
    if size < count:
        raise UsageError(
            f"transform {spec!r}: has {max(size, 0)} values {low:g},"
            f" {low + kind.step:g}, … below {high:g}, expected at least {count}; write"
            f" {name}:FROM:TO:N"
        )
    index = np.sort(rng.choice(size, size=count, replace=False))
    return [f"{name}:{round(low + kind.step * int(i), 6):g}" for i in index]


def _count(text: str, spec: str) -> int:
    """Number of values to draw from a range."""
    count = whole_number(text) or 0
    if not 1 <= count <= MOST_DRAWS:
        raise UsageError(
            f"transform {spec!r}: {text!r} values, expected 1 to {MOST_DRAWS}"
        )
    return count


def _number(text: str, spec: str, kind: Transform) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    inside = kind.low <= value <= kind.high
    if inside and (kind.step < 1 or value == int(value)):
        return value
    expected = f"a number from {kind.low:g} to {kind.high:g}"
    if inside:
        expected = "a whole number"
    raise UsageError(
        f"transform {spec!r}: {text!r} is not allowed, expected {expected}:"
        f" {kind.argument}"
    )
