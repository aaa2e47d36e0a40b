"""The evaluation as people read it. Words and layout; every number is in the JSON too."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calcli.evaluation.assess import Plan

Result = dict[str, Any]

SIDE_BY_SIDE = 4
"""Results of one bundle that fit beside each other in a terminal."""


def print_report(evaluated: Sequence[Sequence[Result]], ranks: dict[str, Any] | None, plan: "Plan") -> None:
    """Print everything that was evaluated."""
    compact = len(evaluated) > 1 or any(len(results) > SIDE_BY_SIDE for results in evaluated)
    if compact:
        _print_compact([r for results in evaluated for r in results], plan)
    for results in evaluated:
        if not compact:
            _print_bundle(results, plan)
        elif plan.report:
            print()
            for result in results:
                print(f"{result['bundle']}, {_title(result)}: {result['report']['verdict']}")
        for result in results:
            _print_per_class(result)
            _print_per_group(result, plan)
            _print_sweep(result)
    if ranks is not None:
        _print_ranks(ranks)


def _title(result: Result) -> str:
    return result["calibrator"] or "uncalibrated"


def _print_compact(results: Sequence[Result], plan: "Plan") -> None:
    from calcli.cli.render import print_table

    body = [
        [result["bundle"], _title(result), *(result["metrics"][name]["value"] for name in plan.metrics)]
        for result in results
    ]
    print_table(["bundle", "calibrator", *plan.metrics], body)


def _print_bundle(results: Sequence[Result], plan: "Plan") -> None:
    from calcli.cli.render import print_table

    first = results[0]
    if plan.report:
        print(_data_sentence(first))
        print()
    body = [[name, *(_cell(result["metrics"][name]) for result in results)] for name in plan.metrics]
    print_table(["metric", *(_title(result) for result in results)], body)
    for result in results:
        for name in plan.metrics:
            if "reason" in result["metrics"][name]:
                print(f"{name}: undefined for {_title(result)}: {result['metrics'][name]['reason']}")
    if plan.report:
        print("±: one standard error; p: how often a calibrated model would show as much")
    if plan.report or "paired" in first:
        _print_paired(results, None if plan.report else plan.metrics)
    if plan.report:
        for result in results:
            _print_judgement(result)


def _data_sentence(result: Result) -> str:
    d = result["report"]["data"]
    parts = [
        f"{result['bundle']}: {d['n']} row{'s'[: d['n'] != 1]} x {d['n_classes']} classes, {d['kind']}",
        f"class shares {d['smallest_class_share']:.2%} to {d['largest_class_share']:.2%}",
    ]
    if d["absent_classes"]:
        parts.append(f"{d['absent_classes']} class{'es' * (d['absent_classes'] > 1)} without a row")
    if d["weighted"]:
        parts.append("weighted")
    if d["distinct_confidences"] < d["n"] // 2:
        parts.append(f"only {d['distinct_confidences']} distinct confidence{'s'[: d['distinct_confidences'] != 1]}")
    return "; ".join(parts)


def _cell(entry: dict[str, Any]) -> str:
    from calcli.cli.render import number

    if entry["value"] is None:
        return "-"
    text = number(entry["value"])
    if "se" in entry:
        return f"{text} ±{number(entry['se'])}"
    return f"{text}  p {_p(entry['p_value'])}" if "p_value" in entry else text


def _p(p: float) -> str:
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def _print_paired(results: Sequence[Result], chosen: Sequence[str] | None) -> None:
    """Differences of the losses over rows to the baseline; chosen : only these metrics."""
    from calcli.cli.render import number, print_table

    paired = [result for result in results if "paired" in result]
    if not paired:
        return
    against = paired[0]["paired"]["baseline"] or "uncalibrated"
    body = []
    for name in paired[0]["paired"]["differences"]:
        if chosen is not None and name not in chosen:
            continue
        row = [name]
        for result in paired:
            d = result["paired"]["differences"][name]
            ends = f" [{number(d['ci'][0])}, {number(d['ci'][1])}]" if "ci" in d else ""
            p = f" p {_p(d['p_value'])}" if "p_value" in d else ""
            row.append(f"{d['value']:+.4f}{ends}{p}")
        body.append(row)
    if not body:
        return
    level = next((d["ci_level"] for d in paired[0]["paired"]["differences"].values() if "ci" in d), None)
    print()
    print_table([f"minus {against}", *(_title(result) for result in paired)], body)
    if level is not None:
        print(f"[ ]: {level:.0%} interval of the difference on the same rows")


def _print_judgement(result: Result) -> None:
    from calcli.cli.render import number

    metrics, report = result["metrics"], result["report"]
    print(f"\n{_title(result)}")
    for name, title in (("ece", "ECE"), ("ece_mass", "mass-bin ECE"), ("smece", "smooth ECE")):
        if metrics.get(name, {}).get("null_mean") is not None:
            m = metrics[name]
            print(
                f"  {title} {number(m['value'])}: a calibrated model would show {number(m['null_mean'])},"
                f" 95% of the time at most {number(m['null_q95'])} (p {_p(m['p_value'])})"
            )
    if metrics.get("tce2", {}).get("ci"):
        m = metrics["tce2"]
        print(
            f"  debiased L2 error {number(m['value'])}, {m['ci_level']:.0%} interval"
            f" [{number(m['ci'][0])}, {number(m['ci'][1])}], signed square {number(m['signed_square'])}"
        )
    c = report["classwise"]
    if c is not None:
        print(
            f"  class-wise debiased L2 error {number(c['value'])}"
            + (
                f" (p {_p(c['p_value'])}); {c['n_significant']} of {result['n_classes']} classes significantly off"
                if c["p_value"] is not None
                else ""
            )
        )
    for name in ("nll", "brier"):
        if report["split"] is not None:
            s = report["split"][name]
            print(
                f"  {'NLL' if name == 'nll' else 'Brier'} {number(s['value'])} = refinement {number(s['refinement'])}"
                f" + calibration {number(s['calibration'])} ±{number(s['calibration_se'])}"
                f" ({s['calibration_share']:.1%}, by cross-fitted {report['split']['method']})"
            )
    d = report["direction"]
    print(
        f"  confidence minus accuracy {d['gap']:+.4f} (z {_z(d['gap_z'])}), NLL minus entropy"
        f" {d['entropy_gap']:+.4f} (z {_z(d['entropy_z'])}): {d['words']}"
    )
    print(f"  verdict: {report['verdict']}")


def _z(z: float) -> str:
    return f"{z:+.1f}"


def _print_per_class(result: Result) -> None:
    from calcli.cli.render import print_table

    if "per_class" not in result:
        return
    print(f"\n{result['bundle']}, {_title(result)}, by class (* significantly off)")
    named = result["per_class"][0]["name"] is not None
    head = ["class", *(["name"] if named else []), "rows", "predicted", "share", "mean p", "gap", "p", "recall", "ECE"]
    body = [
        [
            line["class"],
            *([line["name"]] if named else []),
            line["n"],
            line["predicted"],
            line["share"],
            line["mean_probability"],
            f"{line['gap']:+.4f}{'*' if line['significant'] else ' '}",
            _p(line["p_value"]),
            line["recall"],
            line["ece"],
        ]
        for line in result["per_class"]
    ]
    print_table(head, body)


def _print_per_group(result: Result, plan: "Plan") -> None:
    from calcli.cli.render import print_table

    if "per_group" not in result:
        return
    print(f"\n{result['bundle']}, {_title(result)}, by group")
    names = list(result["per_group"][0]["metrics"])
    body = [
        [str(line["group"]), line["n"], *(_cell(line["metrics"][name]) for name in names)]
        for line in result["per_group"]
    ]
    print_table(["group", "rows", *names], body)


def _print_sweep(result: Result) -> None:
    from calcli.cli.render import print_table

    if "bin_sweep" not in result:
        return
    sweep = dict(result["bin_sweep"])
    norm = sweep.pop("norm")
    names = {"bins": "bins"}
    for label in ("top", "marginal"):
        names |= {label: f"{label} L{norm}", f"{label}_debiased": f"{label} L2 debiased"}
    print(f"\n{result['bundle']}, {_title(result)}, error over mass bins")
    print_table([names[key] for key in sweep], [list(row) for row in zip(*sweep.values(), strict=True)])


def _print_ranks(ranks: dict[str, Any]) -> None:
    from calcli.cli.render import print_table

    print(f"\naverage ranks over {ranks['n_bundles']} bundles (1 is best), Friedman test")
    body = [
        [
            name,
            *(f"{rank:.2f}" for rank in test["ranks"]),
            f"{test['chi2']:.2f}",
            _p(test["p_value"]),
            _p(test["iman_davenport_p_value"]),
        ]
        for name, test in ranks["metrics"].items()
    ]
    print_table(["metric", *ranks["calibrators"], "chi2", "p", "p (Iman-Davenport)"], body)
