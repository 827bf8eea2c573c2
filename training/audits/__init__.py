"""Audits: what releases and whole trainings prove about epsilon and about the sampling, the noise and the masks behind it.

Of this library's own mechanisms (``quick``, ``thorough``, ``step_audits``), and of any loop (``audit``).
"""

from dptheory.training.audits._diagnosis import Stated
from dptheory.training.audits._findings import FALSE_ALARM, Finding
from dptheory.training.audits._loop import ACCESSES, LoopAudit, audit
from dptheory.training.audits._released import Steps
from dptheory.training.audits._steps import StepAudit, step_audits
from dptheory.training.audits._suite import quick, report, thorough

__all__ = [
    "ACCESSES",
    "FALSE_ALARM",
    "Finding",
    "LoopAudit",
    "Stated",
    "StepAudit",
    "Steps",
    "audit",
    "quick",
    "report",
    "step_audits",
    "thorough",
]
