"""An image is found from its gradient, and not from a gradient of which a mask has left next to nothing."""

import pytest
import torch

from dptheory.training.measure import _inversion
from tests.training.measure.looked_at import run_after, view_of

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")


def test_reconstruction(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(run_after(0, monkeypatch, inputs="unit"), 2)
    found = _inversion.inversion(view, 2, [0.999], 0.0, 30, 0.0)
    exact, masked = found["mse"]
    assert exact < 0.075 < 0.12 < masked and found["drop_rates"] == [0.999]
    torch.testing.assert_close(view.run.test.pixels, tiny_pixels())


def tiny_pixels() -> torch.Tensor:
    from tests.training.tiny import tiny_load

    return tiny_load("excerpt", train=False).pixels
