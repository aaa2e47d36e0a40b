"""Compositions with + and the choice by auto."""

import dataclasses
import json
import warnings

import msgspec
import numpy as np
import pytest
from synthetic import DEGENERATE, fit, predict, rows_of, truth

from calcli.calibrator import Calibrator, Context, Fit, Laws, Prediction
from calcli.composition import Composition, Stage, composition
from calcli.errors import CalcliError, DataError, UsageError
from calcli.folds import content_folds
from calcli.io.artifact import Artifact, FitRecord, dumps, loads
from calcli.mapped_rows import MappedRows, argmax_at_prediction, mapped
from calcli.methods._auto import candidates as candidates_module
from calcli.methods._auto.candidates import (
    chained,
    default_candidates,
    listed,
    parse_candidate,
    stored_numbers,
)
from calcli.methods._auto.likelihood_weights import likelihood_weights
from calcli.methods._auto.weights import guarded_error, pick, sparse_weights
from calcli.methods.auto import Auto
from calcli.methods.compared.identity import Identity
from calcli.methods.ts import TemperatureScaling
from calcli.numerics import log_softmax
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

NAMES = [
    "ts+hb",
    "ft+beta",
    "vs+hoki",
    "ft+svs+beta",
    "identity+ts",
    "ts+mono",
    "ets+ir",
    "recal+ts",
    "iop+platt",
]


@pytest.fixture(scope="module")
def data():
    z, y = truth(500, 4)
    return z, y, truth(150, 4, seed=5)[0]


@pytest.fixture(scope="module")
def fitted(data):
    return {name: fit(name, rows_of(data[0], data[1])) for name in NAMES}


# ---- what a composition computes


def test_it_is_the_chain_of_its_stages(data):
    z, y, unseen = data
    first = fit("ts", ArrayRows(z, y)).calibrator
    between = ArrayRows(predict(first, ArrayRows(z, None))[0], y, "log_probs")
    second = fit("beta", between).calibrator
    chained = predict(
        second, ArrayRows(predict(first, ArrayRows(unseen, None))[0], None, "log_probs")
    )
    composed = predict(
        fit("ts+beta", ArrayRows(z, y)).calibrator, ArrayRows(unseen, None)
    )
    np.testing.assert_allclose(composed[0], chained[0], atol=1e-14)
    np.testing.assert_array_equal(composed[1], chained[1])


def test_the_identity_as_a_stage_changes_nothing(data):
    z, y, _ = data
    a, b = (fit(name, ArrayRows(z, y)).calibrator for name in ("identity+ts", "ts"))
    assert a.stages[1].calibrator.temperature == pytest.approx(b.temperature, rel=1e-12)


def test_stages_are_exposed_with_names_options_and_calibrators(fitted):
    stages = fitted["ft+svs+beta"].calibrator.stages
    assert [stage[0] for stage in stages] == ["ft", "svs", "beta"]
    assert stages[2].options == parse_options("beta", {"mode": "top"})
    assert isinstance(stages[0].calibrator, method("ft"))
    assert fitted["ft+svs+beta"].details["stages"][0]["method"] == "ft"


