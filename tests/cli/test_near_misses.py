"""Names that are nearly right get the sentence that fits."""

import json

import numpy as np
import pytest
from synthetic import truth


@pytest.fixture
def scores(tmp_path):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 3))
    labels = logits.argmax(axis=1)
    labels[::4] = (labels[::4] + 1) % 3
    np.savez(tmp_path / "scores.npz", logits=logits, labels=labels)
    return "scores.npz"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("fit", "scores.npz", "-m", "temprature"), "temperature (ts)"),
        (("evaluate", "scores.npz", "-m", "acuracy"), "did you mean accuracy"),
        (("evaluate", "scores.npz", "--fail-on", "overconfidnt"), "overconfident"),
        (("evaluate", "score.npz"), "did you mean scores.npz?"),
        (("evaluate", "nothing.npz"), "nothing.npz: no such file"),
        (("run", "https://example.org/scores.npz"), "web address"),
        (("ft", "scores.npz"), "did you mean fit?"),
        (("scores.npz",), "calcli run scores.npz"),
        (
            ("run", "scores.npz", "--gold", "t.csv"),
            "has no option --gold (extract has it)",
        ),
        (("run", "scores.npz", "--nothing"), "no such option: --nothing"),
        (("train", "scores.npz"), "did you mean fit?"),
    ],
)
def test_the_sentence_names_what_was_meant(run, scores, words, part):
    result = run(*words)
    assert result.code in (2, 3)
    assert part in result.line


def test_a_file_whose_name_begins_with_a_dash_is_named_as_it_can_be_read(
    run, scores, tmp_path
):
    (tmp_path / scores).rename(tmp_path / "-scores.npz")
    result = run("evaluate", "-scores.npz")
    assert result.code == 2
    assert result.line.endswith("of the file write ./-scores.npz")
    assert run("evaluate", "./-scores.npz").code == 0


def test_a_link_to_nothing_is_said_to_be_one(run, tmp_path):
    (tmp_path / "scores.npz").symlink_to("moved.npz")
    result = run("evaluate", "scores.npz")
    assert result.code == 3
    assert "scores.npz: is a link to moved.npz, and leads to no file" in result.line


def test_swapped_arguments_of_apply_are_put_right_by_the_proposed_command(run, scores):
    assert run("fit", scores, "-m", "ts", "-o", "ts.json").code == 0
    result = run("apply", scores, "ts.json", "-o", "out.npz")
    assert result.code == 2
    command = result.line.rpartition("comes first: ")[2].split()
    assert command == ["calcli", "apply", "ts.json", scores, "-o", "out.npz"]
    assert run(*command[1:]).code == 0


def test_a_calibrator_in_the_place_of_scores_is_named(run, scores):
    assert run("fit", scores, "-m", "ts", "-o", "ts.json").code == 0
    result = run("evaluate", "ts.json")
    assert result.code == 3
    assert (
        "is a calibrator, no scores; name it with --calibrator ts.json" in result.line
    )


@pytest.mark.parametrize("command", ["evaluate", "run", "fit", "inspect"])
@pytest.mark.parametrize("name", ["nothing.npz", "nothing.h5", "no/folder/a.csv"])
def test_of_a_missing_file_nothing_else_is_said(run, scores, command, name):
    done = run(command, name)
    assert done.code == 3
    assert done.line == f"calcli: {name}: no such file"


LISTS = {
    "metrics": ("evaluate", "ece", "nll"),
    "methods": ("compare", "ts", "vs"),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_our_names_come_with_commas_or_repeated(run, name):
    """Metrics were repeated only; of repeated methods and verdicts the last was taken."""
    z, y = truth(200, 3, temperature=3.0, seed=0)
    np.savez("scores.npz", logits=z, labels=y)
    command, first, second = LISTS[name]
    printed = []
    for words in (
        ("-m", f"{first},{second}"),
        ("-m", first, "-m", second),
        ("-m", f" {first} ,{second},"),
    ):
        done = run(command, "scores.npz", *words, "--json")
        assert done.code == 0, done.err
        results = json.loads(done.out)["results"]
        if command == "evaluate":
            printed.append(list(results[0]["metrics"]))
        else:
            printed.append([result["method"] for result in results])
    assert {first, second} <= set(printed[0])
    assert printed[0] == printed[1] == printed[2]


def test_every_verdict_of_a_repeated_option_fails(run):
    z, y = truth(2000, 3, temperature=3.0, seed=0)
    np.savez("scores.npz", logits=z, labels=y)
    kinds = ("overconfident", "mixed")
    for first, second in (kinds, kinds[::-1]):
        words = ("--fail-on", first, "--fail-on", second)
        assert run("evaluate", "scores.npz", *words).code == 5
