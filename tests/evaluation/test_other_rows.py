"""Which other samples the commands of a verdict name: those known to serve, or words that no shell takes for a file."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from synthetic import truth

from calcli.io.score_files import calibrated_name


def rows(seed, k=3, n=400):
    z, y = truth(n, k, temperature=2.5, seed=seed)
    return {"logits": z.astype(np.float32), "labels": y}


def write(name, **groups):
    with h5py.File(name, "w") as file:
        for at, (group, k) in enumerate(groups.items(), 1):
            for what, array in rows(at, k).items():
                file[f"{group.replace('__', '/')}/{what}"] = array


def advised(run, *words):
    done = run("evaluate", *words, "-q")
    assert done.code == 0, done.err
    return re.search(r"(calcli (fit|evaluate|apply) .*)", done.out.splitlines()[0])[1]


@pytest.mark.parametrize(
    ("groups", "asked", "named"),
    [
        ({"cal": 3, "test": 3}, "", "a.h5:cal"),
        (
            {"cal": 3, "test": 3},
            ":cal",
            "a.h5:cal",
        ),  # the part to fit on is evaluated; the other judges the fit
        ({"holdout": 3, "val": 3}, ":holdout", "a.h5:val"),
        (
            {"train": 3, "test": 3},
            "",
            None,
        ),  # what a model was trained on says nothing of its confidence
        ({"one": 3, "other": 3}, ":one", None),  # may be two models
        ({"cal": 4, "test": 3}, "", None),  # another model's
        ({"m__val": 3, "m__test": 3, "o__val": 3}, ":m/test", "a.h5:m/val"),
    ],
)
def test_the_part_of_the_file_to_fit_on_is_named(run, groups, asked, named):
    """OTHERS.h5 was printed, and typed by those who did not know that it was theirs to replace."""
    write("a.h5", **groups)
    command = advised(run, f"a.h5{asked}")
    assert command == f"calcli fit --method ts {named or '<other labelled samples>'}"
    if named:
        assert run(*shlex.split(command)[1:]).code == 0


def test_the_part_to_evaluate_on_is_named(run):
    write("a.h5", val=3, test=3)
    assert run("fit", "a.h5", "-m", "ts", "-q").code == 0
    command = advised(run, "a.h5:val", "-c", "a.ts.json")
    assert command == "calcli evaluate a.h5:test --calibrator a.ts.json"
    np.savez("b.npz", **rows(1))
    command = advised(run, "b.npz", "-c", "a.ts.json")
    assert command == "calcli evaluate <other labelled samples> --calibrator a.ts.json"


def test_a_name_that_begins_with_a_dash_is_typed_as_no_option(run):
    """./-a.h5 was advised as -a.h5: no such option."""
    write("-a.h5", cal=3, test=3)
    command = advised(run, "./-a.h5")
    assert command == "calcli fit --method ts ./-a.h5:cal"
    assert run(*shlex.split(command)[1:]).code == 0
    command = advised(run, "./-a.h5", "-c", "./-a.ts.json")
    assert command.startswith("calcli apply ./-a.ts.json ./-a.h5:test")
    assert run(*shlex.split(command)[1:]).code == 0


def test_parts_without_labels_are_not_named(run):
    write("a.h5", cal=3, test=3)
    with h5py.File("a.h5", "a") as file:
        del file["cal/labels"]
    assert advised(run, "a.h5").endswith("<other labelled samples>")


def test_what_a_calibrator_was_fitted_on_serves_another_fit(run):
    """A temperature of 1/2 makes overconfident rows worse; the rows of its fit are there to fit another."""
    Path("in").mkdir()
    np.savez("in/cal.npz", **rows(1))
    np.savez("test.npz", **rows(2))
    fitting = ("fit", "in/cal.npz", "-m", "ts", "-o", "in/ts.json", "-q")
    assert run(*fitting).code == 0
    content = json.loads(Path("in/ts.json").read_text("utf-8"))
    content["params"]["temperature"] = 0.5
    Path("in/bad.json").write_text(json.dumps(content), "utf-8")
    assert (
        advised(run, "test.npz", "-c", "in/bad.json")
        == "calcli fit --method auto in/cal.npz"
    )
    Path("in/cal.npz").unlink()
    assert (
        advised(run, "test.npz", "-c", "in/bad.json")
        == "calcli fit --method auto <other labelled samples>"
    )


READ_BY = [
    "--group-by",
    "region",
    "--ids",
    "none",
    "--unit",
    "patient",
    "--scores",
    "u,v",
    "--labels",
    "truth",
]
READ_BY += ["--kind", "probs", "--ignore-label", "-1"]


def test_commands_read_other_samples_as_these_were_read(run):
    """Columns of a table by names of their own: without these options the next command could not read it."""
    z, y = truth(1200, 2, temperature=2.5, seed=4)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    lines = [
        f"{a:.9f},{1 - a:.9f},{b if i else -1},{i // 3},{'ns'[i % 2]}"
        for i, (a, b) in enumerate(zip(p[:, 0], y, strict=True))
    ]
    for name, part in (("cal.csv", lines[:600]), ("test.csv", lines[600:])):
        Path(name).write_text(
            "\n".join(["u,v,truth,patient,region", *part]) + "\n", "utf-8"
        )
    command = shlex.split(
        advised(run, "test.csv", *READ_BY).replace(
            "<other labelled samples>", "cal.csv"
        )
    )
    assert command[1] == "fit" and command[-len(READ_BY) :] == READ_BY
    assert run(*command[1:], "-o", "c.json", "-q").code == 0
    command = shlex.split(
        advised(run, "cal.csv", *READ_BY, "-c", "c.json").replace(
            "<other labelled samples>", "test.csv"
        )
    )
    assert command[1] == "evaluate" and run(*command[1:], "-q").code == 0
    command = shlex.split(advised(run, "test.csv", *READ_BY, "-c", "c.json"))
    assert (
        command[1] == "apply"
        and command[-2:] == ["-o", "test.c.csv"]
        and run(*command[1:]).code == 0
    )
    head, *lines = Path("test.c.csv").read_text("utf-8").splitlines()
    assert len(lines) == 600 and "patient" in head.split(",")


@pytest.mark.parametrize(
    ("scores", "calibrator", "name"),
    [
        ("reviews.csv:test", "reviews.ts.json", "reviews.ts.csv"),
        ("a/net.v2.npz", "b/net.v2.auto.json", "net.v2.auto.npz"),
        ("logits.HDF5:test", "best.json", "logits.best.HDF5"),
        (
            "logits.h5:models/a",
            "net.ts.json",
            "logits.net.ts.h5",
        ),  # two calibrators of one name: two files
        ("log.pt", "log.ts.json", "log.ts.h5"),  # apply writes no .pt
        ("scores", "scores.floor+ts.json", "scores.floor+ts.h5"),
        ("logits.h5", "logits.json", "logits.logits.h5"),  # never the input itself
    ],
)
def test_what_apply_is_advised_to_write_is_named_after_scores_and_calibrator(
    scores, calibrator, name
):
    """Every advice ended in calibrated.h5: the second one that was pasted found that the file existed."""
    assert calibrated_name(scores, calibrator) == name


def test_no_shell_takes_the_words_for_a_file(tmp_path):
    done = subprocess.run(
        ["sh", "-c", "echo ran <other labelled samples>"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        done.returncode != 0
        and "ran" not in done.stdout
        and not list(tmp_path.iterdir())
    )
