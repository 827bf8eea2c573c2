"""Noisy gradient steps on convex functions, residuals clipped or not: exact enumeration, and worst cases by PEPit."""

import importlib
import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import scipy

from dptheory import embedding
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row

# --- The risk of noisy gradient descent by search over its steps, and what it is at least at the printed number of steps


def excess_at_printed_steps(root_dim: int, steps: int) -> Fraction:
    """Least excess at the printed T in exact arithmetic: beta = D = epsilon = log(1/delta) = 1, k = 1, no residual.

    p = root_dim^2 and n = T root_dim, so that T = n beta epsilon / sqrt p. Every sample has the loss of ``least_risk`` along e_1.
    The mean iterate is at least D - (T + 1) g / (2 beta) whatever the noise, and Jensen's inequality gives the risk there.
    """
    assert Fraction(steps * root_dim, root_dim) == steps  # n beta epsilon / sqrt p
    slope = Fraction(1, steps + 2)
    return Fraction(value_at(1 - (steps + 1) * slope / 2, 1, slope))


Number = Any
"""A fraction or a float; the result is exact for fractions."""


def slope_at(x: Number, smoothness: Number, slope: Number) -> Number:
    """Derivative of the rounded absolute value: beta x, cut off at +-g."""
    return max(-slope, min(slope, smoothness * x))


def value_at(x: Number, smoothness: Number, slope: Number) -> Number:
    """g|x| - g^2 / (2 beta), and beta x^2 / 2 where |x| <= g / beta: convex, beta-smooth, g-Lipschitz, minimum 0 at 0."""
    if smoothness * abs(x) <= slope:
        return smoothness * x * x / 2
    return slope * abs(x) - slope * slope / (2 * smoothness)


def every_path(start: Number, steps: int, move: Callable[[Number, int], Number]) -> Iterator[list[Number]]:
    """The start and the points after each step, for every choice of the signs of the noise; ``move(x, sign)`` makes a step."""
    for signs in itertools.product((1, -1), repeat=steps):
        yield list(itertools.accumulate(signs, move, initial=start))


def mean_excess(smoothness: Number, distance: Number, slope: Number, steps: int, noise: Number) -> Number:
    """E L(mean of theta_1..theta_T) from theta_0 = D, steps of size 1/beta, noise +-``noise`` on every gradient."""

    def move(x: Number, sign: int) -> Number:
        return x - (slope_at(x, smoothness, slope) + sign * noise) / smoothness

    means = (sum(path[1:], Fraction(0)) / steps for path in every_path(distance, steps, move))
    return sum((value_at(x, smoothness, slope) for x in means), Fraction(0)) / 2**steps


def telescoped_quadratic(smoothness: Number, distance: Number, steps: int, noise: Number) -> Number:
    """Mean over t < T of E L(theta_t), plus (beta / 2T) E theta_T^2, for L = beta theta^2 / 2: every step of the proof is equality."""
    paths = every_path(distance, steps, lambda x, sign: x - (smoothness * x + sign * noise) / smoothness)
    return sum((smoothness * x * x / 2 for path in paths for x in path), Fraction(0)) / 2**steps / steps


def _convex(smoothness: float, distance: float = math.inf) -> tuple[Any, Any, Any, Any]:
    """A problem, its smooth convex function, the minimiser and the start, at most so far from it."""
    problem = importlib.import_module("PEPit").PEP()
    function = problem.declare_function(importlib.import_module("PEPit.functions").SmoothConvexFunction, L=smoothness)
    best, start = function.stationary_point(), problem.set_initial_point()
    if distance < math.inf:
        problem.set_initial_condition((start - best) ** 2 <= distance**2)
    return problem, function, best, start


def _stepped(problem: Any, function: Any, points: list[Any], smoothness: float, noise_energy: float) -> list[list[Any]]:
    """Where a step leads from each of the points: two places each, noise +-v with |v|^2 = noise_energy."""
    pepit = importlib.import_module("PEPit")
    after = []
    for point in points:
        gradient, noise = function.gradient(point), pepit.Point()
        problem.add_constraint(noise**2 == noise_energy)
        after.append([point - (gradient + sign * noise) / smoothness for sign in (1, -1)])
    return after


def _mean(function: Any, points: list[Any]) -> Any:
    return sum(function(x) for x in points) / len(points)


def noisy_step(smoothness: float, noise_energy: float) -> Any:
    """Largest E L(theta_1) - L* - (beta/2)(|theta_0 - theta*|^2 - E|theta_1 - theta*|^2), noise +-v with |v|^2 = noise_energy."""
    return _one_step(smoothness, noise_energy, lambda function, start, after: _mean(function, after))


