"""Claims that do not have a file of their own yet; this module goes when the last one has."""

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
