import dataclasses
import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import convergence
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _noisy_runs, _worst_case
from dptheory.claims.rs._noisy_runs import NoisyRun
from dptheory.claims.rs._runs import spelled

held_masks = new_row(
    id="rs.held_masks",
    source=Source("rs", "new, on Theorem 3.2 and Algorithm 1"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.held_mask_bound,),
)


def _bound(gamma: float, G: float, r: float, epochs: int, n: int, gap: float = 1.0) -> float:
    return convergence.held_mask_bound(**spelled(gap=gap, gamma=gamma, epochs=epochs, n=n, G=G, r=r)).value


def _fresh(gamma: float, G: float, r: float, epochs: int, n: int, gap: float = 1.0) -> float:
    """With a fresh mask at every step: the wrong statement."""
    rho = 1 - (1 - (1 - r) * gamma * G * (2 - gamma * G)) ** n
    return 2 * G * gap * (1 - (1 - rho) ** epochs) / (rho * epochs)


@held_masks.equal(
    *(
        (Fraction(g, 4), epochs, n, keep)
        for g in (1, 2, 4)
        for epochs, n in ((1, 3), (2, 2), (3, 3), (4, 2))
        for keep in (1, 2)
    ),
    tolerance=1e-12,
)
def _(gamma: Fraction, epochs: int, n: int, keep: int) -> Sides:
    """attained on a quadratic, by enumeration of the masks"""
    slopes = (Fraction(1),) * 3

    def mean() -> Fraction:
        found = (_noisy_runs.enumerated_moment(slopes, gamma, Fraction(0), e, n, keep) for e in range(epochs))
        return sum(found, Fraction(0)) / epochs

    # w_1 = (1, 2, 3), gap 7
    setting = (float(gamma), 1.0, 1 - keep / 3, epochs, n, 7.0)
    return _bound(*setting), mean, _fresh(*setting) if epochs > 1 and gamma < 1 else 7.0


@held_masks.certificate(
    (0.5, 1.0, 0.5, 2, 2),
    (0.3, 2.0, 0.5, 2, 2),
    (0.5, 1.0, 0.5, 3, 2),
    problem=_worst_case.held_run,
    wrong=_fresh,
)
def _(gamma: float, G: float, r: float, epochs: int, n: int) -> float:
    """worst case of two and three epochs of two steps over smooth functions"""
    return _bound(gamma, G, r, epochs, n)


_LONG = ((300, 40, 0.02, 0.9, 0.0), (1000, 50, 0.3, 0.5, 0.1), (50, 1, 1.0, 0.75, 0.0), (400, 117, 1.7, 0.5, 0.5))


def _schedule(epochs: int, first: float, start: float, end: float) -> tuple[list[float], list[float]]:
    """Step sizes that fall by half, and drop rates from start to end."""
    share = [e / epochs for e in range(epochs)]
    return [first * (1 - s / 2) for s in share], [start + (end - start) * s for s in share]


_NOISY = (*((*one, 1_000_000, 1024) for one in _LONG), (3, 2, 0.5, 0.5, 0.0, 10, 4))


@held_masks.equal(
    *((*one, part) for one in _NOISY for part in ("value", "optimization", "clipping", "noise")),
    tolerance=1e-9,
)
def _(epochs: int, n: int, first: float, start: float, end: float, dim: int, size: int, part: str) -> Sides:
    """changing masks, deviations and noise, epoch by epoch at the sizes of the papers"""
    rates, drops = _schedule(epochs, first, start, end)
    deviation, sigma = 10.0, 1.5
    run = spelled(gap=2.3, gamma=rates, epochs=epochs, n=n, G=1.0, r=drops)
    found = convergence.held_mask_bound(**run, **spelled(s=deviation, tau=sigma, d=dim, B=size))

    def walked() -> float:
        left = 2.3 if part in ("value", "optimization") else 0.0
        total = weights = 0.0
        for gamma, drop in zip(rates, drops, strict=True):
            weight = (1 - drop) * gamma * (2 - gamma)
            total += weight * 2 * left
            weights += weight
            kick = deviation**2 / size if part in ("value", "clipping") else 0.0
            kick += (1 - drop) * dim * (sigma / size) ** 2 if part in ("value", "noise") else 0.0
            left += -weight * left + n * gamma**2 * kick / 2
        return total / weights

    return getattr(found, part), walked, 1.01 * getattr(found, part)


