"""Scattering coefficients are computed once for the same images, and are the same from the file."""

from pathlib import Path

import pytest
import torch

from dptheory.training.networks import scattering_features
from dptheory.training.runs import _features

PIXELS = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of images whose coefficients were computed; five images are enough to keep."""
    found: list[int] = []
    monkeypatch.setenv("DPTHEORY_DATA", str(tmp_path))
    monkeypatch.setattr(_features, "_LEAST", 5)
    monkeypatch.setattr(
        _features, "scattering_features", lambda pixels: found.append(len(pixels)) or scattering_features(pixels)
    )
    return found


def test_the_same_images_are_computed_once(asked: list[int], tmp_path: Path) -> None:
    wanted = scattering_features(PIXELS)
    for _ in range(3):
        assert torch.equal(_features.kept_features(PIXELS), wanted)
    assert asked == [6] and {path.name for path in tmp_path.iterdir()} == {"scattering"}
    other = PIXELS.clone()
    other[5, 2, 31, 31] += 1e-3
    assert not torch.equal(_features.kept_features(other), wanted) and asked == [6, 6]
    kept = _features.kept_features(PIXELS)
    kept[0] = 0.0  # of this process alone
    assert torch.equal(_features.kept_features(PIXELS), wanted) and asked == [6, 6]


def test_few_images_are_not_kept(asked: list[int], tmp_path: Path) -> None:
    for _ in range(2):
        assert torch.equal(_features.kept_features(PIXELS[:4]), scattering_features(PIXELS[:4]))
    assert asked == [4, 4] and list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPTHEORY_DATA", str(tmp_path / "file"))
    assert torch.equal(_features.kept_features(PIXELS), scattering_features(PIXELS)) and asked == [6]


def test_a_folder_that_cannot_be_written(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_features.os, "access", lambda *given: False)
    for _ in range(2):
        _features.kept_features(PIXELS)
    assert asked == [6, 6]
