"""What other programs write, after their documented formats, is read without options.

Each file has 400 rows of three classes, whose labels are drawn from the probabilities; the
accuracy and the NLL of ``evaluate`` are those of the arrays that were written.
"""

import base64
import io
import json
import re
import shlex
import sqlite3
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from calcli.importers.formats import formats, recognise
from calcli.importers.source_file import SourceFile

N = 400
NAMES = ["cat", "dog", "fox"]
RNG = np.random.default_rng(3)
Z = RNG.normal(size=(N, 3)) * 2
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
Y = (Z + RNG.gumbel(size=Z.shape)).argmax(axis=1)
SPECIES = [NAMES[y] for y in Y]
PREDICTED = [NAMES[y] for y in P.argmax(axis=1)]
AGE = RNG.integers(1, 90, N)
SITE = [("north", "south")[i % 2] for i in range(N)]


def table(path, columns, separator=","):
    lines = [separator.join(columns)]
    for row in zip(*columns.values(), strict=True):
        lines.append(separator.join(map(str, row)))
    Path(path).write_text("\n".join(lines) + "\n", "utf-8")
    return path


def scores(pattern):
    """Columns of the probabilities, named by the pattern."""
    return {pattern.format(name): P[:, k] for k, name in enumerate(NAMES)}


def lines(path, rows):
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def h2o():
    """h2o.cbind(test["species"], model.predict(test)), exported."""
    return table("h2o.csv", {"species": SPECIES, "predict": PREDICTED, **scores("{}")})


def knime():
    """Columns of a Predictor node that appends class probabilities."""
    columns = {"age": AGE, "class": SPECIES, **scores("P (class={})")}
    return table("knime.csv", {**columns, "Prediction (class)": PREDICTED})


def caret():
    """train(..., savePredictions="final", classProbs=TRUE)$pred, by write.csv."""
    columns = {"": range(1, N + 1), "pred": PREDICTED, "obs": SPECIES, **scores("{}")}
    columns |= {"rowIndex": RNG.permutation(N) + 1, "mtry": [2] * N}
    return table("caret.csv", {**columns, "Resample": ["Fold1"] * N})


def tidymodels():
    """augment(fit, new_data)."""
    columns = {".pred_class": PREDICTED, **scores(".pred_{}")}
    return table("tidy.csv", {**columns, "age": AGE, "species": SPECIES})


def azure():
    """Score Model of Azure Machine Learning designer."""
    columns = {"species": SPECIES, "age": AGE}
    columns |= scores('"Scored Probabilities for Class ""{}"""')
    return table("azure.csv", {**columns, "Scored Labels": PREDICTED})


def datarobot():
    """Batch predictions with passthrough columns."""
    columns = scores("species_{}_PREDICTION")
    columns |= {"species_PREDICTION": PREDICTED, "DEPLOYMENT_APPROVAL_STATUS": "A" * N}
    return table("datarobot.csv", {**columns, "row_id": range(N), "species": SPECIES})


def autogluon():
    """predictor.predict_proba(test).assign(species=test["species"]).to_csv(...)."""
    return table("autogluon.csv", {"": range(N), **scores("{}"), "species": SPECIES})


def bigquery():
    """ML.PREDICT, exported as JSON lines."""
    rows = []
    for p, predicted, species in zip(P, PREDICTED, SPECIES, strict=True):
        order = np.argsort(-p)
        listed = [{"label": NAMES[k], "prob": float(p[k])} for k in order]
        rows.append(
            {
                "predicted_species": predicted,
                "predicted_species_probs": listed,
                "species": species,
            }
        )
    return lines("bigquery.jsonl", rows)


def vertex():
    """Batch prediction of a tabular classification model."""
    rows = []
    for i, p in enumerate(P):
        instance = {"age": str(AGE[i]), "species": SPECIES[i]}
        prediction = {"classes": NAMES, "scores": p.tolist()}
        rows.append({"instance": instance, "prediction": prediction})
    return lines("vertex.jsonl", rows)


def vertex_image():
    """Batch prediction of an image classification model: the best first."""
    rows = []
    for i, p in enumerate(P):
        order = np.argsort(-p)
        prediction = {
            "ids": [str(1000 + k) for k in order],
            "displayNames": [NAMES[k] for k in order],
            "confidences": p[order].tolist(),
        }
        rows.append({"species": SPECIES[i], "prediction": prediction})
    return lines("vertex_image.jsonl", rows)


def spacy():
    """doc.cats of a text categorizer beside the gold."""
    rows = [
        {
            "text": f"text {i}",
            "cats": dict(zip(NAMES, p.tolist(), strict=True)),
            "gold_label": SPECIES[i],
        }
        for i, p in enumerate(P)
    ]
    return lines("spacy.jsonl", rows)


def tf_serving():
    """The response to a predict request, beside the labels."""
    content = {"predictions": P.tolist(), "labels": Y.tolist()}
    Path("serving.json").write_text(json.dumps(content))
    return "serving.json"


def weka_row(i):
    """Cells of a prediction: its number, the classes, the error and the distribution."""
    best = int(P[i].argmax())
    scores = [f"*{x}" if k == best else f"{x}" for k, x in enumerate(P[i])]
    error = "+" if best != Y[i] else ""
    actual = f"{Y[i] + 1}:{SPECIES[i]}"
    return [str(i + 1), actual, f"{best + 1}:{NAMES[best]}", error, ",".join(scores)]


def weka_text():
    """What Weka prints where no format is named, with a line before and after."""
    rows = ["", "=== Predictions on test data ===", ""]
    rows.append("    inst#     actual  predicted error distribution")
    for i in range(N):
        number, actual, predicted, error, scores = weka_row(i)
        rows.append(f"{number:>9} {actual:>15} {predicted:>15} {error:>3}   {scores} ")
    Path("weka.txt").write_text("\n".join([*rows, "", "=== Summary ===", ""]))
    return "weka.txt"


def weka_attributes():
    """``-p 1-2`` adds attributes, in CSV without a bracket."""
    rows = ["inst#,actual,predicted,error,distribution,,,age,site"]
    for i in range(N):
        rows.append(",".join([*weka_row(i), str(AGE[i]), SITE[i]]))
    Path("weka_attributes.csv").write_text("\n".join(rows) + "\n\n")
    return "weka_attributes.csv"


