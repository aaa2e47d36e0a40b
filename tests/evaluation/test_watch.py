"""calcli watch: one batch after another, a state that cannot be fooled, and the same from Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import calcli
from calcli.errors import DataError, UsageError
from calcli.evaluation.watch_state import loads, locked_state, read, save_state


def write(name, z, y, **more):
    with h5py.File(name, "w") as file:
        file["logits"], file["labels"] = z, y
        for key, values in more.items():
            file[key] = values


def drawn(n, k=4, seed=0, sharpen=1.0):
    """Logits whose probabilities are true, then multiplied by ``sharpen``."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 2
    return z * sharpen, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def batches(count, from_=0, n=300, **more):
    for i in range(count):
        write(f"w{from_ + i}.h5", *drawn(n, seed=from_ + i, **more))
        yield f"w{from_ + i}.h5"


def test_a_stream_that_stays_calibrated_and_one_that_changes(run):
    for name in batches(5):
        assert run("watch", name, "--state", "s.json").code == 0
    codes = [
        run("watch", name, "--state", "s.json", "--json")
        for name in batches(3, from_=5, sharpen=2.5)
    ]
    stored = json.loads(codes[-1].out)
    assert codes[-1].code == 5 and stored["alarm"] and stored["e"] >= 20
    assert stored["since"] == 6 and stored["batches"] == 8 and stored["rows"] == 2400
    z, y = drawn(300, seed=7, sharpen=2.5)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    assert stored["overconfidence"] == pytest.approx(
        p.max(axis=1).mean() - (z.argmax(axis=1) == y).mean(), abs=1e-12
    )
    stands = run("watch", "--state", "s.json")
    assert stands.code == 5 and "ALARM" in stands.out and "w5.h5" in stands.out
    opened = run("watch", "--state", "s.json", "--reset", "--json")
    assert (
        opened.code == 0
        and json.loads(opened.out)["episode"] == 2
        and json.loads(opened.out)["batches"] == 0
    )
    assert run("watch", *batches(1, from_=20), "--state", "s.json").code == 0


def test_an_alarm_stays_until_reset(run):
    assert run("watch", *batches(1, sharpen=3.0), "--state", "s.json").code == 5
    for name in batches(6, from_=1, n=2000):
        assert run("watch", name, "--state", "s.json").code == 5
    assert run("watch", *batches(1, from_=30), "--state", "s.json", "--reset").code == 0


def test_the_state_has_the_same_bytes_for_the_same_batches(run):
    for state in ("a.json", "b.json"):
        for name in batches(3):
            run("watch", name, "--state", state)
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_the_evidence_of_a_hand_sized_stream(run):
    # the two batches of tests/statistics/test_betting.py, as confidences
    for name, c, y in (
        ("1.h5", [0.9, 0.8, 0.7], [1, 0, 1]),
        ("2.h5", [0.95, 0.6], [0, 1]),
    ):
        with h5py.File(name, "w") as file:
            file["confidence"], file["correct"] = np.array(c), np.array(y, dtype=bool)
        stored = json.loads(
            run("watch", name, "--state", "s.json", "--json", "--tolerance", "0").out
        )
    assert stored["log_e"] == pytest.approx(0.3769911077, abs=1e-9)


def test_units_are_bet_on_whole(run):
    """Rows that are copies of each other count once: 30 units of 20 equal rows give the evidence of 30 rows."""
    z, y = drawn(30, seed=3, sharpen=1.6)
    write("once.h5", z, y)
    write(
        "copies.h5",
        np.repeat(z, 20, axis=0),
        np.repeat(y, 20),
        unit=np.repeat(np.arange(30), 20),
    )
    once = json.loads(run("watch", "once.h5", "--state", "1.json", "--json").out)
    copies = json.loads(run("watch", "copies.h5", "--state", "2.json", "--json").out)
    assert copies["log_e"] == pytest.approx(once["log_e"], abs=1e-9)
    done = run("watch", "once.h5", "--state", "2.json")
    assert done.code == 3 and "another units" in done.line


def test_risks_that_are_all_too_high_are_found_by_the_probability_of_class_one(run):
    """The case of docs/monitoring.md: log-odds .5 too high, which hardly shows in how often the prediction is right."""
    rng, alarms = np.random.default_rng(0), {"top": [], "positive": []}
    for _ in range(6):
        odds = rng.normal(size=400) * 1.2 - 0.8
        y = (rng.random(400) < 1 / (1 + np.exp(-(odds - 0.5)))).astype(int)
        write("m.h5", np.stack([np.zeros(400), odds], axis=1), y)
        for label, outcomes in alarms.items():
            done = run(
                "watch", "m.h5", "--state", f"{label}.json", "--label", label, "--json"
            )
            outcomes.append((done.code, json.loads(done.out)["e"]))
    assert [code for code, _ in alarms["top"]] == [0] * 6 and max(
        e for _, e in alarms["top"]
    ) < 1.02
    assert [code for code, _ in alarms["positive"]] == [0, *[5] * 5] and alarms[
        "positive"
    ][1][1] > 280


