"""Other people's accountants beside our bounds: which of them are valid, how loose, and where one is too small."""

from dptheory.privacy.referee._compare import ROUNDING as ROUNDING
from dptheory.privacy.referee._compare import Answer, Comparison, Finding, compare, draw, search
from dptheory.privacy.referee._processes import Outcome as Outcome
from dptheory.privacy.referee._processes import Worker as Worker
from dptheory.privacy.referee._tools import TOOLS as TOOLS
from dptheory.privacy.referee._tools import Setting
from dptheory.privacy.referee._tools import installed as installed
from dptheory.privacy.referee._tools import versions as versions
from dptheory.privacy.referee._tools import warm_up as warm_up

__all__ = ["Answer", "Comparison", "Finding", "Setting", "compare", "draw", "search"]
