"""Audits: what releases and whole trainings prove about epsilon and about the sampling, the noise and the masks behind it."""

from dptheory.training.audits._findings import FALSE_ALARM, Finding
from dptheory.training.audits._steps import StepAudit, step_audits
from dptheory.training.audits._suite import quick, report, thorough

__all__ = ["FALSE_ALARM", "Finding", "StepAudit", "quick", "report", "step_audits", "thorough"]