@pytest.mark.parametrize("name", NAMES)
def test_laws_of_every_composition(name, fitted, data):
    z, y, unseen = data
    calibrator, laws = fitted[name].calibrator, fitted[name].calibrator.laws
    rows = rows_of(unseen, None)
    log_p, label = predict(calibrator, rows)
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-12)
    in_blocks = predict(calibrator, rows_of(unseen, None, block_rows=7))
    np.testing.assert_allclose(in_blocks[0], log_p, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(in_blocks[1], label)
    if laws.keeps_argmax:
        np.testing.assert_array_equal(label, unseen.argmax(axis=1))
    if laws.monotone:
        np.testing.assert_array_equal(log_p.argmax(axis=1), label)
    if laws.improves_nll:
        before, after = (
            predict(c, rows_of(z, y))[0][np.arange(len(y)), y]
            for c in (Identity(), calibrator)
        )
        assert -after.mean() <= -before.mean() + 1e-9
    again = fit(name, rows_of(z, y)).calibrator
    np.testing.assert_array_equal(predict(again, rows)[0], log_p)


def test_laws_follow_from_those_of_the_stages():
    assert method("ts+ec").laws.keeps_argmax
    # with two classes P(class 1) may cross 1/2
    assert not method("ts+hb").laws.keeps_argmax
    assert not method("vs+hb").laws.keeps_argmax
    assert method("ts+mono").laws.improves_nll
    assert not method("ts+ft").laws.improves_nll
    assert method("ts+iop").laws.shift_invariant  # iop sees normalised rows
    assert not method("iop+ts").laws.shift_invariant
    assert method("recal+ts").laws.needs_transforms
    assert method("ts+hb").laws.memory == "row"
    assert not method("ts+hb").laws.top_label_only


def test_an_upstream_change_of_prediction_is_carried_on(data):
    z, y, unseen = data
    biased = np.where(np.random.default_rng(0).random(500) < 0.4, 0, y)
    rows = ArrayRows(z, biased)
    one, two = (fit(name, rows).calibrator for name in ("vs", "vs+hb"))
    label = predict(one, ArrayRows(unseen, None))[1]
    assert (label != unseen.argmax(axis=1)).any()
    np.testing.assert_array_equal(predict(two, ArrayRows(unseen, None))[1], label)


def test_rounding_ties_do_not_move_a_prediction():
    log_p = np.log([[0.25, 0.25, 0.5], [0.4, 0.4, 0.2], [0.3, 0.4, 0.3]])
    out = argmax_at_prediction(Prediction(log_p, np.array([2, 1, 1])))
    np.testing.assert_array_equal(out.argmax(axis=1), [2, 1, 1])
    np.testing.assert_allclose(out, log_p, rtol=1e-15)
    assert out[1, 1] > log_p[1, 1]
    assert log_p[1, 1] == np.log(0.4)  # the prediction's own array is left alone
    # Two logits one unit in the last place apart: a temperature of 1.7 merges them, later stages may not.
    z = np.array([[1.0, np.nextafter(1.0, 2.0), 0.0]])
    calibrator = composition((("ts", TemperatureScaling), ("ts", TemperatureScaling)))
    stages = tuple(
        Stage("ts", parse_options("ts", {}), TemperatureScaling(t)) for t in (1.7, 3.1)
    )
    assert predict(calibrator(stages), ArrayRows(z, None))[1][0] == 1


def test_transforms_are_read_by_the_first_stage_only(fitted, data):
    calibrator = fitted["recal+ts"].calibrator
    assert (
        calibrator.required_transforms
        == calibrator.stages[0].calibrator.required_transforms
    )
    assert len(calibrator.required_transforms) > 0


@pytest.mark.parametrize("name", NAMES)
def test_artifact_nests_the_stages_and_applies_identically(name, fitted, data):
    stages = fitted[name].calibrator.stages
    artifact = Artifact(
        method=name,
        options=msgspec.to_builtins(parse_options(name, {})),
        calibrator=fitted[name].calibrator,
        n_classes=4,
        input_kind="logits",
        class_names=None,
        fit=FitRecord(
            n=500, status=fitted[name].status, details=dict(fitted[name].details)
        ),
    )
    text = dumps(artifact)
    written = json.loads(text)["params"]["stages"]
    assert [stage["method"] for stage in written] == name.split("+")
    assert [stage["options"] for stage in written] == [
        stage.options.recorded() for stage in stages
    ]
    loaded = loads(text, "test").calibrator
    unseen = rows_of(data[2], None)
    for a, b in zip(
        predict(fitted[name].calibrator, unseen), predict(loaded, unseen), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_status_and_warnings_name_their_stage(data):
    z, _, _ = data
    one = fit("ts+hb", ArrayRows(z, z.argmax(axis=1)))
    assert one.status != "ok"
    assert any(warning.startswith("stage 1 (ts): ") for warning in one.warnings)


def test_progress_names_the_stage(data):
    stages = []
    context = Context(progress=lambda what, done, total: stages.append(what))
    method("ts+ft").fit(
        ArrayRows(data[0], data[1]), parse_options("ts+ft", {}), context
    )
    assert any(what.startswith("ts: ") for what in stages)
    assert any(what.startswith("ft: ") for what in stages)


# ---- rows between stages


def test_lazy_and_cached_rows_are_the_same(data, monkeypatch):
    z, y, _ = data
    weight = np.random.default_rng(0).uniform(0, 1, 500)
    rows = ArrayRows(z, y, weight=weight, block_rows=83)
    lazy, cached = (
        MappedRows(rows, TemperatureScaling(2.0)),
        mapped(rows, TemperatureScaling(2.0)),
    )
    assert isinstance(cached, ArrayRows)
    np.testing.assert_array_equal(lazy.array(), cached.array())
    np.testing.assert_array_equal(lazy.labels(), cached.labels())
    np.testing.assert_array_equal(lazy.weights(), cached.weights())
    assert lazy.kind == cached.kind == "log_probs"
    kept = fit("ts+ft+beta", rows).calibrator
    monkeypatch.setattr("calcli.mapped_rows.CACHED_BYTES", 0)
    monkeypatch.setattr("calcli.mapped_rows.LARGE_BYTES", 0)
    assert isinstance(mapped(rows, Identity()), MappedRows)
    streamed = fit("ts+ft+beta", rows).calibrator
    np.testing.assert_allclose(
        predict(kept, ArrayRows(z, None))[0],
        predict(streamed, ArrayRows(z, None))[0],
        atol=1e-9,
    )


def test_folds_of_mapped_rows(data):
    z, y, _ = data
    part = MappedRows(ArrayRows(z, y), TemperatureScaling(2.0)).take(
        np.arange(0, 500, 7)
    )
    np.testing.assert_allclose(part.array(), log_softmax(z[::7] / 2), rtol=1e-14)


# ---- names and options


@pytest.mark.parametrize(
    ("settings", "stage", "option", "value"),
    [
        ({"ts.loss": "brier"}, 0, "loss", "brier"),
        ({"loss": "brier"}, 0, "loss", "brier"),
        ({"bins": "7"}, 1, "bins", 7),
        ({"hb.bins": "7", "loss": "brier"}, 1, "bins", 7),
    ],
)
def test_options_of_stages(settings, stage, option, value):
    options = parse_options("ts+hb", settings)
    options_of_stages = method("ts+hb").split(options)
    assert getattr(options_of_stages[stage], option) == value
    assert type(options_of_stages[stage]) is method(("ts", "hb")[stage]).Options


def test_options_reach_their_stage(data):
    z, y, _ = data
    calibrator = fit("ts+hb", ArrayRows(z, y), bins="4").calibrator
    assert len(calibrator.stages[1].calibrator.edges) == 5
    assert calibrator.stages[1].options.bins == 4


def test_repeated_methods_are_numbered():
    options_of_stages = method("ts+ft+ts").split(
        parse_options("ts+ft+ts", {"ts2.loss": "brier"})
    )
    assert options_of_stages[0].loss == "nll"
    assert options_of_stages[2].loss == "brier"


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("ts+ets", {"loss": "nll"}, "several stages: use ts.loss or ets.loss"),
        ("ts+hb", {"bons": "3"}, "bins"),
        ("ts+hb", {"vs.bins": "3"}, "hb.bins"),
        ("ts+hb", {"bins": "3", "hb.bins": "4"}, "set twice"),
        ("ts+hb", {"bins": "0"}, r"hb\.bins='0'"),
        ("identity+identity", {"bins": "3"}, "no options"),
        ("hb+ts", {}, "must come last in hb\\+ts, or set hb.mode=ova"),
        ("hoki+ts", {}, "must come last"),
        ("ts+recal", {}, "must come first"),
        ("ts+", {}, "no method is named ''"),
        ("ts+tss", {}, "did you mean ts"),
        ("auto+ts", {"rule": "best"}, "cannot be a stage of a composition"),
        ("nonsense", {}, "auto"),
    ],
)
def test_impossible_compositions_are_refused_in_words(name, settings, words):
    with pytest.raises(UsageError, match=words) as caught:
        parse_options(name, settings)
    assert "\n" not in str(caught.value)


