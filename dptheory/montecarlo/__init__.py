"""The checking engine: Monte Carlo, exact enumeration and adversarial search, each able to fail."""

from dptheory.montecarlo._evidence import Check, Evidence, Kind
from dptheory.montecarlo.estimate import MeanCheck, Moments, estimate
from dptheory.montecarlo.exact import ExactCheck
from dptheory.montecarlo.law import LawCheck
from dptheory.montecarlo.search import Range, SearchCheck, smallest_slack

__all__ = [
    "Check",
    "Evidence",
    "ExactCheck",
    "Kind",
    "LawCheck",
    "MeanCheck",
    "Moments",
    "Range",
    "SearchCheck",
    "estimate",
    "smallest_slack",
]
