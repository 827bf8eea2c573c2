"""Errors of reconstruction attacks by hypergeometric laws and by hand, for the checks."""

import math
from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import sparsification


def rate_of(dim: int, keep: int) -> float:
    """The sparsification rate of a mask that keeps ``keep`` of ``dim`` entries."""
    return 1 - keep / dim


def leading_ones(dim: int, ones: int) -> NDArray[np.float64]:
    """A vector with so many ones, zero elsewhere."""
    return np.asarray(np.arange(dim) < ones, dtype=np.float64)


def by_hits(dim: int, ones: int, keep: int, field: str) -> float:
    """sigma = 2, prior deviation 3: the number of ones kept is hypergeometric."""
    hits = np.arange(keep + 1)
    law = scipy.stats.hypergeom(dim, ones, keep).pmf(hits)
    some = float(law[1:].sum())
    if field == "bayes":
        return float(law @ (1 / (hits / 4 + 1 / 9)))
    given = 4 * float(law[1:] @ (1 / hits[1:])) / some
    lost = float(law[0])
    return {
        "given": given,
        "lost": lost,
        "value": math.inf if dim - ones >= keep else given,
        "bound": 4 * some / float(law @ hits),  # sigma^2 P(X > 0) / E X
    }[field]


def sparse_field(dim: int, ones: int, keep: int, field: str) -> float:
    k, rate = leading_ones(dim, ones), rate_of(dim, keep)
    if field == "bayes":
        return sparsification.bayes_error(k, drop_rate=rate, noise_std=2.0, prior_std=3.0)
    if field == "bound":
        return sparsification.error_lower_bound(k, drop_rate=rate, noise_std=2.0)
    found = sparsification.expected_error(k, drop_rate=rate, noise_std=2.0)
    return {"given": found.given_recoverable, "lost": found.lost_probability, "value": found.value}[field]


def border(unknowns: int, row: str) -> NDArray[np.float64]:
    """The identity and a row of ones, or its first row once more."""
    return np.vstack([np.eye(unknowns), np.ones(unknowns) if row == "ones" else np.eye(unknowns)[0]])


def bordered(unknowns: int, row: str, field: str) -> float | bool:
    """sigma = 2. Without row j of the identity x_j is the last measurement minus the others: |K_m^-1|^2 = 2 n - 1."""
    n = unknowns
    if field == "reason":
        return True
    if row == "ones":
        error = Fraction(4 * (n + n * (2 * n - 1)), n + 1)
        inverse = n - Fraction(n, n + 1)
        return float({"value": error, "given": error, "lost": Fraction(0), "bound": 4 * inverse * (n + 1) / n}[field])
    lost = Fraction(n - 1, n + 1)  # only one of the two equal rows may go
    inverse = n - Fraction(1, 2)
    bound = float(4 * inverse * (n + 1) / n)
    return {"value": math.inf, "given": 4.0 * n, "lost": float(lost), "bound": bound}[field]


def bordered_field(unknowns: int, row: str, field: str) -> float | bool:
    K, rate = border(unknowns, row), rate_of(unknowns + 1, unknowns)
    if field == "bound":
        return float(np.trace(sparsification.matrix_error_lower_bound(K, drop_rate=rate, noise_std=2.0)))
    found = sparsification.matrix_expected_error(K, drop_rate=rate, noise_std=2.0)
    if field == "reason":
        told = f"{unknowns - 1} of {unknowns + 1} masks leave rows of rank below {unknowns}"
        return found.reason == (None if row == "ones" else told)
    return {"value": found.value, "given": found.given_recoverable, "lost": found.lost_probability}[field]


def gaussian_field(keep: int, field: str) -> float | bool:
    found = sparsification.gaussian_matrix_error(keep=keep, unknowns=4, noise_std=2.0)
    if field == "reason":
        few = f"{keep} rows cannot determine 4 unknowns"
        near = f"the smallest singular value has too much mass near 0: {keep} rows, needs 6"
        return found.reason is not None and found.reason == (few if keep < 4 else near)
    return {"given": found.given_recoverable, "lost": found.lost_probability}[field]
