"""Public records: the user's own, a shipped set of the same shape, or synthetic ones; and as many mixtures of them as one wants."""

import functools
import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import scipy
import torch
from torch import Tensor
from torch.utils.data import Dataset

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training.data import NAMES, load, standardised

LEAST = 50
"""Public records, below which pilots tell nothing apart."""
_MOST = 20_000
"""Of the user's that are used: more cost time and tell nothing more."""


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """Records of a data set of the project in place of public ones: its shape must be that of the private records.

    Attributes:
        name: "fashion-mnist", "mnist", "cifar-10" or "excerpt".
        count: number of records, 50 to 10,000.

    Raises:
        ValueError: another name or number.

    Example: a thousand images.
        >>> from dptheory.training.planning import Shipped
        >>> Shipped(name="excerpt", count=1000).count
        1000
    """

    name: str
    count: int = 6000

    def __post_init__(self) -> None:
        _validate.choice("name", self.name, tuple(NAMES))
        _validate.store(self, count=_validate.integer("count", self.count, LEAST, 10_000))

    def records(self, seed: int) -> tuple[Tensor, Tensor]:
        """Standardised test images, and their labels."""
        images = standardised(load(name=self.name, train=False))
        chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[: self.count]
        return images.pixels[chosen], images.labels[chosen]


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Normal records about one centre for each class, where there are neither public records nor a set of their shape.

    Attributes:
        shape: of one record's features.
        classes: number of classes, >= 2.
        scale: root mean square of the private records' entries, as far as it is known without them.
        count: number of records.

    Example: images of one channel.
        >>> from dptheory.training.planning import Synthetic
        >>> features, labels = Synthetic(shape=(1, 28, 28), classes=10).records(seed=0)
        >>> features.shape, labels.max()
        (torch.Size([6000, 1, 28, 28]), tensor(9))
    """

    shape: tuple[int, ...]
    classes: int
    scale: float = 1.0
    count: int = 6000

    def __post_init__(self) -> None:
        _validate.store(
            self,
            shape=tuple(_validate.integers("shape", self.shape, 1, 10**6)),
            classes=_validate.integer("classes", self.classes, 2, 10**4),
            scale=_validate.real("scale", self.scale, 1e-6, 1e6),
            count=_validate.integer("count", self.count, LEAST, _MOST),
        )

    def records(self, seed: int) -> tuple[Tensor, Tensor]:
        """Features and labels: centres so far apart that neighbouring classes overlap, in a space of few directions.

        Images are smooth: their energies, and what tells classes apart, lie in the low frequencies, where a convolution sees them.
        """
        generator = torch.Generator().manual_seed(seed)
        dim = math.prod(self.shape)
        # energies that fall like 1/j, as those of images do
        spread = torch.arange(1, dim + 1, dtype=torch.float32).rsqrt()
        spread = spread / spread.square().mean().sqrt()
        labels = torch.arange(self.count) % self.classes
        centres = torch.randn(self.classes, dim, generator=generator) * _SEPARATION / math.sqrt(dim) * spread
        noise = torch.randn(self.count, dim, generator=generator)
        image = len(self.shape) > 2
        place = _by_frequency(self.shape) if image else torch.randperm(dim, generator=generator)
        features = ((centres[labels] + noise) * spread)[:, place].reshape(self.count, *self.shape)
        if image:
            features = torch.from_numpy(scipy.fft.idctn(features.numpy(), axes=(-2, -1), norm="ortho"))
        features = features / features.square().mean().sqrt() * self.scale
        mixed = torch.randperm(self.count, generator=generator)
        return features[mixed], labels[mixed]


def _by_frequency(shape: tuple[int, ...]) -> Tensor:
    """For each coefficient of an image its place among all, the lowest frequencies first."""
    height, width = shape[-2:]
    squares = torch.arange(height)[:, None] ** 2 + torch.arange(width)[None] ** 2
    return squares.expand(*shape).flatten().argsort(stable=True).argsort()


_SEPARATION = 5.0
Public = Dataset[Any] | Shipped | Synthetic


def public_records(public: Public, *, seed: int) -> tuple[Tensor, Tensor]:
    """Features and labels as two tensors.

    Raises:
        ValueError: fewer than 50 records, or such as are no pairs of tensors of one shape.
    """
    if isinstance(public, Shipped | Synthetic):
        return public.records(seed)
    features, labels = tensors("public", public)
    if len(labels) < LEAST:
        raise ArgumentError(
            "public", f"hold at least {LEAST} records", len(labels), then=": with fewer, pilots tell nothing apart"
        )
    chosen = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[:_MOST]
    return features[chosen], labels[chosen]


def tensors(name: str, data: Dataset[Any]) -> tuple[Tensor, Tensor]:
    """The records of a data set of pairs, as two tensors."""
    held = getattr(data, "tensors", None)
    if isinstance(held, tuple) and len(held) == 2 and all(isinstance(t, Tensor) for t in held):
        return held[0], held[1]
    try:
        count = len(data)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(name, "be a data set with a length", data) from None
    try:
        pairs = [data[i] for i in range(count)]
        features = torch.stack([torch.as_tensor(one) for one, _ in pairs])
        return features, torch.stack([torch.as_tensor(label) for _, label in pairs])
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(
            name, "hold pairs of features and label, tensors of one shape each", data, then=f": {error}"
        ) from error


def refuse_private(public: Tensor, private: Dataset[Any]) -> None:
    """See that no public record is a private one.

    Raises:
        ValueError: one is.
    """
    known = set(_digests(public))
    features, _ = tensors("private", private)
    both = sum(digest in known for digest in _digests(features))
    if both:
        raise ArgumentError(
            "public",
            "hold no private record",
            public,
            got=f"{both} that private holds too: what a plan takes from them is not accounted for; take "
            "them out of private, or out of public",
        )


def _digests(features: Tensor) -> Iterable[bytes]:
    for row in features.detach().cpu().contiguous():
        yield hashlib.sha256(row.numpy().tobytes()).digest()


_SPREAD = 0.3
"""Share of the difference of two other records that is added to a record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixtures:
    r"""Records x_i + h (x_j - x_k), shrunk about the mean: means and covariances stay. Whole numbers stay x_i.

    They are made where they are asked for, so that many take no memory.

    Attributes:
        records: shape (n, ...).
        indices: i, j and k of each, shape (count, 3).
    """

    records: Tensor
    indices: Tensor

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, which: Tensor | slice) -> Tensor:
        first, second, third = (self.records[index] for index in self.indices[which].T)
        if not self.records.dtype.is_floating_point:
            return first
        mixed: Tensor = self._mean + (first - self._mean + _SPREAD * (second - third)) / math.sqrt(
            1.0 + 2.0 * _SPREAD**2
        )
        return mixed

    @functools.cached_property
    def _mean(self) -> Tensor:
        return self.records.mean(0)

    def part(self, which: slice) -> "Mixtures":
        """Some of them."""
        return Mixtures(records=self.records, indices=self.indices[which])
