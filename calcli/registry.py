"""Find methods by name.

Methods are found by their file names and imported on use.
"""

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

HOMES = ("calcli.methods", "calcli.methods.compared")
"""Packages of the recommended methods, and of those kept for comparison."""


@cache
def method_names() -> tuple[str, ...]:
    """Names of all methods, sorted."""
    names = []
    for home in HOMES:
        for module in iter_modules(import_module(home).__path__):
            is_private = module.name.startswith("_")
            if not module.ispkg and not is_private:
                names.append(module.name.replace("_", "-"))
    return tuple(sorted(names))


def _file(name: str) -> str | None:
    """Module of the method with exactly this name; None if there is none.

    Neither lists nor imports methods.
    """
    for home in HOMES:
        if has_file(home, name):
            return f"{home}.{name.replace('-', '_')}"
    return None


def canonical(name: str) -> str:
    """Canonical name of a method: ``TS+Histogram`` is ``ts+hb``.

    Every part is resolved by itself. Unknown names are returned unchanged.
    """
    return "+".join(map(_canonical_part, name.split("+")))


def _canonical_part(part: str) -> str:
    plain = _plain(part)
    if _file(plain):
        return plain
    return _aliases().get(plain, part)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


@cache
def _aliases() -> dict[str, str]:
    """Method names by alias: declared aliases, and titles."""
    names: dict[str, str] = {}
    for name in method_names():
        cls = method(name)
        # vars: a subclass has names of its own.
        declared = vars(cls).get("aliases", ())
        for alias in (*declared, _plain(cls.title)):
            names.setdefault(alias, name)
    return names


@cache
def method(name: str) -> type[Calibrator]:
    """The class of a method by its command-line name, e.g. ``ts`` or ``ts+hb``.

    Raises UsageError for unknown names and for compositions that cannot work.
    """
    if "+" in name:
        return composition(tuple((part, method(part)) for part in name.split("+")))
    file = _file(name)
    if file is None:
        raise unknown_name("method", name, method_names(), _aliases())
    for cls in vars(import_module(file)).values():
        if not isinstance(cls, type) or cls.__module__ != file:
            continue
        if "title" not in vars(cls) or not issubclass(cls, Calibrator):
            continue
        if not isinstance(getattr(cls, "laws", None), Laws):
            raise TypeError(f"method {name!r} does not declare its laws")
        return cls
    raise TypeError(f"{file} has no subclass of Calibrator with a title")


BY_GROUP = "-by"
"""Ending of the names of methods that fit a map for every group."""

BY = "by"
"""Option of these methods: the column of groups."""


def is_by_group(name: str) -> bool:
    """True if a method, or a stage of a composition, fits a map for every group."""
    return any(stage.endswith(BY_GROUP) for stage in name.split("+"))


def by_group(name: str) -> str:
    """Name of the method that fits another one group by group.

    Raises UsageError where there is none.
    """
    able = []
    for known in method_names():
        if known.endswith(BY_GROUP):
            able.append(known.removesuffix(BY_GROUP))
    plain_name = without_group(name)
    if plain_name not in able:
        raise UsageError(
            f"by group there are the methods {' and '.join(able)}, not {name!r}"
        )
    return f"{plain_name}{BY_GROUP}"


def without_group(name: str) -> str:
    """Name of the method whose maps another one fits for every group; else the same."""
    return name.removesuffix(BY_GROUP)


def with_group_column(
    name: str, settings: Mapping[str, str], column: str
) -> dict[str, str]:
    """Settings in which maps by group are by this column, if they say none.

    column : that of the groups of the rows; "" leaves the method's default.
    """
    if not column or not is_by_group(name):
        return dict(settings)
    return {BY: column, **settings}


def with_predictions_kept(name: str, options: Options) -> tuple[str, Options]:
    """Name and options of the method that does the same and changes no prediction.

    ``keep`` comes after the last stage that moves them; ``auto`` has an option for it.
    It comes last, too, where the final stage leaves another class above the prediction:
    who reads the probabilities takes the largest. options : as of ``resolve_options``.
    """
    if is_by_group(name) and method(name).moves_predictions(options):
        raise UsageError(
            f"{name}: maps by group have no accuracy-preserving form here; ts --by is"
            " one"
        )
    stages = stages_of(name, options)
    if method(name).moves_predictions(options):
        stages = _restored_after_moving(stages)
    last = stages[-1][0]
    if last != "auto" and not method(last).laws.monotone:
        stages.append(("keep", method("keep").Options()))
    return of_stages(stages)


def _restored_after_moving(
    stages: list[tuple[str, Options]],
) -> list[tuple[str, Options]]:
    """Stages with ``keep`` after the last that moves predictions, or ``auto`` told to."""
    last = 0
    for place, (stage, stage_options) in enumerate(stages):
        if method(stage).moves_predictions(stage_options):
            last = place
    stage, stage_options = stages[last]
    if stage == "auto":
        keeping = msgspec.structs.replace(stage_options, keep_argmax=True)
        return [*stages[:last], (stage, keeping), *stages[last + 1 :]]
    keep = ("keep", method("keep").Options())
    return [*stages[: last + 1], keep, *stages[last + 1 :]]