@held_masks.equal(*_LONG[:3], tolerance=1e-9)
def _(epochs: int, n: int, first: float, start: float, end: float) -> Sides:
    """changing masks without noise, attained entry by entry over long epochs"""
    rates, drops = _schedule(epochs, first, start, end)

    def bound(steps: int) -> float:
        run = spelled(gap=0.5, gamma=rates, epochs=epochs, n=steps, G=1.0, r=drops)
        return convergence.held_mask_bound(**run).value

    def walked() -> float:
        square, total, weights = 1.0, 0.0, 0.0
        for gamma, drop in zip(rates, drops, strict=True):
            kept = 1.0
            for _ in range(n):
                kept *= (1 - gamma) ** 2
            weight = (1 - drop) * (1 - kept)
            total, weights = total + weight * square, weights + weight
            square = drop * square + (1 - drop) * kept * square
        return total / weights

    return bound(n), walked, bound(n + 1) * (1.0 if n == 1 else 1.001)


def _slack(
    epochs: float, n: float, gamma: float, rate: float, spread: float, curvature: float, scale: float = 1.0
) -> float:
    """Relative slack against the exact moments on a quadratic with curvatures (curvature, 1)."""
    epochs, n = round(epochs), round(n)
    run = spelled(gamma=gamma, epochs=epochs, n=n, r=rate)
    moments = convergence.epoch_mask_moments([curvature, 1.0], start=np.ones(2), **run, variance=spread)
    noise = spelled(gap=(curvature + 1) / 2, G=1.0, tau=math.sqrt(spread), d=2, B=1)
    bound = convergence.held_mask_bound(**run, **noise).value
    return scale * bound / float((moments[:-1:n] @ [curvature**2, 1.0]).mean()) - 1


held_masks.inequality(
    {
        "epochs": Range(1, 40, log=True),
        "n": Range(1, 20, log=True),
        "gamma": Range(0.02, 1.9, log=True),
        "rate": Range(0, 0.95),
        "spread": Range(0, 4),
        "curvature": Range(0, 1),
    },
    wrong=partial(_slack, scale=0.5),
    name="bound above the exact moments on quadratics with noise",
)(_slack)


cooled_masks = new_row(
    id="rs.cooled_masks",
    source=Source("rs", "new, on Theorem 3.2 and section 4.1"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.plain_mean_bound,),
)


def _cooled_bound(rates: tuple[float, ...], G: float, drops: tuple[float, ...], energy: float = 0.0) -> float:
    run = spelled(gap=1.0, gamma=rates, epochs=len(rates), n=1, G=G, r=drops)
    return convergence.plain_mean_bound(**run, **spelled(tau=math.sqrt(energy), d=1, B=1)).value


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


@cooled_masks.equal(
    *((*one, n, part) for one in _SCHEDULES for n in (1, 3) for part in ("optimization", "clipping", "noise")),
    tolerance=1e-12,
)
def _(rates: tuple[float, ...], drops: tuple[float, ...], n: int, part: str) -> Sides:
    """the most that the two inequalities allow, over all corners of what they allow"""
    gap, deviation, sigma, dim, size, G = 1.3, 0.7, 0.4, 5, 2, 1.0
    alone = {
        "optimization": spelled(gap=gap),
        "clipping": spelled(gap=0.0, s=deviation),
        "noise": spelled(gap=0.0, tau=sigma, d=dim),
    }[part]

    def stated(steps: int) -> float:
        run = spelled(gamma=rates, epochs=len(rates), n=steps, G=G, B=size, r=drops)
        return float(getattr(convergence.plain_mean_bound(**run, **alone), part))

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


