"""Batches in order of time, and whether a refitted calibrator should take the place of the old one."""

import csv
import io
import json
import re

import h5py
import numpy as np
import pytest

from calcli.numerics import in_order

BY_MONTH = ("--group-by", "month", "--ordered")
MONTHS = ["2024-8", "2024-9", "2024-10", "2024-11", "2025-1"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A log of five months, overconfident in the last two, and calibration rows of before and after."""
    monkeypatch.chdir(tmp_path)
    for name, seed, scales in (
        ("log", 0, [1, 1, 1, 0.6, 0.6]),
        ("old", 1, [1] * 5),
        ("new", 2, [0.6] * 5),
    ):
        rng = np.random.default_rng(seed)
        month = (
            np.repeat(np.arange(5), 400)[::-1]
            if name == "log"
            else np.repeat(np.arange(5), 400)
        )
        z = rng.normal(size=(2000, 5)) * 2
        p = np.exp(z * np.array(scales)[month][:, None])
        p /= p.sum(axis=1, keepdims=True)
        with h5py.File(f"{name}.h5", "w") as file:
            file["logits"], file["labels"] = (
                z,
                (p.cumsum(axis=1) > rng.random(2000)[:, None]).argmax(axis=1),
            )
            file["month"] = np.array(MONTHS)[month].astype("S")
    return tmp_path


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.array([10, 9, 2024, 9]), [9, 10, 2024]),
        (np.array(["2024-10", "2024-9", "2023-12"]), ["2023-12", "2024-9", "2024-10"]),
        (
            np.array(["week 10", "week 9", "week 10"], dtype=object),
            ["week 9", "week 10"],
        ),
        (np.array(["mon", "tue", "wed", "mon", "fri"]), ["mon", "tue", "wed", "fri"]),
        (np.array(["1st", "b2", "10th"]), ["1st", "b2", "10th"]),
        (np.array(["31/01/2024", "01/02/2024"]), ["31/01/2024", "01/02/2024"]),
        (np.array(["Jan 2024", "Feb 2024", "Jan 2024"]), ["Jan 2024", "Feb 2024"]),
        (np.array(["Q4 2023", "Q1 2024"]), ["Q4 2023", "Q1 2024"]),
        (np.array(["2024 Q1", "2023 Q4"]), ["2023 Q4", "2024 Q1"]),
        (np.array(["2024 Mar", "2024 Apr"]), ["2024 Mar", "2024 Apr"]),
        (
            np.array(["2024-01-31T09:00", "2023-12-31T10:00"]),
            ["2023-12-31T10:00", "2024-01-31T09:00"],
        ),
        (np.array(["31.1.24", "1.2.24"]), ["31.1.24", "1.2.24"]),
        (np.array(["9" * 5000, "1" + "0" * 5000]), ["9" * 5000, "1" + "0" * 5000]),
    ],
)
def test_the_order_of_time(column, expected):
    assert in_order(column).tolist() == expected


@pytest.mark.slow
def test_a_line_a_batch_in_order_of_time(folder, run):
    output = json.loads(run("evaluate", "log.h5", *BY_MONTH, "--json").out)
    lines = output["results"][0]["per_group"]
    # though the file begins with the last
    assert [line["group"] for line in lines] == MONTHS
    assert [line["significant"] for line in lines] == [False, False, False, True, True]
    text = run("evaluate", "log.h5", *BY_MONTH).out.partition("in order of time\n")[2]
    assert re.findall(r"20\d\d-\d+", text) == MONTHS
    for form, sign in (("markdown", "|"), ("latex", "&")):
        rows = [
            row
            for row in run(
                "evaluate", "log.h5", *BY_MONTH, "--format", form
            ).out.splitlines()
            if "20" in row
        ]
        assert len(rows) == 5
        line = lines[-1]
        for value in (
            str(line["n"]),
            "0.001",
            f"{line['metrics']['ece']['null_mean']:.4f}",
            f"{line['metrics']['nll']['value']:.4f}",
        ):
            assert value in rows[-1], (form, value)
        assert sign in rows[0]
    table = list(
        csv.DictReader(
            io.StringIO(run("evaluate", "log.h5", *BY_MONTH, "--format", "csv").out)
        )
    )
    assert [float(row["overconfidence"]) for row in table] == pytest.approx(
        [line["gap"] for line in lines], abs=1e-4
    )
    assert (
        float(table[0]["overconfidence.lo"])
        < float(table[0]["overconfidence"])
        < float(table[0]["overconfidence.hi"])
    )


def test_one_picture_and_a_page_in_order_of_time(folder, run):
    drawn = json.loads(run("diagram", "log.h5", *BY_MONTH, "--json").out)
    assert drawn["style"] == "gaps"
    assert [gap["part"] for gap in drawn["series"][0]["gaps"]] == MONTHS
    assert run("report", "log.h5", *BY_MONTH, "-o", "page.html").code == 0
    page = (folder / "page.html").read_text()
    section = page.partition("Batches in order of time")[2].partition("</section>")[0]
    assert re.findall(r">(20\d\d-\d+)<", section) == MONTHS
    assert "--ordered" in page


def test_batches_that_are_numbered_are_on_the_page_too(folder, run):
    with h5py.File("log.h5", "r+") as file:
        file["batch"] = np.arange(2000) // 400 + 8
    assert (
        run(
            "report", "log.h5", "--group-by", "batch", "--ordered", "-o", "page.html"
        ).code
        == 0
    )
    section = (
        (folder / "page.html")
        .read_text()
        .partition("Batches in order of time")[2]
        .partition("</section>")[0]
    )
    assert re.findall(r'<th scope="row">(\d+)<', section) == [
        "8",
        "9",
        "10",
        "11",
        "12",
    ]


@pytest.mark.parametrize("command", ["evaluate", "diagram", "report"])
@pytest.mark.parametrize(
    ("days", "message"),
    [
        (
            ["31/01/2024", "01/02/2024"],
            "batches as they first occur in the file, from 31/01/2024 to 01/02/2024",
        ),
        (
            ["2024-10", "2024-9"],
            "batches in the order of their numbers, from 2024-9 to 2024-10",
        ),
    ],
)
def test_the_order_is_said(folder, run, command, days, message):
    """Dates with the day first were sorted by it, and nobody was told."""
    with h5py.File("log.h5", "r+") as file:
        file["day"] = np.array(days)[np.arange(2000) // 1000].astype("S")
    words = ["-o", "p.html"] if command == "report" else []
    assert (
        f"log.h5: {message}"
        in run(command, "log.h5", "--group-by", "day", "--ordered", *words).err
    )


def test_a_batch_of_few_wrong_units_has_no_interval(tmp_path, monkeypatch, run):
    """The table said [+nan, +nan]."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    month, unit = np.repeat([1, 2], 20), np.arange(40) // 4
    probs = np.full((40, 3), [0.9, 0.04, 0.06]) + rng.uniform(0, 0.01, (40, 3))
    probs /= probs.sum(axis=1, keepdims=True)
    np.savez("b.npz", probs=probs, labels=np.zeros(40, int), month=month, unit=unit)
    done = run("evaluate", "b.npz", *BY_MONTH)
    assert done.code == 0, done.err
    assert "nan" not in done.out
    (line,) = [
        x.split() for x in done.out.splitlines() if x.startswith("uncalibrated  2")
    ]
    assert line[5] == "-"


@pytest.mark.parametrize("command", ["evaluate", "diagram", "report"])
def test_ordered_needs_a_column(folder, run, command):
    done = run(
        command,
        "log.h5",
        "--ordered",
        *(["-o", "p.html"] if command == "report" else []),
    )
    assert done.code == 2
    assert "--group-by month" in done.line


@pytest.mark.slow
def test_whether_a_refit_helps(folder, run):
    for name in ("old", "new"):
        assert run("fit", f"{name}.h5", "-m", "ts", "-o", f"{name}.json").code == 0
    with (
        h5py.File("log.h5") as file,
        h5py.File("late.h5", "w") as late,
        h5py.File("early.h5", "w") as early,
    ):
        for name in ("logits", "labels"):
            late[name], early[name] = file[name][:800], file[name][800:]
    asked = ("-c", "old.json", "-c", "new.json", "--baseline", "old.json")
    asked += ("-m", "nll")
    late = run("evaluate", "late.h5", *asked).out
    assert re.search(r"new.json instead of old.json helps: NLL is lower by 0\.", late)
    early = run("evaluate", "early.h5", *asked).out
    assert re.search(r"keep old.json: with new.json NLL is higher by 0\.\d", early)
    again = ("-c", "twin.json", "--baseline", "old.json", "-m", "nll")
    by_brier = "-m", "ts", "--set", "loss=brier"
    assert run("fit", "old.h5", *by_brier, "-o", "twin.json").code == 0
    assert "which is not significant" in run("evaluate", "early.h5", *again).out