def with_predictions_free(name: str, options: Options) -> tuple[str, Options]:
    """Name and options of the method with ``auto`` in it free to change predictions."""
    stages = stages_of(name, options)
    for place, (stage, stage_options) in enumerate(stages):
        if stage == "auto":
            free = msgspec.structs.replace(stage_options, keep_argmax=False)
            stages[place] = (stage, free)
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
    names, options = zip(*stages, strict=True)
    name = "+".join(names)
    return name, joint_options(method(name), options)


def split_list(text: str, by: str = ",") -> list[str]:
    """Split a list at separators outside brackets, and strip blanks.

    ``ts, auto(candidates=ts,ec)`` has two parts.
    """
    parts = [""]
    depth = 0
    for character in text:
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        if character == by and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return list(filter(None, map(str.strip, parts)))


def settings_of(texts: Iterable[str], where: str) -> dict[str, str]:
    """Parse settings: ``bins=20`` gives ``{"bins": "20"}``.

    where : prefix of messages. Raises UsageError.
    """
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = map(str.strip, text.partition("="))
        if not (name and equals):
            raise UsageError(f"{where}{text}: expected NAME=VALUE, e.g. {where}bins=20")
        if name in settings:
            raise UsageError(f"{where}{name} is given twice")
        settings[name] = value
    return settings


def split_method(text: str) -> tuple[str, dict[str, str]]:
    """Name and settings of a method as people write it.

    ``Histogram (bins=20; scheme=mass)`` is hb with these settings. Raises UsageError
    for brackets that are not paired.
    """
    match = re.fullmatch(r"([^()]*)(?:\((.*)\))?", text.strip(), re.DOTALL)
    if match is None:
        raise UsageError(
            f"{text!r}: expected a method, with options as in hb(bins=20;scheme=mass)"
        )
    name = canonical(match[1].strip())
    settings = split_list(match[2] or "", ";")
    return name, settings_of(settings, f"{name}: ")


DEFAULT_METHOD = "auto"


def default_method(rows: Rows, by: bool = False) -> str:
    """Default method for these rows.

    by : fit by group, which only ``ts`` and ``platt`` support.
    """
    if not by:
        return DEFAULT_METHOD
    if rows.kind == "confidence":
        return "platt"
    return "ts"


def spelled(text: str, column: str = "") -> str:
    """Canonical spelling of a method with its options, as tables name it.

    column : as of ``with_group_column``.
    """
    name, settings = split_method(text)
    settings = with_group_column(name, settings, column)
    if not settings:
        return name
    words = [f"{key}={value}" for key, value in settings.items()]
    return f"{name}({';'.join(words)})"


def parse_method(text: str) -> tuple[str, Options]:
    """Name and checked options of ``svs`` or ``hb(bins=20;scheme=mass)``.

    Raises UsageError.
    """
    name, settings = split_method(text)
    return name, parse_options(name, settings)


def parse_options(name: str, settings: Mapping[str, Any]) -> Options:
    """Options of a method from settings such as ``{"bins": "20"}``, checked.

    Raises UsageError, see ``held_to``.
    """
    cls = method(name)
    struct = cls.Options
    if "+" in name:
        settings = full_option_names(name, struct, settings)
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
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
    settings: Mapping[str, Any],
    what: str,
    of: str = "",
    see: str = "",
    *,
    strict: bool = True,
) -> dict[str, Any]:
    """Validate values by name against declared types and bounds.

    strict : do not convert text to numbers. Raises UsageError that names the setting
    (``what``, ``of``), the value, what is allowed and where to ``see`` it.
    """
    values = {}
    for name, value in settings.items():
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


PLAIN_TYPES = {
    "null": "none",
    "boolean": "true|false",
    "string": "text",
    "array": "list",
}
"""Type in a JSON Schema -> the word for it; others are called as they are."""

BOUND_SIGNS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
}
"""Bound in a JSON Schema -> its sign."""


def allowed_text(facts: dict[str, Any]) -> str:
    """Describe the values that a JSON Schema allows, for people."""
    if "anyOf" in facts:
        return " or ".join(map(allowed_text, facts["anyOf"]))
    if "enum" in facts:
        return "|".join(map(str, facts["enum"]))
    if "const" in facts:
        return str(facts["const"])
    kind = PLAIN_TYPES.get(facts["type"], facts["type"])
    low = facts.get("minimum")
    high = facts.get("maximum")
    if low is not None and high is not None:
        if kind == "number":
            return f"{kind} from {low:g} to {high:g}"
        return f"{kind} from {low} to {high}"
    words = [kind]
    for bound, sign in BOUND_SIGNS.items():
        if bound in facts:
            words.append(f"{sign} {facts[bound]}")
    return " ".join(words)
