"""The recipes of the documentation: what frameworks save goes in, and what calcli makes runs in serving stacks.

A recipe's program runs where its framework is installed. Where it is not, a file in the framework's layout (as
``WRITERS`` makes it) takes its place, so that its commands run everywhere.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from run_calcli import runner
from test_readme import folder_of_scores, run_all

import calcli

pytestmark = pytest.mark.slow

DOCS = REPOSITORY / "docs"
RNG = np.random.default_rng(6)
N, K = 120, 10
Z = (3 * RNG.normal(size=(N, K))).astype(np.float32)
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
Y = np.array(
    [RNG.choice(K, p=p.astype(np.float64) / p.astype(np.float64).sum()) for p in P]
)


def sections(page):
    """Programs and commands of every recipe of a page, by its heading."""
    programs = {}
    for part in re.split(r"^## ", page.read_text("utf-8"), flags=re.M)[1:]:
        fences = re.findall(r"```(\w+)\n(.*?)```", part, flags=re.S)
        programs[part.splitlines()[0]] = (
            "".join(text for kind, text in fences if kind == "python"),
            [
                line[2:]
                for kind, text in fences
                if kind == "console"
                for line in text.splitlines()
                if line[:2] == "$ "
            ],
        )
    return programs


SECTIONS = sections(DOCS / "recipes.md")
RECIPES = {
    name: section
    for name, section in SECTIONS.items()
    if any(command.startswith("calcli extract") for command in section[1])
}
"""Recipes that end in val.h5. The others stay in another program."""


def torch_batches(name):
    """A list of batches, as Lightning's Trainer.predict returns them."""
    torch = pytest.importorskip("torch", reason="the file is torch's own")
    parts = [
        {"logits": torch.tensor(Z[i : i + 50]), "labels": torch.tensor(Y[i : i + 50])}
        for i in range(0, N, 50)
    ]
    torch.save(parts, name)


