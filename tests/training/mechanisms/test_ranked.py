"""Ranked sparsification: what the ranking sums hold, what processes share, and that a resumed run goes on as it was."""

import math
from contextlib import nullcontext

import pytest
import torch

from dptheory.training import mechanisms as m
from dptheory.training._randomness import normal
from dptheory.training._streams import simulation
from dptheory.training.mechanisms import largest_entries
from tests.refused import refused

PARAMS = [torch.zeros(2, 3), torch.zeros(4)]
STD = 2.5


def released(step: int) -> list[torch.Tensor]:
    return [torch.randn(p.shape, generator=torch.Generator().manual_seed(10 * step + p.dim())) for p in PARAMS]


def taken(mechanism: m.RankedSparsification, steps: range) -> None:
    for step in steps:
        mechanism.begin_step(PARAMS)
        mechanism.end_step([r * mask for r, mask in zip(released(step), mechanism.mask, strict=True)], STD)


def test_ranking_sums_hold_releases_and_noise_where_nothing_left() -> None:
    """Two epochs of two steps, by hand; masked entries get noise of the release's own scale."""
    with simulation():  # where the seed alone makes the noise
        mechanism = m.RankedSparsification(m.Constant(0.4), steps_per_epoch=2, seed=7)
    taken(mechanism, range(2))
    generator = torch.Generator().manual_seed(7)
    for _ in range(2):
        for p in PARAMS:
            normal(p.shape, generator)  # drawn and unused: no entry is masked in the first epoch
    mask = largest_entries([a + b for a, b in zip(released(0), released(1), strict=True)], 0.4)
    assert all(torch.equal(a, b) for a, b in zip(mechanism.mask, mask, strict=True))
    taken(mechanism, range(2, 3))
    wanted = []
    for r, kept in zip(released(2), mask, strict=True):
        noise = normal(kept.shape, generator)
        wanted.append(torch.where(kept, r, STD * noise))
    for found, sums in zip(mechanism.state_dict()["sums"], wanted, strict=True):
        torch.testing.assert_close(found, sums)


@pytest.mark.parametrize("seed", [7, None])
@pytest.mark.parametrize("simulated", [False, True])
def test_a_resumed_run_goes_on_as_it_was(seed: int | None, simulated: bool) -> None:
    """With the sums and the mask that it had; with the noise of masked entries that it would have had in a simulation alone."""
    with simulation() if simulated else nullcontext():
        first, again = (m.RankedSparsification(m.Constant(0.4), steps_per_epoch=3, seed=seed) for _ in range(2))
    same = simulated and seed is not None
    taken(first, range(4))
    state = {name: [t.clone() for t in v] if isinstance(v, list) else v for name, v in first.state_dict().items()}
    assert state["step"] == 4 and (state["generator"] is not None) == same
    again.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(again.mask, first.mask, strict=True))
    taken(first, range(4, 5)), taken(again, range(4, 5))
    assert vars(again)["_step"] == 5
    sums = zip(again.state_dict()["sums"], first.state_dict()["sums"], strict=True)
    assert all(torch.equal(a, b) for a, b in sums) == same


def test_processes_share_sums_and_mask() -> None:
    seeded, secure = (
        m.RankedSparsification(m.Constant(0.4), steps_per_epoch=2, seed=7),
        m.RankedSparsification(m.Constant(0.4), steps_per_epoch=2, seed=None),
    )
    taken(seeded, range(1)), taken(secure, range(1))
    assert len(seeded.shared()) == len(secure.shared()) == 4  # a seed is not enough where one process was forked
    assert secure.shared()[0] is secure.state_dict()["sums"][0] and secure.shared()[2] is secure.mask[0]


def test_frozen_layers_begin_a_new_ranking() -> None:
    mechanism = m.RankedSparsification(m.Constant(0.4), steps_per_epoch=1, seed=7)
    taken(mechanism, range(1))
    assert not all(mask.all() for mask in mechanism.mask)
    mechanism.begin_step(PARAMS[1:])
    assert [mask.tolist() for mask in mechanism.mask] == [[True] * 4]


def test_the_schedule_is_asked_for_the_step_to_come() -> None:
    asked: list[int] = []
    mechanism = m.RankedSparsification(lambda step: asked.append(step) or 0.5, steps_per_epoch=2, seed=7)
    taken(mechanism, range(4))
    assert asked == [0, 2, 4]  # 0: on building


def test_ranked_by_true_gradients_takes_the_sums_before_noise_and_protects_nothing() -> None:
    mechanism = m.RankedByTrueGradients(m.Constant(0.5), steps_per_epoch=1, seed=7)
    mechanism.begin_step([torch.zeros(4)])
    total = [torch.tensor([1.0, -9.0, 3.0, 0.0])]
    out = mechanism.release(
        total, noise_multiplier=1.0, clip_norm=1.0, noise=lambda like, std: std * torch.tensor([50.0, 0.0, 0.0, 60.0])
    )
    torch.testing.assert_close(out[0], torch.tensor([51.0, -9.0, 3.0, 60.0]))
    mechanism.end_step(out, 1.0)
    assert mechanism.mask[0].tolist() == [False, True, True, False]
    assert mechanism.cost(5.0).noise_multiplier == 0.0


@pytest.mark.parametrize(("rate", "entries"), [(0.0, 4), (0.3, 3), (0.5, 2), (0.8, 1)])
def test_the_share_of_entries_that_is_kept(rate: float, entries: int) -> None:
    assert int(largest_entries([torch.tensor([3.0, -4.0, 1.0, 2.0])], rate)[0].sum()) == entries


def test_rates_that_keep_nothing_or_are_none() -> None:
    with refused("drop_rate", "4", "0.9"):
        largest_entries([torch.ones(4)], 0.9)
    for rate in (-0.1, 1.0, math.nan):
        with refused("drop_rate"):
            largest_entries([torch.ones(4)], rate)