def weka_text_attributes():
    rows = ["    inst#     actual  predicted error distribution (age,site)"]
    for i in range(N):
        rows.append(f"{'     '.join(weka_row(i))} ({AGE[i]},{SITE[i]})")
    Path("weka_attributes.txt").write_text("\n".join(rows) + "\n\n")
    return "weka_attributes.txt"


def weka():
    """-classifications "weka.classifiers.evaluation.output.prediction.CSV -distribution"."""
    rows = ["=== Predictions on test data ===", ""]
    rows.append("inst#,actual,predicted,error,distribution,,")
    for i in range(N):
        rows.append(",".join(weka_row(i)))
    Path("weka.csv").write_text("\n".join(rows) + "\n\n")
    return "weka.csv"


def fasttext():
    """paste truth.txt <(fasttext predict-prob model.bin test.txt 3)."""
    rows = []
    for i, p in enumerate(P):
        order = np.argsort(-p)
        pairs = " ".join(f"__label__{NAMES[k]} {p[k]}" for k in order)
        rows.append(f"__label__{SPECIES[i]}\t{pairs}")
    Path("fasttext.txt").write_text("\n".join(rows) + "\n")
    return "fasttext.txt"


def matlab():
    """save results.mat scores labels, of version 5; labels count from 1."""
    savemat = pytest.importorskip("scipy.io").savemat
    savemat("results.mat", {"scores": P, "labels": (Y + 1)[:, None]})
    return "results.mat"


