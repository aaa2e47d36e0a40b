"""Declaration of options as fields of a struct: name of the flag, type, bounds and help.

The structs do not depend on the command line: ``calcli.cli.app`` builds the parser from them.
"""

from dataclasses import MISSING, field, fields
from functools import partial
from typing import Any

REQUIRED: Any = MISSING  # the default of an option that must be given


def flag(
    default: Any,
    help: str,
    metavar: str | None = None,
    *names: str,
    shown: Any = True,
    kw_only: Any = MISSING,
    typed: Any = None,
    **bounds: float,
) -> Any:
    """Declare a field as an option.

    names : spellings. The long one defaults to the field's name; a short one alone (``-o``) is added to it.
    ``--a/--no-a`` are the two states of a switch. shown : the default as help shows it. kw_only : as in
    ``dataclasses.field``. typed : the type on the command line (None if not given), where the struct converts it.
    bounds : min, max.
    """
    about = {
        "help": help,
        "metavar": metavar,
        "names": names,
        "shown": shown,
        "typed": typed,
        "bounds": bounds,
    }
    return field(default=default, metadata={"flag": about}, kw_only=kw_only)


def same(struct: type, name: str) -> Any:
    """Declare a field as the option that another struct declares."""
    return next(
        field(default=each.default, metadata=each.metadata)
        for each in fields(struct)
        if each.name == name
    )


def taken(struct: type, given: Any) -> dict[str, Any]:
    """Values of the fields of ``struct`` that ``given``, a struct of options, has too, by name."""
    return {
        each.name: getattr(given, each.name)
        for each in fields(struct)
        if hasattr(given, each.name)
    }


def typed(given: Any) -> tuple[tuple[str, ...], ...]:
    """Command-line words of a struct of options: positional arguments, then every option not at its default."""
    found: list[tuple[str, ...]] = []
    for each in fields(given):
        value = getattr(given, each.name)
        if "argument" in each.metadata and value is not None:
            found[:0] = [
                (str(word),) for word in (value if isinstance(value, list) else [value])
            ]
        elif "flag" in each.metadata and value != each.default and value is not None:
            names = [
                f"--{each.name.strip('_').replace('_', '-')}",
                *each.metadata["flag"]["names"],
            ]
            name, _, off = names[-1].partition("/")
            if isinstance(value, bool):
                found.append((name if value else off,))
            else:
                values = (
                    value
                    if isinstance(value, list)
                    else [",".join(value) if isinstance(value, tuple) else value]
                )
                found += [(name, str(one)) for one in values]
    return tuple(found)


seed = partial(flag, 0, "Seed of every random draw.", "N", min=0)


def argument(default: Any, help: str, metavar: str) -> Any:
    """Declare a field as a positional argument."""
    return field(
        default=default, metadata={"argument": {"help": help, "metavar": metavar}}
    )
