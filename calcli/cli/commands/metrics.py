"""List the metrics, or describe one: definition, range, reference.

\b
calcli metrics
calcli metrics ece
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from calcli.cli import options as o
from calcli.cli.render import Table, print_folded, print_made, reflowed
from calcli.metrics.catalog import MetricOutput, describe_metric, metric_names
from calcli.output import Output


class MetricsOutput(Output, kw_only=True):
    """The JSON of ``calcli metrics``."""

    calcli_metrics: Literal[1]
    metrics: list[MetricOutput]


@dataclass(frozen=True, kw_only=True)
class MetricsArgs(o.TableOptions):
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Describe this metric.",
            autocompletion=o.complete_metrics,
        ),
    ] = None


def run(args: MetricsArgs) -> int:
    """Print the metrics, or one of them."""
    names = [args.name] if args.name else metric_names()
    described = [describe_metric(name) for name in names]
    if args.name and args.people:
        facts = described[0]
        print_made(f"{facts.name}\n\n{reflowed(facts.description)}\n")
        return 0
    rows = [[facts.name, facts.summary] for facts in described]
    head = ["metric", "what it measures"]
    if args.people:
        print_folded(head, rows)
        return 0
    lines = [facts.to_dict() for facts in described]
    whole = MetricsOutput(calcli_metrics=1, metrics=described)
    args.print("metrics", [Table(head, rows)], lines, whole.to_dict())
    return 0
