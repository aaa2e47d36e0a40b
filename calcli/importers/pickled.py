"""Pickles of NumPy arrays, read without the power to build anything else.

A pickle is a program. This module runs its stack machine, but every name that the
pickle looks up must be one of the handful that NumPy arrays are made of, and even those
give inert stand-ins: the bytes become arrays only afterwards, checked, through
``numpy.frombuffer``. Not even NumPy's own ``__setstate__`` sees what the file says.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, one_line
from calcli.importers.nested import (
    IsArray,
    Leaf,
    flatten,
    merge_batches,
    rebuilt,
    with_known_names,
)
from calcli.importers.ragged import Parts
from calcli.importers.table import Table, constant
from calcli.io.inputs import refuse_more
from calcli.numerics import AnyArray

LONGEST_TYPE = 20
"""Most characters of the code of a type."""


class _Inert:
    """A callable that a pickle may name; it allows nothing but calls."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *args: Any) -> Any:
        return self._make(*args)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("the pickle tries to change what it may only call")


class _Dtype:
    """Stand-in for a numpy.dtype of plain numbers or strings."""

    __slots__ = ("code", "order")

    def __init__(self, code: Any) -> None:
        if not isinstance(code, str | bytes) or len(code) > LONGEST_TYPE:
            raise pickle.UnpicklingError("the pickle holds an array of an unknown type")
        self.code = code if isinstance(code, str) else code.decode("latin-1")
        self.order = "="

    def __setstate__(self, state: Any) -> None:
        # (version, byte order, subarray, names, fields, item size, alignment, flags, …)
        if state[2:5] != (None, None, None):
            raise pickle.UnpicklingError(
                "the pickle holds an array of records, expected plain numbers"
            )
        self.order = str(state[1]) if state[1] in ("<", ">", "|", "=") else "="

    def real(self) -> np.dtype[Any]:
        order = "" if self.code[:1] in "<>|=" else self.order
        dtype = np.dtype(order + self.code)
        if dtype.kind not in "biufSU":
            raise pickle.UnpicklingError(
                f"the pickle holds an array of type {self.code}, expected plain numbers"
            )
        return dtype


class _Array:
    """Stand-in for a numpy.ndarray until its bytes are known."""

    __slots__ = ("content",)

    def __init__(self) -> None:
        self.content: Any = None

    def __setstate__(self, state: Any) -> None:
        # (version, shape, dtype, is Fortran, bytes); very old files lack the version
        shape, dtype, is_fortran, raw = state[-4:]
        is_of_objects = isinstance(dtype, _Dtype) and dtype.code == "O8"
        if is_of_objects and isinstance(raw, list) and prod(shape) == len(raw) > 0:
            self.content = raw if shape else raw[0]
            return
        self.content = _from_bytes(raw, dtype, shape, "F" if is_fortran else "C")


def _from_bytes(raw: Any, dtype: Any, shape: Any, order: str = "C") -> AnyArray:
    if not isinstance(dtype, _Dtype):
        raise pickle.UnpicklingError("the pickle holds an array without a type")
    if isinstance(raw, list):
        raise pickle.UnpicklingError(
            "the pickle holds an array of Python objects, expected numbers"
        )
    data = _bytes(raw)
    size = tuple(map(int, shape))
    real = dtype.real()
    if min(size, default=0) < 0 or prod(size) * real.itemsize != len(data):
        raise pickle.UnpicklingError(
            f"an array of shape {size} and type {real} has {len(data)} bytes"
        )
    return np.frombuffer(data, real).reshape(size, order="F" if order == "F" else "C")


