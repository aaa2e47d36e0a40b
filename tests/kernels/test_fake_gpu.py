"""What is known of the loops on a GPU without one: devices, waits, sizes and memory."""

from functools import partial

import numpy as np
import pytest
from fake_gpu import fake_gpu, torch
from synthetic import rows_of, truth
from test_kernels_torch import SOURCES

from calcli.block import Block
from calcli.kernels.numpy.hoki_draws import standard_noise
from calcli.kernels.numpy.hoki_retention import gap_table
from calcli.kernels.torch import RowSharpness, device_rows, retention_rates
from calcli.kernels.torch import hoki_retention as hoki
from calcli.kernels.torch.device_rows import Device, DeviceRows
from calcli.numerics import softmax
from calcli.rows import ArrayRows, Rows

MIB = 2**20
SCALES = [0.5, 1.0, 2.0]
NOISES = ["gaussian", "gumbel", "draws"]


def retention(rows, noise, device):
    """Retention at three scales, exact or by drawing."""
    draws = None
    if noise == "draws":
        noise = "gaussian"
        draws = standard_noise(noise, 40, rows.k, seed=1)
    return retention_rates(rows, noise, SCALES, draws, device=device)


def recal_rows(kind="logits"):
    z, y = truth(250, 6, seed=10)
    scores = softmax(z) if kind == "probs" else z
    return rows_of(scores, y, block_rows=25, kind=kind)


def stream(patch):
    """Let no rows fit into a device's memory."""
    patch.setattr(Device, "free_bytes", lambda self: 0.0)


@pytest.fixture
def meta(monkeypatch):
    """A device without numbers, whose tensors come back as zeros."""
    to_host = lambda self, tensor: np.zeros(tuple(tensor.shape))  # noqa: E731
    monkeypatch.setattr(Device, "fetch", to_host)
    return "meta"


# ---- no operation mixes devices, and none waits for a number


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("rows", SOURCES.values(), ids=SOURCES)
def test_retention_stays_on_the_device(rows, noise):
    with fake_gpu() as ledger:
        rates = retention(rows, noise, ledger.device)
    assert rates.shape == (rows.n, 3)
    assert ledger.largest > 0
    assert ledger.other_waits == []


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_recal_stays_on_the_device(kind):
    rows = recal_rows(kind)
    ones = np.ones(rows.n)
    with fake_gpu() as ledger:
        sharpness = RowSharpness(rows, device=ledger.device)
        assert sharpness.tilt(ones).cumulants.shape == (4, rows.n)
        assert sharpness.tilt(ones, ones > 0).log_top.shape == (rows.n,)
        for with_own in (True, False):
            share, agree = sharpness.response(1, ones, with_own)
            assert share.shape == agree.shape == (rows.n,)
    assert ledger.largest > 0
    assert ledger.other_waits == []


@pytest.mark.parametrize("noise", NOISES)
def test_retention_on_meta(meta, noise):
    rates = retention(SOURCES["float32"], noise, meta)
    np.testing.assert_array_equal(rates, np.zeros((700, 3)))


def test_recal_on_meta(meta):
    rows = recal_rows()
    sharpness = RowSharpness(rows, device=meta)
    ones = np.ones(rows.n)
    np.testing.assert_array_equal(sharpness.tilt(ones).log_top, np.zeros(rows.n))
    share, _ = sharpness.response(0, ones, False)
    np.testing.assert_array_equal(share, np.zeros(rows.n))


def test_the_fake_gpu_sees_what_it_must():
    """Mixed devices, a number that is asked for, and a mask as an index are refused."""
    with fake_gpu() as ledger:
        here = torch.ones(4, device=ledger.device)
        with pytest.raises(RuntimeError, match="same device"):
            here + torch.ones(4)
        with pytest.raises(RuntimeError):
            here[0].item()
        with pytest.raises(RuntimeError):
            here[here > 0]
        here.cpu()
    assert ledger.other_waits == ["_local_scalar_dense", "index"]
    assert (ledger.uploads, ledger.downloads) == (0, 1)


# ---- calls that wait: uploads and downloads


@pytest.mark.parametrize(
    ("noise", "inputs"), [("gaussian", 1), ("gumbel", 0), ("draws", 1)]
)
@pytest.mark.parametrize("is_kept", [True, False])
def test_waits_of_retention(noise, inputs, is_kept, monkeypatch):
    """One upload a chunk, one of tables or draws; one download, or one a chunk."""
    rows = ArrayRows(*truth(250, 6, seed=10), block_rows=25)
    monkeypatch.setattr(device_rows, "UPLOADED_NUMBERS", 25 * 6)
    if not is_kept:
        stream(monkeypatch)
    with fake_gpu() as ledger:
        retention(rows, noise, ledger.device)
    assert ledger.uploads == 10 + inputs
    assert ledger.downloads == (1 if is_kept else 10)