@cooled_masks.equal(
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
    run = spelled(gap=gap, gamma=gamma, epochs=epochs, n=n, G=G, r=drops)
    found = convergence.plain_mean_bound(**run, **spelled(s=deviation, tau=sigma, d=dim, B=size))

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


@cooled_masks.equal(*_BASES, tolerance=1e-12)
def _(base: NoisyRun, rates: tuple[Fraction, ...], kept: tuple[int, ...]) -> Sides:
    """a mask that is relaxed: attained on a quadratic, by enumeration of masks, batches and noise"""
    steps = [
        dataclasses.replace(base, steps=1, learning_rate=gamma, kept=k) for gamma, k in zip(rates, kept, strict=True)
    ]

    def stated(shares: tuple[int, ...]) -> float:
        run = spelled(gamma=[float(rate) for rate in rates], epochs=len(rates), n=1)
        drops = [1 - share / base.dim for share in shares]
        return convergence.plain_mean_bound(**_noisy_runs.deviating(base), **run, drop_rate=drops).value

    return (
        stated(kept),
        lambda: sum(_noisy_runs.enumerated_squares(steps), Fraction(0)) / len(steps),
        stated(kept[::-1]),
    )


@cooled_masks.certificate(
    ((0.5, 0.5, 0.5), 1.0, (0.5, 0.5, 0.0)),
    ((0.2, 0.6), 1.0, (0.5, 0.0), 1.0),
    problem=_worst_case.plain_run,
    wrong=lambda rates, G, drops, energy=0.0: _cooled_bound(rates, G, drops[::-1], energy),
)
def _(rates: tuple[float, ...], G: float, drops: tuple[float, ...], energy: float = 0.0) -> float:
    """a mask that is relaxed: the worst case of two and three steps over smooth functions"""
    return _cooled_bound(rates, G, drops, energy)


@cooled_masks.certificate(
    ((0.9, 0.3, 0.3), 1.0, (0.0, 0.5, 0.5)),
    ((0.9, 0.1, 0.1, 0.1), 1.0, (0.0, 0.0, 0.0, 0.0)),
    problem=_worst_case.plain_run,
    looseness=0.6,
    wrong=_as_if_relaxed,
)
def _(rates: tuple[float, ...], G: float, drops: tuple[float, ...]) -> float:
    """a mask or a step that is tightened: above the worst case, where the quadratic is below it"""
    return _cooled_bound(rates, G, drops)


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


def _masked_late(gamma: float, first: int, second: int, x: float) -> float:
    """The bound for ``first`` steps without a mask and ``second`` masked ones."""
    drops = np.array([0.0] * first + [1 - x] * second)
    return convergence.plain_mean_bound(
        **spelled(gap=1.0, gamma=gamma, epochs=first + second, n=1, G=1.0, r=drops)
    ).value


def _half(first: float, second: float, gamma: float, x: float, share: float = 0.5) -> float:
    """The function over the share of item 3's bound, less 1."""
    first, second = round(first), round(second)
    return _double_well(gamma, first, second, x) / (share * _masked_late(gamma, first, second, x)) - 1


cooled_masks.inequality(
    {
        "first": Range(0, 60),
        "second": Range(400, 500),  # 1 - (1 - rho_2)^T_2 is above x throughout
        "gamma": Range(0.1, 0.99),
        "x": Range(0.05, 0.85),
    },
    wrong=partial(_half, share=0.9),
    name="a hilltop before the well: more than half of the bound of cooling",
)(_half)


@cooled_masks.equal(*((g, t, x) for g in (0.1, 0.5, 1.0) for t in (1, 50) for x in (0.1, 0.5)), tolerance=1e-10)
def _(gamma: float, first: int, x: float) -> Sides:
    """the steps without mask count for nothing"""
    rho, total = x * gamma * (2 - gamma), (first + 600) * _masked_late(gamma, first, 600, x)
    return total, 2 * -math.expm1(600 * math.log1p(-rho)) / rho, 2 * (first + 600)
