"""Worst cases of the descent lemma and of one step of DP-SGD-LF on smooth functions, as PEPit problems."""

import importlib
import math
from typing import Any

from dptheory import convergence


def descent(smoothness: float, distance: float) -> Any:
    """Largest f(v) - f(w) - <grad f(w), v - w> with |v - w| <= distance."""
    problem, function = _smooth(smoothness)
    start, end = problem.set_initial_point(), problem.set_initial_point()
    gradient, value = function.oracle(start)
    problem.set_initial_condition((end - start) ** 2 <= distance**2)
    problem.set_performance_metric(function(end) - value - gradient * (end - start))
    return problem


def frozen_step(learning_rate: float, smoothness: float, second_moment: float, noise_energy: float, bias: float) -> Any:
    """Largest |trainable part of grad f|^2 at a step with expected decrease at most 1 that moves the trainable block alone.

    The step is s +- v, both signs equally likely, in that block: |s|^2 <= second_moment, |v|^2 = noise_energy, and
    <grad f, s> >= |trainable part|^2 + bias (bias < 0 is harmful).
    """
    problem, function = _smooth(smoothness)
    partition = problem.declare_block_partition(d=2)
    point = importlib.import_module("PEPit").Point
    start = problem.set_initial_point()
    gradient, value = function.oracle(start)
    trained = partition.get_block(gradient, 1)
    signal, noise = (partition.get_block(point(), 1) for _ in range(2))
    problem.add_constraint(signal**2 <= second_moment)
    problem.add_constraint(noise**2 == noise_energy)
    problem.add_constraint(trained * signal >= trained**2 + bias)
    after = [function(start - learning_rate * (signal + sign * noise)) for sign in (1, -1)]
    problem.set_initial_condition(value - (after[0] + after[1]) / 2 <= 1)
    problem.set_performance_metric(trained**2)
    return problem


def _smooth(smoothness: float) -> tuple[Any, Any]:
    """A problem and its smooth function."""
    problem = importlib.import_module("PEPit").PEP()
    kind = importlib.import_module("PEPit.functions").SmoothFunction
    return problem, problem.declare_function(kind, L=smoothness)


def bound(learning_rate: float, smoothness: float, second_moment: float, noise_energy: float, bias: float) -> float:
    """The corrected bound for one step with decrease 1; noise_energy = d tau^2, here with d = 4."""
    clip = math.sqrt(second_moment)
    sigma = math.sqrt(noise_energy / 4) / clip
    return convergence.layer_freezing_bound(
        decrease=1.0,
        learning_rate=learning_rate,
        steps=1,
        smoothness=smoothness,
        clip_norm=clip,
        noise_multiplier=sigma,
        dim=4,
        batch_size=1,
        second_moment=second_moment,
        bias=bias,
    ).value


STEPS = ((0.5, 1.0, 10.0, 1.0, -1.0), (0.3, 2.0, 20.0, 0.5, -0.5), (1.2, 1.0, 8.0, 2.0, 0.0))
"""Arguments of :func:`frozen_step` and :func:`bound`."""
