"""Values of metrics: laws, hand-sized cases, other programs, published and oracle numbers."""

from dataclasses import fields
from itertools import pairwise

import h5py
import numpy as np
import pytest
from metric_cases import (
    draw_labels,
    edge_scores,
    measured,
    plain_scores,
    softmax,
    top_label_table,
)

from calcli.binning import BinStats, binned_error, mass_edges, width_edges
from calcli.errors import CalcliError, UsageError
from calcli.methods.ts import TemperatureScaling
from calcli.metrics.binned_errors import monotone_mass_bins
from calcli.metrics.catalog import (
    describe_metric,
    measure,
    metric_names,
    settings_of,
    signature,
)
from calcli.metrics.class_columns import class_columns
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.other_programs import PROGRAMS
from calcli.metrics.registry import metric as register
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows
from calcli.statistics.smooth_error import (
    smooth_error_at,
    smooth_errors,
    smooth_residuals,
)
from calcli.statistics.squared_errors import debiased_error, signed_square

INF = float("inf")
CALIBRATION_ERRORS = [
    *("ece", "ece_mass", "mce", "vce", "ece_sweep", "cwece", "cwece2"),
    *("tce2", "tce2_plugin", "marginal2", "marginal2_plugin", "smece", "ks", "kuiper"),
]


def spread(confidence, k=10):
    """Probabilities with the given confidence on class 0 and the rest shared."""
    c = np.asarray(confidence, float)
    p = np.repeat(((1 - c) / (k - 1))[:, None], k, axis=1)
    p[:, 0] = c
    return p


# ---- hand-sized cases


@pytest.mark.parametrize(
    ("compat", "expected"),
    [
        (None, 0.2),
        ("guo", 0.2),
        ("verified", 0.2),
        ("netcal", 1 / 6),
        ("torchmetrics", 1 / 6),
    ],
)
def test_scores_on_inner_edges(compat, expected):
    """Six rows, ten bins; the others' values by torchmetrics 1.9.0, netcal 1.4.0, uncertainty-calibration 0.1.4."""
    p, y = spread([0.45, 0.45, 0.5, 0.5, 0.55, 0.55]), np.array([5, 6, 0, 0, 9, 5])
    assert measured(p, y, "ece", bins=10, compat=compat).value == pytest.approx(
        expected, abs=1e-12
    )


@pytest.mark.parametrize(
    ("compat", "expected"), [(None, 0.225), ("netcal", 0.225), ("torchmetrics", 0.275)]
)
def test_scores_of_one(compat, expected):
    """torchmetrics 1.9.0 puts a score of 1 into a bin of its own."""
    p, y = spread([0.95, 0.95, 1, 1]), np.array([0, 0, 0, 8])
    assert measured(p, y, "ece", bins=10, compat=compat).value == pytest.approx(
        expected, abs=1e-12
    )


def test_zero_confidence_is_dropped_by_guo_only():
    t = top_label_table([0.0, 0.0, 0.9, 0.9], [1, 1, 1, 1])
    ours = measure("ece", MetricContext(t, MetricSettings(bins=10))).value
    guo = measure("ece", MetricContext(t, MetricSettings(bins=10, compat="guo"))).value
    assert ours == pytest.approx(0.5 + 0.05)
    assert guo == pytest.approx(0.05)


def test_squared_error_by_hand():
    """Four rows at 0.75 with two right: gap 1/4, debiased 1/16 - (1/4)/3 = -1/48."""
    t = top_label_table([0.75] * 4, [1, 1, 0, 0])
    bins = BinStats.of(t.confidence, t.correct, width_edges(15))
    assert float(signed_square(bins)) == pytest.approx(-1 / 48)
    assert measure("tce2", MetricContext(t)).value == 0.0
    assert measure("tce2_plugin", MetricContext(t)).value == pytest.approx(0.25)
    assert measure("ks", MetricContext(t)).value == pytest.approx(0.25)
    # the mean residual spreads evenly
    assert measure("smece", MetricContext(t)).value == pytest.approx(0.25, abs=1e-4)


