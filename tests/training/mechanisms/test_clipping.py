"""Clipping: norms and sums, rules, and the clip that follows a quantile."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dptheory import privacy
from dptheory.training import mechanisms
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from dptheory.training.engine import attach
from dptheory.training.mechanisms import Clipping, clipped_sum
from dptheory.training.per_example import _formed
from tests.refused import refused
from tests.training import sgd

# --- Norms and clipped sums of per-sample gradients, a few rows at a time or all at once ---


SHAPES = ((2, 3), (1,), (4,))


def samples(count: int) -> list[torch.Tensor]:
    rng = np.random.default_rng(count)
    return [torch.from_numpy(rng.standard_normal((count, *shape))).float() for shape in SHAPES]


def masks() -> list[torch.Tensor]:
    rng = np.random.default_rng(1)
    return [torch.from_numpy(np.asarray(rng.random(shape) < 0.6)) for shape in SHAPES]


def flat(tensors: list[torch.Tensor]) -> np.ndarray:
    return np.hstack([t.double().flatten(1).numpy() for t in tensors])


@pytest.mark.parametrize("products", [1, 5, 6, 7, 13, 1 << 18])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_masked_norms_in_blocks(products: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few products are held at once."""
    monkeypatch.setattr(_formed, "_PRODUCTS", products)
    mask = np.concatenate([m.reshape(-1).numpy() for m in masks()])
    found = mechanisms.sample_norms(samples(count), mask=masks())
    np.testing.assert_allclose(found.numpy(), np.linalg.norm(flat(samples(count)) * mask, axis=1), rtol=1e-6)
    np.testing.assert_allclose(
        mechanisms.sample_norms(samples(count)).numpy(), np.linalg.norm(flat(samples(count)), axis=1), rtol=1e-6
    )


def test_factors() -> None:
    norms = torch.tensor([0.0, 1e-45, 0.5, 2.0, 4.0, torch.inf, torch.nan])
    assert mechanisms.clip_factors(norms, 2.0).tolist() == [1.0, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0]
    torch.testing.assert_close(mechanisms.clip_factors(norms, 0.1)[2:5], torch.tensor([0.2, 0.05, 0.025]))


