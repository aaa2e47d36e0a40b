"""How an option is declared: a field of a struct that says what its flag is called, takes and means.

The structs know no command line: ``calcli.cli.app`` makes the parser of them.
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
    formerly: str | None = None,
    **bounds: float,
) -> Any:
    """A field that is an option.

    names : spellings. Without a long one it is made of the field's name, and ``-o`` alone is added to that.
    ``--a/--no-a`` are two ends of a switch. shown : the default as help shows it. kw_only : as of
    ``dataclasses.field``. typed : the type on the command line, None where it is not given, if the struct makes
    another of it. formerly : an older spelling, which is understood and not shown. bounds : min, max.
    """
    about = {"help": help, "metavar": metavar, "names": names, "shown": shown, "typed": typed, "bounds": bounds}
    about["formerly"] = formerly
    return field(default=default, metadata={"flag": about}, kw_only=kw_only)


def same(struct: type, name: str) -> Any:
    """The option that another struct declares, as a field of this one."""
    return next(field(default=each.default, metadata=each.metadata) for each in fields(struct) if each.name == name)


def taken(struct: type, given: Any) -> dict[str, Any]:
    """What a struct of options says about the fields of another, by their names."""
    return {each.name: getattr(given, each.name) for each in fields(struct) if hasattr(given, each.name)}


def typed(given: Any) -> tuple[tuple[str, ...], ...]:
    """A struct of options as it is typed: what stands without a name, then every option that is not at its default."""
    found: list[tuple[str, ...]] = []
    for each in fields(given):
        value = getattr(given, each.name)
        if "argument" in each.metadata and value is not None:
            found[:0] = [(str(word),) for word in (value if isinstance(value, list) else [value])]
        elif "flag" in each.metadata and value != each.default and value is not None:
            names = [f"--{each.name.strip('_').replace('_', '-')}", *each.metadata["flag"]["names"]]
            name, _, off = names[-1].partition("/")
            if isinstance(value, bool):
                found.append((name if value else off,))
            else:
                values = value if isinstance(value, list) else [",".join(value) if isinstance(value, tuple) else value]
                found += [(name, str(one)) for one in values]
    return tuple(found)


seed = partial(flag, 0, "Seed of every random draw.", "N", min=0)


def argument(default: Any, help: str, metavar: str) -> Any:
    """A field that is typed without a name."""
    return field(default=default, metadata={"argument": {"help": help, "metavar": metavar}})
