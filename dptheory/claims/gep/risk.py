"""GEP: excess risk."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
