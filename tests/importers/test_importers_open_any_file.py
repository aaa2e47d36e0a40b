"""Files of other formats go straight into fit, evaluate, diagram and apply."""

import json
from pathlib import Path

import numpy as np
import pytest
from run_calcli import runner

N, K = 200, 3
Z = np.random.default_rng(0).normal(0, 3, (N, K))
Y = (Z + np.random.default_rng(1).gumbel(0, 2, (N, K))).argmax(axis=1)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("s.npz", logits=Z, labels=Y)
    with open("s.csv", "w") as file:
        file.write(
            "truth,a,b,c\n"
            + "".join(
                f"{y},{','.join(map(repr, z.tolist()))}\n"
                for y, z in zip(Y, Z, strict=True)
            )
        )
    with open("s.jsonl", "w") as file:
        file.writelines(
            json.dumps({"logits": z.tolist(), "label": int(y)}) + "\n"
            for y, z in zip(Y, Z, strict=True)
        )
    return runner(monkeypatch, capsys)


def test_a_fit_to_any_format_is_that_to_the_bundle(run):
    assert run("extract", "s.npz", "-o", "s.h5").code == 0
    fitted = []
    for words in (
        ["s.h5"],
        ["s.npz"],
        ["s.jsonl"],
        ["s.csv", "--labels", "truth", "--kind", "logits"],
    ):
        done = run("fit", "-m", "ts", *words, "-o", "t.json", "--force")
        assert done.code == 0, done.err
        artifact = json.loads(Path("t.json").read_text())
        fitted.append(
            (
                artifact["params"],
                artifact["fit"]["data_sha256"],
                artifact["fit"]["source"],
            )
        )
    assert len({str(params) for params, _, _ in fitted}) == 1
    assert len({digest for _, digest, _ in fitted}) == 1
    assert [source for _, _, source in fitted] == ["s.h5", "s.npz", "s.jsonl", "s.csv"]


def test_evaluate_apply_and_diagram_take_them_too(run):
    assert run("fit", "-m", "ts", "s.npz").out == "s.ts.json\n"
    accuracy = float(
        run("evaluate", "s.jsonl", "-m", "accuracy", "--format", "value").out
    )
    assert accuracy == pytest.approx((Z.argmax(axis=1) == Y).mean(), abs=1e-4)
    done = run("apply", "s.ts.json", "s.npz", "-o", "c.h5")
    assert done.code == 0, done.err
    assert (
        run("diagram", "s.jsonl", "--calibrator", "s.ts.json", "-o", "d.json").code == 0
    )


def test_errors_name_the_file_that_was_given(run):
    np.savez("bad.npz", logits=np.where(Z > 8, np.nan, Z), labels=Y)
    done = run("fit", "-m", "ts", "bad.npz")
    assert done.code == 3 and "bad.npz: logits: row" in done.line
    assert "bundle.h5" not in run("fit", "-m", "ts", "s.npz:none").line


def test_what_was_taken_for_what_is_said_on_stderr_and_options_of_extract_are_told_apart(
    run,
):
    said = run("fit", "-m", "ts", "s.npz").err
    assert "Read s.npz: 200 samples, 3 classes ('logits', 'labels').\n" in said
    assert "Read " not in run("evaluate", "s.npz", "-m", "ece", "-q").err
    np.save("only.npy", Z)
    line = run("evaluate", "only.npy", "--kind", "logits").line
    command = "calcli extract only.npy --gold NEW.csv --kind logits -o only.h5"
    assert line.endswith(f"(none: calibrate only), or write them to NEW.csv: {command}")
