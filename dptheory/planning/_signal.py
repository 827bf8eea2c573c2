r"""What a step is worth: the descent that the best learning rate guarantees, in the moments of what is released.

On a G-smooth loss a step with the best learning rate guarantees an expected decrease of rho / (2 G), rho = (E<w, g>)^2 / E|g|^2
(rf.mse_criterion). With a Poisson batch E|g|^2 = |m|^2 + (1 - q) s / B + n (sigma C / B)^2, m the mean of the clipped gradients,
s their mean squared norm (:func:`dptheory.convergence.batch_second_moment`, rs.lem3.1), n the entries that get noise. T steps of
one such gradient with the learning rate tuned for all of them have a bound proportional to sqrt(E|g|^2 / T) / <w, m> (rs.tuned).
That is a theorem about one gradient. That a whole training has gradients of one kind is a model.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from dptheory.convergence import batch_second_moment
from dptheory.planning._statistics import MethodMoments

LEVEL = 0.95
"""Of every interval that rests on measured gradients."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A batch and its noise."""

    batch_size: int
    sampling_rate: float
    steps: int
    noise_multiplier: float


@dataclass(frozen=True, kw_only=True)
class Signal:
    """Moments of what a method releases, noise apart: E<w, g>, |E g|^2, E|one record's contribution|^2, and n C^2."""

    alignment: float
    mean_square: float
    second_moment: float
    noise: float

    def sampled_square(self, step: Step) -> float:
        """E|g|^2 without noise."""
        square = max(0.0, min(self.mean_square, self.second_moment))
        return batch_second_moment(
            mean_norm=math.sqrt(square),
            second_moment=self.second_moment,
            batch_size=step.batch_size,
            sampling_rate=step.sampling_rate,
        )

    def noise_energy(self, step: Step) -> float:
        """n (sigma C / B)^2."""
        return self.noise * (step.noise_multiplier / step.batch_size) ** 2

    def descent(self, step: Step) -> float:
        """rho; 0 where the mean points uphill."""
        square = self.sampled_square(step) + self.noise_energy(step)
        return max(0.0, self.alignment) ** 2 / square if square > 0.0 else 0.0

    def loss(self, step: Step) -> float:
        """The bound at the tuned learning rate, up to a constant: 1 / sqrt(T rho)."""
        gained = step.steps * self.descent(step)
        return 1.0 / math.sqrt(gained) if gained > 0.0 else math.inf


UNKNOWN = tuple(
    Signal(alignment=1.0, mean_square=u, second_moment=m, noise=1.0) for u, m in ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0))
)
"""The corners of what clipped gradients can be, 0 <= |m|^2 <= s <= 1 in units of C^2, for one noisy entry.

The loss squared over that of the best choice is a linear function of (|m|^2, s) over the least of such functions, which is
concave: the largest values of the ratio lie at corners. So does a ratio of two linear functions of it.
"""


def signals(measured: MethodMoments) -> tuple[Signal, ...]:
    """The whole, then with each fold left out."""
    noise = measured.noise_dim * measured.clip_norm**2
    rows = zip(measured.alignments, measured.mean_squares, measured.second_moments, strict=True)
    return tuple(Signal(alignment=a, mean_square=m, second_moment=s, noise=noise) for a, m, s in rows)


def curved_signal(measured: MethodMoments) -> Signal:
    """The same with E g' H g in the place of E|g|^2, which has the same form; all curvatures are positive."""
    assert measured.curvatures is not None
    along_mean, along_record, along_noise = measured.curvatures
    alignment = measured.alignments[0]
    return Signal(alignment=alignment, mean_square=along_mean, second_moment=along_record, noise=along_noise)


def jackknife(values: list[float]) -> tuple[float, float]:
    """Interval of a statistic from its value on all records and with each fold left out, by Student's t."""
    whole, left = values[0], np.array(values[1:])
    folds = left.size
    spread = math.sqrt((folds - 1) / folds * float(((left - left.mean()) ** 2).sum()))
    reach = float(stdtrit(folds - 1, 0.5 + LEVEL / 2)) * spread
    return whole - reach, whole + reach


def curved_descent(measured: MethodMoments, step: Step) -> float | None:
    """E<w, g>^2 over E g' H g, which is what a step with its best learning rate gains twice; None where that is not positive."""
    slope = step_curvature(measured, step)
    return None if slope is None else max(0.0, measured.alignments[0]) ** 2 / slope


def step_curvature(measured: MethodMoments, step: Step) -> float | None:
    """E g' H g; None where it was not measured, or is not positive, so that no best step exists."""
    if measured.curvatures is None:
        return None
    along_mean, along_record, along_noise = measured.curvatures
    share = 1.0 / step.batch_size
    found = along_mean + (1.0 - step.sampling_rate) * share * along_record
    found += along_noise * (step.noise_multiplier * share) ** 2
    return found if found > 0.0 else None
