"""The choice of a device, and what happens when a GPU fails."""

import numpy as np
import pytest
from synthetic import rows_of, truth

from calcli.calibrator import Context
from calcli.errors import UsageError
from calcli.kernels import device as device_module
from calcli.kernels import numpy as kernels
from calcli.kernels.device import CudaLoops, gpu_pays, resolve
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

torch = pytest.importorskip("torch")
from calcli.kernels import torch as twins  # noqa: E402
from calcli.kernels.torch import device_rows  # noqa: E402
from calcli.kernels.torch.device_rows import Device  # noqa: E402

MANY = 10**10


def test_a_gpu_pays_from_a_size_on():
    """CPU seconds per score times scores against GPU_SECONDS."""
    start = device_module.GPU_SECONDS / device_module.CPU_SECONDS["hoki"]
    assert not gpu_pays("hoki", int(start * 0.999))
    assert gpu_pays("hoki", int(start * 1.001))
    assert gpu_pays("ts+recal+hoki", int(start * 0.9))
    assert not gpu_pays("ts", MANY)


@pytest.fixture
def driver(monkeypatch):
    """A machine with a driver whose GPU torch finds."""
    monkeypatch.setattr(device_module, "_driver_present", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def _no_kernel():
    raise RuntimeError("CUDA error: no kernel image is available for execution")


@pytest.mark.usefixtures("driver")
def test_a_gpu_that_computes_nothing_is_not_used(monkeypatch):
    monkeypatch.setattr(device_module, "_first_kernel", _no_kernel)
    assert resolve("auto", "hoki", MANY) == "cpu"
    words = r"cannot be used \(.*no kernel image.*\); use --device auto or cpu"
    with pytest.raises(UsageError, match=words):
        resolve("cuda", "hoki", MANY)


@pytest.mark.usefixtures("driver")
def test_auto_asks_no_gpu_where_none_pays(monkeypatch):
    def fail():
        raise AssertionError("a GPU was asked")

    monkeypatch.setattr(device_module, "_first_kernel", fail)
    assert resolve("auto", "hoki", 1000) == "cpu"
    assert resolve("cpu", "hoki", MANY) == "cpu"


# ---- memory that is exhausted


class FullDevice(Device):
    """The CPU as a device whose memory is exhausted after some uploads."""

    uploads_left = 0
    problem: RuntimeError = torch.cuda.OutOfMemoryError("CUDA out of memory")

    def __init__(self, name):
        super().__init__("cpu")

    def send(self, array):
        FullDevice.uploads_left -= 1
        if FullDevice.uploads_left < 0:
            raise self.problem
        return super().send(array)


@pytest.fixture(params=[0, 1, 3])
def full_device(request, monkeypatch):
    """Let the memory be exhausted at the first, second or fourth upload."""
    monkeypatch.setattr(FullDevice, "uploads_left", request.param)
    monkeypatch.setattr("calcli.kernels.torch.hoki_retention.Device", FullDevice)
    monkeypatch.setattr("calcli.kernels.torch.recal.Device", FullDevice)
    monkeypatch.setattr(device_rows, "WORKING_NUMBERS", 16 * 20)


@pytest.mark.usefixtures("full_device")
@pytest.mark.parametrize("noise", ["gaussian", "gumbel"])
def test_retention_goes_on_in_numpy(noise):
    rows = ArrayRows(*truth(90, 5, seed=1))
    events = []
    exhausted = lambda: events.append("exhausted")  # noqa: E731
    rates = twins.retention_rates(rows, noise, [1.0, 2.0], exhausted=exhausted)
    assert events == ["exhausted"]
    expected = kernels.retention_rates(rows, noise, [1.0, 2.0])
    np.testing.assert_array_equal(rates, expected)


@pytest.mark.usefixtures("full_device")
def test_recal_goes_on_in_numpy():
    rows = rows_of(*truth(40, 5, seed=1))
    events = []
    exhausted = lambda: events.append("exhausted")  # noqa: E731
    plain = kernels.RowSharpness(rows)
    twin = twins.RowSharpness(rows, exhausted=exhausted)
    scale = np.linspace(0.5, 2.0, 40)
    for _ in range(3):
        for wanted in (None, scale > 1.0):
            tilt = twin.tilt(scale, wanted)
            expected = plain.tilt(scale, wanted)
            np.testing.assert_allclose(tilt.log_top, expected.log_top, atol=1e-12)
        share, agree = twin.response(1, scale, False)
        expected_share, expected_agree = plain.response(1, scale, False)
        np.testing.assert_allclose(share, expected_share, atol=1e-12)
        np.testing.assert_array_equal(agree, expected_agree)
    assert events == ["exhausted"]
    assert twin.upload is None


@pytest.mark.usefixtures("full_device")
@pytest.mark.parametrize("name", ["hoki", "recal"])
def test_a_fit_without_memory_is_the_fit_on_the_cpu_and_says_so(name, monkeypatch):
    monkeypatch.setattr(FullDevice, "uploads_left", 0)
    rows = rows_of(*truth(300, 5, seed=12))
    words = {"rounds": "3"} if name == "recal" else {"noise": "auto"}
    options = parse_options(name, words)
    on_cpu = method(name).fit(rows, options, Context())
    context = Context(device="cuda")
    on_gpu = method(name).fit(rows, options, context)
    assert context.notes == [device_module.EXHAUSTED]
    for mine, theirs in zip(_params(on_gpu), _params(on_cpu), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def _params(fit):
    values = vars(fit.calibrator).values()
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    assert arrays
    return arrays


def test_the_record_of_a_fit_says_that_memory_was_exhausted(monkeypatch, tmp_path):
    from calcli.api import calibrators

    monkeypatch.setattr(FullDevice, "uploads_left", 0)
    monkeypatch.setattr("calcli.kernels.torch.hoki_retention.Device", FullDevice)
    monkeypatch.setattr(calibrators, "resolve", lambda *request: "cuda")
    z, y = truth(300, 5, seed=12)
    fitted = calibrators.fit(z, y, method="hoki", kind="logits")
    assert device_module.EXHAUSTED in fitted.warnings


@pytest.mark.parametrize(
    ("message", "is_memory"),
    [
        ("CUDA error: out of memory", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate", True),
        ("CUDA error: an illegal memory access was encountered", False),
    ],
)
def test_only_exhausted_memory_is_passed_over(message, is_memory):
    def fail():
        raise RuntimeError(message)

    def compute():
        return device_rows.unless_exhausted(fail, lambda: 7, device_rows.ignore)

    if is_memory:
        assert compute() == 7
        return
    with pytest.raises(RuntimeError, match="illegal memory access"):
        compute()


def test_exhausted_memory_is_noted_once(monkeypatch):
    monkeypatch.setattr("calcli.kernels.torch.hoki_retention.Device", FullDevice)
    monkeypatch.setattr(FullDevice, "uploads_left", 0)
    notes = []
    loops = CudaLoops(notes)
    rows = ArrayRows(*truth(20, 3, seed=1))
    for _ in range(2):
        loops.retention_rates(rows, "gumbel", [1.0], None, print)
    assert notes == [device_module.EXHAUSTED]
