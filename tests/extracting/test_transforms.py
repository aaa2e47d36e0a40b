"""Lossy transforms: hand-sized cases, agreement with Pillow, and how parameters are drawn."""

import numpy as np
import pytest

from calcli.errors import UsageError
from calcli.extracting.transforms import TRANSFORMS, choose, parse

NONE = np.zeros(2)


def images(channels=3, size=12, n=2):
    return np.random.default_rng(0).random((n, size, size, channels)).astype(np.float32)


def apply(spec, x, chance=NONE):
    kind, argument = parse(spec)
    return kind.apply(x, argument, chance)


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_every_transform_keeps_shape_type_range_and_input(name):
    kind = TRANSFORMS[name]
    x = images(size=9)
    before = x.copy()
    for argument in (kind.low, min(kind.high, 3.0), min(kind.high, 90.0)):
        with np.errstate(all="raise", under="ignore"):
            y = kind.apply(x, argument, np.array([0.1, 0.7]))
        assert y.shape == x.shape
        assert y.dtype == np.float32
        assert y.min() >= -1e-6
        assert y.max() <= 1 + 1e-6
    np.testing.assert_array_equal(x, before)
    assert kind.apply.__doc__.splitlines()[0].endswith(".")


def test_transforms_one_after_another():
    x = images()
    np.testing.assert_array_equal(
        apply("zoom:0.5+brightness:0.5", x),
        apply("brightness:0.5", apply("zoom:0.5", x)),
    )
    assert choose(["zoom:0.50+brightness:0.5"], 0) == ("zoom:0.5+brightness:0.5",)
    drawn = choose(["zoom:0.5:0.9:5+brightness:0.2:0.8:5+blur:1"], 0)
    assert len(set(drawn)) == 5
    assert all(spec.endswith("+blur:1") and spec.count("+") == 2 for spec in drawn)
    with pytest.raises(UsageError, match="act on different kinds of inputs"):
        choose(["zoom:0.5+frames:0.2"], 0)
    with pytest.raises(UsageError, match=r"'rotate'"):
        choose(["zoom:0.5+rotate:3"], 0)


def test_zoom_by_hand():
    # 4 pixels, s = 0.5: int(4 * 0.5 / 0.5) = 4 black pixels, two on each side; resizing 8 to 4
    # with a triangle of half-width 2 around 1, 3, 5, 7 gives weights .125 .375 .375 .125.
    x = np.ones((1, 4, 4, 1), dtype=np.float32)
    row = np.array([0.125, 0.875, 0.875, 0.125])
    # At the border the triangle loses a weight of .125 and the rest is renormalised: 0, 0, .125 / .875.
    row[[0, -1]] = 0.125 / 0.875
    np.testing.assert_allclose(
        apply("zoom:0.5", x)[0, :, :, 0], np.outer(row, row), rtol=1e-6
    )
    np.testing.assert_array_equal(apply("zoom:1", images()), images())


def test_zoom_puts_the_odd_pixel_right_and_below():
    # 5 pixels, s = 0.8: int(5 * 0.2 / 0.8) = 1 black pixel, none before and one after.
    y = apply("zoom:0.8", np.ones((1, 5, 5, 1), dtype=np.float32))[0, :, :, 0]
    assert y[0, 0] == pytest.approx(1.0)
    assert y[-1].max() < 0.5
    assert y[:, -1].max() < 0.5


