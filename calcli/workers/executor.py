"""Executors: take tasks and return their results in order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from calcli.errors import WorkersLost

ATTEMPTS = 3  # workers that may die during a task before it is given up


class Task(Protocol):
    """A picklable callable for a worker, with a name for people."""

    @property
    def name(self) -> str: ...
    def __call__(self) -> Any: ...


class Executor(ABC):
    """Pool of workers.

    count : their number. remote : they may run in another folder, on other machines.
    """

    count: int
    remote = False

    @abstractmethod
    def run(
        self, tasks: Sequence[Task], lost: Callable[[WorkersLost], Any] | None = None
    ) -> Iterator[Any]:
        """Yield the results of the tasks, in their order.

        A task whose worker dies is repeated by another; an exception of a task is
        raised here. lost : makes the result of a task during which several workers have
        died; without it WorkersLost is raised. Raises WorkersLost also if no worker is
        left.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the workers."""


def given_up(task: Task, lost: Callable[[WorkersLost], Any] | None) -> Any:
    """Return ``lost``'s result for a task during which workers died.

    Raises WorkersLost without ``lost``.
    """
    advice = "is there memory enough? fewer --workers need less"
    problem = WorkersLost(
        f"{ATTEMPTS} workers died one after the other over {task.name}; {advice}"
    )
    if lost is None:
        raise problem
    return lost(problem)
