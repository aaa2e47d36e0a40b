"""Pickles are read without being executed: only arrays come out, whatever goes in."""

import io
import os
import pickle
import pickletools
import struct

import numpy as np
import pytest

from calcli.errors import DataError
from calcli.importers.import_scores import import_scores
from calcli.importers.pickled import ALLOWED, load_arrays

N, K = 30, 3
FLOAT_STATE = b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


@pytest.fixture(scope="module")
def scores():
    return np.random.default_rng(0).normal(0, 3, (N, K)).astype(np.float32)


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(1).integers(0, K, N)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "dtype", ["<f4", ">f8", "f2", "i1", "<i8", "?", "U5", "S3", "u2"]
)
def test_arrays_of_every_protocol_and_type_come_back(protocol, dtype):
    array = np.arange(24).reshape(4, 6).astype(dtype)
    content = {
        "a": (array, np.asfortranarray(array)),
        "b": [array[:0], np.float64(1.5)],
        "c": None,
    }
    found = load_arrays(pickle.dumps(content, protocol), "file")
    for one in found["a"]:
        assert one.dtype.newbyteorder("=") == np.dtype(dtype).newbyteorder("=")
        assert np.array_equal(one, array)
    assert found["b"][0].shape == (0, 6)
    assert found["b"][1] == 1.5


@pytest.mark.parametrize(
    ("new", "old"),
    [(b"numpy._core.", b"numpy.core."), (b"numpy.core.", b"numpy._core.")],
)
def test_both_homes_of_numpy_are_known(scores, new, old):
    data = pickle.dumps(scores, 2).replace(old, new)
    assert np.array_equal(load_arrays(data, "file"), scores)


def python2_array(values, code, shape):
    """What Python 2's cPickle.dump(array, file, 2) writes: byte strings are of type str (U and T)."""
    raw = np.asarray(values, "<" + code).tobytes()
    size = b"".join(b"K" + bytes([d]) for d in shape) + (
        b"\x85" if len(shape) == 1 else b"\x86"
    )
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + size
        + b"cnumpy\ndtype\nU\x02" + code.encode() + b"K\x00K\x01\x87R" + FLOAT_STATE
        + b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"
    )  # fmt: skip


def test_pickles_of_python_2_come_back(tmp_path, scores, labels):
    pair = (
        python2_array(scores, "f4", (N, K))
        + python2_array(labels, "i8", (N, 1))
        + b"\x86"
    )
    data = b"\x80\x02" + pair + pair + b"\x86."
    # it is a pickle as the standard library sees it
    pickletools.dis(data, io.StringIO())
    (z, y), _ = load_arrays(data, "file")
    assert np.array_equal(z, scores)
    assert np.array_equal(y[:, 0], labels)
    source = tmp_path / "probs_resnet_c10_logits.p"
    source.write_bytes(data)
    report = import_scores([source], tmp_path / "out.h5")
    assert [(b.name, b.kind, b.n, b.k) for b in report.bundles] == [
        ("val", "logits", N, K),
        ("test", "logits", N, K),
    ]


def test_published_layouts_are_known(tmp_path, scores, labels):
    source = tmp_path / "a.p"
    source.write_bytes(
        pickle.dumps(((scores[:20], labels[:20]), (scores[20:], labels[20:])))
    )
    report = import_scores([source], tmp_path / "split.h5")
    assert [(b.name, b.n) for b in report.bundles] == [("val", 20), ("test", 10)]
    source.write_bytes(pickle.dumps([scores, labels]))
    assert [b.name for b in import_scores([source], tmp_path / "whole.h5").bundles] == [
        ""
    ]
    source.write_bytes(
        pickle.dumps(
            {"probs": abs(scores) / abs(scores).sum(axis=1, keepdims=True), "y": labels}
        )
    )
    assert import_scores([source], tmp_path / "dict.h5").bundles[0].kind == "probs"