def test_a_per_class_mode_may_come_first(data):
    z, y, _ = data
    calibrator = fit("hb+ts", ArrayRows(z, y), **{"hb.mode": "ova"}).calibrator
    assert len(calibrator.stages) == 2


def test_stages_that_are_not_the_named_ones_are_refused(fitted):
    ts_hb = fitted["ts+hb"].calibrator
    with pytest.raises(DataError, match=r"stages are ts\+hb, expected ts\+beta"):
        method("ts+beta")(ts_hb.stages).check(4)
    with pytest.raises(DataError, match="stages are ts, expected"):
        method("ts+hb")(ts_hb.stages[:1]).check(4)


def test_help_names_the_stages():
    cls = method("ts+hb")
    assert cls.title == "temperature scaling, then histogram binning"
    assert "ts: Divide every logit" in cls.__doc__
    assert method("ts+hb") is cls


# ---- auto


def auto(rows, seed=0, rule="one-se", **settings):
    return fit("auto", rows, seed, rule=rule, **settings)


@pytest.mark.parametrize(
    ("errors", "name"), [(0.99, "simple"), (1.01, "rich"), (1.99, "rich")]
)
def test_one_standard_error_is_one(errors, name):
    table = {
        "rich": {
            "method": "rich",
            "parameters": 9,
            "nll": 0.5,
            "difference": 0.0,
            "standard_error": 0.0,
        },
        "simple": {
            "method": "simple",
            "parameters": 1,
            "nll": 0.6,
            "difference": 0.1 * errors,
            "standard_error": 0.1,
        },
        "broken": {"method": "broken", "failed": "no"},
    }
    assert pick(table, "one-se", "nll") == name
    assert pick(table, "best", "nll") == "rich"


