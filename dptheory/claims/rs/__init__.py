"""Random sparsification (RS): the claims, one module a topic."""

from dptheory.claims._claim import Claim
from dptheory.claims.rs import communication, masks, numbers, reconstruction

CLAIMS: tuple[Claim, ...] = (
    *reconstruction.CLAIMS,
    *masks.CLAIMS,
    *communication.CLAIMS,
    *numbers.CLAIMS,
)
