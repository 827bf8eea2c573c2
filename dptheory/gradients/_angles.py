"""The angle between a vector and its noisy self: its law, and what becomes of an angle that was there before."""

import math
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError

# --- Quadrature for the law of the distortion angle: a grid of panels on which its density is known to rounding


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_RADII, _RADIUS_WEIGHTS = np.polynomial.legendre.leggauss(56)
TAILS, MOMENTS = 800.0, 60.0
"""Fall of the log density at which the grid ends: where exp is 0 in floats, and where nothing adds to a moment any more."""

_STEP = 12.0  # largest change of the log density over a panel
_CHUNK = 1024
_HUGE = 1e20
"""Beyond this snr the law of snr * angle no longer changes in floats: relative corrections are at most dim / snr^2."""


@dataclass(frozen=True)
class AngleLaw:
    r"""Density :math:`\propto\sin^{d-2}(g)\,\Psi_d(\kappa\cos g)` on [0, pi], relative to a reference angle.

    :math:`\Psi_d(c) = \int_0^\infty r^{d-1} e^{-r^2/2 + rc} dr`. With m = d - 1 and r0 the root of r0 (r0 - c) = m the
    integral is :math:`e^{h(r_0)} r_0 I`, :math:`I = \int_{-1}^\infty e^{-m(u - \log(1 + u)) - r_0^2 u^2/2} du`, and the
    change of the exponent from the reference (marked *) is (d - 2) log(sin / sin*) + m log(1 + x) + r*^2 (x + x^2 / 2) with
    1 + x = r0 / r*: every term is small near the reference, so nothing cancels.
    """

    dim: int
    snr: float
    reference: float
    edges: Array
    offsets: Array
    masses: Array
    total: float

    def log_shape(self, angle: Array) -> Array:
        """Log density up to a constant."""
        return _log_shape(self.dim, self.snr, self.reference, angle, angle - self.reference)

    def below(self, angle: Array) -> Array:
        """Probability of a smaller angle."""
        before = np.concatenate([[0.0], np.cumsum(self.masses.sum(axis=1))])
        panel = self._panel(angle)
        return (before[panel] + self._part(self.edges[panel], angle)) / self.total

    def above(self, angle: Array) -> Array:
        """Probability of a larger angle."""
        after = np.concatenate([np.cumsum(self.masses.sum(axis=1)[::-1])[::-1], [0.0]])
        panel = self._panel(angle)
        return (after[panel + 1] + self._part(angle, self.edges[panel + 1])) / self.total

    def _panel(self, angle: Array) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.edges, angle, side="right") - 1, 0, len(self.edges) - 2)

    def _part(self, low: Array, high: Array) -> Array:
        """Integral of the shape from low to high, each pair within one panel."""
        half = 0.5 * (high - low)
        nodes = low[:, None] + half[:, None] * (_NODES + 1.0)
        return np.asarray(half * (np.exp(self.log_shape(nodes)) @ _WEIGHTS))


@lru_cache(maxsize=64)
def angle_law(dim: int, snr: float, fall: float) -> AngleLaw:
    """The law in ``dim`` >= 2 dimensions at snr <= 1e20 (see :func:`reduced`), to a fall of the log density."""
    reference = math.atan2(math.sqrt(dim - 2), snr)
    left = _march(dim, snr, reference, -1.0, fall)
    right = _march(dim, snr, reference, 1.0, fall)
    steps = np.array([*reversed(left), 0.0, *right])
    half = 0.5 * np.diff(steps)
    offsets = steps[:-1, None] + half[:, None] * (_NODES + 1.0)
    masses = half[:, None] * _WEIGHTS * np.exp(_log_shape(dim, snr, reference, reference + offsets, offsets))
    return AngleLaw(dim, snr, reference, reference + steps, offsets, masses, float(masses.sum()))


def reduced(snr: float) -> tuple[float, float]:
    """(snr', factor) such that the angle at ``snr`` is ``factor`` times that at snr' <= 1e20, to rounding."""
    return (snr, 1.0) if snr <= _HUGE else (_HUGE, _HUGE / snr)