def test_two_classes_watch_what_is_asked_for(run):
    z, y = drawn(400, k=2)
    write("two.h5", z + np.array([0, 1.5]), y)
    top = json.loads(run("watch", "two.h5", "--state", "t.json", "--json").out)
    positive = json.loads(
        run("watch", "two.h5", "--state", "p.json", "--json", "--label", "positive").out
    )
    assert positive["e"] > top["e"] and positive["overconfidence"] > 0.1
    done = run("watch", *batches(1), "--state", "q.json", "--label", "positive")
    assert done.code == 3 and "two classes" in done.line and not Path("q.json").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("w0.h5",), "already counted (w0.h5)"),
        (("shuffled.h5",), "already counted (w0.h5)"),
        (("w1.h5", "-c", "ts.json"), "another calibrator"),
        (("w1.h5", "--tolerance", "0.05"), "another tolerance"),
        (("w1.h5", "--level", "0.01"), "another level"),
        (("none.h5",), "labels"),
        (("weighted.h5",), "pass --sample-weight none"),
        (("missing.h5",), "missing.h5"),
        (("cal.h5", "-c", "ts.json", "--reset"), "fitted on these very rows"),
        (("half.h5", "-c", "ts.json", "--reset"), "of these rows"),
        (("w1.h5", "--label", "positive"), "another label"),
    ],
)
def test_what_is_refused_leaves_the_state_unchanged(run, words, part):
    write("cal.h5", *drawn(500, seed=50))
    assert run("fit", "--method", "ts", "cal.h5", "-o", "ts.json").code == 0
    list(batches(2))
    z, y = drawn(500, seed=50)
    new = drawn(200, seed=70)
    write("half.h5", np.concatenate([z[::2], new[0]]), np.concatenate([y[::2], new[1]]))
    z, y = drawn(300, seed=0)
    order = np.random.default_rng(1).permutation(300)
    write("shuffled.h5", z[order], y[order])
    write("weighted.h5", *drawn(50, seed=60), weights=np.arange(50) % 2 + 1.0)
    with h5py.File("none.h5", "w") as file:
        file["logits"] = z
    assert run("watch", "w0.h5", "--state", "s.json").code == 0
    before = Path("s.json").read_bytes()
    done = run("watch", *words, "--state", "s.json", "-q")
    assert done.code == 3 and part in done.line
    assert Path("s.json").read_bytes() == before


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"alarm', '"Alarm').replace('"n": 300', '"n": 301'),
        lambda text: text.replace('"tolerance": 0.02', '"tolerance": 0.2'),
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"calcli_watch": 1', '"calcli_watch": 7'),
        lambda text: "[]",
    ],
)
def test_an_edited_state_is_refused(run, edit):
    run("watch", *batches(1), "--state", "s.json")
    Path("s.json").write_text(edit(Path("s.json").read_text()))
    edited = Path("s.json").read_bytes()
    done = run("watch", *batches(1, from_=1), "--state", "s.json", "-q")
    assert done.code == 3 and "s.json" in done.line
    assert Path("s.json").read_bytes() == edited


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_an_empty_state_is_refused(run, content):
    """It was a fresh start: of a full disk or a failed copy, and a standing alarm was gone."""
    Path("s.json").write_bytes(content)
    for words in (list(batches(1)), [], ["--reset"]):
        done = run("watch", *words, "--state", "s.json", "-q")
        assert (
            done.code == 3
            and "s.json: is empty" in done.line
            and "remove it to start anew" in done.line
        )
    assert Path("s.json").read_bytes() == content


@pytest.mark.parametrize(
    "words",
    [
        ("--state", "s.json"),
        ("w0.h5",),
        ("w0.h5", "--state", "s.json", "--label", "class"),
        ("w0.h5", "--state", "9" * 300),
        ("w0.h5", "--state", "nowhere/s.json"),
    ],
)
def test_what_cannot_be_asked(run, words):
    list(batches(1))
    assert run("watch", *words, "-q").code == 2
    assert not Path("s.json").exists()


def test_two_processes_that_make_a_state_at_once(run, tmp_path):
    """There is no state before the first batch is counted: who is later is refused and loses nothing that was said."""
    path = tmp_path / "s.json"
    with locked_state(path, loads) as first, locked_state(path, loads) as second:
        assert first is None and second is None and not path.exists()
    names = list(batches(2))
    assert run("watch", names[0], "--state", "s.json").code == 0
    state = read(str(path))
    before = path.read_bytes()
    with pytest.raises(
        UsageError, match="another calcli has made it meanwhile; run this command again"
    ):
        save_state(path, state, is_new=True)
    assert path.read_bytes() == before
    with locked_state(path, loads):
        done = run("watch", names[1], "--state", "s.json", "-q")
        assert (
            done.code == 2
            and "another calcli is writing it; run this command again" in done.line
        )
    assert run("watch", names[1], "--state", "s.json").code == 0


