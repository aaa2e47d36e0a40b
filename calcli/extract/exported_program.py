"""Programs of torch.export, loaded so that nothing in the archive runs but the model's own operators.

``torch.export.load`` unpickles what the archive asks it to, loads compiled libraries and
evaluates expressions of sizes. Here pickles are read weights-only or not at all, archives
with libraries or pickled objects are refused, and so is an expression that is more than
arithmetic. A model still is a program: what it computes and how long is its own matter.
"""

import inspect
import json
import pickle
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calcli.errors import DataError, one_line
from calcli.io.validate import swells

REFUSED = re.compile(r"\.(so|dll|dylib|cubin|hsaco|py|pyc)$|(^|/)(aotinductor|executorch)/|(^|/)(opaque|custom)_obj_")
"""Members that are libraries, or objects that only a pickle can give."""

ARITHMETIC = re.compile(
    r"(?!.*__)(?!.*[A-Za-z_]\.|.*\.[A-Za-z_])(?!.*\b[a-z_]\w*\s*\()([\w\s+\-*/%(),.<>=!&|~]|'\w{1,50}'){0,10000}"
)
"""An expression of sizes: names, numbers, operators, and what SymPy writes as Capital(…); no attributes."""


def load_exported(torch: Any, path: Path) -> Any:
    """The program in a ``.pt2``. Raises DataError."""
    _check_archive(path)
    try:
        with _without_pickles(torch):
            return torch.export.load(path)
    except Exception as problem:
        raise DataError(f"{path}: cannot be loaded as a torch.export program: {one_line(problem)}") from None


def runnable(program: Any) -> Any:
    """The module of a program, without the checks that it carries as text to be executed."""
    plain = {"check_guards": False} if "check_guards" in inspect.signature(program.module).parameters else {}
    return program.module(**plain)


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if REFUSED.search(member.filename) or swells(member.file_size, member.compress_size):
                    raise DataError(
                        f"{path}: holds {member.filename}, which would have to be run to be read; export the model"
                        " again, or name the code that builds it: --model package.module:factory"
                    )
                if member.filename.endswith(".json"):
                    _check_expressions(path, json.loads(archive.read(member)))
    except (zipfile.BadZipFile, OSError, ValueError, RecursionError, NotImplementedError) as problem:
        raise DataError(f"{path}: cannot be loaded as a torch.export program: {one_line(problem)}") from None


def _check_expressions(path: Path, content: Any) -> None:
    todo = [content]
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            todo += item.values()
            text = item.get("expr_str", "")
            if not (isinstance(text, str) and ARITHMETIC.fullmatch(text)):
                raise DataError(f"{path}: has a size {str(text)[:40]!r}, expected arithmetic; export the model again")


@contextmanager
def _without_pickles(torch: Any) -> Iterator[None]:
    """torch.load reads tensors only, whatever it is asked for; pickle.loads nothing at all."""
    load, loads = torch.load, pickle.loads

    def tensors(*args: Any, **options: Any) -> Any:
        return load(*args, **{**options, "weights_only": True})

    def nothing(*args: Any, **options: Any) -> Any:
        raise pickle.UnpicklingError("it holds a pickle, which could run any program")

    torch.load, pickle.loads = tensors, nothing
    try:
        yield
    finally:
        torch.load, pickle.loads = load, loads
