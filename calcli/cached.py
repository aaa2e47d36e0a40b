"""``cached_property`` without a lock.

Until Python 3.12 that of the standard library holds one lock per property over all instances while a value
is made: a fork meanwhile leaves it locked in the child, for ever. Two threads at once may make a value twice here.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:  # as the standard library has it
        """An attribute that a method makes when it is first asked for."""

        def __init__(self, method: Any) -> None:
            self.method, self.__doc__ = method, method.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.method(instance)
            return value
