"""Every mechanism on every kind of layer: factors give what tensors give, step by step, up to rounding."""

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
from opacus.layers import DPGRU, DPLSTM, DPMultiheadAttention
from torch import nn
from torch.nn import functional as F

from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from tests.training import sgd
from tests.training.made_rows import Anchors

N, CLASSES, STEPS, CLIP = 9, 3, 3, 0.1
TOKENS = torch.randint(11, (N, 4), generator=torch.Generator().manual_seed(3))

pytestmark = [pytest.mark.numerics, pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.inner, self.out = nn.Embedding(11, 6), nn.Linear(6, 6), nn.Linear(6, 11, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.inner(self.embedding(tokens)))).mean(1)[:, :CLASSES]


class Recurrent(nn.Module):
    def __init__(self, kind: type) -> None:
        super().__init__()
        self.cells, self.out = kind(5, 4, batch_first=True), nn.Linear(4, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.cells(x)[0].mean(1))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.norm = DPMultiheadAttention(6, 2, batch_first=True), nn.LayerNorm(6)
        self.first, self.second, self.out = nn.Linear(6, 12), nn.Linear(12, 6), nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x + self.attention(x, x, x)[0])
        return self.out((h + self.second(torch.relu(self.first(h)))).mean(1))


class Twice(nn.Module):
    """A dense layer and a convolution that are called twice, and a parameter beside layers."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.dense, self.out = nn.Conv1d(2, 2, 3, padding=1), nn.Linear(5, 5), nn.Linear(10, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.convolution(torch.tanh(self.convolution(x)))
        return self.out(self.dense(torch.tanh(self.dense(h))).flatten(1))


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "dense": (lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)), draw(N, 6)),
    "sequence": (lambda: nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 3, bias=False), nn.Flatten(), nn.Linear(12, 3)),
                 draw(N, 4, 6)),
    "convolutions": (lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, groups=2), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 8, 3, stride=2, bias=False), nn.Tanh(),
        nn.Flatten(), nn.Linear(32, 3)), draw(N, 2, 6, 6)),
    "one channel": (lambda: nn.Sequential(nn.Conv2d(1, 3, 3, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3)), draw(N, 1, 6, 6)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(11, 5, padding_idx=0), nn.Flatten(), nn.Linear(20, 3)), TOKENS),
    "tied": (Tied, TOKENS),
    "lstm": (lambda: Recurrent(DPLSTM), draw(N, 4, 5)),
    "gru": (lambda: Recurrent(DPGRU), draw(N, 4, 5)),
    "attention": (Encoder, draw(N, 4, 6)),
    "called twice": (Twice, draw(N, 2, 5)),
    "frozen first": (lambda: frozen(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))), draw(N, 6)),
}  # fmt: skip


def frozen(model: nn.Sequential) -> nn.Module:
    model[0].requires_grad_(False)
    return model


def anchors(shapes: list[torch.Size], dtype: torch.dtype, device: torch.device) -> Anchors:
    """Seven gradients that do not depend on the weights."""
    generator = torch.Generator().manual_seed(4)
    made = (torch.randn(7, *shape, generator=generator, dtype=dtype) for shape in shapes)
    return Anchors(*(gradient.to(device) for gradient in made))


def mechanisms(model: nn.Module, dtype: torch.dtype) -> Iterator[m.Mechanism]:
    yield from (m.DpSgd(), m.NoisySgd(), m.ClippedSgd())
    half = m.Constant(0.5)
    yield from (
        m.RandomSparsification(half, 0),
        m.RandomSparsification(half, 0, refresh_steps=2),
        m.PosteriorFreeze(half, 0),
    )
    yield from (m.RankedSparsification(half, steps_per_epoch=1, seed=0), m.NoisySparsification(half, 0))
    yield from (
        m.IndexPruning(1.0, half, group_size=8),
        m.TopKOfReleased(half, 8),
        m.NoisyMagnitudeTopK(3.0, half, group_size=8),
    )
    yield m.LayerFreezing(m.RandomSparsification(half, 0), frozen_layers=1, from_step=1)
    shapes = [p.shape for p in model.parameters() if p.requires_grad]
    device = next(model.parameters()).device
    for kind in (m.Gep, m.GepOptimal, m.GepJoint, m.BiasedGep):
        groups = [list(range(len(shapes)))]
        yield kind(anchors(shapes, dtype, device), subspace_dim=3, residual_clip=0.05, groups=groups, seed=0)


COUNT = len(list(mechanisms(nn.Linear(3, 2), torch.float32)))


def trained(
    base: nn.Module,
    x: torch.Tensor,
    number: int,
    mode: str,
    dtype: torch.dtype,
    *,
    device: str = "cpu",
    noise_multiplier: float = 0.3,
) -> list[torch.Tensor] | None:
    """What is released in each step, and the weights at the end; None where the mechanism does not take the model."""
    model = copy.deepcopy(base).to(device, dtype)
    x = x.to(device, dtype if x.is_floating_point() else None)
    with simulation():
        mechanism = list(mechanisms(model, dtype))[number]
        if isinstance(mechanism, m.LayerFreezing) and sum(p.requires_grad for p in model.parameters()) < 3:
            return None
        private, optimizer = sgd.attach(
            model, lr=0.5, mechanism=mechanism, sampling_rate=0.1, expected_batch_size=N,
            noise_multiplier=noise_multiplier, max_grad_norm=CLIP, grad_sample_mode=mode,
            noise_generator=torch.Generator().manual_seed(0),
        )  # fmt: skip
    labels = torch.arange(N, device=device) % CLASSES
    found = []
    for step in range(STEPS):
        optimizer.begin_batch(N)
        optimizer.zero_grad()
        F.cross_entropy(private(x * (1 + step) if x.is_floating_point() else x), labels).backward()
        optimizer.step()
        found.append(torch.cat([p.grad.flatten() for p in optimizer.params]).clone())
    return [*found, torch.cat([p.detach().flatten() for p in model.parameters()])]


@pytest.mark.parametrize("network", NETWORKS)
def test_factors_and_tensors_release_the_same(network: str) -> None:
    build, x = NETWORKS[network]
    torch.manual_seed(1)
    base = build().double()
    for number in range(COUNT):
        plain, factors = (trained(base, x, number, mode, torch.float64) for mode in ("hooks", "factors"))
        if plain is None or factors is None:
            continue
        for one, other in zip(plain, factors, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10 * float(one.abs().max()))


@pytest.mark.parametrize("network", NETWORKS)
def test_factors_and_tensors_agree_in_single_precision(network: str) -> None:
    """Up to units in the last place for each of the terms that an entry of a gradient adds up, over all steps."""
    build, x = NETWORKS[network]
    torch.manual_seed(1)
    base = build()
    plain, factors = (trained(base, x, 0, mode, torch.float32) for mode in ("hooks", "factors"))
    assert plain is not None and factors is not None
    terms = STEPS * N * max(p.numel() for p in base.parameters())
    for one, other in zip(plain, factors, strict=True):
        size = float(one.abs().max())
        assert float((one - other).abs().max()) <= terms * torch.finfo(torch.float32).eps / 2 * size


def test_rows_that_are_not_finite_count_as_zero_and_are_counted() -> None:
    for build, x in (NETWORKS["dense"], NETWORKS["sequence"], NETWORKS["convolutions"]):
        for bad in (torch.nan, torch.inf):
            spoilt = x.double()
            spoilt[2] = bad
            found = []
            for mode in ("hooks", "factors"):
                torch.manual_seed(1)
                model = build().double()
                private, optimizer = sgd.attach(
                    model, lr=0.5, mechanism=m.RandomSparsification(m.Constant(0.5), 0), sampling_rate=0.1,
                    expected_batch_size=N, noise_multiplier=0.0, max_grad_norm=CLIP, grad_sample_mode=mode,
                )  # fmt: skip
                optimizer.begin_batch(N)
                F.cross_entropy(private(spoilt), torch.arange(N) % CLASSES).backward()
                optimizer.step()
                assert optimizer.nonfinite_samples == 1
                found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
            assert bool(torch.isfinite(found[0]).all())
            torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10 * float(found[0].abs().max()))
