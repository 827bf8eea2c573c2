"""Crops and flips of images: views that differ as photographs of one thing do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dptheory import _validate
from dptheory.errors import ArgumentError

_LARGEST = 1 << 10


@dataclass(frozen=True, kw_only=True)
class CropsAndFlips:
    """A random crop of the padded image, of its own size, and in half of the cases its mirror image.

    Called with an image, or with a record that holds one, as an ``augmentation`` of :func:`dptheory.training.make_private`. Random
    numbers come from torch's global generator, which ``torch.manual_seed`` sets; :meth:`draws` takes another one.

    Args:
        shift: pixels by which the crop moves at most in either direction, 0..1024; zeros stand beyond the edge.
        flips: whether images are mirrored, left to right. Not for digits and letters.

    Example: without shifts and flips an image stays what it is, and so does its label.
        >>> import torch
        >>> from dptheory.training.data import CropsAndFlips
        >>> CropsAndFlips(shift=0, flips=False)((torch.tensor([[[1.0, 2.0]]]), 7))
        (tensor([[[1., 2.]]]), 7)
    """

    shift: int = 4
    flips: bool = True

    def __post_init__(self) -> None:
        _validate.store(self, shift=_validate.integer("shift", self.shift, 0, _LARGEST))
        _validate.flag("flips", self.flips)

    def __call__(self, record: Any) -> Any:
        """A view of an image of shape (channels, height, width), or of a tuple or list whose first tensor is one."""
        if isinstance(record, torch.Tensor):
            return self._view(record)
        if isinstance(record, Sequence) and not isinstance(record, str):
            place = next((i for i, one in enumerate(record) if isinstance(one, torch.Tensor) and one.dim() == 3), None)
            if place is not None:
                parts = [self._view(one) if i == place else one for i, one in enumerate(record)]
                return type(record)(*parts) if hasattr(record, "_fields") else type(record)(parts)  # type: ignore[call-arg]
        raise ArgumentError(
            "record",
            "be an image of shape (channels, height, width), or a tuple with one",
            record,
            then="; give make_private an augmentation of your own",
        )

    def _view(self, image: torch.Tensor) -> torch.Tensor:
        if image.dim() != 3:
            raise ArgumentError("record", "be an image of shape (channels, height, width)", tuple(image.shape))
        return self.views(image[None], self.draws(1))[0]

    def draws(self, count: int, generator: torch.Generator | None = None) -> torch.Tensor:
        """Random numbers of so many views, whole, shape (count, 3): the corner of each crop, and whether it is mirrored.

        Args:
            count: >= 0.
            generator: of the CPU; None for torch's global one.
        """
        corners = torch.randint(2 * self.shift + 1, (count, 2), generator=generator)
        mirrored = torch.randint(2, (count, 1), generator=generator)
        return torch.cat([corners, mirrored if self.flips else torch.zeros_like(mirrored)], 1)

    def views(self, images: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """The views of images, shape (count, channels, height, width), with the random numbers of each.

        Args:
            images: shape (n, channels, height, width), n at least 1 where there are views: image i has view i * count / n and
                those behind it.
            drawn: of :meth:`draws`, count a multiple of n.

        Returns:
            Of the device of the images.
        """
        n, _, height, width = images.shape
        drawn = drawn.to(images.device)
        padded = nn.functional.pad(images, [self.shift] * 4)
        rows = drawn[:, 0, None] + torch.arange(height, device=images.device)
        across = torch.arange(width, device=images.device).expand(len(drawn), width)
        columns = drawn[:, 1, None] + torch.where(drawn[:, 2, None] > 0, width - 1 - across, across)
        of = torch.arange(n, device=images.device).repeat_interleave(len(drawn) // max(n, 1))
        picked = padded.movedim(1, -1)[of[:, None, None], rows[:, :, None], columns[:, None, :]]
        return picked.movedim(-1, 1).contiguous()