def test_auroc_by_hand():
    t = top_label_table([0.6, 0.7, 0.7, 0.9], [0, 1, 0, 1])
    assert measure("auroc", MetricContext(t)).value == pytest.approx(
        (1 + 1 + 0.5 + 1) / 4
    )  # scikit-learn: 0.875
    sure = measure("auroc", MetricContext(top_label_table([0.6, 0.7], [1, 1])))
    assert sure.value is None
    assert "right" in sure.reason


# ---- other programs

EDGE, EDGE_Y = edge_scores()
PLAIN, PLAIN_Y = plain_scores()

OTHERS = [
    # torchmetrics 1.9.0: multiclass_calibration_error(tensor(p), tensor(y), 5, n_bins=, norm=), float32 sums
    ("torchmetrics", "ece", 8, 1.0, 0.027500005438923836, 1e-7),
    ("torchmetrics", "ece", 8, 2.0, 0.04007941856980324, 1e-7),
    ("torchmetrics", "ece", 8, INF, 0.0989583432674408, 1e-7),
    ("torchmetrics", "ece", 15, 1.0, 0.0592968687415123, 1e-7),
    ("torchmetrics", "ece", 15, 2.0, 0.07144483178853989, 1e-7),
    ("torchmetrics", "ece", 15, INF, 0.1875, 1e-7),
    # netcal 1.4.0: ECE(bins=).measure(p, y), MCE, ECE(bins=, equal_intervals=False)
    ("netcal", "ece", 8, 1.0, 0.027499999999999986, 1e-12),
    ("netcal", "mce", 8, 1.0, 0.09895833333333331, 1e-12),
    ("netcal", "ece", 15, 1.0, 0.05929687499999999, 1e-12),
    ("netcal", "mce", 15, 1.0, 0.1875, 1e-12),
    ("netcal-mass", "ece", 8, 1.0, 0.04914062500000001, 1e-12),
    ("netcal-mass", "ece", 15, 1.0, 0.06859375, 1e-12),
    # MAPIE 1.6.0: expected_calibration_error(right, conf, num_bins=, split_strategy="uniform")
    ("mapie", "ece", 8, 1.0, 0.021484375000000014, 1e-12),
    ("mapie", "ece", 15, 1.0, 0.056250000000000015, 1e-12),
    ("mapie", "ece", 50, 1.0, 0.078828125, 1e-12),
    # uncertainty-calibration 0.1.4: utils.get_ece(p, y, num_bins=)
    ("verified", "ece", 8, 1.0, 0.044375000000000005, 1e-12),
    ("verified", "ece", 15, 1.0, 0.059296875, 1e-12),
]


@pytest.mark.parametrize(
    ("compat", "name", "bins", "norm", "expected", "tolerance"), OTHERS
)
def test_bins_of_other_programs(compat, name, bins, norm, expected, tolerance):
    """400 rows of multiples of 1/64, a quarter of them on an edge."""
    value = measured(EDGE, EDGE_Y, name, bins=bins, norm=norm, compat=compat)
    assert value.value == pytest.approx(expected, abs=tolerance)
    assert value.signature["compat"] == compat


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        # uncertainty-calibration 0.1.4: get_calibration_error(p, y, p=, debias=, mode=)
        ("tce2", {}, 0.08412327498217491),
        ("tce2_plugin", {}, 0.11381503479709246),
        ("ece_mass", {}, 0.09210460193347175),
        ("marginal2", {"compat": "verified"}, 0.055055528467383166),
        ("marginal2_plugin", {}, 0.08111197835200584),
        ("ece_mass", {"label": "class"}, 0.06145247385414064),
        # lower_bound_scaling_top_ce(p, y, p=2, debias=False, num_bins=)
        ("tce2_plugin", {"bins": 2}, 0.07446098450636482),
        ("tce2_plugin", {"bins": 4}, 0.09220456848548073),
        ("tce2_plugin", {"bins": 8}, 0.10281747054566431),
        ("tce2_plugin", {"bins": 16}, 0.11946558440434066),
        ("tce2_plugin", {"bins": 32}, 0.14284788198339968),
    ],
)
def test_squared_errors_equal_verified_calibration(name, settings, expected):
    assert measured(PLAIN, PLAIN_Y, name, **settings).value == pytest.approx(
        expected, abs=1e-12
    )


