"""Files with some of their bytes changed: every command ends with 0 or 3, in 10 s, within 1 GiB.

CALCLI_FUZZ_SECONDS is the time for all kinds together (25 if unset; ``make fuzz`` takes an
hour), CALCLI_FUZZ_SEED another beginning. Every run is a forked child of this process,
where everything is imported already. A file that fails is kept: the message says where.
"""

import io
import json
import os
import random
import shutil
import sys
import time
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from children import run
from run_calcli import runner
from synthetic import truth

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("CALCLI_FUZZ_SECONDS", "25"))
SEED = int(os.environ.get("CALCLI_FUZZ_SEED", "0"))
GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "v01"
Z, Y = truth(60, 4)
NUMBERS = [
    0,
    1,
    0x7F,
    0xFF,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
]
WORDS = [
    b"nan",
    b"inf",
    b"-1",
    b"1e999",
    b"1e308",
    b"null",
    b"[]",
    b"{}",
    b'""',
    b"\0",
    b"\xff",
    b"\n",
    b",",
    b"0" * 400,
]


# ---- mutations


def mutated(data, rng, text):
    """The data with one to eight changes."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 4, 8))):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0 | 1:
                data[place : place + 1] = bytes([rng.randrange(256)])
            case 2 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 3:
                width = rng.choice((1, 2, 4, 8))
                number = (rng.choice(NUMBERS) % 256**width).to_bytes(
                    width, rng.choice(("little", "big"))
                )
                data[place : place + width] = number
            case 4:
                del data[place : place + rng.randrange(1, 64)]
            case 5:
                piece = data[rng.randrange(len(data) + 1) :][: rng.randrange(64)]
                data[place:place] = piece
            case 6 if text or rng.random() < 0.2:
                data[place : place + rng.randrange(6)] = rng.choice(WORDS)
            case 7 if rng.random() < 0.2:
                del data[place:]
    return bytes(data)


def mutated_zip(data, rng, text):
    """A member of a zip archive changed beneath its checksum, or the archive itself."""
    if rng.random() < 0.3 or not data.startswith(b"PK"):  # as old files of torch do not
        return mutated(data, rng, False)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as copy:
        names = source.namelist()
        chosen = rng.choice(
            [name for name in names if name.endswith((".npy", "data.pkl"))] or names
        )
        for name in names:
            member = source.read(name)
            # The beginning says what the rest is.
            head = member[: rng.choice((128, len(member)))] if name == chosen else b""
            copy.writestr(name, mutated(head, rng, False) + member[len(head) :])
    return out.getvalue()


# ---- what is mutated: kind -> (suffix, originals, mutation, is it text)


def npz():
    out = io.BytesIO()
    np.savez(
        out,
        logits=Z,
        labels=Y,
        ids=np.arange(60).astype("U"),
        class_names=np.array(list("abcd")),
    )
    yield out.getvalue()


def npy():
    for array in (Z, Z.astype(">f4", order="F")):
        out = io.BytesIO()
        np.save(out, array)
        yield out.getvalue()


def pickles():
    import pickle

    for protocol in (0, 2, 4, 5):
        yield pickle.dumps(((Z, Y), (Z.astype("f4"), Y)), protocol)
        yield pickle.dumps(
            {"logits": Z, "labels": Y, "more": [1, {"a": "b"}]}, protocol
        )


def torch_files():
    torch = pytest.importorskip("torch")
    for new in (True, False):
        out = io.BytesIO()
        content = {
            "logits": torch.from_numpy(Z),
            "labels": torch.from_numpy(Y),
            "m": [torch.ones(2).half()],
        }
        torch.save(content, out, _use_new_zipfile_serialization=new)
        yield out.getvalue()


def safetensors():
    header = {
        "logits": {"dtype": "F64", "shape": [60, 4], "data_offsets": [0, Z.nbytes]},
        "labels": {
            "dtype": "I64",
            "shape": [60],
            "data_offsets": [Z.nbytes, Z.nbytes + 480],
        },
    }
    text = json.dumps(header).encode()
    yield (
        len(text).to_bytes(8, "little") + text + Z.tobytes() + Y.astype("i8").tobytes()
    )


def csv():
    head = "logits_a,logits_b,logits_c,logits_d,label,id\n"
    yield (
        head
        + "".join(
            f"{','.join(map(str, z))},{y},r{i}\n"
            for i, (z, y) in enumerate(zip(Z, Y, strict=True))
        )
    ).encode()
    yield b"\n".join(b"\t".join(str(v).encode() for v in z) for z in Z)


def documents():
    rows = [
        {"id": f"r{i}", "logits": z, "label": int(y)}
        for i, (z, y) in enumerate(zip(Z.tolist(), Y, strict=True))
    ]
    yield json.dumps(rows).encode()
    yield "".join(json.dumps(row) + "\n" for row in rows).encode()
    yield json.dumps({"logits": Z.tolist(), "labels": Y.tolist()}).encode()
    columns, data = (
        ["a", "b", "c", "d", "label"],
        [[*row["logits"], row["label"]] for row in rows],
    )
    yield json.dumps({"columns": columns, "data": data}).encode()
    choices = [dict(zip("abcd", z, strict=True)) for z in Z.tolist()]
    yield "".join(
        json.dumps({"scores": z, "label": "abcd"[y]}) + "\n"
        for z, y in zip(choices, Y, strict=True)
    ).encode()


def parquet():
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    out = io.BytesIO()
    columns = {f"logits_{i}": Z[:, i] for i in range(4)}
    parquet.write_table(
        pa.table({**columns, "label": Y, "id": [f"r{i}" for i in range(60)]}), out
    )
    yield out.getvalue()


def hdf5():
    for libver in ("earliest", "latest"):
        for packed in (False, True):
            out = io.BytesIO()
            storage = (
                {"chunks": (16, 4), "compression": "gzip", "fletcher32": True}
                if packed
                else {}
            )
            with h5py.File(out, "w", libver=libver) as file:
                for name in ("cal", "test"):
                    group = file.create_group(name)
                    group.create_dataset("logits", data=Z.astype("f4"), **storage)
                    group["labels"], group["weights"] = Y, np.ones(60)
                    group["class_names"] = np.array(list("abcd"), dtype=object)
                    group["ids"] = np.array(
                        [f"row {i}" for i in range(60)], dtype=object
                    )
                    group["transforms/logits"] = Z[None]
                    group["transforms/specs"] = np.array(["zoom:0.5"], dtype=object)
                    group.attrs["source"] = json.dumps({"bundle": "x"})
                file["link"] = h5py.SoftLink("/cal/logits")
                file["other"] = h5py.ExternalLink("good.h5", "/logits")
                layout = h5py.VirtualLayout(shape=(60, 4), dtype="f8")
                layout[:] = h5py.VirtualSource("good.h5", "logits", shape=(60, 4))
                file.create_virtual_dataset("virtual/logits", layout)
                file["virtual/labels"] = Y
            yield out.getvalue()


def artifacts():
    for path in sorted(GOLDEN.glob("rows4.*.json")):
        yield path.read_bytes()


EXTRACT = [
    [
        "extract",
        "FILE",
        "--kind",
        "logits",
        "--labels",
        "none",
        "-o",
        "o.h5",
        "--force",
        "-q",
    ]
]
LABELLED = [["extract", "FILE", "--kind", "logits", "-o", "o.h5", "--force", "-q"]]
KINDS = {
    "hdf5": (".h5", hdf5, mutated, [
        ["fit", "-m", "ts", "FILE:cal", "-o", "-", "-q"], ["inspect", "FILE"],
        ["apply", "ts.json", "FILE:test", "-o", "o.h5", "--force", "-q"],
        ["evaluate", "FILE:virtual", "-m", "ece", "-q"],
        ["extract", "FILE", "--scores", "*", "-o", "o.h5", "--force", "-q"],
        ["threshold", "FILE:cal", "--accuracy", "0.1", "-q"], ["diagram", "FILE:cal", "--json", "--resamples", "100"],
        ["report", "FILE:cal", "--no-decomposition", "-o", "o.html", "--force", "-q"],
        ["compare", "FILE:cal", "-m", "identity", "--folds", "2", "--json"],
        ["export", "ts.json", "--to", "python", "--check", "FILE:test", "-o", "o.py", "--force", "-q"],
    ]),
    "artifact": (".json", artifacts, mutated, [
        ["apply", "FILE", GOLDEN / "rows4.h5", "-o", "o.h5", "--force", "-q"], ["inspect", "FILE"],
        ["evaluate", GOLDEN / "rows4.h5", "-c", "FILE", "-m", "nll", "-q"],
        ["export", "FILE", "--to", "python", "-o", "o.py", "--force", "-q"],
    ]),
    "npz": (".npz", npz, mutated_zip, EXTRACT),
    "npy": (".npy", npy, mutated, EXTRACT),
    "pickle": (".p", pickles, mutated, EXTRACT),
    "safetensors": (".safetensors", safetensors, mutated, EXTRACT),
    "csv": (".csv", csv, mutated, EXTRACT),
    "json": (".json", documents, mutated, LABELLED),
    "parquet": (".parquet", parquet, mutated, EXTRACT),
    "pt": (".pt", torch_files, mutated_zip, EXTRACT),
}  # fmt: skip
TEXTS = ("artifact", "csv", "json")


# ---- running


@pytest.mark.skipif(
    not hasattr(os, "fork") or sys.platform != "linux",
    reason="limits of children as Linux has them",
)
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files_are_read_or_refused(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    suffix, make, mutate, commands = KINDS[kind]
    originals = list(make())
    with h5py.File("good.h5", "w") as file:
        file["logits"], file["labels"] = Z, Y
    shutil.copy(GOLDEN / "rows4.ts.json", "ts.json")
    name = f"x{suffix}"
    here = runner(monkeypatch, capsys)
    for original in originals:  # what is imported for them now, every child has
        Path(name).write_bytes(original)
        for words in commands:
            code = here(
                *(w.replace("FILE", name) if isinstance(w, str) else w for w in words)
            ).code
            # weights; recal
            assert code == 0 or (words[0] in ("threshold", "export") and code in (2, 3))
    rng = random.Random(f"{kind} {SEED}")
    tried, accepted, end = 0, 0, time.monotonic() + SECONDS / len(KINDS)
    while time.monotonic() < end or tried < 5:
        data = mutate(rng.choice(originals), rng, kind in TEXTS)
        Path(name).write_bytes(data)
        words = [
            w.replace("FILE", name) if isinstance(w, str) else w
            for w in rng.choice(commands)
        ]
        code, seconds, said = run(words)
        tried, accepted = tried + 1, accepted + (code == 0)
        kept = f"{' '.join(map(str, words))} of {tmp_path / name}: exit {code}, {seconds:.1f} s: {said[-500:]}"
        # a column got another word for scores or labels
        choose = code == 2 and "choose with --" in said
        none = (code, words[0]) in (
            (4, "threshold"),
            (2, "export"),
        )  # no promise; recal has no serving form
        assert code in (0, 3) or choose or none, kept
        assert "Traceback" not in said, kept
        assert (
            code == 0
            or sum(line.startswith("calcli: ") for line in said.splitlines()) == 1
        ), kept
    with capsys.disabled():
        print(
            f"  {kind}: {tried} files, {accepted} read, {tried - accepted} refused",
            flush=True,
        )
