"""Second opinions: the accountants of prv-accountant and dp-accounting. Nothing that the library reports comes from here."""

from dptheory.privacy.methods.references._cross_check import CrossCheck, cross_check
from dptheory.privacy.methods.references._fixed_size_rdp import fixed_size_rdp_epsilon
from dptheory.privacy.methods.references._index_prv import IndexPRV

__all__ = ["CrossCheck", "IndexPRV", "cross_check", "fixed_size_rdp_epsilon"]
