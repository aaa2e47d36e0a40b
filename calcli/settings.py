"""Settings as fields of dataclasses: those that two of them share, and as words of a
command.
"""

from dataclasses import fields
from typing import Any, get_type_hints


def common_fields(settings: type, values: Any) -> dict[str, Any]:
    """Values of the fields of ``settings`` that ``values`` has too, by name."""
    common = {}
    for field in fields(settings):
        if hasattr(values, field.name):
            common[field.name] = getattr(values, field.name)
    return common


def command_words(options: Any) -> tuple[tuple[str, ...], ...]:
    """Words of a command line: positional arguments, then options not at their default.

    options : a dataclass; its fields may be annotated as options of Typer. Returns a
    group of words for every argument and every option.
    """
    hints = get_type_hints(type(options), include_extras=True)
    arguments: list[tuple[str, ...]] = []
    named: list[tuple[str, ...]] = []
    for field in fields(options):
        value = getattr(options, field.name)
        if value is None or value == field.default:
            continue
        declared = getattr(hints[field.name], "__metadata__", ())
        if any(type(option).__name__ == "ArgumentInfo" for option in declared):
            values = value if isinstance(value, list) else [value]
            arguments += [(str(word),) for word in values]
        else:
            named += _option_words(field.name, declared, value)
    return (*arguments, *named)


def _option_words(name: str, declared: Any, value: Any) -> list[tuple[str, ...]]:
    """Words of an option, a group for every value."""
    spellings = [f"--{name.strip('_').replace('_', '-')}"]
    for option in declared:
        # in an annotation the first spelling is taken for the default
        first = getattr(option, "default", None)
        declared_names = getattr(option, "param_decls", None) or ()
        if isinstance(first, str) and first.startswith("-"):
            declared_names = (first, *declared_names)
        spellings = list(declared_names) or spellings
    spelling, _, negative = spellings[-1].partition("/")
    if isinstance(value, bool):
        # Typer makes --no-NAME where no spellings are declared
        negative = negative or spelling.replace("--", "--no-", 1)
        return [(spelling if value else negative,)]
    if isinstance(value, tuple):
        return [(spelling, ",".join(map(_word, value)))]
    values = value if isinstance(value, list) else [value]
    return [(spelling, _word(part)) for part in values]


def _word(value: Any) -> str:
    """A value as it is typed: whole numbers without a decimal point."""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value)
