"""LF: the measured claims."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
