"""The law of the noise angle in a few numbers."""

import math
from dataclasses import dataclass

from dptheory.gradients._angles import DistortionAngle


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
