"""Ways to make a calculator wrong."""

import dataclasses
from collections.abc import Callable
from typing import Any

Calculator = Callable[..., Any]
Mutant = tuple[object, str, Callable[[Calculator], Calculator]]
"""Owner, name of the calculator in it, and what is done to it."""


def scaled(function: Calculator) -> Calculator:
    """2 % too large."""
    return lambda *a, **k: function(*a, **k) * 1.02


def raised(function: Calculator) -> Calculator:
    """Too large by 2."""
    return lambda *a, **k: function(*a, **k) + 2


def wrong_where(condition: Callable[..., bool]) -> Callable[[Calculator], Calculator]:
    """2 % off where the condition on the arguments holds, right elsewhere."""

    def mutate(function: Calculator) -> Calculator:
        return lambda *a, **k: function(*a, **k) * (1.02 if condition(*a, **k) else 1.0)

    return mutate


def larger_field(field: str) -> Callable[[Calculator], Calculator]:
    """One field of the dataclass returned is 2 % too large."""

    def mutate(function: Calculator) -> Calculator:
        def mutant(*a: Any, **k: Any) -> Any:
            found = function(*a, **k)
            return dataclasses.replace(found, **{field: 1.02 * getattr(found, field)})

        return mutant

    return mutate