def _bytes(raw: Any = b"") -> bytes:
    if isinstance(raw, str):
        return raw.encode("latin-1")  # Python 2 strings are bytes
    # bytes(n) of a number would allocate n bytes, chosen by the file.
    if not isinstance(raw, (bytes, bytearray, pickle.PickleBuffer)):
        raise pickle.UnpicklingError(
            f"the pickle holds {type(raw).__name__} where bytes belong"
        )
    return bytes(raw)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Encode a string in Latin-1, as which Python 3 pickles bytes for Python 2."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError("the pickle asks for another codec than Latin-1")
    return text.encode("latin-1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Inert(lambda *args: _Array()),
    ("numpy", "dtype"): _Inert(lambda code, *flags: _Dtype(code)),
    ("_codecs", "encode"): _Inert(_encode),
    ("__builtin__", "bytes"): _Inert(_bytes),
    ("builtins", "bytes"): _Inert(_bytes),
    ("__builtin__", "bytearray"): _Inert(_bytes),
    ("builtins", "bytearray"): _Inert(_bytes),
    ("collections", "OrderedDict"): _Inert(lambda *pairs: {}),
    ("torch._utils", "_rebuild_tensor_v2"): _Inert(lambda *parts: _tensor(*parts)),
    ("torch.storage", "_load_from_bytes"): _Inert(lambda raw: _storage(raw)),
}
for package in ("numpy.core", "numpy._core"):  # the second from NumPy 2 on
    ALLOWED[package + ".multiarray", "_reconstruct"] = _Inert(lambda *args: _Array())
    ALLOWED[package + ".multiarray", "scalar"] = _Inert(
        lambda dtype, raw=b"": _from_bytes(raw, dtype, ())
    )
    ALLOWED[package + ".numeric", "_frombuffer"] = _Inert(_from_bytes)


_Machine: Any = pickle._Unpickler
"""The version in Python, whose instructions can be replaced."""


class _Refused(pickle.UnpicklingError):
    """The pickle names an object that is not made of arrays."""


def _with_plain_keys(instruction: bytes, keys: slice) -> Callable[[Any], None]:
    """Wrap an instruction that fills a dict with a check of its keys.

    keys : where these are on the stack since the last mark.
    """
    plain = _Machine.dispatch[instruction[0]]

    def checked(machine: Any) -> None:
        for key in machine.stack[keys]:
            if not isinstance(key, str | bytes | int | float | None):
                raise pickle.UnpicklingError(
                    f"a dict has a {type(key).__name__} as a key, expected names"
                )
        plain(machine)

    return checked


class Unhashing(_Machine):  # type: ignore[misc]
    """A stack machine that refuses sets, and dicts with keys that are not plain.

    The hash of a tuple visits all items: that of 40 tuples, each of twice the one
    before, would never end.
    """

    def refuse_sets(self) -> None:
        raise _Refused("a set")

    dispatch = _Machine.dispatch | {
        pickle.SETITEM[0]: _with_plain_keys(pickle.SETITEM, slice(-2, -1)),
        pickle.SETITEMS[0]: _with_plain_keys(pickle.SETITEMS, slice(None, None, 2)),
        pickle.DICT[0]: _with_plain_keys(pickle.DICT, slice(None, None, 2)),
        # the original allocates before it reads
        pickle.BYTEARRAY8[0]: _Machine.dispatch[pickle.BINBYTES8[0]],
        **dict.fromkeys(
            (pickle.EMPTY_SET[0], pickle.FROZENSET[0], pickle.ADDITEMS[0]), refuse_sets
        ),
    }


