"""The networks whose steps are timed, with batches of random numbers."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from dptheory.training import networks
from dptheory.training._randomness import seeded

CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A network, and the batch that it is timed on.

    Attributes:
        name: as the page has it.
        build: from a seed to the network.
        shape: of one example.
        batch: number of examples.
        rounds: most rounds, for steps that take seconds.
    """

    name: str
    build: Callable[[int], nn.Module]
    shape: tuple[int, ...]
    batch: int
    rounds: int = 1000

    def model(self) -> nn.Module:
        """At its starting weights."""
        return self.build(0)

    def examples(self, count: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Normal inputs, and labels that have nothing to do with them."""
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(count, *self.shape, generator=generator)
        return inputs, torch.randint(0, CLASSES, (count,), generator=generator)


class _Encoder(nn.Module):
    """A layer of a transformer's encoder: normalised in front, without dropout, of plain linear layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.before(x)
        parts = (
            layer(seen).unflatten(2, (self._heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        x = x + self.out(scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))
        inner: Tensor = self.down(self.up(self.between(x)).relu())
        return x + inner


class _MeanOverTime(nn.Module):
    """From (batch, time, width) to (batch, width)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def transformer(seed: int) -> nn.Module:
    """Two encoder layers of width 64 with four heads, for sequences of vectors of 16 entries."""
    return seeded(
        seed,
        lambda: nn.Sequential(
            nn.Linear(16, 64),
            _Encoder(64, 4),
            _Encoder(64, 4),
            nn.LayerNorm(64),
            _MeanOverTime(),
            nn.Linear(64, CLASSES),
        ),
    )


def linear(seed: int) -> nn.Module:
    """3,969 features, the scattering coefficients of a small image, and ten classes."""
    return networks.linear_probe(seed, features=3969)


NETWORKS: dict[str, Timed] = {
    one.name: one
    for one in (
        Timed(name="linear", build=linear, shape=(3969,), batch=1024),
        Timed(name="MLP", build=networks.mlp, shape=networks.IMAGE_SHAPE, batch=512),
        Timed(name="small CNN", build=networks.small_tanh_cnn, shape=networks.IMAGE_SHAPE, batch=512),
        Timed(name="WRN-16-4", build=networks.wrn_16_4, shape=(3, 32, 32), batch=4, rounds=3),
        Timed(name="transformer", build=transformer, shape=(32, 16), batch=128, rounds=12),
    )
}
