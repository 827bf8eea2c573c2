"""Stable ranks and projection errors of matrices whose spectrum is known."""

import pytest
import torch

from dptheory.training.data import Images
from dptheory.training.measure import _subspaces
from tests.training.measure.looked_at import invented


def test_stable_rank() -> None:
    assert _subspaces.stable_rank(torch.diag(torch.tensor([2.0, 1.0, 1.0]))) == pytest.approx(6 / 4)
    assert _subspaces.stable_rank(torch.ones(5, 3)) == pytest.approx(1.0)
    view = invented(torch.eye(6), clip=1.0, layers={"one": slice(0, 4), "two": slice(4, 6)})
    assert _subspaces.spectrum(view, 4)["rank"] == pytest.approx(
        {"all": 4.0, "one": 4.0, "two": float("nan")}, nan_ok=True
    )


def test_projection_errors_and_residuals(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = torch.zeros(40, 50)
    gradients[:, 0], gradients[:20, 1], gradients[20:, 2] = (
        3.0,
        1.0,
        1.0,
    )  # mean (3, .5, .5): the anchors see the first two
    anchors = torch.zeros(10, 50)
    anchors[:, 0], anchors[5:, 1] = 1.0, 1.0
    view = invented(gradients, clip=1.0, model=None)
    view.test = lambda first, last: Images("x", torch.zeros(0), torch.zeros(0))  # type: ignore[method-assign]
    monkeypatch.setattr(_subspaces, "gradients_of", lambda model, images: anchors)
    monkeypatch.setattr(_subspaces, "_other", lambda view, count, name: anchors[:5])
    found = _subspaces.projection(view, [1], 10, "x")["error"]
    whole = 9.5**0.5
    assert found["other"] == pytest.approx([0.5**0.5 / whole], abs=1e-4) and found["same"][0] > 0.5 / whole
    assert _subspaces.projection(view, [2], 10, "x")["error"]["random"][0] == pytest.approx(
        (1 - 2 / 50) ** 0.5, abs=0.05
    )
    rest = _subspaces.residuals(view, 1, 10, "x", 40)
    assert rest["residual"] == pytest.approx(2.0, abs=1e-3) and rest["original"] < 1.2