class _Only(Unhashing):
    """A stack machine that finds only the objects in ``known``, by module and name."""

    known: Mapping[tuple[str, str], Any] = ALLOWED

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise _Refused(f"{module}.{name}")
        return self.known[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused("a persistent object")


def load_arrays(data: bytes, where: str) -> Any:
    """Read a pickle of NumPy arrays in tuples, lists and dicts.

    It may be of any protocol, from Python 2 or 3. Raises DataError with the name of
    what the pickle tried to build, if it is anything but these, and for a broken
    pickle.
    """
    file = io.BytesIO(data)
    try:
        content = _Only(file, encoding="latin1").load()
        refuse_more(where, file.read())
        return rebuilt(content, _plain, where, _content)
    except _Refused as what:
        raise DataError(
            f"{where}: the pickle tries to build {what}; calcli builds nothing but"
            " NumPy arrays from pickles, because a pickle can run any program; save"
            " the arrays with numpy.savez instead"
        ) from None
    except DataError:
        raise
    except RecursionError:
        raise DataError(
            f"{where}: the pickle is nested too deeply; expected tuples of NumPy arrays"
        ) from None
    except Exception as problem:  # a hostile or broken pickle can raise anything
        raise DataError(
            f"{where}: cannot be read as a pickle: {one_line(problem)};"
            " is the file complete?"
        ) from None


def _content(item: Any, in_list: bool) -> Any:
    """Replace a stand-in by its array; an array of objects becomes a list.

    in_list : as ``rebuilt`` says of every item; arrays are the same everywhere.
    """
    if not isinstance(item, _Array):
        return item
    if item.content is None:
        raise pickle.UnpicklingError("the pickle holds an array without content")
    return item.content


def _plain(item: Any, parts: list[Any]) -> Any:
    """Dicts with keys of text, and tuples."""
    if isinstance(item, dict):
        return dict(zip(map(str, item), parts, strict=True))
    return tuple(parts)


STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
"""NumPy types of torch's storages, by their names in pickles."""


class _StorageOnly(_Only):
    """Reads the pickles that torch writes for one storage.

    They are a magic number, the version, the system, type and key.
    """

    known = {("torch", name): code for name, code in STORAGES.items()}

    def persistent_load(self, pid: Any) -> Any:
        return pid


def _storage(raw: Any) -> AnyArray:
    """Read the storage of a pickled tensor: a file of torch nested in the pickle."""
    file = io.BytesIO(_bytes(raw))
    # Five pickles stand before the numbers; the fourth describes the storage.
    pickles = [_StorageOnly(file).load() for _ in range(5)]
    about = pickles[3]
    dtype = np.dtype(about[1])
    (numel,) = np.frombuffer(file.read(8), "<i8").tolist()
    data = file.read()
    if numel != about[4] or len(data) != numel * dtype.itemsize:
        raise pickle.UnpicklingError(
            f"a tensor of {numel} numbers has {len(data)} bytes"
        )
    return np.frombuffer(data, dtype)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> _Array:
    """Rebuild a tensor from its storage, as torch does; only contiguous ones."""
    size = tuple(map(int, shape))
    start = int(offset)
    is_contiguous = _are_contiguous(size, tuple(map(int, strides)))
    is_inside = min((start, *size)) >= 0
    if not isinstance(storage, np.ndarray) or not is_contiguous or not is_inside:
        raise pickle.UnpicklingError(
            "the pickle holds a tensor that does not lie in one piece; save it"
            " contiguous"
        )
    made = _Array()
    made.content = storage[start : start + prod(size)].reshape(size)
    return made


def _are_contiguous(size: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """True for the strides of an array whose last axis runs fastest."""
    step = 1
    for length, stride in zip(reversed(size), reversed(strides), strict=True):
        if length != 1 and stride != step:
            return False
        step *= length
    return True


# ---- arrays of the content of a pickle


def is_array(value: Any) -> bool:
    """True for an array, or for several of different sizes."""
    return isinstance(value, np.ndarray | Parts)


def table_of_content(
    path: Path,
    format: str,
    content: Any,
    *,
    is_array: IsArray = is_array,
    leaf: Leaf | None = None,
    loader_of: Callable[[Any], Callable[[], Any]] = constant,
    names_places: bool = False,
) -> Table:
    """Arrays of nested content.

    Dicts of arrays are read by their names, known tuples by their layout (see
    ``with_known_names``), other nestings by position: ``0/1``. leaf : see
    ``merge_batches``. loader_of : makes the function that returns an array.
    names_places : the user names arrays by their position.
    """
    named = content if names_places else with_known_names(content)
    if named is content:
        named = merge_batches(content, path, leaf)
        if not names_places:
            named = with_known_names(named)
    arrays = flatten(named, is_array, path)
    if not arrays:
        raise DataError(
            f"{path}: holds no arrays; expected (logits, labels), two such pairs, or a"
            " dict such as {'logits': …, 'labels': …}"
        )
    loaders = {name or path.stem: loader_of(array) for name, array in arrays.items()}
    return Table.of(path, format, loaders, is_single=set(arrays) == {""})
