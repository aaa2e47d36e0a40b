"""Pictures that calcli draws of simulated scores as the pages are built: good, bad, and too few rows.

Labels are drawn from softmax(z / T), so what is right is known: T = 1 is a calibrated model, T = 1.6
one that is too sure.
"""

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import h5py
import numpy as np

from calcli.cli.main import run

SAMPLE = Path(__file__).parent.parent / "sample_data" / "digits.h5"
CASES = {"good": (5000, 1.0), "bad": (5000, 1.6), "few": (60, 1.6)}
"""Name -> (rows, temperature that the labels are drawn with)."""


def simulate(n: int, temperature: float, seed: int = 0, classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, classes) and labels (n,) drawn from softmax(logits / temperature)."""
    rng = np.random.default_rng(seed)
    z = 2.5 * rng.normal(size=(n, classes))
    return z, (z / temperature + rng.gumbel(size=z.shape)).argmax(axis=1)


def calcli(*arguments: object) -> str:
    """Run a command, and give what it prints on stdout."""
    out, words = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(words):
        code = run([str(a) for a in arguments])
    if code:
        raise RuntimeError(f"calcli {' '.join(map(str, arguments))} ended with {code}: {words.getvalue()}")
    return out.getvalue()


def draw(folder: Path) -> None:
    """Bundles, diagrams in two themes, evaluations as text, and the page of the sample data."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (n, temperature) in CASES.items():
        bundle = folder / f"{name}.h5"
        if (folder / f"{name}.txt").exists():
            continue
        z, y = simulate(n, temperature)
        with h5py.File(bundle, "w") as file:
            file["logits"], file["labels"] = z.astype(np.float32), y
        for theme in ("light", "dark"):
            calcli("diagram", bundle, "-o", folder / f"{name}-{theme}.png", "--theme", theme, "--force", "-q")
        (folder / f"{name}.txt").write_text(calcli("evaluate", bundle), encoding="utf-8")
    page = folder / "report.html"
    if not page.exists():
        calibrator = folder / "ts.json"
        calcli("fit", "--method", "ts", SAMPLE, "-o", calibrator, "--force", "-q")
        for theme in ("light", "dark"):
            picture = folder / f"sample-{theme}.png"
            calcli("diagram", SAMPLE, "-c", calibrator, "-o", picture, "--theme", theme, "--force", "-q")
        calcli("report", SAMPLE, "-c", calibrator, "-o", page, "-q")
