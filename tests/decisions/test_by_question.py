"""One calibrator for a log: fitted, evaluated, applied, and refused where it must be."""

import bz2
import gzip
import json
import lzma
import runpy
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from run_calcli import runner

import calcli
from calcli.decisions.calibrate import AnswerCalibrator, rounded
from tests.decisions import logs

SAMPLE = Path(__file__).parents[2] / "sample_data" / "decisions.jsonl"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


@pytest.fixture
def fitted(run, tmp_path):
    done = run("fit", SAMPLE, "-o", "art.json")
    assert done.code == 0
    return tmp_path / "art.json"


def read_lines(path):
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def test_the_sample_is_what_its_script_makes():
    script = runpy.run_path(str(SAMPLE.with_name("make_decisions.py")))
    assert script["text"]() == SAMPLE.read_text("utf-8")


def test_the_artifact_holds_a_calibrator_for_every_question(fitted):
    content = json.loads(fitted.read_text("utf-8"))
    assert content["calcli_artifact"] == 1
    assert content["method"] == "by-question"
    questions = content["params"]["questions"]
    assert {name: q["method"] for name, q in questions.items()} == {
        "refund": "platt",
        "team": "ts",
        "urgency": "ts",
    }
    assert questions["team"]["n_classes"] == 4
    assert questions["urgency"]["class_names"] == ["0", "1", "2", "3", "4"]
    assert set(questions["team"]) >= {"method", "options", "params", "class_names"}
    # The sample's script makes choices 1.5, scores 1.7 times too sure, yes/no 0.45.
    assert questions["team"]["params"]["temperature"] == pytest.approx(1.5, abs=0.25)
    assert questions["urgency"]["params"]["temperature"] == pytest.approx(1.7, abs=0.3)
    assert questions["refund"]["params"]["slope"][0] == pytest.approx(1 / 0.45, abs=0.5)


def test_the_same_log_in_another_order_gives_the_same_maps(run, fitted, tmp_path):
    lines = SAMPLE.read_text("utf-8").splitlines(keepends=True)
    shuffled = tmp_path / "shuffled.jsonl"
    shuffled.write_text("".join(np.random.default_rng(0).permutation(lines)), "utf-8")
    assert run("fit", shuffled, "-o", "again.json").code == 0
    first, second = (
        json.loads((tmp_path / name).read_text("utf-8"))["params"]["questions"]
        for name in ("art.json", "again.json")
    )
    for name, question in first.items():
        other = second[name]["params"]
        for key, value in question["params"].items():
            if key != "mode":
                assert np.allclose(value, other[key], rtol=1e-6)


def maps_of(run, name, records):
    """Maps of a log, with the gain that weighed them, and the number of rows."""
    Path(f"{name}.jsonl").write_text(logs.lines(records), "utf-8")
    done = run("fit", f"{name}.jsonl", "-o", f"{name}.json")
    assert done.code == 0, done.err
    fit = json.loads(Path(f"{name}.json").read_text("utf-8"))
    numbers = {"n": fit["fit"]["n"]}
    for question, entry in fit["params"]["questions"].items():
        details = entry["fit"]["details"]
        numbers |= {f"{question} {key}": details[key] for key in ("gain", "share")}
        for key, value in entry["params"].items():
            if key != "mode":
                numbers[f"{question} {key}"] = value
    return numbers


def decisions(n, seed, sharpen=2.0):
    """Records of a choice and a yes/no, too sure by a factor; without ids."""
    rng = np.random.default_rng(seed)
    records = []
    for _ in range(n):
        p = rng.dirichlet([0.5, 0.5, 0.5])
        stated = np.round(p**sharpen / (p**sharpen).sum(), 3)
        stated[0] = round(1.0 - stated[1] - stated[2], 3)
        yes = round(float(rng.beta(0.6, 0.9)), 3)
        answers = {"team": logs.choice(stated), "refund": {"type": "noul", "noul": yes}}
        label = {
            "team": logs.OPTIONS[rng.choice(3, p=p)],
            "refund": bool(rng.random() < yes),
        }
        records.append({"answers": answers, "label": label})
    return records


