"""Two published figures by ``calcli diagram``.

temperature.png: NLL, ECE over its noise floor and mean confidence against the temperature,
    with the points of temperature scaling (least NLL) and expectation consistency (mean
    confidence equals accuracy): Figure 2 of Clarte, Loureiro, Krzakala, Zdeborova (2023).
variance.png: confidence variance against ECE, one point for each model and calibrator:
    Figure 3 of Jang, Ivanov, Lee, Weimer (2021). A constant confidence has no calibration
    error either, so a good calibrator lies to the left *and* high up.

    python reproductions/figures.py SCORES.npz SCORES.npz … -o FOLDER [--methods ts,ec,hoki,ets]

Each SCORES.npz holds ``logits`` (or ``probs``) and ``labels``; half of the rows calibrate.
The temperature is that of the first file.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path


def calcli(folder, *words):
    done = subprocess.run(
        [sys.executable, "-m", "calcli", *map(str, words)], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path, metavar="SCORES.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--methods", default="ts,ec,hoki,ets", help="default: %(default)s")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    output = given.output.resolve()
    with tempfile.TemporaryDirectory() as folder:
        bundles, artifacts = [], []
        for source in given.sources:
            bundles.append(f"{source.stem}.h5")
            calcli(folder, "extract", source.resolve(), "-o", bundles[-1], "--split", "cal=0.5", "--split", "test=0.5")
            for method in given.methods.split(","):
                artifacts.append(f"{source.stem}.{method}.json")
                calcli(folder, "fit", "--method", method, bundles[-1], "-o", artifacts[-1], "-q")
        temperature = ("-o", output / "temperature.png", "--force")
        calcli(folder, "diagram", bundles[0], "--style", "temperature", *temperature)
        # --match: every calibrator is shown only for the file that it was fitted on.
        each = [word for artifact in artifacts for word in ("-c", artifact)]
        variance = ("-o", output / "variance.png", "--force")
        calcli(folder, "diagram", *bundles, *each, "--match", "--style", "variance", *variance)
    print(output / "temperature.png")
    print(output / "variance.png")


if __name__ == "__main__":
    main()
