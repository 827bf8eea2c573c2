"""Noisy gradient steps on convex functions: exact enumeration on a rounded absolute value, and worst cases by PEPit."""

import importlib
import itertools
import math
from fractions import Fraction
from typing import Any

import scipy

# --- The risk of noisy gradient descent by search over its steps, and what it is at least at the printed number of steps


def excess_at_printed_steps(root_dim: int, steps: int) -> Fraction:
    """Least excess at the printed T in exact arithmetic: beta = D = epsilon = log(1/delta) = 1, k = 1, no residual.

    p = root_dim^2 and n = T root_dim, so that T = n beta epsilon / sqrt p. Every sample has the loss of ``least_risk`` along e_1.
    The mean iterate is at least D - (T + 1) g / (2 beta) whatever the noise, and Jensen's inequality gives the risk there.
    """
    assert Fraction(steps * root_dim, root_dim) == steps  # n beta epsilon / sqrt p
    slope = Fraction(1, steps + 2)
    return Fraction(value_at(1 - (steps + 1) * slope / 2, 1, slope))


def brute_force_risk(
    dim: int, subspace_dim: int, samples: int, beta: float, distance: float, mu: float, clip: float
) -> float:
    """Smallest risk over T and over how the budget of a step, 1/s1^2 + clip^2/s2^2 = mu^2/T, is shared, both by search."""
    rest = dim - subspace_dim

    def step_energy(steps: int) -> float:
        if clip == 0 or rest == 0:
            return subspace_dim * steps / mu**2
        found = scipy.optimize.minimize_scalar(
            lambda share: steps / mu**2 * (subspace_dim / share + rest * clip**2 / (1 - share)),
            bounds=(1e-9, 1 - 1e-9),
            method="bounded",
            options={"xatol": 1e-12},
        )
        return float(found.fun)

    return min(
        beta * distance**2 / (2 * steps) + step_energy(steps) / samples**2 / (2 * beta) for steps in range(1, 400)
    )


def published_risk(
    dim: int, subspace_dim: int, samples: int, beta: float, distance: float, eps: float, delta: float, clip: float
) -> float:
    """Smallest risk over T with sigma = 2 sqrt(2 T log(1/delta)) / eps on each part, per entry, added up."""

    def at(steps: int) -> float:
        sigma = 2 * math.sqrt(2 * steps * math.log(1 / delta)) / eps
        energy = (subspace_dim * sigma**2 + dim * (sigma * clip) ** 2) / samples**2
        return beta * distance**2 / (2 * steps) + energy / (2 * beta)

    return min(map(at, range(1, 4000)))


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


def mean_excess(smoothness: Number, distance: Number, slope: Number, steps: int, noise: Number) -> Number:
    """E L(mean of theta_1..theta_T) from theta_0 = D, steps of size 1/beta, noise +-``noise`` on every gradient."""
    total: Number = Fraction(0)
    for signs in itertools.product((1, -1), repeat=steps):
        x, path = distance, Fraction(0)
        for sign in signs:
            x = x - (slope_at(x, smoothness, slope) + sign * noise) / smoothness
            path = path + x
        total += value_at(path / steps, smoothness, slope)
    return total / 2**steps


def telescoped_quadratic(smoothness: Number, distance: Number, steps: int, noise: Number) -> Number:
    """Mean over t < T of E L(theta_t), plus (beta / 2T) E theta_T^2, for L = beta theta^2 / 2: every step of the proof is equality."""
    total: Number = Fraction(0)
    for signs in itertools.product((1, -1), repeat=steps):
        x = distance
        for sign in signs:
            total += smoothness * x * x / 2
            x = x - (smoothness * x + sign * noise) / smoothness
        total += smoothness * x * x / 2
    return total / 2**steps / steps


