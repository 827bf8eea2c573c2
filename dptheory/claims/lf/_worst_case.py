"""Worst cases of the descent lemma and of one step of DP-SGD-LF on smooth functions, as PEPit problems."""

import importlib
from typing import Any


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
