import itertools
from fractions import Fraction

from dptheory import embedding
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _noisy_steps as noisy


def _worst(smoothness: float, distance: float, steps: int, energy: float) -> embedding.WorstDescentRisk:
    return embedding.worst_descent_risk(
        smoothness=smoothness, initial_distance=distance, steps=steps, noise_energy=energy
    )


def _telescoped(smoothness: float, distance: float, steps: int, energy: float) -> float:
    """The bound of gep.eq12, with T in place of T + 2."""
    return embedding.noisy_descent_risk(
        smoothness=smoothness, initial_distance=distance, steps=steps, noise_energy=energy
    ).value


def _path_values(beta: Fraction, distance: Fraction, slope: Fraction, steps: int) -> tuple[Fraction, Fraction]:
    """Mean of L(theta_1..theta_T), and L(mean iterate), on the rounded |x| from ``distance`` without noise, by the steps."""
    x, total, path = distance, Fraction(0), Fraction(0)
    for _ in range(steps):
        x -= Fraction(noisy.slope_at(x, beta, slope)) / beta
        total += noisy.value_at(x, beta, slope)
        path += x
    return total / steps, Fraction(noisy.value_at(path / steps, beta, slope))


def _started_at(beta: Fraction, place: Fraction, first: int, steps: int) -> Fraction:
    """L(mean iterate) where theta is 0 up to step ``first`` - 1, and the noise takes it to ``place`` at step ``first``."""
    left = steps - first + 1
    slope = beta * left * place / (left * (left - 1) + steps)
    x, path = place, place
    for _ in range(left - 1):
        x -= Fraction(noisy.slope_at(x, beta, slope)) / beta
        path += x
    return Fraction(noisy.value_at(path / steps, beta, slope))


def _mean_values(beta: Fraction, distance: Fraction, steps: int, noise: Fraction) -> Fraction:
    """The mean of the values on rounded |x| plus beta y^2 / 2, noise +-``noise`` in y alone, every sign."""
    total = Fraction(0)
    for signs in itertools.product((1, -1), repeat=steps):
        y = Fraction(0)
        for sign in signs:
            y = y - (beta * y + sign * noise) / beta
            total += beta * y * y / 2
    start, _ = _path_values(beta, distance, beta * distance / (steps + 2), steps)
    return start + total / Fraction(steps * 2**steps)


def _mean_iterate(beta: Fraction, distance: Fraction, steps: int, noise: Fraction) -> Fraction:
    """L(mean iterate) where each step's noise +-``noise`` has a coordinate of its own."""
    start = _path_values(beta, distance, beta * distance / (steps + 2), steps)[1]
    return start + sum(_started_at(beta, noise / beta, first, steps) for first in range(1, steps + 1))


def _first_step_alone(beta: Fraction, distance: Fraction, steps: int, root: Fraction) -> tuple[Fraction, Fraction]:
    """N, and L(mean iterate) where all noise, +-steps * root, comes in the first step, in a coordinate of its own."""
    start = _path_values(beta, distance, beta * distance / (steps + 2), steps)[1]
    return steps * root**2, start + _started_at(beta, steps * root / beta, 1, steps)


def _summed_factor(steps: int) -> Fraction:
    return sum((Fraction(k * k, k * (k - 1) + steps) for k in range(1, steps + 1)), Fraction(0)) / (2 * steps)


def _searched_mean(smoothness: float, share: float, curvature: float, steps: int, noise: float) -> float:
    """The mean of the values from D = 1 on a quadratic plus a rounded |x|, every sign."""
    rest = smoothness * (1 - curvature)
    total = 0.0
    for signs in itertools.product((1, -1), repeat=steps):
        x = 1.0
        for sign in signs:
            x -= (curvature * smoothness * x + noisy.slope_at(x, rest, share * rest) + sign * noise) / smoothness
            total += curvature * smoothness * x * x / 2 + float(noisy.value_at(x, rest, share * rest))
    return total / steps / 2.0**steps


def _less_noise_slack(smoothness: float, share: float, curvature: float, steps: int, noise: float) -> float:
    """Wrong statement: the mean of the values has the smaller noise term of the mean iterate."""
    bound = _worst(smoothness, 1.0, steps, noise**2).mean_iterate_least
    return 1 - _searched_mean(smoothness, share, curvature, steps, noise) / bound


row = new_row(
    id="gep.noisy_steps",
    source=Source("gep", "new, on the proof of Theorem 3.3", (12,)),
    verdict=Verdict.HOLDS,
    calculators=(embedding.worst_descent_risk,),
)


