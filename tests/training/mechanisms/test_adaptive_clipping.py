"""The clip that follows a quantile: what leaves, what it costs, where the clip goes, and what a state takes over."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dptheory import privacy
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from dptheory.training.engine import attach

CLIP, SIGMA, SHARE = 1.5, 2.0, 0.36
HALF = m.Constant(0.5)
ROWS = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [0.6, 0.8]])
"""Norms 5, 0.5, 0 and 1."""


def adaptive(inner: m.Mechanism | None = None, **given: Any) -> m.AdaptiveClipping:
    settings = {"expected_batch_size": 10.0, "quantile": 0.7, "clip_rate": 0.5, "count_share": SHARE} | given
    return m.AdaptiveClipping(inner or m.DpSgd(), **settings)


def marked(like: torch.Tensor, std: float) -> torch.Tensor:
    """One standard deviation up: shows the scale of the noise."""
    return torch.full_like(like, std)


def step(mechanism: m.Mechanism, rows: torch.Tensor = ROWS, clip: float = CLIP) -> list[torch.Tensor]:
    mechanism.begin_step([torch.zeros(2)])
    total = mechanism.contribute([rows], clip).total
    released = mechanism.release(total, noise_multiplier=SIGMA, clip_norm=clip, noise=marked)
    mechanism.end_step(released, SIGMA * clip)
    return released


def test_a_step_by_hand() -> None:
    mechanism = adaptive()
    (released,) = step(mechanism)
    clipped = torch.tensor([0.9 + 0.3 + 0.6, 1.2 + 0.4 + 0.8])
    torch.testing.assert_close(released, clipped + SIGMA / 0.8 * CLIP)
    count = 0.5 * (2 - 1) + SIGMA / (2 * 0.6)  # votes of two short gradients and a long one; zero has none
    wanted = CLIP * math.exp(-0.5 * (count / 10 + 0.5 - 0.7))
    assert mechanism.clip_of(CLIP) == pytest.approx(wanted, rel=1e-6)  # the count passes through float32
    assert mechanism.used == CLIP
    (released,) = step(mechanism)
    factor = torch.tensor([wanted / 5, 1.0, 1.0, min(1.0, wanted)])
    torch.testing.assert_close(released, (ROWS * factor[:, None]).sum(0) + SIGMA / 0.8 * wanted)


def test_sum_and_count_cost_what_the_noise_multiplier_says() -> None:
    stds = privacy.counted_noise(noise_multiplier=SIGMA, count_share=SHARE)
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
    total = mechanism.contribute([ROWS], CLIP).total
    mechanism.release(total, noise_multiplier=SIGMA, clip_norm=CLIP, noise=marked)
    mechanism.begin_step([torch.zeros(2)])
    mechanism.end_step([torch.zeros(2)], 0.0)
    assert mechanism.clip_of(CLIP) == CLIP


def test_inside_a_ranking_the_noise_of_what_is_masked_is_that_of_the_step() -> None:
    inner = m.RankedSparsification(HALF, steps_per_epoch=9, seed=0)
    seen = []
    inner.end_step = lambda released, std: seen.append(std)  # type: ignore[method-assign]
    mechanism = adaptive(inner)
    for _ in range(2):
        clip = mechanism.clip_of(CLIP)
        step(mechanism)
        assert seen.pop() == pytest.approx(SIGMA / 0.8 * clip, rel=1e-15)
    assert clip != CLIP


def test_clips_stay_numbers() -> None:
    mechanism = adaptive(clip_rate=10.0, expected_batch_size=1e-15)
    for rows, least in ((ROWS[1:2], True), (1e9 * ROWS[:1], False)):
        for _ in range(3):
            mechanism.begin_step([torch.zeros(2)])
            total = mechanism.contribute([rows], CLIP).total
            released = mechanism.release(total, noise_multiplier=0.0, clip_norm=CLIP, noise=marked)
            mechanism.end_step(released, 0.0)
        assert mechanism.clip_of(CLIP) in ([1e-15] if least else [1e15, CLIP])


def test_mechanisms_that_do_not_vote_are_refused() -> None:
    mechanism = adaptive(m.DpSgd(clipping=m.AutomaticClipping()))
    mechanism.begin_step([torch.zeros(2)])
    with pytest.raises(ValueError, match="inner must be a mechanism that tells"):
        mechanism.contribute([ROWS], CLIP)
    with pytest.raises(TypeError, match="inner must be a mechanism"):
        m.AdaptiveClipping("dp-sgd", expected_batch_size=10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("expected_batch_size", 0.0), ("quantile", 1.1), ("quantile", math.nan), ("clip_rate", 0.0), ("clip_rate", 11.0),
        ("count_share", 0.0), ("count_share", 0.6),
    ],
)  # fmt: skip
def test_ranges(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must"):
        adaptive(**{name: value})


# --- in the engine ------------------------------------------------------------------------------------------------------


def run(steps: int, state: dict[str, Any] | None = None, parts: int = 1) -> tuple[Any, Any, nn.Module]:
    torch.manual_seed(0)
    model, x, y = nn.Linear(3, 2), 5 * torch.randn(40, 3), torch.arange(40) % 2
    mechanism = adaptive(m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=10**6)) if parts < 0 else adaptive()
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.05), mechanism=mechanism, sampling_rate=0.25,
        expected_batch_size=10.0, noise_multiplier=SIGMA, max_grad_norm=CLIP,
        noise_generator=torch.Generator().manual_seed(3),
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
    assert resumed.mechanism.clip_of(CLIP) == whole.mechanism.clip_of(CLIP) != CLIP
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))
    assert resumed.accountant.steps == 6
    assert resumed.epsilon(1e-5) == whole.epsilon(1e-5)
    plain = privacy.epsilon_bounds(noise_multiplier=SIGMA, sampling_rate=0.25, steps=6, delta=1e-5).upper
    assert whole.epsilon(1e-5) == plain


def test_a_batch_in_parts_is_one_batch() -> None:
    with simulation():
        whole, _, model = run(3)
        parts, _, again = run(3, parts=4)
    assert parts.mechanism.clip_of(CLIP) == pytest.approx(whole.mechanism.clip_of(CLIP), rel=1e-6)
    for a, b in zip(again.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_an_empty_batch_votes_nothing() -> None:
    """Whether it gives no row of gradients or one of zeros: a record that joins it moves the count by a half."""
    found = []
    for rows in (ROWS[:0], torch.zeros(1, 2)):
        mechanism = adaptive()
        step(mechanism, rows)
        found.append(mechanism.clip_of(CLIP))
    assert found[0] == found[1]


def test_what_the_report_says_is_public() -> None:
    optimizer, _, _ = run(1)
    assert "clip of every step" in optimizer.privacy(1e-5).public


def test_a_state_of_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^moved must"):
        adaptive().load_state_dict({"moved": math.nan, "inner": {}})


def test_every_process_takes_the_clip_of_the_first() -> None:
    """The optimizer writes the first process's over what is shared, after a step has begun."""
    mechanism = adaptive()
    step(mechanism)
    mechanism.begin_step([torch.zeros(2)])
    mechanism.shared()[0].fill_(math.log(2.0))
    mechanism.contribute([ROWS], CLIP)
    assert mechanism.used == pytest.approx(2 * CLIP, rel=1e-15)
