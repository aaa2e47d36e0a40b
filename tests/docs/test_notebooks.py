"""The notebooks of the documentation run from top to bottom."""

import json
import warnings

import numpy as np
import pytest
from conftest import REPOSITORY

FOLDER = REPOSITORY / "docs" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def run_cells(name):
    """Names that the cells of a notebook define, in its own folder as Jupyter does."""
    import matplotlib

    matplotlib.use("Agg")
    notebook = json.loads((FOLDER / name).read_text("utf-8"))
    assert notebook["nbformat"] == 4
    space = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)
        for number, cell in enumerate(notebook["cells"]):
            if cell["cell_type"] == "code":
                assert cell["outputs"] == [], "stored without outputs, which go stale"
                code = compile("".join(cell["source"]), f"{name}[{number}]", "exec")
                exec(code, space)
    return space


def test_there_are_three():
    assert NOTEBOOKS == [
        "language_model.ipynb",
        "quick_start.ipynb",
        "two_classes.ipynb",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_from_top_to_bottom(name, monkeypatch):
    pytest.importorskip("matplotlib", reason="pictures")
    import matplotlib.pyplot as plt

    monkeypatch.chdir(FOLDER)
    before = {path: path.stat().st_mtime_ns for path in FOLDER.iterdir()}
    space = run_cells(name)
    plt.close("all")
    assert {path: path.stat().st_mtime_ns for path in FOLDER.iterdir()} == before
    if name == "two_classes.ipynb":  # what its text says of the map for each hospital
        uncalibrated, common, by_hospital = (
            result["metrics"]["nll"]["value"]
            for result in space["judged"].to_dict()["results"]
        )
        assert by_hospital < common < uncalibrated
    if name == "language_model.ipynb":
        assert space["found"]["accuracy_lower"] >= 0.65
        logits = np.array([[1.0, 0.0, 0.0, 0.0]])
        probabilities = space["temperature"].predict_proba(logits, kind="logits")
        assert probabilities.max() < 0.475  # softmax of these logits: e / (e + 3)
