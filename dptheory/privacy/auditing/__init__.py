"""Lower bounds of epsilon from attacks on a mechanism that runs."""

from dptheory.privacy.auditing._audit import AUDIT_METHODS, AuditResult, audit, bound_at_known_rate, largest_bound

__all__ = ["AUDIT_METHODS", "AuditResult", "audit", "bound_at_known_rate", "largest_bound"]