def test_auto_finds_one_temperature_where_that_is_the_truth():
    # Logits are exactly T = 1.6 times the log-odds of the truth: nothing beats ts but by noise.
    z, y = truth(1500, 4, seed=3)
    chosen = auto(ArrayRows(z, y), candidates="identity,ts,ft,vs,ft+beta")
    assert chosen.chosen[0] == "ts"
    assert isinstance(chosen.calibrator, TemperatureScaling)
    # Refitted on all rows, not on a fold.
    # It starts elsewhere, so that the root differs by rounding.
    assert chosen.calibrator.temperature == pytest.approx(
        fit("ts", ArrayRows(z, y)).calibrator.temperature, rel=1e-12
    )
    # an average would mix it in once for all
    assert chosen.calibrator.uniform == 1 / 1501


def test_auto_finds_a_bias_where_there_is_one():
    z, y = truth(1500, 4, seed=4)
    chosen = auto(
        ArrayRows(z + np.array([0.0, 2.0, 0.0, -2.0]), y),
        candidates="identity,ts,ft,svs",
    )
    assert chosen.chosen[0] == "svs"


def test_auto_leaves_a_calibrated_model_alone():
    z, y = truth(1500, 4, temperature=1.0, seed=5)
    assert auto(ArrayRows(z, y), candidates="identity,ts,vs").chosen[0] == "identity"


def test_the_table_records_the_choice():
    z, y = truth(600, 3, seed=6)
    chosen = auto(ArrayRows(z, y), candidates="identity, ts,ts+beta", criterion="brier")
    record = chosen.details["auto"]
    assert record["chosen"] == chosen.chosen[0]
    assert [row["method"] for row in record["table"]] == ["identity", "ts", "ts+beta"]
    assert [row["parameters"] for row in record["table"]] == [0, 2, 5]
    assert min(row["difference"] for row in record["table"]) == 0
    assert all({"brier", "standard_error"} <= set(row) for row in record["table"])
    assert [row["method"] for row in record["table"] if row.get("chosen")] == [
        chosen.chosen[0]
    ]


def test_held_out_losses_are_those_of_the_folds():
    z, y = truth(200, 3, seed=7)
    chosen = auto(ArrayRows(z, y), candidates="ts,identity", rule="best")
    rows, expected = ArrayRows(z, y), np.zeros(200)
    for draw in (0, 1):
        fold = content_folds(rows, 5, 0, draw)
        for i in range(5):
            learn, held_out = np.flatnonzero(fold != i), np.flatnonzero(fold == i)
            calibrator = fit(
                "ts", ArrayRows(z[learn], y[learn]), prior=0.25, mixture="true"
            ).calibrator
            expected[held_out] -= (
                predict(calibrator, ArrayRows(z[held_out], None))[0][
                    np.arange(len(held_out)), y[held_out]
                ]
                / 2
            )
    table = {row["method"]: row for row in chosen.details["auto"]["table"]}
    # fits of folds end with a step that promises 3e-4 nats, and leaves its square
    assert table["ts"]["nll"] == pytest.approx(expected.mean(), rel=1e-7)
    plain = -log_softmax(z)[np.arange(200), y]
    assert table["identity"]["nll"] == pytest.approx(plain.mean(), rel=1e-12)
    difference = (
        plain - expected if expected.mean() < plain.mean() else expected - plain
    )
    other = "identity" if expected.mean() < plain.mean() else "ts"
    assert table[other]["standard_error"] == pytest.approx(
        difference.std() / np.sqrt(200), rel=1e-9
    )  # such a step left at most 8e-11 of it in eight seeds