@pytest.mark.parametrize("with_states", [False, True])
def test_records_without_ids_give_the_same_maps_in_any_order(run, with_states):
    """Neither the line of a record nor the first line of a state decides its fold."""
    records = decisions(80, seed=11, sharpen=1.2)
    if with_states:
        records = [
            {**record, "state": f"state {number // 2}"}
            for number, record in enumerate(records)
        ]
    order = np.random.default_rng(1).permutation(len(records))
    first = maps_of(run, "first", records)
    second = maps_of(run, "second", [records[place] for place in order])
    assert set(first) == set(second)
    for name, value in first.items():
        assert np.allclose(value, second[name], rtol=1e-6, atol=1e-9), name


@pytest.mark.parametrize("command", ["fit", "run"])
def test_copies_of_records_with_one_state_are_no_more_evidence(run, command):
    records = [
        {**record, "id": f"r{number}", "state": f"state {number}"}
        for number, record in enumerate(decisions(60, seed=5))
    ]
    copied = [
        {**record, "id": f"{record['id']}-{copy}"}
        for record in records
        for copy in range(3)
    ]
    if command == "run":
        Path("copied.jsonl").write_text(logs.lines(copied), "utf-8")
        assert run("run", "copied.jsonl", "-o", "out").code == 0
        return
    once = maps_of(run, "once", records)
    thrice = maps_of(run, "thrice", copied)
    assert thrice.pop("n") == once.pop("n") == 120
    assert set(once) == set(thrice)
    for name, value in once.items():
        assert np.allclose(value, thrice[name], rtol=1e-6, atol=1e-9), name


def test_evaluate_has_a_result_per_question(run, fitted):
    done = run("evaluate", SAMPLE, "-c", fitted, "--json")
    results = json.loads(done.out)["results"]
    assert {r["bundle"].partition(":")[2] for r in results} == {
        "team",
        "urgency",
        "refund",
    }
    raw, calibrated = results[::2], results[1::2]
    for before, after in zip(raw, calibrated, strict=True):
        assert after["metrics"]["nll"]["value"] < before["metrics"]["nll"]["value"]
    one = run("evaluate", f"{SAMPLE}:team", "-c", fitted, "--json")
    assert json.loads(one.out)["results"][1]["method"] == "ts"


def test_fit_and_evaluate_say_the_same_nll_of_answers_as_they_are(run):
    """A zero among answers of two decimals counts without renormalising the others."""
    p, y = logs.rows(decimals=1)
    assert (p == 0).any()
    records = [logs.openai(i, p[i], y[i]) for i in range(len(p))]
    Path("zeros.jsonl").write_text(logs.lines(records), "utf-8")
    fitted = json.loads(run("fit", "zeros.jsonl", "-o", "art.json", "--json").out)
    evaluated = json.loads(run("evaluate", "zeros.jsonl", "--json").out)
    nll = evaluated["results"][0]["metrics"]["nll"]["value"]
    assert fitted["questions"]["team"]["nll_before"] == pytest.approx(nll, abs=1e-12)


def test_apply_changes_the_answers_and_nothing_else(run, fitted):
    assert run("apply", fitted, SAMPLE, "-o", "out.jsonl").code == 0
    before, after = read_lines(SAMPLE), read_lines("out.jsonl")
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        assert list(new) == [*old, "calibrated_by"]
        for key in set(old) - {"answers"}:
            assert old[key] == new[key]
        for name, answer in old["answers"].items():
            made = new["answers"][name]
            assert list(made) == list(answer)
            assert made["type"] == answer["type"]
            if name == "refund":
                continue
            shares = made["probabilities"]
            assert list(shares) == list(answer["probabilities"])
            assert round(sum(round(p * 1e6) for p in shares.values())) == 1_000_000
            best = max(shares.values())
            if name == "team":
                assert shares[made["choice"]] == best
                expected = (best - 0.25) / 0.75
                assert made["confidence"] == pytest.approx(expected, abs=1e-6)
            else:
                level = sum(int(key) * p for key, p in shares.items())
                assert made["score"] == pytest.approx(level, abs=1e-6)


