"""Masks: random, ranked, pruned, frozen, and what the studies leave out."""

import contextlib
import math
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from opacus import GradSampleModule
from torch import nn

from dptheory import privacy, pruning
from dptheory.privacy import FreshMask
from dptheory.training import mechanisms as m
from dptheory.training import runs as runs
from dptheory.training._randomness import normal
from dptheory.training._streams import simulation
from dptheory.training.engine import BudgetError, PrivacyAccountant
from dptheory.training.mechanisms import StepCost, draw_mask, largest_entries
from dptheory.training.mechanisms._index_pruning import sample_subsets
from dptheory.training.mechanisms._layer_freezing import first_parameters, layers
from dptheory.training.runs import RunConfig, from_dict, prepare
from dptheory.training.runs._train import one_step
from dptheory.training.studies import Study, read_study
from tests.refused import refused
from tests.training import sgd
from tests.training.tiny import TRAIN, tiny_config

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG"),
    pytest.mark.usefixtures("small_data"),
]

# Random masks: how many entries they keep, how long they last, and that a resumed simulation alone has the same ones


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
    for choose in (lambda rate: draw_mask(PARAMS, rate, None), lambda rate: largest_entries([torch.ones(4)], rate)):
        for rate in (-0.1, 1.0, math.nan, 0.9999):
            with refused("drop_rate"):
                choose(rate)


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


def test_every_fresh_mask_costs_what_it_keeps() -> None:
    """Of a rate that moves, from .8 to nothing dropped."""
    mechanism = m.PosteriorFreeze(m.Linear(start=0.8, end=0.0, steps=5), None)
    costs = []
    for _ in range(5):
        mechanism.begin_step([torch.zeros(40)])
        costs.append(mechanism.cost(1.5))
        mechanism.end_step([torch.zeros(40)], 1.0)
    assert costs == [m.StepCost(1.5, mask=FreshMask(dim=40, keep=keep)) for keep in (8, 16, 24, 32, 40)]


# Ranked sparsification: what the ranking sums hold, what processes share, and that a resumed run goes on as it was


TENSORS = [torch.zeros(2, 3), torch.zeros(4)]
STD = 2.5


def released(step: int) -> list[torch.Tensor]:
    return [torch.randn(p.shape, generator=torch.Generator().manual_seed(10 * step + p.dim())) for p in TENSORS]


def taken(mechanism: m.RankedSparsification, steps: range) -> None:
    for step in steps:
        mechanism.begin_step(TENSORS)
        mechanism.end_step([r * mask for r, mask in zip(released(step), mechanism.mask, strict=True)], STD)


def test_ranking_sums_hold_releases_and_noise_where_nothing_left() -> None:
    """Two epochs of two steps, by hand; masked entries get noise of the release's own scale."""
    with simulation():  # where the seed alone makes the noise
        mechanism = m.RankedSparsification(m.Constant(0.4), steps_per_epoch=2, seed=7)
    taken(mechanism, range(2))
    generator = torch.Generator().manual_seed(7)
    for _ in range(2):
        for p in TENSORS:
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
    mechanism.begin_step(TENSORS[1:])
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


# Index pruning: how many entries each group keeps, the ends of the random draw, and the step that a run resumes at


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
    private, optimizer = sgd.attach(
        model, mechanism=m.IndexPruning(0.3, m.Linear(start=1.0, end=0.2, steps=5), group_size=10),
        sampling_rate=0.5, expected_batch_size=2.0, noise_multiplier=1.5, max_grad_norm=CLIP,
    )  # fmt: skip
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


# --- Layer freezing: which parameters are the first, from which step on, and after a resume ---


