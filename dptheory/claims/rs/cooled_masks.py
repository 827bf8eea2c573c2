import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np

from dptheory import convergence
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _noisy_runs, _worst_case
from dptheory.claims.rs._noisy_runs import NoisyRun

row = new_row(
    id="rs.cooled_masks",
    source=Source("rs", "new, on Theorem 3.2 and section 4.1"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.plain_mean_bound,),
)


def _bound(rates: tuple[float, ...], G: float, drops: tuple[float, ...], energy: float = 0.0) -> float:
    return convergence.plain_mean_bound(
        objective_gap=1.0,
        learning_rate=rates,
        epochs=len(rates),
        steps_per_epoch=1,
        smoothness=G,
        sum_noise_std=math.sqrt(energy),
        dim=1,
        batch_size=1,
        drop_rate=drops,
    ).value


def _as_if_relaxed(rates: tuple[float, ...], G: float, drops: tuple[float, ...], energy: float = 0.0) -> float:
    """The quadratic: without the max."""
    left, total = 2 * G, 0.0
    for rate, drop in zip(rates, drops, strict=True):
        total += left
        move = rate * G
        left += (1 - drop) * (-move * (2 - move) * left + move**2 * energy)
    return total / len(rates)


_SCHEDULES = (
    ((0.5, 0.5, 0.5, 0.5), (0.5, 0.25, 0.25, 0.0)),
    ((0.9, 0.1, 0.1, 0.1), (0.0, 0.0, 0.0, 0.0)),
    ((1.0, 0.3, 1.7, 0.2, 0.2), (0.0, 0.9, 0.2, 0.5, 0.8)),
    ((0.6,) * 7, (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)),
)


@row.equal(
    *((*one, n, part) for one in _SCHEDULES for n in (1, 3) for part in ("optimization", "clipping", "noise")),
    tolerance=1e-12,
)
def _(rates: tuple[float, ...], drops: tuple[float, ...], n: int, part: str) -> Sides:
    """the most that the two inequalities allow, over all corners of what they allow"""
    gap, deviation, sigma, dim, size, G = 1.3, 0.7, 0.4, 5, 2, 1.0
    alone = {
        "optimization": {},
        "clipping": {"deviation_norm": deviation},
        "noise": {"sum_noise_std": sigma, "dim": dim},
    }

    def stated(steps: int) -> float:
        found = convergence.plain_mean_bound(
            objective_gap=gap if part == "optimization" else 0.0,
            learning_rate=rates,
            epochs=len(rates),
            steps_per_epoch=steps,
            smoothness=G,
            batch_size=size,
            drop_rate=drops,
            **alone[part],  # type: ignore[arg-type]
        )
        return float(getattr(found, part))

    def corners() -> float:
        best = 0.0
        for choice in itertools.product((0, 1), repeat=len(rates)):
            left, total = (gap if part == "optimization" else 0.0), 0.0
            for rate, drop, taken in zip(rates, drops, choice, strict=True):
                keep, square = 1 - drop, taken * 2 * G * left
                held = part == "optimization" and max(rates) * G <= 1
                gain = keep * (1 - (1 - rate * G) ** (2 * n)) if held else keep * rate * G * (2 - rate * G)
                kick = 0.0
                if part == "clipping":
                    kick = (keep if n == 1 else 1) * deviation**2 / size
                if part == "noise":
                    kick = keep * dim * (sigma / size) ** 2
                total += square
                left += -gain * square / (2 * G) + n * rate**2 * G * kick / 2
            best = max(best, total / len(rates))
        return best

    return stated(n), corners, 1.01 * stated(n)


@row.equal(
    *(
        (epochs, n, first, last, part)
        for epochs, n in ((700, 1), (400, 40))
        for first, last in ((0.0, 0.9), (0.9, 0.1))
        for part in ("value", "optimization", "clipping", "noise")
    ),
    tolerance=1e-10,
)
def _(epochs: int, n: int, first: float, last: float, part: str) -> Sides:
    """at the sizes of the papers: the largest sum of a run that begins at some later epoch"""
    gap, gamma, deviation, sigma, dim, size, G = 2.3, 0.05, 10.0, 1.5, 1_000_000, 1024, 1.5
    drops = np.linspace(first, last, epochs)
    found = convergence.plain_mean_bound(
        objective_gap=gap,
        learning_rate=gamma,
        epochs=epochs,
        steps_per_epoch=n,
        smoothness=G,
        deviation_norm=deviation,
        sum_noise_std=sigma,
        dim=dim,
        batch_size=size,
        drop_rate=drops,
    )

    def walked() -> float:
        keeps = [1 - drop for drop in drops.tolist()]
        left = [1 - keep * gamma * G * (2 - gamma * G) for keep in keeps]
        begun = [0.0] * (epochs + 1)  # the sum of what is left, epoch by epoch, of a gap that is used from epoch e on
        for e in range(epochs):
            rest = 1.0
            for share in left[e:]:
                begun[e] += rest
                rest *= share
        best = [max(begun[e:]) for e in range(epochs + 1)]
        kicks = {
            "clipping": [(keep if n == 1 else 1) * deviation**2 / size for keep in keeps],
            "noise": [keep * dim * (sigma / size) ** 2 for keep in keeps],
        }
        weight = n * (gamma * G) ** 2
        parts = {
            name: weight * math.fsum(k * q for k, q in zip(kick, best[1:], strict=True)) for name, kick in kicks.items()
        }
        parts["optimization"] = 2 * G * gap * best[0]
        return (math.fsum(parts.values()) if part == "value" else parts[part]) / epochs

    return float(getattr(found, part)), walked, 1.001 * float(getattr(found, part))


