"""The ranges of what determines a training run: wide enough for every use, and such that float32 can hold what follows."""

from typing import SupportsIndex

from dptheory import _validate

_NOISE = (1e-6, 1e6)


def noise_multiplier(name: str, value: object) -> float:
    """sigma: 0 (no noise at all) or a number in [1e-6, 1e6]."""
    number = _validate.real(name, value, 0.0, _NOISE[1])
    if 0 < number < _NOISE[0]:
        raise ValueError(f"{name} must be 0 or a number in [{_NOISE[0]:g}, {_NOISE[1]:g}], got {value!r}")
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


def count(name: str, value: SupportsIndex) -> int:
    """A number of epochs, steps, images or draws: 1 to 1e9."""
    return _validate.integer(name, value, 1, 10**9)
