"""Moments of the angle between a true direction and a noisy signal that is itself at an angle to it.

With beta the angle between the direction u and the signal s, g that between s and the noisy s + z, and phi the angle by which z
turns s about itself, measured from the side of u: sin^2(gamma/2) = sin^2((beta - g)/2) + sin(beta) sin(g) sin^2(phi/2). phi is
independent of g, with density proportional to sin^{d-3} on [0, pi]; in the plane it is 0 or pi with equal chances.
"""

import math

import numpy as np
import scipy

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.errors import ArgumentError
from dptheory.gradients import _angle_law

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_WIDTHS = 9.0  # exp(-81 / 2) of the density of phi and less is left out
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
        dim: number of entries, 1..1e9; in one dimension ``bias_angle`` is 0 or pi.
        snr: kappa = |s| / tau, in [0, inf].
        bias_angle: angle between u and s in radians, in [0, pi].

    Returns:
        The variance in radians^2, given the batch.

    Raises:
        ValueError: an argument outside its range.

    Source: LF, Proposition 3.1 (lf.prop3.1.3, lf.prop3.1.3.sum, lf.angle_variance).

    Example: with a bias of one radian the angle to the true gradient spreads more than that to the signal.
        >>> from dptheory.gradients import angle_variance
        >>> [round(angle_variance(1000, snr=30.0, bias_angle=bias) ** 0.5, 4) for bias in (0.0, 1.0)]
        [0.0201, 0.0225]
    """
    dim = _validate.integer("dim", dim, 1, 10**9)
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
    own_snr, factor = _angle_law.reduced(snr)
    law = _angle_law.angle_law(dim, own_snr, _angle_law.MOMENTS)
    kinks = (bias / factor, (math.pi - bias) / factor) if dim < _LOW_DIM else ()
    angle, masses = _noise_angles(law, kinks)
    turn, chances = _turns(dim)
    shift = _shift(bias, factor * angle[:, None], turn)
    weight = masses[:, None] * chances
    mean = float((weight * shift).sum())
    return mean, float((weight * (shift - mean) ** 2).sum())


def _noise_angles(law: _angle_law.AngleLaw, kinks: tuple[float, ...]) -> tuple[Array, Array]:
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
    reach = min(math.pi / 2, _WIDTHS / math.sqrt(max(dim - 3, 1)))
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
