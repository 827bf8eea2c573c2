"""From a counterexample to a simpler one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dptheory.checks._search import Range

_MOST_TRIALS = 300


def shrink(
    parameters: Mapping[str, Any],
    ranges: Mapping[str, Range | Sequence[Any]],
    refutes: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """The parameters made simpler, one after the other, as long as they refute.

    Whole numbers go towards the low end, others to fewer digits, values towards the first of their row. ``refutes``
    is asked at most 300 times; it says no where time is over.
    """
    best, asked = dict(parameters), 0
    moved = True
    while moved:
        moved = False
        for name, where in ranges.items():
            for value in _simpler(best[name], where):
                if asked == _MOST_TRIALS:
                    return best
                asked += 1
                if refutes(best | {name: value}):
                    best[name] = value
                    moved = True
                    break
    return best


def _simpler(value: Any, where: Range | Sequence[Any]) -> Iterator[Any]:
    """Simpler values, the simplest first; each is strictly simpler than the value, so that shrinking ends."""
    if not isinstance(where, Range):
        yield from where[: next(i for i, one in enumerate(where) if one is value or bool(one == value))]
    elif where.integer:
        low = round(where.low)
        halves = (value - ((value - low) >> k) for k in range(1, (value - low).bit_length()))
        whole = {low, low + 1, low + 2, *halves}
        yield from sorted(one for one in whole if low <= one < value)
    else:
        tried = {
            0.0,
            1.0,
            2.0,
            0.5,
            -1.0,
            float(where.low),
            float(where.high),
            *(float(f"{value:.{n}g}") for n in (1, 2, 3, 6)),
        }
        fitting = {one for one in tried if where.low <= one <= where.high and _length(one) < _length(value)}
        yield from sorted(fitting, key=_length)


def _length(value: float) -> tuple[int, float]:
    return len(repr(float(value)).replace(".0", "")), abs(value)