def noisy_step_at_start(smoothness: float, noise_energy: float) -> Any:
    """The same with L(theta_0) in place of L(theta_1)."""
    return _one_step(smoothness, noise_energy, lambda function, start, after: function(start))


def _one_step(smoothness: float, noise_energy: float, value: Callable[[Any, Any, list[Any]], Any]) -> Any:
    problem, function, best, start = _convex(smoothness)
    (after,) = _stepped(problem, function, [start], smoothness, noise_energy)
    spread = (start - best) ** 2 - sum((x - best) ** 2 for x in after) / 2
    problem.set_performance_metric(value(function, start, after) - function(best) - smoothness / 2 * spread)
    return problem


def noisy_run(smoothness: float, distance: float, steps: int, noise_energy: float) -> Any:
    """Largest E L(mean iterate) - L* after one or two steps with noise +-v_t, independent signs, |v_t|^2 = noise_energy."""
    problem, function, best, start = _convex(smoothness, distance)
    paths: list[list[Any]] = [[start]]
    for _ in range(steps):
        ends = _stepped(problem, function, [path[-1] for path in paths], smoothness, noise_energy)
        paths = [[*path, end] for path, both in zip(paths, ends, strict=True) for end in both]
    means = [sum(path[1:], start - start) / steps for path in paths]
    problem.set_performance_metric(_mean(function, means) - function(best))
    return problem


def noisy_values(smoothness: float, distance: float, steps: int, noise_energy: float) -> Any:
    """Largest mean over t = 1..T of E L(theta_t) - L* after one or two steps, noise as in ``noisy_run``."""
    problem, function, best, start = _convex(smoothness, distance)
    points, means = [start], []
    for _ in range(steps):
        after = _stepped(problem, function, points, smoothness, noise_energy)
        points = [x for both in after for x in both]
        means.append(_mean(function, points))
    problem.set_performance_metric(sum(means) / steps - function(best))
    return problem


def biased_values(smoothness: float, distance: float, steps: int, noise_energy: float, bias: float) -> Any:
    """``noisy_values`` for any number of steps with a bias of norm at most ``bias`` in each; one path where there is no noise."""
    pepit = importlib.import_module("PEPit")
    problem, function, best, start = _convex(smoothness, distance)
    points, means = [start], []
    for _ in range(steps):
        longer = []
        for point in points:
            pushed, noise = pepit.Point(), pepit.Point()
            problem.add_constraint(pushed**2 <= bias**2)
            problem.add_constraint(noise**2 == noise_energy)
            after = point - (function.gradient(point) + pushed) / smoothness
            longer += [after + sign * noise / smoothness for sign in (1, -1)] if noise_energy else [after]
        points = longer
        means.append(_mean(function, points))
    problem.set_performance_metric(sum(means) / steps - function(best))
    return problem


def _worst(smoothness: float, distance: float, steps: int, energy: float) -> embedding.WorstDescentRisk:
    return embedding.worst_descent_risk(
        smoothness=smoothness, initial_distance=distance, steps=steps, noise_energy=energy
    )


def telescoped(smoothness: float, distance: float, steps: int, energy: float) -> float:
    """The bound of gep.eq12, with T in place of T + 2."""
    return embedding.noisy_descent_risk(
        smoothness=smoothness, initial_distance=distance, steps=steps, noise_energy=energy
    ).value


def _path(beta: Fraction, start: Fraction, slope: Fraction, steps: int) -> list[Fraction]:
    """The start and the points after each step on the rounded |x| without noise."""
    return next(every_path(start, steps, lambda x, _: x - Fraction(slope_at(x, beta, slope)) / beta))


def _path_values(beta: Fraction, distance: Fraction, slope: Fraction, steps: int) -> tuple[Fraction, Fraction]:
    """Mean of L(theta_1..theta_T), and L(mean iterate), on the rounded |x| from ``distance`` without noise, by the steps."""
    path = _path(beta, distance, slope, steps)[1:]
    mean = sum((Fraction(value_at(x, beta, slope)) for x in path), Fraction(0)) / steps
    return mean, Fraction(value_at(sum(path, Fraction(0)) / steps, beta, slope))