def test_stages_in_common_are_fitted_once_and_change_nothing():
    z, y = truth(400, 3, seed=8)
    alone = auto(ArrayRows(z, y), candidates="ft+svs+beta").details["auto"]["table"][0]
    together = auto(ArrayRows(z, y), candidates="ts,ft,svs,ft+svs,ft+svs+beta").details[
        "auto"
    ]["table"][-1]
    assert alone["nll"] == together["nll"]


def test_same_seed_same_choice_and_table():
    z, y = truth(300, 3, seed=9)
    a, b, c = (
        auto(ArrayRows(z, y), seed=s, candidates="identity,ts,svs") for s in (1, 1, 2)
    )
    assert a.details["auto"] == b.details["auto"]
    assert a.details["auto"] != c.details["auto"]


BEGIN_ALIKE = "ts, mono, mono+svs, svs(lambda=0.1), mono+ft+svs, ts+beta"


def test_candidates_that_begin_alike_are_one_task_and_others_are_not(monkeypatch):
    """Three first stages, so three tasks, and three in each of five folds; every first stage is fitted once a task."""
    tasks, begun, real = [], [], candidates_module.method

    def one_after_the_other(work, items):
        results = [work(item) for item in items]
        tasks.append(len(results))
        return iter(results)

    class Mono(real("mono")):
        @classmethod
        def fit(cls, *arguments):
            begun.append(1)
            return super().fit(*arguments)

    monkeypatch.setattr("calcli.methods._auto.trials.in_order", one_after_the_other)
    monkeypatch.setattr("calcli.methods._auto.members.in_order", one_after_the_other)
    monkeypatch.setattr(
        candidates_module, "method", lambda name: Mono if name == "mono" else real(name)
    )
    chains = chained({name: parse_candidate(name) for name in listed(BEGIN_ALIKE)})
    assert chains == [
        ["mono", "mono+svs", "mono+ft+svs"],
        ["ts", "ts+beta"],
        ["svs(lambda=0.1)"],
    ]
    floored = [f"floor+{name}" for name in ("ts", "mono", "mono+svs")]
    assert chained({name: parse_candidate(name) for name in floored}) == [
        floored[1:],
        floored[:1],
    ]
    # one part first, then the four others; one fit for the choice is outside of the tasks
    auto(ArrayRows(*truth(1200, 3, seed=9)), candidates="ts, mono, svs")
    assert (tasks, len(begun)) == ([3, 12], 5)


def test_the_average_is_the_same_for_any_number_of_threads(monkeypatch):
    rows, calibrators = ArrayRows(*truth(300, 4, seed=9)), []
    for workers in (1, 2, 4):
        monkeypatch.setattr("calcli.parallel.WORKERS", workers)
        fitted = auto(rows, rule="average", candidates=BEGIN_ALIKE)
        calibrators.append(
            (fitted.details["auto"], predict(fitted.calibrator, rows)[0].tobytes())
        )
    assert calibrators[0] == calibrators[1] == calibrators[2]


def test_a_candidate_that_fails_is_recorded_and_left_out(monkeypatch):
    class Broken(Identity):
        @classmethod
        def fit(cls, rows, options, context):
            raise CalcliError("out of luck")

    z, y = truth(100, 3, seed=10)
    real = candidates_module.method
    monkeypatch.setattr(
        candidates_module, "method", lambda name: Broken if name == "ts" else real(name)
    )
    table = auto(ArrayRows(z, y), candidates="identity,ts").details["auto"]["table"]
    assert table[1] == {"method": "ts", "failed": "out of luck"}
    with pytest.raises(
        CalcliError, match="no candidate could be fitted; ts: out of luck"
    ):
        auto(ArrayRows(z, y), candidates="ts")


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_a_handful_of_rows_still_choose(n):
    chosen = auto(ArrayRows(*truth(n, 3, seed=11)), candidates="identity,ts,ft")
    assert chosen.chosen[0] in ("identity", "ts", "ft")
    if n == 1:
        assert any("one row only" in warning for warning in chosen.warnings)


