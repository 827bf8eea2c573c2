"""`dptheory demo`: one screen, what it says computed there and then."""

import io
import re

import pytest
from rich.console import Console

from dptheory.training import _demo_command
from dptheory.training.planning import Choice, Range


def _choice() -> Choice:
    return Choice(
        batch_size=500,
        epochs=20.0,
        steps=80,
        noise_multiplier=3.31,
        clip_norm=1.18,
        learning_rate=0.464,
        momentum=0.0,
        schedule="constant",
        average=0.0,
        num_examples=2000,
        epsilon=3.0,
        delta=1e-5,
        metric="accuracy",
        expected=Range(low=0.69, high=0.85),
    )


def test_one_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The print lies far from the simulation, the correction within its error, the leak is refused; no line is too long."""
    monkeypatch.setattr(_demo_command, "_planned", _choice)
    shown = io.StringIO()
    monkeypatch.setattr(_demo_command, "console_for_output", lambda: Console(file=shown, width=100))
    _demo_command.demo()
    lines = shown.getvalue().splitlines()
    assert len(lines) <= 45 and max(map(len, lines)) <= 100
    off = {
        name: float(re.search(rf"{name} .* ([\d.]+) standard errors", shown.getvalue())[1])
        for name in ("printed", "corrected")
    }  # type: ignore[index]
    assert off["corrected"] < 4 < 100 < off["printed"]
    assert "records must stay apart" in " ".join(shown.getvalue().split())
    assert "the leak was not seen" not in shown.getvalue()
