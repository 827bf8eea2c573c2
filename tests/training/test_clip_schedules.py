"""The clip may change from batch to batch: one batch has one, and a step sees whether it is a clip at all."""

import math

import pytest
import torch
from opacus.schedulers import ExponentialGradClip
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import make_private
from dptheory.training.mechanisms import AnchorGradients, DpSgd, GepJoint
from tests.refused import refused

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")


class Clips(DpSgd):
    """DP-SGD that notes the clips it is handed, and the noise that it is told of."""

    def __init__(self) -> None:
        self.parts: list[float] = []
        self.batches: list[tuple[list[float], float, float]] = []

    def contribute(self, samples, clip_norm):
        self.parts.append(clip_norm)
        return super().contribute(samples, clip_norm)

    def release(self, total, *, noise_multiplier, clip_norm, noise):
        self.released = clip_norm
        return super().release(total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)

    def end_step(self, released, std: float) -> None:
        self.batches.append((self.parts, self.released, std))
        self.parts = []


def made(mechanism, model):
    data = TensorDataset(torch.randn(64, 5), torch.arange(64) % 3)
    return make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=mechanism, max_grad_norm=8.0,
        data_loader=DataLoader(data, batch_size=32, generator=torch.Generator().manual_seed(0)), noise_multiplier=0.5,
        probe=False,
    )  # fmt: skip


def one(private, optimizer, features, labels) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(private(features), labels).backward()
    optimizer.step()


def test_a_schedule_that_moves_between_parts_leaves_each_batch_one_clip() -> None:
    mechanism = Clips()
    private, optimizer, batches = made(mechanism, nn.Linear(5, 3))
    schedule = ExponentialGradClip(optimizer, gamma=0.5)
    with BatchMemoryManager(data_loader=batches, max_physical_batch_size=8, optimizer=optimizer) as small:
        for part in small:
            one(private, optimizer, *part)
            schedule.step()
    assert len(mechanism.batches) == 2 and all(len(parts) > 2 for parts, _, _ in mechanism.batches)
    for parts, released, std in mechanism.batches:
        assert set(parts) == {released} and std == 0.5 * released
    assert mechanism.batches[0][1] == 8.0 and mechanism.batches[1][1] == 8.0 * 0.5 ** len(mechanism.batches[0][0])


@pytest.mark.parametrize("clip", [0, -1.0, 1e-20, math.inf, math.nan, None, [1.0, 1.0], "1"])
def test_a_step_sees_the_clip_that_it_is_left(clip) -> None:
    private, optimizer, batches = made(DpSgd(), nn.Linear(5, 3))
    optimizer.max_grad_norm = clip
    with refused("max_grad_norm"):
        one(private, optimizer, *next(iter(batches)))
    assert optimizer.accountant.steps == 0


def test_a_step_sees_whether_the_mechanism_takes_the_clip() -> None:
    model = nn.Linear(5, 3)
    anchors = AnchorGradients(model, torch.randn(20, 5), classes=3, seed=0)
    private, optimizer, batches = made(
        GepJoint(anchors, subspace_dim=3, residual_clip=0.5, groups=[[0, 1]], seed=0), model
    )
    optimizer.max_grad_norm = 0.4
    with refused("residual_clip"):
        one(private, optimizer, *next(iter(batches)))
