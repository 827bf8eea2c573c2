"""Claims that do not have a file of their own yet; this module goes when the last one has."""

from dptheory.claims._claim import Claim
from dptheory.claims.rs import (
    clipped,
    clipping,
    communication,
    corollary,
    descent,
    kappa,
    masks,
    numbers,
    privacy,
    reconstruction,
    remarks,
    tradeoff,
)

CLAIMS: tuple[Claim, ...] = (
    *reconstruction.CLAIMS,
    *masks.CLAIMS,
    *communication.CLAIMS,
    *clipped.CLAIMS,
    *corollary.CLAIMS,
    *descent.CLAIMS,
    *numbers.CLAIMS,
    *kappa.CLAIMS,
    *tradeoff.CLAIMS,
    *remarks.CLAIMS,
    *clipping.CLAIMS,
    *privacy.CLAIMS,
)
