"""Signals, angles and status of layer freezing, by hand."""

import math

import pytest
import torch

from dptheory.training.measure import _signals
from dptheory.training.measure._view import View
from tests.refused import refused
from tests.training.measure.looked_at import invented

LAYERS = {"first": slice(0, 1), "last": slice(1, 3)}


def looked_at(gradients: list[list[float]], sigma: float = 0.0, kept: list[bool] | None = None) -> View:
    everything = torch.tensor(kept or [True, True, True])
    view = invented(torch.tensor(gradients), clip=1.0, sigma=sigma, batch=2, layers=LAYERS, kept=everything)
    view.without_first = lambda count: torch.tensor([False, True, True])  # type: ignore[method-assign]
    return view


def test_signal_of_each_layer() -> None:
    found = _signals.signals(looked_at([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]]), 4, 1)
    assert found["layers"] == ["first", "last"]
    as_it_is, frozen = found["as_it_is"], found["if_frozen"]
    assert as_it_is["signal"] == pytest.approx([0.3, math.hypot(0.4, 0.5)])
    assert as_it_is["clipping_angle"] == pytest.approx([0.0, math.atan2(1, 4 / 5) - math.atan2(1, 4)])
    assert as_it_is["noise_angle"] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert frozen["signal"][0] is None and frozen["signal"][1] == pytest.approx(math.hypot(0.5, 0.5))
    assert frozen["clipping_angle"] == [None, pytest.approx(math.pi / 4 - math.atan2(1, 4))]
    noisy = _signals.signals(looked_at([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]], sigma=1e6), 4000, 1)["as_it_is"]
    assert noisy["noise_angle"] == pytest.approx(
        [math.pi / 2, math.pi / 2], abs=0.05
    )  # half of the draws turn it around


def test_norms_of_noise_and_batch_gradient() -> None:
    """Clipped to (.6, .8, 0), (0, 0, 1) and (0, 0, .5): mean (.2, .8 / 3, .5), mean square .75; batches of two."""
    found = _signals.noise(looked_at([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.5]], sigma=4.0))
    mean_square = 0.04 + 0.64 / 9 + 0.25
    spread = (0.75 - mean_square) * 1.5
    assert found["dim"] == 3 and found["noise_norm"] == pytest.approx(3**0.5 * 4.0 / 2)
    assert found["gradient_norm"] == pytest.approx(math.sqrt(0.75 - spread + spread / 2), rel=1e-6)
    alone = _signals.noise(looked_at([[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0]]))  # the estimate of |E|^2 is negative
    assert alone["gradient_norm"] == pytest.approx(1.0)
    with refused("examples", "2"):
        _signals.noise(looked_at([[3.0, 0.0, 0.0]]))


def test_sums_above_and_below_the_clip() -> None:
    view = looked_at([[2.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    vars(view)["true"] = torch.tensor([0.0, 1.0, 0.0])
    found = _signals.alignment(view)
    assert (found["clipped"], found["unclipped"]) == (2, 1)
    assert found["clipped_angle"] == pytest.approx(math.pi / 2)
    assert found["unclipped_angle"] == pytest.approx(math.pi / 4)
    vars(view)["gradients"] = view.gradients * 10
    del vars(view)["squares"]
    assert _signals.alignment(view)["unclipped_angle"] is None


def test_what_freezing_changes() -> None:
    view = looked_at([[3.0, 0.0, 0.5], [0.0, 2.0, 0.0], [0.0, 0.0, 0.4]])
    found = _signals.status(view, 1)
    assert (found["clipped_before"], found["clipped_after"], found["changed"], found["examples"]) == (2, 1, 1, 3)
    assert found["clipped_turn"] == pytest.approx(math.atan2(0.5, 2)) and found["unclipped_turn"] == pytest.approx(
        0.0, abs=1e-6
    )
