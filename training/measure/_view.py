"""A run at one of its steps, as measurements see it: per-sample gradients of test images at its present weights."""

import functools
from dataclasses import KW_ONLY, dataclass, field

import torch
from torch import nn

from dptheory.training.data import Images
from dptheory.training.mechanisms import RandomSparsification, RankedSparsification, clip_factors, layers
from dptheory.training.networks import layer_slices, mean_gradient, per_sample_gradients
from dptheory.training.runs import Run, build_model

_CHUNK = 250


def gradients_of(model: nn.Module, images: Images) -> torch.Tensor:
    """Gradient of every image's cross-entropy, flat: shape (n, d)."""
    return per_sample_gradients(model, images.pixels, images.labels, physical_batch_size=_CHUNK)


def module_slices(model: nn.Module) -> dict[str, slice]:
    """Where each layer lies in the flat gradient: its weights and its bias together."""
    found: dict[str, slice] = {}
    for name, place in layer_slices(model).items():
        layer = name.rsplit(".", 1)[0]
        found[layer] = slice(found[layer].start if layer in found else place.start, place.stop)
    return found


def trained_entries(model: nn.Module) -> torch.Tensor:
    """True where an entry of the flat gradient belongs to a layer that is trained, shape (d,)."""
    return torch.cat([torch.full((p.numel(),), p.requires_grad) for p in model.parameters()])


@dataclass
class View:
    """What a measurement may look at. It draws from a generator of its own, and leaves the run as it is.

    Attributes:
        run: under way; nothing of it is changed.
        images: test images, of which ``examples`` are the first.
        generator: of the measurements, on the CPU.
        masks: of the run at the steps where they were collected, flat; True where an entry is kept.
    """

    run: Run
    examples: int
    generator: torch.Generator
    _: KW_ONLY
    masks: list[torch.Tensor] = field(default_factory=list)

    @functools.cached_property
    def model(self) -> nn.Module:
        """A copy of the network without Opacus's hooks."""
        model = build_model(self.run.config.model, features=self.run.test.pixels[0].numel(), seed=0)
        model.load_state_dict(self.run.model.state_dict())
        return model

    @functools.cached_property
    def gradients(self) -> torch.Tensor:
        """Of the first test images, shape (n, d)."""
        return gradients_of(self.model, self.test(0, self.examples))

    @functools.cached_property
    def squares(self) -> torch.Tensor:
        """Squared entries of the gradients."""
        return self.gradients.square()

    @functools.cached_property
    def mean(self) -> torch.Tensor:
        """Mean gradient of the examples, shape (d,), in float64."""
        return self.gradients.double().mean(0)

    @functools.cached_property
    def true(self) -> torch.Tensor:
        """Mean gradient of all test images, shape (d,)."""
        return mean_gradient(self.model, self.run.test.pixels, self.run.test.labels)

    @functools.cached_property
    def layers(self) -> dict[str, slice]:
        """Where each layer lies in the flat gradient."""
        return module_slices(self.model)

    @property
    def dim(self) -> int:
        """d."""
        return sum(p.numel() for p in self.run.model.parameters())

    @property
    def clip_norm(self) -> float:
        """C."""
        return self.run.config.max_grad_norm

    @property
    def sum_noise_std(self) -> float:
        """Of an entry of the noise on the sum: sigma C."""
        return float(self.run.optimizer.noise_multiplier * self.clip_norm)

    @property
    def batch_size(self) -> int:
        """B."""
        return self.run.config.batch_size

    @functools.cached_property
    def trained(self) -> torch.Tensor:
        """True where an entry belongs to a layer that is trained, shape (d,)."""
        return trained_entries(self.run.model)

    @functools.cached_property
    def kept(self) -> torch.Tensor:
        """True where an entry is neither frozen nor masked out before clipping, shape (d,)."""
        mechanism = self.run.optimizer.mechanism
        if not isinstance(mechanism, RandomSparsification | RankedSparsification) or not mechanism.mask:
            return self.trained
        return torch.cat([m.flatten().cpu() for m in mechanism.mask]).bool()

    def test(self, first: int, last: int) -> Images:
        """The test images from one number to another."""
        test = self.run.test
        return Images(test.name, test.pixels[first:last], test.labels[first:last])

    def without_first(self, count: int) -> torch.Tensor:
        """True where an entry does not belong to the first layers, shape (d,)."""
        frozen = {id(p) for layer in layers(self.run.model)[:count] for p in layer.parameters(recurse=False)}
        return torch.cat([torch.full((p.numel(),), id(p) not in frozen) for p in self.run.model.parameters()])

    def norms(self, kept: torch.Tensor) -> torch.Tensor:
        """Norms of the masked gradients: shape (n,), or (n, m) of m masks (d, m)."""
        return (self.squares @ kept.float()).sqrt()

    def clipped_mean(self, kept: torch.Tensor) -> torch.Tensor:
        """Mean of the masked and clipped gradients, shape (d,), or (m, d) of m masks (d, m)."""
        factors = clip_factors(self.norms(kept), self.clip_norm)
        return (factors.t() @ self.gradients) / len(self.gradients) * kept.t()

    def drawn_masks(self, drop_rate: float, count: int) -> torch.Tensor:
        """Uniform masks that keep round((1 - r) d) entries, shape (d, count)."""
        found = torch.zeros(self.dim, count, dtype=torch.bool)
        for column in range(count):
            kept = torch.randperm(self.dim, generator=self.generator)[: round((1 - drop_rate) * self.dim)]
            found[kept, column] = True
        return found

    def noise(self, *shape: int) -> torch.Tensor:
        """Standard normal numbers."""
        return torch.randn(*shape, generator=self.generator)


def angle(a: torch.Tensor, b: torch.Tensor) -> float | None:
    """Between two vectors, in radians; None where one of them is zero."""
    lengths = float(a.double().norm() * b.double().norm())
    if not lengths:
        return None
    return float(torch.acos((a.double() @ b.double() / lengths).clamp(-1.0, 1.0)))