def timm_files():
    """inference.py of timm: DataFrame.to_parquet with the file name as index; to_csv of NumPy rows as text."""
    pytest.importorskip("pyarrow", reason="Parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"{i}.jpg" for i in range(N)]
    pq.write_table(
        pa.table({"logit": pa.array(list(Z)), "filename": names}),
        "resnet18-224.parquet",
    )
    top = np.argsort(-P, axis=1)[:, :5]
    best = np.take_along_axis(P, top, axis=1)
    lines = [
        f"{n},{i},{str(p).replace(chr(10), ' ')}\n"
        for n, i, p in zip(names, top, best, strict=True)
    ]
    with open("resnet18-224-top5.csv", "w") as file:
        file.write("filename,index,prob\n" + "".join(lines))
    truth(names)


def truth(ids, words=None):
    """A table of ids and right answers, in another order."""
    with open("truth.csv", "w") as file:
        file.write("filename,label\n" if words is None else "id,label\n")
        file.writelines(
            f"{ids[i]},{Y[i] if words is None else words[i]}\n"
            for i in RNG.permutation(len(ids))
        )


def harness_samples():
    """lm-evaluation-harness 0.4.8, evaluation_tracker.save_results_samples."""
    with open("samples_arc_easy_2025-01-01T00-00-00.000000.jsonl", "w") as file:
        for i in range(N):
            z, gold = Z[i, :4], int(Z[i, :4].argmax() if i % 3 else Y[i] % 4)
            pairs = [[str(float(v)), "False"] for v in z]
            args = {
                f"gen_args_{c}": {"arg_0": "Q", "arg_1": f" choice {c}"}
                for c in range(4)
            }
            row = {
                "doc_id": i,
                "doc": {},
                "target": str(gold),
                "arguments": args,
                "resps": [[p] for p in pairs],
            }
            row |= {
                "filtered_resps": pairs,
                "filter": "none",
                "metrics": ["acc"],
                "acc": float(z.argmax() == gold),
            }
            file.write(json.dumps(row) + "\n")


def batch_output():
    """OpenAI's batch output: a chat completion per line, in an order of its own."""
    letters = "ABCD"
    with open("batch_output.jsonl", "w") as file:
        for i in RNG.permutation(N):
            lp = np.log(P[i, :4])
            top = [
                {"token": letters[c], "logprob": float(lp[c]), "bytes": None}
                for c in np.argsort(-lp)
            ]
            choice = {
                "message": {"content": top[0]["token"]},
                "logprobs": {"content": [{**top[0], "top_logprobs": top}]},
            }
            body = {"object": "chat.completion", "choices": [choice]}
            file.write(
                json.dumps(
                    {
                        "custom_id": f"q{i}",
                        "response": {"status_code": 200, "body": body},
                    }
                )
                + "\n"
            )
    truth([f"q{i}" for i in range(N)], [letters[y % 4] for y in Y])


WRITERS = {
    "Lightning": lambda: torch_batches("predictions.pt"),
    "Keras": lambda: np.savez("val.npz", y_proba=P, y_true=Y),
    "Hugging Face Trainer": lambda: np.savez("predict.npz", predictions=Z, label_ids=Y),
    "XGBoost": lambda: np.savez("val.npz", y_proba=P, y_true=Y),
    "timm": timm_files,
    "lm-evaluation-harness": harness_samples,
    "A server with an OpenAI interface": batch_output,
}


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("real", [True, False], ids=["program", "layout"])
def test_a_recipe_runs(name, real, run, tmp_path):
    program, commands = RECIPES[name]
    if real and not program:
        pytest.skip("no program: another one writes the file")
    if real:
        try:
            exec(compile(program, name, "exec"), {"__name__": "recipe"})
        except ImportError as missing:
            pytest.skip(f"not installed: {missing.name}")
    elif name in WRITERS:
        WRITERS[name]()
    else:
        pytest.skip("its program runs everywhere")
    assert commands
    for command in commands:
        done = run(*shlex.split(command)[1:])
        assert done.code == 0, f"{command}\n{done.err}"
    with h5py.File("val.h5") as file:
        assert set(file) == {"cal", "test"} and len(file["cal/labels"]) > 20
    assert (
        run("fit", "--method", "ts", "val.h5:cal", "-o", "calibrator.json", "-q").code
        == 0
    )
    assert (
        run("evaluate", "val.h5:test", "--calibrator", "calibrator.json", "-q").code
        == 0
    )


def test_what_the_recipes_join_is_right(run):
    """The truth stands in another order than the scores, whose best class tells whether the rows met."""
    for name, output, classes in (
        ("timm", "val.h5", 10),
        ("A server with an OpenAI interface", "val.h5", 4),
    ):
        WRITERS[name]()
        assert (
            run(
                *shlex.split(
                    RECIPES[name][1][0].replace(
                        "--split cal=0.5 --split test=0.5", "--force"
                    )
                )[1:]
            ).code
            == 0
        )
        with h5py.File(output) as file:
            place = [int(re.sub(r"\D", "", i.decode())) for i in file["ids"][()]]
            assert (file["labels"][()] == Y[place] % classes).all()
            expected = Z[place] if classes == 10 else np.log(P[place, :4])
            np.testing.assert_allclose(file["logits"][()], expected, rtol=1e-6)


# ---- in other programs


def run_program(name):
    """Names that the program of a recipe defines; skips where its framework is missing."""
    space = {"__name__": "recipe"}
    try:
        exec(compile(SECTIONS[name][0], name, "exec"), space)
    except ImportError as missing:
        pytest.skip(f"not installed: {missing.name}")
    return space


def test_a_trainer_reports_calibration_and_saves_a_calibrator(
    run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    figures = run_program("While a Trainer trains")["figures"]
    assert 0.0 <= figures["eval_ece"] <= 1.0
    assert -1.0 <= figures["eval_overconfidence"] <= 1.0
    done = run("inspect", "out/calibrator.json")
    assert done.code == 0, done.err
    assert json.loads(Path("out/calibrator.json").read_bytes())["method"] == "ts"


def test_a_metric_of_evaluate_has_the_figures_of_its_batches(tmp_path, monkeypatch):
    """NLL by hand: three rows right by 2, 3 and 1 or, of the last, wrong by a half."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    figures = run_program("A metric of Hugging Face's evaluate")["figures"]
    margins = np.array([2.0, 3.0, 1.0, -0.5])
    assert figures["nll"] == pytest.approx(np.log1p(np.exp(-margins)).mean(), rel=1e-7)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
@pytest.mark.parametrize("method", ["ts", "ec", "vs"])
def test_r_applies_a_calibrator_in_ten_lines(run, tmp_path, monkeypatch, method):
    has_json = subprocess.run(
        ["Rscript", "-e", "library(jsonlite)"], capture_output=True
    )
    if has_json.returncode:
        pytest.skip("R has no jsonlite")
    (program,) = re.findall(
        r"```r\n(.*?)```", (DOCS / "recipes.md").read_text("utf-8"), re.S
    )
    assert len(program.splitlines()) == 10
    monkeypatch.chdir(tmp_path)
    np.savez("val.npz", logits=Z, labels=Y)
    assert run("fit", "-m", method, "val.npz", "-o", "calibrator.json", "-q").code == 0
    np.savetxt("logits.csv", Z, "%.9g", ",", header=",".join("abcdefghij"), comments="")
    done = subprocess.run(["Rscript", "-e", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    logits = np.genfromtxt("logits.csv", delimiter=",", skip_header=1)
    applied = calcli.load("calibrator.json").predict_proba(logits)
    probs = np.genfromtxt("probs.csv", delimiter=",", skip_header=1)
    np.testing.assert_allclose(probs, applied, rtol=1e-12)


def test_the_conda_recipe_declares_what_the_project_does():
    (text,) = re.findall(
        r"^```yaml\n(package:.*?)```",
        (DOCS / "recipes.md").read_text("utf-8"),
        re.S | re.M,
    )
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    declared = {}
    section = ""
    for line in text.splitlines():
        if line.strip().startswith("- "):
            declared[section].append(line.strip()[2:].replace(" ", "", 1))
        else:
            section, _, value = line.strip().partition(": ")
            section = section.rstrip(":")
            declared[section] = [] if not value else value.strip('"')
    needs = project["project"]["dependencies"]
    builds = project["build-system"]["requires"]
    python = f"python{project['project']['requires-python']}"
    assert declared["name"] == project["project"]["name"]
    assert declared["version"] == calcli.__version__
    assert sorted(declared["run"]) == sorted([python, *needs])
    assert sorted(declared["host"]) == sorted([python, "pip", *builds])
    script = project["project"]["scripts"]["calcli"]
    assert declared["entry_points"] == [f"calcli={script}".replace("=", "= ", 1)]
    assert declared["license"] == project["project"]["license"]


# ---- out


class Nothing:
    """Stands for capsys where nothing printed is looked at."""

    @staticmethod
    def readouterr():
        return types.SimpleNamespace(out="", err="")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with logits.h5, logits.auto.json and the calibrator in three forms."""
    folder = folder_of_scores(tmp_path_factory.mktemp("out"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run = runner(patch, Nothing)
        for command in (
            "extract scores.npz -o logits.h5 --split cal=0.5 --split test=0.5 -q",
            "fit --method ts logits.h5 -o logits.auto.json -q",
            "apply logits.auto.json logits.h5:test -o probs.h5 -q",
            "export logits.auto.json --to python -o calibrator.py -q",
            "report logits.h5 --calibrator logits.auto.json -o report.html -q",
        ):
            assert run(*command.split()).code == 0, command
    return folder


def program_with(word):
    """The program of the page on serving that has this word in it."""
    fences = re.findall(
        r"```python\n(.*?)```", (DOCS / "serving.md").read_text("utf-8"), flags=re.S
    )
    (fence,) = [text for text in fences if word in text]
    return fence


def test_the_handler_gives_what_apply_gives(exported, monkeypatch):
    monkeypatch.syspath_prepend(str(exported))
    monkeypatch.delitem(sys.modules, "calibrator", raising=False)
    program = program_with("FastAPI")
    assert len([line for line in program.splitlines() if line.strip()]) <= 10
    with (
        h5py.File(exported / "logits.h5") as scores,
        h5py.File(exported / "probs.h5") as applied,
    ):
        rows, expected = scores["test/logits"][:5].tolist(), applied["probs"][:5]
        predicted = applied["prediction"][:5].tolist()
    try:
        from fastapi.testclient import TestClient
    except ImportError:  # the handler itself, without a server around it
        stub = types.SimpleNamespace(
            FastAPI=lambda: types.SimpleNamespace(
                post=lambda path: lambda handler: handler
            )
        )
        monkeypatch.setitem(sys.modules, "fastapi", stub)
        space = {"__name__": "serve"}
        exec(program, space)
        answer = space["calibrate"](rows)
    else:
        space = {"__name__": "serve"}
        exec(program, space)
        response = TestClient(space["app"]).post("/calibrate", json=rows)
        assert response.status_code == 200, response.text
        answer = response.json()
    np.testing.assert_allclose(answer["probs"], expected, atol=1e-6)
    assert answer["prediction"] == predicted


SERVED = {
    "onnx": ("onnxruntime", "calibrator.onnx"),
    "torch": ("torch.export", "calibrator.pt2"),
}


@pytest.mark.parametrize("target", SERVED)
def test_the_programs_of_the_serving_stacks_run(exported, monkeypatch, run, target):
    word, name = SERVED[target]
    pytest.importorskip(word.partition(".")[0])
    if target == "onnx":
        pytest.importorskip("onnx")
    monkeypatch.chdir(exported)
    assert (
        run(
            "export", "logits.auto.json", "--to", target, "-o", name, "--force", "-q"
        ).code
        == 0
    )
    space = {}
    exec(program_with(word), space)
    # all scores are 0
    np.testing.assert_allclose(np.asarray(space["probs"]), 0.1, atol=1e-6)


PIPELINES = (DOCS / "pipelines.md").read_text("utf-8")


def fence(kind, heading):
    """The first block of a kind below a heading of the page."""
    return re.search(
        rf"^## {heading}\n.*?```{kind}\n(.*?)```", PIPELINES, flags=re.S | re.M
    )[1]


def test_make_stops_at_a_crossed_limit(exported, tmp_path):
    for name in ("logits.h5",):
        (tmp_path / name).write_bytes((exported / name).read_bytes())
    text = fence("make", "Make")
    (tmp_path / "Makefile").write_text(text)
    run_all(["make -s gate"], tmp_path)
    (tmp_path / "Makefile").write_text(text.replace("ece=0.03", "ece=0.0001"))
    with pytest.raises(AssertionError, match=r"Error 5"):
        run_all(["make -s gate"], tmp_path)


def test_the_stages_of_dvc_write_their_metrics(exported, tmp_path):
    (tmp_path / "logits.h5").write_bytes((exported / "logits.h5").read_bytes())
    text = fence("yaml", "DVC")
    run_all(re.findall(r"cmd: (.*)", text), tmp_path)
    for name in re.findall(r"outs: \[(.*)\]|metrics: \[\{(.*?):", text):
        assert (tmp_path / (name[0] or name[1])).exists()
    assert (
        json.loads((tmp_path / "evaluation.json").read_text())["results"][1]["metrics"][
            "nll"
        ]["value"]
        > 0
    )


def test_the_step_of_github_actions_runs_as_the_runner_does(
    exported, monkeypatch, tmp_path
):
    """Each input goes, as the action declares it, into the variable that its script reads."""
    step = fence("yaml", "GitHub Actions")
    action = (REPOSITORY / "action.yml").read_text("utf-8")
    inputs = dict(
        re.findall(r"^    (\w+): (.*)$", step.partition("calcli")[2], flags=re.M)
    )
    assert inputs and set(inputs) <= set(re.findall(r"^  (\w+):$", action, flags=re.M))
    for variable, name in re.findall(r"(\w+): \$\{\{ inputs\.(\w+) \}\}", action):
        monkeypatch.setenv(variable, inputs.get(name, ""))
    monkeypatch.setenv("GITHUB_ACTION_PATH", str(REPOSITORY))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    gate = re.findall(r"run: (bash .*gate\.sh.*)", action)
    assert len(gate) == 1
    run_all(gate, exported)  # the other step installs, which no test does
    assert (
        (tmp_path / "summary.md")
        .read_text("utf-8")
        .startswith("### calcli: all limits hold")
    )
    assert json.loads((exported / "calcli-evaluation.json").read_text("utf-8"))[
        "results"
    ][1]["calibrator"]


def test_mlflow_gets_artifact_report_and_metrics(exported, monkeypatch, run, tmp_path):
    monkeypatch.chdir(exported)
    (exported / "evaluation.json").write_text(
        run("evaluate", "logits.h5", "--calibrator", "logits.auto.json", "--json").out
    )
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    evaluation = json.loads((exported / "evaluation.json").read_text())["results"][-1]
    metrics = {name: metric["value"] for name, metric in evaluation["metrics"].items()}
    expected = {name: value for name, value in metrics.items() if value is not None}
    assert {"nll", "ece", "accuracy"} < expected.keys()
    files = ["logits.auto.json", "report.html"]
    try:
        import mlflow
    except ImportError:  # what the program says to it is held instead
        from contextlib import nullcontext

        artifacts, logged = [], {}
        stub = types.SimpleNamespace(
            start_run=nullcontext,
            log_artifact=artifacts.append,
            log_metrics=logged.update,
        )
        monkeypatch.setitem(sys.modules, "mlflow", stub)
        exec(fence("python", "MLflow"), {})
        assert artifacts == files
        assert logged == expected
    else:
        exec(fence("python", "MLflow"), {})
        (logged_run,) = mlflow.search_runs(output_format="list")
        assert logged_run.data.metrics == pytest.approx(expected)
        for name in files:
            (kept,) = (tmp_path / "runs").rglob(name)
            assert kept.read_bytes() == (exported / name).read_bytes()


def test_weights_and_biases_gets_artifact_report_and_metrics(
    exported, monkeypatch, run, tmp_path
):
    monkeypatch.chdir(exported)
    (exported / "evaluation.json").write_text(
        run("evaluate", "logits.h5", "--calibrator", "logits.auto.json", "--json").out
    )
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    evaluation = json.loads((exported / "evaluation.json").read_text())["results"][-1]
    metrics = {name: metric["value"] for name, metric in evaluation["metrics"].items()}
    expected = {name: value for name, value in metrics.items() if value is not None}
    expected["verdict"] = evaluation["report"]["verdict"]
    files = ["logits.auto.json", "report.html"]
    assert {"nll", "ece", "accuracy"} < expected.keys()
    try:
        import wandb  # noqa: F401
    except ImportError:  # what the program says to it is held instead
        logged, calls = [], []
        run_of_wandb = types.SimpleNamespace(
            summary={}, log_artifact=logged.append, finish=lambda: calls.append("end")
        )
        artifact = types.SimpleNamespace(files=[])
        artifact.add_file = artifact.files.append
        stub = types.SimpleNamespace(
            init=lambda project: run_of_wandb, Artifact=lambda name, type: artifact
        )
        monkeypatch.setitem(sys.modules, "wandb", stub)
        exec(fence("python", "Weights & Biases"), {})
        assert run_of_wandb.summary == expected
        assert (logged, artifact.files, calls) == ([artifact], files, ["end"])
    else:
        exec(fence("python", "Weights & Biases"), {})
        (record,) = tmp_path.rglob("*.wandb")
        kept = record.read_bytes()
        for name, value in expected.items():
            assert name.encode() in kept
            assert json.dumps(value, ensure_ascii=False).encode() in kept, name
        for name in files:
            assert name.encode() in kept
