"""GEP: the anchor subspace and the residual."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
