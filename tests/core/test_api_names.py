"""Groups and units from Python, of whatever type: one result, or one DataError."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import calcli
from calcli.errors import DataError, UsageError

N = 120
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, N)
Z = 2.0 * np.eye(3)[Y] + 1.5 * RNG.normal(size=(N, 3))
CODE = np.arange(N) % 3 + 9  # 9, 10, 11: in another order as words
pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")


def evaluated(**names):
    """The JSON of an evaluation, quick."""
    return calcli.evaluate(Z, Y, resamples=50, metrics=["nll"], **names).to_dict()


SAME = {
    "list": lambda: CODE.tolist(),
    "tuple": lambda: tuple(CODE.tolist()),
    "int8": lambda: CODE.astype(np.int8),
    "uint64": lambda: CODE.astype(np.uint64),
    "floats": lambda: CODE.astype(float),
    "texts": lambda: [str(code) for code in CODE],
    "texts of floats": lambda: [f"{code}.0" for code in CODE],
    "objects": lambda: CODE.astype(object),
    "decimals": lambda: [Decimal(int(code)) for code in CODE],
    "bytes": lambda: np.array([str(code).encode() for code in CODE]),
    "generator": lambda: (int(code) for code in CODE),
    "range": lambda: CODE.tolist().__iter__(),
}


@pytest.mark.parametrize("kind", SAME)
@pytest.mark.parametrize("role", ["units", "groups"])
def test_numbers_of_any_type_are_the_same_names(kind, role):
    expected = calcli.evaluate(Z, Y, resamples=50, **{role: CODE}).to_dict()
    evaluation = calcli.evaluate(Z, Y, resamples=50, **{role: SAME[kind]()}).to_dict()
    assert evaluation == expected


@pytest.mark.parametrize("kind", SAME)
def test_a_calibrator_by_group_knows_numbers_of_any_type(kind):
    sharp = Z * np.where(CODE == 9, 4.0, 0.5)[:, None]
    fitted = calcli.fit(sharp, Y, groups=CODE, guard=False)
    assert list(fitted.params["groups"]) == ["9", "10", "11"]
    expected = fitted.predict_proba(sharp, groups=CODE)
    other = calcli.fit(sharp, Y, groups=SAME[kind](), guard=False)
    assert other.params == fitted.params
    assert np.array_equal(other.predict_proba(sharp, groups=SAME[kind]()), expected)


DAYS = [dt.date(2024, 1, 1 + i % 4) for i in range(N)]
DISTINCT = {
    "beyond 64 bits": [10**30 + i % 4 for i in range(N)],
    "beyond 2^53": [2**53 + i % 4 for i in range(N)],
    "dates": DAYS,
    "datetimes": [dt.datetime(2024, 1, 1, i % 4) for i in range(N)],
    "datetime64": np.array(DAYS, dtype="M8[ns]"),
    "words beside numbers": ["a", 1, 2.0, True] * (N // 4),
}


@pytest.mark.parametrize("kind", DISTINCT)
@pytest.mark.parametrize("role", ["units", "groups"])
def test_names_of_four_kinds_are_four(kind, role):
    evaluation = calcli.evaluate(Z, Y, resamples=50, **{role: DISTINCT[kind]})
    report = evaluation.to_dict()["results"][0]
    if role == "units":
        assert report["units"]["n"] == 4
    fitted = calcli.fit(
        Z * np.where(CODE == 9, 4.0, 0.5)[:, None],
        Y,
        groups=DISTINCT[kind],
        guard=False,
        tau=1.0,
    )
    assert len(fitted.params["groups"]) == 4


MISSING = {
    "None": ["a", None] * (N // 2),
    "NaN": np.where(np.arange(N) % 2, 1.0, np.nan),
    "NaN beside words": ["a", float("nan")] * (N // 2),
    "NaT": np.where(
        np.arange(N) % 2, np.datetime64("2024-01-01"), np.datetime64("NaT")
    ),
    "tuples": [(1, 2)] * N,
    "lists": [["a"]] * N,
    "dicts": [{}] * N,
    "surrogates": ["\ud800"] * N,
    "NUL": ["a\0"] * N,
    "complex": np.full(N, 1j),
    "two columns": np.zeros((N, 2)),
    "too few": ["a", "b"],
    "a number": 3,
    "a word": b"abc",
    "a masked array": np.ma.masked_equal(CODE, 9),
    "floats beyond 2^53": np.full(N, 1e300),
    "infinity": np.full(N, np.inf),
}


@pytest.mark.parametrize("kind", MISSING)
@pytest.mark.parametrize("role", ["units", "groups"])
def test_what_names_no_row_is_one_error(kind, role):
    values = MISSING[kind]
    for call in (
        lambda: calcli.evaluate(Z, Y, resamples=50, **{role: values}),
        lambda: calcli.fit(Z, Y, **{role: values}),
        lambda: calcli.diagram(Z, Y, resamples=50, **{role: values}),
        lambda: calcli.threshold(Z, Y, accuracy=0.5, **{role: values}),
    ):
        with pytest.raises((DataError, UsageError)) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_missing_group_says_its_row():
    with pytest.raises(
        DataError,
        match=r"groups: row 1 is empty, expected the group of the row.*; leave such rows out$",
    ):
        evaluated(groups=MISSING["None"])


PANDAS = {
    "Int64": lambda pd: pd.array(CODE, dtype="Int64"),
    "string": lambda pd: pd.Series([str(code) for code in CODE], dtype="string"),
    "category": lambda pd: pd.Categorical(CODE),
    "object": lambda pd: pd.Series(CODE, dtype=object),
    "floats": lambda pd: pd.Series(CODE.astype(float)),
    "index": lambda pd: pd.Index(CODE),
}


@pytest.mark.parametrize("kind", PANDAS)
@pytest.mark.parametrize("role", ["units", "groups"])
def test_columns_of_pandas_are_the_same_names(kind, role):
    pd = pytest.importorskip("pandas")
    expected = calcli.evaluate(Z, Y, resamples=50, **{role: CODE}).to_dict()
    evaluation = calcli.evaluate(
        Z, Y, resamples=50, **{role: PANDAS[kind](pd)}
    ).to_dict()
    assert evaluation == expected


@pytest.mark.parametrize("role", ["units", "groups"])
def test_missing_values_of_pandas_are_one_error(role):
    pd = pytest.importorskip("pandas")
    for values in (
        pd.array([1, None] * (N // 2), dtype="Int64"),
        pd.Series(["a", None] * (N // 2), dtype="string"),
        pd.Series([1, None] * (N // 2)),
        pd.to_datetime(pd.Series(["2024-01-01", None] * (N // 2))),
        pd.Categorical(["a", None] * (N // 2)),
    ):
        with pytest.raises(DataError, match=r"row 1 is (empty|NaN), expected the"):
            calcli.evaluate(Z, Y, resamples=50, **{role: values})


def test_a_tensor_and_an_arrow_column_are_the_same_names():
    torch = pytest.importorskip("torch")
    pa = pytest.importorskip("pyarrow")
    expected = calcli.evaluate(Z, Y, resamples=50, groups=CODE).to_dict()
    for values in (torch.tensor(CODE), pa.array(CODE), pa.chunked_array([CODE])):
        evaluation = calcli.evaluate(Z, Y, resamples=50, groups=values).to_dict()
        assert evaluation == expected


@pytest.mark.parametrize("path", [None, 3, ["a"]])
def test_what_is_no_path_is_one_error(path, tmp_path):
    fitted = calcli.fit(Z, Y)
    for call in (
        lambda: calcli.watch(Z, Y, state=path),
        lambda: calcli.report(Z, Y, path=path),
        lambda: calcli.export(fitted, path),
        lambda: fitted.save(path),
        lambda: calcli.diagram(Z, Y, resamples=50).save(path),
        lambda: calcli.extract(path if path != ["a"] else [None], tmp_path / "a.h5"),
        lambda: calcli.extract("a.npz", path),
    ):
        with pytest.raises(UsageError, match="expected the path of a file"):
            call()
    assert not list(Path(tmp_path).iterdir())