def _march(dim: int, snr: float, reference: float, direction: float, fall: float) -> list[float]:
    """Edges of the panels from the reference to an end of [0, pi], or to where the log density has fallen by ``fall``."""
    end = math.pi - reference if direction > 0 else -reference
    widest = 1 / math.hypot(snr, math.sqrt(dim - 1))
    edges: list[float] = []
    at, fallen = 0.0, 0.0
    while at != end and fallen < fall:
        slope = abs(_slope(dim, snr, reference + at))
        step = min(widest, _STEP / slope) if slope else widest
        following = at + direction * step
        # A last sliver would be lost in the rounding of the angle.
        at = end if abs(end - at) < 1.2 * step or following == at else following
        fallen += step * slope
        edges.append(at)
    return edges


def _slope(dim: int, snr: float, angle: float) -> float:
    """Derivative of the exponent of the density."""
    sine, cosine = math.sin(angle), math.cos(angle)
    rise = (dim - 2) * cosine / sine if dim > 2 else 0.0
    return rise - snr * float(_peak_radius(dim, np.asarray(snr * cosine))) * sine


def _peak_radius(dim: int, c: Array) -> Array:
    """Positive root r of r (r - c) = dim - 1, without cancellation."""
    root = np.hypot(c, 2 * math.sqrt(dim - 1))
    return np.asarray(np.where(c >= 0, (c + root) / 2, 2 * (dim - 1) / (root + np.abs(c))))


def _log_shape(dim: int, snr: float, reference: float, angle: Array, offset: Array) -> Array:
    """Both the angle and its offset from the reference, so that neither loses digits."""
    first = _peak_radius(dim, np.asarray(snr * math.cos(reference)))
    radius = _peak_radius(dim, snr * np.cos(angle))
    change = -2 * snr * np.sin(reference + offset / 2) * np.sin(offset / 2) / first / (1 + (dim - 1) / (radius * first))
    value = (dim - 1) * _log1p(change, radius / first) + first**2 * change * (1 + change / 2)
    if dim > 2:
        sine = np.maximum(np.sin(angle), 1e-300)  # 0 at the ends of [0, pi] by rounding
        rise = np.sin(offset) / math.tan(reference) - 2 * np.sin(offset / 2) ** 2
        value = value + (dim - 2) * _log1p(rise, sine / math.sin(reference))
    return np.asarray(value + np.log(radius / first) + _log_radial(dim, radius))


def _log1p(change: Array, ratio: Array) -> Array:
    """log(1 + change) where ``ratio`` is 1 + change found directly: each from the side where it has its digits."""
    near = np.abs(change) < 0.5
    return np.where(near, np.log1p(np.where(near, change, 0.0)), np.log(ratio))


def _log_radial(dim: int, radius: Array) -> Array:
    """log I (see :class:`AngleLaw`); exp(-45) of the peak and less is left out."""
    flat = radius.ravel()
    parts = [_log_radial_of(dim, flat[i : i + _CHUNK]) for i in range(0, flat.size, _CHUNK)]
    return np.concatenate([np.empty(0), *parts]).reshape(radius.shape)


def _log_radial_of(dim: int, radius: Array) -> Array:
    m = dim - 1
    # u - log(1 + u) >= u^2 / 2 below 0 and >= u^2 / (2 + 2u) above.
    low = -np.minimum(1.0, math.sqrt(90) / np.hypot(radius, math.sqrt(m)))
    high = np.minimum(math.sqrt(90) / radius, 45 / m + math.sqrt((45 / m) ** 2 + 90 / m))
    half = 0.5 * (high - low)
    u = low[:, None] + half[:, None] * (_RADII + 1.0)
    exponent = m * (np.log1p(u) - u) - 0.5 * (radius[:, None] * u) ** 2
    return np.asarray(np.log(half * (np.exp(exponent) @ _RADIUS_WEIGHTS)))


_SMALLEST = 1e-300  # angle, in radians


