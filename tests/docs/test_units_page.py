"""The page on rows that belong together: each section from the file its framework writes to the guarantee."""

import csv
import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from run_calcli import runner
from test_recipes import sections

SECTIONS = sections(REPOSITORY / "docs" / "units.md")
RNG = np.random.default_rng(5)


def scored(shape, k):
    z = RNG.normal(0, 4, (*shape, k)).astype(np.float32)
    return z, (z / 1.5 + RNG.gumbel(0, 1, z.shape)).argmax(axis=-1)


def table(name, header, rows):
    with open(name, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def tokens():
    z, y = scored((60, 20), 5)
    np.savez(
        "tokens.npz",
        predictions=z,
        label_ids=np.where(np.arange(20) < RNG.integers(5, 21, 60)[:, None], y, -100),
    )
    cut = zip(z, y, RNG.integers(5, 21, 60), strict=True)
    pairs = (
        (scores[:rows].tolist(), truth[:rows].tolist()) for scores, truth, rows in cut
    )
    lines = (json.dumps({"logits": scores, "labels": truth}) for scores, truth in pairs)
    Path("sentences.jsonl").write_text("\n".join(lines))


def images():
    z, y = scored((30, 16, 16), 4)
    y[:, 0] = 255
    np.save("logits.npy", np.moveaxis(z, -1, 1))
    np.save("labels.npy", y)
    Path("images").mkdir()
    for number, (scores, truth) in enumerate(zip(z, y, strict=True)):
        size = 8 + number % 9
        np.savez(
            f"images/{number}.npz",
            logits=np.moveaxis(scores, -1, 0)[:, :size],
            labels=truth[:size],
        )


def answers():
    sure = RNG.beta(3, 1, 160)
    rows = [
        (f"q{i}", "A" if RNG.random() < p else RNG.choice(list("BCD")), "A")
        for i, p in enumerate(sure)
        for _ in range(8)
    ]
    table("answers.csv", ("question", "answer", "gold"), rows)


def boxes():
    score = RNG.beta(3, 1, 720)
    rows = zip(
        np.arange(720) // 12,
        score.round(4),
        (RNG.random(720) < score).astype(int),
        strict=True,
    )
    table("boxes.csv", ("image_id", "score", "matched"), rows)


def patients():
    p = RNG.beta(0.5, 0.5, 600)
    rows = [
        (
            f"i{i}.png",
            i // 5,
            "FM"[i // 5 % 2],
            f"s{i // 5 % 3}",
            round(p[i], 4),
            ("no", "yes")[int(RNG.random() < p[i])],
        )
        for i in range(600)
    ]
    table(
        "patients.csv",
        ("image", "patient", "sex", "site", "probability", "malignant"),
        rows,
    )


WRITERS = {
    "Token classification": (tokens, "tokens.h5", 60),
    "Segmentation": (images, "pixels.h5", 30),
    "Repeated answers": (answers, "answers.h5", 160),
    "Detections": (boxes, "boxes.h5", 60),
    "A patient file": (patients, "patients.h5", 120),
}


def test_every_section_is_run():
    assert set(SECTIONS) == set(WRITERS)


@pytest.mark.parametrize("name", WRITERS)
def test_a_section_goes_from_its_file_to_the_guarantee(
    name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    write, bundle, units = WRITERS[name]
    write()
    done = {}
    for line in SECTIONS[name][1]:
        words = line.split()[1:]
        result = run(*words)
        assert result.code == 0, (line, result.err)
        done[words[0]] = result
    assert {"extract", "evaluate", "fit", "threshold"} <= set(done)
    headline = done["evaluate"].out.splitlines()[0]
    assert re.search(r": (over|under)confident: |: too few samples: ", headline)
    assert "With probability 0.95" in done["threshold"].err
    with h5py.File(bundle) as file:
        column = "ids" if name == "Repeated answers" else "unit"
        assert (
            len(
                {
                    value
                    for group in ("cal", "test")
                    for value in file[group][column][()].tolist()
                }
            )
            == units
        )
    if name == "A patient file":
        head = (tmp_path / "served.csv").read_text().splitlines()[0].split(",")
        assert {"image", "patient", "sex", "site", "prediction", "probs_yes"} <= set(
            head
        )


TABLES = {
    "loans": (
        ("app_id", "score", "denied", "race", "w"),
        lambda i, p, y: (i + 1000, p, y, "BW"[i % 2], 1 + i % 3),
    ),
    "boxes": (("image_id", "score", "matched"), lambda i, p, y: (i // 12, p, y)),
    "animals": (
        ("patient", "cat", "dog", "truth"),
        lambda i, p, y: (i // 5, -p, 3 * p - 2, ("dog", "cat")[y]),
    ),
    "words": (
        ("case", "proba", "outcome"),
        lambda i, p, y: (f"c{i}", p, ("bad", "good")[y]),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_command_that_is_advised_works_as_printed(
    name, tmp_path, monkeypatch, capsys
):
    """Tables of which the names say too little: all columns are listed, and the whole command is there to try."""
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    header, row = TABLES[name]
    p = RNG.beta(1, 1, 240).round(4)
    y = (RNG.random(240) < p).astype(int)
    table("t.csv", header, [row(i, float(p[i]), int(y[i])) for i in range(240)])
    done = run("evaluate", "t.csv")
    if done.code == 0:  # two words beside one column of probabilities are understood
        assert name in ("animals", "words")
        return
    assert all(column in done.line for column in header)
    words = done.line.partition("to try: ")[2].split()
    assert words[:3] == ["calcli", "extract", "t.csv"], done.line
    assert run(*words[1:]).code == 0
    assert run("evaluate", "t.h5").code == 0
    if name == "loans":
        assert "--ids app_id --group-by race --sample-weight w" in done.line
    if name == "boxes":
        assert "--confidence score --correct matched --unit image_id" in done.line