def test_methods_that_need_transforms_are_left_out_without_them():
    z, y = truth(100, 3, seed=12)
    table = auto(ArrayRows(z, y), candidates="recal,ts").details["auto"]["table"]
    assert [row["method"] for row in table] == ["ts"]
    with pytest.raises(CalcliError, match="transforms"):
        auto(ArrayRows(z, y), candidates="recal")


@pytest.mark.parametrize(
    ("candidates", "words"),
    [("ts,vvs", "did you mean"), ("auto", "itself"), ("hb+ts", "last")],
)
def test_candidates_are_checked_before_anything_is_read(candidates, words):
    with pytest.raises(UsageError, match=words):
        parse_options("auto", {"candidates": candidates})


def test_simplicity_counts_stored_numbers():
    z, y = truth(200, 3, seed=13)
    rows = ArrayRows(z, y)
    assert stored_numbers(fit("ts", rows).calibrator) == 1
    assert stored_numbers(fit("hb", rows, bins="5").calibrator) == 11
    assert stored_numbers(fit("ts+hb", rows, bins="5").calibrator) == 12
    assert stored_numbers(fit("hb", rows, bins="5", mode="ova").calibrator) == 33


def test_auto_is_described_like_a_method():
    assert method("auto") is Auto
    assert issubclass(Auto, Calibrator)
    assert isinstance(Auto.laws, Laws)
    z, y = truth(60, 3, seed=14)
    assert isinstance(
        Auto.fit(
            ArrayRows(z, y), parse_options("auto", {"candidates": "ts"}), Context()
        ),
        Fit,
    )
    assert dataclasses.is_dataclass(Composition)


# ---- auto averages


@pytest.fixture(scope="module")
def averaged():
    z, y = truth(800, 4, seed=4)
    z = z + np.array([0.0, 1.0, 0.0, -1.0])
    return (
        z,
        y,
        auto(
            ArrayRows(z, y),
            rule="average",
            keep_argmax="false",
            candidates="ts,ft,iop,svs,vs,identity,svs(lambda=0.1),mono",
        ),
    )


def test_an_average_is_the_weighted_mean_of_its_members(averaged):
    z, _, fitted = averaged
    mixture = fitted.calibrator
    assert fitted.chosen is None
    assert 1 < len(mixture.members) <= 6
    assert sum(m.weight for m in mixture.members) == pytest.approx(1)
    parts = sum(
        m.weight * np.exp(predict(m.calibrator, ArrayRows(z, None))[0])
        for m in mixture.members
    )
    # the one share of the uniform distribution
    expected = parts * (1 - 0.25 / 801) + 0.25 / 801 / 4
    assert np.exp(predict(mixture, ArrayRows(z, None))[0]) == pytest.approx(
        expected, rel=1e-12
    )
    table = {row["method"]: row for row in fitted.details["auto"]["table"]}
    assert sum("weight" in row for row in table.values()) == len(mixture.members)


def test_an_average_survives_its_artifact(averaged):
    z, _, fitted = averaged
    artifact = Artifact(
        method="auto",
        options={},
        calibrator=fitted.calibrator,
        n_classes=4,
        input_kind="logits",
        class_names=None,
        fit=FitRecord(n=800, status="ok"),
        seconds={"ts": 1.0},
    )
    text = dumps(artifact)
    assert '"members"' in text
    assert "seconds" not in text
    before, after = (
        predict(c, ArrayRows(z, None))[0]
        for c in (fitted.calibrator, loads(text, "test").calibrator)
    )
    np.testing.assert_array_equal(after, before)
    for old, new in (('"weight": 0.', '"weight": 1.'), ('"members"', '"membres"')):
        with pytest.raises(DataError):
            loads(text.replace(old, new), "test")


