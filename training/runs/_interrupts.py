"""Ctrl-C and SIGTERM wait for the step under way."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from dptheory.training import engine


@contextmanager
def interrupts_between_steps() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C and SIGTERM back until the step under way is done; a second one comes through at once, as KeyboardInterrupt.

    With more processes it does not: all of them must stop after the same step, and torchrun itself sends a second signal.
    A signal that was ignored when the run began, as Ctrl-C is in a background job, stays ignored.

    Yields:
        A function that says whether there was one, in any process; every process must call it equally often.
    """
    asked: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        if asked and not engine.active():
            signal.default_int_handler(signum, frame)
        asked.append(signum)

    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread alone
        yield lambda: False
        return
    found = {handled: signal.getsignal(handled) for handled in (signal.SIGINT, signal.SIGTERM)}
    before = {handled: handler for handled, handler in found.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for handled in before:
            signal.signal(handled, note)
        yield lambda: engine.summed(len(asked), engine.communicating()) > 0
    finally:
        for handled, handler in before.items():
            signal.signal(handled, handler)
