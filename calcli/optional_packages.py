"""Packages that calcli can do without, and what is said where one does not load.

Every import of such a package stands inside ``optional_import``, or after one.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from calcli.errors import UsageError, one_line

DISTRIBUTION = "calcli-calibration"
"""The name under which pip knows calcli; ``calcli`` is another program there."""

TITLES = {
    "PIL": "Pillow",
    "distributed": "Dask",
    "sklearn": "scikit-learn 1.6 or later",
}
"""Module -> its package in a sentence, where that is not the module's own name."""

REQUIREMENTS = {
    "PIL": "pillow",
    "distributed": "dask distributed",
    "matplotlib": "matplotlib",
    "onnx": "onnx onnxruntime",  # an export is always tried with onnxruntime
    "onnxruntime": "onnxruntime",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
    "torch": "torch",
    "zstandard": "zstandard",
}
"""Module -> what installs it."""


def install_command(requirements: str) -> str:
    """Return the command that installs packages beside calcli.

    pipx keeps calcli in an environment of its own, which ``pip install`` misses.
    """
    if (Path(sys.prefix) / "pipx_metadata.json").is_file():
        return f"pipx inject {DISTRIBUTION} {requirements}"
    return f"pip install {requirements}"


@contextmanager
def optional_import(
    module: str,
    use: str,
    instead: str = "",
    error: type[Exception] = UsageError,
) -> Iterator[None]:
    """Turn a failure to import a package inside into one line.

    A package that is missing is named with the command that installs it. One that is
    installed but does not load is not missing: its own error is shown, and no command.

    module : a key of ``REQUIREMENTS``. use : what needs the package, the subject of a
    sentence. instead : what works without it. error : what is raised.
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as problem:  # a broken package may raise anything, as OSError
        title = TITLES.get(module, module)
        if _is_missing(problem, module):
            sentence = f"{use} needs {title}: {install_command(REQUIREMENTS[module])}"
        else:
            state = "is installed but cannot be imported"
            sentence = f"{use} needs {title}, which {state}: {one_line(problem)}"
        if instead:
            sentence = f"{sentence}; {instead}"
        raise error(sentence) from problem


def _is_missing(problem: Exception, module: str) -> bool:
    """Check whether an import failed because the package itself was not found."""
    return isinstance(problem, ModuleNotFoundError) and find_spec(module) is None