def test_weights_find_the_component_that_made_the_data():
    """Labels drawn from the second of two predictions: EM, from equal weights, puts nearly all there."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=(2, 20000))
    y = (p[1].cumsum(axis=1) < rng.random((20000, 1))).sum(axis=1)
    w = likelihood_weights(
        np.log(p[:, np.arange(20000), y]).T[None], np.full(20000, 1 / 20000)
    )
    assert w[1] > 0.95
    assert w.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("n", "k"), [(500, 2), (500, 10), (5000, 10), (500, 100), (5000, 20)]
)
def test_candidates_by_default_are_methods_each_once(n, k):
    names = default_candidates(n, k)
    assert names[0] == "ts"  # the simplest, which has the prior
    parsed = [parse_candidate(name) for name in names]
    assert len(set(parsed)) == len(names)
    assert not any(getattr(options, "mixture", False) for _, options in parsed)
    assert all(getattr(options, "prior", 0.25) == 0.25 for _, options in parsed)
    assert any("sms" in name for name in names) == (2 < k <= 50)


@pytest.mark.slow
@pytest.mark.parametrize("k", [10, 30])
def test_logits_and_log_probabilities_both_bent_are_found_together(k):
    """Logits steeper from 2 on, then log-probabilities flatter from -1 on: no single curve is both."""
    rng = np.random.default_rng(4)
    z = 2 * rng.standard_normal((1000, k)) + 3 * rng.standard_normal((1000, 1))
    u = log_softmax(np.where(z > 2, 3 * z - 4, z))
    true = log_softmax(np.where(u > -1, 0.3 * u - 0.7, u))
    y = (true + rng.gumbel(size=z.shape)).argmax(axis=1)
    table = auto(ArrayRows(z, y), rule="average").details["auto"]["table"]
    fitted = [row for row in table if "failed" not in row]
    assert min(fitted, key=lambda row: row["nll"])["method"].startswith("iop")
    weights = {row["method"]: row.get("weight", 0.0) for row in fitted}
    both = sum(w for name, w in weights.items() if name.startswith("iop+mono("))
    assert both > 0.3 and both + weights["iop"] > 0.8


def test_at_most_six_members_and_none_below_a_hundredth():
    rng = np.random.default_rng(1)
    log_p = np.log(rng.random((500, 12))) - np.repeat([0.0, 6.0], 6)
    kept, w = sparse_weights(log_p[None], np.full(500, 1 / 500), 1.0)
    assert len(kept) <= 6
    assert w.min() >= 0.01
    assert w.sum() == pytest.approx(1)


def test_two_draws_of_folds_count_as_much_as_one():
    """The same draw twice gives the weights of one; a second one changes the mean, not how many rows there are."""
    log_p = np.log(np.random.default_rng(2).random((1, 300, 4)))
    share = np.full(300, 1 / 300)
    once, twice = (
        sparse_weights(np.repeat(log_p, draws, axis=0), share, 2.0) for draws in (1, 2)
    )
    assert once[0] == twice[0]
    np.testing.assert_allclose(once[1], twice[1], rtol=1e-12)


@pytest.mark.parametrize(
    ("behind", "left"), [(0.0, 50.0), (0.5, 50.0), (1.25, 25.0), (1.6, 0.0)]
)
def test_the_prior_of_the_first_candidate_fades_from_one_standard_error_on(
    behind, left
):
    """Differences of +-1 around the mean that is ``behind`` standard errors, by hand; gone at one and a half."""
    share, ones = np.full(100, 0.01), np.resize([1.0, -1.0], 100)
    log_p = np.stack([-(ones + behind * 0.1), np.zeros(100)], axis=1)[None] - 1
    weight_of = dict(zip(*sparse_weights(log_p, share, 50.0), strict=True))
    assert weight_of == pytest.approx(
        dict(enumerate(likelihood_weights(log_p, share, left))), rel=1e-9
    )


def test_the_prior_stays_where_all_candidates_say_the_same():
    log_p, share = np.full((1, 50, 2), -0.5), np.full(50, 0.02)
    assert sparse_weights(log_p, share, 10.0)[0] == [0]
    assert sparse_weights(log_p, share, 0.0)[0] == [0, 1]


def test_the_number_of_processors_does_not_show(monkeypatch):
    z, y = truth(300, 4, seed=2)
    one, four = (
        monkeypatch.setattr("calcli.parallel.WORKERS", workers)
        or auto(ArrayRows(z, y), rule="average")
        for workers in (1, 4)
    )
    assert one.details == four.details
    np.testing.assert_array_equal(
        *(predict(f.calibrator, ArrayRows(z, None))[0] for f in (one, four))
    )


def test_a_fit_begun_elsewhere_ends_at_the_same_place():
    """Folds begin at the fit to all rows; the loss they end at is that of a fit from scratch to 1e-7."""
    z, y = truth(600, 5, seed=3)
    rows, part = ArrayRows(z, y), ArrayRows(z[:480], y[:480])
    for name in ("ts", "mono", "iop", "ft", "svs", "sms", "vs", "ms", "ft+svs"):
        near = fit(name, rows).calibrator
        begun = (
            method(name)
            .fit(part, parse_options(name, {}), Context(start=near))
            .calibrator
        )
        loss = [
            -predict(c, part)[0][np.arange(480), part.labels()].mean()
            for c in (fit(name, part).calibrator, begun)
        ]
        assert loss[1] == pytest.approx(loss[0], abs=2e-6), name


def test_one_row_does_not_make_a_standard_error():
    """Ninety-nine differences of .01 and one of 10: without the one, the error is next to nothing."""
    difference = np.full(100, 0.01)
    share = np.full(100, 0.01)
    difference[3] = 10.0
    assert guarded_error(difference, share) < 0.011
    spread = np.random.default_rng(0).standard_normal(100)
    assert guarded_error(spread, share) == pytest.approx(spread.std() / 10)


@pytest.mark.parametrize("rule", ["average", "best"])
def test_predictions_are_kept_on_request(rule):
    """Also where changing them would help: the scores of two classes are exchanged in part."""
    z, y = truth(600, 4, seed=2)
    z = z + np.array([0.0, 3.0, 0.0, -3.0])
    fitted = auto(ArrayRows(z, y), rule=rule, keep_argmax="true", candidates="svs,vs")
    log_p, label = predict(fitted.calibrator, ArrayRows(z, None))
    np.testing.assert_array_equal(label, z.argmax(axis=1))
    np.testing.assert_array_equal(log_p.argmax(axis=1), label)
    np.testing.assert_array_equal(log_p.astype(np.float32).argmax(axis=1), label)
    free = auto(ArrayRows(z, y), rule=rule, candidates="svs,vs")
    log_p, label = predict(free.calibrator, ArrayRows(z, None))
    assert (label == y).mean() > (z.argmax(axis=1) == y).mean() + 0.05
    assert not free.details["auto"]["predictions"]["kept"]


def test_a_spent_budget_leaves_the_first_candidate():
    z, y = truth(300, 4, seed=2)
    record = auto(ArrayRows(z, y), rule="average", budget="1e-9").details["auto"]
    assert [row["method"] for row in record["table"] if "failed" not in row] == ["ts"]
    assert "budget" in record["table"][1]["failed"]


def test_no_probability_is_zero_however_sure_the_logits():
    z, y = truth(300, 3, seed=2)
    calibrator = auto(ArrayRows(z * 1e4, y), rule="average").calibrator
    assert np.exp(predict(calibrator, ArrayRows(z * 1e6, None))[0]).min() > 1e-5


# ---- data that make calibration useless


@pytest.mark.parametrize("case", DEGENERATE, ids=[case[0] for case in DEGENERATE])
@pytest.mark.parametrize("name", ["ft+svs+beta", "iop+ft", "vs+hb", "cts+ir", "auto"])
def test_degenerate_data_do_no_harm(name, case):
    what, z, y = case
    settings = (
        {"candidates": "identity,ts,ets,iop+ft,svs,ts+beta"} if name == "auto" else {}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="raise", under="ignore"):
            fitted = fit(name, ArrayRows(z, y), **settings)
            log_p, label = predict(fitted.calibrator, ArrayRows(z, None))
    assert np.isfinite(log_p).all(), what
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-9)
    if fitted.calibrator.laws.keeps_argmax:
        np.testing.assert_array_equal(label, z.argmax(axis=1))
