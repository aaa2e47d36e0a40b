"""Pictures that calcli draws of simulated scores as the pages are built: good, bad, and too few rows.

Labels are drawn from softmax(z / T), so what is right is known: T = 1 is a calibrated model, above it
one that is too sure.
"""

import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import h5py
import numpy as np

from calcli.cli.main import run

SAMPLE = Path(__file__).parent.parent / "sample_data" / "digits.h5"
CASES = {"good": (5000, 1.0, 0), "bad": (5000, 1.6, 0), "few": (60, 1.25, 2)}
"""Name -> (rows, temperature that the labels are drawn with, seed)."""

GALLERY = Path(__file__).parent / "gallery.md"
PICTURE_OF_COMMAND = re.compile(
    r"```console\n\$ calcli diagram (.+)\n```\n\n"
    r"```\{image\} generated/pictures/gallery-(\w+)-light\.png\n"
)
"""A command of the gallery, and the name of the picture beneath it."""


def simulate(
    n: int, temperature: float, seed: int = 0, classes: int = 10
) -> tuple[np.ndarray, np.ndarray]:
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
        raise RuntimeError(
            f"calcli {' '.join(map(str, arguments))} ended with {code}: {words.getvalue()}"
        )
    return out.getvalue()


def draw(folder: Path) -> None:
    """Bundles, diagrams in two themes, evaluations as text, and a picture of every style."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (n, temperature, seed) in CASES.items():
        bundle = folder / f"{name}.h5"
        if (folder / f"{name}.txt").exists():
            continue
        z, y = simulate(n, temperature, seed)
        with h5py.File(bundle, "w") as file:
            file["logits"], file["labels"] = z.astype(np.float32), y
        for theme in ("light", "dark"):
            calcli(
                "diagram",
                bundle,
                "-o",
                folder / f"{name}-{theme}.png",
                "--theme",
                theme,
                "--force",
                "-q",
            )
        (folder / f"{name}.txt").write_text(
            calcli("evaluate", bundle), encoding="utf-8"
        )
    calibrators = {method: folder / f"{method}.json" for method in ("ts", "svs", "hb")}
    if not (folder / "sample-dark.png").exists():
        for method, path in calibrators.items():
            calcli("fit", "--method", method, SAMPLE, "-o", path, "--force", "-q")
        for theme in ("light", "dark"):
            picture = folder / f"sample-{theme}.png"
            calcli(
                "diagram",
                SAMPLE,
                "-c",
                calibrators["ts"],
                "-o",
                picture,
                "--theme",
                theme,
                "--force",
                "-q",
            )
    write_epochs(folder / "epochs.h5")
    write_groups(folder / "groups.h5")
    patients = folder / "patients.h5"
    write_patients(patients)
    platt = folder / "platt.json"
    calcli("fit", "--method", "platt", patients, "-o", platt, "--force", "-q")
    for name, words in gallery_commands().items():
        given = [_in_folder(word, folder) for word in words]
        for theme in ("light", "dark"):
            target = folder / f"gallery-{name}-{theme}.png"
            if not target.exists():
                calcli("diagram", *given, "-o", target, "--theme", theme, "-q")


def gallery_commands() -> dict[str, list[str]]:
    """Words of ``calcli diagram`` by the name of the picture, as the gallery shows them."""
    page = GALLERY.read_text(encoding="utf-8")
    return {
        name: shlex.split(words) for words, name in PICTURE_OF_COMMAND.findall(page)
    }


def _in_folder(word: str, folder: Path) -> str:
    """A word of a command, with the path of a file that it names."""
    if word == "sample_data/digits.h5":
        return str(SAMPLE)
    if word.endswith((".h5", ".json", ".h5:*")):
        return str(folder / word)
    return word


def write_epochs(path: Path) -> None:
    """A model that learns, and from epoch 20 on only grows more sure: one bundle per epoch."""
    rng = np.random.default_rng(0)
    noise, y = rng.normal(size=(2000, 10)), rng.integers(0, 10, 2000)
    with h5py.File(path, "w") as file:
        for epoch in (1, 2, 5, 10, 20, 40, 80, 160):
            learnt = 2.2 * (1 - np.exp(-epoch / 12)) * np.eye(10)[y]
            group = file.create_group(f"epoch{epoch}")
            group["logits"], group["labels"] = (
                ((1 + epoch / 15) * (noise + learnt)).astype(np.float32),
                y,
            )


def write_groups(path: Path) -> None:
    """Twenty classes, one of two groups less well calibrated."""
    z, y = simulate(6000, 1.0, classes=20)
    odd = np.arange(len(y)) % 2
    with h5py.File(path, "w") as file:
        file["logits"], file["labels"] = (
            (z * np.where(odd, 1.5, 1.0)[:, None]).astype(np.float32),
            y,
        )
        file["group"] = np.array(["day", "night"], dtype=object)[odd]


def write_patients(path: Path) -> None:
    """Risks of two classes that are too extreme and too low, to fit on and to test."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for name in ("cal", "test"):
            log_odds = rng.normal(-1.8, 1.6, 2000)
            chance = 1.0 / (1.0 + np.exp(-(0.3 + 0.65 * log_odds)))
            group = file.create_group(name)
            group["logits"] = log_odds.astype(np.float32)
            group["labels"] = (rng.random(2000) < chance).astype(np.int64)
