"""Measure calibration with its uncertainty, and check limits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calcli.cli import options as o

if TYPE_CHECKING:
    from calcli.evaluation.assess import Plan
    from calcli.metrics.context import Settings


ORDER = 40


def evaluate(
    bundles: Annotated[
        list[str],
        typer.Argument(
            metavar="BUNDLE…",
            help="FILE.h5 or FILE.h5:GROUP; FILE.h5:* is every bundle in it; group test when none is named.",
        ),
    ],
    calibrator: Annotated[
        list[str] | None,
        typer.Option(
            "--calibrator",
            "-c",
            metavar="ART.json",
            help="Artifact to evaluate beside the uncalibrated scores (repeatable), - for stdin;"
            " {stem} and {group} in its path stand for the bundle's.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", metavar="NAME", help="Only these metrics (repeatable).", show_default=False),
    ] = None,
    max_: Annotated[
        list[str] | None,
        typer.Option(
            "--max", metavar="NAME=VALUE", help="Fail with code 5 above this (see below).", show_default=False
        ),
    ] = None,
    min_: Annotated[
        list[str] | None,
        typer.Option("--min", metavar="NAME=VALUE", help="Fail with code 5 below this.", show_default=False),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="All metrics and tests but the class-by-class L2.")] = False,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="ART.json|identity",
            help="What differences are taken to.",
            show_default="uncalibrated",
        ),
    ] = None,
    bins: Annotated[int, typer.Option("--bins", metavar="N", min=1, max=10_000, help="Number of bins.")] = 15,
    norm: Annotated[str, typer.Option("--norm", metavar="1|2|max", help="Norm of binned errors.")] = "1",
    scheme: Annotated[str, typer.Option("--scheme", metavar="width|mass", help="Bins of ece, mce and vce.")] = "width",
    label: Annotated[
        str,
        typer.Option("--label", metavar="top|class|all", help="Binned errors of the prediction, per class, or pooled."),
    ] = "top",
    compat: Annotated[
        str | None,
        typer.Option(
            "--compat",
            metavar="PROGRAM",
            help="Bin as another program does: guo, kull, mapie, netcal, netcal-mass, relplot, torchmetrics, verified.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[
        float, typer.Option("--level", metavar="P", min=0.5, max=0.9999, help="Level of intervals.")
    ] = 0.95,
    resamples: Annotated[
        int, typer.Option("--resamples", metavar="N", min=1, max=1_000_000, help="Draws under calibration.")
    ] = 1000,
    interval: Annotated[
        str, typer.Option("--interval", metavar="auto|bootstrap|t", help="Intervals of row means.")
    ] = "auto",
    seed: o.Seed = 0,
    split: Annotated[
        bool | None,
        typer.Option("--split/--no-split", help="Cross-fitted split of the losses.", show_default="up to 2e6 scores"),
    ] = None,
    per_class: Annotated[bool, typer.Option("--per-class", help="One line per class.")] = False,
    per_group: Annotated[bool, typer.Option("--per-group", help="The metrics in every group.")] = False,
    group: Annotated[
        str | None, typer.Option("--group", metavar="NAME", help="Dataset with the groups.", show_default="group")
    ] = None,
    bin_sweep: Annotated[
        str | None,
        typer.Option(
            "--bin-sweep",
            metavar="B,B,…",
            help="Also the error over mass bins for these numbers of bins: plugin in --norm, and debiased L2.",
            show_default=False,
        ),
    ] = None,
    edges_from: Annotated[
        str | None,
        typer.Option(
            "--edges-from", metavar="BUNDLE", help="Rows that choose the bins of --bin-sweep.", show_default=False
        ),
    ] = None,
    marginal: Annotated[bool, typer.Option("--marginal", help="--bin-sweep also class by class.")] = False,
    value_only: Annotated[bool, typer.Option("--value-only", help="Print the number alone.")] = False,
    json: o.Json = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="One JSON object per line and result.")] = False,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="Write the limits as JUnit XML.", show_default=False)
    ] = None,
    force: o.Force = False,
    scores: o.Scores = None,
    labels: o.Labels = None,
    kind: o.Kind = None,
    ignore_label: o.IgnoreLabel = None,
    quiet: o.Quiet = False,
) -> int:
    """Measure calibration with its uncertainty; calibrators beside the uncalibrated scores.

    Every calibration error comes with what a perfectly calibrated model would show on the
    same confidences, and a p-value. Limits apply to the calibrators, or to the
    uncalibrated scores when there is none: NAME is a metric, METRIC.lo or METRIC.hi (ends
    of its interval), METRIC.p, or METRIC_increase / METRIC_drop against the baseline.

    \b
    calcli evaluate logits.h5 --calibrator logits.ts.json
    calcli evaluate logits.h5 -c logits.ts.json --metric ece --value-only
    calcli evaluate logits.h5 -c logits.ts.json --max nll_increase=0 --max ece=0.03
    calcli evaluate models.h5:* --metric ece --json
    """
    from dataclasses import replace

    from calcli.cli.evaluate_job import Job, expand
    from calcli.cli.render import Talk, fail
    from calcli.errors import CalcliError, LimitCrossed, UsageError
    from calcli.evaluation.gates import check, limits, needed_metrics
    from calcli.evaluation.gates import junit as junit_xml

    talk = Talk(quiet)
    if sum((json, jsonl, value_only)) > 1:
        raise UsageError("--json, --jsonl and --value-only exclude each other")
    settings = _settings(bins, norm, scheme, label, compat, level, resamples, seed, interval)
    asked = limits(max_ or [], min_ or [])
    if value_only and len(metric or []) != 1:
        raise UsageError("--value-only prints one metric: name it with --metric NAME")
    if any(each.name != each.metric and "_" in each.name for each in asked) and not calibrator:
        changing = [each.name for each in asked if each.name.split(".")[0] != each.metric]
        if changing:
            raise UsageError(f"{changing[0]} compares with the uncalibrated scores: add --calibrator ART.json")
    if junit is not None:
        from pathlib import Path

        from calcli.io.atomic import check_output
        from calcli.io.bundle import split_where

        if not asked:
            raise UsageError("--junit reports limits: give some with --max or --min")
        read = [*bundles, *(calibrator or []), *(name for name in (baseline, edges_from) if name)]
        check_output(Path(junit), force=force, inputs=[split_where(name)[0] for name in read])
    plan = _plan(
        metric, needed_metrics(asked), settings, full, value_only, split, per_class, per_group or group is not None
    )
    if bin_sweep is None and (edges_from is not None or marginal):
        raise UsageError("--edges-from and --marginal belong to --bin-sweep: give it, e.g. --bin-sweep 2,4,8,16")
    if bin_sweep is not None:
        plan = replace(plan, sweep=_numbers_of_bins(bin_sweep), sweep_marginal=marginal)
    job = Job(
        calibrator or [],
        baseline,
        plan,
        scores,
        labels,
        kind,
        tuple(ignore_label or ()),
        group or "group",
        edges_from,
        talk,
    )
    evaluated: list[list[dict[str, Any]]] = []
    outcomes = []
    worst = 0
    where: list[str] = []
    for bundle in bundles:
        try:
            where += expand(bundle)
        except CalcliError as error:
            if len(bundles) == 1:
                raise
            worst = max(worst, fail(str(error), error.exit_code))
    for bundle in where:
        try:
            results, against = job.evaluate(bundle)
        except CalcliError as error:
            if len(bundles) == len(where) == 1:
                raise
            worst = max(worst, fail(str(error), error.exit_code))
            continue
        finally:
            talk.clear()
        evaluated.append(results)
        held = results[1:] or results
        for result in held:
            outcomes += check(asked, result, against)
        if jsonl:
            _print_lines(results)
    ranks = _ranks(evaluated, calibrator or [], plan)
    if json:
        _print_all(evaluated, ranks, outcomes)
    elif value_only:
        _print_values(evaluated, plan.metrics[0])
    elif not jsonl:
        from calcli.cli.evaluate_text import print_report

        print_report(evaluated, ranks, plan)
    if junit is not None:
        from pathlib import Path

        from calcli.io.atomic import atomic_path

        with atomic_path(Path(junit), force=force) as path:
            path.write_text(junit_xml(outcomes), encoding="utf-8")
    for outcome in outcomes:
        if outcome.crossed:
            worst = max(worst, fail(f"limit crossed: {outcome.sentence}", LimitCrossed.exit_code))
    return worst


def _choice(option: str, value: str, allowed: Sequence[str]) -> str:
    from calcli.errors import unknown_name

    if value not in allowed:
        raise unknown_name(f"choice of {option}", value, allowed)
    return value


def _settings(
    bins: int,
    norm: str,
    scheme: str,
    label: str,
    compat: str | None,
    level: float,
    resamples: int,
    seed: int,
    interval: str,
) -> "Settings":
    from calcli.metrics.compat import CONVENTIONS
    from calcli.metrics.context import Settings

    if compat is not None:
        _choice("--compat", compat, [*CONVENTIONS, "relplot"])
    return Settings(
        bins=bins,
        norm={"1": 1.0, "2": 2.0, "max": float("inf")}[_choice("--norm", norm, ("1", "2", "max"))],
        scheme=_choice("--scheme", scheme, ("width", "mass")),  # type: ignore[arg-type]
        label=_choice("--label", label, ("top", "class", "all")),  # type: ignore[arg-type]
        compat=compat,
        level=level,
        resamples=resamples,
        seed=seed,
        interval=_choice("--interval", interval, ("auto", "bootstrap", "t")),  # type: ignore[arg-type]
    )


def _plan(
    asked: list[str] | None,
    limited: list[str],
    settings: "Settings",
    full: bool,
    value_only: bool,
    split: bool | None,
    per_class: bool,
    per_group: bool,
) -> "Plan":
    from calcli.evaluation.assess import Plan
    from calcli.metrics.catalog import DEFAULT, FULL, metric

    names = list(asked or (FULL if full else DEFAULT))
    names += [name for name in limited if name not in names]
    for name in names:
        metric(name)
    report = not asked and not value_only
    return Plan(tuple(dict.fromkeys(names)), settings, report, split, per_class, per_group)


def _numbers_of_bins(text: str) -> tuple[int, ...]:
    from calcli.errors import UsageError

    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise UsageError(f"--bin-sweep {text}: expected numbers of bins, e.g. --bin-sweep 2,4,8,16")
    return numbers


def _ranks(evaluated: list[list[dict[str, Any]]], calibrators: list[str], plan: "Plan") -> dict[str, Any] | None:
    if len(evaluated) < 2 or not calibrators:
        return None
    from calcli.evaluation.compare import rank_table

    return rank_table(evaluated, ["uncalibrated", *calibrators], plan.metrics)


def _print_all(evaluated: list[list[dict[str, Any]]], ranks: dict[str, Any] | None, outcomes: list[Any]) -> None:
    from calcli.cli.render import print_json

    whole: dict[str, Any] = {"calcli_evaluation": 1, "results": [r for results in evaluated for r in results]}
    if ranks is not None:
        whole["ranks"] = ranks
    if outcomes:
        whole["limits"] = [outcome.as_json() for outcome in outcomes]
    print_json(whole)


def _print_lines(results: list[dict[str, Any]]) -> None:
    from calcli.cli.render import print_json

    for result in results:
        print_json({"calcli_evaluation": 1, **result})


def _print_values(evaluated: list[list[dict[str, Any]]], name: str) -> None:
    """One number per line: the calibrators', or the uncalibrated scores' when there is none."""
    for results in evaluated:
        for result in results[1:] or results:
            value = result["metrics"][name]["value"]
            print("null" if value is None else repr(float(value)))
