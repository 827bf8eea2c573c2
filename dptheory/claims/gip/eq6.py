from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import pruning
from dptheory._arrays import Array
from dptheory.claims._draws import drawn_masks
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite


def _masked_noise(rng: np.random.Generator, n: int, dim: int, keep: int, scale: float) -> Array:
    mask = drawn_masks(rng, n, dim, keep)
    return np.asarray(np.square(scale * rng.standard_normal((n, dim)) * mask).sum(axis=1))


row = new_row(
    id="gip.eq6",
    source=Source("gip", "equation 6", (6,)),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
    calculators=(pruning.noise_mse,),
)


@row.equal(lambda: [(*size, scale) for size in _finite.SIZES for scale in (1, 3)])
def _(dim: int, keep: int, scale: int) -> Sides:
    """two-point noise under a fixed mask"""
    return (
        pruning.noise_mse(keep=keep, clip_norm=1.0, noise_multiplier=scale),
        lambda: Fraction(
            sum(sum(z * z for z in noise[:keep]) for noise in _finite.two_point_noise(dim, scale)), 2**dim
        ),
        pruning.noise_mse(keep=dim, clip_norm=1.0, noise_multiplier=scale),
    )


@row.mean(partial(_masked_noise, dim=100, keep=30, scale=3.0), row_bytes=2500)
def _() -> float:
    """Gaussian noise under a random mask"""
    return float(pruning.noise_mse(keep=30, clip_norm=1.5, noise_multiplier=2.0))
