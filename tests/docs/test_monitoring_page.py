"""The page on monitoring: its year of one model, every decision of which is right, and its Airflow task."""

import os
import re
import shutil
import subprocess
import sys
import types

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from synthetic import truth
from test_readme import TRANSCRIPTS

PAGE = (REPOSITORY / "docs" / "monitoring.md").read_text("utf-8")
YEAR = PAGE.split("# Twelve months of one model")[1]
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]\d+)?")


def programs(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


def printed_alike(line, others):
    """Whether a line was printed, numbers with a point to the precision that other builds of NumPy have."""
    printed = [float(number) for number in NUMBER.findall(line)]
    alike = [
        other for other in others if NUMBER.sub("#", other) == NUMBER.sub("#", line)
    ]
    return any(
        [float(n) for n in NUMBER.findall(other)]
        == pytest.approx(printed, rel=0.05, abs=0.01)
        for other in alike
    )


@pytest.mark.slow
def test_a_year_of_one_model(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(programs(YEAR)[0], {})
    asked = [
        step
        for block in re.findall(r"```console\n(.*?)```", YEAR, re.S)
        for step in TRANSCRIPTS.steps(block)
    ]
    months = {
        word
        for step in asked
        for word in step.command.split()
        if re.fullmatch(r"\d\d\.h5", word)
    }
    assert months == {f"{month:02}.h5" for month in range(1, 13)}
    for command, shown in asked:
        words, _, code = command.partition("  # exit code ")
        if words.startswith("cp "):
            shutil.copy(*words.split()[1:])
            continue
        done = run(*words.split()[1:])
        assert done.code == int(code or 0), (command, done.err)
        for line in shown:
            assert printed_alike(line, (done.out + done.err).splitlines()), (
                command,
                line,
                done.out,
                done.err,
            )
    assert not (tmp_path / "august.json").exists()
    assert (tmp_path / "01.json").read_bytes() == (tmp_path / "svs.json").read_bytes()
    assert "No alarm" in (tmp_path / "year.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("sharpen", "code", "subject"),
    [(1.0, 1, None), (3.0, 0, "calibration alarm"), (None, 1, None)],
)
def test_the_line_of_cron_mails_an_alarm_and_nothing_else(
    run, tmp_path, sharpen, code, subject
):
    """It mailed for any failure, with an empty body. A fake ``mail`` keeps what it is given."""
    (line,) = re.findall(r"^0 6 \* \* 1  (.*)$", PAGE, flags=re.M)
    z, y = truth(600, 4, temperature=1.0, seed=5)
    with h5py.File("cal.h5", "w") as file:
        file["logits"], file["labels"] = truth(2000, 4, seed=6)
    assert run("fit", "-m", "identity", "cal.h5", "-o", "ts.json", "-q").code == 0
    if sharpen is not None:
        with h5py.File("last_week.h5", "w") as file:
            file["logits"], file["labels"] = z * sharpen, y
    programs_folder = tmp_path / "bin"
    programs_folder.mkdir()
    for name, script in {
        "mail": f'echo "$2" "$3" > {tmp_path}/envelope; cat > {tmp_path}/body',
        "calcli": f'exec {sys.executable} -m calcli "$@"',
    }.items():
        (programs_folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs_folder / name).chmod(0o755)
    line = line.replace("/data/", f"{tmp_path}/").replace("/models/", f"{tmp_path}/")
    path = f"{programs_folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", line],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert done.stdout == ""
    assert (tmp_path / "body").exists() == (subject is not None)
    if subject is not None:
        assert (tmp_path / "envelope").read_text() == f"{subject} ops@example.org\n"
        assert (tmp_path / "body").read_text().startswith("ALARM since batch 1: ")
        assert done.stderr == ""
    if sharpen is None:
        assert done.stderr.startswith("calcli: ") and done.stderr.count("\n") == 1


def test_the_airflow_task_fails_on_an_alarm(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed = type("AirflowFailException", (Exception,), {})
    for name, holds in {
        "airflow": {},
        "airflow.decorators": {"task": lambda function: function},
        "airflow.exceptions": {"AirflowFailException": failed},
    }.items():
        module = types.ModuleType(name)
        vars(module).update(holds)
        monkeypatch.setitem(sys.modules, name, module)
    rng = np.random.default_rng(0)
    for name, sharper in {"cal": 1, "good": 1, "bad": 3}.items():
        z = rng.normal(size=(800, 3)) * 2
        with h5py.File(f"{name}.h5", "w") as file:
            file["logits"], file["labels"] = (
                z * sharper,
                (z + rng.gumbel(size=z.shape)).argmax(axis=1),
            )
    run("fit", "--method", "ts", "cal.h5", "-o", "ts.json", "-q")
    (program,) = [text for text in programs(PAGE) if "airflow" in text]
    names = {}
    exec(program, names)
    assert names["watch"]("good.h5")["alarm"] is False
    with pytest.raises(failed, match="no longer calibrated since batch 2"):
        names["watch"]("bad.h5")
