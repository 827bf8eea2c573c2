"""What leaves a step: the total plus the noise that was drawn at the stated scale, masked where there is a mask."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from dptheory.training import mechanisms as m
from dptheory.training.engine import secure_noise
from dptheory.training.mechanisms._base import noised
from tests.refused import refused

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
    with refused("state"):
        m.DpSgd().load_state_dict({"step": 1})


def test_noise_of_a_step_is_a_number() -> None:
    assert m.StepCost(0.0).noise_multiplier == 0.0 and m.StepCost(math.inf).noise_multiplier == math.inf
    for bad in (-1e-300, math.nan):
        with refused("noise_multiplier"):
            m.StepCost(bad)


def test_top_k_without_noise_adds_noise_to_what_it_keeps() -> None:
    mechanism = m.TopKWithoutNoise(0.5)
    found = mechanism.release(TOTAL, noise_multiplier=SIGMA, clip_norm=CLIP, noise=marked)
    wanted = [torch.tensor([[0.0, 0.0], [0.0, 4.0]]), torch.tensor([5.0, -6.0, 7.0])]
    for one, kept in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, torch.where(kept != 0, kept + SIGMA * CLIP, 0.0))
    assert mechanism.cost(SIGMA).noise_multiplier == 0.0


SHAPES = [(3, 4), (5,), (), (0, 2), (2, 2, 2)]


def test_noise_in_one_draw_is_cut_into_pieces_of_its_own() -> None:
    """Every entry gets another number, in the order of the tensors; the sums stay as they are."""
    calls = []

    def noise(like: torch.Tensor, std: float) -> torch.Tensor:
        calls.append((tuple(like.shape), std))
        return torch.arange(1.0, like.numel() + 1).view(like.shape) * std

    noise.in_one_draw = True  # type: ignore[attr-defined]
    total = [torch.full(shape, 100.0) for shape in SHAPES]
    found = m.DpSgd().release(total, noise_multiplier=2.0, clip_norm=3.0, noise=noise)
    assert calls == [((26,), 6.0)] and [one.shape for one in found] == [t.shape for t in total]
    assert torch.cat([one.flatten() for one in found]).tolist() == [100.0 + 6.0 * n for n in range(1, 27)]
    assert all((t == 100.0).all() for t in total)
    del calls[:], noise.in_one_draw
    m.DpSgd().release(total, noise_multiplier=2.0, clip_norm=3.0, noise=noise)
    assert [shape for shape, _ in calls] == SHAPES


def test_tensors_of_two_types_share_no_draw() -> None:
    found = noised([torch.zeros(2), torch.zeros(3, dtype=torch.float64)], 1.0, secure_noise)
    assert [one.dtype for one in found] == [torch.float32, torch.float64] and all((one != 0).all() for one in found)


@pytest.mark.parametrize(
    "mechanism",
    [m.RandomSparsification(HALF, None), m.RankedSparsification(HALF, steps_per_epoch=3, seed=None)],
    ids=lambda one: one.title,
)
def test_secure_noise_of_all_tensors_is_independent(mechanism) -> None:
    total = [torch.zeros(40, 50), torch.zeros(1000), torch.zeros(2000)]
    mechanism.begin_step(total)
    found = mechanism.release(total, noise_multiplier=2.0, clip_norm=3.0, noise=secure_noise)
    numbers = (
        torch.cat([one[kept.bool()] for one, kept in zip(found, mechanism.mask, strict=True)]).double().numpy() / 6.0
    )
    # of 5,000 normal numbers in float32 two agree by chance in .2 of a pair on average; six pairs with probability below 1e-7
    assert len(numbers) >= 2500 and len(np.unique(numbers)) > len(numbers) - 6
    assert kstest(numbers, "norm").pvalue > 1e-6