def test_what_was_written_is_what_evaluate_computes(run, fitted):
    run("apply", fitted, SAMPLE, "-o", "out.jsonl")
    written = run("evaluate", "out.jsonl", "-m", "nll", "--json")
    computed = run("evaluate", SAMPLE, "-c", fitted, "-m", "nll", "--json")
    values = [r["metrics"]["nll"]["value"] for r in json.loads(written.out)["results"]]
    expected = [
        r["metrics"]["nll"]["value"]
        for r in json.loads(computed.out)["results"]
        if r["calibrator"]
    ]
    assert np.allclose(values, expected, atol=1e-5)  # six decimals


def test_a_log_is_calibrated_once(run, fitted):
    run("apply", fitted, SAMPLE, "-o", "out.jsonl")
    refused = run("apply", fitted, "out.jsonl", "-o", "twice.jsonl")
    assert refused.code == 3
    assert "was calibrated by art.json" in refused.line
    assert not Path("twice.jsonl").exists()
    assert run("evaluate", "out.jsonl", "-c", fitted).code == 3
    assert run("fit", "out.jsonl", "-o", "second.json").code == 0  # a second stage


def test_an_unknown_question_is_named_before_anything_is_written(run, fitted):
    records = read_lines(SAMPLE)
    records[-1]["answers"]["mood"] = {"type": "noul", "noul": 0.4}
    Path("new.jsonl").write_text(logs.lines(records), "utf-8")
    refused = run("apply", fitted, "new.jsonl", "-o", "out.jsonl")
    assert refused.code == 3
    assert '"mood"' in refused.line
    assert "line 300" in refused.line
    assert not Path("out.jsonl").exists()
    kept = run("apply", fitted, "new.jsonl", "-o", "out.jsonl", "--unknown", "keep")
    assert kept.code == 0
    assert read_lines("out.jsonl")[-1]["answers"]["mood"]["noul"] == 0.4


def test_other_options_than_those_of_the_fit_are_named(run, fitted):
    records = read_lines(SAMPLE)
    shares = records[0]["answers"]["team"]["probabilities"]
    shares["sales"] = shares.pop("billing")
    Path("new.jsonl").write_text(logs.lines(records), "utf-8")
    refused = run("apply", fitted, "new.jsonl", "-o", "out.jsonl")
    assert refused.code == 3
    assert "other options" in refused.line


@pytest.mark.parametrize("make", logs.SHAPES, ids=lambda make: make.__name__)
def test_every_shape_is_written_back(make, run):
    p, y = logs.rows(n=150, decimals=4)
    over = np.clip(p, 1e-4, 1) ** 2.5
    over = np.round(over / over.sum(axis=1, keepdims=True), 6)
    records = [make(i, over[i], y[i]) for i in range(150)]
    Path("log.jsonl").write_text(logs.lines(records), "utf-8")
    assert run("fit", "log.jsonl", "-o", "art.json").code == 0
    assert run("apply", "art.json", "log.jsonl", "-o", "out.jsonl").code == 0
    before = run("evaluate", "log.jsonl", "-c", "art.json", "-m", "nll", "--json")
    after = run("evaluate", "out.jsonl", "-m", "nll", "--json")
    raw, expected = json.loads(before.out)["results"]
    (written,) = json.loads(after.out)["results"]
    assert raw["metrics"]["nll"]["value"] > expected["metrics"]["nll"]["value"]
    assert written["metrics"]["nll"]["value"] == pytest.approx(
        expected["metrics"]["nll"]["value"], abs=1e-4
    )
    assert read_lines("out.jsonl")[0].keys() == records[0].keys() | {"calibrated_by"}


def test_several_models_are_refused_unless_forced(run):
    records = read_lines(SAMPLE)
    for i, record in enumerate(records):
        record["model"] = f"sample-{i % 2}"
    Path("two.jsonl").write_text(logs.lines(records), "utf-8")
    refused = run("fit", "two.jsonl")
    assert refused.code == 3
    assert "sample-0 (150), sample-1 (150)" in refused.err
    assert run("fit", "two.jsonl", "--again").code == 0


def test_nothing_is_changed_where_nothing_is_gained(run):
    p, y = logs.rows(n=200)
    records = [logs.system_one(i, p[i], y[i]) for i in range(200)]
    Path("log.jsonl").write_text(logs.lines(records), "utf-8")
    done = run("fit", "log.jsonl", "-o", "art.json")
    assert "nothing is gained" in done.err
    run("apply", "art.json", "log.jsonl", "-o", "out.jsonl")
    assert read_lines("out.jsonl")[7]["answers"] == records[7]["answers"]


