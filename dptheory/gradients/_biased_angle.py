"""Moments of the angle between a true direction and a noisy signal that is itself at an angle to it.

With beta the angle between the direction u and the signal s, g that between s and the noisy s + z, and phi the angle by which z
turns s about itself, measured from the side of u: sin^2(gamma/2) = sin^2((beta - g)/2) + sin(beta) sin(g) sin^2(phi/2). phi is
independent of g, with density proportional to sin^{d-3} on [0, pi]; in the plane it is 0 or pi with equal chances.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dptheory.gradients import _angle_law

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_WIDTHS = 9.0  # exp(-81 / 2) of the density of phi and less is left out
_TURN_PANELS = 6
_KINK_PANELS = 14  # towards g = bias, where gamma can be 0: each half as long as the one before
_LOW_DIM = 8  # from here on the density of phi is so small where gamma has a kink that the kink does not count


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
    added = [np.concatenate([[k], k - halves * k, k + halves * (math.pi - k)]) for k in kinks]
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
    chances = (half[:, None] * _WEIGHTS).ravel() * np.exp((dim - 3) * np.log(np.sin(nodes)))
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