class Scaled(nn.Module):
    """Holds a parameter of its own beside a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * self.layer(x)


def test_a_layer_is_what_holds_parameters_of_its_own() -> None:
    model = Scaled()
    assert layers(model) == [model, model.layer]
    (own,) = first_parameters(model, 1)
    assert own is model.scale  # and not those of the layers within
    plain = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    assert layers(plain) == [plain[0], plain[2]]
    for count in (0, 2):
        with refused("count", "1..1"):
            first_parameters(plain, count)


def attached(from_step: int, inner: m.Mechanism | None = None) -> tuple[m.LayerFreezing, nn.Sequential]:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    mechanism = m.LayerFreezing(inner or m.DpSgd(), frozen_layers=1, from_step=from_step)
    mechanism.attach(GradSampleModule(model))
    return mechanism, model


def trained(model: nn.Sequential) -> list[bool]:
    return [p.requires_grad for p in model.parameters()]


@pytest.mark.parametrize("from_step", [0, 1, 2])
def test_layers_are_frozen_from_the_stated_step_on(from_step: int) -> None:
    mechanism, model = attached(from_step)
    for step in range(4):
        frozen = step >= from_step
        assert trained(model) == [not frozen] * 2 + [True] * 2
        mechanism.end_step([], 0.0)
    assert mechanism.state_dict() == {"step": 4, "inner": {}}


@pytest.mark.parametrize(("step", "frozen"), [(1, False), (2, True), (3, True)])
def test_a_resumed_run_has_its_layers_frozen(step: int, frozen: bool) -> None:
    mechanism, model = attached(2)
    mechanism.load_state_dict({"step": step, "inner": {}})
    assert trained(model) == [not frozen] * 2 + [True] * 2
    alone = m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=2)  # a state may come before the model does
    alone.load_state_dict({"step": step, "inner": {}})
    assert alone.state_dict()["step"] == step


def test_a_run_that_goes_back_trains_its_layers_again() -> None:
    """Before the step from which they are frozen; what was frozen by hand before the run stays so."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model[0].bias.requires_grad_(False)
    mechanism = m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=2)
    mechanism.attach(GradSampleModule(model))
    start = mechanism.state_dict()
    for _ in range(2):
        for _ in range(3):
            mechanism.end_step([], 0.0)
        assert trained(model) == [False, False, True, True]
        mechanism.load_state_dict(start)
        assert trained(model) == [True, False, True, True]


def test_a_state_that_comes_before_the_model_freezes_its_layers() -> None:
    mechanism, model = m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=2), nn.Sequential(*attached(9)[1])
    mechanism.load_state_dict({"step": 5, "inner": {}})
    mechanism.attach(GradSampleModule(model))
    assert trained(model) == [False, False, True, True]