def test_a_calibrator_by_question_needs_a_question_elsewhere(run, fitted):
    run("extract", SAMPLE, "-o", "d.h5")
    refused = run("apply", fitted, "d.h5:team", "-o", "out.h5")
    assert refused.code == 3
    assert "art.json:team" in refused.err
    assert run("apply", f"{fitted}:team", "d.h5:team", "-o", "out.h5").code == 0
    unknown = run("apply", f"{fitted}:mood", "d.h5:team", "-o", "o.h5")
    assert unknown.code == 3
    assert "mood" in unknown.err


# ---- run


def test_the_calibrator_of_a_question_is_adapted(run, fitted):
    """Named itself, or by the question of the new rows."""
    new = f"{SAMPLE}:refund"
    known = ("--prior", "0.1,0.9", "-q")
    assert run("adapt", "art.json:refund", *known, "-o", "known.json").code == 0
    params = calcli.load("known.json").params["stages"][-1]["params"]
    assert params["target"] == pytest.approx([0.1, 0.9])
    assert run("apply", "known.json", new, "-o", "known.h5", "-q").code == 0
    for artifact, output in (("art.json:refund", "a.json"), ("art.json", "b.json")):
        words = (artifact, new, "--source", new, *known, "--again", "-o", output)
        done = run("adapt", *words)
        assert done.code == 0, done.err
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()
    unnamed = run("adapt", "art.json", *known, "-o", "c.json")
    assert unnamed.code == 3 and "art.json:refund" in unnamed.line
    unknown = run("adapt", "art.json:nope", *known, "-o", "c.json")
    assert unknown.code == 3 and "no calibrator for question" in unknown.line


def test_run_fits_judges_by_cross_fitting_and_writes_both_files(run):
    done = run("run", SAMPLE, "-o", "out")
    assert done.code == 0
    assert len(done.out.splitlines()) <= 24
    assert "cross-fitted, 5 folds" in done.out
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "decisions.by-question.json",
        "decisions.report.html",
    ]
    command = next(line for line in done.out.splitlines() if line.startswith("next: "))
    assert command.split()[1:4] == ["calcli", "apply", "out/decisions.by-question.json"]
    Path("NEW.jsonl").write_bytes(SAMPLE.read_bytes())
    assert run(*command.split()[2:]).code == 0


def test_the_next_step_names_the_question_where_the_calibrator_is_of_one(run):
    lines = SAMPLE.read_text("utf-8").splitlines(keepends=True)
    Path("cal.jsonl").write_text("".join(lines[:200]), "utf-8")
    Path("test.jsonl").write_text("".join(lines[200:]), "utf-8")
    Path("NEW.jsonl").write_bytes(SAMPLE.read_bytes())
    assert run("fit", "cal.jsonl", "-o", "whole.json").code == 0
    whole = "apply whole.json NEW.jsonl -o calibrated.jsonl"
    one = "apply whole.json:team NEW.jsonl:team -o calibrated.jsonl"
    of_run = "apply out/cal.auto.json NEW.jsonl:team -o calibrated.jsonl"
    for words, command in (
        (("evaluate", "test.jsonl:team", "-c", "whole.json"), whole),
        (("evaluate", "test.jsonl:team", "-c", "whole.json:team"), one),
        (("run", "cal.jsonl:team", "-o", "out"), of_run),
    ):
        done = run(*words)
        assert f"next: calcli {command}" in done.out.splitlines()
        applied = run(*command.split(), "--force")
        assert applied.code == 0, applied.err


def test_run_judges_on_another_log(run):
    lines = SAMPLE.read_text("utf-8").splitlines(keepends=True)
    Path("cal.jsonl").write_text("".join(lines[:200]), "utf-8")
    Path("test.jsonl").write_text("".join(lines[200:]), "utf-8")
    done = run("run", "cal.jsonl", "test.jsonl", "-o", "out", "--json")
    assert done.code == 0
    facts = json.loads(done.out)
    results = facts["evaluation"]["results"]
    assert [r["bundle"] for r in results[::2]] == [
        "test.jsonl:refund",
        "test.jsonl:team",
        "test.jsonl:urgency",
    ]
    assert json.loads(Path(facts["calibrator"]).read_text("utf-8"))["fit"]["n"] == 595