@dataclass(frozen=True)
class DistortionAngle:
    r"""Angle between a fixed vector s of R^dim and s + z, z ~ N(0, tau^2 I), at signal-to-noise ratio snr = |s| / tau.

    .. math:: p(g) = \frac{2^{1 - d/2}}{\sqrt\pi\,\Gamma(\frac{d-1}2)} e^{-\kappa^2/2} \sin^{d-2}(g)\,\Psi_d(\kappa\cos g),
        \qquad \Psi_n(c) = \int_0^\infty r^{n-1} e^{-r^2/2 + rc} dr

    with kappa = snr, d = dim >= 2: :math:`\sqrt{d-1}\cot g` is noncentral t with d - 1 degrees of freedom and noncentrality
    kappa. The angle falls with snr in law, and so does its variance. In one dimension it is 0 or pi, and only
    ``expected_cos`` is defined. At snr = 0 the angle is that with a fixed direction.

    Args:
        dim: number of entries of s, 1..1e12.
        snr: |s| / tau, in [0, inf]; inf means no noise.

    Source: GIP, Fig. 1 (gip.fig1); LF, Definition 3.2 (lf.angle_law).

    Example: RF's CNN of 550,000 parameters, batch 1000, sigma 1.54. A step's signal is at most 1000 / 1.54 taus long.
        >>> from dptheory.gradients import DistortionAngle
        >>> round(DistortionAngle(550_000, snr=1000 / 1.54).mean(), 3)  # 49 degrees of noise at the best
        0.852
    """

    dim: int
    _: KW_ONLY
    snr: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 1, 10**12))
        object.__setattr__(self, "snr", _validate.real("snr", self.snr, 0.0))

    def expected_cos(self) -> float:
        r"""E cos of the angle, exactly.

        .. math:: E\cos = \kappa \sqrt{2/\pi} \int_0^{\pi/2} e^{-\kappa^2 \sin^2(\phi) / 2} \cos^d(\phi)\, d\phi

        with kappa = snr and d = dim. It rises with snr and falls with dim; about kappa / sqrt(d) for kappa^2 << d.

        Returns:
            The mean cosine, in [0, 1].

        Source: GIP, Fig. 1 (gip.fig1).

        Example: of a step of the 550,000 parameters of RF's CNN, this share goes along the gradient.
            >>> from dptheory.gradients import DistortionAngle
            >>> round(DistortionAngle(550_000, snr=1000 / 1.54).expected_cos(), 3)
            0.659
        """
        if math.isinf(self.snr):
            return 1.0
        return min(1.0, self.snr * slope(self.dim, self.snr))

    def density(self, x: ArrayLike) -> Array:
        """Density of the angle at x; without noise infinite at 0.

        Args:
            x: angles in radians, any shape, in [0, pi].

        Returns:
            1 / radian, the shape of x.

        Raises:
            ValueError: an x outside [0, pi], or dim = 1 and noise.

        Source: LF, Definition 3.2 (lf.angle_law).

        Example: without a signal every angle of the plane is as likely as any other, 1 / pi.
            >>> from dptheory.gradients import DistortionAngle
            >>> DistortionAngle(2, snr=0.0).density([0.5, 1.0, 3.0]).round(4)
            array([0.3183, 0.3183, 0.3183])
        """
        angle = _angles("x", x)
        if math.isinf(self.snr):
            return np.where(angle == 0, math.inf, 0.0)
        law, factor = self._law(TAILS)
        moved, inside = _on_grid(law, angle, factor)
        return np.asarray(np.where(inside, np.exp(law.log_shape(moved)) / law.total / factor, 0.0))

    def cdf(self, x: ArrayLike) -> Array:
        r"""P(angle <= x), to about 1e-10 relative in the lower tail too.

        .. math:: F(x) = E\,\Phi(\kappa - R\cot x), \qquad R \sim \chi_{d-1}

        It rises with snr.

        Args:
            x: angles in radians, any shape, in [0, pi].

        Returns:
            Probabilities, the shape of x.

        Raises:
            ValueError: an x outside [0, pi], or dim = 1 and noise.

        Source: LF, Definition 3.2 (lf.angle_law).

        Example: the step goes downhill with probability Phi(snr), whatever the dimension.
            >>> import math
            >>> from dptheory.gradients import DistortionAngle
            >>> DistortionAngle(550_000, snr=1.0).cdf([math.pi / 2]).round(4)
            array([0.8413])
        """
        angle = _angles("x", x)
        if math.isinf(self.snr):
            return np.ones(angle.shape)
        law, factor = self._law(TAILS)
        moved, _ = _on_grid(law, angle, factor)
        return np.minimum(law.below(moved.ravel()), 1.0).reshape(angle.shape)

    def sf(self, x: ArrayLike) -> Array:
        """P(angle > x), to about 1e-10 relative in the upper tail too.

        Args:
            x: angles in radians, any shape, in [0, pi].

        Returns:
            Probabilities, the shape of x.

        Raises:
            ValueError: an x outside [0, pi], or dim = 1 and noise.

        Source: LF, Definition 3.2 (lf.angle_law).

        Example: the step goes uphill with probability Phi(-snr), whatever the dimension.
            >>> import math
            >>> from dptheory.gradients import DistortionAngle
            >>> DistortionAngle(550_000, snr=1.0).sf([math.pi / 2]).round(4)
            array([0.1587])
        """
        angle = _angles("x", x)
        if math.isinf(self.snr):
            return np.zeros(angle.shape)
        law, factor = self._law(TAILS)
        moved, _ = _on_grid(law, angle, factor)
        return np.minimum(law.above(moved.ravel()), 1.0).reshape(angle.shape)

    def quantile(self, probability: float) -> float:
        r"""The angle below which the noisy vector stays with this probability.

        By bisection on log(angle) of :meth:`cdf`, or of :meth:`sf` above one half.

        Args:
            probability: P(angle <= quantile), in (0, 1).

        Returns:
            The angle in radians; 0 where the smallest angles already have this probability, as without noise.

        Raises:
            ValueError: a probability outside its range, or a dim of 1, where the angle is 0 or pi.

        Source: LF, Definition 3.2 (lf.angle_law).

        Example: without a signal all directions are alike, so that the median is a right angle.
            >>> from dptheory.gradients import DistortionAngle
            >>> law = DistortionAngle(3, snr=0.0)  # of no signal all directions are alike: the median is a right angle
            >>> round(law.quantile(0.5), 9)
            1.570796327
        """
        share = _validate.real("probability", probability, 0.0, 1.0, ends="()")

        def excess(log_angle: float) -> float:
            angle = min(math.exp(log_angle), math.pi)
            # Near 1 the lower tail has no digits left, and 1 - share is exact.
            return float(self.cdf(angle)) - share if share <= 0.5 else (1.0 - share) - float(self.sf(angle))

        low, high = math.log(_SMALLEST), math.log(4.0)
        if excess(low) >= 0.0:
            return 0.0
        return min(math.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-15, rtol=1e-15, maxiter=1000)), math.pi)

    def mean(self) -> float:
        """Mean angle in radians: pi / 2 at snr 0, falling to 0; about arctan(sqrt(dim - 1) / snr).

        Returns:
            The mean in radians, in [0, pi / 2].

        Raises:
            ValueError: dim = 1.

        Source: LF, Proposition 3.1 (lf.angle_law).

        Example: noise alone is at a right angle to the gradient; a signal as long as the noise, sqrt(dim), halves that.
            >>> from dptheory.gradients import DistortionAngle
            >>> [round(DistortionAngle(10_000, snr=snr).mean(), 3) for snr in (0.0, 100.0)]
            [1.571, 0.785]
        """
        return self._moments()[0]

    def second_moment(self) -> float:
        """Mean squared angle in radians^2; falls with snr.

        Returns:
            The mean square in radians^2.

        Raises:
            ValueError: dim = 1.

        Source: LF, Appendix C (lf.appC.second_moment).

        Example: in the plane, without a signal, the angle is uniform on [0, pi]: pi^2 / 3.
            >>> from dptheory.gradients import DistortionAngle
            >>> round(DistortionAngle(2, snr=0.0).second_moment(), 4)
            3.2899
        """
        mean, var = self._moments()
        return mean**2 + var

    def var(self) -> float:
        """Variance of the angle in radians^2, from the angle about its mean; falls with snr.

        Returns:
            The variance in radians^2.

        Raises:
            ValueError: dim = 1.

        Source: LF, Proposition 3.1 (2) (lf.prop3.1.2, lf.angle_law).

        Example: in the plane, without a signal, pi^2 / 12; in many dimensions the angle is all but fixed.
            >>> from dptheory.gradients import DistortionAngle
            >>> [round(DistortionAngle(dim, snr=0.0).var(), 4) for dim in (2, 10_000)]
            [0.8225, 0.0001]
        """
        return self._moments()[1]

    def asymptotic_mean(self) -> float:
        r"""Mean angle for large dim: :math:`\arctan(\sqrt{d-1}/\kappa)`.

        Its relative error is O(1/d), within [-0.09, 0.26] / (d - 1) as measured over d = 2..1e8 and all snr; it is exact at
        snr 0, and to leading order at snr = sqrt(d - 1).

        Returns:
            The approximate mean in radians.

        Raises:
            ValueError: dim = 1.

        Source: LF, Proposition 3.1 (lf.angle_law).

        Example: the limit is within a millionth at the 550,000 parameters of RF's CNN.
            >>> from dptheory.gradients import DistortionAngle
            >>> angle = DistortionAngle(550_000, snr=1000 / 1.54)
            >>> round(angle.asymptotic_mean(), 5), abs(angle.asymptotic_mean() - angle.mean()) < 1e-6
            (0.85164, True)
        """
        return math.atan2(math.sqrt(self._plural() - 1), self.snr)

    def asymptotic_var(self) -> float:
        r"""Variance of the angle for large dim: :math:`\frac{1 + \kappa^2/(2d)}{d\,(1 + \kappa^2/d)^2}`.

        Its relative error is O(1/d), within [-1.13, 0.76] / d as measured over d = 2..1e8 and all snr.

        Returns:
            The approximate variance in radians^2.

        Raises:
            ValueError: dim = 1.

        Source: LF, Proposition 3.1 (2) (lf.angle_law).

        Example: the standard deviation of the angle is about a thousandth, so the mean describes every step.
            >>> from dptheory.gradients import DistortionAngle
            >>> round(DistortionAngle(550_000, snr=1000 / 1.54).asymptotic_var() ** 0.5, 4)
            0.0009
        """
        inverse = (1 / math.hypot(1, self.snr / math.sqrt(self._plural()))) ** 2
        return (0.5 + 0.5 * inverse) * inverse / self.dim

    def _moments(self) -> tuple[float, float]:
        """Mean and variance."""
        self._plural()
        if math.isinf(self.snr):
            return 0.0, 0.0
        law, factor = self._law(MOMENTS)
        shift = float((law.masses * law.offsets).sum()) / law.total
        square = float((law.masses * (law.offsets - shift) ** 2).sum()) / law.total
        return (law.reference + shift) * factor, square * factor**2

    def _law(self, fall: float) -> tuple[AngleLaw, float]:
        """The law on its grid, and the factor that its angles take."""
        snr, factor = reduced(self.snr)
        return angle_law(self._plural(), snr, fall), factor

    def _plural(self) -> int:
        """dim, where it has a law with a density."""
        return _validate.integer("dim", self.dim, 2)


