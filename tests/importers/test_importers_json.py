"""JSON, JSON Lines and tables in JSON: rows as objects, columns as lists, fields inside."""

import json

import imports
import numpy as np
import pytest
from run_calcli import runner

import calcli
from calcli.errors import DataError, UsageError

ROWS = [
    {"id": "a", "output": {"logits": [1.5, -2, 0]}, "gold": 2, "note": "x"},
    {"id": "b", "output": {"logits": [0.5, 1, 3]}, "gold": 0, "note": "y"},
]


def bring(tmp_path, text, name="rows.jsonl", **ask):
    source = tmp_path / name
    source.write_text(
        text if isinstance(text, str) else json.dumps(text), encoding="utf-8"
    )
    return imports.bring(source, tmp_path / "out.h5", **ask)


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_objects_are_rows_and_dotted_names_reach_inside(tmp_path):
    found = bring(tmp_path, lines(ROWS), scores=("output.logits",), labels=("gold",))
    assert found["logits"].tolist() == [[1.5, -2, 0], [0.5, 1, 3]]
    assert found["labels"].tolist() == [2, 0]
    assert [name.decode() for name in found["ids"]] == ["a", "b"]
    assert np.array_equal(
        bring(tmp_path, ROWS, "rows.json")["logits"], found["logits"]
    ), "by their own names too"


def test_scalar_fields_are_columns(tmp_path):
    rows = [
        {"label": "cat", "probs": {"cat": 0.75, "dog": 0.25}},
        {"label": "dog", "probs": {"cat": 0.5, "dog": 0.5}},
    ]
    found = bring(tmp_path, lines(rows))
    assert (found["probs"].tolist(), found["labels"].tolist()) == (
        [[0.75, 0.25], [0.5, 0.5]],
        [0, 1],
    )
    assert [name.decode() for name in found["class_names"]] == ["cat", "dog"]


@pytest.mark.parametrize(
    "value",
    [
        {"logits": [[1, 2.5], [3, 4], [0, 0]], "labels": [0, 1, 1]},
        {"columns": ["image", "label", "logits_0", "logits_1"],
         "data": [[{"_type": "image-file"}, 0, 1, 2.5], [{"_type": "image-file"}, 1, 3, 4], [None, 1, 0, 0]]},
        {"logits_0": {"0": 1, "1": 3, "2": 0}, "logits_1": {"0": 2.5, "1": 4, "2": 0}, "y": {"0": 0, "1": 1, "2": 1}},
        {"a.jpg": {"logits": [1, 2.5], "y": 0}, "b.jpg": {"logits": [3, 4], "y": 1},
         "c.jpg": {"logits": [0, 0], "y": 1}},
    ],
    ids=["columns", "table of W&B", "pandas by column", "pandas by index"],
)  # fmt: skip
def test_other_layouts_give_the_same(tmp_path, value):
    found = bring(tmp_path, value, "a.json")
    assert (found["logits"].tolist(), found["labels"].tolist()) == (
        [[1, 2.5], [3, 4], [0, 0]],
        [0, 1, 1],
    )


def test_a_file_that_begins_with_a_brace_is_never_a_table_of_commas(tmp_path):
    rows = [
        {"id": 0, "probs": [0.1, 0.2, 0.7], "label": 0},
        {"id": 1, "probs": [0.5, 0.25, 0.25], "label": 1},
    ]
    found = bring(tmp_path, lines(rows), "rows.csv")
    assert found["probs"].tolist() == [row["probs"] for row in rows]
    assert "is a file of json in spite of its name" in found["notes"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"logits": [1, 2], "label": 0}\n{"logits": [1, 2]\n',
            "line 2: cannot be read as JSON",
        ),
        (
            '{"logits": [1, 2], "label": 0}\n{"logits": [1], "label": 0}\n',
            "different lengths .2 in row 0, 1 in row 1",
        ),
        (
            '{"logits": [1, NaN], "label": 0}\n{"logits": [1, 2], "label": 0}\n',
            "row 0, class 1 is nan",
        ),
        (
            '{"logits": [1, 2], "label": 0}\n{"logits": [1, 2]}\n',
            "column 'label' is empty in row 1",
        ),
        (
            '{"logits": [1, "x"], "label": 0}\n{"logits": [1, 2], "label": 0}\n',
            "something that is no number",
        ),
        ("[]", "holds no rows"),
        ('{"a": 1}', "holds no array named logits"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('{"logits": [1, 2], "label": 0', "cannot be read as JSON"),
    ],
)
def test_faults_are_refused_in_one_line(tmp_path, text, message):
    with pytest.raises((DataError, UsageError), match=message) as caught:
        bring(tmp_path, text)
    assert "rows.jsonl" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["plain_rows.jsonl", "plain_rows.json"])
def test_samples_of_plain_rows(tmp_path, sample, name):
    path = sample(f"made/tables/{name}")
    text = path.read_text()
    rows = (
        [json.loads(line) for line in text.splitlines()]
        if name.endswith("l")
        else json.loads(text)
    )
    found = bring(tmp_path, text, name)
    assert found["logits"].tolist() == [row["logits"] for row in rows]
    assert found["labels"].tolist() == [row["label"] for row in rows]
    assert found["ids"].tolist() == [row["id"] for row in rows]


