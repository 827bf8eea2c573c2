"""Upper bounds of delta and epsilon of steps of several kinds by the sum of their Renyi curves."""

import functools
import math

import numpy as np
from numpy.typing import NDArray

from dptheory.privacy._bounds import RENYI, Direction
from dptheory.privacy._parts import Apart, IndexSteps, JointStep, MaskedStep, Part, Parts, Step, Steps
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods.lattice._index_law import loss_law
from dptheory.privacy.methods.lattice._loss import renyi_curve
from dptheory.privacy.methods.renyi import _conversion as _renyi
from dptheory.privacy.methods.renyi._curves import ORDERS, joint_rdp, subsampled_gaussian_rdp

Array = NDArray[np.float64]


class Renyi:
    """The sum of the Renyi curves: quick, never far off, never close; add/remove alone."""

    name = RENYI

    def serves(self, parts: Parts, direction: Direction) -> bool:
        return direction != "replace" and all(isinstance(part, Step) for part in parts)

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        return Bracket(0.0, renyi_delta(steps, epsilon))

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        return Bracket(0.0, renyi_epsilon(steps, delta))


def renyi_epsilon(parts: Parts, delta: float) -> float:
    return _renyi.epsilon_from_rdp(orders=ORDERS, rdp=_curve(parts), delta=delta)


def renyi_delta(parts: Parts, epsilon: float) -> float:
    """The least delta whose ``conversion`` gives at most epsilon."""
    orders, curve = np.array(ORDERS, dtype=np.float64), _curve(parts)
    logs = (orders - 1) * (curve + np.log1p(-1 / orders) - epsilon) - np.log(orders)
    return math.exp(min(0.0, float(logs.min())))


@functools.lru_cache(maxsize=64)
def _curve(parts: Parts) -> Array:
    curves = [_part_curve(part) for part in parts]
    return np.array([math.fsum(column) for column in zip(*curves, strict=True)])


@functools.lru_cache(maxsize=1024)
def _part_curve(part: Part) -> Array:
    if isinstance(part, IndexSteps):
        law = loss_law(mechanism=part.mechanism)
        return part.steps * part.groups * renyi_curve(law, np.array(ORDERS, dtype=np.float64))
    assert not isinstance(part, Apart)  # has methods of its own
    sampled = {"orders": ORDERS, "sampling_rate": part.sampling_rate, "noise_multiplier": part.noise_multiplier}
    if isinstance(part, MaskedStep):
        return part.count * part.mask.rdp(**sampled)  # type: ignore[arg-type]
    if isinstance(part, JointStep):
        return part.count * joint_rdp(**sampled, mechanism=part.mechanism, groups=part.groups)  # type: ignore[arg-type]
    return part.count * subsampled_gaussian_rdp(**sampled)  # type: ignore[arg-type]
