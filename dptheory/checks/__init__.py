"""The checking engine: Monte Carlo, exact enumeration, adversarial search and certificates, each able to fail."""

from dptheory.checks._certificate import CertificateCheck, WorstCase, worst_case
from dptheory.checks._equality import EqualityCheck, Number, Sides
from dptheory.checks._evidence import Check, Evidence, Kind
from dptheory.checks._law import LawCheck
from dptheory.checks._mean import MeanCheck, Moments, estimate
from dptheory.checks._search import Range, SearchCheck, smallest_slack

__all__ = [
    "CertificateCheck",
    "Check",
    "EqualityCheck",
    "Evidence",
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