def batch_expected_cos(*, cos_bias: ArrayLike, dim: int, snr: float) -> Array:
    r"""E[cos gamma | batch]: cosine between the true gradient and the private signal s + z, over the noise.

    .. math:: E[\cos\gamma \mid \text{batch}] = \cos\gamma^B A_d(\kappa), \qquad A_d(\kappa) = \kappa
        \frac{\Gamma(\frac{d+1}2)}{\sqrt2\,\Gamma(\frac d2 + 1)}\,{}_1F_1(\tfrac12; \tfrac d2 + 1; -\tfrac{\kappa^2}2)

    A_d is :meth:`DistortionAngle.expected_cos`. Averaged over batches it gives the exact E cos gamma.

    Args:
        cos_bias: cosine between the true gradient and the clipped signal s of the batch, any shape, in [-1, 1].
        dim: number of entries of s, 1..1e12.
        snr: |s| / tau, in [0, inf].

    Returns:
        The mean cosines, the shape of cos_bias.

    Source: LF, Definition 3.2 (lf.def3.2).

    Example: clipping that turns the batch by a cosine of 0.9 takes a tenth of what the noise leaves.
        >>> from dptheory.gradients import batch_expected_cos
        >>> batch_expected_cos(cos_bias=[1.0, 0.9], dim=550_000, snr=1000 / 1.54).round(3)
        array([0.659, 0.593])
    """
    cosines = _validate.finite("cos_bias", cos_bias)
    if (np.abs(cosines) > 1).any():
        raise ArgumentError("cos_bias", "hold numbers in [-1, 1]", cos_bias)
    return np.asarray(cosines * DistortionAngle(dim, snr=snr).expected_cos())