def counted(ledger, work):
    """Uploads and downloads of some work."""
    uploads, downloads = ledger.uploads, ledger.downloads
    work()
    return ledger.uploads - uploads, ledger.downloads - downloads


def test_waits_of_recal_with_rows_that_are_kept(monkeypatch):
    """A pass takes one upload and one download, however many chunks there are."""
    rows = recal_rows()
    monkeypatch.setattr(device_rows, "WORKING_NUMBERS", 25 * 16)
    ones = np.ones(rows.n)
    with fake_gpu() as ledger:
        sharpness = RowSharpness(rows, device=ledger.device)
        assert len(sharpness.upload.rows.kept) == 10
        assert ledger.uploads == 2 * 10 + 1  # scores, transforms; once the predictions
        tilt = partial(sharpness.tilt, ones)
        assert counted(ledger, tilt) == (1, 1)
        assert counted(ledger, partial(tilt, ones > 0)) == (1, 1)
        for with_own in (True, False):
            response = partial(sharpness.response, 0, ones, with_own)
            assert counted(ledger, response) == (1, 1)


def test_waits_of_recal_with_rows_that_do_not_fit(monkeypatch):
    """A chunk takes one download, and an upload of each array that the pass reads."""
    rows = recal_rows()
    monkeypatch.setattr(device_rows, "WORKING_NUMBERS", 25 * 16)
    stream(monkeypatch)
    ones = np.ones(rows.n)
    with fake_gpu() as ledger:
        sharpness = RowSharpness(rows, device=ledger.device)
        assert ledger.uploads == 0
        assert counted(ledger, partial(sharpness.tilt, ones)) == (2 * 10, 10)
        response = partial(sharpness.response, 0, ones, False)
        assert counted(ledger, response) == (4 * 10, 10)


# ---- more than 2^31 elements, and memory


