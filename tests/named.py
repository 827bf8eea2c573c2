"""Keyword arguments of calculators from the values of a test's case."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any


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
