"""Lists that must be of one length are refused where they are not, never cut to the shorter one."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from dptheory.training import mechanisms as m
from dptheory.training.audits import _attacks, _board, _cases, _measure, _suite
from dptheory.training.data import Images
from dptheory.training.engine import attach
from dptheory.training.mechanisms import Contribution, clipped_sum, sample_norms
from dptheory.training.mechanisms._clipping import weighted_sum
from dptheory.training.runs import accuracy

HALF = m.Constant(0.5)
TWO = [torch.ones(4), torch.ones(2)]
SAMPLES = [torch.ones(3, 4), torch.ones(3, 2)]


def quiet(like: torch.Tensor, std: float) -> torch.Tensor:
    return torch.zeros_like(like)


@pytest.mark.parametrize(
    "mechanism",
    [
        m.RandomSparsification(HALF, 0),
        m.PosteriorFreeze(HALF, 0),
        m.RankedSparsification(HALF, steps_per_epoch=1, seed=0),
    ],
)
def test_totals_of_other_parameters(mechanism: m.Mechanism) -> None:
    mechanism.begin_step(TWO)
    for wrong in (TWO[:1], [*TWO, torch.ones(1)]):
        with pytest.raises(ValueError, match="zip"):
            mechanism.release(wrong, noise_multiplier=1.0, clip_norm=1.0, noise=quiet)


def test_releases_of_other_parameters() -> None:
    ranked, true = (
        m.RankedSparsification(HALF, steps_per_epoch=5, seed=0),
        m.RankedByTrueGradients(HALF, steps_per_epoch=5, seed=0),
    )
    ranked.begin_step(TWO)
    with pytest.raises(ValueError, match="zip"):
        ranked.end_step(TWO[:1], 1.0)
    true.begin_step(TWO)
    true._true = TWO[:1]
    with pytest.raises(ValueError, match="zip"):
        true.end_step(TWO, 1.0)


def test_samples_and_masks() -> None:
    for call in (
        lambda: sample_norms(SAMPLES, mask=TWO[:1]),
        lambda: weighted_sum(SAMPLES, torch.ones(3), mask=TWO[:1]),
    ):
        with pytest.raises(ValueError, match="zip"):
            call()
    freeze = m.PosteriorFreeze(HALF, 0)
    freeze.begin_step(TWO)
    with pytest.raises(ValueError, match="zip"):
        freeze.contribute(SAMPLES[:1], 1.0)
    assert len(clipped_sum(SAMPLES, 1.0).total) == 2


def test_embeddings_of_other_parameters() -> None:
    class Anchors:
        def __call__(self) -> list[torch.Tensor]:
            return [torch.eye(4), torch.ones(4, 2)]

        def state_dict(self) -> dict:
            return {}

        def load_state_dict(self, state: dict) -> None:
            pass

    gep = m.Gep(Anchors(), subspace_dim=2, residual_clip=1.0, groups=[[0], [1]], seed=0)
    gep.begin_step(TWO)
    total = gep.contribute(SAMPLES, 1.0).total
    for wrong in (total[:2], [*total, torch.ones(1)]):
        with pytest.raises(ValueError, match="zip"):
            gep.release(wrong, noise_multiplier=1.0, clip_norm=1.0, noise=quiet)


def test_images_without_labels() -> None:
    images = Images("a", torch.zeros(2000, 3), torch.zeros(1000, dtype=torch.int64))
    with pytest.raises(ValueError, match="zip"):
        accuracy(nn.Linear(3, 2), images, torch.device("cpu"))


class Uneven(m.DpSgd):
    """Forgets a tensor in its release, or in the second part of a batch."""

    def __init__(self, in_release: bool) -> None:
        self.in_release, self.parts = in_release, 0

    def contribute(self, samples: list[torch.Tensor], clip_norm: float) -> Contribution:
        found = super().contribute(samples, clip_norm)
        self.parts += 1
        return found if self.in_release or self.parts == 1 else Contribution(found.total[:1], 0)

    def release(self, total, *, noise_multiplier, clip_norm, noise):
        return total[:1] if self.in_release else total


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("in_release", [False, True])
def test_a_mechanism_that_forgets_a_tensor(in_release: bool) -> None:
    model = nn.Linear(3, 2)
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), mechanism=Uneven(in_release),
        sampling_rate=0.5, train_size=8, noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    optimizer.begin_batch()
    with pytest.raises(ValueError, match="zip"):
        for more in (True, False):
            optimizer.zero_grad()
            optimizer.signal_skip_step(do_skip=more)
            private(torch.ones(2, 3)).sum().backward()
            optimizer.step()


def trace(steps: int) -> _board.Trace:
    one = _board.Step(np.array([0]), np.ones(1000), np.ones(1000), np.zeros(0))
    return _board.Trace(_suite.plan(0), (one,) * steps, lambda delta: SimpleNamespace(epsilon=1.0))


def test_trainings_of_unequal_length(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _cases.cases()[0]
    made = iter((trace(2), trace(1)))
    monkeypatch.setattr(_board, "train", lambda *a: next(made))
    with pytest.raises(ValueError, match="zip"):
        _measure._farthest(case, _suite.plan(0), _suite.plan(0), 0)
    short = replace(trace(1), plan=_suite.plan(0))
    monkeypatch.setattr(_board, "train", lambda *a: short)
    monkeypatch.setattr(_attacks, "foretold", lambda *a: [np.ones(1000)] * 2)
    with pytest.raises(ValueError, match="zip"):
        _attacks.foreseen(_suite.random_k, 1000, 1.0, 2, 1e-2, 1, 0)
