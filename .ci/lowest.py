"""Print the lowest versions that pyproject.toml declares, as constraints for pip.

torch is left out: its old releases bring gigabytes of CUDA, so its pin of constraints.txt is kept.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENT = re.compile(r"([A-Za-z0-9_-]+)>=([0-9][0-9.]*)")


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    declared = {
        *project["dependencies"],
        *(
            text
            for extra in project["optional-dependencies"].values()
            for text in extra
        ),
    }
    for text in sorted(declared):
        match = REQUIREMENT.match(text)
        if match and match[1] != "torch":
            print(f"{match[1]}=={match[2]}")
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    print(next(line for line in pinned if line.startswith("torch==")))


if __name__ == "__main__":
    main()