def test_run_leaves_nothing_behind_when_the_other_log_is_bad(run):
    text = SAMPLE.read_text("utf-8")
    Path("bad.jsonl").write_text(text[:-40], "utf-8")
    refused = run("run", SAMPLE, "bad.jsonl", "-o", "out")
    assert refused.code == 3
    assert "cut off" in refused.line
    assert not Path("out").exists()


def test_cross_fitted_results_are_those_of_fits_without_the_fold(run):
    """The NLL of a fold is that of a calibrator fitted to the other records."""
    from calcli.calibrator import Context
    from calcli.fit_questions import OUTER_FOLDS, cross_fits, opened_questions

    names = [f"{SAMPLE}:{name}" for name in ("refund", "team", "urgency")]
    with opened_questions(names, Context(0)) as questions:
        crossed = cross_fits(questions, Context(0))
        fold_of = {}
        for question in questions:
            ids = question.rows.column("ids")
            for row, record in enumerate(ids):
                fold_of[str(record)] = int(crossed[question.name].fold[row])
        temperatures = [part.temperature for part in crossed["team"].calibrators]
    records = read_lines(SAMPLE)
    for fold in range(OUTER_FOLDS):
        kept = [record for record in records if fold_of[record["id"]] != fold]
        assert 0 < len(kept) < len(records)
        Path("part.jsonl").write_text(logs.lines(kept), "utf-8")
        run("fit", "part.jsonl", "-o", f"{fold}.json")
        content = json.loads(Path(f"{fold}.json").read_text("utf-8"))
        params = content["params"]["questions"]["team"]["params"]
        # its own folds, by which the map is weighed, are dealt anew: 10 in place of 8
        assert params["temperature"] == pytest.approx(temperatures[fold], rel=1e-3)


# ---- thresholds


def test_a_log_has_a_threshold_for_every_question(run, fitted):
    done = run("threshold", SAMPLE, "-c", fitted, "--accuracy", "0.75", "--json")
    assert done.code == 0
    questions = json.loads(done.out)["questions"]
    assert set(questions) == {"team", "urgency", "refund"}
    team = questions["team"]
    assert team["accuracy"] >= team["accuracy_lower"] >= 0.75 - 1e-9
    expected = (team["threshold"] - 0.25) / 0.75
    six_decimals = pytest.approx(expected, abs=5e-7)  # as apply writes it
    assert team["confidence_threshold"] == six_decimals
    assert questions["urgency"]["confidence_threshold"] is None
    alone = run("threshold", f"{SAMPLE}:team", "-c", fitted, "--accuracy", "0.75")
    assert float(alone.out) == team["threshold"]
    assert run("threshold", SAMPLE, "-c", fitted, "--accuracy", "0.75").code == 0


# ---- in a client


@pytest.mark.parametrize("n_questions", [1, 4])
def test_a_client_calibrates_a_response_within_a_millisecond(fitted, n_questions):
    """Median of processor time, which other processes do not lengthen."""
    entries = json.loads(Path(fitted).read_text("utf-8"))["params"]["questions"]
    sample = read_lines(SAMPLE)[0]
    names = [name for name in entries if name in sample["answers"]]
    answers, maps = {}, {}
    for number in range(n_questions):
        name = names[number % len(names)]
        answers[f"q{number}"] = sample["answers"][name]
        maps[f"q{number}"] = entries[name]
    calibrator = AnswerCalibrator.of(maps, "art.json")
    response = {**sample, "answers": answers}
    unchanged = json.dumps(response)
    seconds = []
    for _ in range(300):
        begun = time.process_time()
        made = calibrator.answers(response)
        seconds.append(time.process_time() - begun)
    assert np.median(seconds) < 1e-3
    assert made["calibrated_by"]["calibrator"] == "art.json"
    assert all(made["answers"][name] != answers[name] for name in answers)
    assert json.dumps(response) == unchanged


