"""A GPU that computes nothing: torch's fake tensors, and a ledger of what they did.

Fake tensors have a device, a type and a shape, but no numbers and no memory. Operations
refuse tensors of two devices, and every call that would need a number raises. A build
of torch for CUDA fakes ``cuda``; a build without has no device guard for it, and fakes
a device of our own, which torch treats alike.
"""

import weakref
from contextlib import contextmanager

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._subclasses import FakeTensor, FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "unique")
"""Operators that wait for the device because the host needs their result."""

STAND_IN = "fakegpu"

MEMORY = 80 * 2**30
"""Bytes of memory that the fake GPU says it has, all of them free."""


def fake_name():
    """Name of the device to fake. Skips a test where this torch can fake none."""
    if torch.version.cuda is not None:
        return "cuda"
    if not hasattr(torch, STAND_IN):
        backends = pytest.importorskip("torch.utils.backend_registration")
        if not hasattr(backends, "_setup_privateuseone_for_python_backend"):
            pytest.skip("this torch, without CUDA, can fake no GPU")
        backends._setup_privateuseone_for_python_backend(STAND_IN)
    return STAND_IN


def has_mask(name, args):
    """Whether an operator picks elements by a mask: the host waits for their number."""
    if name not in ("index", "index_put", "index_put_"):
        return False
    indices = [index for index in args[1] if index is not None]
    return any(index.dtype == torch.bool for index in indices)


class Ledger(TorchDispatchMode):
    """What operations did on a device. Waits are uploads, downloads and the rest.

    peak : most bytes that were alive at a time. largest : elements of one tensor.
    index_types : of the tensors that indexed others.
    """

    def __init__(self, device):
        super().__init__()
        self.device = device
        self.uploads = 0
        self.downloads = 0
        self.other_waits = []
        self.alive = 0
        self.peak = 0
        self.largest = 0
        self.index_types = set()
        self.storages = weakref.WeakSet()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = operator.__name__.partition(".")[0]
        if name in WAITING or has_mask(name, args):
            self.other_waits.append(name)
        result = operator(*args, **kwargs)
        if name == "_to_copy":
            self._count_copy(args[0], result)
        if name == "copy_":
            self._count_copy(args[1], args[0])
        if name in ("scatter_add_", "gather", "scatter_"):
            self.index_types.add(args[2].dtype)
        self._measure(result)
        return result

    def _is_here(self, tensor):
        return tensor.device.type == self.device

    def _count_copy(self, source, target):
        if self._is_here(target) and not self._is_here(source):
            self.uploads += 1
        if self._is_here(source) and not self._is_here(target):
            self.downloads += 1

    def _measure(self, tensor):
        if not isinstance(tensor, torch.Tensor) or not self._is_here(tensor):
            return
        self.largest = max(self.largest, tensor.numel())
        storage = tensor.untyped_storage()
        if storage in self.storages:
            return
        size = storage.nbytes()
        self.storages.add(storage)
        self.alive += size
        self.peak = max(self.peak, self.alive)
        weakref.finalize(storage, self._free, size)

    def _free(self, size):
        self.alive -= size


def zeros_like_on_host(tensor):
    """Zeros in place of the numbers of a fake tensor, which has none."""
    assert tensor.device.type == "cpu", "only a tensor on the host becomes an array"
    kind = str(tensor.dtype).removeprefix("torch.")
    return np.zeros(tuple(tensor.shape), dtype=kind)


@contextmanager
def fake_gpu():
    """Yield a ledger; inside, tensors are fake, and the ledger's device is there."""
    name = fake_name()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeTensor, "numpy", zeros_like_on_host, raising=False)
        # A build of torch for CUDA asks the driver, and a fake GPU has none.
        patch.setattr(torch.cuda, "mem_get_info", lambda device: (MEMORY, MEMORY))
        with FakeTensorMode(), Ledger(name) as ledger:
            yield ledger