def angle_range(*, bias_angle: ArrayLike, noise_angle: ArrayLike) -> tuple[Array, Array]:
    r"""Smallest and largest angle between two vectors whose angles with a third are known.

    .. math:: |\gamma^B - \gamma^{BP}| \le \gamma \le \min(\gamma^B + \gamma^{BP},\; 2\pi - \gamma^B - \gamma^{BP})

    Both ends are taken, in the plane of the first two vectors; from three dimensions on so is everything between.

    Args:
        bias_angle: gamma^B, between the true gradient and the clipped signal, in [0, pi].
        noise_angle: gamma^BP, between the clipped and the private signal, in [0, pi]; broadcast against bias_angle.

    Returns:
        The smallest and the largest angle in radians, each of the broadcast shape.

    Raises:
        ValueError: an angle outside [0, pi], or shapes that do not match.

    Source: LF, Definition 3.2 (lf.def3.2).

    Example: noise of one radian can undo a bias of half a radian only in part, and can add to it in full.
        >>> from dptheory.gradients import angle_range
        >>> low, high = angle_range(bias_angle=0.5, noise_angle=1.0)
        >>> float(low), float(high)
        (0.5, 1.5)
    """
    bias, noise = _angles("bias_angle", bias_angle), _angles("noise_angle", noise_angle)
    _validate.broadcast(noise_angle=noise, bias_angle=bias)
    both = bias + noise
    return np.asarray(np.abs(bias - noise)), np.asarray(np.minimum(both, np.maximum(2 * math.pi - both, 0.0)))