@pytest.mark.parametrize(
    "text",
    [
        '{"logits": [1, 2], "label": 0, "label": 1}\n{"logits": [2, 1], "label": 0}\n',
        '[{"logits": [2, 1], "label": 0}, {"logits": [1, 2], "label": 0, "label": 1}]',
        '{"logits": [[1, 2], [2, 1]], "labels": [1, 0], "labels": [0, 1]}',
        '{"rows": {"out": {"logits": [[1, 2], [2, 1]], "labels": [1, 0], "labels": [0, 1]}}}',
    ],
    ids=["lines", "list", "columns", "nested"],
)
def test_a_name_that_stands_twice_is_refused(tmp_path, monkeypatch, capsys, text):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    found = runner(monkeypatch, capsys)("extract", path, "-o", tmp_path / "o.h5")
    assert found.code == 3
    assert "stands twice" in found.line


@pytest.mark.parametrize("other", [" ", "NO", "The"])
def test_only_one_letter_is_a_class_where_the_labels_are_letters(tmp_path, other):
    """A blank token and "NO", parts of the alphabet as a text, were classes, too."""
    log_probs = {"A": np.log(0.6), "B": np.log(0.3), other: np.log(0.1)}
    found = bring(
        tmp_path, lines([{"logprobs": log_probs, "label": x} for x in "ABAB"])
    )
    np.testing.assert_allclose(np.exp(found["log_probs"]), [[2 / 3, 1 / 3]] * 4)


def test_log_probabilities_of_the_best_tokens_by_name(tmp_path):
    """By hand: A .7 (with " A"), B .2 and C at most .1, all that is left; then A .6, C .3, and B at most .1."""
    rows = [
        {
            "logprobs": {"A": np.log(0.6), "B": np.log(0.2), " A": np.log(0.1)},
            "label": "A",
        },
        {"logprobs": {"A": np.log(0.6), "C": np.log(0.3)}, "label": "C"},
        {
            "logprobs": {"B": np.log(0.5), "C": np.log(0.4), "A": np.log(0.05)},
            "label": "B",
        },
    ]

    def text():
        return "".join(json.dumps(row) + "\n" for row in rows)

    found = bring(tmp_path, text())
    wanted = np.array([[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.05, 0.5, 0.4]])
    np.testing.assert_allclose(
        np.exp(found["log_probs"]), wanted / wanted.sum(axis=1, keepdims=True)
    )
    assert found["labels"].tolist() == [0, 2, 1]
    assert (
        "is of other tokens and was left out, and the classes A, B, C divided by their sum; 2 times"
        in found["notes"]
    )
    rows[1]["logprobs"] = {"The": -0.1, "A": -3.0}
    with pytest.raises(UsageError, match="which are the classes. --class-names"):
        bring(tmp_path, text())
    two = bring(tmp_path, text(), class_names=("A", "B", "C"))
    assert two["log_probs"].shape == (3, 3)
    inner = [{"out": {"logprobs": row["logprobs"]}, "label": "A"} for row in rows]
    inside = bring(tmp_path, lines(inner), class_names=("A", "B", "C"))
    assert np.array_equal(inside["log_probs"], two["log_probs"])


@pytest.mark.parametrize("name", ["logprobs", "log_probs"])
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_probabilities_are_no_log_probabilities_of_tokens(tmp_path, name, where):
    """Taken as such, all would be 0, every class as likely: e^.5 + e^.3 + e^.2 = 4.21998."""
    rows = []
    for label in "ABC":
        row = {name: {"A": 0.5, "B": 0.3, "C": 0.2}, "label": label}
        rows.append(row if where == "outside" else {"out": row})
    with pytest.raises(DataError, match="sum to 4.21998, expected 1"):
        bring(tmp_path, lines(rows))


def test_a_calibrator_is_no_scores(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(60, 3))
    calcli.fit(z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)).save(
        tmp_path / "ts.json"
    )
    with pytest.raises(
        DataError,
        match=r"is a calibrator, no scores; name it with --calibrator .*ts\.json",
    ):
        bring(tmp_path, (tmp_path / "ts.json").read_text(), "ts.json")


def test_rows_with_null_are_left_out_where_that_is_asked_for(tmp_path):
    rows = [
        {"id": f"r{i}", "logits": [0.1 * i, -0.2, 0.3], "label": i % 3}
        for i in range(12)
    ]
    rows[2]["label"], rows[4]["logits"] = None, None
    with pytest.raises(DataError, match="is empty in row"):
        bring(tmp_path, lines(rows))
    found = bring(tmp_path, lines(rows), drop_missing=True)
    assert found["labels"].tolist() == [
        row["label"] for i, row in enumerate(rows) if i not in (2, 4)
    ]
    assert "2 of 12 rows left out" in found["notes"]
