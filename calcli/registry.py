"""Names to methods. Methods are found by their file names; nothing is imported early."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec

from calcli.calibrator import Calibrator, Laws, Options
from calcli.composition import composition, full_option_names
from calcli.errors import UsageError, has_file, unknown_name

HOMES = ("calcli.methods", "calcli.methods.compared")  # the methods that people choose, and those to compare with


@cache
def method_names() -> tuple[str, ...]:
    """Command-line names of all methods, sorted."""
    found = (module for home in HOMES for module in iter_modules(import_module(home).__path__) if not module.ispkg)
    return tuple(sorted(module.name.replace("_", "-") for module in found if module.name[0] != "_"))


def _file(name: str) -> str | None:
    """Module of the method of this very name; None where there is none. Lists and imports no method."""
    return next((f"{home}.{name.replace('-', '_')}" for home in HOMES if has_file(home, name)), None)


def canonical(name: str) -> str:
    """The name of a method that people may write otherwise: ``TS+Histogram`` is ``ts+hb``.

    Every part is resolved by itself; a name that nothing is known by stays as it is.
    """
    return "+".join(_one(part) for part in name.split("+"))


def _one(name: str) -> str:
    plain = _plain(name)
    return plain if _file(plain) else _aliases().get(plain, name)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


@cache
def _aliases() -> dict[str, str]:
    """What else methods are called: the aliases that they declare, and their titles."""
    found: dict[str, str] = {}
    for name in method_names():
        cls = method(name)
        for alias in (*vars(cls).get("aliases", ()), _plain(cls.title)):  # a subclass has names of its own
            found.setdefault(alias, name)
    return found


@cache
def method(name: str) -> type[Calibrator]:
    """The class of a method by its command-line name, compositions (``ts+hb``) included.

    Raises UsageError for unknown names and for compositions that cannot work.
    """
    if "+" in name:
        parts = [(part, method(part)) for part in name.split("+")]
        for part, stage in parts:
            if not stage.composable:
                raise UsageError(f"method {name!r}: {part} chooses a whole composition and cannot be part of one")
        return composition(parts)
    file = _file(name)
    if file is None:
        raise unknown_name("method", name, method_names())
    cls: type[Calibrator] = import_module(file).METHOD
    for promise, kind in (("laws", Laws), ("title", str)):
        if not isinstance(getattr(cls, promise, None), kind):
            raise TypeError(f"method {name!r} does not declare its {promise}")
    return cls


def parse_options(name: str, settings: dict[str, Any]) -> Options:
    """Options of a method from ``{"bins": "20"}``-like settings, checked.

    Raises UsageError that names the option, what was given and what is allowed.
    """
    cls = method(name)
    struct = cls.Options
    if "+" in name:
        settings = full_option_names(name, struct, settings)
    fields = {f.encode_name: f for f in msgspec.structs.fields(struct)}
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if not fields:
            raise UsageError(f"method {name!r} has no options, got --set {key}=…")
        if key not in fields:
            raise unknown_name(f"option of method {name!r}", key, fields)
        try:
            values[fields[key].name] = msgspec.convert(value, fields[key].type, strict=False)
        except msgspec.ValidationError:
            allowed = next(facts["allowed"] for facts in option_facts(struct) if facts["name"] == key)
            raise UsageError(
                f"option {key}={value!r} of method {name!r}: expected {allowed}; see calcli methods {name}"
            ) from None
    options = struct(**values)
    cls.check_options(options)
    return options


def option_facts(struct: type[Any]) -> list[dict[str, Any]]:
    """Options of a method as people read them: name, default, allowed, description."""
    schema = msgspec.json.schema(struct)
    properties = schema["$defs"][struct.__name__]["properties"]
    return [
        {
            "name": option,
            "default": facts.get("default"),
            "allowed": allowed_text(facts),
            "description": facts.get("description", ""),
        }
        for option, facts in properties.items()
    ]


def allowed_text(facts: dict[str, Any]) -> str:
    """What a JSON Schema allows, as people read it."""
    if "anyOf" in facts:
        return " or ".join(allowed_text(one) for one in facts["anyOf"])
    if "enum" in facts:
        return "|".join(map(str, facts["enum"]))
    if "const" in facts:
        return str(facts["const"])
    plain = {"null": "none", "boolean": "true|false", "string": "text", "array": "list"}
    kind = plain.get(facts["type"], facts["type"])
    low, high = facts.get("minimum"), facts.get("maximum")
    above, below = facts.get("exclusiveMinimum"), facts.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f"{kind} from {low:g} to {high:g}" if kind == "number" else f"{kind} from {low} to {high}"
    bounds = [
        f">= {low}" if low is not None else f"> {above}" if above is not None else "",
        f"<= {high}" if high is not None else f"< {below}" if below is not None else "",
    ]
    return " ".join([kind, *filter(None, bounds)])
