"""Paired comparisons of accuracies: intervals, sign-flip tests, equivalence."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges

LEAST_PAIRS, LEAST_FOR_EQUIVALENCE = 8, 16
"""Five pairs never reject at 5 % by signs: p is 1/16 at least."""
_EXACT = 40  # two halves of 2^20 sums each
_DRAWS = 1 << 17
_ROUNDING = 1e-12
_LARGEST = 1e9
_LEAST_LEVEL = 1e-9


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Mean of paired differences.

    Attributes:
        pairs: how many.
        mean: of the differences.
        low, high: ends of the t interval at ``confidence``.
        confidence: of the interval.
        sign_flip_p: two-sided p-value of the sign-flip test of symmetry about zero.
    """

    pairs: int
    mean: float
    low: float
    high: float
    confidence: float
    sign_flip_p: float

    def __str__(self) -> str:
        mean, low, high = (rounded(value) for value in (self.mean, self.low, self.high))  # as the answers have them
        return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """Whether a mean of paired differences lies within a margin of zero.

    Attributes:
        pairs: how many.
        mean: of the differences.
        low, high: ends of the t interval at 1 - 2 level: within the margin just where the two tests reject.
        margin: in the unit of the differences.
        p: larger p-value of the two one-sided t tests.
        level: of the tests.
    """

    pairs: int
    mean: float
    low: float
    high: float
    margin: float
    p: float
    level: float

    @property
    def equivalent(self) -> bool:
        """Whether both tests reject."""
        return self.p < self.level


def rounded(value: float) -> float:
    """To six digits: the last ones differ from machine to machine."""
    return float(f"{value:.6g}")


def paired_difference(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95) -> Difference:
    r"""Mean of first - second with its t interval and the sign-flip test.

    :math:`\bar x \pm t_{n-1}\, s/\sqrt n`, t the quantile of Student's law at (1 + confidence) / 2.

    Args:
        first, second: shape (n,), pair by pair, n >= 8, each within +-1e9.
        confidence: of the interval, in (0, 1); over m comparisons 1 - 0.05/m keeps all of them together at 95 %.

    Returns:
        Mean, interval and two-sided p-value.

    Raises:
        ValueError: fewer than eight pairs, or values that are no pairs of numbers.

    Example: half of eight pairs differ by one.
        >>> from dptheory.training.studies import paired_difference
        >>> found = paired_difference([3, 4, 5, 6, 7, 8, 9, 10], [2, 4, 4, 6, 6, 8, 8, 10])
        >>> found.mean, round(found.low, 3), round(found.high, 3), found.sign_flip_p
        (0.5, 0.053, 0.947, 0.125)
    """
    differences = _differences(first, second, LEAST_PAIRS, "a difference")
    confidence = _validate.real("confidence", confidence, 0.0, 1.0, ends="()")
    low, high = _t_interval(differences, confidence)
    return Difference(
        pairs=len(differences),
        mean=float(differences.mean()),
        low=low,
        high=high,
        confidence=confidence,
        sign_flip_p=_sign_flip_p(differences, 0),
    )


def equivalence(first: ArrayLike, second: ArrayLike, *, margin: float, level: float = 0.05) -> Equivalence:
    r"""Two one-sided t tests of \|mean of first - second| >= margin.

    :math:`p = P(t_{n-1} > (\delta - |\bar x|)\sqrt n/s)`, delta the margin: the larger of the two p-values.

    Args:
        first, second: shape (n,), pair by pair, n >= 16, each within +-1e9.
        margin: > 0, in the unit of the values.
        level: of each test, and so of both together; in [1e-9, 0.5).

    Returns:
        Mean, interval at 1 - 2 level and p-value.

    Raises:
        ValueError: fewer than sixteen pairs, or a value outside its range.

    Example: differences of a tenth are within 1 and not within a hundredth.
        >>> from dptheory.training.studies import equivalence
        >>> differences = [0.1, -0.1] * 8
        >>> [equivalence(differences, [0.0] * 16, margin=margin).equivalent for margin in (1.0, 0.01)]
        [True, False]
    """
    differences = _differences(first, second, LEAST_FOR_EQUIVALENCE, "equivalence")
    margin = _validate.real("margin", margin, 0.0, ends="()")
    level = _validate.real("level", level, _LEAST_LEVEL, 0.5, ends="[)")
    low, high = _t_interval(differences, 1 - 2 * level)
    count, mean = len(differences), float(differences.mean())
    error = _standard_error(differences)
    room = margin - abs(mean)  # the larger of the two p-values is that of the nearer end
    p = float(stats.t.sf(room / error, count - 1)) if error > 0 else float(room <= 0)
    return Equivalence(pairs=count, mean=mean, low=low, high=high, margin=margin, p=p, level=level)


