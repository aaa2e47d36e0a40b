"""Registry of methods by name. Methods are found by their file names and imported on use."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec

from calcli.calibrator import Calibrator, Laws, Options
from calcli.composition import (
    Composition,
    composition,
    full_option_names,
    joint_options,
)
from calcli.errors import UsageError, has_file, unknown_name
from calcli.rows import Rows

HOMES = (
    "calcli.methods",
    "calcli.methods.compared",
)  # recommended methods, and those kept for comparison


@cache
def method_names() -> tuple[str, ...]:
    found = (
        module
        for home in HOMES
        for module in iter_modules(import_module(home).__path__)
        if not module.ispkg
    )
    return tuple(
        sorted(
            module.name.replace("_", "-") for module in found if module.name[0] != "_"
        )
    )


def _file(name: str) -> str | None:
    """Module of the method with exactly this name; None if there is none. Neither lists nor imports methods."""
    return next(
        (f"{home}.{name.replace('-', '_')}" for home in HOMES if has_file(home, name)),
        None,
    )


def canonical(name: str) -> str:
    """Canonical name of a method: ``TS+Histogram`` is ``ts+hb``. Every part is resolved by itself; unknown names are
    returned unchanged."""
    parts = [(part, _plain(part)) for part in name.split("+")]
    return "+".join(
        plain if _file(plain) else _aliases().get(plain, part) for part, plain in parts
    )


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


@cache
def _aliases() -> dict[str, str]:
    """Method names by alias: declared aliases, and titles."""
    found: dict[str, str] = {}
    for name in method_names():
        cls = method(name)
        for alias in (
            *vars(cls).get("aliases", ()),
            _plain(cls.title),
        ):  # a subclass has names of its own
            found.setdefault(alias, name)
    return found


@cache
def method(name: str) -> type[Calibrator]:
    """The class of a method by its command-line name, compositions (``ts+hb``) included. Raises UsageError for unknown
    names and for compositions that cannot work."""
    if "+" in name:
        return composition(tuple((part, method(part)) for part in name.split("+")))
    file = _file(name)
    if file is None:
        raise unknown_name("method", name, method_names(), _aliases())
    for cls in vars(import_module(file)).values():
        if (
            isinstance(cls, type)
            and cls.__module__ == file
            and "title" in vars(cls)
            and issubclass(cls, Calibrator)
        ):
            if not isinstance(getattr(cls, "laws", None), Laws):
                raise TypeError(f"method {name!r} does not declare its laws")
            return cls
    raise TypeError(f"{file} has no subclass of Calibrator with a title")


def by_group(name: str) -> str:
    """Name of the method that fits another one group by group. Raises UsageError where there is none."""
    able = [each.removesuffix("-by") for each in method_names() if each.endswith("-by")]
    if name.removesuffix("-by") not in able:
        raise UsageError(
            f"by group there are the methods {' and '.join(able)}, not {name!r}"
        )
    return f"{name.removesuffix('-by')}-by"


def with_predictions_kept(name: str, options: Options) -> tuple[str, Options]:
    """Name and options of the method that does the same and keeps predictions.

    ``keep`` comes after the last stage that moves them; ``auto`` has an option for it.
    options : as of ``resolve_options``.
    """
    if not method(name).moves_predictions(options):
        return name, options
    stages = stages_of(name, options)
    moving = [
        place
        for place, (stage, own) in enumerate(stages)
        if method(stage).moves_predictions(own)
    ]
    last, own = stages[moving[-1]]
    if last == "auto":
        stages[moving[-1]] = last, msgspec.structs.replace(own, keep_argmax=True)
    else:
        stages.insert(moving[-1] + 1, ("keep", method("keep").Options()))
    return of_stages(stages)


def with_predictions_free(name: str, options: Options) -> tuple[str, Options]:
    """Name and options of the method with ``auto`` in it free to change predictions."""
    stages = stages_of(name, options)
    for place, (stage, own) in enumerate(stages):
        if stage == "auto":
            stages[place] = stage, msgspec.structs.replace(own, keep_argmax=False)
    return of_stages(stages)


def stages_of(name: str, options: Options) -> list[tuple[str, Options]]:
    """Names and options of a method's stages; of itself where it is no composition."""
    cls = method(name)
    if not issubclass(cls, Composition):
        return [(name, options)]
    return list(zip(cls.names, cls.split(options), strict=True))


def of_stages(stages: list[tuple[str, Options]]) -> tuple[str, Options]:
    """Name and options of the method with these stages."""
    if len(stages) == 1:
        return stages[0]
    name = "+".join(stage for stage, _ in stages)
    return name, joint_options(method(name), [own for _, own in stages])


