import math
from fractions import Fraction

import numpy as np

from dptheory import convergence
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _noisy_runs, _worst_case

row = new_row(
    id="rs.held_masks",
    source=Source("rs", "new, on Theorem 3.2 and Algorithm 1"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.held_mask_bound,),
)


def _bound(gamma: float, G: float, r: float, epochs: int, n: int, gap: float = 1.0) -> float:
    return convergence.held_mask_bound(
        objective_gap=gap, learning_rate=gamma, epochs=epochs, steps_per_epoch=n, smoothness=G, drop_rate=r
    ).value


def _fresh(gamma: float, G: float, r: float, epochs: int, n: int, gap: float = 1.0) -> float:
    """With a fresh mask at every step: the wrong statement."""
    rho = 1 - (1 - (1 - r) * gamma * G * (2 - gamma * G)) ** n
    return 2 * G * gap * (1 - (1 - rho) ** epochs) / (rho * epochs)


@row.equal(
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


@row.certificate(
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


@row.equal(
    *((*one, part) for one in _NOISY for part in ("value", "optimization", "clipping", "noise")),
    tolerance=1e-9,
)
def _(epochs: int, n: int, first: float, start: float, end: float, dim: int, size: int, part: str) -> Sides:
    """changing masks, deviations and noise, epoch by epoch at the sizes of the papers"""
    rates, drops = _schedule(epochs, first, start, end)
    deviation, sigma = 10.0, 1.5
    found = convergence.held_mask_bound(
        objective_gap=2.3,
        learning_rate=rates,
        epochs=epochs,
        steps_per_epoch=n,
        smoothness=1.0,
        deviation_norm=deviation,
        sum_noise_std=sigma,
        dim=dim,
        batch_size=size,
        drop_rate=drops,
    )

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


@row.equal(*_LONG[:3], tolerance=1e-9)
def _(epochs: int, n: int, first: float, start: float, end: float) -> Sides:
    """changing masks without noise, attained entry by entry over long epochs"""
    rates, drops = _schedule(epochs, first, start, end)

    def bound(steps: int) -> float:
        return convergence.held_mask_bound(
            objective_gap=0.5,
            learning_rate=rates,
            epochs=epochs,
            steps_per_epoch=steps,
            smoothness=1.0,
            drop_rate=drops,
        ).value

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
    moments = convergence.epoch_mask_moments(
        [curvature, 1.0],
        start=np.ones(2),
        epochs=epochs,
        steps_per_epoch=n,
        learning_rate=gamma,
        drop_rate=rate,
        variance=spread,
    )
    bound = convergence.held_mask_bound(
        objective_gap=(curvature + 1) / 2,
        learning_rate=gamma,
        epochs=epochs,
        steps_per_epoch=n,
        smoothness=1.0,
        sum_noise_std=math.sqrt(spread),
        dim=2,
        batch_size=1,
        drop_rate=rate,
    ).value
    return scale * bound / float((moments[:-1:n] @ [curvature**2, 1.0]).mean()) - 1


def _halved(**point: float) -> float:
    return _slack(**point, scale=0.5)


row.inequality(
    {
        "epochs": Range(1, 40, log=True),
        "n": Range(1, 20, log=True),
        "gamma": Range(0.02, 1.9, log=True),
        "rate": Range(0, 0.95),
        "spread": Range(0, 4),
        "curvature": Range(0, 1),
    },
    wrong=_halved,
    name="bound above the exact moments on quadratics with noise",
)(_slack)
