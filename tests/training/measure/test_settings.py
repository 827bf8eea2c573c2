"""The settings that a validation has where nobody says otherwise: the same from Python and from the command line."""

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from dptheory.cli import app
from dptheory.training.measure import ValidateSettings
from dptheory.training.runs import DpSgdSettings

TRAINING = DpSgdSettings(steps=60, batch_size=250, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=2.0, seed=0)


def test_defaults_are_those_of_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    def validate(*given: Any) -> None:
        asked.extend(given)
        raise ValueError("enough")

    monkeypatch.setattr("dptheory.training.measure.validate", validate)
    CliRunner().invoke(app, ["validate", "--device", "cpu", "--out", str(tmp_path)])
    assert asked == ["excerpt", ValidateSettings(TRAINING), torch.device("cpu")]
    written = ValidateSettings(
        TRAINING, drop_rate=0.5, keep_shares=(0.01, 0.1, 0.5), subspace_dims=(10, 50, 100), pool=300, anchors=256, window=10,
        draws=50,
    )  # fmt: skip
    assert ValidateSettings(TRAINING) == written
