"""Index pruning: how many entries each group keeps, the ends of the random draw, and the step that a run resumes at."""

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dptheory import pruning
from dptheory.training import mechanisms as m
from dptheory.training.engine import attach
from dptheory.training.mechanisms._index_pruning import sample_subsets
from tests.refused import refused

CLIP = 1.3


def quiet(like: torch.Tensor, std: float) -> torch.Tensor:
    return torch.zeros_like(like)


def kept(mechanism: m.Mechanism, total: torch.Tensor) -> list[bool]:
    mechanism.begin_step([total])
    mechanism.release([total], noise_multiplier=0.0, clip_norm=CLIP, noise=quiet)
    return mechanism.mask.tolist()


@pytest.mark.parametrize(("rate", "entries"), [(0.0, 1), (0.04, 1), (0.16, 2), (0.5, 5), (0.94, 9), (1.0, 9)])
def test_a_group_keeps_one_entry_at_least_and_never_all(rate: float, entries: int) -> None:
    """Of ten; a choice of none or of all would be no choice."""
    mechanism = m.IndexPruning(math.inf, m.Constant(rate), group_size=10)
    assert sum(kept(mechanism, torch.arange(1.0, 21.0))) == 2 * entries
    assert mechanism.cost(1.0).selection == (2, pruning.SubsetMallows(10, entries, theta=math.inf))


@pytest.mark.parametrize(
    "make", [lambda: m.IndexPruning(math.inf, m.Constant(0.0)), lambda: m.NoisyMagnitudeTopK(1.0, m.Constant(0.0))]
)
def test_groups_have_256_entries_as_in_the_paper(make) -> None:
    assert sum(kept(make(), torch.arange(256.0))) == 1
    assert sum(kept(make(), torch.arange(257.0))) == 2


def test_a_model_smaller_than_a_group_is_one_group() -> None:
    mechanism = m.IndexPruning(math.inf, m.Constant(0.5), group_size=256)
    assert kept(mechanism, torch.tensor([1.0, 9.0, 5.0, 2.0])) == [False, True, True, False]
    with refused("number of trainable entries", "2", "1"):
        mechanism.begin_step([torch.ones(1)])


@pytest.mark.parametrize("theta", [math.inf, 3.0, 0.0])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_the_ends_of_the_uniform_draw_are_swaps_that_can_happen(theta: float, value: float) -> None:
    """A normal number above 8.3 has the distribution function 1: at infinite theta nothing is swapped all the same."""
    model = pruning.SubsetMallows(9, 4, theta=theta)
    reference = (torch.arange(9) < 4).expand(3, 9)
    drawn = sample_subsets(reference, model, lambda like: torch.full(like.shape, value, dtype=like.dtype))
    swaps = (reference & ~drawn).sum(1).tolist()
    possible = [count for count, chance in enumerate(model.swap_pmf()) if chance > 0]
    assert (drawn.sum(1) == 4).all()
    assert swaps == [possible[-1] if value else possible[0]] * 3 if theta != 3.0 else swaps[0] in possible


def test_chances_that_do_not_quite_add_up_to_one_are_scaled() -> None:
    """Here they add up to three quarters: two thirds of the draws swap nothing."""
    law = SimpleNamespace(swap_pmf=lambda: np.array([0.5, 0.25]), keep=1, dim=2, max_swaps=1)
    reference = torch.tensor([[True, False]])
    for value, swapped in ((0.6, False), (0.65, False), (0.68, True), (1.0, True)):
        drawn = sample_subsets(
            reference, law, lambda like, value=value: torch.full(like.shape, value, dtype=like.dtype)
        )
        assert drawn.tolist() == [[not swapped, swapped]]


def test_noise_on_magnitudes_lifts_an_entry() -> None:
    """What the choice ranks by is the magnitude plus the noise; what leaves is the entry with its own noise."""
    total = torch.tensor([1.0, -2.0, 3.0, -4.0])
    mechanism = m.NoisyMagnitudeTopK(2.0, m.Constant(0.25), group_size=4)
    mechanism.begin_step([total])
    lift = torch.tensor([4.0, 0.0, 0.0, 0.0])
    (released,) = mechanism.release([total], noise_multiplier=0.5, clip_norm=CLIP, noise=lambda like, std: std * lift)
    torch.testing.assert_close(released, torch.tensor([1.0 + 4 * 0.5 * CLIP, 0.0, 0.0, 0.0]))


def test_theta_may_depend_on_group_entries_kept_and_groups() -> None:
    asked = []
    mechanism = m.IndexPruning(lambda *given: asked.append(given) or 0.5, m.Constant(0.3), group_size=10)
    mechanism.begin_step([torch.zeros(25)])
    assert mechanism.cost(1.0).selection == (3, pruning.SubsetMallows(10, 3, theta=0.5)) and asked == [(10, 3, 3)]


def test_a_resumed_run_goes_on_with_its_schedule() -> None:
    schedule = m.Linear(start=0.2, end=0.8, steps=4)
    first = m.IndexPruning(math.inf, schedule, group_size=10)
    for _ in range(2):
        kept(first, torch.arange(10.0))
        first.end_step([torch.zeros(10)], 0.0)
    assert first.state_dict() == {"step": 2}
    again = m.IndexPruning(math.inf, schedule, group_size=10)
    again.load_state_dict(first.state_dict())
    assert sum(kept(again, torch.arange(10.0))) == round(10 * schedule(2)) == 6


def test_every_step_costs_what_its_own_share_does() -> None:
    """Of a share that moves from all but one of ten to two, as the optimizer records it; another one at each of five steps."""
    model = torch.nn.Linear(20, 1, bias=False)
    private, optimizer = attach(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        mechanism=m.IndexPruning(0.3, m.Linear(start=1.0, end=0.2, steps=5), group_size=10),
        sampling_rate=0.5,
        expected_batch_size=2.0,
        noise_multiplier=1.5,
        max_grad_norm=CLIP,
    )
    recorded = []
    for _ in range(5):
        before = Counter(optimizer.accountant._spent)
        optimizer.begin_batch(2)
        optimizer.zero_grad()
        private(torch.ones(2, 20)).mean().backward()
        optimizer.step()
        (new,) = optimizer.accountant._spent - before
        recorded.append((new.noise_multiplier, new.selection))
    keeps = (9, 8, 6, 4, 2)  # of ten: 1, .8, .6, .4, .2 of them, and never all
    assert recorded == [(1.5, (2, pruning.SubsetMallows(10, keep, theta=0.3))) for keep in keeps]
