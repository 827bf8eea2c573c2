"""The values of a case under the names of a calculator's arguments, which are keyword-only."""

from collections.abc import Iterable
from typing import Any


def by_name(names: str, values: Iterable[Any]) -> dict[str, Any]:
    """Keyword arguments: the first of ``names``, which stand apart by blanks, with one value each.

    >>> by_name("dim keep theta", (10, 3))
    {'dim': 10, 'keep': 3}
    """
    given = tuple(values)
    return dict(zip(names.split()[: len(given)], given, strict=True))