def matlab_7_3():
    """The layout of version 7.3: HDF5 with a header, axes in the order of Fortran."""
    with h5py.File("results73.mat", "w", userblock_size=512) as file:
        file["scores"], file["labels"] = P.T, (Y + 1.0)[None, :]
    with Path("results73.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    return "results73.mat"


def openml():
    """predictions.arff of a run."""
    head = ["@RELATION openml_task_59_predictions", "@ATTRIBUTE repeat NUMERIC"]
    head += ["@ATTRIBUTE fold NUMERIC", "@ATTRIBUTE row_id NUMERIC"]
    head += [f"@ATTRIBUTE confidence.{name} NUMERIC" for name in NAMES]
    head += ["@ATTRIBUTE prediction {cat,dog,fox}", "@ATTRIBUTE correct {cat,dog,fox}"]
    rows = []
    for i, p in enumerate(P):
        cells = ",".join(map(str, p))
        rows.append(f"0,{i % 10},{i},{cells},{PREDICTED[i]},{SPECIES[i]}")
    Path("openml.arff").write_text("\n".join([*head, "@DATA", *rows]) + "\n")
    return "openml.arff"


def sqlite():
    """A table of a database with another one."""
    with sqlite3.connect("results.db") as database:
        database.execute("CREATE TABLE runs (id INTEGER, name TEXT)")
        database.execute(
            "CREATE TABLE predictions (id INTEGER, cat REAL, dog REAL, fox REAL,"
            " species TEXT, note TEXT)"
        )
        for i, p in enumerate(P):
            values = (i, *p.tolist(), SPECIES[i], None)
            database.execute(
                "INSERT INTO predictions VALUES (?, ?, ?, ?, ?, ?)", values
            )
    database.close()
    return "results.db:predictions"


def vector(values):
    """A dense vector of Spark ML, as toJSON() writes it."""
    return {"type": 1, "values": values.tolist()}


def spark_json():
    """model.transform(test).toJSON()."""
    rows = []
    for z, p, y in zip(Z, P, Y, strict=True):
        columns = {"label": float(y), "rawPrediction": vector(z)}
        columns |= {"probability": vector(p), "prediction": float(p.argmax())}
        rows.append(columns)
    return lines("spark.json", rows)


def spark_parquet():
    """model.transform(test).write.parquet(...): dense and sparse vectors."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    fields = [("type", pa.int8()), ("size", pa.int32())]
    fields += [
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
    ]
    dense = {"type": 1, "size": None, "indices": None}
    cells = [{**dense, "values": p.tolist()} for p in P]
    cells[0] |= {"type": 0, "size": 3, "indices": [0, 1, 2]}
    table = {
        "probability": pa.array(cells, pa.struct(fields)),
        "label": Y.astype(float),
    }
    parquet.write_table(pa.table(table), "spark.parquet")
    return "spark.parquet"


def arrow_map():
    """A column of the type map, as DuckDB and Spark write it."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    cells = [list(zip(NAMES, p.tolist(), strict=True)) for p in P]
    maps = pa.array(cells, pa.map_(pa.string(), pa.float64()))
    parquet.write_table(pa.table({"p": maps, "species": SPECIES}), "map.parquet")
    return "map.parquet"


def comprehend():
    """Amazon Comprehend's custom classification, beside the labels."""
    rows = []
    for i, p in enumerate(P):
        order = np.argsort(-p)
        classes = [{"Name": NAMES[k], "Score": float(p[k])} for k in order]
        row = {"File": "docs.csv", "Line": str(i), "Classes": classes}
        rows.append({**row, "label": SPECIES[i]})
    return lines("comprehend.jsonl", rows)


def watson():
    """Watson's classes of a text, beside the expected ones."""
    rows = []
    for i, p in enumerate(P):
        order = np.argsort(-p)
        classes = [{"class_name": NAMES[k], "confidence": float(p[k])} for k in order]
        row = {"text": f"t {i}", "top_class": PREDICTED[i], "classes": classes}
        rows.append({**row, "expected": SPECIES[i]})
    return lines("watson.jsonl", rows)


def automl_text():
    """Annotations of AutoML's text classification."""
    rows = []
    for i, p in enumerate(P):
        annotations = [
            {
                "annotationSpecId": str(100 + k),
                "classification": {"score": float(p[k])},
                "displayName": NAMES[k],
            }
            for k in np.argsort(-p)
        ]
        rows.append({"annotations": annotations, "label": SPECIES[i]})
    return lines("automl.jsonl", rows)


def autopilot():
    """Batch transform of SageMaker Autopilot: lists of classes and of their scores."""
    columns = {"species": SPECIES, "predicted_label": PREDICTED}
    columns["probability"] = P.max(axis=1)
    columns["probabilities"] = [f'"{p.tolist()}"' for p in P]
    columns["labels"] = [f'"{NAMES}"'] * N
    return table("autopilot.csv", columns)


def snowflake():
    """Snowflake's ML classification: an object in a cell."""
    cells = []
    for predicted, p in zip(PREDICTED, P, strict=True):
        probability = dict(zip(NAMES, p.tolist(), strict=True))
        cell = {"class": predicted, "logs": None, "probability": probability}
        cells.append('"' + json.dumps(cell).replace('"', '""') + '"')
    return table("snowflake.csv", {"SPECIES": SPECIES, "PREDICTION": cells})


def ludwig():
    """Ludwig's predictions: a list, its parts by class, and the largest."""
    columns = {"species_predictions": PREDICTED}
    columns["species_probabilities"] = [f'"{p.tolist()}"' for p in P]
    columns |= scores("species_probabilities_{}")
    columns["species_probability"] = P.max(axis=1)
    return table("ludwig.csv", {**columns, "species": SPECIES})


def pycaret():
    """predict_model(model, raw_score=True)."""
    columns = {"age": AGE, "species": SPECIES, "prediction_label": PREDICTED}
    return table("pycaret.csv", {**columns, **scores("prediction_score_{}")})


def pytorch_tabular():
    """predict() of PyTorch Tabular: each column ends in the word."""
    columns = {"species": SPECIES, **scores("{}_probability")}
    return table("tabular.csv", {**columns, "prediction": PREDICTED})


def sas_logistic():
    """OUT= of PROC LOGISTIC: the label stands twice."""
    columns = {"species": SPECIES, "_FROM_": SPECIES, "_INTO_": PREDICTED}
    return table("sas.csv", {**columns, **scores("IP_{}")})


def stata():
    """predict p1 p2 p3 after mlogit: labels and columns count from 1."""
    columns = {"species": Y + 1, "age": AGE}
    columns |= {f"p{k + 1}": P[:, k] for k in range(3)}
    return table("stata.csv", columns)


def matlab_table():
    """writetable of a table with the outputs of predict: columns that only count."""
    columns = {"Species": SPECIES, "predictedLabel": PREDICTED}
    columns |= {f"score_{k + 1}": P[:, k] for k in range(3)}
    return table("matlab.csv", columns)


def orange():
    """Save Data of Orange, behind its Predictions: names, types and roles in three lines."""
    columns = {"width": AGE, "species": SPECIES, **scores("Tree ({})")}
    columns |= {"Tree": PREDICTED, "Fold": [1] * N}
    types = ["continuous", " ".join(NAMES), *["continuous"] * 3, "discrete", "c"]
    roles = ["", "class", *["meta"] * 5]
    header = ["\t".join(cells) for cells in (columns, types, roles)]
    table("orange.tab", columns, "\t")
    _, *below = Path("orange.tab").read_text().splitlines()
    Path("orange.tab").write_text("\n".join([*header, *below]) + "\n")
    return "orange.tab"


def spss():
    """What NOMREG saves: categories count from 1."""
    columns = {"id": range(1, N + 1), "species": Y + 1}
    columns |= {f"EST{k + 1}_1": P[:, k] for k in range(3)}
    columns |= {"PRE_1": P.argmax(axis=1) + 1, "PCP_1": P.max(axis=1)}
    return table("spss.csv", {**columns, "ACP_1": P[np.arange(N), Y]})


def tsml():
    """A result file of aeon: problem, parameters and totals in three lines."""
    above = ["Problem,ROCKET,TEST,0,MILLISECONDS,made by aeon", '{"n": 10}']
    above.append(f"{(P.argmax(axis=1) == Y).mean()},1000,200,-1,-1,3,,-1,-1")
    rows = []
    for i, p in enumerate(P):
        rows.append(f"{Y[i]},{p.argmax()},,{','.join(map(repr, p.tolist()))},,12,note")
    Path("testResample0.csv").write_text("\n".join([*above, *rows]) + "\n")
    return "testResample0.csv"


def mallet():
    """train-classifier --report test:raw, which prints the surest label first."""
    rows = ["Trial 0 Trainer MaxEntTrainer", " Raw Testing Data"]
    for i, p in enumerate(P.tolist()):
        order = np.argsort(-P[i])
        pairs = " ".join(f"{NAMES[k]}:{p[k]!r}" for k in order)
        rows.append(f"file:/texts/{i}.txt {SPECIES[i]} {pairs} ")
    rows.append("Trial 0 Trainer MaxEntTrainer test data accuracy = 0.8")
    Path("raw.txt").write_text("\n".join(rows) + "\n")
    return "raw.txt"


def vowpal_wabbit():
    """paste -d' ' truth.txt <(vw --oaa 3 --probabilities -p /dev/stdout)."""
    rows = []
    for i, p in enumerate(P.tolist()):
        pairs = " ".join(f"{k + 1}:{p[k]!r}" for k in range(3))
        rows.append(f"{Y[i] + 1} {pairs} row{i}")
    Path("vw.txt").write_text("\n".join(rows) + "\n")
    return "vw.txt"


def kserve_response(places):
    """Response of protocol V2 for some rows: flat tensors with their shapes."""
    p = P[places]
    guess = {"name": "label", "shape": [len(p)], "datatype": "INT64"}
    probs = {"name": "probabilities", "shape": [len(p), 3], "datatype": "FP64"}
    guess["data"] = p.argmax(axis=1).tolist()
    probs["data"] = p.ravel().tolist()
    return {"model_name": "m", "model_version": "1", "outputs": [guess, probs]}


def kserve():
    """A response per row, beside its label; the model's own label is a prediction."""
    rows = []
    for i in range(N):
        rows.append({"target": int(Y[i]), "response": kserve_response([i])})
    return lines("kserve.jsonl", rows)


EXPORTS = [
    *(orange, spss, tsml, mallet, vowpal_wabbit, kserve),
    *(weka_text, weka_attributes, weka_text_attributes),
    matlab_table,
    *(h2o, knime, caret, tidymodels, azure, datarobot, autogluon, bigquery, vertex),
    *(vertex_image, spacy, tf_serving, weka, fasttext, matlab, matlab_7_3, openml),
    *(sqlite, spark_json, spark_parquet, arrow_map, comprehend, watson, automl_text),
    *(autopilot, snowflake, ludwig, pycaret, pytorch_tabular, sas_logistic, stata),
]


IN_OTHER_TESTS = {
    *("arrow", "hdf5", "json-table", "npy", "npz", "pickle", "pt", "safetensors"),
    *("fiftyone", "fiftyone-labels"),
    *("helm", "helm-letters", "helm-stats", "inspect", "openai"),  # tests/fuzz too
    *("lighteval", "lm-eval", "lm-eval-write-out"),
}
"""Formats whose files stand in other tests."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("write", EXPORTS, ids=lambda write: write.__name__)
def test_an_export_is_read_without_options(write, run):
    name = write()
    done = run("evaluate", name, "--metric", "accuracy", "--metric", "nll", "--json")
    assert done.code == 0, done.err
    (result,) = json.loads(done.out)["results"]
    assert (result["n"], result["n_classes"]) == (N, 3), done.err
    metrics = result["metrics"]
    nll = -np.log(P[np.arange(N), Y]).mean()
    assert metrics["accuracy"]["value"] == (P.argmax(axis=1) == Y).mean(), done.err
    # probabilities that were divided by their sum differ in the last digits
    assert metrics["nll"]["value"] == pytest.approx(nll, rel=1e-9), done.err
    made = run("extract", name, "-o", "made.h5")
    assert made.code == 0 and "probs" in made.err.splitlines()[0], made.err
    scores, _, others = made.err.splitlines()[0].partition("probs")
    assert scores.startswith("Read ") and "pred" not in others, made.err


def cut(data):
    return data[: len(data) * 6 // 10]


def doubled_point(data):
    """A number in the middle that is none: 0..7 for 0.7."""
    place = data.find(b"0.", len(data) // 2)
    return data[:place] + b"0.." + data[place + 2 :]


def word_for_number(data):
    place = data.find(b"0.", len(data) // 2)
    return data[:place] + b"x" + data[place + 1 :]


@pytest.mark.parametrize("damage", [cut, doubled_point, word_for_number])
@pytest.mark.parametrize("write", EXPORTS, ids=lambda write: write.__name__)
def test_a_damaged_export_is_read_or_refused_in_one_line(write, damage, run):
    name = write()
    path = Path(name.partition(":")[0])  # a table of a database
    path.write_bytes(damage(path.read_bytes()))
    done = run("evaluate", name, "--metric", "accuracy", "--json", "-q")
    assert done.code in (0, 2, 3), done.err
    if done.code:
        assert len(done.err.splitlines()) == 1, done.err


def test_every_format_has_a_file_in_the_tests():
    tested = set(IN_OTHER_TESTS)
    for write in EXPORTS:
        tested.add(recognise(SourceFile(Path(write()))).name)
    assert tested == {format.name for format in formats()}, "a writer in EXPORTS"


PATTERNS = [
    *("{}", "p{}", "P (class={})", ".pred_{}", "species_{}_PREDICTION"),
    *('"Scored Probabilities for Class ""{}"""', "prediction_score_{}"),
]
OTHER_NAMES = {
    "from 1": ["1", "2", "3"],
    "gaps": ["2", "10", "30"],
    "signs": ["-1", "0", "1"],
    "numbered words": ["k2", "k10", "k3"],
    "words with numbers": ["class 1", "class 10", "class 2"],
}


