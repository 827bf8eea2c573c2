"""rf.never_updated: without noise of their own, frozen entries stay frozen."""

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict

row = Row(
    Claim(
        id="rf.never_updated",
        title="entries frozen first are never updated again",
        source=Source("rf", "Appendix C; RS, Appendix I"),
        statement="""If no noise is added to the ranked sums of frozen coordinates, "the coordinates get frozen at the first iteration will receive
aggregated gradient estimation as 0 and never get updated for all the remaining iterations".""",
        verdict=Verdict.CONDITIONAL,
        summary="true of a ranking by magnitude without momentum; sorted with signs, as RF's Algorithm 2 is printed, they thaw once "
        "enough sums are negative, and with momentum they keep moving.",
        conditions=(
            "Unstated in RF's Algorithm 2 (its section 3.3 and RS's Appendix I say so): the ranking is by magnitude.",
            "Unstated: no momentum. Both algorithms have it, and with it they move on ([rs.epoch_mask](../rs/epoch_mask.md)).",
            r"Stated in the algorithms: the freeze rate does not fall, and $\sigma>0$. Then it holds almost surely. Ties are broken in favour of "
            "what was frozen, or do not occur.",
        ),
        correction=r"""Let $F_e$ be the set that is frozen in epoch $e$, with $\lvert F_e\rvert\le\lvert F_{e+1}\rvert$, and let the sums of frozen coordinates have no noise.

1. Ranked by magnitude, $\sigma>0$: almost surely $F_e\subseteq F_{e+1}$. Without momentum no coordinate of $F_e$ moves from then on.
2. Ranked with signs: if at least $\lvert F_{e+1}\rvert$ sums of coordinates that are not frozen are negative, $F_{e+1}$ and $F_e$ have none in common.
3. With momentum $0<\mu<1$ a coordinate frozen with velocity $v\ne0$ moves in every step in which it is frozen.""",
        proved=True,
    )
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
