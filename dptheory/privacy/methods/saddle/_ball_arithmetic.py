"""The way to the enclosures: the module that needs python-flint, and what it refuses as errors that name the argument."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from dptheory.privacy.methods.saddle._moments import Unresolved


@contextmanager
def enclosures() -> Iterator[ModuleType]:
    """The module that computes in ball arithmetic.

    Raises:
        ValueError: python-flint is not there, or what is asked for is outside the range of the method.
    """
    try:
        from dptheory.privacy.methods.saddle import _enclosure as module
    except ModuleNotFoundError as missing:
        if missing.name != "flint":
            raise
        raise ValueError("certified must be False without python-flint: pip install 'dptheory[certified]'") from None
    try:
        yield module
    except Unresolved as refused:
        raise ValueError(f"certified must be False here: {refused}") from None
