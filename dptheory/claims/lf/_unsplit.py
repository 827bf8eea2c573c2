"""Claims that do not have a file of their own yet; this module goes when the last one has."""

from dptheory.claims._claim import Claim
from dptheory.claims.lf import freezing

CLAIMS: tuple[Claim, ...] = (*freezing.CLAIMS,)
