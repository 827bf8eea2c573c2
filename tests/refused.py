"""A refusal is told by its type, its argument, and the numbers and names that its message shows; the words are free."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dptheory.errors import ArgumentError


@contextmanager
def refused(
    argument: str, *shown: object, kind: type[Exception] = ArgumentError
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """What runs inside is to raise ``kind`` about ``argument``, with a message that shows each of ``shown``."""
    with pytest.raises(kind) as found:
        yield found
    assert found.value.argument == argument  # type: ignore[attr-defined]
    missing = [one for one in shown if str(one) not in str(found.value)]
    assert not missing, f"{missing} not in {found.value}"
