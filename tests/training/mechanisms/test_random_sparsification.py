"""Random masks: how many entries they keep, how long they last, and that a resumed simulation alone has the same ones."""

from contextlib import nullcontext

import pytest
import torch

from dptheory.privacy import FreshMask
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from dptheory.training.mechanisms import draw_mask
from tests.refused import refused

PARAMS = [torch.zeros(20, 5), torch.zeros(7)]


def masks(mechanism: m.Mechanism, steps: int) -> list[torch.Tensor]:
    found = []
    for _ in range(steps):
        mechanism.begin_step(PARAMS)
        found.append(torch.cat([mask.flatten() for mask in mechanism.mask]))
        mechanism.end_step(PARAMS, 0.0)
    return found


@pytest.mark.parametrize("kind", [m.RandomSparsification, m.PosteriorFreeze])
@pytest.mark.parametrize("refresh", [1, 3])
@pytest.mark.parametrize("simulated", [False, True])
def test_a_resumed_simulation_alone_has_the_same_masks(kind: type, refresh: int, simulated: bool) -> None:
    """Also not the one under way: it is drawn anew, and then held."""
    with simulation() if simulated else nullcontext():
        first, again = (kind(m.Constant(0.5), 3, refresh_steps=refresh) for _ in range(2))
    masks(first, 4)
    again.load_state_dict(first.state_dict())
    found = masks(again, 3)
    for a, b in zip(masks(first, 3), found, strict=True):
        assert torch.equal(a, b) == simulated
    assert torch.equal(found[0], found[1]) == (refresh == 3) and not torch.equal(found[1], found[2])


@pytest.mark.parametrize(("rate", "kept"), [(0.0, 107), (0.25, 80), (0.5, 54), (0.99, 1)])
def test_a_mask_keeps_the_stated_share(rate: float, kept: int) -> None:
    found = draw_mask(PARAMS, rate, torch.Generator().manual_seed(0))
    assert [mask.shape for mask in found] == [p.shape for p in PARAMS]
    assert sum(int(mask.sum()) for mask in found) == kept


def test_a_rate_that_keeps_nothing_is_refused_with_the_largest_that_does() -> None:
    with refused("drop_rate", "107", "0.999", "0.990"):
        draw_mask(PARAMS, 0.999, None)
    for rate in (-0.1, 1.0):
        with refused("drop_rate", "0", "1"):
            draw_mask(PARAMS, rate, None)


def test_what_a_fresh_secret_mask_costs() -> None:
    """Nobody can tell it before it is used: it amplifies, unless it has a seed or is used again."""
    fresh, again, seeded = (
        m.PosteriorFreeze(m.Constant(0.25), seed, refresh_steps=refresh)
        for seed, refresh in ((None, 1), (None, 2), (3, 1))
    )
    for mechanism in (fresh, again, seeded):
        mechanism.begin_step(PARAMS)
    mask = FreshMask(dim=107, keep=80)
    assert fresh.cost(1.5) == m.StepCost(1.5, mask=mask)
    assert again.cost(1.5) == m.StepCost(1.5)
    assert seeded.cost(1.5) == m.StepCost(1.5, seeded_mask=mask)


def test_other_parameters_get_a_new_mask() -> None:
    mechanism = m.RandomSparsification(m.Constant(0.5), 3, refresh_steps=10)
    masks(mechanism, 1)
    mechanism.begin_step(PARAMS[:1])
    assert [mask.shape for mask in mechanism.mask] == [(20, 5)] and int(mechanism.mask[0].sum()) == 50


@pytest.mark.parametrize("kind", [m.RandomSparsification, m.PosteriorFreeze])
def test_masks_are_drawn_at_every_step_where_nobody_says_otherwise(kind: type) -> None:
    found = masks(kind(m.Constant(0.5), 3), 3)
    assert not torch.equal(found[0], found[1]) and not torch.equal(found[1], found[2])


def test_processes_share_a_mask() -> None:
    seeded, secure = m.RandomSparsification(m.Constant(0.5), 3), m.RandomSparsification(m.Constant(0.5), None)
    masks(seeded, 1), masks(secure, 1)
    assert (
        seeded.shared() is seeded.mask and secure.shared() is secure.mask
    )  # a seed is not enough where one process was forked


@pytest.mark.parametrize("kind", [m.RandomSparsification, m.PosteriorFreeze])
def test_noise_falls_where_the_sum_is_released(kind: type) -> None:
    """Behind the mask of the step itself."""
    mechanism = kind(m.Constant(0.5), 3)
    mechanism.begin_step([torch.zeros(40)])
    (mask,) = mechanism.mask
    (released,) = mechanism.release([mask * 2.0], noise_multiplier=3.0, clip_norm=0.5, noise=torch.full_like)
    assert torch.equal(released, mask * 3.5) and int(mask.sum()) == 20


def test_every_fresh_mask_costs_what_it_keeps() -> None:
    """Of a rate that moves, from .8 to nothing dropped."""
    mechanism = m.PosteriorFreeze(m.Linear(start=0.8, end=0.0, steps=5), None)
    costs = []
    for _ in range(5):
        mechanism.begin_step([torch.zeros(40)])
        costs.append(mechanism.cost(1.5))
        mechanism.end_step([torch.zeros(40)], 1.0)
    assert costs == [m.StepCost(1.5, mask=FreshMask(dim=40, keep=keep)) for keep in (8, 16, 24, 32, 40)]
