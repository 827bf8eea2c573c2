"""LF: statements that stand in the text alone."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