def test_discrete_scores_are_binned_by_value():
    """get_calibration_error(round(20 conf)/20, right, p=2, debias=True) of uncertainty-calibration 0.1.4."""
    c = np.round(PLAIN.max(axis=1) * 20) / 20
    value = measure(
        "tce2", MetricContext(top_label_table(c, PLAIN.argmax(axis=1) == PLAIN_Y))
    )
    assert value.value == pytest.approx(0.0832747271893415, abs=1e-12)
    assert value.signature["scheme"] == "values"


def test_normal_debiasing_equals_verified_calibration_up_to_its_draws():
    """get_calibration_error(p=1, debias=True): five seeds gave .07474 to .07539."""
    t = collect(ArrayRows(PLAIN, PLAIN_Y, "probs"))
    bins = BinStats.of(t.confidence, t.correct, mass_edges(t.confidence, 15))
    assert debiased_error(bins, 1.0, 20000, np.random.default_rng(0)) == pytest.approx(
        0.0750, abs=4e-4
    )
    value = measure("ece_debiased", MetricContext(t, MetricSettings(resamples=20000)))
    assert value.value == pytest.approx(0.0750, abs=4e-4)
    crowded = measure("ece_debiased", MetricContext(t, MetricSettings(bins=400)))
    assert crowded.value is None


def test_smooth_error_equals_relplot_up_to_its_grid():
    """relplot 1.0.3: smECE(conf, right), smECE_sigma(conf, right, .05); its mesh has 200 points."""
    t = collect(ArrayRows(PLAIN, PLAIN_Y, "probs"))
    assert measured(PLAIN, PLAIN_Y, "smece", compat="relplot").value == pytest.approx(
        0.07419327345034861, abs=1e-4
    )
    one = smooth_residuals(t.confidence, t.confidence - t.correct, 1024)
    assert float(smooth_error_at(one[None], np.array([0.05]))[0]) == pytest.approx(
        0.0776439310085941, abs=3e-4
    )


def test_smooth_error_equals_the_plain_integral():
    """Direct sum of reflected Gaussians, 4000 points of the midpoint rule."""
    t = collect(ArrayRows(PLAIN, PLAIN_Y, "probs"))
    c, r = t.confidence, t.confidence - t.correct
    grid = (np.arange(4000) + 0.5) / 4000
    one = smooth_residuals(c, r, 4096)
    for s in (0.02, 0.2):
        images = [2 * j + sign * c for j in range(-2, 3) for sign in (1, -1)]
        smooth = sum(
            (r[:, None] * np.exp(-0.5 * ((grid - image[:, None]) / s) ** 2)).sum(axis=0)
            for image in images
        )
        direct = np.abs(smooth).mean() / (s * np.sqrt(2 * np.pi)) / len(c)
        assert float(smooth_error_at(one[None], np.array([s]))[0]) == pytest.approx(
            direct, abs=2e-6
        )
    fixed = smooth_errors(one)
    assert float(smooth_error_at(one[None], fixed)[0]) == pytest.approx(
        float(fixed[0]), rel=1e-6
    )


# ---- oracle numbers


def test_resnet20_before_and_after_temperature(resnet20):
    """Independent oracle: CIFAR-100 ResNet-20, last 5000 rows; T of the first 5000."""
    _, _, z, y = resnet20
    rows = ArrayRows(z, y)
    expected = {
        None: (0.3154, 1.22997, 0.44868, 0.11040, 0.23618, 0.10979, 0.003454, 0.12966),
        1.434451: (
            0.3154,
            1.12372,
            0.42768,
            0.01933,
            0.10017,
            0.02014,
            0.002581,
            0.01804,
        ),
    }
    for temperature, numbers in expected.items():
        calibrator = None if temperature is None else TemperatureScaling(temperature)
        context = MetricContext(
            collect(rows, calibrator, class_bins=15), MetricSettings(resamples=10)
        )
        names = ("accuracy", "nll", "brier", "ece", "mce", "ece_mass", "cwece", "tce2")
        values = [measure(name, context).value for name in names]
        values[0] = 1 - values[0]
        for name, value, number in zip(names, values, numbers, strict=True):
            assert value == pytest.approx(
                number, abs=0.6 * 10 ** -(6 if name == "cwece" else 5)
            ), name
    assert measure("mean_confidence", context).value == pytest.approx(0.69331, abs=6e-6)
    assert measure("brier_top", context).value == pytest.approx(0.14924, abs=6e-6)


