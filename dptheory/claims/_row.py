"""How a claim is written: its row first, then each check as a function under a decorator of the row.

A file in ``dptheory/claims/<paper>`` holds one ``row = new_row(id=...)``, or one for each claim of a printed statement
(``mse_t = new_row(id="gip.mse_t", ...)``): all of a :class:`Claim` but its words, which stand on its page. A check's name is the
first paragraph of its function's docstring; what follows it is a remark. Everything that such a file needs is imported from here.
"""

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

from dptheory._arrays import Array
from dptheory.checks import (
    CertificateCheck,
    Check,
    EqualityCheck,
    Kind,
    LawCheck,
    MeanCheck,
    Number,
    Range,
    SearchCheck,
    Sides,
)
from dptheory.checks._certificate import Problem
from dptheory.checks._law import OutcomeSampler
from dptheory.checks._mean import Sampler
from dptheory.claims._claim import Claim, Severity, Source, Verdict, places_of_rows
from dptheory.errors import ArgumentError

__all__ = ["Kind", "Number", "Range", "Row", "Severity", "Sides", "Source", "Verdict", "new_row"]

Cases = Callable[[], Iterable[tuple[Any, ...]]]
Compared = Sides | tuple[Number, Number | Callable[[], Number]]
"""(statement, truth, wrong), or (statement, truth) where the row's printed formula is what has to be rejected."""

_Facts = ParamSpec("_Facts")
_Comparison = TypeVar("_Comparison", bound=Callable[..., Compared])
_Value = TypeVar("_Value", bound=Callable[..., Number])
_Law = TypeVar("_Law", bound=Callable[[], Array])
_Real = TypeVar("_Real", bound=Callable[..., float])


class Row:
    """A claim whose checks follow it in its file, in the order of the file.

    The decorators return the function unchanged.
    """

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._checks: list[Check] = []

    @functools.cached_property
    def claim(self) -> Claim:
        """The row with its checks; no check can be added after that."""
        return replace(self._claim, checks=tuple(self._checks))

    def add(self, *checks: Check) -> None:
        """Checks in any other form."""
        if "claim" in self.__dict__:
            raise RuntimeError(f"{self._claim.id} was read before the check {checks[0].name!r} was added")
        self._checks.extend(checks)

    def equal(
        self,
        *cases: tuple[Any, ...] | Cases,
        tolerance: float = 0.0,
        kind: Kind = Kind.EXACT,
        name: str | None = None,
    ) -> Callable[[_Comparison], _Comparison]:
        """The function's first value equals its second in every case, and its third does not; see :data:`Compared`.

        Args:
            cases: the argument tuples, or one function that gives them (where they are many, or take time).
            tolerance: relative difference that rounding may cause; 0 asks for equality (fractions, booleans).
            kind: EXACT, SYMBOLIC or COUNTEREXAMPLE.
            name: instead of the docstring, for a family of checks.
        """

        def register(compare: _Comparison) -> _Comparison:
            with_wrong = functools.partial(self._with_wrong, compare)
            self.add(EqualityCheck(_name(compare, name), _cases(cases), with_wrong, tolerance, kind))
            return compare

        return register

    def mean(
        self,
        sampler: Sampler,
        *,
        row_bytes: int,
        wrong: Callable[[], Number] | None = None,
        resolution: float = 0.01,
        name: str | None = None,
    ) -> Callable[[_Value], _Value]:
        """The function's value is the mean of the sampler, and ``wrong()`` is not.

        See :class:`dptheory.checks.MeanCheck`; without ``wrong`` the value moved by its detectable error is rejected.
        """

        def register(claimed: _Value) -> _Value:
            other = None if wrong is None else functools.partial(_float, wrong)
            value = functools.partial(_float, claimed)
            self.add(MeanCheck(_name(claimed, name), sampler, value, row_bytes, other, resolution))
            return claimed

        return register

    def law(
        self,
        sampler: OutcomeSampler,
        *,
        wrong: Callable[[], Array],
        row_bytes: int,
        resolution: float = 0.01,
        name: str | None = None,
    ) -> Callable[[_Law], _Law]:
        """The function's probabilities are the law of the sampler, and those of ``wrong()`` are not.

        See :class:`dptheory.checks.LawCheck`.
        """

        def register(law: _Law) -> _Law:
            self.add(LawCheck(_name(law, name), sampler, law, wrong, row_bytes, resolution))
            return law

        return register

    def inequality(
        self,
        box: Mapping[str, Range],
        *,
        wrong: Callable[..., float] | float,
        tolerance: float = 1e-12,
        name: str | None = None,
    ) -> Callable[[_Real], _Real]:
        """The function, a slack, is >= 0 over the whole box, and ``wrong`` is not, as far as a search can tell.

        A number says by how much the wrong statement is stronger. See :class:`dptheory.checks.SearchCheck`.
        """

        def register(slack: _Real) -> _Real:
            def side(function: Callable[..., float], which: str) -> _Side:
                return _Side(function, self._claim, len(self._checks), which)

            other = wrong if callable(wrong) else functools.partial(_stronger, slack, wrong)
            self.add(SearchCheck(_name(slack, name), box, side(slack, "slack"), side(other, "wrong"), tolerance))
            return slack

        return register

    def certificate(
        self,
        *cases: tuple[Any, ...] | Cases,
        problem: Problem,
        wrong: Callable[..., float] | None = None,
        looseness: float = 0.0,
        tolerance: float = 1e-4,
        name: str | None = None,
    ) -> Callable[[_Real], _Real]:
        """The function, a bound, is the worst case of ``problem``, and ``wrong`` (or the row's printed formula) is not.

        See :class:`dptheory.checks.CertificateCheck`.
        """

        def register(bound: _Real) -> _Real:
            other = wrong or self._printed()
            self.add(CertificateCheck(_name(bound, name), _cases(cases), problem, bound, other, looseness, tolerance))
            return bound

        return register

    def _with_wrong(self, compare: Callable[..., Compared], *case: Any) -> Sides:
        sides = compare(*case)
        return (sides[0], sides[1], functools.partial(self._printed(), *case)) if len(sides) == 2 else sides

    def _printed(self) -> Callable[..., Any]:
        if self._claim.printed is None:
            raise ValueError(
                f"{self._claim.id} has no printed formula: its checks must say which wrong value they reject"
            )
        return self._claim.printed


