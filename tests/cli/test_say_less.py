"""What commands print, on twelve kinds of data: short, in few columns, the same everywhere.

The next command that they name runs as printed.
"""

import json
import shlex
import shutil
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
from synthetic import truth

LONGEST = 100
"""Characters of a headline and of a finding."""

MOST_LINES = {100: 24, 80: 28}
"""Lines of ``run``, whatever the data, by columns: at 80 some sentences take two."""

MOST_LINES_OF_TABLES = 32
"""Lines of ``evaluate`` with a table of twelve groups, sentences wrapped at 80 columns."""


@dataclass(frozen=True)
class Case:
    """Files of one kind of data.

    calibration, test : rows to fit to and to judge, with ``FILE:GROUP``. options : to
    read them. judged : verdict kinds of the uncalibrated scores. run_code : exit code of
    ``run`` on the test rows alone. scores : ``confidence`` where there are no classes.
    """

    calibration: str
    test: Sequence[str]
    options: Sequence[str] = ()
    judged: Sequence[str] = ("overconfident",)
    run_code: int = 0
    scores: str = "of classes"


# ---- twelve kinds of data, of logs of language models two


def rows(n=400, k=3, seed=0, temperature=2.0):
    """Logits that are ``temperature`` times too large, and labels."""
    return truth(n, k, temperature=temperature, seed=seed)


