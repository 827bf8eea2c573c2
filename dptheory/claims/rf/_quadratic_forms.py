"""The largest of n quadratic forms in normal variables: second methods, spectra, and the calculator's values."""

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import scipy
from scipy.special import gammaincc

from dptheory import gradients
from dptheory._arrays import Array


def paired_max(eigenvalues: Sequence[Fraction], n: int) -> Fraction:
    """E max of n draws of sum l_j E_j, E_j exponential of mean 2: each eigenvalue, all distinct, comes twice in Sigma.

    P(Q > x) = sum_j A_j exp(-x / (2 l_j)), A_j = prod_{i != j} l_j / (l_j - l_i); the n-th power of its complement is expanded.
    """
    terms = [
        (math.prod((x / (x - y) for y in eigenvalues if y != x), start=Fraction(1)), 1 / (2 * x)) for x in eigenvalues
    ]
    total = Fraction(0)
    for size in range(1, n + 1):
        for chosen in itertools.combinations_with_replacement(range(len(terms)), size):
            ways = math.factorial(size)
            for j in set(chosen):
                ways //= math.factorial(chosen.count(j))
            weight = math.prod((terms[j][0] for j in chosen), start=Fraction(1))
            rate = sum((terms[j][1] for j in chosen), Fraction(0))
            total += (-1) ** (size + 1) * math.comb(n, size) * ways * weight / rate
    return total


def gamma_max(shape: float, n: int) -> float:
    """E max of n draws of Gamma(shape, shape), by quadrature of its own law."""

    def missed(x: float) -> float:
        above = float(gammaincc(shape, shape * x))
        return -math.expm1(n * math.log1p(-above)) if above < 1.0 else 1.0

    top = 1.0 + (60.0 + 3.0 * math.sqrt(60.0 * shape)) / shape
    return float(scipy.integrate.quad(missed, 0.0, top, limit=400, epsabs=0.0, epsrel=1e-11, points=[1.0])[0])


def exact(eigenvalues: Sequence[float | Fraction], n: int) -> float:
    """E max of n draws by the calculator."""
    return gradients.expected_max_quadratic_form([float(x) for x in eigenvalues], n)


def approximate(eigenvalues: Sequence[float | Fraction], n: int) -> float:
    """The same by the approximation of equation 19."""
    return gradients.expected_max_quadratic_form([float(x) for x in eigenvalues], n, method="welch-satterthwaite")


def spectrum(dim: int, decay: float) -> Array:
    """Eigenvalues j^-decay, j = 1..dim."""
    return np.arange(1.0, dim + 1.0) ** -decay


PAIRED = ((3, 1), (5, 4), (10, 1), (7, 3, 2))


def paired_cases() -> Iterator[tuple[tuple[int, ...], int]]:
    """Half of the eigenvalues, each of which comes twice, and the number of draws."""
    yield from itertools.product(PAIRED, (1, 2, 3, 6))


def sign_error(roots: Sequence[int], sigma: Fraction) -> Fraction:
    """Error at w = 0 for one draw with independent entries +-root and noise +-sigma |g|: only second moments enter."""
    signs = list(itertools.product((-1, 1), repeat=len(roots)))
    total = Fraction(0)
    for one, other in itertools.product(signs, repeat=2):
        g = [s * r for s, r in zip(one, roots, strict=True)]
        # |g| is the same for all signs; cross terms between g and the noise cancel over its signs and are left out
        norm_square = sum(x * x for x in g)
        total += sum(x * x + sigma**2 * norm_square * s * s for x, s in zip(g, other, strict=True))
    return total / len(signs) ** 2