def _started_at(beta: Fraction, place: Fraction, first: int, steps: int) -> Fraction:
    """L(mean iterate) where theta is 0 up to step ``first`` - 1, and the noise takes it to ``place`` at step ``first``."""
    left = steps - first + 1
    slope = beta * left * place / (left * (left - 1) + steps)
    path = _path(beta, place, slope, left - 1)
    return Fraction(value_at(sum(path, Fraction(0)) / steps, beta, slope))


def _mean_values(beta: Fraction, distance: Fraction, steps: int, noise: Fraction) -> Fraction:
    """The mean of the values on rounded |x| plus beta y^2 / 2, noise +-``noise`` in y alone, every sign."""
    start, _ = _path_values(beta, distance, beta * distance / (steps + 2), steps)
    return start + _noise_alone(beta, steps, noise)


def _noise_alone(beta: Fraction, steps: int, noise: Fraction) -> Fraction:
    """Mean of beta y^2 / 2 over the steps from y = 0, every sign of the noise."""
    paths = every_path(Fraction(0), steps, lambda y, sign: y - (beta * y + sign * noise) / beta)
    total = sum((beta * y * y / 2 for path in paths for y in path[1:]), Fraction(0))
    return Fraction(total, steps * 2**steps)


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

    def move(x: float, sign: int) -> float:
        return x - float(curvature * smoothness * x + slope_at(x, rest, share * rest) + sign * noise) / smoothness

    points = (x for path in every_path(1.0, steps, move) for x in path[1:])
    values = (curvature * smoothness * x * x / 2 + float(value_at(x, rest, share * rest)) for x in points)
    return float(sum(values)) / steps / 2.0**steps


noisy_steps = new_row(
    id="gep.noisy_steps",
    source=Source("gep", "new, on the proof of Theorem 3.3", (12,)),
    verdict=Verdict.HOLDS,
    calculators=(embedding.worst_descent_risk,),
)