def split_list(text: str, by: str = ",") -> list[str]:
    """Split a list at separators outside brackets and strip blanks: ``ts, auto(candidates=ts,ec)`` has two parts."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == by and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in map(str.strip, parts) if part]


def settings_of(texts: Iterable[str], where: str) -> dict[str, str]:
    """Parse settings, ``bins=20`` to ``{"bins": "20"}``. where : prefix of messages. Raises UsageError."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals):
            raise UsageError(f"{where}{text}: expected NAME=VALUE, e.g. {where}bins=20")
        if name in settings:
            raise UsageError(f"{where}{name} is given twice")
        settings[name] = value
    return settings


def split_method(text: str) -> tuple[str, dict[str, str]]:
    """Name and settings of a method as people write it: ``Histogram (bins=20; scheme=mass)`` is hb with these. Raises
    UsageError for brackets that are not paired."""
    found = re.fullmatch(r"([^()]*)(?:\((.*)\))?", text.strip(), re.DOTALL)
    if found is None:
        raise UsageError(
            f"{text!r}: expected a method, with options as in hb(bins=20;scheme=mass)"
        )
    name = canonical(found[1].strip())
    return name, settings_of(split_list(found[2] or "", ";"), f"{name}: ")


DEFAULT_METHOD = "auto"


def default_method(rows: Rows, by: bool = False) -> str:
    """Default method: ``auto``. by : fit by group, which only ``ts`` and ``platt`` support."""
    if not by:
        return DEFAULT_METHOD
    return "platt" if rows.kind == "confidence" else "ts"


def spelled(text: str) -> str:
    """Canonical spelling of a method with its options, as tables and records name it."""
    name, settings = split_method(text)
    return name + (
        f"({';'.join(f'{key}={value}' for key, value in settings.items())})"
        if settings
        else ""
    )


def parse_method(text: str) -> tuple[str, Options]:
    """Name and checked options of ``svs`` or ``hb(bins=20;scheme=mass)``. Raises UsageError."""
    name, settings = split_method(text)
    return name, parse_options(name, settings)


def parse_options(name: str, settings: Mapping[str, Any]) -> Options:
    """Options of a method from ``{"bins": "20"}``-like settings, checked (see ``held_to``). Raises UsageError."""
    cls = method(name)
    struct = cls.Options
    if "+" in name:
        settings = full_option_names(name, struct, settings)
    fields = {f.encode_name: f for f in msgspec.structs.fields(struct)}
    if settings and not fields:
        raise UsageError(
            f"method {name!r} has no options, got --set {next(iter(settings))}=…"
        )
    types = {key: option.type for key, option in fields.items()}
    values = held_to(
        types,
        settings,
        "option",
        f" of method {name!r}",
        f"; see calcli methods {name}",
        strict=False,
    )
    options = struct(**{fields[key].name: value for key, value in values.items()})
    cls.check_options(options)
    return options


def held_to(
    types: Mapping[str, Any],
    given: Mapping[str, Any],
    what: str,
    of: str = "",
    see: str = "",
    *,
    strict: bool = True,
) -> dict[str, Any]:
    """Validate values by name against declared types and bounds. strict : do not convert text to numbers. Raises
    UsageError that names the setting (``what``, ``of``), the value, what is allowed and where to ``see`` it."""
    values = {}
    for name, value in given.items():
        if name not in types:
            raise unknown_name(what + of, name, types)
        try:
            values[name] = msgspec.convert(value, types[name], strict=strict)
        except msgspec.ValidationError:
            allowed = allowed_text(msgspec.json.schema(types[name]))
            raise UsageError(
                f"{what} {name}={value!r}{of}: expected {allowed}{see}"
            ) from None
    return values


def option_facts(struct: type[Any]) -> list[dict[str, Any]]:
    """Table of a method's options: name, default, allowed values, description."""
    described = []
    for name, facts in msgspec.json.schema(struct)["$defs"][struct.__name__][
        "properties"
    ].items():
        words = {
            "allowed": allowed_text(facts),
            "description": facts.get("description", ""),
        }
        described.append({"name": name, "default": facts.get("default"), **words})
    return described


def allowed_text(facts: dict[str, Any]) -> str:
    """Describe the values that a JSON Schema allows, for people."""
    if "anyOf" in facts:
        return " or ".join(allowed_text(one) for one in facts["anyOf"])
    if "enum" in facts:
        return "|".join(map(str, facts["enum"]))
    if "const" in facts:
        return str(facts["const"])
    plain = {"null": "none", "boolean": "true|false", "string": "text", "array": "list"}
    kind = plain.get(facts["type"], facts["type"])
    low, high = facts.get("minimum"), facts.get("maximum")
    if low is not None and high is not None:
        return (
            f"{kind} from {low:g} to {high:g}"
            if kind == "number"
            else f"{kind} from {low} to {high}"
        )
    signs = {
        "minimum": ">=",
        "exclusiveMinimum": ">",
        "maximum": "<=",
        "exclusiveMaximum": "<",
    }
    return " ".join(
        [
            kind,
            *(
                f"{sign} {facts[bound]}"
                for bound, sign in signs.items()
                if bound in facts
            ),
        ]
    )
