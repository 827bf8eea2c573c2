"""Layer freezing (LF): the claims, one module a topic."""

from dptheory.claims._claim import Claim
from dptheory.claims.lf import angles, descent, freezing, numbers, prose

CLAIMS: tuple[Claim, ...] = (
    *angles.CLAIMS,
    *freezing.CLAIMS,
    *descent.CLAIMS,
    *prose.CLAIMS,
    *numbers.CLAIMS,
)
