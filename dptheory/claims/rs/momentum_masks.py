import math
from fractions import Fraction

import scipy

from dptheory import convergence
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _momentum_runs as runs
from dptheory.claims.rs import _worst_case

row = new_row(
    id="rs.momentum_masks",
    source=Source("rs", "new, on Theorem 3.2 and Algorithm 1"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.momentum_mask_bound,),
)


@row.equal(
    *(
        (Fraction(g, 8), mu, dim, keep, epochs, n, noise)
        for g, mu in ((1, Fraction(1, 2)), (3, Fraction(1, 4)), (2, Fraction(0)))
        for dim, keep, epochs, n in ((2, 1, 3, 1), (2, 1, 2, 2), (3, 1, 2, 2), (1, 1, 1, 4))
        for noise in (Fraction(0), Fraction(1, 3))
        if dim < 3 or not noise
    ),
)
def _(gamma: Fraction, mu: Fraction, dim: int, keep: int, epochs: int, n: int, noise: Fraction) -> Sides:
    """second moments on a quadratic, by enumeration of masks and noise"""
    setting = Fraction(3, 2), gamma, mu
    moments = runs.second_moments(*setting, Fraction(keep, dim), epochs, n, noise**2)
    return (
        sum(moments, Fraction(0)),
        lambda: sum(runs.enumerated_moments(*setting, dim, keep, epochs, n, noise), Fraction(0)),
        sum(runs.second_moments(setting[0], gamma, mu + 1, Fraction(keep, dim), epochs, n, noise**2), Fraction(0)),
    )


@row.equal(
    *((x, mu, y) for x in (1.0, 0.5, 0.1) for mu in (0.0, 0.5, 0.9) for y in (0.2, 1.0)),
    tolerance=1e-9,
)
def _(x: float, mu: float, y: float) -> Sides:
    """long runs on a quadratic, both closed forms"""
    move = y * runs.longest_step(mu)
    steps = math.ceil(60 / (x * move / (1 - mu)))

    def walked() -> float:
        still = runs.second_moments(1.0, move, mu, x, steps, 1, 0.0)
        noisy = runs.second_moments(1.0, move, mu, x, steps, 1, 1.0)
        return math.fsum(still) + (noisy[-1] - still[-1])

    right = runs.endless_sum(x, mu, move) + runs.resting_square(x, mu, move)
    return right, walked, runs.endless_sum(x, mu, move) + runs.resting_square(1.1 * x, mu + 0.01, move)


@row.equal(
    *(
        (gap, share * runs.longest_step(mu) / G, mu, steps, G, sigma)
        for gap, sigma in ((2.3, 0.0), (2.3, 1.5), (1e-6, 40.0))
        for share, mu, steps, G in ((0.4, 0.9, 3000, 1.0), (1.9, 0.5, 10**6, 3.0), (0.01, 0.99, 10**5, 0.2))
    ),
    tolerance=1e-9,
)
def _(gap: float, gamma: float, mu: float, steps: int, G: float, sigma: float) -> Sides:
    """the root at the sizes of the papers, by bisection"""
    dim, size, rate, deviation = 1_000_000, 1024, 0.9, 10.0
    found = convergence.momentum_mask_bound(
        objective_gap=gap,
        learning_rate=gamma,
        momentum=mu,
        epochs=steps,
        steps_per_epoch=1,
        smoothness=G,
        deviation_norm=deviation,
        sum_noise_std=sigma,
        dim=dim,
        batch_size=size,
        drop_rate=rate,
    )

    def solved() -> float:
        x = 1 - rate
        kick = x * (deviation**2 / size + dim * (sigma / size) ** 2)
        fast = gamma / (1 - mu)

        def excess(kept: float) -> float:
            cross = 2 * fast * G * mu / (1 - mu) * math.sqrt(kept * (kept + (1 - mu) * kick))
            return (2 - fast * G) * kept - 2 * gap / (fast * steps) - fast * G * kick - cross

        kept = float(scipy.optimize.brentq(excess, 0.0, 1e12, xtol=1e-300, rtol=1e-13))
        height = 2 * G * gap + (fast * G) ** 2 * (1 + mu) * (steps - 1) * kick
        lag = fast * G * mu / (1 - mu) * math.sqrt((1 - mu) * steps * kept + (1 - mu) * kick)
        return min(kept / x, (math.sqrt(height) + lag) ** 2)

    return found, solved, 1.001 * found


@row.equal(
    (Fraction(4, 5), Fraction(1, 4), 3, False), (Fraction(1, 4), Fraction(1, 2), 2, True), kind=Kind.COUNTEREXAMPLE
)
def _(gamma: Fraction, mu: Fraction, steps: int, fast: bool) -> Sides:
    """the quadratic is above the descent factor with either step size, and one step earlier it is not"""

    def above(length: int) -> bool:
        step = gamma / (1 - mu) if fast else gamma
        without = sum(runs.second_moments(Fraction(1), step, Fraction(0), Fraction(1), length, 1, Fraction(0)))
        return sum(runs.second_moments(Fraction(1), gamma, mu, Fraction(1), length, 1, Fraction(0))) > without

    within = gamma < 2 * Fraction(runs.longest_step(float(mu)))  # y < 2
    return True, within and above(steps) and not above(steps - 1), above(steps - 1)


@row.certificate(
    (0.3, 1.0, 0.5, 0.0, 3, 1),
    (0.3, 1.0, 0.5, 0.0, 6, 1),
    (0.3, 1.0, 0.5, 0.5, 3, 1),
    problem=_worst_case.momentum_run,
    wrong=lambda gamma, G, mu, *rest: runs.quadratic_mean(gamma / (1 - mu), G, 0.0, *rest),
)
def _(gamma: float, G: float, mu: float, rate: float, epochs: int, n: int) -> float:
    """the quadratic is the worst case of three and six steps over smooth functions"""
    return runs.quadratic_mean(gamma, G, mu, rate, epochs, n)


row.inequality(
    {
        "epochs": Range(1, 30, log=True),
        "share": Range(0.01, 1.99, log=True),
        "mu": Range(0, 0.95),
        "rate": Range(0, 0.95),
        "spread": Range(0, 4),
        "curvature": Range(0.01, 1),
        "weight": Range(0.01, 1),
    },
    wrong=runs.halved_slack,
    name="bound above the exact moments on quadratics with noise, fresh masks",
)(runs.slack)


def _within_two(x: float, mu: float, share: float, gap: float, most: float = 2.0) -> float:
    """Twice the quadratic of a long run over the simple bound, and this over the root, less 1; y = share <= 2/5."""
    gamma, steps = share * runs.longest_step(mu), 10**6
    fast = gamma / (1 - mu)
    simple = (2 * gap / (fast * steps) + fast * x) / x  # noise of second moment 1 before the mask, V = x
    quadratic = 2 * gap * runs.endless_sum(x, mu, gamma) / steps + runs.resting_square(x, mu, gamma)
    root = runs.bound(gamma, 1.0, mu, 1 - x, steps, 1, gap, 1.0)
    return min(most * quadratic / simple, simple / root) - 1


def _within_less(**point: float) -> float:
    return _within_two(**point, most=1.9)


row.inequality(
    {
        "x": Range(0.01, 1),
        "mu": Range(0, 0.99),
        "share": Range(1e-4, 0.4, log=True),
        "gap": Range(1e-6, 1e6, log=True),
    },
    wrong=_within_less,
    name="for y up to 2/5 the simple bound lies between the root and twice the quadratic",
)(_within_two)
