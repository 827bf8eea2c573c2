import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

row = new_row(
    id="rf.never_updated",
    source=Source("rf", "Appendix C; RS, Appendix I"),
    verdict=Verdict.CONDITIONAL,
)

_Epochs = tuple[tuple[int, ...], ...]


def _run(signed: bool, mu: Fraction, epochs: _Epochs, frozen: int, steps: int = 2) -> tuple[list[set[int]], set[int]]:
    """What is frozen in each epoch, and what moves in the last one; ``epochs`` has each step's gradient, frozen ones cut to 0."""
    entries = range(len(epochs[0]))
    velocity, sets, moved = [Fraction(0)] * len(epochs[0]), [set[int]()], set[int]()
    for gradients in epochs:
        updates = [0 if j in sets[-1] else gradients[j] for j in entries]
        moved = set[int]()
        for _ in range(steps):
            velocity = [mu * v + g for v, g in zip(velocity, updates, strict=True)]
            moved |= {j for j in entries if velocity[j] != 0}
        order = sorted((updates[j] if signed else abs(updates[j]), j not in sets[-1], j) for j in entries)
        sets.append({j for *_, j in order[:frozen]})
    return sets, moved


def _drawn(seed: int, size: int = 12, epochs: int = 6) -> _Epochs:
    """Gradients that are never 0, as noisy ones almost surely are."""
    rng = random.Random(seed)
    return tuple(tuple(rng.choice((-1, 1)) * rng.randint(1, 99) for _ in range(size)) for _ in range(epochs))


@row.equal(lambda: itertools.product(range(20), (1, 5, 11)))
def _(seed: int, frozen: int) -> Sides:
    """by magnitude, without momentum: how many of the frozen thaw in any later epoch, or move in the last"""

    def lost() -> int:
        sets, moved = _run(False, Fraction(0), _drawn(seed), frozen)
        return len((sets[1] & moved).union(*(sets[1] - later for later in sets[2:])))

    # wrong: all, as with momentum
    return 0, lost, frozen


def _negative_cases() -> Iterator[tuple[int, int]]:
    """Second epochs with at least as many negative sums among what is not frozen as will be frozen."""
    for seed, frozen in itertools.product(range(20), (1, 3, 5)):
        epochs = _drawn(seed, epochs=2)
        first = _run(True, Fraction(0), epochs[:1], frozen)[0][1]
        if sum(g < 0 for j, g in enumerate(epochs[1]) if j not in first) >= frozen:
            yield seed, frozen


@row.equal(_negative_cases, kind=Kind.COUNTEREXAMPLE)
def _(seed: int, frozen: int) -> Sides:
    """with signs: how many of the frozen are frozen again where enough sums are negative"""
    # wrong: all
    return 0, lambda: len(set.intersection(*_run(True, Fraction(0), _drawn(seed, epochs=2), frozen)[0][1:])), frozen


@row.equal(lambda: itertools.product(range(20), (1, 5)), kind=Kind.COUNTEREXAMPLE)
def _(seed: int, frozen: int) -> Sides:
    """with momentum 1/2: how many of the frozen move in the last epoch"""
    sets, moved = _run(False, Fraction(1, 2), _drawn(seed), frozen)
    # wrong: none
    return frozen, lambda: len(moved & sets[1]), 0
