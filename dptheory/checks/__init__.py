"""The checking engine: Monte Carlo, exact enumeration, adversarial search and certificates, each able to fail."""

from dptheory.checks._certificate import CertificateCheck, WorstCase, worst_case
from dptheory.checks._conjecture import Conjecture, ConjectureError
from dptheory.checks._equality import EqualityCheck, Number, Sides
from dptheory.checks._evidence import Check, Evidence, Kind
from dptheory.checks._law import LawCheck
from dptheory.checks._mean import MeanCheck, Moments, estimate
from dptheory.checks._refute import Refutation, read_conjectures, refute, refute_file
from dptheory.checks._search import Range, SearchCheck, smallest_slack

__all__ = [
    "CertificateCheck",
    "Check",
    "Conjecture",
    "ConjectureError",
    "EqualityCheck",
    "Evidence",
    "Kind",
    "LawCheck",
    "MeanCheck",
    "Moments",
    "Number",
    "Range",
    "Refutation",
    "SearchCheck",
    "Sides",
    "WorstCase",
    "estimate",
    "read_conjectures",
    "refute",
    "refute_file",
    "smallest_slack",
    "worst_case",
]
