"""Average ranks of calibrators over several models, with the Friedman test.

Jang, Lee, Weimer (2021) print under Tables 2 and 3 each calibrator's average rank over
twelve data sets and models, and the p-value of the Friedman test that all calibrators are
alike. ``calcli evaluate`` does this for any bundles, each with calibrators of its own:

    calcli evaluate A.h5 B.h5 C.h5 -c '{stem}.ts.json' -c '{stem}.ec.json' -m ece -m brier

This script makes the bundles and calibrators first: it halves every file, fits the
methods on one half and ranks them, beside the uncalibrated scores, on the other.

    python reproductions/ranks_over_models.py SCORES.npz SCORES.npz … [--methods ts,ec,ets,irova,svs]

Each SCORES.npz holds ``logits`` (or ``probs``) and ``labels``. Rank 1 is best; besides
Friedman's chi-squared there is Iman and Davenport's F, which is less conservative.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def calcli(folder, *words):
    done = subprocess.run(
        [sys.executable, "-m", "calcli", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", nargs="+", type=Path, metavar="SCORES.npz")
    parser.add_argument(
        "--methods", default="ts,ec,ets,irova,svs", help="default: %(default)s"
    )
    parser.add_argument(
        "--metrics", default="ece,brier,nll", help="default: %(default)s"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FOLDER",
        help="also write the evaluation as JSON",
    )
    given = parser.parse_args()
    if len(given.sources) < 2:
        parser.error("ranks need two files or more")
    methods = given.methods.split(",")
    with tempfile.TemporaryDirectory() as folder:
        bundles = []
        for source in given.sources:
            bundles.append(f"{source.stem}.h5")
            calcli(
                folder,
                "extract",
                source.resolve(),
                "-o",
                bundles[-1],
                "--split",
                "cal=0.5",
                "--split",
                "test=0.5",
            )
            for method in methods:
                calcli(
                    folder,
                    "fit",
                    "--method",
                    method,
                    bundles[-1],
                    "-o",
                    f"{source.stem}.{method}.json",
                    "-q",
                )
        chosen = [
            word for method in methods for word in ("-c", f"{{stem}}.{method}.json")
        ]
        asked = [word for metric in given.metrics.split(",") for word in ("-m", metric)]
        print(calcli(folder, "evaluate", *bundles, *chosen, *asked), end="")
        if given.output:
            given.output.mkdir(parents=True, exist_ok=True)
            ranks = json.loads(
                calcli(folder, "evaluate", *bundles, *chosen, *asked, "--json")
            )["ranks"]
            text = json.dumps(ranks, indent=1)
            (given.output / "ranks_over_models.json").write_text(
                text + "\n", encoding="utf-8"
            )


if __name__ == "__main__":
    main()
