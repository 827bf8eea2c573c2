"""Claims that do not have a file of their own yet; this module goes when the last one has."""

from dptheory.claims._claim import Claim
from dptheory.claims.rf import (
    descent,
    mse,
    noise,
    numbers,
    privacy,
    quadratic,
    ranking,
    sigmas,
)

CLAIMS: tuple[Claim, ...] = (
    *ranking.CLAIMS,
    *descent.CLAIMS,
    *numbers.CLAIMS,
    *noise.CLAIMS,
    *quadratic.CLAIMS,
    *mse.CLAIMS,
    *privacy.CLAIMS,
    *sigmas.CLAIMS,
)
