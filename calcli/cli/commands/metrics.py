"""List the metrics, or describe one: definition, range, reference.

\b
calcli metrics
calcli metrics ece
"""

from dataclasses import dataclass
from typing import Annotated

import typer

from calcli.cli import options as o
from calcli.cli.render import Table, print_made
from calcli.metrics.catalog import describe_metric, metric_names


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
    found = [
        describe_metric(name) for name in ([args.name] if args.name else metric_names())
    ]
    if args.name and args.people:
        print_made(f"{found[0]['name']}\n\n{found[0]['description']}\n")
    else:
        table = Table(
            ["metric", "what it measures"], [[m["name"], m["summary"]] for m in found]
        )
        args.print("metrics", [table], found)
    return 0
