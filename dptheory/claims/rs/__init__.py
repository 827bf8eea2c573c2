"""Random sparsification (RS): the claims, one module a topic."""

from dptheory.claims._claim import Claim
from dptheory.claims.rs import reconstruction

CLAIMS: tuple[Claim, ...] = (
    *reconstruction.CLAIMS,
)
