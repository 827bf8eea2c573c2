"""The ledger: every numbered claim of the five papers, its verdict, and what tests it."""

from dptheory.claims._answer import Answer, Finding
from dptheory.claims._claim import PAPERS, Claim, Source, Verdict
from dptheory.claims._registry import all_claims, get, select

__all__ = ["PAPERS", "Answer", "Claim", "Finding", "Source", "Verdict", "all_claims", "get", "select"]
