"""The ledger: every numbered claim of the five papers, its verdict, and what tests it."""

from dptheory.claims._claim import PAPERS, Claim, Source, Verdict
from dptheory.claims._registry import all_claims, get, select

__all__ = ["PAPERS", "Claim", "Source", "Verdict", "all_claims", "get", "select"]
