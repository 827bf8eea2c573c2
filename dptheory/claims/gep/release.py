"""GEP: how noise is split, what it costs, and when the method pays."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
