"""Random freeze (RF): the claims, one module a topic."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