def _angles(name: str, value: ArrayLike) -> Array:
    array = _validate.finite(name, value)
    if ((array < 0) | (array > math.pi)).any():
        raise ArgumentError(name, "hold angles in [0, pi]", value)
    return array


def _on_grid(law: AngleLaw, angle: Array, factor: float) -> tuple[Array, NDArray[np.bool_]]:
    """The angles in the law's own scale, moved to the ends of its grid, and which were not moved."""
    own = np.minimum(angle / factor, math.pi)
    moved = np.clip(own, law.edges[0], law.edges[-1])
    return moved, moved == own


# --- The law of the noise angle in a few numbers


@dataclass(frozen=True, kw_only=True)
class AngleSummary:
    """The law of a :class:`DistortionAngle` in a few numbers.

    Attributes:
        expected_cos: mean cosine of the angle.
        mean: mean angle in radians.
        std: its standard deviation in radians.
        quantile_05, median, quantile_95: angles in radians that are not exceeded with probability .05, .5 and .95.
    """

    expected_cos: float
    mean: float
    std: float
    quantile_05: float
    median: float
    quantile_95: float


def angle_summary(dim: int, *, snr: float) -> AngleSummary:
    r"""Angle between a clipped mean gradient s and the private s + z, z ~ N(0, tau^2 I), in a few numbers.

    Mean cosine, mean, standard deviation and quantiles of the law of :class:`DistortionAngle`.

    Args:
        dim: number of entries of s, 2..1e12.
        snr: \|s| / tau, in [0, inf]; inf means no noise.

    Returns:
        Mean cosine, mean, standard deviation and three quantiles.

    Source: LF, Definition 3.2 (lf.angle_law); GIP, Fig. 1 (gip.fig1).

    Example: without a signal the angle lies around a right angle.
        >>> from dptheory.gradients import angle_summary
        >>> found = angle_summary(3, snr=0.0)
        >>> round(found.mean, 6), round(found.median, 6), found.expected_cos
        (1.570796, 1.570796, 0.0)
    """
    law = DistortionAngle(dim, snr=snr)
    return AngleSummary(
        expected_cos=law.expected_cos(),
        mean=law.mean(),
        std=math.sqrt(law.var()),
        quantile_05=law.quantile(0.05),
        median=law.quantile(0.5),
        quantile_95=law.quantile(0.95),
    )


