"""What leaves a step: the total plus the noise that was drawn at the stated scale, masked where there is a mask."""

import math

import pytest
import torch

from dptheory.training import mechanisms as m

CLIP, SIGMA = 1.3, 0.7
HALF = m.Constant(0.5)
TOTAL = [torch.tensor([[1.0, -2.0], [3.0, 4.0]]), torch.tensor([5.0, -6.0, 7.0])]


def marked(like: torch.Tensor, std: float) -> torch.Tensor:
    """Every entry one standard deviation up: shows sign and scale of the noise."""
    return torch.full_like(like, std)


@pytest.mark.parametrize(
    "mechanism",
    [
        m.DpSgd(),
        m.RandomSparsification(HALF, 0),
        m.PosteriorFreeze(HALF, None),
        m.RankedSparsification(HALF, steps_per_epoch=1, seed=0),
    ],
    ids=lambda one: one.title,
)
def test_the_release_is_the_total_plus_the_noise(mechanism: m.Mechanism) -> None:
    mechanism.begin_step(TOTAL)
    mechanism.end_step([torch.ones_like(t) for t in TOTAL], 0.0)  # after it the ranked mechanism has a mask of its own
    masks = getattr(mechanism, "mask", [torch.ones_like(t) for t in TOTAL])
    for t, mask, released in zip(
        TOTAL, masks, mechanism.release(TOTAL, noise_multiplier=SIGMA, clip_norm=CLIP, noise=marked), strict=True
    ):
        torch.testing.assert_close(released, (t + SIGMA * CLIP) * mask)
    if hasattr(mechanism, "mask"):
        assert sum(int(mask.sum()) for mask in masks) == 4  # of 7


def test_a_mechanism_without_state_takes_none() -> None:
    assert m.DpSgd().state_dict() == {}
    m.DpSgd().load_state_dict({})
    with pytest.raises(ValueError, match="state must be empty for DP-SGD"):
        m.DpSgd().load_state_dict({"step": 1})


def test_noise_of_a_step_is_a_number() -> None:
    assert m.StepCost(0.0).noise_multiplier == 0.0 and m.StepCost(math.inf).noise_multiplier == math.inf
    for bad in (-1e-300, math.nan):
        with pytest.raises(ValueError, match="noise_multiplier must"):
            m.StepCost(bad)


def test_top_k_without_noise_adds_noise_to_what_it_keeps() -> None:
    mechanism = m.TopKWithoutNoise(0.5)
    found = mechanism.release(TOTAL, noise_multiplier=SIGMA, clip_norm=CLIP, noise=marked)
    wanted = [torch.tensor([[0.0, 0.0], [0.0, 4.0]]), torch.tensor([5.0, -6.0, 7.0])]
    for one, kept in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, torch.where(kept != 0, kept + SIGMA * CLIP, 0.0))
    assert mechanism.cost(SIGMA).noise_multiplier == 0.0