def test_half_precision_is_widened() -> None:
    for kind, wide in ((torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        assert mechanisms.sample_norms([torch.ones(1, 2, dtype=kind)]).dtype == wide
        assert mechanisms.clipped_sum([torch.ones(1, 2, dtype=kind)], 1.0).total[0].dtype == wide


# --- norms that clipping divides by ----------------------------------------------------------------------------------------
SHORT = 1e-5
"""What a norm may fall short of the true one, as a share of it."""


def rows_that_lose_small_squares(count: int) -> torch.Tensor:
    """Large entries first, then squares of half a unit in the last place of theirs: every running sum drops these."""
    row = torch.full((1, count), 2.0**-12 * 0.999)
    row[0, :64] = 1.0
    return row


def true_norms(rows: torch.Tensor) -> np.ndarray:
    return np.linalg.norm(rows.double().numpy(), axis=1)


@pytest.mark.numerics
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("count", [511, 512, 513, 4096, 100_003, 2**20, 2**24])
def test_norms_of_large_tensors_are_not_short(count: int, masked: bool) -> None:
    """Equal entries, whose sums round to one side, and small squares after large ones, which running sums drop."""
    mask = [torch.ones(count, dtype=torch.bool)] if masked else None
    for rows in (torch.full((1, count), 1.1), torch.full((1, count), 0.83), rows_that_lose_small_squares(count)):
        short = 1 - mechanisms.sample_norms([rows], mask=mask).double().numpy() / true_norms(rows)
        assert abs(short[0]) <= SHORT, short


@pytest.mark.numerics
def test_norms_of_many_tensors_are_not_short() -> None:
    """Of a model of 3,000 parameters of one entry, and of rows whose entries do not lie side by side."""
    row = rows_that_lose_small_squares(3000)
    found = mechanisms.sample_norms([row[:, i] for i in range(3000)])
    assert abs(float(found) / true_norms(row)[0] - 1) <= SHORT
    wide = torch.cat([rows_that_lose_small_squares(2**20)] * 2)
    apart = wide.T.contiguous().T
    assert apart.stride(-1) == 2
    np.testing.assert_allclose(mechanisms.sample_norms([apart]).numpy(), true_norms(wide), rtol=SHORT)


@pytest.mark.numerics
@pytest.mark.parametrize("size", [1e-42, 1e-38, 1e-25, 1e-20, 1e-17, 1e15, 1e20, 1e25, 1e35])
@pytest.mark.parametrize("masked", [False, True])
def test_norms_whose_squares_leave_the_range(size: float, masked: bool) -> None:
    """Neither infinite, which would drop a record, nor zero, nor mixed up with the records beside it."""
    rng = np.random.default_rng(0)
    first = torch.from_numpy(rng.standard_normal((3, 700))).float()
    second = torch.from_numpy(rng.standard_normal((3, 5, 2))).float()
    first[1], second[1] = first[1] * size, second[1] * size
    mask = [torch.arange(700) % 2 == 0, torch.ones(5, 2, dtype=torch.bool)] if masked else None
    seen = torch.cat([first * (1 if mask is None else mask[0]), second.flatten(1)], dim=1)
    found = mechanisms.sample_norms([first, second], mask=mask)
    np.testing.assert_allclose(found.double().numpy(), true_norms(seen), rtol=SHORT, atol=1e-45)
    clip = 2.0
    total = mechanisms.clipped_sum([first[1:2], second[1:2]], clip, mask=mask)
    assert total.nonfinite == 0
    norm = float(torch.cat([t.flatten() for t in total.total]).double().norm())
    assert norm == pytest.approx(min(clip, true_norms(seen)[1]), rel=SHORT, abs=1e-45)


def test_what_is_not_finite_stays_so() -> None:
    rows = torch.tensor(
        [[3.0, 4.0], [torch.inf, 1.0], [torch.nan, 1.0], [torch.nan, torch.inf], [0.0, 0.0], [3e38, 3e38]]
    )
    found = mechanisms.sample_norms([rows, torch.zeros(6, 0)])
    assert found[0] == 5.0 and found[4] == 0.0 and not torch.isfinite(found[[1, 2, 3, 5]]).any()
    assert mechanisms.clipped_sum([rows], 1.0).nonfinite == 4


def test_a_factor_of_few_digits_counts_as_zero() -> None:
    """It would be off by up to half of itself, and the clipped gradient longer than the clip."""
    norms = torch.tensor([1e38, 3e38, 1e30])
    assert mechanisms.clip_factors(norms, 1e-3).tolist()[:2] == [0.0, 0.0]
    assert float(mechanisms.clip_factors(norms, 1e-3)[2]) == pytest.approx(1e-33, rel=1e-6)


@pytest.mark.numerics
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_no_record_moves_a_sum_by_more_than_the_clip(kind: torch.dtype) -> None:
    """On the path through every mechanism that clips whole gradients: C and the rounding that the module's docstring states."""
    rng = np.random.default_rng(3)
    largest = float(torch.finfo(kind).max) ** 0.5
    for size in (1e-3, 1.0, 100.0, min(largest / 10, 1e145)):  # whose squares add up to a number of float64
        for dim in (1, 300, 5000, 70_000):
            rows = torch.from_numpy(rng.standard_normal((1, dim)) * size).to(kind)
            for rest in (rows, torch.full((1, dim), size, dtype=kind)):
                total = mechanisms.DpSgd().contribute([rest], 0.7)
                assert total.nonfinite == 0
                assert float(total.total[0].double().norm()) <= 0.7 * (1 + SHORT)


# Rules of clipping: against formulas in NumPy, with masks and frozen layers, formed or as factors, and never longer
# than C


SIZES, CLIP, GAMMA = (4, 3, 5), 1.3, 0.4
SHARES = [1.0, 2.0, 3.0]
HALF = m.Constant(0.5)


def gradients(n: int = 8, seed: int = 0) -> list[torch.Tensor]:
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
    rows = [one.double().numpy() for one in gradients()]
    found = m.DpSgd(clipping=m.LayerClipping(SHARES)).contribute(gradients(), CLIP)
    close(found.total, by_layer(rows, SHARES))
    close(
        m.DpSgd(clipping=m.LayerClipping()).contribute(gradients(), CLIP).total,
        by_layer(rows, [1.0] * 3),
    )
    clips = CLIP * np.sqrt(np.array(SHARES) / 6)
    longer = np.any([np.linalg.norm(one, axis=1) > c for one, c in zip(rows, clips, strict=True)], axis=0)
    assert found.votes == (~longer).sum() / 2 - longer.sum() / 2 and 0 < longer.sum() < 8


def test_automatic_clipping_normalises_the_whole() -> None:
    rows = np.concatenate([one.double().numpy() for one in gradients()], axis=1)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    wanted = np.split((CLIP * rows / (norms + GAMMA)).sum(0), np.cumsum(SIZES)[:-1])
    found = m.DpSgd(clipping=m.AutomaticClipping(gamma=GAMMA)).contribute(gradients(), CLIP)
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
    rows = [one.double().numpy() * mask for one, mask in zip(gradients(), masks, strict=True)]
    close(mechanism.contribute(gradients(), CLIP).total, by_layer(rows, SHARES))


def test_posterior_freeze_masks_what_a_rule_has_clipped() -> None:
    mechanism = m.PosteriorFreeze(HALF, 3, clipping=m.AutomaticClipping(gamma=GAMMA))
    mechanism.begin_step([torch.zeros(size) for size in SIZES])
    whole = m.DpSgd(clipping=m.AutomaticClipping(gamma=GAMMA)).contribute(gradients(), CLIP).total
    for found, own, mask in zip(mechanism.contribute(gradients(), CLIP).total, whole, mechanism.mask, strict=True):
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
    rows = [one.double().numpy() for one in gradients()]
    close(mechanism.contribute(gradients(), CLIP).total, by_layer(rows, SHARES))
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
    broken = gradients()
    for row, value in ((2, math.nan), (5, math.inf)):
        broken[1][row, 0] = value
    left = [one[[0, 1, 3, 4, 6, 7]] for one in gradients()]
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
    sgd.attach(model, mechanism=m.DpSgd(clipping=rule), sampling_rate=0.5, expected_batch_size=1.0)
    assert [len(group) for group in rule.groups(5)] == [3, 2]


def test_shares_are_one_for_each_layer() -> None:
    with refused("shares", 3):
        trained(m.DpSgd(clipping=m.LayerClipping([1.0, 1.0])), "factors")
    for shares in ([], [0.0, 1.0], [math.nan], [math.inf]):
        with refused("shares"):
            m.LayerClipping(shares)


# --- The clip that follows a quantile: what leaves, what it costs, where the clip goes, and what a state takes over
# ---


START, SIGMA, SHARE = 1.5, 2.0, 0.36
ROWS = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [0.6, 0.8]])
"""Norms 5, 0.5, 0 and 1."""


