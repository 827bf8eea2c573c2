"""GEP: privacy of the two releases, as printed and exactly."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