F = Fraction
_BASES = (
    (NoisyRun(2, 1, F(1), F(1), 1, F(0), F(0), 1, None), (F(1, 2),) * 4, (1, 1, 2, 2)),
    (NoisyRun(2, 1, F(1), F(2), 1, F(2), F(3), 2, None), (F(1, 10), F(1, 3)), (1, 2)),
    (NoisyRun(3, 1, F(1), F(1), 1, F(0), F(0), 1, None), (F(1, 4), F(1, 4), F(1, 2), F(1)), (1, 2, 2, 3)),
)


@row.equal(*_BASES, tolerance=1e-12)
def _(base: NoisyRun, rates: tuple[Fraction, ...], kept: tuple[int, ...]) -> Sides:
    """a mask that is relaxed: attained on a quadratic, by enumeration of masks, batches and noise"""
    steps = [
        dataclasses.replace(base, steps=1, learning_rate=gamma, kept=k) for gamma, k in zip(rates, kept, strict=True)
    ]

    def stated(shares: tuple[int, ...]) -> float:
        return convergence.plain_mean_bound(
            objective_gap=base.gap,
            learning_rate=[float(rate) for rate in rates],
            epochs=len(rates),
            steps_per_epoch=1,
            smoothness=float(base.smoothness),
            deviation_norm=float(base.deviation) * base.dim**0.5,
            sum_noise_std=float(base.sum_noise_std),
            dim=base.dim,
            batch_size=base.batch_size,
            drop_rate=[1 - share / base.dim for share in shares],
        ).value

    return (
        stated(kept),
        lambda: sum(_noisy_runs.enumerated_squares(steps), Fraction(0)) / len(steps),
        stated(kept[::-1]),
    )


@row.certificate(
    ((0.5, 0.5, 0.5), 1.0, (0.5, 0.5, 0.0)),
    ((0.2, 0.6), 1.0, (0.5, 0.0), 1.0),
    problem=_worst_case.plain_run,
    wrong=lambda rates, G, drops, energy=0.0: _bound(rates, G, drops[::-1], energy),
)
def _(rates: tuple[float, ...], G: float, drops: tuple[float, ...], energy: float = 0.0) -> float:
    """a mask that is relaxed: the worst case of two and three steps over smooth functions"""
    return _bound(rates, G, drops, energy)


@row.certificate(
    ((0.9, 0.3, 0.3), 1.0, (0.0, 0.5, 0.5)),
    ((0.9, 0.1, 0.1, 0.1), 1.0, (0.0, 0.0, 0.0, 0.0)),
    problem=_worst_case.plain_run,
    looseness=0.6,
    wrong=_as_if_relaxed,
)
def _(rates: tuple[float, ...], G: float, drops: tuple[float, ...]) -> float:
    """a mask or a step that is tightened: above the worst case, where the quadratic is below it"""
    return _bound(rates, G, drops)


def _double_well(gamma: float, first: int, second: int, x: float) -> float:
    """Mean of E|grad|^2 over ``first`` steps without mask and ``second`` masked ones, G = 1, over its gap, one entry.

    dL/dw = -w up to 1, then w - 2: a hilltop at 0, a well at 2; the first steps lead just to 1.
    """
    place = (1 + gamma) ** -first
    gap = 1 - place**2 / 2
    squares = []
    for _ in range(first):
        slope = -place if place < 1 else place - 2
        squares.append(slope**2)
        place -= gamma * slope
    left = (place - 2) ** 2  # a quadratic from here on
    for _ in range(second):
        squares.append(left)
        left *= 1 - x * gamma * (2 - gamma)
    return math.fsum(squares) / len(squares) / gap


def _half(first: float, second: float, gamma: float, x: float, share: float = 0.5) -> float:
    """The function over the share of item 3's bound, less 1."""
    first, second = round(first), round(second)
    drops = np.array([0.0] * first + [1 - x] * second)
    stated = convergence.plain_mean_bound(
        objective_gap=1.0,
        learning_rate=gamma,
        epochs=first + second,
        steps_per_epoch=1,
        smoothness=1.0,
        drop_rate=drops,
    )
    return _double_well(gamma, first, second, x) / (share * stated.value) - 1


def _all_of_it(**point: float) -> float:
    return _half(**point, share=0.9)


row.inequality(
    {
        "first": Range(0, 60),
        "second": Range(400, 500),  # 1 - (1 - rho_2)^T_2 is above x throughout
        "gamma": Range(0.1, 0.99),
        "x": Range(0.05, 0.85),
    },
    wrong=_all_of_it,
    name="a hilltop before the well: more than half of the bound of cooling",
)(_half)


@row.equal(*((g, t, x) for g in (0.1, 0.5, 1.0) for t in (1, 50) for x in (0.1, 0.5)), tolerance=1e-10)
def _(gamma: float, first: int, x: float) -> Sides:
    """the steps without mask count for nothing"""

    def total(early: int) -> float:
        drops = np.array([0.0] * early + [1 - x] * 600)
        return (early + 600) * convergence.plain_mean_bound(
            objective_gap=1.0,
            learning_rate=gamma,
            epochs=early + 600,
            steps_per_epoch=1,
            smoothness=1.0,
            drop_rate=drops,
        ).value

    rho = x * gamma * (2 - gamma)
    return total(first), 2 * -math.expm1(600 * math.log1p(-rho)) / rho, 2 * (first + 600)