def adaptive(inner: m.Mechanism | None = None, **given: Any) -> m.AdaptiveClipping:
    settings = {"expected_batch_size": 10.0, "quantile": 0.7, "clip_rate": 0.5, "count_share": SHARE} | given
    return m.AdaptiveClipping(inner or m.DpSgd(), **settings)


def marked(like: torch.Tensor, std: float) -> torch.Tensor:
    """One standard deviation up: shows the scale of the noise."""
    return torch.full_like(like, std)


def step(mechanism: m.Mechanism, rows: torch.Tensor = ROWS, clip: float = START) -> list[torch.Tensor]:
    mechanism.begin_step([torch.zeros(2)])
    total = mechanism.contribute([rows], clip).total
    released = mechanism.release(total, noise_multiplier=SIGMA, clip_norm=clip, noise=marked)
    mechanism.end_step(released, SIGMA * clip)
    return released


def test_a_step_by_hand() -> None:
    mechanism = adaptive()
    (released,) = step(mechanism)
    clipped = torch.tensor([0.9 + 0.3 + 0.6, 1.2 + 0.4 + 0.8])
    torch.testing.assert_close(released, clipped + SIGMA / 0.8 * START)
    count = 0.5 * (2 - 1) + SIGMA / (2 * 0.6)  # votes of two short gradients and a long one; zero has none
    wanted = START * math.exp(-0.5 * (count / 10 + 0.5 - 0.7))
    assert mechanism.clip_of(START) == pytest.approx(wanted, rel=1e-6)  # the count passes through float32
    assert mechanism.used == START
    (released,) = step(mechanism)
    factor = torch.tensor([wanted / 5, 1.0, 1.0, min(1.0, wanted)])
    torch.testing.assert_close(released, (ROWS * factor[:, None]).sum(0) + SIGMA / 0.8 * wanted)


