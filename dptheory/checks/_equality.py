"""Exact checks: a statement against the truth, case by case, by enumeration, algebra or arithmetic."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dptheory._arrays import Array
from dptheory.checks._evidence import Evidence, Kind
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
        cases = list(self.cases())
        if not cases:
            raise ArgumentError("cases", "give at least one case", cases, got="none")
        found, rejected = self._within(budget, cases)
        done = cases[: len(found)]
        stated, truths = zip(*found, strict=True)
        errors = [relative_difference(s, t) for s, t in zip(stated, truths, strict=True)]
        worst = max(range(len(done)), key=errors.__getitem__)
        problems = [
            *(
                []
                if errors[worst] <= self.tolerance
                else [f"fails at {_show(done[worst])}, off by {errors[worst]:.3g}"]
            ),
            *([] if len(done) == len(cases) else [f"budget spent after {len(done)} of {len(cases)} cases"]),
            *([] if rejected else ["does not reject the wrong statement"]),
        ]
        shown = rejected[0] if rejected else worst
        detail = f"rejects wrong {_number(rejected[1])} at {_show(done[shown])}" if rejected else ""
        return Evidence(
            check=self.name,
            kind=self.kind,
            passed=not problems,
            claimed=_as_float(stated[shown]),
            observed=_as_float(truths[shown]),
            standard_error=None,
            detectable=self.tolerance,
            samples=len(done),
            seconds=time.perf_counter() - start,
            seed=seed,
            detail="; ".join(problems) or detail,
            finished=len(done) == len(cases),
        )

    def _within(
        self, budget: float, cases: Sequence[tuple[Any, ...]]
    ) -> tuple[list[tuple[Value, Value]], tuple[int, Value] | None]:
        """Statement and truth of the leading cases that fit into the budget, at least one; and the first case that rejects.

        Wrong values are computed up to that one.
        """
        deadline = time.monotonic() + budget
        found: list[tuple[Value, Value]] = []
        rejected: tuple[int, Value] | None = None
        for number, case in enumerate(cases):
            stated, side, wrong = self.compare(*case)
            truth = evaluated(side)
            found.append((_plain(stated), truth))
            value = None if rejected else evaluated(wrong)
            if value is not None and value == value and relative_difference(value, truth) > self.tolerance:
                rejected = number, value  # NaN refutes nothing
            if time.monotonic() > deadline:
                break
        return found, rejected


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
