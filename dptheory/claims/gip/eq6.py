"""gip.eq6: noise MSE."""

from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dptheory import pruning
from dptheory.claims._draws import drawn_masks
from dptheory.claims._row import Claim, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite

Array = NDArray[np.float64]


def _masked_noise(rng: np.random.Generator, n: int, dim: int, keep: int, scale: float) -> Array:
    mask = drawn_masks(rng, n, dim, keep)
    return np.asarray(np.square(scale * rng.standard_normal((n, dim)) * mask).sum(axis=1))


row = Row(
    Claim(
        id="gip.eq6",
        title="noise MSE",
        source=Source("gip", "equation 6", (6,)),
        statement=r"""Let $I\in\lbrace 0,1\rbrace^d$ have $K = kd$ ones and let $Z$ have entries $N(0,\sigma^2C^2)$. Then

$$E\lVert Z\odot I\rVert^2 = \sigma^2C^2kd .$$""",
        verdict=Verdict.HOLDS,
        kernel="gip/eq6.v",
        kernel_theorems=("printed_holds",),
        summary=(
            r"the noise error is $\sigma^2C^2kd$ for every index set with $kd$ ones, as long as the noise does not influence "
            "the index set."
        ),
        conditions=(
            r"Stated: $Z \sim N(0,\sigma^2C^2)$ in each entry, $k\in(0,1]$; the share $k$ of $I$ are ones (section 4.1).",
            "Unstated: $kd$ is an integer.",
            (
                "Unstated: $Z$ is independent of $I$. In the paper's algorithm $I$ depends on $g$ and on its own randomness "
                "only, so this is met."
            ),
            "Not needed: that the entries of $Z$ are normal or independent of each other.",
        ),
        calculators=(pruning.noise_mse,),
        proved=True,
    )
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