def _convex(smoothness: float) -> tuple[Any, Any, Any, Any]:
    """A problem, its smooth convex function, the minimiser and the start."""
    problem = importlib.import_module("PEPit").PEP()
    function = problem.declare_function(importlib.import_module("PEPit.functions").SmoothConvexFunction, L=smoothness)
    return problem, function, function.stationary_point(), problem.set_initial_point()


def noisy_step(smoothness: float, noise_energy: float) -> Any:
    """Largest E L(theta_1) - L* - (beta/2)(|theta_0 - theta*|^2 - E|theta_1 - theta*|^2), noise +-v with |v|^2 = noise_energy."""
    pepit = importlib.import_module("PEPit")
    problem, function, best, start = _convex(smoothness)
    noise = pepit.Point()
    problem.add_constraint(noise**2 == noise_energy)
    gradient = function.gradient(start)
    after = [start - (gradient + sign * noise) / smoothness for sign in (1, -1)]
    value = sum(function(x) for x in after) / 2 - function(best)
    spread = (start - best) ** 2 - sum((x - best) ** 2 for x in after) / 2
    problem.set_performance_metric(value - smoothness / 2 * spread)
    return problem


def noisy_step_at_start(smoothness: float, noise_energy: float) -> Any:
    """The same with L(theta_0) in place of L(theta_1)."""
    pepit = importlib.import_module("PEPit")
    problem, function, best, start = _convex(smoothness)
    noise = pepit.Point()
    problem.add_constraint(noise**2 == noise_energy)
    gradient, value = function.oracle(start)
    after = [start - (gradient + sign * noise) / smoothness for sign in (1, -1)]
    spread = (start - best) ** 2 - sum((x - best) ** 2 for x in after) / 2
    problem.set_performance_metric(value - function(best) - smoothness / 2 * spread)
    return problem


def noisy_run(smoothness: float, distance: float, steps: int, noise_energy: float) -> Any:
    """Largest E L(mean iterate) - L* after one or two steps with noise +-v_t, independent signs, |v_t|^2 = noise_energy."""
    pepit = importlib.import_module("PEPit")
    problem, function, best, start = _convex(smoothness)
    problem.set_initial_condition((start - best) ** 2 <= distance**2)
    paths: list[list[Any]] = [[start]]
    for _ in range(steps):
        longer = []
        for path in paths:
            gradient = function.gradient(path[-1])
            noise = pepit.Point()
            problem.add_constraint(noise**2 == noise_energy)
            longer += [[*path, path[-1] - (gradient + sign * noise) / smoothness] for sign in (1, -1)]
        paths = longer
    means = [sum(path[1:], start - start) / steps for path in paths]
    problem.set_performance_metric(sum(function(x) for x in means) / len(means) - function(best))
    return problem


def noisy_values(smoothness: float, distance: float, steps: int, noise_energy: float) -> Any:
    """Largest mean over t = 1..T of E L(theta_t) - L* after one or two steps, noise as in ``noisy_run``."""
    pepit = importlib.import_module("PEPit")
    problem, function, best, start = _convex(smoothness)
    problem.set_initial_condition((start - best) ** 2 <= distance**2)
    points, means = [start], []
    for _ in range(steps):
        longer = []
        for point in points:
            gradient, noise = function.gradient(point), pepit.Point()
            problem.add_constraint(noise**2 == noise_energy)
            longer += [point - (gradient + sign * noise) / smoothness for sign in (1, -1)]
        points = longer
        means.append(sum(function(x) for x in points) / len(points))
    problem.set_performance_metric(sum(means) / steps - function(best))
    return problem


def biased_values(smoothness: float, distance: float, steps: int, noise_energy: float, bias: float) -> Any:
    """``noisy_values`` for any number of steps with a bias of norm at most ``bias`` in each; one path where there is no noise."""
    pepit = importlib.import_module("PEPit")
    problem, function, best, start = _convex(smoothness)
    problem.set_initial_condition((start - best) ** 2 <= distance**2)
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
        means.append(sum(function(x) for x in points) / len(points))
    problem.set_performance_metric(sum(means) / steps - function(best))
    return problem
