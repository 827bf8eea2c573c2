import itertools
import math
from functools import partial

import numpy as np
import scipy

from dptheory import pruning
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row


def printed_norm(dim: int, sigma_g: float) -> float:
    """E|g| as the text before equation 5 has it."""
    return dim * sigma_g


def _norms(rng: np.random.Generator, n: int, dim: int) -> Array:
    return np.asarray(np.linalg.norm(rng.standard_normal((n, dim)), axis=1))


def _norm_by_quantiles(dim: int, sigma_g: float) -> float:
    square = 2.0 * scipy.special.gammaincinv(dim / 2, (np.arange(4000) + 0.5) / 4000)
    return sigma_g * float(np.sqrt(square).mean())


row = new_row(
    id="gip.norm",
    source=Source("gip", "section 5, text before equation 5"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_norm,
    calculators=(pruning.expected_norm,),
)


@row.equal(lambda: itertools.product((1, 2, 3), (1.0, 0.1)), tolerance=1e-14, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, sigma_g: float) -> tuple[float, float]:
    """dimensions 1, 2, 3 in closed form"""
    factor = {1: 2 / math.pi, 2: math.pi / 2, 3: 8 / math.pi}[dim]
    return float(pruning.expected_norm(dim, sigma_g=sigma_g)), sigma_g * math.sqrt(factor)


@row.mean(partial(_norms, dim=50), wrong=lambda: printed_norm(50, 1.0), row_bytes=800, resolution=0.002)
def _() -> float:
    """mean norm, d = 50"""
    return float(pruning.expected_norm(50, sigma_g=1.0))


@row.equal(lambda: itertools.product((20_000, 10**6), (1.0, 0.1)), tolerance=1e-6)
def _(dim: int, sigma_g: float) -> Sides:
    """users' sizes: the root of equally likely chi-square values"""
    return (
        pruning.expected_norm(dim, sigma_g=sigma_g),
        lambda: _norm_by_quantiles(dim, sigma_g),
        1.001 * sigma_g * math.sqrt(dim),
    )