def test_published_probability_file(real):
    """Official verified_calibration on its own probability file."""
    data = real("cifar10_vgg16_verified")
    p, y = data["probs"], data["labels"]
    for name, settings, number in (
        ("accuracy", {}, 0.9359),
        ("ece", {}, 0.0397800),
        ("ece_mass", {}, 0.0397167),
        ("tce2", {}, 0.0776820),
        ("tce2_plugin", {}, 0.0781007),
        ("marginal2", {"compat": "verified"}, 0.0106713),
        ("marginal2_plugin", {}, 0.0117782),
    ):
        assert measured(p, y, name, resamples=10, **settings).value == pytest.approx(
            number, abs=1e-7
        ), name


# ---- laws


def random_context(data_seed=0, n=300, k=4, **settings):
    rng = np.random.RandomState(data_seed)
    z = rng.normal(size=(n, k)) * 2
    rows = ArrayRows(z, draw_labels(softmax(z * 0.8), rng))
    s = MetricSettings(**{"resamples": 50, **settings})
    return rows, MetricContext(
        collect(rows, class_bins=s.bins, tops=(2, 3, 5)), s, lambda: class_columns(rows)
    )


def test_a_metric_with_an_unknown_better_direction_is_refused():
    with pytest.raises(UsageError, match="better none: expected one of low, high"):
        register("label", "mine", "Mine.", better="none")(lambda context: None)


@pytest.mark.parametrize("name", metric_names())
def test_every_metric_is_described_and_signed(name):
    facts = describe_metric(name)
    assert facts.summary
    assert facts.signature.startswith(f"{name}|") or facts.signature.startswith(
        f"{name}|calcli"
    )
    assert facts.signature == signature(name, MetricSettings())
    assert facts.formula in facts.description


