"""Exact checks: a statement against the truth, case by case, by enumeration, algebra or arithmetic."""

import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dptheory._arrays import Array
from dptheory.checks._evidence import Evidence, Kind, failing
from dptheory.errors import ArgumentError

Value = Fraction | float | bool
Number = Value | np.generic | Array
"""What a calculator may return for one number: NumPy's scalars and arrays without axes count as the number that they hold."""
Sides = tuple[Number, Number | Callable[[], Number], Number | Callable[[], Number | None] | None]
"""(statement, truth, wrong): what the calculator gives; the value found without the formula under test (enumeration, a second
method); and the printed formula of a false claim, otherwise a perturbed statement, None where it says nothing of the case. A
truth that is dear, and a wrong value, may be a function of nothing: the mutation tests then need not compute it again."""


@dataclass(frozen=True)
class EqualityCheck:
    """In every case the first side that ``compare(*case)`` returns equals the second, and in at least one the third does not.

    Small cases are enough for these checks, so they run in one process whatever the executor.

    Args:
        name: unique within the claim.
        cases: gives the argument tuples.
        compare: gives (statement, truth, wrong); see :data:`Sides`.
        tolerance: relative difference that rounding may cause; 0 asks for equality (fractions, booleans).
        kind: EXACT, SYMBOLIC or COUNTEREXAMPLE.

    Example: the sum of the first n numbers, and a wrong formula that is refused.
        >>> import math
        >>> from dptheory.checks import EqualityCheck
        >>> cases = lambda: [(2,), (10,)]
        >>> compare = lambda n: (n * (n + 1) / 2, float(sum(range(n + 1))), n * n / 2)
        >>> EqualityCheck(name="sum", cases=cases, compare=compare, tolerance=1e-12).run(math.inf, 0).passed
        True
    """

    name: str
    cases: Callable[[], Iterable[tuple[Any, ...]]]
    compare: Callable[..., Sides]
    tolerance: float = 0.0
    kind: Kind = Kind.EXACT

    def run(self, budget: float, seed: int, executor: Executor | None = None) -> Evidence:
        start = time.perf_counter()
        found = case_by_case(self.cases, self.compare, relative_difference, self.tolerance, budget)
        case, stated, truth = found.shown
        return Evidence(
            check=self.name,
            kind=self.kind,
            passed=not found.problems,
            claimed=_as_float(stated),
            observed=_as_float(truth),
            detectable=self.tolerance,
            samples=len(found.rows),
            seconds=time.perf_counter() - start,
            seed=seed,
            detail="; ".join(found.problems) or f"rejects wrong {_number(found.wrong)} at {_show(case)}",
            finished=found.finished,
        )


Row = tuple[tuple[Any, ...], Any, Any]
"""A case, what is stated of it, and the truth."""


@dataclass(frozen=True)
class Compared:
    """What came of comparing a statement with the truth, case by case.

    Attributes:
        rows: the leading cases that fitted into the budget, at least one.
        shown: the first whose wrong value is rejected, else the one that is off most.
        wrong: the value rejected there; None where none is.
        problems: why the check does not pass.
        finished: whether all cases fitted into the budget.
    """

    rows: list[Row]
    shown: Row
    wrong: Any
    problems: list[str]
    finished: bool


def case_by_case(
    cases: Callable[[], Iterable[tuple[Any, ...]]],
    compare: Callable[..., tuple[Any, Any, Any]],
    off: Callable[[Any, Any], float],
    tolerance: float,
    budget: float,
) -> Compared:
    """Statement against truth until the budget is spent; wrong values are computed up to the first that is rejected.

    ``off(value, truth)`` is how far a value is from the truth.
    """
    deadline = time.monotonic() + budget
    given = list(cases())
    if not given:
        raise ArgumentError("cases", "give at least one case", given, got="none")
    rows: list[Row] = []
    caught: tuple[Row, Any] | None = None
    for case in given:
        stated, side, wrong = compare(*case)
        rows.append((case, _plain(stated), evaluated(side)))
        value = None if caught else evaluated(wrong)
        if value is not None and value == value and off(value, rows[-1][2]) > tolerance:
            caught = rows[-1], value  # NaN refutes nothing
        if time.monotonic() > deadline:
            break
    errors = [off(stated, truth) for _, stated, truth in rows]
    worst = max(range(len(rows)), key=errors.__getitem__)
    problems = failing(
        (errors[worst] <= tolerance, f"fails at {_show(rows[worst][0])}, off by {errors[worst]:.3g}"),
        (len(rows) == len(given), f"budget spent after {len(rows)} of {len(given)} cases"),
        (caught is not None, "does not reject the wrong statement"),
    )
    shown, wrong = caught or (rows[worst], None)
    return Compared(rows, shown, wrong, problems, len(rows) == len(given))


def evaluated(side: Any) -> Any:
    """A side of a comparison as a plain number or boolean, whether it was given as such or as a function of nothing."""
    return _plain(side() if callable(side) else side)


def _plain(value: Any) -> Any:
    """A NumPy scalar, or an array without axes, as the Python number that it holds."""
    return (
        value.item() if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0) else value
    )


def relative_difference(value: Value, truth: Value) -> float:
    """Relative difference; 1 for two booleans that disagree, inf where either is not a number."""
    value, truth = _plain(value), _plain(truth)
    if value == truth:
        return 0.0
    if isinstance(truth, bool) or isinstance(value, bool):
        return 1.0
    if not (math.isfinite(value) and math.isfinite(truth)):
        return math.inf
    gap = abs(Fraction(value) - Fraction(truth))
    return float(gap / abs(Fraction(truth))) if truth else math.inf


def _as_float(value: Value) -> float | None:
    return None if isinstance(value, bool) else float(value)


def _number(value: Value | None) -> str:
    return str(value) if isinstance(value, bool | Fraction | None) else f"{float(value):.6g}"


def _show(case: tuple[Any, ...]) -> str:
    return "(" + ", ".join(f"{x:.6g}" if isinstance(x, float) else str(x) for x in case) + ")"
