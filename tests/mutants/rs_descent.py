"""Wrong descent bounds and recursions: every field, on every branch, 1 % to either side."""

import dataclasses
from typing import Any

from dptheory import convergence, quadratic
from mutants.mutators import Calculator, Mutant


def moved(field: str, factor: float, **where: Any) -> Any:
    """One field of the bound times ``factor``, where the keyword arguments given have these values."""

    def mutate(function: Calculator) -> Calculator:
        def mutant(*a: Any, **k: Any) -> Any:
            found = function(*a, **k)
            if any(k.get(name) != value for name, value in where.items()):
                return found
            return dataclasses.replace(found, **{field: factor * getattr(found, field)})

        return mutant

    return mutate


def at_size(limit: int, position: int, factor: float, field: str) -> Any:
    """One field is wrong where the positional argument is at least ``limit``."""

    def mutate(function: Calculator) -> Calculator:
        def mutant(*a: Any, **k: Any) -> Any:
            found = function(*a, **k)
            if len(a) <= position or a[position] < limit:
                return found
            return dataclasses.replace(found, **{field: factor * getattr(found, field)})

        return mutant

    return mutate


def _moment(factor: float, **where: Any) -> Any:
    def mutate(function: Calculator) -> Calculator:
        def mutant(*a: Any, **k: Any) -> float:
            right = float(function(*a, **k))
            return right * factor if all(k.get(name) == value for name, value in where.items()) else right

        return mutant

    return mutate


def _default_moment(function: Calculator) -> Calculator:
    """C^2 where no second moment is given, as printed."""

    def mutant(*a: Any, **k: Any) -> Any:
        if (a[11] if len(a) > 11 else k.get("second_moment")) is None:
            k = {**{n: v for n, v in k.items() if n != "sampling_rate"}, "sampling": "fixed"}
        return function(*a, **k)

    return mutant


def _later_epochs(function: Calculator) -> Calculator:
    """Wrong from the second epoch of several steps on."""

    def mutant(curvature: Any, start: Any, epochs: int, steps_per_epoch: int, *a: Any, **k: Any) -> Any:
        found = function(curvature, start, epochs, steps_per_epoch, *a, **k)
        if epochs > 1 and steps_per_epoch > 1:
            found[steps_per_epoch + 1 :] *= 1.01
        return found

    return mutant


_FIELDS = ("optimization", "clipping", "noise")
MUTANTS: list[Mutant] = [
    *((convergence, name, moved(field, factor)) for name in ("alignment_bound", "dpsgd_bound", "noisy_sgd_bound")
      for field in _FIELDS for factor in (0.99, 1.01)),
    *((convergence, "private_bound", moved(field, factor)) for field in _FIELDS for factor in (0.99, 1.01)),
    (convergence, "dpsgd_bound", moved("bias", 0.99)),
    *((convergence, name, moved(field, 0.99, sampling=sampling)) for name in ("dpsgd_bound", "noisy_sgd_bound", "private_bound")
      for field in ("optimization", "clipping") for sampling in ("fixed", "poisson")),
    *((convergence, "dpsgd_bound", at_size(10**5, 6, 0.99, field)) for field in _FIELDS),
    *((convergence, "noisy_sgd_bound", at_size(10**5, 6, 0.99, field)) for field in _FIELDS),
    *((convergence, "noisy_sgd_bound", at_size(2, 7, 0.99, field)) for field in _FIELDS),
    (convergence, "dpsgd_bound", _default_moment),
    *((convergence, "batch_second_moment", _moment(factor, **how)) for factor in (0.99, 1.01)
      for how in ({}, {"sampling": "fixed"}, {"sampling": "poisson"})),
    (convergence, "optimal_steps", _moment(0.99, sampling="poisson")),
    (convergence, "optimal_steps", _moment(1.01, sampling="fixed")),
    (quadratic, "epoch_mask_moments", _later_epochs),
]  # fmt: skip