def test_of_two_processes_at_once_none_is_lost(run, tmp_path):
    """Each either takes its batch in or says that the other is at it; what is in the state was reported as taken in."""
    names = list(batches(6, n=20_000))
    command = [sys.executable, "-m", "calcli", "watch", "--state", "s.json", "-q"]
    started = [
        subprocess.Popen(
            [*command, name], stderr=subprocess.PIPE, text=True, env=os.environ
        )
        for name in names
    ]
    ends = [(process.communicate()[1], process.returncode) for process in started]
    ended_well = [
        name for name, (_, code) in zip(names, ends, strict=True) if code == 0
    ]
    assert ended_well and all(
        code == 0 or (code == 2 and "another calcli" in err) for err, code in ends
    )
    assert sorted(
        batch["name"] for batch in json.loads(Path("s.json").read_text())["batches"]
    ) == sorted(ended_well)


def test_python_gives_the_same(run, tmp_path):
    z, y = drawn(300, seed=0)
    write("w0.h5", z, y)
    printed = json.loads(run("watch", "w0.h5", "--state", "a.json", "--json").out)
    assert printed.pop("calcli_watch") == 1
    assert calcli.watch(z, y, state="b.json") == printed
    with pytest.raises(DataError, match="already counted"):
        calcli.watch(z[::-1], y[::-1], state="b.json")
    with pytest.raises(UsageError, match="tolerance"):
        calcli.watch(z, y, state="c.json", tolerance=0.7)
    with pytest.raises(UsageError, match="setting"):
        calcli.watch(z, y, state="c.json", tolerances=0.1)
    assert not Path("c.json").exists()


def test_the_state_is_a_file(run):
    """Of "-" it made a file of this name."""
    name = next(batches(1))
    refused = run("watch", name, "--state", "-")
    assert (
        refused.code == 2
        and "--state -: the evidence is kept in a file" in refused.line
    )
    assert not Path("-").exists()


@pytest.mark.parametrize("exists", [False, True])
def test_a_state_behind_a_link(run, exists):
    """It was "in the way". The link stays, and the state is where it leads to."""
    Path("elsewhere").mkdir()
    Path("s.json").symlink_to("elsewhere/watch.json")
    first, second = batches(2)
    if exists:
        assert run("watch", first, "--state", "elsewhere/watch.json").code == 0
    assert run("watch", second, "--state", "s.json").code == 0
    assert (
        Path("s.json").is_symlink()
        and len(read("elsewhere/watch.json").batches) == 1 + exists
    )
    assert run("watch", "--state", "s.json").code == 0


def test_a_state_that_is_an_input_is_refused(run):
    """Of the batch it said that another calcli was writing it."""
    (name,) = batches(1)
    write("cal.h5", *drawn(200, seed=9))
    assert run("fit", "-m", "ts", "cal.h5", "-o", "ts.json", "-q").code == 0
    Path("link.json").symlink_to(name)
    before = Path(name).read_bytes(), Path("ts.json").read_bytes()
    for words in (
        ("--state", name),
        ("--state", "link.json"),
        ("-c", "ts.json", "--state", "ts.json"),
    ):
        done = run("watch", name, *words, "-q")
        assert (
            done.code == 2
            and "which this command reads" in done.line
            and "such as watch.json" in done.line
        )
    with pytest.raises(UsageError, match="which this command reads"):
        calcli.watch(name, state=name)
    assert (Path(name).read_bytes(), Path("ts.json").read_bytes()) == before


def test_the_name_of_a_batch_does_not_reach_the_terminal_raw(run):
    name = "\x1b[31mred.h5"
    write(name, *drawn(300, sharpen=3.0))
    done = run("watch", name, "--state", "s.json")
    assert done.code == 5 and "\x1b" not in done.out and "\\x1b[31mred.h5" in done.out


def test_certain_answers_that_are_often_wrong_raise_an_alarm(run):
    """10 000 answers of confidence 1, nine in ten exactly, half of them wrong: "no alarm, evidence 1"."""
    rng = np.random.default_rng(0)
    for week in range(3):
        c = np.where(rng.random(400) < 0.9, 1.0, 1.0 - 10.0 ** -rng.uniform(6, 12, 400))
        right = rng.random(400) < (1.0 if week == 0 else 0.5)
        with h5py.File(f"{week}.h5", "w") as file:
            file["confidence"], file["correct"] = c, right
    codes = [run("watch", f"{week}.h5", "--state", "s.json").code for week in range(3)]
    assert codes == [0, 5, 5]
    assert json.loads(run("watch", "--state", "s.json", "--json").out)["since"] == 2
