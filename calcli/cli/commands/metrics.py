"""List the metrics, or describe one: definition, range, reference.

\b
calcli metrics
calcli metrics ece
"""

from dataclasses import dataclass
from typing import Annotated

import typer

from calcli.cli import options as o
from calcli.cli.render import print_json, print_table
from calcli.metrics.catalog import describe_metric, metric_names

ORDER = 80


@dataclass(frozen=True)
class MetricsArgs:
    """What was typed after ``calcli metrics``."""

    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Describe this metric.")] = None
    json: o.Json = False


def run(args: MetricsArgs) -> int:
    """Print one line a metric, or everything about one."""
    found = [describe_metric(name) for name in ([args.name] if args.name else metric_names())]
    if args.json:
        print_json({"calcli_metrics": 1, "metrics": found})
    elif args.name:
        print(f"{found[0]['name']}\n\n{found[0]['description']}")
    else:
        print_table(["metric", "what it measures"], [[m["name"], m["summary"]] for m in found])
    return 0
