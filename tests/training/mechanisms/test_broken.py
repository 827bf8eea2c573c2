"""What breaks the guarantee, step by step: it must break it as it says, or the audits would catch something else."""

import numpy as np
import pytest
import torch

from dptheory.training import mechanisms as m
from tests.refused import refused

CLIP, SIGMA = 1.5, 2.0
HALF = m.Constant(0.5)


def rows(count: int, dim: int = 6) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(count).standard_normal((count, dim))).float()


def clipped(values: torch.Tensor) -> torch.Tensor:
    norms = values.norm(dim=1, keepdim=True)
    return (values * torch.where(norms > CLIP, CLIP / norms, 1.0)).sum(0)


def fixed(like: torch.Tensor, std: float) -> torch.Tensor:
    """The same noise at every call: 1, 2, ... standard deviations."""
    return std * torch.arange(1.0, like.numel() + 1).view(like.shape)


@pytest.mark.parametrize("parts", [(), (0,), (1,), (3,), (2, 3)])
def test_division_by_the_drawn_batch_size(parts: tuple[int, ...]) -> None:
    mechanism = m.BatchSizeDivisor(expected_batch_size=8.0, drop_rate=0.5, seed=4)
    for _ in range(2):  # counted anew in every step
        mechanism.begin_step([torch.zeros(6)])
        found = [mechanism.contribute([rows(count)], CLIP).total[0] for count in parts]
        total = sum(found, torch.zeros(6))
        mask = mechanism.mask[0].float()
        wanted = sum((clipped(rows(count) * mask) for count in parts), torch.zeros(6))
        torch.testing.assert_close(total, wanted)
        (released,) = mechanism.release([total], noise_multiplier=SIGMA, clip_norm=CLIP, noise=fixed)
        torch.testing.assert_close(released, (wanted + fixed(wanted, 3.0)) * mask * 8.0 / max(sum(parts), 1))
        mechanism.end_step([released], SIGMA * CLIP)
    assert mechanism.cost(SIGMA).noise_multiplier == 0.0


def test_a_velocity_without_noise() -> None:
    """The sums leave as they are; the next mask is ranked by them with noise."""
    mechanism = m.UnnoisedVelocity(HALF, steps_per_epoch=1, seed=4)
    mechanism.begin_step([torch.zeros(6)])
    total = torch.tensor([9.0, 8.0, 7.0, 0.0, 0.0, 0.0])
    (released,) = mechanism.release([total], noise_multiplier=SIGMA, clip_norm=CLIP, noise=fixed)
    assert torch.equal(released, total)
    mechanism.end_step([released], SIGMA * CLIP)
    noised = total + fixed(total, 3.0)  # 12, 14, 16, 12, 15, 18
    assert mechanism.mask[0].tolist() == (noised >= noised.sort().values[3]).tolist()
    assert mechanism.cost(SIGMA).noise_multiplier == 0.0


def test_the_largest_of_the_private_sum() -> None:
    mechanism = m.TopKWithoutNoise(0.5)
    samples = rows(4)
    (total,) = mechanism.contribute([samples], CLIP).total
    torch.testing.assert_close(total, clipped(samples))
    (released,) = mechanism.release([total], noise_multiplier=SIGMA, clip_norm=CLIP, noise=fixed)
    kept = total.abs() >= total.abs().sort().values[3]
    torch.testing.assert_close(released, (total + fixed(total, 3.0)) * kept)
    assert mechanism.cost(SIGMA).noise_multiplier == 0.0
    whole = m.TopKWithoutNoise(1.0)
    assert (
        whole.release([total], noise_multiplier=0.0, clip_norm=CLIP, noise=lambda like, std: torch.zeros_like(like))[
            0
        ].count_nonzero()
        == 6
    )


def test_a_rate_is_refused_by_its_name() -> None:
    for rate in (1.0, 1.05, -0.1):
        with refused("drop_rate"):
            m.BatchSizeDivisor(expected_batch_size=8.0, drop_rate=rate, seed=4)
