"""GIP: the cosine between a gradient and its noisy release falls with the dimension."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive

from dptheory import gradients
from dptheory.checks import ExactCheck, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict

Array = NDArray[np.float64]


def _cosines(rng: np.random.Generator, n: int, dim: int, snr: float) -> Array:
    signal = np.full(dim, snr / math.sqrt(dim))
    noisy = signal + rng.standard_normal((n, dim))
    return np.asarray(noisy @ signal / snr / np.linalg.norm(noisy, axis=1))


def _low_dimensional_cosine(dim: int, snr: float) -> float:
    """E cos in one dimension (the error function) and in the plane (modified Bessel functions)."""
    if dim == 1:
        return math.erf(snr / math.sqrt(2))
    return math.sqrt(math.pi / 8) * snr * float(ive(0, snr**2 / 4) + ive(1, snr**2 / 4))


def _fall_slack(dim: float, snr: float) -> float:
    lower, higher = (gradients.DistortionAngle(d, snr).expected_cos() for d in (round(dim), round(1.1 * dim) + 1))
    return lower / higher - 1


def _two_sided_slack(dim: float, snr: float) -> float:
    d, value = round(dim), gradients.DistortionAngle(round(dim), snr).expected_cos()
    return min(value * math.hypot(snr, math.sqrt(d + 2)) / snr - 1, snr / math.hypot(snr, math.sqrt(d - 1)) / value - 1)


def _tighter_slack(dim: float, snr: float) -> float:
    """Wrong statement: the upper bound with d in place of d - 1."""
    d = round(dim)
    return snr / math.hypot(snr, math.sqrt(d)) / gradients.DistortionAngle(d, snr).expected_cos() - 1


def _fast_fall_slack(dim: float, snr: float) -> float:
    """Wrong statement: the cosine falls like 1 / dim."""
    small, large = (gradients.DistortionAngle(d, snr).expected_cos() for d in (round(dim), 4 * round(dim)))
    return small / large - 4


_FIG1 = Claim(
    id="gip.fig1",
    title="cosine falls with the dimension",
    source=Source("gip", "Fig. 1, observation 3 of section 1"),
    statement=r"The cosine between a gradient of norm $C$ and its DP release falls to 0 as the dimension grows.",
    verdict=Verdict.HOLDS,
    conditions=("kappa = |g| / (sigma C) with kappa / sqrt(d) -> 0: clipping keeps kappa bounded",),
    correction=r"$E\cos = \kappa\sqrt{2/\pi}\int_0^{\pi/2} e^{-\kappa^2\sin^2\phi/2}\cos^d\phi\,d\phi$, $\kappa = |g|/(\sigma C)$: "
    r"between $\kappa/\sqrt{\kappa^2 + d + 2}$ and $\kappa/\sqrt{\kappa^2 + d - 1}$.",
    calculators=(gradients.DistortionAngle.expected_cos,),
    checks=(
        MeanCheck(
            name="d = 50, snr = 3",
            sampler=partial(_cosines, dim=50, snr=3.0),
            claimed=lambda: gradients.DistortionAngle(50, 3.0).expected_cos(),
            wrong=lambda: 3.0 / math.sqrt(50),
            row_bytes=1200,
        ),
        ExactCheck(
            name="one and two dimensions in closed form",
            cases=lambda: [(dim, snr) for dim in (1, 2) for snr in (0.01, 1.0, 6.0)],
            truth=_low_dimensional_cosine,
            statement=lambda dim, snr: gradients.DistortionAngle(dim, snr).expected_cos(),
            wrong=lambda dim, snr: snr / math.hypot(snr, math.sqrt(dim)),
            tolerance=1e-12,
        ),
        SearchCheck(
            name="falls in the dimension",
            box={"dim": Range(1, 1e8, log=True), "snr": Range(1e-6, 1e6, log=True)},
            slack=_fall_slack,
            wrong=_fast_fall_slack,
        ),
        SearchCheck(
            name="two-sided bound",
            box={"dim": Range(1, 1e6, log=True), "snr": Range(1e-3, 1e3, log=True)},
            slack=_two_sided_slack,
            wrong=_tighter_slack,
        ),
    ),
    proved=True,
    figure="cosine_dimension",
)

CLAIMS = (_FIG1,)