# --- How much of a direction survives: the mean cosine over the signal-to-noise ratio


_MANY_NODES, _MANY_WEIGHTS = np.polynomial.legendre.leggauss(128)
# exp(-0.4 * 16**2 / 2) < 1e-22: beyond 16 widths nothing of the integrand is left (see slope).
_WIDTHS = 16.0


def small_snr_slope(dim: int) -> float:
    r"""Limit of E cos / snr as snr -> 0: :math:`\Gamma(\frac{d+1}2)/(\sqrt2\,\Gamma(\frac d2 + 1)) \approx 1/\sqrt d`.

    This is how much of the direction survives noise that is much larger than the signal.

    Args:
        dim: number of entries, 1..1e12.

    Returns:
        The slope, about 1 / sqrt(dim).

    Source: GIP, section 5 (gip.criterion).

    Example: under large noise a gradient of 10,000 entries keeps a hundredth of its signal-to-noise ratio as cosine.
        >>> from dptheory.gradients import small_snr_slope
        >>> round(small_snr_slope(10_000), 5)
        0.01
    """
    return slope(_validate.integer("dim", dim, 1, 10**12), 0.0)


def slope(dim: int, snr: float) -> float:
    """E cos / snr by Gauss-Legendre over the part of [0, pi/2] where the integrand is not negligible.

    sin(phi)^2 >= 0.4 phi^2 and -log cos(phi) >= phi^2 / 2 bound the exponent by -0.4 (snr^2 + dim) phi^2 / 2.
    """
    end = min(math.pi / 2, _WIDTHS / math.hypot(snr, math.sqrt(dim)))
    phi = 0.5 * end * (_MANY_NODES + 1.0)
    exponent = -0.5 * (snr * np.sin(phi)) ** 2 + dim * 0.5 * np.log1p(-(np.sin(phi) ** 2))
    return float(math.sqrt(2 / math.pi) * 0.5 * end * (_MANY_WEIGHTS @ np.exp(exponent)))


# --- Moments of the angle between a true direction and a noisy signal that is itself at an angle to it


_DENSITY_WIDTHS = 9.0  # exp(-81 / 2) of the density of phi and less is left out
_TURN_PANELS = 6
_KINK_PANELS = 14  # towards g = bias, where gamma can be 0: each half as long as the one before
_LOW_DIM = 8  # from here on the density of phi is so small where gamma has a kink that the kink does not count


def angle_variance(dim: int, *, snr: float, bias_angle: float = 0.0) -> float:
    r"""Variance of the angle between u and the noisy signal s + z, for a signal at the angle ``bias_angle`` to u.

    The noise z is N(0, tau^2 I).

    .. math:: \cos\gamma = \cos\gamma^B \cos\gamma^{BP} + \sin\gamma^B \sin\gamma^{BP} \cos\phi

    with gamma^B = ``bias_angle``, gamma^BP of the law of :class:`dptheory.gradients.DistortionAngle` and phi independent of
    it, of density proportional to sin(phi)^(dim - 3) on [0, pi], or 0 or pi with equal chances for dim = 2. The variance is a
    double integral over the two, by quadrature to about 1e-9 relative. At ``bias_angle`` = 0 it is
    :meth:`dptheory.gradients.DistortionAngle.var`. It falls as snr rises, at every ``bias_angle``.

    Args:
        dim: number of entries, 1..1e12; in one dimension ``bias_angle`` is 0 or pi.
        snr: kappa = |s| / tau, in [0, inf].
        bias_angle: angle between u and s in radians, in [0, pi].

    Returns:
        The variance in radians^2, given the batch.

    Source: LF, Proposition 3.1 (lf.prop3.1.3, lf.prop3.1.3.sum, lf.angle_variance).

    Example: with a bias of one radian the angle to the true gradient spreads more than that to the signal.
        >>> from dptheory.gradients import angle_variance
        >>> [round(angle_variance(1000, snr=30.0, bias_angle=bias) ** 0.5, 4) for bias in (0.0, 1.0)]
        [0.0201, 0.0225]
    """
    dim = _validate.integer("dim", dim, 1, 10**12)
    snr = _validate.real("snr", snr, 0.0)
    bias_angle = _validate.real("bias_angle", bias_angle, 0.0, math.pi)
    if dim == 1:
        if bias_angle not in (0.0, math.pi):
            raise ArgumentError("bias_angle", "be 0 or pi in one dimension", bias_angle)
        return math.pi**2 * float(scipy.special.ndtr(snr) * scipy.special.ndtr(-snr))
    if math.isinf(snr):
        return 0.0
    return shift_moments(dim, snr, min(bias_angle, math.pi - bias_angle))[1]