def test_sum_and_count_cost_what_the_noise_multiplier_says() -> None:
    stds = privacy.clipping.counted_noise(noise_multiplier=SIGMA, count_share=SHARE)
    joint = 1 / math.hypot(1 / stds.gradient_multiplier, 0.5 / stds.count_std)
    assert joint == pytest.approx(SIGMA, rel=1e-15)
    assert adaptive().cost(SIGMA) == m.StepCost(SIGMA)
    assert adaptive(m.NoisySgd()).cost(SIGMA) == m.StepCost(0.0)
    assert adaptive().cost(0.0) == m.StepCost(0.0)
    second = adaptive(m.NoisyMagnitudeTopK(3.0, HALF, group_size=2)).cost(SIGMA)
    assert second.noise_multiplier == pytest.approx(1 / math.sqrt(1 / 9 + 1 / 4), rel=1e-15)


def test_what_hides_the_sum_does_not_hide_the_count() -> None:
    mechanism = adaptive(m.PosteriorFreeze(HALF, None))
    mechanism.begin_step([torch.zeros(20)])
    assert mechanism.cost(SIGMA) == m.StepCost(SIGMA)
    chosen = adaptive(m.IndexPruning(0.2, HALF, group_size=4))
    chosen.begin_step([torch.zeros(20)])
    cost = chosen.cost(SIGMA)
    assert cost.noise_multiplier == SIGMA and cost.selection is not None and cost.selection[0] == 5


def test_the_clip_finds_the_quantile() -> None:
    """Norms 1, ..., 100 and no noise: 70 of them are no longer than the clip that stays."""
    rows = torch.arange(1.0, 101.0)[:, None] * torch.tensor([[0.6, 0.8]])
    mechanism = m.AdaptiveClipping(m.DpSgd(), expected_batch_size=100, quantile=0.7, clip_rate=0.2)
    for _ in range(300):
        mechanism.begin_step([torch.zeros(2)])
        total = mechanism.contribute([rows], 1.0).total
        released = mechanism.release(total, noise_multiplier=0.0, clip_norm=1.0, noise=lambda t, _: torch.zeros_like(t))
        mechanism.end_step(released, 0.0)
    assert 69.0 <= mechanism.clip_of(1.0) <= 71.0


def test_a_batch_that_is_abandoned_moves_nothing() -> None:
    mechanism = adaptive()
    mechanism.begin_step([torch.zeros(2)])
    total = mechanism.contribute([ROWS], START).total
    mechanism.release(total, noise_multiplier=SIGMA, clip_norm=START, noise=marked)
    mechanism.begin_step([torch.zeros(2)])
    mechanism.end_step([torch.zeros(2)], 0.0)
    assert mechanism.clip_of(START) == START


def test_inside_a_ranking_the_noise_of_what_is_masked_is_that_of_the_step() -> None:
    inner = m.RankedSparsification(HALF, steps_per_epoch=9, seed=0)
    seen = []
    inner.end_step = lambda released, std: seen.append(std)  # type: ignore[method-assign]
    mechanism = adaptive(inner)
    for _ in range(2):
        clip = mechanism.clip_of(START)
        step(mechanism)
        assert seen.pop() == pytest.approx(SIGMA / 0.8 * clip, rel=1e-15)
    assert clip != START


def test_clips_stay_numbers() -> None:
    mechanism = adaptive(clip_rate=10.0, expected_batch_size=1e-15)
    for rows, least in ((ROWS[1:2], True), (1e9 * ROWS[:1], False)):
        for _ in range(3):
            mechanism.begin_step([torch.zeros(2)])
            total = mechanism.contribute([rows], START).total
            released = mechanism.release(total, noise_multiplier=0.0, clip_norm=START, noise=marked)
            mechanism.end_step(released, 0.0)
        assert mechanism.clip_of(START) in ([1e-15] if least else [1e15, START])


