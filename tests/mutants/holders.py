"""Who holds a calculator: the claims that name it, and named tests where no claim does."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dptheory import claims
from dptheory.claims import Claim
from dptheory.montecarlo import Check, SearchCheck
from mutants import bench
from mutants.bench import Memory, Mutant, Recorded
from mutants.moves import ZERO, moves
from mutants.regions import regions
from mutants.surface import Target, leaves, result_classes, targets
from mutants.swap import original

NAMED: dict[str, tuple[str, ...]] = {
    "joint_privacy.IndexSteps.epsilon": ("gip.thm2",),
    "joint_privacy.IndexSteps.rho": ("gip.thm2",),
    "mallows.SubsetMallows.max_swaps": ("gip.def3",),
}
"""Target to claims and named tests (``test_file::test_function``) that hold it though no claim names it."""


NOT_CALLED = "no check calls it there"
ALWAYS_ZERO = "zero, infinite or None wherever a check calls it"
NOT_NOTICED = "called there, not noticed"

Calculator = Callable[..., Any]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: ``noticed`` is the check that refused it, None for a survivor; ``reason`` says why it survived."""

    mutant: Mutant
    noticed: str | None
    reason: str = ""


def mutants(target: Target, thorough: bool = True) -> tuple[Mutant, ...]:
    """One mutant per field and region, in every direction where ``thorough``."""
    return tuple(
        Mutant(target, leaf, region, move)
        for leaf in leaves(target.returns)
        for region in regions(target)
        for move in (moves(leaf) if thorough else moves(leaf)[:1])
    )


@functools.cache
def holders(target: Target) -> tuple[Claim, ...]:
    """The claims that name the calculator; for what is read off a result, those that name a calculator with such a result."""
    named = [claim for claim in claims.all_claims() if target.calculator in claim.calculators]
    if not named and target.owner is not None:
        makers = [t.calculator for t in targets() if target.owner in result_classes(t.returns)]
        named = [claim for claim in claims.all_claims() if any(maker in claim.calculators for maker in makers)]
    also = [claims.get(name) for name in NAMED.get(target.name, ()) if "::" not in name]
    return tuple({claim.id: claim for claim in [*named, *also]}.values())


def named_tests(target: Target) -> tuple[str, ...]:
    return tuple(name for name in NAMED.get(target.name, ()) if "::" in name)


@functools.cache
def _held_by(claim_id: str) -> tuple[Target, ...]:
    return tuple(t for t in targets() if any(c.id == claim_id for c in holders(t)))


@functools.cache
def _record(claim_id: str, position: int) -> Recorded:
    return bench.record(claims.get(claim_id).checks[position], _held_by(claim_id))


@functools.cache
def _record_test(name: str) -> Recorded:
    return bench.record_test(name, [t for t in targets() if name in NAMED.get(t.name, ())])


def _recordings(target: Target) -> Iterator[tuple[str, Recorded]]:
    """Cheap checks first; searches are recorded only where something is left to notice."""
    checks: list[tuple[Claim, int, Check]] = [(c, i, k) for c in holders(target) for i, k in enumerate(c.checks)]
    for search in (False, True):
        for claim, i, check in checks:
            if isinstance(check, SearchCheck) is search:
                yield f"{claim.id}: {check.name}", _record(claim.id, i)
        if not search:
            yield from ((name, _record_test(name)) for name in named_tests(target))


def outcomes(target: Target, thorough: bool = True) -> list[Outcome]:
    """Every mutant of a calculator against the checks that hold it."""
    memory = Memory(target)
    found = _judged(list(mutants(target, thorough)), memory)
    still = [o.mutant for o in found if o.reason == ALWAYS_ZERO and o.mutant.leaf.kind in ZERO]
    zeros = [replace(m, move=ZERO[m.leaf.kind]) for m in still if m.move == moves(m.leaf)[0]]
    return [o for o in found if o.mutant not in still] + (_judged(zeros, memory) if zeros else [])


def _judged(left: list[Mutant], memory: Memory) -> list[Outcome]:
    found: list[Outcome] = []
    reasons = dict.fromkeys(left, NOT_CALLED)
    for name, recorded in _recordings(left[0].target):
        if not recorded.passed:
            raise AssertionError(f"unchanged control: {name} does not pass: {recorded.detail}")
        for mutant in list(left):
            if not recorded.calling(mutant.target, mutant.region.name):
                continue
            changed: list[bool] = []
            with bench.in_force(mutant, memory, changed):
                refused = recorded.refuses(mutant.target, mutant.region.name)
            if refused:
                found.append(Outcome(mutant, name))
                left.remove(mutant)
            elif changed or reasons[mutant] == NOT_CALLED:
                reasons[mutant] = NOT_NOTICED if changed else ALWAYS_ZERO
        if not left:
            break
    return found + [Outcome(m, None, reasons[m]) for m in left]


def is_refused(target: Target, mutation: Callable[[Calculator], Calculator]) -> bool:
    """Whether a check that holds the calculator refuses ``mutation(calculator)``."""
    wrong = mutation(original(target))
    for _, recorded in _recordings(target):
        with bench.replaced(target, lambda args, kwargs: wrong(*args, **kwargs)):
            if recorded.refuses(target):
                return True
    return False
