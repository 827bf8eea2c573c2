"""One torch thread: the batches here are small, and waiting threads cost more than they bring on busy machines."""

import signal
from collections.abc import Iterator

import pytest
import torch

from dptheory.training._streams import simulation
from tests.training.tiny import made_up_data

torch.set_num_threads(1)


@pytest.fixture
def small_data(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_data(monkeypatch)


@pytest.fixture
def simulated() -> Iterator[None]:
    """As in a run or a validation: a stream says its seed, and noise comes from the generator itself."""
    with simulation():
        yield


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM as at a terminal, also for child processes: a background job ignores the first; both may be blocked."""
    both = (signal.SIGINT, signal.SIGTERM)
    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, signal.SIG_DFL)
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    for handled, handler in zip(both, before, strict=True):
        signal.signal(handled, handler)
