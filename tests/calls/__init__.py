"""Valid calls of every public callable: plain data for the tests that go through all of them.

A key is the full name; that of a method ends in ``Class.method`` and its calls hold the object as ``self``. The first call
is small; where a callable is used at sizes of millions, a later one has such a size.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Cost = Literal["cheap", "dear", "slow"]


@dataclass(frozen=True)
class Fresh:
    """An argument that a call uses up, such as a random generator: made anew for every call."""

    make: Callable[[], Any]


@dataclass(frozen=True)
class Call:
    """Keyword arguments that are accepted.

    Attributes:
        arguments: by name; a function that gives them where they belong together, as an optimizer and its module do.
        cost: "cheap"; "dear" if it takes more than about a millisecond, so that a test should not repeat it hundreds of
            times; "slow" if it takes a second.
        use: what is done with the result, as part of the call: whatever fails there has to name the argument, too.
    """

    arguments: Mapping[str, Any] | Callable[[], Mapping[str, Any]]
    cost: Cost = "cheap"
    use: Callable[[Any], Any] | None = None

    def made(self) -> dict[str, Any]:
        """The arguments, those that are used up made anew."""
        given = self.arguments() if callable(self.arguments) else self.arguments
        return {name: value.make() if isinstance(value, Fresh) else value for name, value in given.items()}


Calls = dict[str, list[Call]]


def call(**arguments: Any) -> Call:
    """A cheap call."""
    return Call(arguments)


def used(use: Callable[[Any], Any], **arguments: Any) -> Call:
    """A call whose result is put to use."""
    return Call(arguments, use=use)


def dear(**arguments: Any) -> Call:
    """A call of a millisecond and more."""
    return Call(arguments, "dear")


def slow(**arguments: Any) -> Call:
    """A call of a second."""
    return Call(arguments, "slow")


def by_name(names: str, values: Iterable[Any]) -> dict[str, Any]:
    """Keyword arguments: the first of ``names``, which stand apart by blanks, with one value each.

    >>> by_name("dim keep theta", (10, 3))
    {'dim': 10, 'keep': 3}
    """
    given = tuple(values)
    return dict(zip(names.split()[: len(given)], given, strict=True))


def in_order(function: Callable[..., Any], values: Iterable[Any]) -> Any:
    """Call a function with its first arguments, in the order in which it names them."""
    return function(**by_name(" ".join(inspect.signature(function).parameters), values))