def test_a_client_loads_no_h5py_and_no_numpy(fitted):
    code = (
        "import sys; from calcli.decisions import load; "
        f"load({str(fitted)!r}); print('h5py' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def test_a_log_of_one_question_is_run_as_a_whole_and_written_back(run):
    """What evaluate proposes for LOG:QUESTION serves apply, which writes the log."""
    p, y = logs.rows(n=200)
    sharp = np.round(p**3 / (p**3).sum(axis=1, keepdims=True), 4)
    sharp[:, 2] = np.round(1.0 - sharp[:, 0] - sharp[:, 1], 4)
    records = [logs.shuffled_options(i, sharp[i], y[i]) for i in range(200)]
    Path("log.jsonl").write_text(logs.lines(records), "utf-8")
    done = run("evaluate", "log.jsonl:team")
    assert done.out.splitlines()[-1] == "next: calcli run log.jsonl"
    for rows in ("log.jsonl:team", "log.jsonl"):
        output = json.loads(run("evaluate", rows, "--json").out)
        assert output["results"][0]["report"]["next"] == "calcli run log.jsonl"
    assert run("run", "log.jsonl", "-o", "made").code == 0
    art = "made/log.by-question.json"
    assert run("apply", art, "log.jsonl", "-o", "out.jsonl").code == 0
    made = read_lines("out.jsonl")
    assert [record["gold"] for record in made] == [record["gold"] for record in records]
    assert "probabilities" in made[0]["answers"]["team"]


@pytest.mark.parametrize(
    ("ending", "pack"),
    [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)],
)
def test_a_packed_log_is_a_log(run, ending, pack):
    text = SAMPLE.read_bytes()
    packed_log = f"log.jsonl.{ending}"
    Path(packed_log).write_bytes(pack(text))
    Path("log.jsonl").write_bytes(text)
    for name in ("log.jsonl", packed_log):
        assert run("fit", name, "-o", f"{name}.json").code == 0
        assert run("apply", f"{name}.json", name, "-o", f"{name}.out.jsonl").code == 0
    plain, packed = (
        read_lines("log.jsonl.out.jsonl"),
        read_lines(f"{packed_log}.out.jsonl"),
    )
    assert [record["answers"] for record in plain] == [
        record["answers"] for record in packed
    ]
    done = run("evaluate", packed_log)
    assert done.out.splitlines()[-1] == f"next: calcli run {packed_log}"
    Path(f"cut.jsonl.{ending}").write_bytes(pack(text)[:-500])
    done = run("fit", f"cut.jsonl.{ending}")
    assert done.code == 3
    assert f"cut.jsonl.{ending}: cannot be unpacked" in done.line


def test_rounded_probabilities_sum_to_1():
    rng = np.random.default_rng(0)
    for k in (2, 3, 77):
        for p in rng.dirichlet(np.ones(k) / 3, size=50):
            made = rounded(p.tolist())
            assert sum(round(share * 1e6) for share in made) == 1_000_000
            assert np.abs(np.array(made) - p).max() <= 1e-6


def test_the_package_still_loads_a_plain_calibrator(run, fitted):
    run("extract", SAMPLE, "-o", "d.h5")
    run("fit", "d.h5:team", "-m", "ts", "-o", "ts.json")
    assert calcli.load("ts.json").method == "ts"
    assert calcli.load(f"{fitted}:team").method == "ts"


@pytest.mark.parametrize("ending", ["py", "pt2", "onnx"])
def test_an_export_of_all_questions_gets_a_command_for_each(run, fitted, ending):
    """Only names were said, which a shell cuts at their blanks."""
    if ending != "py":
        pytest.importorskip({"pt2": "torch", "onnx": "onnx"}[ending])
    whole = json.loads(fitted.read_text("utf-8"))
    questions = whole["params"]["questions"]
    first = next(iter(questions))
    questions["a b/c"] = questions.pop(first)
    fitted.write_text(json.dumps(whole), "utf-8")
    refused = run("export", fitted, "-o", f"e.{ending}")
    assert refused.code == 3
    assert f"a calibrator for each of {len(questions)} questions" in refused.err
    commands = refused.err.partition("to try: ")[2].split(" && ")
    assert len(commands) == len(questions)
    for command in commands:
        assert run(*shlex.split(command)[1:]).code == 0
    assert Path(f"e.a-b-c.{ending}").exists()


def test_temperatures_of_no_file_are_refused_as_such(run):
    refused = run("export", "none.json", "--to", "temperatures", "-o", "t.json")
    assert refused.code == 3
    assert "none.json: cannot be read: no such file" in refused.err
