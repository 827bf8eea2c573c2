"""Ranges of the arguments of the descent bounds."""

from dptheory import _validate
from dptheory.errors import ArgumentError

MAX_COUNT, MAX_DIM = 10**12, 10**18
# with these limits the products of all arguments of a bound neither over- nor underflow
SMALLEST, LARGEST, LARGEST_SQUARE, LARGEST_TERM = 1e-35, 1e35, 1e140, 1e200


def positive(name: str, value: float) -> float:
    return _validate.size(name, value, SMALLEST, LARGEST)


def not_negative(name: str, value: float) -> float:
    return _validate.size(name, value, SMALLEST, LARGEST, zero=True)


def gap(objective_gap: float) -> float:
    return _validate.size("objective_gap", objective_gap, 1 / LARGEST_SQUARE, LARGEST_SQUARE, zero=True)


def learning_rate(learning_rate: float) -> float:
    return _validate.size("learning_rate", learning_rate)


def noise_per_root_step(value: float) -> float:
    return _validate.size("noise_per_root_step", value, 1e-100, LARGEST_TERM, zero=True)


def drop_rate(drop_rate: float) -> float:
    return _validate.real("drop_rate", drop_rate, 0.0, 1.0, ends="[)")


def beside_noise(name: str, value: int | None, high: int, source: str, noise: float) -> int:
    """``value`` in 1..``high``; None is 1 without noise, and refused where ``source`` says that there is some."""
    if value is None and noise > 0:
        raise ArgumentError(name, f"be given where {source} is above 0: an integer in 1..{high:g}", value, got="None")
    return 1 if value is None else _validate.integer(name, value, 1, high)


def kappa(kappa: float | None, drop_rate: float) -> float:
    """``kappa`` within its range, or the least value in it; 1e-12 is for rounding."""
    least = 1 - drop_rate
    if kappa is None:
        return least
    return _validate.real("kappa", kappa, least * (1 - 1e-12), 1.0 if drop_rate == 0 else 1e70)
