r"""The law of a quadratic form of independent normal variables, by contour integration through a saddle point.

.. math:: Q = \sum_j p_j \chi^2_{m_j}(\delta_j), \qquad K(s) = \log E e^{sQ}
    = \sum_j -\tfrac{m_j}2 \log(1 - 2 p_j s) + \frac{\delta_j p_j s}{1 - 2 p_j s}

For s with 0 < s < 1 / (2 max p) the tail is P(Q > x) = (1 / 2 pi i) int exp(K(s) - s x) / s ds along any path from below to
above the real axis through s; for s < 0 the same integral is -P(Q <= x). The path used is
a hyperbola through the saddle point of K(s) - s x - log|s|, with the curvature of the path of steepest descent; it opens to
the right around the cut. Both tails keep their relative accuracy down to underflow.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError

# Trapezoidal rule in v, t = scale * sinh(v): the integrand is analytic near the real v axis and negligible beyond 5.
_STEP = 0.1
_NODES = _STEP * np.arange(53)
_TILT = 0.7  # slope of the path's asymptotes; below 1, |exp(K(s) - s x)| falls along the path for every spectrum
_CELLS = 2**20
_BISECTIONS = 26
_EDGE = 60.0  # of the bisection's variable y; above 33 on the right 1 + exp(-y) would round to 1


@dataclass(frozen=True, kw_only=True, eq=False)
class QuadraticForm:
    r"""The law of :math:`\sum_j p_j \chi^2_{m_j}(\delta_j)`, the terms independent.

    Args:
        weights: p_j in (0, 1e70], shape (terms,), the largest >= 1e-70.
        freedoms: degrees of freedom m_j in (0, 1e70], same shape.
        noncentralities: delta_j in [0, 1e70], same shape.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: RF, Appendix A, equations 14 to 18 (rf.thm1).

    Example: the mean is sum p_j (m_j + delta_j), by hand 1 * 2 + 0.5 * (3 + 1).
        >>> import numpy as np
        >>> from dptheory.gradients import QuadraticForm
        >>> weights, freedoms, noncentralities = np.array([1.0, 0.5]), np.array([2.0, 3.0]), np.array([0.0, 1.0])
        >>> form = QuadraticForm(weights=weights, freedoms=freedoms, noncentralities=noncentralities)
        >>> form.mean
        4.0
    """

    weights: Array
    freedoms: Array
    noncentralities: Array

    def __post_init__(self) -> None:
        for name in ("weights", "freedoms", "noncentralities"):
            given = getattr(self, name)
            value = _validate.nonnegative(name, given)
            if value.ndim != 1 or value.shape != np.shape(self.weights) or not value.size:
                raise ArgumentError(name, "have the shape (terms,) of weights", value, got=f"shape {value.shape}")
            if value.max() > _validate.LARGEST or (name != "noncentralities" and not value.all()):
                interval = f"{'[' if name == 'noncentralities' else '('}0, {_validate.LARGEST:g}]"
                raise ArgumentError(name, f"hold numbers in {interval} only", given)
            object.__setattr__(self, name, value)
        if self.weights.max() < _validate.SMALLEST:
            raise ArgumentError("weights", f"hold a number >= {_validate.SMALLEST:g}", self.weights)

    @property
    def mean(self) -> float:
        """E Q = sum p_j (m_j + delta_j)."""
        return float(self.weights @ (self.freedoms + self.noncentralities))

    def tails(self, x: ArrayLike) -> tuple[Array, Array]:
        """P(Q <= x) and P(Q > x); the smaller one has a relative error of about 1e-11.

        Args:
            x: finite numbers, any shape; 0 < x < 1e-100 E[Q] gives P(Q <= x) to within 1e-100 only.

        Returns:
            Both probabilities, each the shape of x.

        Raises:
            ValueError: an x that is not finite.

        Source: RF, Appendix A (rf.thm1).

        Example: by hand: a chi-square variable of two degrees of freedom exceeds x with probability exp(-x / 2).
            >>> import numpy as np
            >>> from dptheory.gradients import QuadraticForm
            >>> form = QuadraticForm(weights=np.array([1.0]), freedoms=np.array([2.0]), noncentralities=np.array([0.0]))
            >>> [tail.round(6) for tail in form.tails([2 * np.log(2)])]
            [array([0.5]), array([0.5])]
        """
        x = _validate.finite("x", x)
        lower, upper = np.zeros(x.size), np.ones(x.size)
        # Far to the right of the mean only: nearer to it the path with s < 0 decays faster.
        border = self.mean + math.sqrt(2.0 * float(self.weights**2 @ (self.freedoms + 2.0 * self.noncentralities)))
        inside = np.flatnonzero(x.ravel() > 0.0)
        rows = max(1, _CELLS // (self.weights.size * _NODES.size))
        for part in np.array_split(inside, math.ceil(inside.size / rows)) if inside.size else ():
            points = x.ravel()[part]
            right = points > border
            saddle = self._saddle(points, right)
            tail = np.clip(self._integral(points, saddle), 0.0, 1.0)
            upper[part] = np.where(right, tail, 1.0 - tail)
            lower[part] = np.where(right, 1.0 - tail, tail)
        return lower.reshape(x.shape), upper.reshape(x.shape)

    def chernoff(self, log_chance: float) -> float:
        """A point x with P(Q > x) <= exp(log_chance), by the Chernoff bound solved for x.

        Args:
            log_chance: < 0, and not below what the bound reaches (about -1e14 times the largest freedom).

        Returns:
            The point x, in units of the weights.

        Source: RF, Appendix A (rf.thm1).

        Example: beyond it lies less than e^-20 of the law; by exp(-x / 2) that would be reached at 40 already.
            >>> import numpy as np
            >>> from dptheory.gradients import QuadraticForm
            >>> form = QuadraticForm(weights=np.array([1.0]), freedoms=np.array([2.0]), noncentralities=np.array([0.0]))
            >>> round(form.chernoff(-20.0)), bool(form.tails(form.chernoff(-20.0))[1] <= np.exp(-20.0))
            (49, True)
        """
        log_chance = _validate.real("log_chance", log_chance, -math.inf, 0.0, ends="()")
        limit = 0.5 / float(self.weights.max())

        def point_and_bound(y: float) -> tuple[float, float]:
            s = np.array([limit / (1.0 + math.exp(-y))])
            slope = self._derivatives(s)[0]
            return float(slope[0]), float(self._exponent((s + 0j)[:, None], slope).real[0, 0])

        low, high = -_EDGE, 33.0
        least = point_and_bound(high)[1]
        if log_chance < least:
            raise ArgumentError("log_chance", f"be a number in [{least:g}, 0)", log_chance)
        for _ in range(12):  # coarse: every upper end satisfies the bound
            middle = 0.5 * (low + high)
            low, high = (middle, high) if point_and_bound(middle)[1] > log_chance else (low, middle)
        return point_and_bound(high)[0]

    def _derivatives(self, s: Array) -> tuple[Array, Array, Array]:
        """K', K'', K''' at real s, shape of s."""
        p, m, delta = self.weights, self.freedoms, self.noncentralities
        ratio = p / (1.0 - 2.0 * p * s[:, None])
        free, forced = m * ratio, delta * ratio / (1.0 - 2.0 * p * s[:, None])
        return (
            (free + forced).sum(axis=1),
            (ratio * (2.0 * free + 4.0 * forced)).sum(axis=1),
            (ratio**2 * (8.0 * free + 24.0 * forced)).sum(axis=1),
        )

    def _exponent(self, s: NDArray[np.complex128], x: Array) -> NDArray[np.complex128]:
        """K(s) - s x for s of shape (..., nodes) and x of shape (...)."""
        x = x.reshape(x.shape + (1,) * (s.ndim - x.ndim))
        # Near s = 0 the part linear in s is taken out of both terms, which would cancel.
        near = np.abs(s[..., :1]) * float(self.weights.max()) < 0.25
        linear = float(self.weights @ self.noncentralities)
        terms = (self.weights, self.freedoms, self.noncentralities)
        parts = math.ceil(self.weights.size * s.size / _CELLS)
        total = sum(
            _cumulant(s, near, *part) for part in zip(*(np.array_split(one, parts) for one in terms), strict=True)
        )
        return np.asarray(total - s * (x - np.where(near, linear, 0.0)))

    def _saddle(self, x: Array, right: NDArray[np.bool_]) -> Array:
        """Minimum over s of K(s) - s x - log|s|, s > 0 for the right tail and s < 0 for the left; four digits suffice."""
        limit = 0.5 / float(self.weights.max())
        low, high = np.full(x.shape, -_EDGE), np.where(right, 33.0, _EDGE)

        def point(y: Array) -> Array:
            # both rise with y; the left one spans 200 decades
            return np.where(right, limit / (1.0 + np.exp(-np.where(right, y, 0.0))), -limit * np.exp(-4.0 * y))

        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            s = point(middle)
            p, m, delta = self.weights, self.freedoms, self.noncentralities
            gone = 1.0 / (1.0 - 2.0 * p * s[:, None])
            slope = (p * gone) @ m + (p * gone**2) @ delta - 1.0 / s - x
            low, high = np.where(slope < 0.0, middle, low), np.where(slope < 0.0, high, middle)
        return point(0.5 * (low + high))

    def _integral(self, x: Array, saddle: Array) -> Array:
        """|(1 / 2 pi i) int exp(K(s) - s x) / s ds| along s = saddle + i t + tilt b (sqrt(1 + t^2 / b^2) - 1)."""
        _, second, third = self._derivatives(saddle)
        curvature = second + saddle**-2.0
        scale, bend = curvature**-0.5, third / (3.0 * curvature)
        t, b = scale[:, None] * np.sinh(_NODES), _TILT / bend[:, None]
        root = np.hypot(1.0, t / b)
        s = saddle[:, None] + 1j * t + _TILT * (t / b) * t / (1.0 + root)
        speed = (1j + _TILT * (t / b) / root) * scale[:, None] * np.cosh(_NODES)
        values = (np.exp(self._exponent(s, x)) / s * speed).imag
        values[:, 0] *= 0.5
        return np.asarray(np.abs(values.sum(axis=1)) * _STEP / math.pi)


def _cumulant(
    s: NDArray[np.complex128], near: NDArray[np.bool_], p: Array, m: Array, delta: Array
) -> NDArray[np.complex128]:
    """K(s) of some terms for s of shape (..., nodes), without the part linear in s of the noncentralities where ``near``."""
    z = 2.0 * p * s[..., None]
    # log(1 - z) in real arithmetic: NumPy's complex log1p loses the digits of small z. 2^-1000 keeps log(0) finite.
    small = np.abs(z.real) < 0.5
    modulus = np.where(
        small,
        np.log1p(np.where(small, z.real * (z.real - 2.0) + z.imag**2, 0.0)),
        np.log((1.0 - z.real) ** 2 + z.imag**2 + 2.0**-1000),
    )
    angle = np.arctan2(-z.imag, 1.0 - z.real)
    free = (modulus @ (-0.25 * m)) + 1j * (angle @ (-0.5 * m))
    if not delta.any():
        return np.asarray(free)
    forced = delta * z / (2.0 * (1.0 - z)) * np.where(near[..., None], z, 1.0)
    return np.asarray(free + forced.sum(axis=-1))
