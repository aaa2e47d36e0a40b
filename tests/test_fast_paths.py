"""What is done fast is done exactly: the same bits as the plain way."""

import numpy as np
import pytest

from calcli.kernels.numpy.scaled import softmax_at
from calcli.numerics import log_softmax, store

EDGES = [
    0.0,
    -0.0,
    2.0**-14,
    2.0**-25,
    3 * 2.0**-25,
    2.0**-24,
    -(2.0**-25),
    2.0**-14 * (1 - 2.0**-12),
    65504.0,
    1e9,
    np.nan,
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float16_has_the_bits_of_the_processors_own_conversion(dtype):
    size = np.exp(-np.random.default_rng(0).uniform(0.0, 25.0, 200_000))
    values = np.concatenate([size, -size, EDGES]).astype(dtype)
    out = np.empty(len(values), np.float16)
    with np.errstate(over="ignore"):
        store(out, values)
        expected = values.astype(np.float16)
    assert np.array_equal(out.view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize("k", [2, 7, 1000])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_probabilities_at_a_temperature_are_those_of_log_softmax(k, dtype):
    z = (np.random.default_rng(k).normal(size=(300, k)) * 8).astype(np.float32)
    p, confidence, label = softmax_at(z, 1 / 1.7, None, np.dtype(dtype))
    expected = np.exp(log_softmax(z.astype(np.float64) / 1.7))
    # Half a unit in the last place of the type, and what an exponential leaves in float64.
    assert np.allclose(p, expected, rtol=np.finfo(dtype).eps + 5e-14, atol=2.0**-25 if dtype == "float16" else 0)
    assert np.allclose(confidence, expected.max(axis=1), rtol=1e-14)
    assert np.array_equal(label, z.argmax(axis=1))
    alone = [softmax_at(row[None], 1 / 1.7, None, np.dtype(dtype))[0] for row in z[:20]]
    assert np.array_equal(np.concatenate(alone), p[:20])