@pytest.mark.parametrize("name", metric_names())
def test_row_order_does_not_matter(name):
    rows, context = random_context()
    order = np.random.RandomState(1).permutation(rows.n)
    shuffled = ArrayRows(rows.scores[order], rows.y[order])
    other = MetricContext(
        collect(shuffled, class_bins=15, tops=(2, 3, 5)),
        context.settings,
        lambda: class_columns(shuffled),
    )
    a, b = measure(name, context), measure(name, other)
    if a.value is None:
        assert b.value is None
    # its draws meet the bins in the same order, sums differ by rounding
    elif name == "ece_debiased":
        assert b.value == pytest.approx(a.value, abs=1e-9)
    else:
        assert b.value == pytest.approx(a.value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", metric_names())
@pytest.mark.parametrize(
    "case",
    [
        "one row",
        "one class",
        "all right",
        "all wrong",
        "equal",
        "two classes",
        "n < bins",
        "certain",
    ],
)
def test_degenerate_rows_give_a_number_or_a_reason(name, case):
    rng = np.random.RandomState(2)
    z = rng.normal(size=(40, 4)) * 2
    y = rng.randint(0, 4, 40)
    if case == "one row":
        z, y = z[:1], y[:1]
    elif case == "one class":
        y = np.zeros(40, int)
    elif case == "all right":
        y = z.argmax(axis=1)
    elif case == "all wrong":
        y = z.argmin(axis=1)
    elif case == "equal":
        z = np.tile([2.0, 1, 0, 0], (40, 1))
    elif case == "two classes":
        z, y = z[:, :2], y % 2
    elif case == "n < bins":
        z, y = z[:5], y[:5]
    elif case == "certain":
        z = np.eye(4)[rng.randint(0, 4, 40)] * 1e4
    rows = ArrayRows(z, y)
    context = MetricContext(
        collect(rows, class_bins=15, tops=(2, 3, 5)),
        MetricSettings(resamples=20),
        lambda: class_columns(rows),
    )
    with np.errstate(all="raise", under="ignore"):
        value = measure(name, context)
    if value.value is None:
        assert value.reason
    else:
        assert np.isfinite(value.value)
    if value.interval is not None:
        assert value.interval.low <= value.interval.high
    if value.null is not None:
        assert 0 <= value.null.p_value <= 1
        assert np.isfinite([value.null.mean, value.null.q95]).all()


@pytest.mark.parametrize("name", metric_names())
def test_no_rows_and_no_weight_are_reasons(name):
    rows, context = random_context(n=10)
    assert (
        "no rows"
        in measure(name, MetricContext(context.table.take(np.zeros(10, bool)))).reason
    )
    weighted = collect(ArrayRows(rows.scores, rows.y, weight=np.zeros(10)))
    assert "weights" in measure(name, MetricContext(weighted)).reason


@pytest.mark.parametrize("name", CALIBRATION_ERRORS)
def test_perfect_scores_have_no_error(name):
    """Certain and right: every calibration error is 0."""
    y = np.arange(60) % 3
    assert measured(np.eye(3)[y], y, name, resamples=20).value == pytest.approx(
        0.0, abs=1e-12
    )


@pytest.mark.parametrize("name", CALIBRATION_ERRORS)
@pytest.mark.parametrize("seed", range(4))
def test_range(name, seed):
    _, context = random_context(seed)
    assert 0.0 <= measure(name, context).value <= 1.0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_nested_width_bins_never_lower_the_error(seed, norm):
    _, context = random_context(seed)
    t = context.table
    errors = [
        float(binned_error(BinStats.of(t.confidence, t.correct, width_edges(b)), norm))
        for b in (1, 5, 15, 30, 90)
    ]
    assert all(a <= b + 1e-12 for a, b in pairwise(errors))


def test_proper_scores_are_least_at_the_truth():
    rng = np.random.RandomState(0)
    z = rng.normal(size=(20000, 3)) * 2
    y = draw_labels(softmax(z), rng)
    tables = {
        beta: collect(ArrayRows(beta * z, y)) for beta in (0.7, 0.85, 1.0, 1.2, 1.5)
    }
    for name in ("nll", "brier"):
        means = {beta: getattr(t, name).mean() for beta, t in tables.items()}
        assert min(means, key=means.get) == 1.0


def test_integer_weights_are_repetitions():
    rows, _ = random_context(n=200)
    weight = np.random.RandomState(5).randint(0, 4, 200)
    repeated = np.repeat(np.arange(200), weight)
    a = MetricContext(
        collect(ArrayRows(rows.scores, rows.y, weight=weight), class_bins=15),
        MetricSettings(resamples=20),
    )
    b = MetricContext(
        collect(ArrayRows(rows.scores[repeated], rows.y[repeated]), class_bins=15),
        MetricSettings(resamples=20),
    )
    for name in (
        "accuracy",
        "nll",
        "brier",
        "brier_top",
        "mean_confidence",
        "confidence_variance",
        "ece",
        "mce",
    ):
        assert measure(name, a).value == pytest.approx(
            measure(name, b).value, rel=1e-12
        ), name
    for name in (
        "cwece",
        "ks",
        "kuiper",
        "auroc",
        "smece",
        "spiegelhalter",
        "gap",
        "vce",
    ):
        left, right = measure(name, a).value, measure(name, b).value
        if name == "spiegelhalter":  # a ratio whose scale knows how often rows repeat
            assert np.sign(left) == np.sign(right)
        else:
            assert left == pytest.approx(right, rel=1e-6), name


def test_labels_class_and_all():
    rows, context = random_context()
    p = softmax(rows.scores)
    per_class = [
        float(
            binned_error(
                BinStats.of(p[:, c], (rows.y == c).astype(float), width_edges(15))
            )
        )
        for c in range(rows.k)
    ]
    by_class = random_context(label="class")[1]
    assert measure("ece", by_class).value == pytest.approx(
        np.mean(per_class), abs=1e-12
    )
    assert measure("cwece", context).value == pytest.approx(
        np.mean(per_class), abs=1e-12
    )
    pooled = BinStats.of(p.ravel(), np.eye(rows.k)[rows.y].ravel(), width_edges(15))
    assert measure("ece", random_context(label="all")[1]).value == pytest.approx(
        float(binned_error(pooled)), abs=1e-12
    )
    with pytest.raises(UsageError, match="bins of equal width"):
        measure("ece_mass", random_context(label="all")[1])


OTHER_SETTINGS = {
    "bins": 7,
    "norm": 2.0,
    "scheme": "mass",
    "label": "class",
    "compat": "torchmetrics",
    "level": 0.8,
    "resamples": 60,
    "seed": 1,
    "interval": "t",
    "threshold": 0.3,
    "unit": "patient",
    "ordered_levels": True,
}
"""Of every setting a value that is not its default."""

OF_DRAWS_AND_INTERVALS = {"level", "resamples", "seed", "interval"}


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("setting", [field.name for field in fields(MetricSettings)])
def test_two_values_of_a_metric_never_share_a_signature(setting, k):
    """A setting that changes a value is named by the value's signature, and among the
    settings that ``evaluate -m`` does not refuse as without effect."""
    others = [OTHER_SETTINGS[setting]]
    if setting == "label" and k == 2:
        others = ["positive", "class", "all"]
    if setting == "compat":
        others = PROGRAMS
    usual = random_context(k=k)[1]
    for other in others:
        changed = random_context(k=k, **{setting: other})[1]
        for name in metric_names():
            try:
                values = [measure(name, context) for context in (usual, changed)]
            except CalcliError:  # not of so many classes, or not with this setting
                continue
            if signed(name, usual, values[0]) == signed(name, changed, values[1]):
                message = f"{name} with {setting} {other}"
                numbers = [value.value for value in values]
                if None not in numbers:  # None says why there is no value
                    np.testing.assert_equal(*numbers, message)
            elif setting not in OF_DRAWS_AND_INTERVALS | {"unit"}:
                assert setting in settings_of([name]), f"--{setting} {name}"


@pytest.mark.parametrize("setting", sorted(settings_of(metric_names())))
def test_a_setting_without_effect_on_the_metric_is_refused(setting, run, tmp_path):
    """The NLL depends on none of the settings that a signature names."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["logits"] = np.eye(2)
        file["labels"] = np.arange(2)
    option = f"--{setting.replace('_', '-')}"
    value = str(OTHER_SETTINGS[setting])
    done = run("evaluate", str(path), "-m", "nll", option, value)
    assert done.code == 2
    assert f"{option} has no effect here" in done.err


def signed(name, context, value):
    return signature(name, context.settings, value.signature.items())


def test_sweep_stops_where_accuracies_fall():
    c = np.linspace(0.01, 0.99, 99)
    assert monotone_mass_bins(c, (c > 0.5).astype(float)) == 99
    assert monotone_mass_bins(c, (c < 0.5).astype(float)) == 1


@pytest.mark.parametrize("rows", [2_000_000])
def test_many_rows_are_summed_exactly(rows):
    """Confidences that are multiples of 2^-20: the exact answer in integers, in any cut."""
    step = rows // 4
    total = None
    conf_sum, hit_sum = np.zeros(16, np.int64), np.zeros(16, np.int64)
    for part in range(4):
        i = np.arange(part * step, (part + 1) * step, dtype=np.int64)
        ticks = (i * 7919 + 13) % (1 << 20)
        hits = ((i * 104729 + 7) % (1 << 20) < ticks).astype(np.int64)
        stats = BinStats.of(ticks / (1 << 20), hits.astype(float), width_edges(16))
        total = stats if total is None else total + stats
        index = np.maximum((ticks + (1 << 16) - 1) // (1 << 16) - 1, 0)
        # Each weight is below 2^21 and exact in float64, as are these sums below 2^53.
        conf_sum += np.bincount(index, weights=ticks, minlength=16).astype(np.int64)
        hit_sum += np.bincount(index, weights=hits, minlength=16).astype(np.int64)
    exact = sum(
        abs(int(a) - (int(b) << 20)) for a, b in zip(conf_sum, hit_sum, strict=True)
    )
    assert float(binned_error(total)) == pytest.approx(
        exact / (4 * step << 20), rel=1e-13
    )
