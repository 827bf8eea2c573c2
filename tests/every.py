"""One test of many small things, that says of which it fails: an item each would cost more than what it tests."""

from collections.abc import Callable, Collection
from typing import Any

import pytest


def every(things: Collection[Any]) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Make a test of one thing a test of all: it fails with the names of those that fail, and where there are none."""

    def decorate(holds: Callable[[Any], None]) -> Callable[[], None]:
        def test() -> None:
            failed: dict[str, str] = {}
            for thing in things:
                try:
                    holds(thing)
                except AssertionError as error:
                    failed[getattr(thing, "id", str(thing))] = str(error)
            if failed or not things:
                lines = (f"{name}: {error}" for name, error in failed.items())
                pytest.fail("\n".join((f"fails for {len(failed)} of {len(things)}", *lines)))

        test.__name__, test.__qualname__, test.__doc__ = holds.__name__, holds.__qualname__, holds.__doc__
        test.__module__ = holds.__module__
        return test

    return decorate
