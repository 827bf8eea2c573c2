"""What keeps a call with bad values from taking the machine with it."""

import faulthandler
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_MEMORY = 3 * 2**30
_STUCK = 300.0  # seconds: only a call that C code never returns from


@contextmanager
def limits() -> Iterator[None]:
    """Memory that asks for the impossible fails at once; a call stuck in C code ends the process with its traceback."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY if hard < 0 else min(hard, _MOST_MEMORY), hard))
    faulthandler.dump_traceback_later(_STUCK, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
