"""What pyproject.toml cannot say: the manual page is written as the package is built."""

import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
PAGE = Path("build") / "calcli.1"

if {"bdist_wheel", "build", "install"} & set(sys.argv):
    sys.path.insert(0, str(HERE))
    from calcli.cli.manual_page import manual

    (HERE / PAGE).parent.mkdir(exist_ok=True)
    (HERE / PAGE).write_text(manual(), encoding="utf-8")
    setup(data_files=[("share/man/man1", [str(PAGE)])])
else:
    setup()