def test_mechanisms_that_do_not_vote_are_refused() -> None:
    mechanism = adaptive(m.DpSgd(clipping=m.AutomaticClipping()))
    mechanism.begin_step([torch.zeros(2)])
    with refused("inner"):
        mechanism.contribute([ROWS], START)
    with refused("inner", "'dp-sgd'", kind=TypeError):
        m.AdaptiveClipping("dp-sgd", expected_batch_size=10)  # type: ignore[arg-type]


# --- in the engine ------------------------------------------------------------------------------------------------------
def run(steps: int, state: dict[str, Any] | None = None, parts: int = 1) -> tuple[Any, Any, nn.Module]:
    torch.manual_seed(0)
    model, x, y = nn.Linear(3, 2), 5 * torch.randn(40, 3), torch.arange(40) % 2
    mechanism = adaptive(m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=10**6)) if parts < 0 else adaptive()
    private, optimizer = sgd.attach(
        model, lr=0.05, mechanism=mechanism, sampling_rate=0.25, expected_batch_size=10.0, noise_multiplier=SIGMA,
        max_grad_norm=START, noise_generator=torch.Generator().manual_seed(3),
    )  # fmt: skip
    if state is not None:
        optimizer.load_state_dict(state["optimizer"])
        model.load_state_dict(state["model"])
    first = 0 if state is None else state["step"]
    for number in range(first, first + steps):
        drawn = torch.from_numpy(np.random.default_rng(number).permutation(40)[:10])
        optimizer.begin_batch(10)
        for place, part in enumerate(torch.chunk(drawn, parts), 1):
            optimizer.zero_grad()
            optimizer.signal_skip_step(do_skip=place < parts)
            nn.functional.cross_entropy(private(x[part]), y[part]).backward()
            optimizer.step()
    return optimizer, {"optimizer": optimizer.state_dict(), "model": model.state_dict(), "step": first + steps}, model


def test_a_run_that_goes_on_is_one_that_never_stopped() -> None:
    with simulation():
        whole, _, model = run(6)
        _, state, _ = run(3)
        resumed, _, again = run(3, state)
    assert resumed.mechanism.clip_of(START) == whole.mechanism.clip_of(START) != START
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))
    assert resumed.accountant.steps == 6
    assert resumed.epsilon(1e-5) == whole.epsilon(1e-5)
    plain = privacy.epsilon_bounds(noise_multiplier=SIGMA, sampling_rate=0.25, steps=6, delta=1e-5).upper
    assert whole.epsilon(1e-5) == plain


def test_a_batch_in_parts_is_one_batch() -> None:
    with simulation():
        whole, _, model = run(3)
        parts, _, again = run(3, parts=4)
    assert parts.mechanism.clip_of(START) == pytest.approx(whole.mechanism.clip_of(START), rel=1e-6)
    for a, b in zip(again.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_an_empty_batch_votes_nothing() -> None:
    """Whether it gives no row of gradients or one of zeros: a record that joins it moves the count by a half."""
    found = []
    for rows in (ROWS[:0], torch.zeros(1, 2)):
        mechanism = adaptive()
        step(mechanism, rows)
        found.append(mechanism.clip_of(START))
    assert found[0] == found[1]


def test_what_the_report_says_is_public() -> None:
    optimizer, _, _ = run(1)
    assert "clip of every step" in optimizer.privacy(1e-5).public


def test_a_state_of_no_number_is_refused() -> None:
    with refused("moved"):
        adaptive().load_state_dict({"moved": math.nan, "inner": {}})


def test_every_process_takes_the_clip_of_the_first() -> None:
    """The optimizer writes the first process's over what is shared, after a step has begun."""
    mechanism = adaptive()
    step(mechanism)
    mechanism.begin_step([torch.zeros(2)])
    mechanism.shared()[0].fill_(math.log(2.0))
    mechanism.contribute([ROWS], START)
    assert mechanism.used == pytest.approx(2 * START, rel=1e-15)
