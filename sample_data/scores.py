"""Files to follow the README with, made of the sample digits: python sample_data/scores.py [FOLDER].

scores.npz holds logits and labels, splits.npz the same as two sets, binary.csv asks whether the digit is odd.
"""

import sys
from pathlib import Path

import h5py
import numpy as np


def write(folder: Path) -> None:
    """The three files."""
    with h5py.File(Path(__file__).parent / "digits.h5") as file:
        parts = [
            (file[g]["logits"][()], file[g]["labels"][()]) for g in ("cal", "test")
        ]
    z, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    np.savez(folder / "scores.npz", logits=z, labels=y)
    (val_z, val_y), (test_z, test_y) = parts
    np.savez(
        folder / "splits.npz",
        val_logits=val_z,
        val_labels=val_y,
        test_logits=test_z,
        test_labels=test_y,
    )
    odd = np.logaddexp.reduce(z[:, 1::2], axis=1) - np.logaddexp.reduce(
        z[:, ::2], axis=1
    )
    lines = [
        f"{score:.6f},{'+1' if label % 2 else '-1'}\n"
        for score, label in zip(odd, y, strict=True)
    ]
    (folder / "binary.csv").write_text("score,label\n" + "".join(lines))


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
