"""The documentation: its commands run, everything has its page, links lead somewhere, schemas hold."""

import json
import math
import os
import re
import subprocess
import sys
import warnings
from dataclasses import fields
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from conftest import REPOSITORY
from drawings import every_figure
from synthetic import truth
from test_readme import TRANSCRIPTS, documentation, run_page

import calcli
from calcli.calibrator import Laws
from calcli.cli.app import COMMANDS, load
from calcli.diagrams.outputs import to_json
from calcli.diagrams.style import style_names
from calcli.metrics.catalog import metric_names
from calcli.registry import method_names
from calcli.reporting.glossary import GLOSSARY

DOCS = REPOSITORY / "docs"
SCHEMAS = DOCS / "schemas"
PAGES = sorted(DOCS.glob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]+\.md)[^)]*\)")


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The pages that the code writes, as docs/generated would hold them."""
    module = documentation("generate")
    assert set(module.LAWS) == {f.name for f in fields(Laws)} - {"memory"}
    folder = tmp_path_factory.mktemp("docs") / "generated"
    module.write(folder)
    return folder


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if TRANSCRIPTS.BLOCK.search(p.read_text("utf-8"))],
    ids=lambda p: p.stem,
)
@pytest.mark.slow
def test_the_commands_of_a_page_run(page, tmp_path):
    run_page(page.read_text("utf-8"), tmp_path)


def test_the_python_of_its_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = re.search(
        r"```python\n(.*?)```", (DOCS / "python.md").read_text("utf-8"), re.S
    ).group(1)
    z, y = truth(600, 4, temperature=1.8)
    exec(
        code,
        {
            "cal_logits": z[:300],
            "cal_labels": y[:300],
            "test_logits": z[300:],
            "test_labels": y[300:],
        },
    )
    assert "overconfident" in capsys.readouterr().out
    assert (tmp_path / "calibrator.json").exists()


def test_everything_has_its_page(generated):
    for room, names in (
        ("methods", method_names()),
        ("metrics", metric_names()),
        ("commands", COMMANDS),
    ):
        assert {p.stem for p in (generated / room).glob("*.md")} == set(names)
        for name in names:
            assert len((generated / room / f"{name}.md").read_text("utf-8")) > 150, name
        index = (generated / f"{room}.md").read_text("utf-8")
        assert all(f"generated/{room}/{name}.md" in index for name in names)


def test_parameters_of_the_python_api_are_a_list(generated):
    """They were text that ran on: "bundles : per bundle its results … limits : …"."""
    page = (generated / "python.md").read_text("utf-8")
    assert "\n- `limits`: outcomes of limits, as JSON.\n" in page
    assert not re.search(r"^[^`]*\b(bundles|limits|scores|labels) : ", page, re.M)


def test_every_method_and_metric_has_its_formula(generated):
    formulas = documentation("generate").FORMULAS
    for room, names in (("methods", method_names()), ("metrics", metric_names())):
        without = set(names) - set(formulas[room])
        assert not without, f"write their formulas under [{room}] in formulas.toml"
        assert set(formulas[room]) <= set(names)
        for name in names:
            page = (generated / room / f"{name}.md").read_text("utf-8")
            for part in formulas[room][name].split(r", \qquad "):
                assert f"$$\n{part}\n$$" in page


@pytest.mark.parametrize("name", metric_names())
def test_the_worked_example_of_a_metric_is_what_one_finds_by_hand(name, generated):
    """The page's lines are run, and its arithmetic by hand, which knows nothing of calcli, gives the same."""
    page = (generated / "metrics" / f"{name}.md").read_text("utf-8")
    shown = worked_value(page)
    if name in ("smece", "ece_debiased"):  # a root, and a mean over draws
        return
    by_hand = re.search(r"^By hand: `(.+)`$", page, re.MULTILINE)
    assert by_hand, f"{name}: write its arithmetic under [by_hand] in formulas.toml"
    value = eval(by_hand.group(1), {"log": math.log, "sqrt": math.sqrt})
    assert shown == pytest.approx(value, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("name", ["ts", "platt", "hb", "vs", "ms-odir", "ts-by"])
def test_the_worked_example_of_a_method_runs(name, generated, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    probabilities = worked_value(
        (generated / "methods" / f"{name}.md").read_text("utf-8")
    )
    # four digits of each
    assert math.fsum(probabilities) == pytest.approx(1.0, abs=5e-4)


def worked_value(page):
    """Run the lines of a worked example; what the last shows, which is what it is."""
    *lines, last = (
        re.search(r"## Worked example\n\n```python\n(.*?)\n```", page, re.DOTALL)
        .group(1)
        .splitlines()
    )
    known = {"np": np, "calcli": calcli}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec("\n".join(lines), known)
        call, _, shown = last.partition("  # ")
        assert eval(call, known) == pytest.approx(eval(shown), rel=5e-4, abs=1e-12)
    return eval(shown)


def test_links_between_pages_lead_somewhere(generated):
    there = {p.name for p in PAGES} | {
        f"generated/{p.relative_to(generated)}" for p in generated.rglob("*.md")
    }
    texts = [*PAGES, *generated.glob("*.md")]
    links = {
        target for page in texts for target in LINK.findall(page.read_text("utf-8"))
    }
    assert len(links) > len(method_names()) and links <= there


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text("utf-8").split()
    assert {p.stem for p in PAGES} - {"index"} <= set(index)


OUTPUTS = {
    "fit": ["fit", "--method", "ts", "DIGITS", "-o", "ts.json", "--json"],
    "evaluate": [
        "evaluate",
        "DIGITS",
        "-c",
        "ts.json",
        "--json",
        "--per-class",
        "--max",
        "ece=1",
        "--resamples",
        "100",
    ],
    "apply": ["apply", "ts.json", "DIGITS", "-o", "out.h5", "--json"],
    "extract": ["extract", "DIGITS", "-o", "copy.h5", "--json"],
    "export": ["export", "ts.json", "--to", "python", "-o", "ts.py", "--json"],
    "fit_log": ["fit", "LOG", "-o", "log.json", "--json"],
    "export_temperatures": [
        *("export", "log.json", "--to", "temperatures", "-o", "temperatures.json"),
        "--json",
    ],
    "threshold": ["threshold", "DIGITS", "--accuracy", "0.9", "--json"],
    "threshold_log": ["threshold", "LOG", "--accuracy", "0.7", "--record", "--json"],
    "watch": [
        "watch",
        "DIGITS",
        "-c",
        "ts.json",
        "--state",
        "watch_state.json",
        "--json",
    ],
    "watch_log": [
        *("watch", "LOG", "--state", "watch_log.json", "--json"),
        *("--tolerance", "0.3"),  # the answers of this log are no better than that
    ],
    "compare": ["compare", "DIGITS", "--methods", "ts,ec", "--json"],
    "compare_log": ["compare", "LOG", "--baseline-bundle", "LOG", "--json"],
    "adapt": [
        *("adapt", "--from", ".5,.5", "--prior", ".3,.7"),
        *("-o", "prior.json", "--json"),
    ],
    "run": ["run", "DIGITS", "-m", "ts", "-o", "run", "--json"],
    "diagram": ["diagram", "DIGITS", "-c", "ts.json", "--resamples", "100", "--json"],
    "methods": ["methods", "--json"],
    "metrics": ["metrics", "--json"],
    "fit_all": ["fit", "--method", "all", "small.h5", "-o", "all", "--json"],
    "inspect": ["inspect", "DIGITS", "--json"],
    "fit of confidences": ["fit", "confidences.h5", "-o", "top.json", "--json"],
    "inspect of confidences": ["inspect", "confidences.h5", "--json"],
    "inspect of a calibrator": ["inspect", "top.json", "--json"],
    "inspect of a calibrator by question": ["inspect", "log.json", "--json"],
}
"""Words of a command by the name of its schema, and what else it is of."""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The ``--json`` of every command, under the names of ``OUTPUTS``."""
    import h5py

    folder = tmp_path_factory.mktemp("json")
    digits = REPOSITORY / "sample_data" / "digits.h5"
    log = REPOSITORY / "sample_data" / "decisions.jsonl"
    files = {"DIGITS": str(digits), "LOG": str(log)}
    with h5py.File(digits) as file, h5py.File(folder / "small.h5", "w") as small:
        small["logits"], small["labels"] = (
            file["cal/logits"][:60, :2],
            file["cal/labels"][:60] % 2,
        )
    with h5py.File(folder / "confidences.h5", "w") as confidences:
        confidences["confidence"] = np.linspace(0.3, 0.99, 200)
        confidences["correct"] = np.arange(200) % 4 > 0
    outputs = {}
    for name, words in OUTPUTS.items():
        command = [
            sys.executable,
            "-m",
            "calcli",
            *(files.get(word, word) for word in words),
        ]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        outputs[name] = json.loads(done.stdout)
    outputs["artifact"] = json.loads((folder / "ts.json").read_text("utf-8"))
    return outputs


@pytest.mark.parametrize("command", COMMANDS)
def test_every_json_of_a_command_has_its_schema(command):
    if not any(option.name == "json" for option in load(command).params):
        return
    titles = []
    for path in SCHEMAS.glob("*.json"):
        titles.append(json.loads(path.read_text("utf-8"))["title"])
    words = f"docs/schemas/{command}.json, and its output in OUTPUTS"
    assert f"calcli {command} " in " ".join(titles), words


OPEN = {"options", "params", "details"}
"""Objects whose keys differ from method to method, which no schema names."""


@pytest.mark.parametrize("name", sorted(p.stem for p in SCHEMAS.glob("*.json")))
def test_a_schema_names_the_keys_of_every_object(name):
    schema = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    assert {path.rpartition("/")[2] for path in objects_without_keys(schema)} <= OPEN


def objects_without_keys(schema, path=""):
    """Paths of the objects in a schema of which it says nothing more."""
    if isinstance(schema, list):
        schema = dict(enumerate(schema))
    if not isinstance(schema, dict):
        return
    says_more = {"properties", "additionalProperties", "$ref", "oneOf"} & set(schema)
    if schema.get("type") == "object" and not says_more:
        yield path
    for key, part in schema.items():
        yield from objects_without_keys(part, f"{path}/{key}")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.stem for p in SCHEMAS.glob("*.json")))
def test_real_outputs_obey_their_schemas(name, outputs):
    schema = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    of_schema = [key for key in outputs if key.split()[0] == name]
    assert of_schema, "a line in OUTPUTS"
    for key in of_schema:
        validator.validate(outputs[key])
        broken = {
            key: value
            for key, value in outputs[key].items()
            if not key.startswith("calcli_")
        }
        assert not validator.is_valid(broken)


def test_every_style_of_diagram_and_the_report_obey_their_schemas(tmp_path):
    schemas = {
        name: json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
        for name in ("diagram", "evaluate")
    }
    figures = every_figure()
    for figure in figures.values():
        jsonschema.validate(json.loads(to_json(figure)), schemas["diagram"])
    styles = set(style_names())
    drawn = {name.partition("-")[0] for name in figures}
    assert drawn == styles, "figures of every style in tests/drawings.py"
    described = set(schemas["diagram"]["properties"]["style"]["enum"])
    assert described == styles, "every style in docs/schemas/diagram.json"
    digits = REPOSITORY / "sample_data" / "digits.h5"
    command = [
        sys.executable,
        "-m",
        "calcli",
        "report",
        str(digits),
        "-o",
        "page.html",
        "--json",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    jsonschema.validate(json.loads(done.stdout), schemas["evaluate"])


def test_every_style_is_in_the_gallery():
    page = (DOCS / "gallery.md").read_text("utf-8")
    drawn = set(documentation("pictures").gallery_commands())
    assert len(drawn) == page.count("$ calcli diagram "), "a picture of each command"
    for theme in ("light", "dark"):
        picture = rf"gallery-(\w+)-{theme}\.png\n:class: only-{theme}\n"
        assert set(re.findall(picture, page)) == drawn
    for name in style_names():
        assert f"## {name}: " in page, f"{name}: its section in docs/gallery.md"
        assert name in drawn, f"{name}: its picture in docs/gallery.md"


@pytest.mark.parametrize("name", ["sample", "cifar100_resnet20"])
def test_the_stored_reports_are_of_today(name):
    """Two calibrators, one small file that says what a page says now."""
    path = DOCS / "reports" / f"{name}.html"
    text = path.read_text("utf-8")
    page = REPOSITORY / "calcli" / "reporting"
    style, script = (
        (page / f"page.{kind}").read_text("utf-8") for kind in ("css", "js")
    )
    assert style in text and script in text, "make reports"
    assert '<section id="verdict"' in text and text.count("<dt id=") == len(GLOSSARY)
    stored = json.loads(
        re.search(r'id="calcli-evaluation">(.*?)</script>', text, re.S).group(1)
    )
    assert [result["method"] for result in stored["results"]] == [
        "uncalibrated",
        "auto",
        "ts",
    ]
    # Style and script are 27 KB, numbers, figures and words of ten classes 107 KB; each
    # further class has a row with three small figures, 0.9 KB.
    assert path.stat().st_size < 130_000 + 900 * stored["results"][0]["n_classes"]
    assert " -o /" not in text  # the name of a folder of whoever made it


def test_every_schema_is_written_from_structs():
    """One written by hand says what somebody thought that a command prints."""
    stored = {path.stem for path in SCHEMAS.glob("*.json")}
    assert stored == set(documentation("write_schemas").NAMES)


@pytest.mark.parametrize("name", documentation("write_schemas").NAMES)
def test_a_schema_is_that_of_the_structs_of_today(name):
    written = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    schema = documentation("write_schemas").schema_of(name)
    assert in_one_order(written) == in_one_order(schema), "python docs/write_schemas.py"


def in_one_order(schema):
    """Sort alternatives, which versions of msgspec list in different orders."""
    if isinstance(schema, dict):
        ordered = {key: in_one_order(part) for key, part in schema.items()}
        if "anyOf" in ordered:
            ordered["anyOf"].sort(key=json.dumps)
        return ordered
    if isinstance(schema, list | tuple):
        return [in_one_order(part) for part in schema]
    return schema


@pytest.mark.skipif(
    os.name == "nt", reason="the gate is a bash script for GitHub's runners"
)
@pytest.mark.parametrize(
    ("limits", "code", "said"),
    [("ece=1", 0, "all limits hold"), ("ece=0.001 nll=9", 5, "crossed")],
)
def test_the_gate_of_the_action(limits, code, said, tmp_path):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    inputs = {
        "BUNDLE": str(REPOSITORY / "sample_data" / "digits.h5"),
        "MAX": limits,
        "JSON": "found.json",
    }
    env = {
        **os.environ,
        **inputs,
        "PATH": path,
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    command = ["bash", str(REPOSITORY / ".ci" / "gate.sh")]
    assert (
        subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, check=False
        ).returncode
        == code
    )
    assert said in (tmp_path / "summary.md").read_text("utf-8").splitlines()[0]
    assert (
        json.loads((tmp_path / "found.json").read_text("utf-8"))["calcli_evaluation"]
        == 1
    )
    nothing = subprocess.run(
        command, cwd=tmp_path, env={**env, "MAX": ""}, capture_output=True, check=False
    )
    assert nothing.returncode == 2 and b"nothing could fail" in nothing.stderr
