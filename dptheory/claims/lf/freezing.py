"""LF: what freezing does to norms and to the angle of the biased signal."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
