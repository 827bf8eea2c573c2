"""The angle between a vector and its noisy self: its law, and what becomes of an angle that was there before."""

import math
from dataclasses import KW_ONLY, dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.errors import ArgumentError
from dptheory.gradients import _angle_law
from dptheory.gradients._snr_slope import slope

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
        dim: number of entries of s, 1..1e9.
        snr: |s| / tau, in [0, inf]; inf means no noise.

    Raises:
        ValueError: an argument outside its range.

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
        object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 1, 10**9))
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
        law, factor = self._law(_angle_law.TAILS)
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
        law, factor = self._law(_angle_law.TAILS)
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
        law, factor = self._law(_angle_law.TAILS)
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
        law, factor = self._law(_angle_law.MOMENTS)
        shift = float((law.masses * law.offsets).sum()) / law.total
        square = float((law.masses * (law.offsets - shift) ** 2).sum()) / law.total
        return (law.reference + shift) * factor, square * factor**2

    def _law(self, fall: float) -> tuple[_angle_law.AngleLaw, float]:
        """The law on its grid, and the factor that its angles take."""
        snr, factor = _angle_law.reduced(self.snr)
        return _angle_law.angle_law(self._plural(), snr, fall), factor

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
        dim: number of entries of s, 1..1e9.
        snr: |s| / tau, in [0, inf].

    Returns:
        The mean cosines, the shape of cos_bias.

    Raises:
        ValueError: an argument outside its range.

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


def _on_grid(law: _angle_law.AngleLaw, angle: Array, factor: float) -> tuple[Array, NDArray[np.bool_]]:
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
        dim: number of entries of s, 2..1e9.
        snr: \|s| / tau, in [0, inf]; inf means no noise.

    Returns:
        Mean cosine, mean, standard deviation and three quantiles.

    Raises:
        ValueError: an argument outside its range.

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
