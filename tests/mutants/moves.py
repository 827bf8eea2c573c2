"""How a field of a result is moved: by 1 %, by one, to the other truth value, to another word."""

import copy
import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.mutants.surface import Leaf

SHARE = 0.01
"""Relative size of a wrong number."""


@dataclass(frozen=True)
class Move:
    """What becomes of one value; ``name`` says so in a list of survivors."""

    name: str
    change: Callable[[Any], Any]


def _times(factor: float) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        return None if value is None else value * factor  # 0 and infinities stay what they are

    return change


def _plus(step: int) -> Callable[[Any], Any]:
    return lambda value: None if value is None else value + step


def _flip_one(mask: Any) -> Any:
    """One entry of a mask taken out or put in."""
    other = np.array(mask)
    other.flat[0] = not other.flat[0]
    return other


def _longer(factor: float) -> tuple[Move, ...]:
    return Move(f"x {1 + factor:g}", _times(1 + factor)), Move(f"x {1 - factor:g}", _times(1 - factor))


MOVES: dict[str, tuple[Move, ...]] = {
    "float": _longer(SHARE),
    "array": _longer(SHARE),
    "int": (Move("+ 1", _plus(1)), Move("- 1", _plus(-1))),
    "bool": (Move("flipped", lambda b: not b),),
    "mask": (Move("one entry flipped", _flip_one),),
    "str": (Move("another word", lambda word: word and word + "?"),),
}

ERROR_BAR = (Move("x 0.5", _times(0.5)), Move("x 2", _times(2.0)))
"""An error bar lies when it is half or twice as long: a 5-sigma interval then misses at 2.5 sigma, or never."""

ZERO = {
    "float": Move("0 -> 0.01, inf -> 1000", lambda x: 0.01 if x == 0 or x is None else 1e3 if math.isinf(x) else x),
    "array": Move("0 -> 0.01", lambda x: x if np.any(x) else x + 0.01),
    "str": Move("None -> a word", lambda word: "?" if word is None else word),
}
"""What is done to a field that is zero, infinite or None wherever it is checked, so that no share of it can be wrong."""
TO_THE_WRONG_SIDE = {("gradients.QuadraticForm.chernoff", ()): "x 0.99"}
"""Bounds that promise no width: calculator and path to the move that breaks them."""


def moves(calculator: str, leaf: Leaf) -> tuple[Move, ...]:
    """The ways in which this field may be wrong."""
    if (calculator, leaf.path) in TO_THE_WRONG_SIDE:
        return tuple(m for m in MOVES[leaf.kind] if m.name == TO_THE_WRONG_SIDE[calculator, leaf.path])
    return ERROR_BAR if leaf.path and leaf.path[-1] == "standard_error" else MOVES[leaf.kind]


def moved(result: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """A copy of ``result`` with the value at ``path`` changed; where there is no such value, the result itself."""
    if not path:
        return change(result)
    step, rest = path[0], path[1:]
    if result is None or (isinstance(step, str) and not hasattr(result, step)):  # of several kinds this is another one
        return result
    if step is ...:
        return tuple(moved(part, rest, change) for part in result)
    if isinstance(step, int):
        return tuple(moved(part, rest, change) if i == step else part for i, part in enumerate(result))
    other = copy.copy(result)  # not dataclasses.replace, which would validate
    object.__setattr__(other, step, moved(getattr(result, step), rest, change))
    return other


def same(first: Any, second: Any) -> bool:
    """Whether the move left the value as it was (an infinity, a zero, a None)."""
    if dataclasses.is_dataclass(first):
        return all(same(getattr(first, f.name), getattr(second, f.name)) for f in dataclasses.fields(first))
    if isinstance(first, tuple):
        return all(same(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, np.ndarray):
        return bool(np.array_equal(first, second, equal_nan=True))
    return bool(first == second or (isinstance(first, float) and math.isnan(first) and math.isnan(second)))
