import itertools
import math
from fractions import Fraction
from functools import partial
from typing import Literal

from dptheory import embedding, privacy
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gep._mechanism import (
    hockey_stick_of_output,
    least_noise_ratio,
    printed_noise_ratio,
    replaced_noise,
)

_RUN_SIGMAS = (1.0, 1.5)


def _run_mu(steps: int) -> float:
    first, second = _RUN_SIGMAS
    return embedding.output_mu(
        embedding_clip=1.0, residual_clip=1.0, embedding_std=first, residual_std=second, steps=steps
    )


row = new_row(
    id="gep.thm3.2",
    source=Source("gep", "Theorem 3.2"),
    verdict=Verdict.LOOSE,
    printed=printed_noise_ratio,
    calculators=(
        embedding.release_noise_ratio,
        embedding.noise_ratio_excess,
        embedding.joint_mu,
        embedding.output_mu,
    ),
)


@row.equal(lambda: [(epsilon, 1e-5, steps) for epsilon in (0.5, 2.0) for steps in (1, 100, 10_000)], tolerance=1e-7)
def _(epsilon: float, delta: float, steps: int) -> Sides:
    """least noise of T steps, by root finding on quadratures"""
    budget = epsilon, delta, steps
    return (
        embedding.release_noise_ratio(epsilon=epsilon, delta=delta, steps=steps),
        lambda: least_noise_ratio(*budget),
        printed_noise_ratio(*budget),
    )


@row.equal(lambda: [(epsilon, steps) for epsilon in (0.3, 1.0, 8.0) for steps in (1, 7, 10**6)], tolerance=1e-7)
def _(epsilon: float, steps: int) -> Sides:
    """same excess for every T, by root finding on quadratures"""
    return (
        embedding.noise_ratio_excess(epsilon=epsilon, delta=1e-5),
        printed_noise_ratio(epsilon, 1e-5, steps) / least_noise_ratio(epsilon, 1e-5, steps),
        embedding.noise_ratio_excess(epsilon=epsilon, delta=1e-5) * math.sqrt(steps),
    )


@row.equal(
    lambda: itertools.product(("exact", "renyi", "stated"), (0.3, 8.0), (1, 7, 10**6)),
    tolerance=1e-7,
)
def _(method: Literal["exact", "renyi", "stated"], epsilon: float, steps: int) -> Sides:
    """T steps where a record is replaced: twice the noise, for each method"""
    return (
        embedding.release_noise_ratio(epsilon=epsilon, delta=1e-5, steps=steps, adjacency="replace-one", method=method),
        lambda: replaced_noise(method, epsilon, steps),
        replaced_noise(method, epsilon, steps) / 2,
    )


@row.mean(
    partial(hockey_stick_of_output, clips=(1.0, 1.0), sigmas=_RUN_SIGMAS, epsilon=1.0, steps=3),
    wrong=lambda: privacy.gaussian_delta(
        _run_mu(steps=1),
        1.0,
    ),
    row_bytes=600,
)
def _() -> float:
    """last iterate alone, linear loss, T = 3"""
    return privacy.gaussian_delta(
        _run_mu(steps=3),
        1.0,
    )


@row.equal(
    lambda: [(first, second, steps) for first in (1, 2) for second in (2, 5) for steps in (1, 3, 12)], tolerance=1e-12
)
def _(first: int, second: int, steps: int) -> Sides:
    """mu of T steps in squares"""
    return (
        embedding.joint_mu([first, second], steps=steps) ** 2,
        float(sum(Fraction(1, first**2) + Fraction(1, second**2) for _ in range(steps))),
        (steps * (1 / first + 1 / second)) ** 2,
    )
