"""Rules of clipping: against formulas in NumPy, with masks and frozen layers, formed or as factors, and never longer than C."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dptheory.training import mechanisms as m
from dptheory.training.engine import attach
from dptheory.training.mechanisms import Clipping, clipped_sum

SIZES, CLIP, GAMMA = (4, 3, 5), 1.3, 0.4
SHARES = [1.0, 2.0, 3.0]
HALF = m.Constant(0.5)


def samples(n: int = 8, seed: int = 0) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    lengths = np.geomspace(0.05, 40.0, n)
    return [torch.from_numpy(lengths[:, None] * rng.normal(size=(n, size)) / 3).float() for size in SIZES]


def by_layer(rows: list[np.ndarray], shares: list[float], clip: float = CLIP) -> list[np.ndarray]:
    """The sums by the formula, in float64."""
    clips = clip * np.sqrt(np.array(shares) / sum(shares))
    norms = [np.linalg.norm(one, axis=1, keepdims=True) for one in rows]
    return [(one * np.minimum(1, c / norm)).sum(0) for one, norm, c in zip(rows, norms, clips, strict=True)]


def close(found: list[torch.Tensor], wanted: list[np.ndarray]) -> None:
    """Clip factors in float32: the norm is 8e-6 off at most, a sum of eight rounds by less."""
    for one, own in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.double().numpy(), own, rtol=1e-5, atol=1e-5)


def test_each_layer_has_its_share_of_the_clip() -> None:
    rows = [one.double().numpy() for one in samples()]
    found = m.DpSgd(clipping=m.LayerClipping(SHARES)).contribute(samples(), CLIP)
    close(found.total, by_layer(rows, SHARES))
    close(m.DpSgd(clipping=m.LayerClipping()).contribute(samples(), CLIP).total, by_layer(rows, [1.0] * 3))
    clips = CLIP * np.sqrt(np.array(SHARES) / 6)
    longer = np.any([np.linalg.norm(one, axis=1) > c for one, c in zip(rows, clips, strict=True)], axis=0)
    assert found.votes == (~longer).sum() / 2 - longer.sum() / 2 and 0 < longer.sum() < 8


def test_automatic_clipping_normalises_the_whole() -> None:
    rows = np.concatenate([one.double().numpy() for one in samples()], axis=1)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    wanted = np.split((CLIP * rows / (norms + GAMMA)).sum(0), np.cumsum(SIZES)[:-1])
    found = m.DpSgd(clipping=m.AutomaticClipping(gamma=GAMMA)).contribute(samples(), CLIP)
    close(found.total, wanted)
    assert found.votes is None


@pytest.mark.parametrize(
    "build",
    [
        lambda rule: m.RandomSparsification(HALF, 3, clipping=rule),
        lambda rule: m.RankedSparsification(HALF, steps_per_epoch=1, seed=3, clipping=rule),
    ],
    ids=["random", "ranked"],
)
def test_a_rule_clips_what_the_mask_leaves(build: Callable[[Clipping], m.RandomSparsification]) -> None:
    mechanism = build(m.LayerClipping(SHARES))
    params = [torch.zeros(size) for size in SIZES]
    mechanism.begin_step(params)
    mechanism.end_step([torch.arange(float(size)) for size in SIZES], 0.0)  # then the ranked one has a mask
    mechanism.begin_step(params)
    masks = [one.double().numpy() for one in mechanism.mask]
    assert sum(mask.sum() for mask in masks) == 6
    rows = [one.double().numpy() * mask for one, mask in zip(samples(), masks, strict=True)]
    close(mechanism.contribute(samples(), CLIP).total, by_layer(rows, SHARES))


def test_posterior_freeze_masks_what_a_rule_has_clipped() -> None:
    mechanism = m.PosteriorFreeze(HALF, 3, clipping=m.AutomaticClipping(gamma=GAMMA))
    mechanism.begin_step([torch.zeros(size) for size in SIZES])
    whole = m.DpSgd(clipping=m.AutomaticClipping(gamma=GAMMA)).contribute(samples(), CLIP).total
    for found, own, mask in zip(mechanism.contribute(samples(), CLIP).total, whole, mechanism.mask, strict=True):
        assert torch.equal(found, own * mask)


SELECTIONS: dict[str, Callable[[Clipping], m.Mechanism]] = {
    "index pruning": lambda rule: m.IndexPruning(0.5, HALF, group_size=4, clipping=rule),
    "of the released": lambda rule: m.TopKOfReleased(HALF, 4, clipping=rule),
    "of noisy magnitudes": lambda rule: m.NoisyMagnitudeTopK(3.0, HALF, group_size=4, clipping=rule),
}


@pytest.mark.parametrize("build", SELECTIONS.values(), ids=SELECTIONS.keys())
def test_entries_are_chosen_from_what_a_rule_has_clipped(build: Callable[[Clipping], m.Mechanism]) -> None:
    """At a cost that no rule changes."""
    mechanism, flat = build(m.LayerClipping(SHARES)), build(m.FlatClipping())
    for one in (mechanism, flat):
        one.begin_step([torch.zeros(size) for size in SIZES])
    rows = [one.double().numpy() for one in samples()]
    close(mechanism.contribute(samples(), CLIP).total, by_layer(rows, SHARES))
    assert mechanism.cost(2.0) == flat.cost(2.0)


RULES: list[Clipping] = [m.FlatClipping(), m.LayerClipping(SHARES), m.AutomaticClipping(gamma=GAMMA)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@given(exponents=st.lists(st.floats(-30, 30), min_size=3, max_size=3), seed=st.integers(0, 1000))
def test_no_example_adds_more_than_the_clip(rule: Clipping, exponents: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        torch.from_numpy(10.0**exponent * rng.normal(size=(1, size))).float()
        for exponent, size in zip(exponents, SIZES, strict=True)
    ]
    found = clipped_sum(rows, CLIP, clipping=rule)
    assert math.sqrt(sum(float(one.double().square().sum()) for one in found.total)) <= 1.00001 * CLIP


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_what_is_not_finite_in_one_layer_counts_in_none(rule: Clipping) -> None:
    broken = samples()
    for row, value in ((2, math.nan), (5, math.inf)):
        broken[1][row, 0] = value
    left = [one[[0, 1, 3, 4, 6, 7]] for one in samples()]
    found, wanted = clipped_sum(broken, CLIP, clipping=rule), clipped_sum(left, CLIP, clipping=rule)
    assert found.nonfinite == 2 and found.votes == wanted.votes
    close(found.total, [one.double().numpy() for one in wanted.total])


def test_zero_gradients_do_not_vote() -> None:
    """As Opacus's row of zeros for a batch of no example must not."""
    rows = [torch.zeros(3, size) for size in SIZES]
    assert clipped_sum(rows, CLIP).votes == 0.0
    rows[0][1, 0] = 0.1
    assert clipped_sum(rows, CLIP).votes == 0.5


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 3, 3)
        self.norm = nn.GroupNorm(1, 3)
        self.last = nn.Linear(3 * 16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(self.first(x)).tanh().flatten(1))


