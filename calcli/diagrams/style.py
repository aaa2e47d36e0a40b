"""Interface of diagram styles, which are found by their file names.

To add a style, write one file in ``styles/``: its name is the style's name, the first
line of its docstring the help text, and it has one subclass of ``Figure``. Command,
help, formats and the generic tests find it there.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import get_data, iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from calcli.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from calcli.calibrator import Progress
    from calcli.diagrams.curve import CurveSettings, Quantity
    from calcli.diagrams.matplotlib_theme import Paper
    from calcli.diagrams.panels import Measured
    from calcli.diagrams.terminal import Look
    from calcli.rows import Rows


@dataclass(frozen=True)
class Request:
    """Data and options of a diagram.

    sets : row tables of every bundle and calibrator. rows, source, temperatures : the
    open bundle, its name and (name, temperature) of calibrators, for styles with
    ``needs_scores``. quantity : None is both for two classes. by : one panel or line
    per predicted class or group. names : of the classes. ordered : groups are batches
    in order of time. panels : largest number of panels or lines.
    """

    settings: "CurveSettings"
    sets: Sequence["Measured"] = ()
    notes: Sequence[str] = ()
    title: str | None = None
    layout: Literal["side", "overlay"] = "side"
    quantity: "Quantity | None" = None
    by: Literal["class", "group"] | None = None
    names: Sequence[str] | None = None
    ordered: bool = False
    panels: int | None = None
    rows: "Rows | None" = None
    source: str = ""
    temperatures: Sequence[tuple[str, float]] = ()
    progress: "Progress | None" = None

    @property
    def what(self) -> str:
        """Title: as requested, else the name of the bundle, or the number of bundles."""
        if self.title is not None:
            return self.title
        bundles = self.bundles
        return bundles[0] if len(bundles) == 1 else f"{len(bundles)} bundles"

    @property
    def bundles(self) -> list[str]:
        """Names of the bundles, each once."""
        return list(dict.fromkeys(measured.bundle for measured in self.sets))

    @property
    def calibrators(self) -> list[str]:
        """What the sets are called by their calibrators, each once."""
        return list(dict.fromkeys(measured.label for measured in self.sets))

    @property
    def labels(self) -> list[str]:
        """Names of the sets: of the bundle where there are several, and of the
        calibrator where that differs.
        """
        has_bundles = len(self.bundles) > 1
        has_calibrators = len(self.calibrators) > 1
        labels = []
        for measured in self.sets:
            if has_bundles and has_calibrators:
                labels.append(f"{measured.bundle}, {measured.label}")
            elif has_bundles:
                labels.append(measured.bundle)
            else:
                labels.append(measured.label)
        return labels


Plotted = tuple[Sequence[str], Sequence[Sequence[Any]]]
"""Names of columns, and rows of all that is drawn; None where there is no number."""


class Figure(ABC):
    """Numbers of a figure and methods that show them: a frozen dataclass, whose fields
    are its JSON keys.

    title : the line above everything, may be empty. needs_scores : measured from the
    open bundle, not from row tables. by_part : can show classes and groups. many :
    accepts several bundles. ignores : options of ``diagram`` that have no effect, by
    the names of their fields.
    """

    title: str
    needs_scores: ClassVar[bool] = False
    by_part: ClassVar[bool] = False
    many: ClassVar[bool] = True
    ignores: ClassVar[tuple[str, ...]] = ()

    @property
    def style(self) -> str:
        """Name of the style, which is that of its file."""
        return type(self).__module__.rpartition(".")[2]

    @classmethod
    @abstractmethod
    def measure(cls, request: Request) -> "Figure":
        """Measure the numbers; may return another style's figure that suits them
        better.
        """

    @abstractmethod
    def draw(self, paper: "Paper") -> Any:
        """Draw a matplotlib figure; called inside ``paper.matplotlib()``."""

    @abstractmethod
    def text(self, width: int, look: "Look") -> list[str]:
        """Lines for a terminal, at most ``width`` characters wide."""

    @abstractmethod
    def table(self) -> Plotted:
        """All that is drawn, as a table."""

    @abstractmethod
    def describe(self) -> str:
        """Alternative text of the picture, for those who do not see it."""


@cache
def style_names() -> tuple[str, ...]:
    """Names of all styles, sorted, without importing them."""
    modules = iter_modules(import_module("calcli.diagrams.styles").__path__)
    names = [module.name for module in modules]
    return tuple(sorted(name for name in names if not name.startswith("_")))


def style_titles() -> dict[str, str]:
    """Help line of every style, read from its file without running it."""
    titles = {}
    for name in style_names():
        text = get_data("calcli.diagrams.styles", f"{name}.py") or b""
        titles[name] = text.decode().splitlines()[0].strip('" .')
    return titles


@cache
def style(name: str) -> type[Figure]:
    """Class of a style by its name. Raises UsageError for an unknown one."""
    if name not in style_names():
        raise unknown_name("diagram style", name, style_names())
    module = import_module(f"calcli.diagrams.styles.{name}")
    for value in vars(module).values():
        is_own_class = isinstance(value, type) and value.__module__ == module.__name__
        if is_own_class and issubclass(value, Figure):
            return value
    raise LookupError(f"{module.__name__} has no subclass of Figure")


def check(request_of: type[Figure], name: str, *, bundles: int, by: str | None) -> None:
    """Refuse what a style cannot draw.

    by : the option that asks for parts. Raises UsageError.
    """
    if by is not None and not request_of.by_part:
        raise UsageError(
            f"--style {name} has no panels per class or group; leave {by} out"
        )
    if bundles > 1 and (not request_of.many or by is not None):
        raise UsageError(
            f"{by or f'--style {name}'} draws one bundle, got {bundles}; name one"
        )