class Runs:
    """Runs a function when it is unpickled."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def hostile(tmp_path):
    trap = f"touch {tmp_path / 'sprung'}"
    import builtins
    import functools
    import subprocess

    yield "system", Runs(os.system, trap)
    yield "eval", Runs(builtins.eval, f"__import__('os').system({trap!r})")
    yield "Popen", Runs(subprocess.Popen, ["sh", "-c", trap])
    yield "getattr", Runs(builtins.getattr, "text", "join")
    yield "partial", Runs(functools.partial, os.system, trap)
    yield "load", Runs(np.load, "somewhere.npy")
    yield "fromfile", Runs(np.fromfile, "/etc/hostname")
    yield "memmap", Runs(np.memmap, "/etc/hostname")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_wants_to_run_something_is_refused_by_name(
    tmp_path, scores, labels, protocol
):
    source = tmp_path / "evil.p"
    for name, trap in hostile(tmp_path):
        for content in (
            trap,
            ((scores, labels), (scores, trap)),
            {"logits": scores, "labels": labels, "note": trap},
        ):
            source.write_bytes(pickle.dumps(content, protocol))
            with pytest.raises(DataError, match=rf"tries to build \S*{name}") as caught:
                import_scores([source], tmp_path / "out.h5")
            assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["evil.p"], (
        "no trap was sprung, nothing was written"
    )


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
FLOAT = b"cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R"


@pytest.mark.parametrize(
    "body",
    [
        b"cnumpy\nndarray\n}U\x01aK\x01sb",  # change what may only be called: its __dict__ …
        b"cnumpy\nndarray\nN}U\x05_makecos\nsystem\ns\x86b",  # … or its slots
        b"ccopyreg\n_reconstructor\nccalcli.importers.pickled\n_Array\nc__builtin__\nobject\nN\x87R",
        b"cnumpy\nndarray.__class__\n",
        b"\x8c\x05numpy\x8c\x11ndarray.__class__\x93",  # dotted names of protocol 4
        b"P1\n",  # a persistent object
        b"\x82\x01",  # an extension code
        ARRAY,  # no content
        ARRAY
        + b"(K\x01K\x05\x85"
        + FLOAT
        + FLOAT_STATE
        + b"\x89U\x08abcdefghtb",  # 5 floats in 8 bytes
        ARRAY
        + b"(K\x01J\xff\xff\xff\xffK\x02\x86"
        + FLOAT
        + FLOAT_STATE
        + b"\x89U\x00tb",  # a negative size
        ARRAY
        + b"(K\x01\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x10\x85"
        + FLOAT
        + FLOAT_STATE
        + b"\x89U\x04abcdtb",
        ARRAY
        + b"(K\x01K\x01\x85cnumpy\ndtype\nU\x01OK\x00K\x01\x87R\x89]tb",  # an array of objects
        ARRAY
        + b"(K\x01K\x01\x85cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R\x89U\x08abcdefghtb",  # a forged pointer
        ARRAY
        + b"(K\x01K\x01\x85cnumpy\ndtype\nU\x03V99K\x00K\x01\x87R\x89U\x01atb",  # raw records
        ARRAY
        + b"(K\x01K\x01\x85cnumpy\ndtype\nU\x05f4,i4K\x00K\x01\x87R\x89U\x08abcdefghtb",
        ARRAY + b"K\x01b",
        ARRAY + b"(K\x01K\x01\x85K\x07\x89U\x01atb",  # a type that is none
        b"cnumpy.core.multiarray\nscalar\n)R",
        b"cnumpy.core.numeric\n_frombuffer\n)R",
        b"c__builtin__\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x01\x85R",  # a thousand GiB of zeros
        b"c_codecs\nencode\nU\x02aaU\x03hex\x86R",
        b"q\x00h\x05",  # a memo that was never written
        b"0",  # an empty stack
        b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f",  # a frame longer than the file
        b"B\xff\xff\xff\x7fabc",  # bytes longer than the file
        b"(" * 5 + b"t" * 6,
    ],
)
def test_a_forged_pickle_is_refused_in_one_line(body):
    with pytest.raises(DataError) as caught:
        found = load_arrays(b"\x80\x02" + body + b".", "forged.p")
        pytest.fail(f"it gave {found!r}")
    assert str(caught.value).startswith("forged.p: ")
    assert "\n" not in str(caught.value)


def test_what_a_pickle_may_name_stays_as_it_is():
    before = {name: thing._make for name, thing in ALLOWED.items()}
    for module, name in ALLOWED:
        for change in (b"}U\x05_makeK\x01sb", b"N}U\x05_makeK\x01s\x86b"):
            with pytest.raises(DataError):
                load_arrays(
                    b"\x80\x02c" + f"{module}\n{name}\n".encode() + change + b".",
                    "file",
                )
    assert {name: thing._make for name, thing in ALLOWED.items()} == before


def test_a_pickle_nested_without_end_is_refused():
    with pytest.raises(DataError, match="nested|pickle"):
        load_arrays(b"\x80\x02" + b"(" * 200_000 + b"t" * 200_000 + b".", "file")
    # one pair, so that no mark is set
    with pytest.raises(DataError, match="a tuple as a key"):
        load_arrays(b"\x80\x02}K\x01\x85K\x02s.", "file")
    knot = []
    knot.append(knot)
    with pytest.raises(DataError, match="nested"):
        load_arrays(pickle.dumps(knot), "file")


def test_scrambled_pickles_never_escape(scores, labels):
    # Every single-byte change of a small pickle is either read or refused with a DataError.
    data = bytearray(pickle.dumps((scores[:2], labels[:2]), 2))
    rng = np.random.default_rng(3)
    refused = 0
    for place in range(len(data)):
        changed = data.copy()
        changed[place] = rng.integers(256)
        try:
            load_arrays(bytes(changed), "file")
        except DataError:
            refused += 1
    assert 0.3 * len(data) < refused < len(data), (
        "the rest lies in the numbers themselves"
    )
