"""Files to follow the README with, made of the sample digits: python sample_data/scores.py [FOLDER].

scores.npz holds logits and labels, splits.npz the same as two sets, binary.csv asks whether the digit is odd.
patients.csv is simulated: the stated risk of readmission of visits, too extreme, and too low above all in Porto.
"""

import sys
from pathlib import Path

import h5py
import numpy as np

PATIENTS, SEED = 1000, 11


def write(folder: Path) -> None:
    """The four files."""
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
    (folder / "patients.csv").write_text(patients())


def patients() -> str:
    """A table of visits: patient, site, sex, stated risk of readmission, and what happened."""
    rng = np.random.RandomState(SEED)  # whose numbers never change
    visits = rng.randint(1, 7, PATIENTS)
    patient = np.repeat(np.arange(PATIENTS), visits)
    site = np.array(["Basel", "Lyon", "Porto"])[rng.randint(0, 3, PATIENTS)][patient]
    sex = np.array(["F", "M"])[rng.randint(0, 2, PATIENTS)][patient]
    severity = rng.normal(-2.1, 1.0, PATIENTS)[patient]
    stated = severity + rng.normal(0.0, 0.9, len(patient))
    # the patient's own luck is shared by the visits
    luck = 0.6 * rng.logistic(size=PATIENTS)[patient] + 0.8 * rng.logistic(
        size=len(patient)
    )
    readmitted = -0.35 + 0.65 * stated + 0.7 * (site == "Porto") + luck > 0.0
    risk = 1.0 / (1.0 + np.exp(-stated))
    lines = [
        f"p{number:03d},{where},{who},{p:.4f},{('no', 'yes')[int(outcome)]}\n"
        for number, where, who, p, outcome in zip(
            patient, site, sex, risk, readmitted, strict=True
        )
    ]
    return "patient,site,sex,risk,readmitted\n" + "".join(lines)


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
