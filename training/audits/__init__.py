"""Audits: what releases and whole trainings prove about epsilon and about the sampling, the noise and the masks behind it."""

from training.audits.findings import FALSE_ALARM, Finding
from training.audits.steps import StepAudit, step_audits
from training.audits.suite import quick, thorough

__all__ = ["FALSE_ALARM", "Finding", "StepAudit", "quick", "step_audits", "thorough"]