@dataclass(frozen=True)
class _Side:
    """One side of a search, which another process finds by its claim: it need not have a name of its own, and may be a lambda."""

    function: Callable[..., float]
    claim: Claim
    place: int
    which: str

    def __call__(self, **point: float) -> float:
        return self.function(**point)

    def __reduce__(self) -> tuple[Any, ...]:
        return _found_side, (self.claim.id, self.place, self.which)


def _found_side(id: str, place: int, which: str) -> Callable[..., float]:
    side: Callable[..., float] = getattr(argued_claim(id).checks[place], which)
    return side


def argued_claim(id: str) -> Claim:
    """The claim with this id whose row stands in a file; no other file is loaded."""
    paper = id.partition(".")[0]
    file, name = places_of_rows(paper)[id]
    row: Row = getattr(importlib.import_module(f"dptheory.claims.{paper}.{file}"), name)
    return row.claim


def _row_of(make: Callable[_Facts, Claim]) -> Callable[_Facts, Row]:
    return lambda *args, **facts: Row(make(*args, **facts))


new_row = _row_of(Claim)
"""A row with these facts of a :class:`Claim`; its words stand on its page."""


def _cases(cases: tuple[tuple[Any, ...] | Cases, ...]) -> Cases:
    """Cases written out, or the one function that gives them."""
    functions = [one for one in cases if callable(one)]
    listed = [one for one in cases if not callable(one)]
    if functions and len(cases) > 1:
        raise ArgumentError(
            "cases", "be tuples, or one function that gives them", cases, got=f"{len(functions)} of {len(cases)}"
        )
    return functions[0] if functions else lambda: listed


def _stronger(slack: Callable[..., float], by: float, **point: float) -> float:
    return slack(**point) - by


def _float(value: Callable[[], Number]) -> float:
    return float(value())


def _name(function: Callable[..., Any], name: str | None) -> str:
    """The name given, or the first paragraph of the function's docstring."""
    found = name or inspect.cleandoc(getattr(function, "__doc__", None) or "").split("\n\n")[0]
    if not found.strip() or (name is None and not inspect.isfunction(function)):
        raise ArgumentError.about(
            "name",
            function,
            f"a check needs a name: the docstring of its function, or name= where {function!r} has none",
        )
    return " ".join(found.split())