def test_layers_by_their_numbers() -> None:
    """Of three layers the first and the last, at once and when resumed; and what is none of a model's choices."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    mechanism = m.LayerFreezing(m.DpSgd(), frozen_layers=[3, 1], from_step=1)
    mechanism.attach(GradSampleModule(model))
    assert trained(model) == [True] * 6
    mechanism.end_step([], 0.0)
    assert trained(model) == [False] * 2 + [True] * 2 + [False] * 2
    again = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    resumed = m.LayerFreezing(m.DpSgd(), frozen_layers=(3, 1), from_step=1)
    resumed.attach(GradSampleModule(again))
    resumed.load_state_dict(mechanism.state_dict())
    assert trained(again) == trained(model)
    for wrong in ([], [1, 1], [0], [1.5], "12", ["1"]):
        with refused("frozen_layers"):
            m.LayerFreezing(m.DpSgd(), frozen_layers=wrong, from_step=1)
    for wrong in ([4], [1, 2, 3], 3):
        with refused("frozen_layers"):
            m.LayerFreezing(m.DpSgd(), frozen_layers=wrong, from_step=1).attach(GradSampleModule(nn.Sequential(*model)))


def test_all_else_is_the_inner_mechanisms() -> None:
    inner = m.PosteriorFreeze(m.Constant(0.5), None)
    mechanism, _ = attached(5, inner)
    params = [torch.zeros(4)]
    mechanism.begin_step(params)
    assert mechanism.shared() is inner.mask and mechanism.cost(2.0) == inner.cost(2.0)
    found = mechanism.contribute([torch.ones(3, 4)], 1.0)
    assert float(found.total[0].max()) == pytest.approx(1.5)  # three times 1/2
    released = mechanism.release(
        found.total, noise_multiplier=2.0, clip_norm=0.5, noise=lambda like, std: torch.full_like(like, std)
    )
    torch.testing.assert_close(released[0], (found.total[0] + 1.0) * inner.mask[0])
    assert not mechanism.seeded and mechanism.public == (*inner.public, "which layers are frozen, and when")
    mechanism.end_step(released, 1.0)
    assert mechanism.state_dict() == {"step": 1, "inner": {"step": 1}}
    frozen = m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=0)
    frozen.end_step([], 0.0)  # without a model there is nothing to freeze
    assert frozen.state_dict()["step"] == 1


# What the studies leave out: noise on the first layers, clipping under a mask, the amplification of Poisson batches


CPU = torch.device("cpu")


def next_release(run: runs.Run) -> list[torch.Tensor]:
    """What the next step releases, on all eight tensors of the network."""
    one_step(run)
    assert len(run.optimizer.params) == 8
    return [p.grad * run.config.batch_size for p in run.optimizer.params]


def test_quiet_layers_get_no_noise_and_the_others_the_same_as_without() -> None:
    """Two of four layers are four of eight tensors; the noise begins to be left out at step 2 of 12."""
    quiet = prepare(tiny_config({"name": "quiet-layers", "after": 2 / 12}), CPU)
    plain, silent = prepare(tiny_config(), CPU), prepare(tiny_config({"name": "clipped-sgd"}), CPU)
    for _ in range(2):
        for one, other in zip(next_release(quiet), next_release(plain), strict=True):
            assert torch.equal(one, other)
    silent.model.load_state_dict(quiet.model.state_dict())
    silent.step = 2
    rows = zip(next_release(quiet), next_release(plain), next_release(silent), strict=True)
    for place, (found, noisy, bare) in enumerate(rows):
        assert torch.equal(found, bare if place < 4 else noisy)
    assert math.isinf(quiet.optimizer.epsilon(1e-5)) and "NOT PRIVATE" in quiet.optimizer.mechanism.title


def test_noisy_sparsification_masks_and_adds_noise_but_does_not_clip() -> None:
    run = prepare(
        tiny_config({"name": "noisy-sparsification", "drop_rate": 0.5}, max_grad_norm=1e-3, noise_multiplier=1.0), CPU
    )
    clipped = prepare(
        tiny_config({"name": "random-sparsification", "drop_rate": 0.5}, max_grad_norm=1e-3, noise_multiplier=0.0), CPU
    )
    free = prepare(
        tiny_config({"name": "random-sparsification", "drop_rate": 0.5}, max_grad_norm=1e6, noise_multiplier=0.0), CPU
    )
    found, small, expected = (torch.cat([r.flatten() for r in next_release(r)]) for r in (run, clipped, free))
    assert torch.equal(found == 0, expected == 0) and 0.4 < (found == 0).float().mean() < 0.6
    kept = found != 0
    assert (found - expected)[kept].std().item() == pytest.approx(1e-3, rel=0.05)  # sigma C
    assert expected.norm() > 100 * small.norm()
    assert math.isinf(run.optimizer.epsilon(1e-5)) and "NOT PRIVATE" in run.optimizer.mechanism.title


def test_a_partition_amplifies_nothing() -> None:
    """Each of three steps costs what it would with all examples in it."""
    run = prepare(tiny_config(sampling="partition", noise_multiplier=20.0), CPU)
    for _ in range(3):
        one_step(run)
    report = run.optimizer.privacy(1e-5)
    assert report.epsilon >= privacy.gaussian_epsilon(math.sqrt(3) / 20, 1e-5) * (1 - 1e-9)
    assert report.epsilon == pytest.approx(privacy.gaussian_epsilon(math.sqrt(3) / 20, 1e-5), rel=0.02)
    assert (report.sampling_rate, report.adjacency) == (1.0, "zero-out") and "shuffled" in report.sampler
    assert run.optimizer.expected_batch_size == 30 and TRAIN % 30 == 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sampling": "shuffle"}, "sampling 'poisson' 'partition'"),
        ({"sampling": "partition", "secure": True}, "sampling 'poisson'"),
        ({"sampling": "partition", "noise_multiplier": None, "epsilon": 1.0}, "noise_multiplier"),
    ],
)
def test_refuses(changes: dict, says: str) -> None:
    with refused(*says.split()):
        from_dict(tiny_config().as_dict() | changes)


@pytest.mark.slow
def test_noise_that_the_studies_state() -> None:
    """The index budgets fit into epsilon = 1 with all steps; the arms without a budget have the noise of the others."""
    freezing = read_study(Path("configs/studies/freezing.toml"))
    quiet = freezing.config("fashion-1", arm="quiet-layers", point={}, seed=100)
    assert _least(freezing, "fashion-1", "dp-sgd") == pytest.approx(quiet.noise_multiplier, rel=1e-6)
    study = read_study(Path("configs/studies/index_pruning.toml"))
    for arm in ("index-pruning", "index-pruning-1000"):
        config = study.config("final", arm=arm, point={}, seed=0)
        steps = config.epochs * 60_000 // config.batch_size
        cost = _cost(config, steps)
        for more, fits in ((0, True), (steps // 100, False)):
            accountant = PrivacyAccountant(config.batch_size / 60_000)
            accountant.limit(epsilon=1.0, delta=1e-5)
            accountant._spent[cost] = steps - 1 + more
            with contextlib.nullcontext() if fits else pytest.raises(BudgetError):
                accountant.clear(cost)
    magnitudes = study.config("others", arm="noisy-magnitudes", point={}, seed=0)
    joint = 1 / math.hypot(1 / magnitudes.noise_multiplier, 1 / magnitudes.mechanism["selection_multiplier"])
    least = _least(study, "others", "dp-sgd")
    assert joint == pytest.approx(least, rel=1e-3) and joint >= least


def test_entries_that_a_step_of_the_study_of_index_pruning_keeps() -> None:
    """As its answers say: of 26,010; the padding of the last group of index pruning is among what it chooses from."""
    study, kept = read_study(Path("configs/studies/index_pruning.toml")), dict[str, int]()
    for arm in ("random-k", "index-pruning", "index-pruning-1000"):
        table = study.config("final", arm=arm, point={}, seed=0).as_dict()
        run = prepare(
            from_dict(table | {"data": "excerpt", "batch_size": 30, "noise_multiplier": 1.0, "epsilon": None}), CPU
        )
        kept[arm] = sum(int(one.count_nonzero()) for one in next_release(run))
    assert kept["random-k"] == 2601 and all(2630 <= kept[arm] <= 2650 for arm in kept if arm != "random-k"), kept


def test_shuffled_passes_have_the_noise_of_the_poisson_batches() -> None:
    study = read_study(Path("configs/studies/masking.toml"))
    partition = study.config("final", arm="dp-sgd-partition", point={}, seed=0)
    assert partition.noise_multiplier == pytest.approx(_least(study, "final", "dp-sgd"), rel=1e-6)


def _least(study: Study, phase: str, arm: str) -> float:
    """The noise that a run of the arm resolves its epsilon to, on 60,000 examples."""
    config = study.config(phase, arm=arm, point={}, seed=study.phase(phase).seeds[0])
    rate = config.batch_size / 60_000
    return privacy.least_noise_multiplier(
        epsilon=config.epsilon, delta=config.delta, sampling_rate=rate, steps=round(config.epochs / rate)
    )


def _cost(config: RunConfig, steps: int) -> StepCost:
    """Of a step of index pruning in a run of that many, on the tiny data."""
    small = from_dict(config.as_dict() | {"data": "excerpt", "batch_size": 2, "epsilon": None})
    run = prepare(small, CPU)
    assert run.steps == steps
    one_step(run)
    return run.optimizer.mechanism.cost(run.optimizer.noise_multiplier)