@pytest.mark.parametrize("names", OTHER_NAMES.values(), ids=list(OTHER_NAMES))
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=["sorted", "other"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_numbers_in_the_names_of_columns_name_the_classes(run, pattern, order, names):
    """In any order, with and without a column of predictions."""
    columns = {pattern.format(names[k]): P[:, k] for k in order}
    columns |= {"fold": [i % 3 for i in range(N)], "species": [names[y] for y in Y]}
    for name in ("without.csv", "with.csv"):
        table(name, columns)
        done = run(
            "evaluate", name, "--metric", "accuracy", "--metric", "nll", "--json"
        )
        assert done.code == 0, done.err
        metrics = json.loads(done.out)["results"][0]["metrics"]
        nll = -np.log(P[np.arange(N), Y]).mean()
        assert metrics["accuracy"]["value"] == (P.argmax(axis=1) == Y).mean()
        assert metrics["nll"]["value"] == pytest.approx(nll, rel=1e-9)
        columns["predicted"] = [names[k] for k in P.argmax(axis=1)]


def test_arff_with_quotes_and_other_alphabets(run):
    """Names in quotes, escapes and signs that are not ASCII; SciPy's reader has none."""
    names = ['it\'s a "cat"', "Füchse, zwei", "犬 {1}"]
    quoted = ["'it\\'s a \"cat\"'", '"Füchse, zwei"', "'犬 {1}'"]
    head = ["% a comment", "@RELATION r", "@ATTRIBUTE repeat NUMERIC"]
    for name in quoted:
        head.append(f"@attribute {name[0]}confidence.{name[1:]} real")
    kinds = "{" + ",".join(quoted) + "}"
    head += [f"@ATTRIBUTE prediction {kinds}", f"@ATTRIBUTE correct {kinds}"]
    rows = []
    for p, y in zip(P, Y, strict=True):
        cells = ", ".join(map(str, p))
        rows.append(f"0, {cells}, {quoted[p.argmax()]}, {quoted[y]}")
    Path("quoted.arff").write_text("\n".join([*head, "@DATA", *rows]), "utf-8")
    done = run("evaluate", "quoted.arff", "--per-class", "--metric", "nll", "--json")
    assert done.code == 0, done.err
    (result,) = json.loads(done.out)["results"]
    nll = -np.log(P[np.arange(N), Y]).mean()
    assert result["metrics"]["nll"]["value"] == pytest.approx(nll, rel=1e-9)
    assert {line["name"] for line in result["per_class"]} == set(names)


def test_a_broken_row_of_arff_is_named(run):
    head = "@relation r\n@attribute p real\n@attribute y {a,b}\n@data\n"
    Path("cells.arff").write_text(head + "0.5,a\n0.5\n")
    refused = run("evaluate", "cells.arff")
    assert refused.code == 3 and "line 6 has 1 cells, expected 2" in refused.line
    Path("sparse.arff").write_text(head + "{0 0.5}\n")
    refused = run("evaluate", "sparse.arff")
    assert refused.code == 3 and "line 5 is a sparse row" in refused.line


def test_many_numbered_classes_in_the_order_of_words_keep_their_names(run):
    """k0, k1, k10, …: the columns were put in the order of numbers, their names not."""
    rng = np.random.default_rng(8)
    z = rng.normal(size=(N, 30)) * 2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    columns = {}
    for name in sorted(f"k{k}" for k in range(30)):
        columns[name] = p[:, int(name[1:])]
    table("many.csv", {**columns, "species": [f"k{k}" for k in y]})
    done = run("evaluate", "many.csv", "--metric", "accuracy", "--json")
    assert done.code == 0, done.err
    accuracy = json.loads(done.out)["results"][0]["metrics"]["accuracy"]["value"]
    assert accuracy == (p.argmax(axis=1) == y).mean()


def test_a_confidence_of_weka_is_read_without_options(run):
    """Without the distribution only that of the predicted class is printed."""
    rows = ["inst#,actual,predicted,error,prediction"]
    best = P.argmax(axis=1)
    for i, k in enumerate(best):
        error = "+" if k != Y[i] else ""
        guess = f"{k + 1}:{NAMES[k]}"
        rows.append(f"{i + 1},{Y[i] + 1}:{SPECIES[i]},{guess},{error},{P[i, k]}")
    Path("weka.csv").write_text("\n".join(rows) + "\n")
    done = run("evaluate", "weka.csv", "--json")
    assert done.code == 0, done.err
    metrics = json.loads(done.out)["results"][0]["metrics"]
    assert metrics["accuracy"]["value"] == (best == Y).mean()
    assert metrics["mean_confidence"]["value"] == pytest.approx(P.max(axis=1).mean())


def test_weka_writes_a_question_mark_for_a_class_that_is_not_known(run):
    """``1:?`` was read as a class called ?."""
    lines = Path(weka()).read_text().splitlines()
    for n_unknown in (N, 7):
        rows = []
        for number, line in enumerate(lines):
            cells = line.split(",")
            if 3 <= number < 3 + n_unknown:
                cells[1] = "1:?"
            rows.append(",".join(cells))
        Path(f"{n_unknown}.csv").write_text("\n".join(rows) + "\n")
    assert "found no labels for 'probs'" in run("evaluate", f"{N}.csv").err
    assert "column 'labels' is empty in row 0" in run("evaluate", "7.csv").err
    done = run("extract", "7.csv", "--drop-missing", "-o", "made.h5")
    assert done.code == 0, done.err
    done = run("evaluate", "made.h5", "--json")
    (result,) = json.loads(done.out)["results"]
    assert (result["n"], result["n_classes"]) == (N - 7, 3)
    accuracy = (P.argmax(axis=1) == Y)[7:].mean()
    assert result["metrics"]["accuracy"]["value"] == accuracy


# ---- exports without labels, or whose scores are no probabilities


def test_exports_without_labels_take_them_from_a_file(run):
    """MALLET's classify-file, Vowpal Wabbit and a server know no right answers."""
    names = [f"row{i}" for i in range(N)]
    rows = []
    for name, p in zip(names, P.tolist(), strict=True):
        pairs = "\t".join(f"{NAMES[k]}\t{p[k]!r}" for k in range(3))
        rows.append(f"{name}\t{pairs}")
    Path("classified.txt").write_text("\n".join(rows) + "\n")
    rows = []
    for name, p in zip(names, P.tolist(), strict=True):
        rows.append(" ".join(f"{k + 1}:{p[k]!r}" for k in range(3)) + f" {name}")
    Path("tagged.txt").write_text("\n".join(rows) + "\n")
    Path("response.json").write_text(json.dumps(kserve_response(range(N))))
    table("words.csv", {"id": names, "label": SPECIES})
    table("numbers.csv", {"id": names, "label": Y + 1})
    table("places.csv", {"label": Y})
    right = (P.argmax(axis=1) == Y).mean()
    for file, gold in (
        ("classified.txt", "words.csv"),
        ("tagged.txt", "numbers.csv"),
        ("response.json", "places.csv"),
    ):
        refused = run("run", file)
        assert refused.code == 3 and "--gold NEW.csv" in refused.line, refused.line
        made = run("extract", file, "--gold", gold, "-o", f"{file}.h5")
        assert made.code == 0, made.err
        done = run("evaluate", f"{file}.h5", "--metric", "accuracy", "--json")
        metrics = json.loads(done.out)["results"][0]["metrics"]
        assert metrics["accuracy"]["value"] == right


def fiftyone_samples(*, with_logits):
    samples = []
    for i, p in enumerate(P):
        guess = {"_cls": "Classification", "label": PREDICTED[i], "tags": []}
        guess["confidence"] = float(p.max())
        if with_logits:
            buffer = io.BytesIO()
            np.save(buffer, np.log(p))
            packed = base64.b64encode(zlib.compress(buffer.getvalue())).decode()
            guess["logits"] = {"$binary": {"base64": packed, "subType": "00"}}
        right = {"_cls": "Classification", "label": SPECIES[i], "tags": []}
        place = {"filepath": f"data/{i}.jpg", "tags": ["validation"]}
        samples.append({**place, "ground_truth": right, "predictions": guess})
    Path("samples.json").write_text(json.dumps({"samples": samples}))
    return samples


@pytest.mark.parametrize("with_logits", [True, False])
def test_samples_of_fiftyone_are_read_without_options(run, with_logits):
    fiftyone_samples(with_logits=with_logits)
    done = run("evaluate", "samples.json", "--json")
    assert done.code == 0, done.err
    metrics = json.loads(done.out)["results"][0]["metrics"]
    assert metrics["accuracy"]["value"] == (P.argmax(axis=1) == Y).mean()
    sure = P.max(axis=1).mean()
    assert metrics["mean_confidence"]["value"] == pytest.approx(sure, rel=1e-12)


def test_classes_that_fiftyone_never_predicts_are_named_by_its_metadata(run):
    samples = fiftyone_samples(with_logits=True)
    few = [row for row in samples if row["predictions"]["label"] != "fox"]
    Path("samples.json").write_text(json.dumps({"samples": few}))
    refused = run("evaluate", "samples.json")
    assert (
        refused.code == 3 and "name 2 of 3 classes; put metadata.json" in refused.line
    )
    Path("metadata.json").write_text(json.dumps({"default_classes": NAMES}))
    assert run("evaluate", "samples.json", "-q").code == 0


@pytest.mark.parametrize("logits", [[], "many", 5])
def test_logits_of_fiftyone_that_are_no_list_are_shown(run, logits):
    samples = fiftyone_samples(with_logits=False)
    for row in samples:
        row["predictions"]["logits"] = logits
    Path("samples.json").write_text(json.dumps({"samples": samples}))
    refused = run("evaluate", "samples.json")
    assert refused.code == 3
    assert f"logits are {json.dumps(logits)}, expected a list" in refused.line


def test_logits_of_fiftyone_that_are_null_are_none(run):
    samples = fiftyone_samples(with_logits=False)
    for row in samples:
        row["predictions"]["logits"] = None
    Path("samples.json").write_text(json.dumps({"samples": samples}))
    assert run("evaluate", "samples.json", "-q").code == 0


def fiftyone_labels(path, names, confidences=None, *, by_place=False):
    """Labels that FiftyOne exports alone, by the image's name."""
    labels = {}
    for i, name in enumerate(names):
        labels[f"image {i}"] = NAMES.index(name) if by_place else name
        if confidences is not None:
            labels[f"image {i}"] = {"label": name, "confidence": confidences[i]}
    Path(path).write_text(json.dumps({"classes": NAMES, "labels": labels}))


@pytest.mark.parametrize("by_place", [False, True])
def test_predictions_and_truth_that_fiftyone_exports_alone(run, by_place):
    fiftyone_labels("labels.json", PREDICTED, P.max(axis=1).tolist())
    fiftyone_labels("truth.json", SPECIES, by_place=by_place)
    refused = run("extract", "labels.json", "--gold", "truth.json", "-o", "made.h5")
    assert refused.code == 3
    assert "--correct predicted_label=gold" in refused.line, refused.line
    words = refused.line.partition("to try: calcli ")[2]
    made = run(*shlex.split(words))
    assert made.code == 0, made.err
    done = run("evaluate", "made.h5", "--metric", "accuracy", "--json")
    metrics = json.loads(done.out)["results"][0]["metrics"]
    assert metrics["accuracy"]["value"] == (P.argmax(axis=1) == Y).mean()


def test_a_place_that_fiftyone_has_no_class_for_is_named(run):
    fiftyone_labels("labels.json", SPECIES, by_place=True)
    whole = json.loads(Path("labels.json").read_text())
    whole["labels"]["image 3"] = 7
    Path("labels.json").write_text(json.dumps(whole))
    refused = run("evaluate", "labels.json")
    assert refused.code == 3
    assert "image 3: label 7 is no place in its list of classes" in refused.line


@pytest.mark.parametrize("is_proven", [True, False])
def test_words_that_kserve_predicts_name_the_classes(run, is_proven):
    response = kserve_response(range(N))
    words = list(PREDICTED)
    if not is_proven:
        words[0] = next(name for name in NAMES if name != words[0])
    response["outputs"][0] |= {"datatype": "BYTES", "data": words}
    Path("response.json").write_text(json.dumps(response))
    table("gold.csv", {"label": SPECIES})
    made = run("extract", "response.json", "--gold", "gold.csv", "-o", "made.h5")
    if not is_proven:
        assert made.code == 3 and "has no class_names" in made.line
        return
    assert made.code == 0, made.err
    done = run("evaluate", "made.h5", "--metric", "accuracy", "--json")
    metrics = json.loads(done.out)["results"][0]["metrics"]
    assert metrics["accuracy"]["value"] == (P.argmax(axis=1) == Y).mean()


def test_fiftyone_with_two_models_asks_for_one(run):
    samples = fiftyone_samples(with_logits=False)
    for row in samples:
        row["other"] = row["predictions"]
    Path("samples.json").write_text(json.dumps({"samples": samples}))
    refused = run("evaluate", "samples.json")
    assert (
        refused.code == 3 and "has predictions, other with confidences" in refused.line
    )


def test_training_and_test_rows_of_a_report_of_mallet_stay_apart(run):
    mallet()
    below = Path("raw.txt").read_text()
    above = below.replace("Testing", "Training").replace("/texts/", "/others/")
    Path("raw.txt").write_text(above + below)
    made = run("extract", "raw.txt", "-o", "both.h5")
    assert made.code == 0, made.err
    with h5py.File("both.h5") as file:
        assert sorted(file) == ["test", "train"]


BROKEN = {
    "orange.tab": (orange, "row 13 of the file has 1 cells, expected 7"),
    "testResample0.csv": (tsml, "line 13: expected class, predicted class"),
    "vw.txt": (vowpal_wabbit, "line 10: expected classes with probabilities"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_line_of_an_export_is_named(run, name):
    write, message = BROKEN[name]
    write()
    rows = Path(name).read_text().splitlines()
    rows[-N + 9] = "broken"
    Path(name).write_text("\n".join(rows) + "\n")
    refused = run("evaluate", name)
    assert refused.code == 3 and message in refused.line, refused.line


@pytest.mark.parametrize("tool", ["mallet", "fasttext"])
def test_a_label_that_stands_twice_in_a_line_is_refused(run, tool):
    """One of its two scores would be lost; the line is numbered as in the file."""
    rows = [["row", "cat", "0.75", "dog", "0.25"]] * N
    rows[6] = ["row", "cat", "0.5", "cat", "0.5"]
    lines = ["\t".join(row) for row in rows]
    if tool == "fasttext":
        lines = [f"__label__{a} {p} __label__{b} {q}" for _, a, p, b, q in rows]
    Path("lines.txt").write_text("\n\n".join(lines) + "\n")
    refused = run("evaluate", "lines.txt")
    assert refused.code == 3 and "line 13: expected" in refused.line, refused.line
    assert "pairs of a label" in refused.line


def test_an_empty_line_of_parameters_is_above_the_rows_of_tsml(run):
    tsml()
    above, _, below = Path("testResample0.csv").read_text().split("\n", 2)
    Path("testResample0.csv").write_text(f"{above}\n\n{below}")
    done = run("evaluate", "testResample0.csv", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["results"][0]["n"] == N


def test_features_of_libsvm_are_no_probabilities(run):
    """``1 1:0.3 2:0.9`` is a label with features."""
    rows = [f"{Y[i] + 1} 1:{z[0]} 2:{z[1]} 3:{z[2]}" for i, z in enumerate(Z)]
    Path("data.txt").write_text("\n".join(rows) + "\n")
    refused = run("evaluate", "data.txt")
    assert refused.code == 3 and "holds no array named logits" in refused.line


def test_features_of_libsvm_that_sum_to_1_once_are_no_probabilities(run):
    rows = [f"{Y[i] + 1} 1:{z[0]} 2:{z[1]} 3:{z[2]}" for i, z in enumerate(Z)]
    Path("data.txt").write_text("\n".join(["1 1:0.5 2:0.25 3:0.25", *rows]) + "\n")
    refused = run("evaluate", "data.txt")
    assert refused.code == 3 and "holds no array named logits" in refused.line


@pytest.mark.parametrize("letters", ["CD", "cd"])
def test_rows_of_answers_are_no_header_of_orange(run, letters):
    """C, D and c, d: types and roles of Orange are such letters."""
    right, wrong = letters
    columns = {"gold": [right] * 20, "vote_1": [right] * 20}
    columns |= {"vote_2": [wrong, right] * 10, "vote_3": [right, right] * 10}
    table("votes.tsv", columns, "\t")
    words = ("--votes", "vote", "--labels", "gold", "-o", "votes.h5")
    done = run("extract", "votes.tsv", *words)
    assert done.code == 0 and "votes.h5: 20 rows" in done.err, done.err


def test_columns_of_spss_are_found_by_their_own_names(run):
    columns = {"species": Y}
    columns |= {f"EST{k + 1}_1": P[:, k] for k in range(3)}
    table("spss.csv", {**columns, "PRE_1": P.argmax(axis=1)})
    names = ("--scores", "EST1_1,EST2_1,EST3_1", "--labels", "species")
    done = run("evaluate", "spss.csv", *names, "--metric", "accuracy", "--json")
    assert done.code == 0, done.err
    metrics = json.loads(done.out)["results"][0]["metrics"]
    assert metrics["accuracy"]["value"] == (P.argmax(axis=1) == Y).mean()


def test_tensors_that_do_not_fit_their_shape_are_named(run):
    response = kserve_response(range(N))
    response["outputs"][1]["shape"] = [N, 4]
    Path("response.json").write_text(json.dumps(response))
    refused = run("evaluate", "response.json")
    message = f"output 'probabilities' has {3 * N} values for shape [{N}, 4]"
    assert refused.code == 3 and message in refused.line


def test_two_tensors_of_one_name_are_refused(run):
    response = kserve_response(range(N))
    response["outputs"].append(response["outputs"][1])
    Path("response.json").write_text(json.dumps(response))
    refused = run("evaluate", "response.json")
    assert refused.code == 3
    assert "two outputs are named 'probabilities'" in refused.line


def test_probabilities_of_0_and_1_are_called_bare_predictions(run):
    """Lightning-AI/torchmetrics 1646: 1, 1, 1, 1, 0 beside 0, 0, 1, 1, 1. Without a
    point they were refused for their type."""
    Path("bare.csv").write_text("p,y\n1,0\n1,0\n1,1\n1,1\n0,1\n")
    words = ("--scores", "p", "--labels", "y", "--kind", "probs")
    refused = run("evaluate", "bare.csv", *words)
    assert refused.code == 3
    assert "every row is a bare prediction" in refused.line


# two classes: H2O's threshold is that of the best F1, so that its prediction is not the
# class of the larger probability
Q = 1 / (1 + np.exp(Z[:, 0] - Z[:, 1]))
CHURN = (RNG.random(N) < Q).astype(int)
WORDS = [("no", "yes")[y] for y in CHURN]


@pytest.mark.parametrize(
    "columns",
    [
        {"churn": CHURN, "predict": (Q > 0.3).astype(int), "p0": 1 - Q, "p1": Q},
        {
            "churn": WORDS,
            "predict": [("no", "yes")[int(q > 0.3)] for q in Q],
            "no": 1 - Q,
            "yes": Q,
        },
        {
            ".pred_class": [("no", "yes")[int(q > 0.5)] for q in Q],
            ".pred_no": 1 - Q,
            ".pred_yes": Q,
            "tenure": AGE,
            "churn": WORDS,
        },
    ],
    ids=["h2o numbers", "h2o words", "tidymodels"],
)
def test_exports_of_two_classes(run, columns):
    table("two.csv", columns)
    done = run("evaluate", "two.csv", "--metric", "nll", "--json")
    assert done.code == 0, done.err
    value = json.loads(done.out)["results"][0]["metrics"]["nll"]["value"]
    expected = -np.log(np.where(CHURN == 1, Q, 1 - Q)).mean()
    assert value == pytest.approx(expected, rel=1e-9), done.err


def test_a_database_with_several_tables_lists_them(run):
    sqlite()
    refused = run("evaluate", "results.db")
    assert refused.code == 2
    assert "has the tables predictions, runs; name one: FILE.db:TABLE" in refused.line
    unknown = run("evaluate", "results.db:none")
    assert (
        unknown.code == 2
        and "has no table 'none', but predictions, runs" in unknown.line
    )


def test_an_empty_cell_of_a_column_that_is_not_used_is_no_fault(run):
    """Weka's error column, and any other, stopped the import."""
    notes = ["" if i % 3 else "late" for i in range(N)]
    ages = ["" if i == 7 else AGE[i] for i in range(N)]
    columns = {**scores("{}"), "species": SPECIES, "note": notes, "age": ages}
    table("gaps.csv", {**columns, "nothing": [""] * N})
    assert run("evaluate", "gaps.csv", "-q").code == 0


def test_lists_of_different_lengths_beside_no_scores_end_in_one_line(run):
    """A tensor's name, shape and data, as KServe answers, took all memory there was."""
    outputs = [
        {"name": "probs", "shape": [N, 3], "data": P.ravel().tolist()},
        {"name": "labels", "shape": [N], "data": Y.tolist()},
    ]
    Path("kserve.json").write_text(json.dumps({"outputs": outputs}))
    refused = run("evaluate", "kserve.json")
    assert refused.code == 3 and "it has name (ids?), shape, data" in refused.line


def test_an_answer_named_label_beside_the_gold_is_the_prediction(run):
    """``label`` is what a pipeline of transformers answers; both names mean labels."""
    table("both.csv", {"label": PREDICTED, **scores("{}"), "gold": SPECIES})
    done = run("evaluate", "both.csv", "--metric", "accuracy", "--json")
    assert done.code == 0, done.err
    accuracy = json.loads(done.out)["results"][0]["metrics"]["accuracy"]["value"]
    assert accuracy == (P.argmax(axis=1) == Y).mean()
    table("same.csv", {"label": PREDICTED, **scores("{}"), "gold": PREDICTED})
    assert "could all be labels" in run("evaluate", "same.csv").line


def test_labels_in_words_beside_their_numbers_are_the_labels(run):
    """``label_idx`` and ``label_name`` say the same of every row, ``label_b`` does not."""
    truth = (P.argmax(axis=1) == Y).mean()
    numbers = {"label_idx": list(map(int, Y)), "label_name": SPECIES}
    table("both.csv", {**numbers, **scores("{}"), "pred_idx": [0] * N})
    done = run("evaluate", "both.csv", "--metric", "accuracy", "--json")
    assert done.code == 0, done.err
    accuracy = json.loads(done.out)["results"][0]["metrics"]["accuracy"]["value"]
    assert accuracy == truth
    other = [NAMES[(k + 1) % 3] if i < 9 else NAMES[k] for i, k in enumerate(Y)]
    table("raters.csv", {"label_a": SPECIES, "label_b": other, **scores("{}")})
    assert run("evaluate", "raters.csv").code != 0


def test_a_model_that_is_right_in_every_row_keeps_its_labels(run):
    """Beside a labelling that has nothing to do with the scores, nothing is decided."""
    fine = [NAMES[k] for k in P.argmax(axis=1)]
    coarse = [NAMES[i % 2] for i in range(N)]
    table("two.csv", {"label": fine, **scores("{}"), "target": coarse})
    assert "could all be labels" in run("evaluate", "two.csv").line


def test_maps_with_numbers_as_keys_are_read(run):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    cells = [list(enumerate(p.tolist())) for p in P]
    maps = pa.array(cells, pa.map_(pa.int32(), pa.float64()))
    parquet.write_table(pa.table({"probs": maps, "label": Y}), "map.parquet")
    assert run("evaluate", "map.parquet").code == 0


@pytest.mark.parametrize("length", [-1, 3])
def test_a_row_without_a_vector_is_left_out_on_request(run, length):
    """length : of the lists, -1 where the type does not fix it."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    of_floats = pa.list_(pa.float64(), length)
    lists = pa.array([None, *(p.tolist() for p in P[1:])], of_floats)
    parquet.write_table(pa.table({"probs": lists, "label": Y}), "gap.parquet")
    refused = run("evaluate", "gap.parquet")
    assert refused.code == 3
    command = refused.line.partition("to try: ")[2].split()
    done = run(*command[1:])
    assert done.code == 0
    assert f"1 of {N} rows left out" in done.err


def test_a_row_without_a_list_of_words_is_named(run):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    words = pa.array([["a"], None, *[["b"]] * (N - 2)])
    parquet.write_table(pa.table({"probs": list(P), "words": words}), "gap.parquet")
    refused = run("evaluate", "gap.parquet", "--labels", "words")
    assert refused.code == 3 and "column 'words' is empty in row 1" in refused.line


def test_an_empty_cell_among_printed_objects_is_left_out_on_request(run):
    printed = [json.dumps(dict(zip(NAMES, p.tolist(), strict=True))) for p in P]
    printed[7] = ""
    cells = ['"{}"'.format(cell.replace('"', '""')) for cell in printed]
    table("gap.csv", {"probs": cells, "label": SPECIES})
    refused = run("evaluate", "gap.csv")
    command = refused.line.partition("to try: ")[2].split()
    done = run(*command[1:])
    assert done.code == 0, done.err
    assert f"1 of {N} rows left out" in done.err


def test_a_column_of_printed_objects_that_an_option_names_stays(run):
    meta = [f'"{{""site"": ""{site}""}}"' for site in SITE]
    table("meta.csv", {**scores("p_{}"), "label": SPECIES, "meta": meta})
    done = run("evaluate", "meta.csv", "--group-by", "meta", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["results"][0]["report"]["groups"]["n_groups"] == 2


def test_the_first_rank_is_the_column_that_ends_in_its_number():
    from calcli.importers.proposing.ranked_scores import _options_of_first

    parts = ["p1", "p2"]
    names = ["top", *parts, "top1", "top2", "gold"]
    assert _options_of_first(parts, names, "gold") == (
        "--confidence p1 --correct top1=gold"
    )


@pytest.mark.parametrize("with_logits", [True, False])
def test_samples_of_fiftyone_without_a_truth_take_it_from_another_file(
    run, with_logits
):
    """The refusal says which command does so; the user writes the labels."""
    samples = fiftyone_samples(with_logits=with_logits)
    for sample in samples:
        del sample["ground_truth"]
    Path("samples.json").write_text(json.dumps({"samples": samples}))
    rows = [f"data/{i}.jpg,{SPECIES[i]}" for i in range(N)]
    Path("NEW.csv").write_text("\n".join(["id,label", *rows]) + "\n")
    done = run("evaluate", "samples.json")
    assert done.code == 3, done.err
    command = re.search(r"calcli (extract .*? -o [^;\s]+)", done.err)
    made = run(*shlex.split(command[1]))
    assert made.code == 0, made.err
    done = run("evaluate", "samples.h5", "--metric", "accuracy", "--json")
    metrics = json.loads(done.out)["results"][0]["metrics"]
    assert metrics["accuracy"]["value"] == (P.argmax(axis=1) == Y).mean()