def test_zoom_resizes_as_pillow_does():
    image = pytest.importorskip("PIL.Image")
    x = images(1, 16)
    for s in (0.5, 0.62, 0.9):
        padding = int(16 * (1 - s) / s + 1e-9)
        wide = np.pad(x[0, :, :, 0], (padding // 2, padding - padding // 2))
        expected = image.fromarray(wide).resize((16, 16), image.Resampling.BILINEAR)
        # Pillow 12.3, mode F; it rounds its weights to float32.
        np.testing.assert_allclose(
            apply(f"zoom:{s}", x)[0, :, :, 0], np.asarray(expected), atol=2e-6
        )


def test_brightness_and_contrast_by_hand():
    x = np.array([0.2, 0.4, 0.9, 0.5], dtype=np.float32).reshape(1, 2, 2, 1)
    np.testing.assert_allclose(
        apply("brightness:0.5", x).ravel(), [0.1, 0.2, 0.45, 0.25], rtol=1e-6
    )
    np.testing.assert_allclose(
        apply("brightness:2", x).ravel(), [0.4, 0.8, 1.0, 1.0], rtol=1e-6
    )
    np.testing.assert_allclose(
        apply("contrast:0.5", x).ravel(), [0.35, 0.45, 0.7, 0.5], rtol=1e-6
    )
    np.testing.assert_allclose(apply("contrast:0", x).ravel(), [0.5] * 4, rtol=1e-6)
    colour = np.array([1.0, 0.0, 0.0], dtype=np.float32).reshape(1, 1, 1, 3)
    np.testing.assert_allclose(
        apply("contrast:0", colour).ravel(), [0.299] * 3, rtol=1e-6
    )


def test_blur_keeps_mass_and_matches_scipy():
    from scipy.ndimage import gaussian_filter

    x = images(1, 20)
    y = apply("blur:1.5", x)[0, :, :, 0]
    # scipy 1.17 gaussian_filter(mode="reflect", truncate=4.0): the same mirrored edges and cut.
    np.testing.assert_allclose(
        y, gaussian_filter(x[0, :, :, 0], 1.5, mode="reflect", truncate=4.0), atol=1e-6
    )
    assert y.mean() == pytest.approx(x[0].mean(), rel=1e-5)
    wide = apply("blur:100", x)  # the mirror is folded many times over
    assert wide.std(axis=(1, 2)).max() < 1e-3


def test_pixelate_by_hand():
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4, 1).repeat(4, axis=1) / 4
    np.testing.assert_allclose(
        apply("pixelate:0.5", x)[0, 0, :, 0], [0.125, 0.125, 0.625, 0.625]
    )
    np.testing.assert_allclose(apply("pixelate:0.001", x)[0, 0, :, 0], [0.375] * 4)
    np.testing.assert_allclose(apply("pixelate:1", x), x)


def test_jpeg_loses_more_at_lower_quality():
    pytest.importorskip("PIL")
    x = images(3, 32)
    losses = [np.abs(apply(f"jpeg:{q}", x) - x).mean() for q in (95, 50, 5)]
    assert losses[0] < losses[1] < losses[2]
    assert apply("jpeg:50", images(1)).shape == (2, 12, 12, 1)
    with pytest.raises(UsageError, match="1 or 3 channels, these have 4"):
        apply("jpeg:50", images(4))


def test_random_drops_belong_to_the_row_and_not_to_the_batch():
    x = images(3, 32, n=4)
    chance = np.random.default_rng(1).random(4)
    y = apply("drop:0.3", x, chance)
    np.testing.assert_array_equal(y[2:], apply("drop:0.3", x[2:], chance[2:]))
    gone = (y == 0).all(axis=3)
    assert gone.mean() == pytest.approx(0.3, abs=0.03)
    np.testing.assert_array_equal(y[~gone], x[~gone])
    clip = np.ones((4, 10, 3), dtype=np.float32)
    left = apply("frames:0.5", clip, chance).sum(axis=(1, 2)) / 3
    assert ((left >= 1) & (left <= 10)).all()
    assert apply("frames:1", clip, chance).sum(axis=(1, 2)).tolist() == [3.0] * 4


def test_parameters_are_drawn_as_the_paper_does():
    specs = choose(["zoom:0.5:0.9"], seed=3)
    values = [float(s.split(":")[1]) for s in specs]
    assert len(set(values)) == 10
    assert values == sorted(values)
    allowed = {round(0.5 + 0.01 * i, 2) for i in range(40)}
    assert set(values) <= allowed
    assert specs == choose(["zoom:0.5:0.9"], seed=3) != choose(["zoom:0.5:0.9"], seed=4)
    assert set(choose(["zoom:0.5:0.9:40"], seed=0)) == {f"zoom:{v:g}" for v in allowed}
    assert choose(["zoom:0.620", "jpeg:10"], seed=0) == ("zoom:0.62", "jpeg:10")
    assert all(
        float(s.split(":")[1]).is_integer() for s in choose(["jpeg:10:60:5"], seed=0)
    )


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("zom:0.5", "no transform is named 'zom'; did you mean zoom"),
        ("zoom", r"expected zoom:NUMBER or zoom:FROM:TO\[:N\]"),
        (
            "zoom:0",
            "'0' is not allowed, expected a number from 0.01 to 1: fraction of the size that is left",
        ),
        ("zoom:nan", "'nan' is not allowed"),
        ("jpeg:50.5", "expected a whole number: quality"),
        (
            "zoom:0.5:0.55",
            r"has 5 values 0.5, 0.51, … below 0.55, expected at least 10; write zoom:FROM:TO:N",
        ),
        ("zoom:0.9:0.5", "has 0 values"),
        ("zoom:0.5:0.9:0", "'0' values, expected 1 to 10000"),
        ("zoom:0.5:0.9:ten", "'ten' values, expected 1 to 10000"),
        ("zoom:0.5:0.9:3:3", r"expected zoom:NUMBER or zoom:FROM:TO\[:N\]"),
    ],
)
def test_what_is_not_a_transform_is_refused(wanted, message):
    with pytest.raises(UsageError, match=message):
        choose([wanted], seed=0)


def test_the_same_transform_twice_is_refused():
    with pytest.raises(UsageError, match="'zoom:0.5' is asked for twice"):
        choose(["zoom:0.5", "zoom:0.50"], seed=0)