def trained(mechanism: m.Mechanism, mode: str, steps: int = 1) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What the last of some steps released without noise, and the gradients of its examples one by one."""
    torch.manual_seed(0)
    model, x, y = Net().double(), torch.randn(6, 1, 6, 6, dtype=torch.float64), torch.arange(6) % 2
    x *= torch.tensor([0.01, 0.1, 1.0, 3.0, 10.0, 30.0], dtype=torch.float64).view(-1, 1, 1, 1)
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0), mechanism=mechanism, sampling_rate=0.5,
        expected_batch_size=1.0, noise_multiplier=0.0, max_grad_norm=CLIP, grad_sample_mode=mode,
    )  # fmt: skip
    single: list[list[torch.Tensor]] = []
    for _ in range(steps):
        optimizer.begin_batch(6)
        optimizer.zero_grad()
        nn.functional.cross_entropy(private(x), y).backward()
        left = [p for p in model.parameters() if p.requires_grad]
        optimizer.step()
        released = [p.grad.clone() for p in left if p.grad is not None]
    plain = Net().double()
    plain.load_state_dict(model.state_dict())
    trained = [p for p, own in zip(plain.parameters(), model.parameters(), strict=True) if own.requires_grad]
    for i in range(6):
        loss = nn.functional.cross_entropy(plain(x[i : i + 1]), y[i : i + 1])
        single.append(list(torch.autograd.grad(loss, trained)))
    return released, [torch.stack(one) for one in zip(*single, strict=True)]


def layers_of(rows: list[torch.Tensor], pairs: int) -> list[np.ndarray]:
    """Weight and bias of each layer side by side."""
    flat = [one.flatten(1).double().numpy() for one in rows]
    return [np.concatenate(flat[2 * i : 2 * i + 2], axis=1) for i in range(pairs)]


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
def test_a_layer_is_weight_and_bias_in_every_mode(mode: str) -> None:
    released, single = trained(m.DpSgd(clipping=m.LayerClipping(SHARES)), mode)
    wanted = by_layer(layers_of(single, 3), SHARES)
    found = layers_of([one[None] for one in released], 3)
    for one, own in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one[0], own, rtol=1e-9, atol=1e-9)  # norms of 50 numbers in float64


def test_the_share_of_a_frozen_layer_goes_to_the_others() -> None:
    mechanism = m.LayerFreezing(
        m.DpSgd(clipping=m.LayerClipping(SHARES)), frozen_layers=[2], from_step=1
    )  # after the first step the norm is frozen
    released, single = trained(mechanism, "factors", steps=2)
    wanted = by_layer(layers_of(single, 2), [SHARES[0], SHARES[2]])
    for one, own in zip(layers_of([one[None] for one in released], 2), wanted, strict=True):
        np.testing.assert_allclose(one[0], own, rtol=1e-9, atol=1e-9)


def test_a_parametrized_layer_is_one() -> None:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2))
    rule = m.LayerClipping([1.0, 1.0])
    attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=m.DpSgd(clipping=rule),
        sampling_rate=0.5, expected_batch_size=1.0, noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    assert [len(group) for group in rule.groups(5)] == [3, 2]


def test_shares_are_one_for_each_layer() -> None:
    with pytest.raises(ValueError, match="shares must be one for each of the 3 layers"):
        trained(m.DpSgd(clipping=m.LayerClipping([1.0, 1.0])), "factors")
    for shares in ([], [0.0, 1.0], [math.nan], [math.inf]):
        with pytest.raises(ValueError, match=r"^shares must"):
            m.LayerClipping(shares)
    for gamma in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=r"^gamma must"):
            m.AutomaticClipping(gamma=gamma)


@pytest.mark.parametrize(
    "build",
    [
        lambda rule: m.DpSgd(clipping=rule),
        lambda rule: m.RandomSparsification(HALF, 0, clipping=rule),
        lambda rule: m.RankedSparsification(HALF, steps_per_epoch=1, seed=0, clipping=rule),
        *SELECTIONS.values(),
    ],
    ids=["DP-SGD", "random", "ranked", *SELECTIONS],
)
def test_a_rule_is_one(build: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="clipping must be a rule"):
        build("flat")
