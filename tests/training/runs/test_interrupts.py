"""Signals between the steps of a run: held back, noted, and handed back to whoever had them before."""

import signal
import threading

import pytest

from dptheory.training.runs._interrupts import engine, interrupts_between_steps


@pytest.mark.usefixtures("usual_signals")
def test_a_second_interruption_comes_through_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_between_steps() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("usual_signals")
def test_a_background_job_goes_on_through_the_control_c_that_it_ignores() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_between_steps() as interrupted:
        signal.raise_signal(signal.SIGINT)
        assert not interrupted()
        signal.raise_signal(signal.SIGTERM)
        assert interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_signals_are_those_of_before_and_other_threads_get_none() -> None:
    said: list[bool] = []

    def elsewhere() -> None:
        with interrupts_between_steps() as interrupted:
            said.append(interrupted())

    found = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert said == [False] and (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == found


@pytest.mark.usefixtures("usual_signals")
def test_of_several_processes_none_stops_at_a_second_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    with interrupts_between_steps() as interrupted:
        monkeypatch.setattr(engine, "active", lambda: True)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        monkeypatch.undo()
        assert interrupted()