@noisy_steps.equal(
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
    return _worst(*case).mean_value, lambda: _mean_values(beta, d, t, noise), telescoped(*case)


@noisy_steps.equal((100, Fraction(5)), (10**3, Fraction(1, 3)), tolerance=1e-11)
def _(t: int, d: Fraction) -> Sides:
    """first term, after a thousand steps"""
    start = float(_path_values(Fraction(1), d, d / (t + 2), t)[0])
    return _worst(1.0, float(d), t, 0.8).mean_value - 0.4, start, telescoped(1.0, float(d), t, 0.0)


@noisy_steps.certificate(
    (1.0, 1.0, 1, 1.0), (2.0, 0.5, 1, 0.1), (1.0, 3.0, 2, 0.5), problem=noisy_values, wrong=telescoped
)
def _(beta: float, distance: float, steps: int, energy: float) -> float:
    """(1) is the worst case of one and two noisy steps"""
    return _worst(beta, distance, steps, energy).mean_value


@noisy_steps.certificate(
    (1.0, 1.0, 1, 1.0),
    (1.0, 3.0, 2, 0.5),
    (2.0, 0.1, 2, 1.0),
    problem=noisy_run,
    wrong=lambda *case: _worst(*case).mean_value + 1e-3 * case[3],
)
def _(beta: float, distance: float, steps: int, energy: float) -> float:
    """(2), lower bound: the worst case at the mean iterate of one and two noisy steps"""
    return _worst(beta, distance, steps, energy).mean_iterate_least


@noisy_steps.inequality(
    {
        "smoothness": Range(0.1, 10.0, log=True),
        "share": Range(0.01, 1.0),
        "curvature": Range(0.0, 0.999),
        "steps": Range(1, 3, integer=True),
        "noise": Range(1e-3, 10.0, log=True),
    },
    # wrong: the mean of the values has the smaller noise term of the mean iterate
    wrong=lambda smoothness, share, curvature, steps, noise: (
        1
        - _searched_mean(smoothness, share, curvature, steps, noise)
        / _worst(smoothness, 1.0, steps, noise**2).mean_iterate_least
    ),
)
def values_slack(smoothness: float, share: float, curvature: float, steps: int, noise: float) -> float:
    """(1) on rounded |x| plus a quadratic, noise along it, every sign"""
    bound = _worst(smoothness, 1.0, steps, noise**2).mean_value
    return 1 - _searched_mean(smoothness, share, curvature, steps, noise) / bound


@noisy_steps.equal(
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
    wrong = _worst(*case).mean_value if t > 1 else telescoped(*case)
    return _worst(*case).mean_iterate_least, lambda: _mean_iterate(beta, d, t, noise), wrong


@noisy_steps.equal(
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
    wrong = worst.mean_iterate_least if t > 1 else telescoped(float(beta), float(d), t, float(energy))
    return worst.mean_value, value, wrong


@noisy_steps.equal((1,), (5,), (1000,), (20_000,), tolerance=1e-12)
def _(t: int) -> Sides:
    """C_T, by its sum in fractions"""
    return (
        _worst(1.0, 0.0, t, 1.0).mean_iterate_least,
        lambda: float(sum(float(Fraction(k * k, k * (k - 1) + t)) for k in range(1, t + 1)) / (2 * t)),
        float(_summed_factor(10)),
    )


clipped_residuals = new_row(
    id="gep.clipped_residuals",
    source=Source("gep", "new, on Theorem 3.3 with clipped residuals"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.biased_descent_risk, embedding.best_residual_clip),
)


def _risk(beta: float, distance: float, steps: int, energy: float, bias: float) -> embedding.BiasedDescentRisk:
    return embedding.biased_descent_risk(
        smoothness=beta, initial_distance=distance, steps=steps, noise_energy=energy, bias=bias
    )


def _unbiased(beta: float, distance: float, steps: int, energy: float, bias: float) -> float:
    """The wrong statement that the bias does nothing."""
    return _worst(beta, distance, steps, energy).mean_value


def _clipped_run(beta: Fraction, distance: Fraction, steps: int, noise: Fraction, bias: Fraction) -> Fraction:
    """Mean of L(theta_t): four samples with losses 4 h + a x, -a x, -a x, -a x, and beta y^2 / 2 each, a public y axis.

    Residuals (along x) are clipped, sample by sample; the noise on the mean, +-``noise``, is along y, every sign.
    """
    slope = min(beta * distance, (beta * distance + (steps + 1) * bias / 2) / (steps + 2))
    clip = 4 * abs(slope - bias) + Fraction(1, 7)
    pull = (clip / 4 - slope + bias) * Fraction(4, 3)
    place, left = distance, Fraction(0)
    for _ in range(steps):
        inner = Fraction(slope_at(place, beta, slope))
        residuals = [4 * inner + 3 * pull, -pull, -pull, -pull]
        clipped = [max(-clip, min(clip, residual)) for residual in residuals]
        assert sum(abs(r) - abs(c) for r, c in zip(residuals, clipped, strict=True)) == 4 * bias  # mean excess b
        place -= sum(clipped, Fraction(0)) / 4 / beta
        left += Fraction(value_at(place, beta, slope))
    return left / steps + _noise_alone(beta, steps, noise)


@clipped_residuals.equal(
    lambda: [
        (Fraction(beta), Fraction(d), t, Fraction(noise), Fraction(bias))
        for beta in (1, Fraction(5, 2))
        for d, noise, bias in (
            (1, 0, Fraction(1, 10)),
            (2, Fraction(1, 3), Fraction(1, 2)),
            (1, 3, 2),
            (1, 1, 0),
            (1, 1, 5),
        )
        for t in (1, 2, 3, 8)
    ],
    tolerance=1e-12,
)
def _(beta: Fraction, d: Fraction, t: int, noise: Fraction, bias: Fraction) -> Sides:
    """item 2: W on the loss that has it, residuals clipped sample by sample, in fractions"""
    case = (float(beta), float(d), t, float(noise) ** 2, float(bias))
    return _risk(*case).lower, lambda: _clipped_run(beta, d, t, noise, bias), _unbiased(*case)


@clipped_residuals.certificate(
    (1.0, 1.0, 1, 0.1, 0.5),
    (2.0, 1.0, 2, 0.0, 0.2),
    (1.0, 1.0, 3, 0.0, 0.1),
    problem=biased_values,
    wrong=_unbiased,
)
def _(beta: float, distance: float, steps: int, energy: float, bias: float) -> float:
    """item 2: W is the worst case of a few steps with small bias"""
    return _risk(beta, distance, steps, energy, bias).lower


@clipped_residuals.certificate(
    (1.0, 1.0, 2, 1.0, 0.5),
    (1.0, 1.0, 2, 4.0, 1.0),
    (1.0, 0.1, 4, 0.0, 1.0),
    problem=biased_values,
    wrong=_unbiased,
    looseness=1.7,
)
def _(beta: float, distance: float, steps: int, energy: float, bias: float) -> float:
    """item 1: U against the worst case of a few steps"""
    return _risk(beta, distance, steps, energy, bias).upper


def _searched(steps: float, curvature: float, share: float, noise: float, bias: float) -> float:
    """Mean excess from D = 1 on a quadratic plus a rounded |x| with biases away from the minimiser, every sign of the noise."""
    steps, rest = round(steps), 1 - curvature
    total, paths = 0.0, [1.0]
    for _ in range(steps):
        moved = [x - curvature * x - slope_at(x, rest, share * rest) + math.copysign(bias, x) for x in paths]
        paths = [x + sign * noise for x in moved for sign in (1, -1)]
        values = (curvature * x * x / 2 + float(value_at(x, rest, share * rest)) for x in paths)
        total += sum(values) / len(paths)
    return total / steps


@clipped_residuals.inequality(
    {
        "steps": Range(1, 7, integer=True),
        "curvature": Range(0.0, 0.999),
        "share": Range(0.01, 3.0, log=True),
        "noise": Range(0.0, 3.0),
        "bias": Range(0.0, 3.0),
    },
    # wrong: a bias of b costs no more than b D / 2 on top of the risk without
    wrong=lambda steps, curvature, share, noise, bias: (
        1
        - _searched(steps, curvature, share, noise, bias)
        / (_unbiased(1.0, 1.0, round(steps), noise**2, bias) + bias / 2)
    ),
)
def _upper_slack(steps: float, curvature: float, share: float, noise: float, bias: float) -> float:
    """item 1 on rounded |x| plus a quadratic, biases outwards, every sign of the noise"""
    found = _searched(steps, curvature, share, noise, bias)
    return 1 - found / _risk(1.0, 1.0, round(steps), noise**2, bias).upper


@clipped_residuals.equal(
    (1.0, 1.0, 1, 1.0, 1.0),
    (2.0, 3.0, 50, 0.5, 0.1),
    (1.0, 0.0, 7, 2.0, 0.3),
    (0.5, 1.0, 4000, 1e-4, 1e-3),
    (1.0, 1.0, 3, 0.25, 5.0),
    tolerance=1e-12,
)
def _(beta: float, distance: float, steps: int, energy: float, bias: float) -> Sides:
    """U, term by term in fractions of squares"""
    found = _risk(beta, distance, steps, energy, bias)
    root = Fraction(math.isqrt(int(Fraction(energy) * steps * 10**40)), 10**20)
    b, d, g = Fraction(bias), Fraction(distance), Fraction(beta)
    terms = (
        g * d * d / (2 * steps) + Fraction(energy) / (2 * g) + b * d + steps * b * b / (2 * g) + 2 * b * root / (3 * g)
    )
    return found.upper, terms, found.lower


def _lower_over_upper(steps: float, ratio: float) -> float:
    """W over U at the best T, an integer; b = 1, s = ratio, beta = 1."""
    steps = round(steps)
    root = math.sqrt(ratio**2 + 4 * ratio / 3 + 1)
    found = _risk(1.0, steps * root, steps, steps * ratio**2, 1.0)
    return found.lower / found.upper


@clipped_residuals.inequality(
    {"steps": Range(17, 10**6, log=True), "ratio": Range(1e-3, 1e3, log=True)},
    # wrong: one and a half times W is
    wrong=lambda steps, ratio: 1.5 * _lower_over_upper(steps, ratio) - 1,
)
def _twice_slack(steps: float, ratio: float) -> float:
    """item 3: twice W is at least U at the best T from 17 on"""
    return 2.0 * _lower_over_upper(steps, ratio) - 1


def _norms(law: str, samples: int) -> list[float]:
    """Quantiles of a law of residual norms in [0, 1]."""
    levels = [(place + 0.5) / samples for place in range(samples)]
    if law == "two":
        return [0.05 if level < 0.98 else 0.6 for level in levels]
    return [0.05 * min(20.0, -math.log(1 - level)) if law == "exponential" else 0.3 * level for level in levels]


_SETTINGS = tuple(
    (law, dim, n, mu)
    for law in ("two", "exponential", "uniform")
    for dim, n, mu in ((200, 50, 2.0), (269_722, 50_000, 1.0), (269_722, 50_000, 0.02), (25_000, 100, 0.5))
)


def _best(law: str, dim: int, n: int, mu: float) -> embedding.BestResidualClip:
    """Over two subspaces; with the second one the residuals are half as long."""
    rows = _norms(law, 400)
    return embedding.best_residual_clip(
        residual_norms=[rows, [norm / 2 for norm in rows]], subspace_dims=[dim // 100, dim // 10], dim=dim, train_size=n,
        smoothness=2.0, initial_distance=3.0, mu=mu, lipschitz=1.5,
    )  # fmt: skip


def _found(law: str, dim: int, n: int, mu: float) -> dict[str, float]:
    """The same by minimising U over clip and T for each subspace."""
    best: dict[str, float] = {"value": math.inf}
    for k, scale in ((dim // 100, 1.0), (dim // 10, 0.5)):
        rows = scale * np.array(_norms(law, 400))

        def parts(clip: float, k: int = k, rows: np.ndarray = rows) -> tuple[float, float]:
            return (math.sqrt(k) * 1.5 + math.sqrt(dim - k) * clip) / (mu * n), float(np.maximum(rows - clip, 0).mean())

        def real(clip: float, parts=parts) -> float:  # type: ignore[no-untyped-def]
            s, b = parts(clip)
            return float(3.0 * (b + math.sqrt(s * s + 4 * b * s / 3 + b * b)))

        inside = scipy.optimize.minimize_scalar(
            real, bounds=(0.0, float(rows.max())), method="bounded", options={"xatol": 1e-12}
        ).x
        clip = float(min((0.0, inside, *rows.tolist()), key=real))
        s, b = parts(clip)
        steps = max(1, round(6.0 / math.sqrt(s * s + 4 * b * s / 3 + b * b)))
        values = {t: _risk(2.0, 3.0, t, t * s * s, b).upper for t in (steps - 1, steps, steps + 1) if t}
        steps = min(values, key=values.__getitem__)
        if values[steps] < best["value"]:
            best = {"value": values[steps], "residual_clip": clip, "subspace_dim": k, "steps": steps, "bias": b}
            best["noise_energy"] = steps * s * s
    return best


@clipped_residuals.equal(
    *(
        (*one, field)
        for one in _SETTINGS
        for field in ("value", "residual_clip", "subspace_dim", "steps", "bias", "noise_energy")
    ),
    tolerance=1e-5,
)
def _(law: str, dim: int, n: int, mu: float, field: str) -> Sides:
    """best clip, subspace and T, by search"""
    found = float(getattr(_best(law, dim, n, mu), field))
    return found, lambda: _found(law, dim, n, mu)[field], 1.005 * found + 1e-3


@clipped_residuals.equal(*((*one, twice) for one in _SETTINGS[:3] for twice in (False, True)))
def _(law: str, dim: int, n: int, mu: float, twice: bool) -> Sides:
    """which subspaces are as good: the best one alone, or both where it is given twice"""
    rows = _norms(law, 400)
    best = _best(law, dim, n, mu)
    scale = 1.0 if best.subspace_dim == dim // 100 else 0.5
    same = [norm * scale for norm in rows]
    other = [1.5] * 400
    found = embedding.best_residual_clip(
        residual_norms=[same, same if twice else other], subspace_dims=[best.subspace_dim] * 2, dim=dim, train_size=n,
        smoothness=2.0, initial_distance=3.0, mu=mu, lipschitz=1.5,
    )  # fmt: skip
    chosen = int(_found(law, dim, n, mu)["subspace_dim"])
    return sum(found.alike_dims), chosen * (1 + twice), chosen * (2 - twice)


@clipped_residuals.equal(*_SETTINGS[:6])
def _(law: str, dim: int, n: int, mu: float) -> Sides:
    """item 4: the share of residuals that the best clip clips"""
    best = _best(law, dim, n, mu)
    rows = np.array(_norms(law, 400)) * (1.0 if best.subspace_dim == dim // 100 else 0.5)
    share = math.sqrt(dim - best.subspace_dim) / (mu * n)
    above = float((rows > best.residual_clip * (1 + 1e-9)).mean())
    at_least = float((rows >= best.residual_clip * (1 - 1e-9)).mean())
    holds = above <= 0.6 * share and (best.residual_clip == 0 or at_least >= share / 3)
    return holds, True, above <= 0.3 * share and at_least >= 0.5 * share


@clipped_residuals.equal(*((m, mu) for m in (1, 5, 7, 20) for mu in (1.0, 0.5)))
def _(m: int, mu: float) -> Sides:
    """item 4: does a clip below the largest residual lower the bound? q = 100, m samples of 50 at the largest residual"""
    found = embedding.best_residual_clip(
        residual_norms=[[0.5] * m + [0.1] * (50 - m)], subspace_dims=[1], dim=101, train_size=50, smoothness=1.0,
        initial_distance=1.0, mu=mu,
    )  # fmt: skip
    return found.residual_clip < 0.5, m < Fraction(6) / Fraction(mu), m < Fraction(10) / Fraction(mu)
