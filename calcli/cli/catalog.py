"""calcli methods, calcli metrics: what exists."""

from typing import Annotated, Any

import typer

from calcli.cli import options as o


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.command("methods", short_help="List the methods, or describe one.")(methods)
    app.command("metrics", short_help="List the metrics, or describe one.")(metrics)


def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Describe this method.")] = None,
    json: o.Json = False,
) -> None:
    """List the calibration methods, or describe one: formula, options, reference.

    \b
    calcli methods
    calcli methods hb
    calcli methods ts --json
    """
    from calcli.cli.render import print_json, print_table
    from calcli.registry import method_names

    if name is None:
        found = [describe(each) for each in method_names()]
        if json:
            print_json({"calcli_methods": 1, "methods": found})
            return
        head = ["method", "keeps predictions", "memory", "what it does"]
        print_table(head, [[m["name"], "yes" if m["keeps_argmax"] else "no", m["memory"], m["summary"]] for m in found])
        print("\nMethods compose with +, left to right, e.g. ts+hb. calcli methods NAME describes one.")
        return
    facts = describe(name)
    if json:
        print_json({"calcli_methods": 1, "methods": [facts]})
        return
    print(f"{facts['name']}: {facts['title']}\n\n{facts['description']}\n")
    if facts["options"]:
        print_table(
            ["option (--set)", "default", "allowed", "meaning"],
            [[f["name"], _default(f["default"]), f["allowed"], f["description"]] for f in facts["options"]],
        )
    else:
        print("This method has no options.")


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)


def describe(name: str) -> dict[str, Any]:
    """Everything known about a method, from its class."""
    from dataclasses import asdict
    from inspect import getdoc

    from calcli.registry import method, option_facts

    cls = method(name)
    text = getdoc(cls) or ""
    return {
        "name": name,
        "title": cls.title,
        "summary": text.split("\n", 1)[0],
        "description": text,
        **asdict(cls.laws),
        "options": option_facts(cls.Options),
    }


def metrics(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Describe this metric.")] = None,
    json: o.Json = False,
) -> None:
    """List the metrics, or describe one: definition, range, reference.

    \b
    calcli metrics
    calcli metrics ece
    """
    from calcli.cli.render import print_json, print_table
    from calcli.metrics.catalog import describe_metric, metric_names

    if name is None:
        found = [describe_metric(each) for each in metric_names()]
        if json:
            print_json({"calcli_metrics": 1, "metrics": found})
            return
        print_table(["metric", "what it measures"], [[m["name"], m["summary"]] for m in found])
        return
    facts = describe_metric(name)
    if json:
        print_json({"calcli_metrics": 1, "metrics": [facts]})
        return
    print(f"{facts['name']}\n\n{facts['description']}")
