"""Lower bounds of epsilon from attacks on a mechanism that runs: many runs (``audit``), or one (``one_run_epsilon``)."""

from dptheory.privacy.auditing._audit import AUDIT_METHODS, AuditResult, audit, bound_at_known_rate, largest_bound
from dptheory.privacy.auditing._one_run import OneRunResult, one_run_epsilon

__all__ = [
    "AUDIT_METHODS",
    "AuditResult",
    "OneRunResult",
    "audit",
    "bound_at_known_rate",
    "largest_bound",
    "one_run_epsilon",
]
