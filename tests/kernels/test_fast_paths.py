"""What is done fast is done exactly: the same bits as the plain way."""

import h5py
import numpy as np
import pytest
from run_calcli import runner

from calcli.errors import DataError
from calcli.io import bundle_scores
from calcli.io.bundle import open_bundle
from calcli.kernels.numpy.temperature import softmax_at
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
    assert np.allclose(
        p,
        expected,
        rtol=np.finfo(dtype).eps + 5e-14,
        atol=2.0**-25 if dtype == "float16" else 0,
    )
    assert np.allclose(confidence, expected.max(axis=1), rtol=1e-14)
    assert np.array_equal(label, z.argmax(axis=1))
    alone = [softmax_at(row[None], 1 / 1.7, None, np.dtype(dtype))[0] for row in z[:20]]
    assert np.array_equal(np.concatenate(alone), p[:20])


@pytest.mark.parametrize("how", ["ml_dtypes", "uint16", "npz", "npy"])
def test_bfloat16_is_read_as_the_float32_it_is(tmp_path, monkeypatch, capsys, how):
    """The upper half of a float32, as ml_dtypes writes it or as bits whose dataset says so."""
    z = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    bits, y = (z.view(np.uint32) >> 16).astype(np.uint16), np.arange(60) % 5
    expected = (bits.astype(np.uint32) << 16).view(np.float32)
    sources = [tmp_path / "a.h5"]
    if how in ("npz", "npy"):
        if how == "npz":
            np.savez(tmp_path / "a.npz", logits=bits.view("V2"), labels=y)
            sources = [tmp_path / "a.npz"]
        else:
            np.save(tmp_path / "logits.npy", bits.view("V2"))
            np.save(tmp_path / "labels.npy", y)
            sources = [tmp_path / "logits.npy", tmp_path / "labels.npy"]
        assert (
            runner(monkeypatch, capsys)(
                "extract", *sources, "-o", tmp_path / "a.h5"
            ).code
            == 0
        )
    else:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["logits"], file["labels"] = (
                bits if how == "uint16" else bits.view("V2"),
                y,
            )
            if how == "uint16":
                file["logits"].attrs["dtype"] = "bfloat16"
    with open_bundle(str(tmp_path / "a.h5")) as rows:
        assert rows.dtype == np.float32
        assert np.array_equal(rows.array(), expected)


def test_uint16_that_nobody_calls_bfloat16_is_no_score(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["logits"], file["labels"] = np.ones((4, 3), np.uint16), [0, 1, 2, 0]
    with (
        pytest.raises(DataError, match="scores have type uint16"),
        open_bundle(str(tmp_path / "a.h5")),
    ):
        pass


@pytest.mark.parametrize("chunks", [(64, 500), (4000, 1)])
def test_chunked_scores_are_read_once(tmp_path, monkeypatch, chunks):
    """Above the size up to which everything is kept, so that a fit's walks do not unpack again and again."""
    monkeypatch.setattr(bundle_scores, "CACHE_BYTES", 1 << 20)
    z = np.random.default_rng(0).normal(size=(4000, 500)).astype(np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset(
            "logits", data=z, chunks=chunks, compression="gzip", compression_opts=1
        )
        file["labels"] = np.arange(4000) % 500
    read, blocks = bundle_scores.read, []

    def counted(dataset, rows, where):
        table = read(dataset, rows, where)
        blocks.append(len(table) if getattr(dataset, "name", "") == "/logits" else 0)
        return table

    monkeypatch.setattr(bundle_scores, "read", counted)
    with open_bundle(str(tmp_path / "a.h5")) as rows:
        for _ in range(3):
            assert np.array_equal(
                np.concatenate([block.scores for block in rows.blocks()]), z
            )
    assert sum(blocks) == 4000
