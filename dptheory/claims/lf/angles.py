"""LF: the law of the distortion angle, exact and monotone."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
