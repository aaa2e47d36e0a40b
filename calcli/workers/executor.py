"""Who does the work: an executor takes tasks and hands back their results in order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from calcli.errors import WorkersLost

ATTEMPTS = 3
"""Workers that may die over a task before it is given up."""


class Named(Protocol):
    """A task: what a worker calls, pickled on the way, with a name for people."""

    @property
    def name(self) -> str: ...
    def __call__(self) -> Any: ...


class Executor(ABC):
    """Workers. count : how many; ``remote`` where they may run in another folder, on other machines."""

    count: int
    remote = False

    @abstractmethod
    def run(self, tasks: Sequence[Named], lost: Callable[[WorkersLost], Any] | None = None) -> Iterator[Any]:
        """Results of the tasks, in their order.

        A task whose worker dies is done by another; what a task raises is raised here. lost : makes
        the result of a task that workers die over one after the other, which otherwise ends the work.
        Raises WorkersLost then, and when nobody is left to do the work.
        """

    @abstractmethod
    def close(self) -> None:
        """Let the workers go."""


def given_up(task: Named) -> WorkersLost:
    """The error for a task that workers die over."""
    return WorkersLost(
        f"{ATTEMPTS} workers died one after the other over {task.name}; is there memory enough? fewer --workers"
        " need less"
    )
