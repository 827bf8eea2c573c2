"""The ranges of what determines a training run: wide enough for every use, and such that float32 can hold what follows."""

from typing import SupportsIndex

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError

_NOISE = (1e-6, 1e6)


def noise_multiplier(name: str, value: object) -> float:
    """sigma: 0 (no noise at all) or a number in [1e-6, 1e6]."""
    number = _validate.real(name, value, 0.0, _NOISE[1])
    if 0 < number < _NOISE[0]:
        raise ArgumentError(name, f"be 0 or a number in [{_NOISE[0]:g}, {_NOISE[1]:g}]", value)
    return number


def clip(name: str, value: object) -> float:
    """A clip: [1e-12, 1e12]."""
    return _validate.real(name, value, 1e-12, 1e12)


def learning_rate(name: str, value: object) -> float:
    """A learning rate: [1e-15, 1e6]."""
    return _validate.real(name, value, 1e-15, 1e6)


def epsilon(name: str, value: object) -> float:
    """A budget: [1e-3, 1e6]."""
    return _validate.real(name, value, 1e-3, 1e6)


def seed(name: str, value: SupportsIndex) -> int:
    """A seed: 0 to 2^63 - 1, as TOML has integers."""
    return _validate.integer(name, value, 0, 2**63 - 1)


def stream(name: str, value: SupportsIndex) -> int:
    """A seed drawn from another seed: 0 to 2^64 - 1, as torch's generators take it."""
    return _validate.integer(name, value, 0, 2**64 - 1)


def shares(name: str, values: ArrayLike, ends: str) -> tuple[float, ...]:
    """One or more numbers between 0 and 1, as a tuple; ``ends`` says which ends belong, as in ``"(]"``."""
    array = _validate.finite(name, values)
    inside = (array >= 0 if ends[0] == "[" else array > 0) & (array <= 1 if ends[1] == "]" else array < 1)
    if array.ndim != 1 or not array.size or not inside.all():
        raise ArgumentError(name, f"be a row of numbers in {ends[0]}0, 1{ends[1]}", values)
    return tuple(array.tolist())


def count(name: str, value: SupportsIndex) -> int:
    """A number of epochs, steps, images or draws: 1 to 1e9."""
    return _validate.integer(name, value, 1, 10**9)