def shift_moments(dim: int, snr: float, bias: float) -> tuple[float, float]:
    """Mean and variance of gamma - bias, dim >= 2, snr finite, bias in [0, pi/2]."""
    own_snr, factor = reduced(snr)
    law = angle_law(dim, own_snr, MOMENTS)
    kinks = (bias / factor, (math.pi - bias) / factor) if dim < _LOW_DIM else ()
    angle, masses = _noise_angles(law, kinks)
    turn, chances = _turns(dim)
    shift = _shift(bias, factor * angle[:, None], turn)
    weight = masses[:, None] * chances
    mean = float((weight * shift).sum())
    return mean, float((weight * (shift - mean) ** 2).sum())


def _noise_angles(law: AngleLaw, kinks: tuple[float, ...]) -> tuple[Array, Array]:
    """Nodes of the noise angle and their probabilities, panels split towards the kinks."""
    halves = 0.5 ** np.arange(_KINK_PANELS)
    # up to where the law ends: from pi the last of the halves is longer than the whole law at a large snr
    added = [np.concatenate([[k], k - halves * k, k + halves * max(law.edges[-1] - k, 0.0)]) for k in kinks]
    edges = np.unique(np.clip(np.concatenate([law.edges, *added]), law.edges[0], law.edges[-1]))
    half = 0.5 * np.diff(edges)
    nodes = (edges[:-1, None] + half[:, None] * (_NODES + 1.0)).ravel()
    masses = (half[:, None] * _WEIGHTS).ravel() * np.exp(law.log_shape(nodes))
    return nodes, masses / masses.sum()


def _turns(dim: int) -> tuple[Array, Array]:
    """Nodes of phi and their probabilities."""
    if dim == 2:
        return np.array([0.0, math.pi]), np.array([0.5, 0.5])
    reach = min(math.pi / 2, _DENSITY_WIDTHS / math.sqrt(max(dim - 3, 1)))
    edges = math.pi / 2 + np.linspace(-reach, reach, _TURN_PANELS + 1)
    if dim < _LOW_DIM:  # gamma has its kinks at phi = 0 and pi
        ends = math.pi / 2 * 0.5 ** np.arange(_KINK_PANELS)
        edges = np.concatenate([[0.0], ends[::-1], math.pi - ends[1:], [math.pi]])
    half = 0.5 * np.diff(edges)
    nodes = (edges[:-1, None] + half[:, None] * (_NODES + 1.0)).ravel()
    # In high dimension the rounding of log sin about a right angle, times dim, would count.
    log_sine = np.log(np.sin(nodes)) if dim < _LOW_DIM else 0.5 * np.log1p(-(np.cos(nodes) ** 2))
    chances = (half[:, None] * _WEIGHTS).ravel() * np.exp((dim - 3) * log_sine)
    return nodes, chances / chances.sum()


def _shift(bias: float, noise_angle: Array, turn: Array) -> Array:
    """gamma - bias to relative accuracy, for bias <= pi/2."""
    side = math.sin(bias) * np.sin(noise_angle)
    near = np.sin((bias - noise_angle) / 2) ** 2 + side * np.sin(turn / 2) ** 2
    far = np.cos((bias + noise_angle) / 2) ** 2 + side * np.cos(turn / 2) ** 2
    gamma = 2 * np.arctan2(np.sqrt(near), np.sqrt(far))
    # cos(gamma) - cos(bias), and the same as a product of sines
    fall = side * np.cos(turn) - 2 * math.cos(bias) * np.sin(noise_angle / 2) ** 2
    sine = np.sin((gamma + bias) / 2)
    return np.asarray(2 * np.arcsin(np.clip(-fall / (2 * np.maximum(sine, 1e-300)), -1.0, 1.0)))
