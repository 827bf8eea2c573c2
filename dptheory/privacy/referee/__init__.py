"""Other people's accountants beside our bounds: which of them are valid, how loose, and where one is too small."""

from dptheory.privacy.referee._compare import Answer, Comparison, Finding, compare, draw, search
from dptheory.privacy.referee._tools import Setting

__all__ = ["Answer", "Comparison", "Finding", "Setting", "compare", "draw", "search"]
