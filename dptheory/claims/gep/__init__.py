"""Gradient embedding perturbation (GEP): the claims, one module a topic."""

from dptheory.claims._claim import Claim
from dptheory.claims.gep import costs, numbers, privacy, release, risk, subspace

CLAIMS: tuple[Claim, ...] = (
    *privacy.CLAIMS,
    *release.CLAIMS,
    *subspace.CLAIMS,
    *risk.CLAIMS,
    *costs.CLAIMS,
    *numbers.CLAIMS,
)
