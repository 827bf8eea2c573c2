"""GEP: operations and memory."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