def sign_flip_p(differences: ArrayLike, *, seed: int = 0) -> float:
    r"""Two-sided p-value: share of the sign vectors s with :math:`|\sum_i s_i x_i| \ge |\sum_i x_i|`.

    All 2^n of them for n <= 40; beyond, 131,072 random ones and the one observed, (hits + 1)/(draws + 1), which is valid too.

    Args:
        differences: shape (n,), n >= 1, each within +-1e9.
        seed: of the random ones, 0 to 2^63 - 1.

    Returns:
        P-value, in (0, 1].

    Raises:
        ValueError: no row of numbers, or an argument outside its range.

    Example: of eight choices of signs two are as extreme, all of one sign.
        >>> from dptheory.training.studies import sign_flip_p
        >>> sign_flip_p([1.0, 2.0, 3.0])
        0.25
    """
    values = _within("differences", differences)
    seed = _argument_ranges.seed("seed", seed)
    if values.ndim != 1 or not values.size:
        raise ArgumentError("differences", "be a row of numbers", differences)
    return _sign_flip_p(values, seed)


def _sign_flip_p(values: Array, seed: int) -> float:
    least = abs(math.fsum(values)) - _ROUNDING * float(np.abs(values).sum())
    if least <= 0.0:
        return 1.0
    if len(values) <= _EXACT:
        half = len(values) // 2
        one, other = _signed_sums(values[:half]), np.sort(_signed_sums(values[half:]))
        hits = 2 * int(np.sum(len(other) - np.searchsorted(other, least - one)))  # sums of all signs lie symmetrically
        return hits / 2.0 ** len(values)
    rng = np.random.default_rng(seed)
    hits = sum(
        int(np.sum(np.abs((2.0 * rng.integers(0, 2, (part, len(values))) - 1) @ values) >= least))
        for part in [1024] * (_DRAWS // 1024)
    )
    return (hits + 1) / (_DRAWS + 1)


def _signed_sums(values: Array) -> Array:
    """Of every choice of signs; 0 of no values."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _differences(first: ArrayLike, second: ArrayLike, least: int, question: str) -> Array:
    one, other = _within("first", first), _within("second", second)
    if one.ndim != 1 or one.shape != other.shape:
        raise ArgumentError("first and second", "be rows of pairs", first, got=f"shapes {one.shape} and {other.shape}")
    if len(one) < least:
        raise ArgumentError("first and second", f"have at least {least} pairs where {question} is asked", len(one))
    return one - other


def _within(name: str, values: ArrayLike) -> Array:
    array = _validate.finite(name, values)
    if np.abs(array).max(initial=0.0) > _LARGEST:
        raise ArgumentError(name, f"lie within +-{_LARGEST:g}", values)
    return array


def _standard_error(differences: Array) -> float:
    """Standard error of the mean; 0 where all differences are the same but for rounding."""
    deviation = float(differences.std(ddof=1))
    return 0.0 if deviation <= _ROUNDING * float(np.abs(differences).max()) else deviation / math.sqrt(len(differences))


def _t_interval(differences: Array, confidence: float) -> tuple[float, float]:
    half = _standard_error(differences) * float(stats.t.ppf((1 + confidence) / 2, len(differences) - 1))
    mean = float(differences.mean())
    return mean - half, mean + half