@row.equal(
    lambda: [
        (Fraction(beta), Fraction(d), t, Fraction(noise))
        for beta in (1, Fraction(5, 2))
        for d, noise in ((0, 1), (3, 0), (2, Fraction(1, 3)), (1, 20))
        for t in (1, 2, 3, 7)
    ],
    tolerance=1e-12,
)
def _(beta: Fraction, d: Fraction, t: int, noise: Fraction) -> Sides:
    """(1) with equality, every sign of the noise, in fractions"""
    case = (float(beta), float(d), t, float(noise) ** 2)
    return _worst(*case).mean_value, lambda: _mean_values(beta, d, t, noise), _telescoped(*case)


@row.equal((100, Fraction(5)), (10**3, Fraction(1, 3)), tolerance=1e-11)
def _(t: int, d: Fraction) -> Sides:
    """first term, after a thousand steps"""
    start = float(_path_values(Fraction(1), d, d / (t + 2), t)[0])
    return _worst(1.0, float(d), t, 0.8).mean_value - 0.4, start, _telescoped(1.0, float(d), t, 0.0)


@row.certificate(
    (1.0, 1.0, 1, 1.0), (2.0, 0.5, 1, 0.1), (1.0, 3.0, 2, 0.5), problem=noisy.noisy_values, wrong=_telescoped
)
def _(beta: float, distance: float, steps: int, energy: float) -> float:
    """(1) is the worst case of one and two noisy steps"""
    return _worst(beta, distance, steps, energy).mean_value


@row.certificate(
    (1.0, 1.0, 1, 1.0),
    (1.0, 3.0, 2, 0.5),
    (2.0, 0.1, 2, 1.0),
    problem=noisy.noisy_run,
    wrong=lambda *case: _worst(*case).mean_value + 1e-3 * case[3],
)
def _(beta: float, distance: float, steps: int, energy: float) -> float:
    """(2), lower bound: the worst case at the mean iterate of one and two noisy steps"""
    return _worst(beta, distance, steps, energy).mean_iterate_least


@row.inequality(
    {
        "smoothness": Range(0.1, 10.0, log=True),
        "share": Range(0.01, 1.0),
        "curvature": Range(0.0, 0.999),
        "steps": Range(1, 3, integer=True),
        "noise": Range(1e-3, 10.0, log=True),
    },
    wrong=_less_noise_slack,
)
def values_slack(smoothness: float, share: float, curvature: float, steps: int, noise: float) -> float:
    """(1) on rounded |x| plus a quadratic, noise along it, every sign"""
    bound = _worst(smoothness, 1.0, steps, noise**2).mean_value
    return 1 - _searched_mean(smoothness, share, curvature, steps, noise) / bound


@row.equal(
    lambda: [
        (Fraction(beta), Fraction(d), t, Fraction(noise))
        for beta in (1, Fraction(5, 2))
        for d, noise in ((0, 1), (2, Fraction(1, 3)), (1, 20))
        for t in (1, 2, 3, 4, 30)
    ],
    tolerance=1e-12,
)
def _(beta: Fraction, d: Fraction, t: int, noise: Fraction) -> Sides:
    """(2), lower bound: the loss that needs it, step by step, in fractions"""
    case = (float(beta), float(d), t, float(noise) ** 2)
    wrong = _worst(*case).mean_value if t > 1 else _telescoped(*case)
    return _worst(*case).mean_iterate_least, lambda: _mean_iterate(beta, d, t, noise), wrong


@row.equal(
    lambda: [
        (Fraction(beta), Fraction(d), t, Fraction(root))
        for beta in (1, Fraction(5, 2))
        for d, root in ((0, 1), (2, Fraction(1, 3)), (1, 20))
        for t in (1, 2, 3, 4, 30)
    ],
    tolerance=1e-12,
)
def _(beta: Fraction, d: Fraction, t: int, root: Fraction) -> Sides:
    """(1) with equality at the mean iterate: noise in the first step alone, in fractions"""
    energy, value = _first_step_alone(beta, d, t, root)
    worst = _worst(float(beta), float(d), t, float(energy))
    wrong = worst.mean_iterate_least if t > 1 else _telescoped(float(beta), float(d), t, float(energy))
    return worst.mean_value, value, wrong


@row.equal((1,), (5,), (1000,), (20_000,), tolerance=1e-12)
def _(t: int) -> Sides:
    """C_T, by its sum in fractions"""
    return (
        _worst(1.0, 0.0, t, 1.0).mean_iterate_least,
        lambda: float(sum(float(Fraction(k * k, k * (k - 1) + t)) for k in range(1, t + 1)) / (2 * t)),
        float(_summed_factor(10)),
    )