class ZeroRows(Rows):
    """Rows of zeros that take no memory, of any number, with some transforms."""

    kind = "logits"

    def __init__(self, n, k, transforms=0, dtype=np.float32):
        self.n, self.k = n, k
        self.dtype = np.dtype(dtype)
        self.transforms = tuple(f"zoom:{i}" for i in range(transforms))

    def blocks(self, transforms=(), at_once=1):
        step = max(1, device_rows.WORKING_NUMBERS // self.k)
        zero = self.dtype.type(0)
        for start in range(0, self.n, step):
            shape = min(step, self.n - start), self.k
            moved = None
            if len(transforms):
                moved = np.broadcast_to(zero, (len(transforms), *shape))
            scores = np.broadcast_to(zero, shape)
            yield Block(start, scores, "logits", transformed=moved)

    def each(self, work, *along, transforms=(), at_once=1):
        """What ReCal's first pass finds: no gap, and class 0, in every row."""
        yield np.zeros(self.n), np.zeros(self.n, dtype=np.int64)

    def labels(self):
        return np.zeros(self.n, dtype=np.int64)


@pytest.fixture
def unread(monkeypatch):
    """Uploads that make a tensor of the right shape, and read nothing."""

    def send(device, array):
        kind = torch.from_numpy(np.empty(0, dtype=array.dtype)).dtype
        return torch.empty(array.shape, dtype=kind, device=device.device)

    monkeypatch.setattr(Device, "send", send)


@pytest.mark.slow
@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("is_kept", [True, False])
def test_retention_of_more_scores_than_32_bits_count(is_kept, monkeypatch):
    if not is_kept:
        stream(monkeypatch)
    rows = ZeroRows(1 << 21, 1200)
    assert rows.n * rows.k > 2**31
    with fake_gpu() as ledger:
        rates = retention_rates(rows, "gaussian", [1.0], device=ledger.device)
    assert rates.shape == (1 << 21, 1)
    assert ledger.largest <= device_rows.WORKING_NUMBERS


@pytest.mark.slow
@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("is_kept", [True, False])
def test_recal_of_more_scores_than_32_bits_count(is_kept, monkeypatch):
    if not is_kept:
        stream(monkeypatch)
    rows = ZeroRows(1 << 21, 1200, transforms=2)
    ones = np.ones(rows.n)
    with fake_gpu() as ledger:
        sharpness = RowSharpness(rows, device=ledger.device)
        assert sharpness.tilt(ones).cumulants.shape == (4, rows.n)
        share, _ = sharpness.response(1, ones, False)
    assert share.shape == (rows.n,)


def test_places_are_counted_in_64_bits():
    """A chunk never has so many scores; were it to, its places would not overflow."""
    table = gap_table((1.0, 64.0), 1024)
    with fake_gpu() as ledger:
        d = torch.empty((1 << 21) + 1, 1024, dtype=torch.float64, device=ledger.device)
        hoki.power_sums(d, table)
    assert ledger.largest > 2**31
    assert ledger.index_types == {torch.int64}


WORKING_PEAK = 1600 * MIB
"""Memory of the work on one chunk: some twelve arrays of 128 MiB."""

SHAPES = [
    (1 << 12, 2, 0),
    (1 << 19, 2, 0),
    (1 << 19, 2, 5),
    (1 << 17, 1000, 0),
    (1 << 15, 1000, 40),
    (600, 50_000, 3),
    (40, 1_000_000, 2),
]


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(("n", "k", "transforms"), SHAPES)
@pytest.mark.parametrize("loop", ["gaussian", "gumbel", "recal"])
def test_memory_is_bounded_whatever_the_shape(n, k, transforms, loop, monkeypatch):
    """Free memory of 4 GiB: uploaded rows take at most half, and chunks the rest."""
    free = 4 << 30
    monkeypatch.setattr(Device, "free_bytes", lambda self: float(free))
    rows = ZeroRows(n, k, transforms)
    with fake_gpu() as ledger:
        if loop == "recal":
            sharpness = RowSharpness(rows, device=ledger.device)
            sharpness.tilt(np.ones(n))
            if transforms:
                sharpness.response(0, np.ones(n), False)
        else:
            scales = np.geomspace(1e-3, 1e3, 5).tolist()
            retention_rates(rows, loop, scales, device=ledger.device)
    assert 0 < ledger.peak <= free // 2 + WORKING_PEAK


@pytest.mark.usefixtures("unread")
def test_memory_does_not_grow_with_the_scales(monkeypatch):
    """A thousand results per row of two classes: 8 GiB, were rows of a chunk as many."""
    stream(monkeypatch)
    rows = ZeroRows(1 << 18, 2)
    scales = np.geomspace(0.1, 10.0, 1000).tolist()
    with fake_gpu() as ledger:
        retention_rates(rows, "gumbel", scales, device=ledger.device)
    assert ledger.peak <= WORKING_PEAK


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("loop", ["gaussian", "recal"])
def test_memory_does_not_grow_with_rows_that_do_not_fit(loop, monkeypatch):
    stream(monkeypatch)
    peaks = []
    for n in (1 << 16, 1 << 19):
        rows = ZeroRows(n, 1000, transforms=1)
        with fake_gpu() as ledger:
            if loop == "recal":
                RowSharpness(rows, device=ledger.device).tilt(np.ones(n))
            else:
                retention_rates(rows, loop, SCALES, device=ledger.device)
        peaks.append(ledger.peak)
    assert peaks[0] == peaks[1] <= WORKING_PEAK


@pytest.mark.slow
@pytest.mark.parametrize("draws", [10, 1000, 300_000])
def test_memory_does_not_grow_with_the_draws(draws):
    """600 MB of draws come in parts of 256 MiB, and races of 512 MiB."""
    k = 500
    noise = np.broadcast_to(np.float32(0), (draws, k))
    with fake_gpu() as ledger:
        rates = retention_rates(
            ZeroRows(300, k), "gaussian", [1.0], noise, device=ledger.device
        )
    assert rates.shape == (300, 1)
    assert ledger.peak <= WORKING_PEAK


def test_draws_in_parts_count_the_same(monkeypatch):
    rows = SOURCES["float32"]
    draws = standard_noise("gaussian", 150, rows.k, seed=1)
    compute = partial(retention_rates, rows, "gaussian", SCALES, draws, device="cpu")
    whole = compute()
    monkeypatch.setattr(hoki, "DRAWN_NUMBERS", 40 * rows.k)
    np.testing.assert_array_equal(compute(), whole)


def test_long_blocks_are_cut(monkeypatch):
    """Blocks of a source may be longer than a chunk."""
    monkeypatch.setattr(device_rows, "WORKING_NUMBERS", 16 * 7)
    rows = ArrayRows(*truth(20, 5, seed=1))
    chunks = DeviceRows(rows, Device("cpu")).kept
    assert [chunk.rows for chunk in chunks] == [
        slice(0, 7),
        slice(7, 14),
        slice(14, 20),
    ]
    scores = np.concatenate([chunk.scores.numpy() for chunk in chunks])
    np.testing.assert_array_equal(scores, rows.scores)


def test_scores_in_the_byte_order_of_another_machine():
    z, y = truth(60, 4, seed=2)
    expected = retention(ArrayRows(z, y), "gaussian", "cpu")
    other = z.astype(z.dtype.newbyteorder())
    rates = retention(ArrayRows(other, y), "gaussian", "cpu")
    np.testing.assert_array_equal(rates, expected)
