"""LF: the descent lemma and the convergence bound."""

from dptheory.claims._claim import Claim

CLAIMS: tuple[Claim, ...] = ()
