"""The checking engine: Monte Carlo, exact enumeration, adversarial search and certificates, each able to fail."""

from dptheory.montecarlo._evidence import Check, Evidence, Kind
from dptheory.montecarlo.certificate import CertificateCheck, WorstCase, worst_case
from dptheory.montecarlo.estimate import MeanCheck, Moments, estimate
from dptheory.montecarlo.exact import EqualityCheck, ExactCheck, Number, Sides
from dptheory.montecarlo.law import LawCheck
from dptheory.montecarlo.search import Range, SearchCheck, smallest_slack

__all__ = [
    "CertificateCheck",
    "Check",
    "EqualityCheck",
    "Evidence",
    "ExactCheck",
    "Kind",
    "LawCheck",
    "MeanCheck",
    "Moments",
    "Number",
    "Range",
    "SearchCheck",
    "Sides",
    "WorstCase",
    "estimate",
    "smallest_slack",
    "worst_case",
]