def probabilities(z):
    """Softmax of logits (n, k)."""
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def write_two(**columns):
    """``val.npz`` and ``test.npz`` with halves of these arrays."""
    n = len(next(iter(columns.values())))
    for name, part in (("val", slice(0, n // 2)), ("test", slice(n // 2, n))):
        arrays = {column: values[part] for column, values in columns.items()}
        np.savez(f"{name}.npz", **arrays)


def logits():
    z, y = rows(800, 10)
    write_two(logits=z, labels=y)
    return Case("val.npz", ["test.npz"])


def probability_table():
    """A table with a column per class and the label in words."""
    z, y = rows(800)
    for name, part in (("val", slice(0, 400)), ("test", slice(400, 800))):
        lines = ["cat,cow,dog,animal"]
        for p, label in zip(probabilities(z[part]), y[part], strict=True):
            names = ["cat", "cow", "dog"]
            lines.append(",".join([*(f"{x:.8f}" for x in p), names[label]]))
        Path(f"{name}.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return Case("val.csv", ["test.csv"])


def two_classes():
    z, y = rows(1200, 2)
    write_two(logits=z, labels=y)
    return Case("val.npz", ["test.npz"])


def groups():
    """Patients of two classes, by site and sex; one site is off more than others."""
    rng = np.random.default_rng(3)
    site = np.array(["Graz", "Lyon", "Porto"])[rng.integers(0, 3, 2400)]
    sex = np.array(["F", "M"])[rng.integers(0, 2, 2400)]
    z, y = rows(2400, 2, temperature=1.5)
    z[:, 1] -= 1.5 * (site == "Porto")
    write_two(logits=z, labels=y, site=site, sex=sex)
    options = ["--group-by", "site", "--group-by", "sex"]
    return Case("val.npz", ["test.npz"], options)


def units():
    """Visits of patients."""
    z, y = rows(1600)
    write_two(logits=z, labels=y, patient=np.arange(1600) // 4)
    return Case("val.npz", ["test.npz"], ["--unit", "patient"])


def confidences():
    z, y = rows(1000)
    p = probabilities(z)
    write_two(confidence=p.max(axis=1), correct=(p.argmax(axis=1) == y).astype(int))
    return Case("val.npz", ["test.npz"], scores="confidence")


def language_model_logs():
    """Samples of lm-evaluation-harness as it logs them: log-likelihoods of four choices."""
    z, y = rows(800, 4)
    log_p = np.log(probabilities(z))
    for name, part in (("val", slice(0, 400)), ("test", slice(400, 800))):
        lines = []
        for place, (row, label) in enumerate(zip(log_p[part], y[part], strict=True)):
            record = {
                "doc_id": place,
                "doc": {},
                "target": str(label),
                "arguments": [["Q:", f" {letter}"] for letter in "ABCD"],
                "resps": [[[str(value), "False"]] for value in row],
                "filtered_resps": [[str(value), "False"] for value in row],
                "filter": "none",
                "acc": float(row.argmax() == label),
            }
            lines.append(json.dumps(record))
        Path(f"samples_{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return Case("samples_val.jsonl", ["samples_test.jsonl"])


def chat_logs():
    """Chat completions with the log-probabilities of four letters, a label beside each."""
    z, y = rows(800, 4)
    log_p = np.log(probabilities(z))
    for name, part in (("val", slice(0, 400)), ("test", slice(400, 800))):
        lines = []
        for place, (row, label) in enumerate(zip(log_p[part], y[part], strict=True)):
            listed = [
                {"token": "ABCD"[c], "logprob": float(row[c])} for c in np.argsort(-row)
            ]
            entry = {**listed[0], "top_logprobs": listed}
            choice = {
                "message": {"content": listed[0]["token"]},
                "logprobs": {"content": [entry]},
            }
            record = {"id": f"{name}{place}", "response": {"choices": [choice]}}
            lines.append(json.dumps({**record, "label": "ABCD"[label]}))
        Path(f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return Case("val.jsonl", ["test.jsonl"])


def one_row():
    z, y = rows(400)
    np.savez("val.npz", logits=z, labels=y)
    np.savez("test.npz", logits=z[:1], labels=y[:1])
    return Case("val.npz", ["test.npz"], judged=["too_few"], run_code=3)


def all_right():
    """Every prediction is right, about as its confidence expects."""
    z = np.zeros((800, 3))
    y = np.arange(800) % 3
    z[np.arange(800), y] = 8.0 + np.arange(800) / 800.0
    write_two(logits=z, labels=y)
    return Case("val.npz", ["test.npz"], judged=["calibrated"])


def mislabelled():
    """Labels counted from 1, but in the last class."""
    z, y = rows(800)
    write_two(logits=z, labels=(y + 1) % 3)
    return Case("val.npz", ["test.npz"], judged=["check_labels"])


def two_hundred_groups():
    rng = np.random.default_rng(4)
    z, y = rows(8000)
    names = [f"warehouse number {number} of the north" for number in range(200)]
    write_two(logits=z, labels=y, group=np.array(names)[rng.integers(0, 200, 8000)])
    return Case("val.npz", ["test.npz"], ["--group-by", "group"])


def thirty_bundles():
    for number in range(30):
        z, y = rows(200, seed=number)
        with h5py.File(f"model-{number:02}.h5", "w") as file:
            file["logits"], file["labels"] = z, y
    names = sorted(path.name for path in Path().glob("model-*.h5"))
    judged = ["overconfident", "too_few"]
    return Case("model-00.h5", names[1:], judged=judged)


KINDS: dict[str, Callable[[], Case]] = {
    "logits": logits,
    "probabilities": probability_table,
    "two classes": two_classes,
    "groups": groups,
    "units": units,
    "confidences": confidences,
    "language-model logs": language_model_logs,
    "chat logs": chat_logs,
    "one row": one_row,
    "all right": all_right,
    "mislabelled": mislabelled,
    "200 groups": two_hundred_groups,
    "30 bundles": thirty_bundles,
}


@pytest.fixture(params=KINDS)
def case(request, run):
    """The files of one kind of data, in the current folder."""
    return KINDS[request.param]()


# ---- what every output keeps


def columns(line):
    """Columns that a line takes on a terminal."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in line)
    return len(line) + wide


def is_to_paste(line):
    """True for lines that are copied as they stand, however long: commands and paths."""
    return line.startswith(("next: ", "page: ", "calibrator: "))


def check_lines(text, width, most):
    """Few lines, none of which a terminal folds."""
    lines = text.splitlines()
    assert len(lines) <= most, text
    for line in lines:
        assert columns(line) <= width or is_to_paste(line), line
        assert "\x1b" not in line
        assert line == line.rstrip()


def sentences(text):
    """Headlines and findings that are printed, each in one line, without those left out."""
    in_one_line = []
    for line in text.partition("\n\n")[0].splitlines():
        if line.startswith("    "):
            in_one_line[-1] += f" {line.strip()}"
        elif not line.endswith(" more with --full"):
            in_one_line.append(line.strip())
    return in_one_line


def check_report(report):
    """Lengths of headline and findings; a next command without placeholders."""
    assert len(report["verdict"]) <= LONGEST
    for message in report["messages"]:
        assert len(message["text"]) <= LONGEST
        assert "\n" not in message["text"]
    if report["next"] is not None:
        assert report["next"].startswith("calcli ")
        assert not set("<>|;&$`*?") & set(report["next"])


def check_said(text, results):
    """The terminal says headlines of all versions and findings of the first, in words of the JSON."""
    spoken = sentences(text)
    for result in results:
        headline = result["report"]["verdict"]
        assert any(words.endswith(f": {headline}") for words in spoken)
    first = leading(spoken[0], results)
    texts = [message["text"] for message in first["report"]["messages"]]
    assert spoken[1 : 1 + len(texts[:3])] == texts[:3]
    more = f"  {len(texts) - 3} more with --full"
    assert (more in text.splitlines()) == (len(texts) > 3)


def leading(headline, results):
    """The version that a headline is of: ``FILE, VERSION: VERDICT``, or the only one."""
    for result in results[1:]:
        if f", {result['method']}: " in headline:
            return result
    return results[0]


def next_command(text):
    """The printed next command, None for none."""
    commands = [line for line in text.splitlines() if line.startswith("next: ")]
    assert len(commands) <= 1
    return commands[0].removeprefix("next: ") if commands else None


def check_next(run, text, results, test):
    """The next command is that of the JSON, and runs as printed with its files in place."""
    command = next_command(text)
    assert command == next(
        (r["report"]["next"] for r in results if r["report"]["next"]), None
    )
    if command is None:
        return
    words = shlex.split(command)
    assert words[0] == "calcli"
    new = [word for word in words if word.startswith("NEW.")]
    for name in new:
        shutil.copy(test.partition(":")[0], name)
    done = run(*words[1:])
    assert done.code == 0, done.err
    if "-o" in words:
        assert Path(words[words.index("-o") + 1]).exists()


def results_of(run, *words):
    """Results as JSON, each with its report checked."""
    done = run(*words, "--json", "-q")
    assert done.code == 0, done.err
    results = json.loads(done.out).get("evaluation", json.loads(done.out))["results"]
    for result in results:
        check_report(result["report"])
    return results


# ---- the commands


@pytest.mark.parametrize("width", [80, 100])
def test_evaluate_of_scores_alone(run, monkeypatch, case, width):
    monkeypatch.setenv("COLUMNS", str(width))
    words = ["evaluate", *case.test, *case.options]
    results = results_of(run, *words)
    assert {result["report"]["verdict_kind"] for result in results} <= {*case.judged}
    done = run(*words)
    assert done.code == 0
    many = len(case.test) > 3
    most = len(case.test) + 4 if many else MOST_LINES_OF_TABLES
    check_lines(done.out, width, most)
    headlines = run(*words, "-q").out.splitlines()
    assert [line.partition(": ")[2] for line in headlines] == [
        result["report"]["verdict"] for result in results
    ]
    if not many:
        check_said(done.out, results)
    check_next(run, done.out, results, case.test[0])


@pytest.mark.parametrize("width", [80, 100])
def test_evaluate_with_a_calibrator(run, monkeypatch, case, width):
    monkeypatch.setenv("COLUMNS", str(width))
    fitted = run("fit", case.calibration, *case.options, "-o", "c.json")
    assert fitted.code == 0, fitted.err
    assert fitted.out == "c.json\n"
    assert fitted.err.count("Fitted ") == 1
    assert fitted.err.count("In-sample: ") + fitted.err.count("Held out: ") == 1
    test = case.test[0]
    words = ["evaluate", test, "-c", "c.json", *case.options]
    results = results_of(run, *words)
    done = run(*words)
    assert done.code == 0, done.err
    check_lines(done.out, width, MOST_LINES_OF_TABLES)
    check_said(done.out, results)
    check_next(run, done.out, results, test)
    applied = run("apply", "c.json", test, *case.options, "-o", "applied.h5")
    assert (applied.code, applied.out) == (0, "applied.h5\n")


@pytest.mark.parametrize("width", [80, 100])
def test_run_on_two_sets(run, monkeypatch, case, width):
    monkeypatch.setenv("COLUMNS", str(width))
    test = case.test[0]
    words = ["run", case.calibration, test, *case.options]
    done = run(*words, "-o", "out")
    assert done.code == 0, done.err
    check_lines(done.out + done.err, width, MOST_LINES[width])
    results = results_of(run, *words, "-o", "again")
    check_said(done.out, results)
    command = next_command(done.out)
    expected = results[0]["report"]["next"]
    assert command == (expected and expected.replace("again/", "out/"))
    if command is not None and " NEW." in command:
        name = next(word for word in shlex.split(command) if word.startswith("NEW."))
        shutil.copy(test.partition(":")[0], name)
        assert run(*shlex.split(command)[1:]).code == 0


def test_run_on_one_set(run, monkeypatch, case):
    """The judgement is by cross-fitting; rows that no fold can leave out are refused in one line."""
    monkeypatch.setenv("COLUMNS", "100")
    words = ["run", case.test[0], *case.options, "-o", "out"]
    if case.run_code:
        refused = run(*words, "-q")
        assert (refused.code, refused.out) == (case.run_code, "")
        assert "test.npz: cross-fitting needs two different rows" in refused.line
        return
    done = run(*words)
    assert done.code == 0, done.err
    check_lines(done.out + done.err, 100, MOST_LINES[100])
    check_said(done.out, results_of(run, *words[:-1], "again"))


def test_names_are_spelt_out_before_a_table_is_fitted(run, monkeypatch):
    """A control character takes four columns: the table must count these, not one."""
    monkeypatch.setenv("COLUMNS", "100")
    z, labels = rows()
    names = np.array(["a\x1b[31m" + "b\x07" * 12 + end for end in "xyz"])
    np.savez("test.npz", logits=z, labels=labels, group=names[np.arange(len(z)) % 3])
    done = run("run", "test.npz", "-m", "ts", "-o", "out")
    assert done.code == 0, done.err
    assert "\\x1b" in done.out
    check_lines(done.out + done.err, 100, MOST_LINES[100])
    table = done.out[done.out.index("by group") :].splitlines()[2:6]
    assert len({len(line) for line in table}) == 1  # columns stand below their heads


@pytest.mark.parametrize("width", [80, 100])
def test_compare(run, monkeypatch, case, width):
    monkeypatch.setenv("COLUMNS", str(width))
    words = ["compare", case.calibration, *case.options, "--methods", "platt"]
    if case.scores == "confidence":
        refused = run(*words, "-q")
        assert refused.code == 3
        assert "which have no NLL of the label" in refused.line
        return
    done = run(*words)
    assert done.code == 0, done.err
    check_lines(done.out, width, MOST_LINES[width])


def test_fail_on_the_verdict(run, case):
    """The exit code is 5 for the kinds of verdict that are named, and 0 for others."""
    words = ["evaluate", case.test[0], *case.options, "-q"]
    kind = results_of(run, *words[:-1])[0]["report"]["verdict_kind"]
    others = {"overconfident", "underconfident", "mixed", "too_few", "check_labels"}
    assert run(*words, "--fail-on", ",".join(sorted(others - {kind}))).code == 0
    if kind != "calibrated":
        assert run(*words, "--fail-on", kind).code == 5


BESIDE = {
    "diagram": ["diagram", "TEST", "-c", "c.json"],
    "report": [
        "report",
        "TEST",
        "-c",
        "c.json",
        "-o",
        "page.html",
        "--no-decomposition",
    ],
    "watch": ["watch", "TEST", "-c", "c.json", "--state", "state.json"],
    "threshold": ["threshold", "TEST", "-c", "c.json", "--accuracy", "0.3"],
    "export": ["export", "c.json", "--to", "python", "-o", "c.py"],
    "inspect": ["inspect", "TEST"],
    "inspect of a calibrator": ["inspect", "c.json"],
    "inspect of the default": ["inspect", "auto.json"],
    "apply": ["apply", "c.json", "TEST", "-o", "applied.csv"],
}
"""Commands beside those above, on the first test set and two calibrators."""

ON_CALIBRATORS = {"export", "inspect of a calibrator", "inspect of the default"}
"""Those without rows, which take no options to read them."""

REFUSED = {
    ("confidences", "export"): 2,
    ("one row", "threshold"): 4,
    ("mislabelled", "threshold"): 4,
}
"""Kind of data and command -> exit code, where nothing can be done."""

LONGEST_REFUSAL = 300


@pytest.mark.parametrize("width", [80, 100])
def test_the_other_commands(run, monkeypatch, case, width, request):
    """Nothing is wider than the terminal; a refusal is one line that is not long."""
    monkeypatch.setenv("COLUMNS", str(width))
    kind = request.node.callspec.params["case"]
    name = "ts" if case.scores == "of classes" else "platt"
    fitted = run("fit", case.calibration, *case.options, "-m", name, "-o", "c.json")
    assert fitted.code == 0, fitted.err
    assert run("fit", case.calibration, *case.options, "-o", "auto.json").code == 0
    for command, template in BESIDE.items():
        words = [case.test[0] if word == "TEST" else word for word in template]
        options = [] if command in ON_CALIBRATORS else case.options
        done = run(*words, *options)
        refusal_code = REFUSED.get((kind, command))
        if refusal_code is not None:
            assert done.code == refusal_code
            refusal = done.err.splitlines()[-1]
            assert len(refusal) <= LONGEST_REFUSAL, refusal
            continue
        assert done.code in ((0, 5) if command == "watch" else (0,)), done.err
        for line in (done.out + done.err).splitlines():
            assert columns(line) <= width or is_to_paste(line), (command, line)


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize(
    "words",
    [
        ["--per-class"],
        ["--full", "--group-by", "group"],
        ["--group-by", "group"],
        ["-m", "nll", "-m", "ece", "-m", "brier", "-m", "accuracy", "-m", "ks"],
    ],
    ids=["by class", "full", "by group", "metrics"],
)
def test_tables_of_names_in_wide_signs_fit(run, monkeypatch, words, width):
    """A sign of East Asia takes two columns; tables by class were wider than 80."""
    monkeypatch.setenv("COLUMNS", str(width))
    z, labels = rows()
    sites = np.array(["東京都千代田区", "大阪府大阪市北区", "Zürich"])
    np.savez(
        "test.npz",
        logits=z,
        labels=labels,
        class_names=np.array(["猫", "犬", "魚の仲間です"]),
        group=sites[np.arange(len(z)) % 3],
    )
    done = run("evaluate", "test.npz", *words)
    assert done.code == 0, done.err
    for line in (done.out + done.err).splitlines():
        assert columns(line) <= width or is_to_paste(line), line
