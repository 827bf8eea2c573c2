"""Random freeze (RF): the claims, one module a topic."""

from dptheory.claims._claim import Claim
from dptheory.claims.rf import dynamics, numbers, ranking

CLAIMS: tuple[Claim, ...] = (
    *dynamics.CLAIMS,
    *ranking.CLAIMS,
    *numbers.CLAIMS,
)
