"""Per-example gradients of a convolution's kernel as factors: inputs and output gradients."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from dptheory.training.per_example._dense import Dense, small
from dptheory.training.per_example._formed import Formed, formed_projections, formed_sums, in_blocks
from dptheory.training.per_example._representation import (
    CHUNK,
    Representation,
    Tensors,
    at_once,
    behind,
    filled,
    over_views,
    widened,
)

_PATCHES = 1 << 18
"""Entries of patches that are held at once: what stays in a CPU's cache, and new memory of that size is had without clearing it."""


@dataclass(frozen=True)
class Geometry:
    """How a convolution goes over its input: a number for each dimension of space; of padding one before it and one behind."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    groups: int

    @staticmethod
    def of(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> "Geometry":
        """That of a layer of torch that pads with zeros."""
        if layer.padding == "same":  # the odd zero stands behind, as torch has it
            whole = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
            padding = tuple((w // 2, w - w // 2) for w in whole)
        elif layer.padding == "valid":
            padding = tuple((0, 0) for _ in layer.kernel_size)
        else:
            padding = tuple((int(p), int(p)) for p in layer.padding)
        return Geometry(layer.kernel_size, layer.stride, layer.dilation, padding, layer.groups)

    def padded(self, inputs: torch.Tensor) -> torch.Tensor:
        """The input with its zeros."""
        ends = [end for pair in reversed(self.padding) for end in pair]
        return nn.functional.pad(inputs, ends) if any(ends) else inputs

    def patches(self, inputs: torch.Tensor) -> torch.Tensor:
        """The padded input below each place: shape (n, *places, *kernel, channels).

        Channels stand last in memory: to copy runs of them takes a quarter of the time of copying runs of a kernel's last dimension.
        """
        found = self.padded(inputs).movedim(1, -1).contiguous()
        for axis, (kernel, stride, dilation) in enumerate(zip(self.kernel, self.stride, self.dilation, strict=True)):
            found = found.unfold(1 + axis, dilation * (kernel - 1) + 1, stride)
        for axis, dilation in enumerate(self.dilation):
            found = found[(slice(None),) * (found.dim() - len(self.dilation) + axis) + (slice(None, None, dilation),)]
        space = len(self.kernel)
        return found.movedim(1 + space, -1)


class Convolution(Representation):
    r"""Factors of the kernel of a convolution, shape (out, in / groups, \*kernel).

    At each place the layer is dense on the patch below the kernel, so that the gradient of an example is that of a dense layer on
    a sequence of patches. Patches are larger than the input by the size of the kernel, so they are not kept; weighted sums come
    from torch's own gradient of a kernel.

    Args:
        output_gradients: b, shape (n, out, \*places).
        inputs: a, shape (n, in, \*space).
        geometry: of the layer.
        views: rows of an example, which lie together: its gradient is their sum.

    Example: a kernel of one entry sees each place of an input alone.
        >>> import torch
        >>> from dptheory.training.per_example import Convolution
        >>> from dptheory.training.per_example._convolution import Geometry
        >>> geometry = Geometry.of(torch.nn.Conv1d(1, 1, 1))
        >>> Convolution(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0]]]), geometry).formed()
        tensor([[[[11.]]]])
    """

    def __init__(
        self, output_gradients: torch.Tensor, inputs: torch.Tensor, geometry: Geometry, *, views: int = 1
    ) -> None:
        self._b, self._a, self._geometry, self._views = widened(output_gradients), widened(inputs), geometry, views
        if self._b.dtype != self._a.dtype:
            self._b, self._a = self._b.double(), self._a.double()
        self.dtype, self.computed_in = self._b.dtype, output_gradients.dtype
        self.shape = torch.Size(
            (len(self._b) // views, self._b.shape[1], self._a.shape[1] // geometry.groups, *geometry.kernel)
        )

    def _as_dense(self, examples: slice) -> list[Dense]:
        """The gradients of a run of examples as those of a dense layer on patches, one for each group of channels.

        Their entries stand in the order (*kernel, channels).
        """
        geometry, rows = self._geometry, self._rows_of(examples)
        patches = geometry.patches(self._a[rows]).flatten(1, len(geometry.kernel)).flatten(2, -2)
        channels = patches.shape[3]
        b, patches = behind(self._b[rows].flatten(2).mT, self._views), behind(patches, self._views)
        inn, out = channels // geometry.groups, b.shape[2] // geometry.groups
        return [
            Dense(b[..., g * out : (g + 1) * out], patches[..., g * inn : (g + 1) * inn].flatten(2))
            for g in range(geometry.groups)
        ]

    def _rows_of(self, examples: slice) -> slice:
        """Those of a run of examples."""
        start, stop, _ = examples.indices(len(self))
        return slice(start * self._views, stop * self._views)

    def _for_each_row(self, numbers: torch.Tensor) -> torch.Tensor:
        """What belongs to an example, for each of its rows."""
        return numbers if self._views == 1 else numbers.repeat_interleave(self._views)

    def chunks(self, beside: int = 1) -> Iterator[slice]:
        """Of fewer examples where each has more rows: it is patches that take the memory."""
        whole = list(super().chunks(beside))
        step = max(1, beside, (whole[0].stop if whole else 1) // self._views)
        if self.device.type != "cpu":  # a chunk's patches are there together
            step = max(1, min(step, at_once(self.device, CHUNK) // max(1, self._patch_entries)))
        return (slice(start, min(start + step, len(self))) for start in range(0, len(self), step))

    @property
    def _patch_entries(self) -> int:
        """Of one example."""
        places, kernel = self._b.shape[2:].numel(), self.shape[3:].numel()
        return self._views * places * self._a.shape[1] * kernel

    @property
    def device(self) -> torch.device:
        return self._b.device

    def square_norms(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        groups = self._geometry.groups
        masks = [None] * groups if mask is None else list(mask.movedim(1, -1).flatten(1).chunk(groups))
        found = self._b.new_zeros(len(self), dtype=torch.float64)
        for part in self.chunks():
            for dense, own in zip(self._as_dense(part), masks, strict=True):
                found[part] += dense.square_norms(own)
        return found

    def weighted_sum(self, weights: torch.Tensor) -> torch.Tensor:
        geometry, each = self._geometry, self._for_each_row(weights.to(self.dtype))
        even = all(before == behind for before, behind in geometry.padding)
        padding = [before for before, _ in geometry.padding] if even else [0] * len(geometry.kernel)

        def of(block: slice) -> torch.Tensor:
            rows = self._rows_of(block)
            scaled = self._b[rows] * each[rows].view(-1, *[1] * (self._b.dim() - 1))
            inputs = self._a[rows] if even else geometry.padded(self._a[rows])
            found: torch.Tensor = torch.ops.aten.convolution_backward(
                scaled, inputs, scaled.new_empty(self.shape[1:]), None, list(geometry.stride), padding,
                list(geometry.dilation), False, [0] * len(geometry.kernel), geometry.groups, [False, True, False],
            )[1]  # fmt: skip
            return found

        return in_blocks(of, len(self))

    def formed(self, examples: slice = slice(None)) -> torch.Tensor:
        if self._a.shape[1] == 1:
            return self._formed_by_convolution(examples)
        start, stop, _ = examples.indices(len(self))
        _, out, inn, *kernel = self.shape
        found = self._b.new_empty(max(0, stop - start), out, *kernel, inn)
        rows, groups = found.flatten(2), self._geometry.groups
        count = max(1, at_once(self.device, _PATCHES) // max(1, self._patch_entries))
        for first in range(start, stop, count):
            run = slice(first, min(first + count, stop))
            here = rows[first - start : run.stop - start].chunk(groups, dim=1)
            for dense, own in zip(self._as_dense(run), here, strict=True):
                torch.bmm(dense._b.mT, dense._a, out=own)
        return found.movedim(-1, 2)

    def _formed_by_convolution(self, examples: slice) -> torch.Tensor:
        """Of one input channel; of views in chunks, so that what is formed of single rows takes no memory worth mentioning."""
        start, stop, _ = examples.indices(len(self))
        few = at_once(self.device, CHUNK) // max(1, self._views * self.entries)
        step = max(1, stop - start if self._views == 1 else few)
        parts = [self._rows_of(slice(i, min(i + step, stop))) for i in range(start, stop, step)]
        found = [over_views(self._by_convolution(self._b[rows], self._a[rows]), self._views) for rows in parts]
        return torch.cat(found) if len(found) > 1 else found[0] if found else self._b.new_zeros(0, *self.shape[1:])

    def _by_convolution(self, b: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        """Of single rows: the input under the output gradients, which are the kernels of each of them.

        Stride and dilation change places. It takes half the time of a product with patches, which are a copy of the input for each
        entry of the kernel.
        """
        geometry, space = self._geometry, len(self._geometry.kernel)
        n, out = b.shape[:2]
        padded = geometry.padded(a)
        convolve = (nn.functional.conv1d, nn.functional.conv2d, nn.functional.conv3d)[space - 1]
        found = convolve(
            padded.reshape(1, n, *padded.shape[2:]), b.reshape(n * out, 1, *b.shape[2:]),
            stride=geometry.dilation, dilation=geometry.stride, groups=n,
        )  # fmt: skip
        for axis, size in enumerate(geometry.kernel):  # at the far end the input may reach beyond the last place
            found = found.narrow(2 + axis, 0, size)
        return found.reshape(n, out, 1, *geometry.kernel)

    def cleared(self, left_out: torch.Tensor) -> "Convolution":
        rows = self._for_each_row(left_out)
        b, a = (t.masked_fill(rows.view(-1, *[1] * (t.dim() - 1)), 0.0) for t in (self._b, self._a))
        return Convolution(b, a, self._geometry, views=self._views)

    def with_rows(self, rows: int) -> "Convolution":
        if rows <= len(self):
            return self
        count = rows * self._views
        return Convolution(filled(self._b, count), filled(self._a, count), self._geometry, views=self._views)

    def in_float64(self) -> "Convolution":
        return Convolution(self._b.double(), self._a.double(), self._geometry, views=self._views)

    def rests_on(self) -> Tensors:
        return [self._b, self._a]

    def settled(self) -> Representation:
        places = self._views * self._b.shape[2:].numel()
        return (
            Formed(self.formed(), computed_in=self.computed_in)
            if small(places, self.shape[1], self.shape[2:].numel())
            else self
        )

    def project(self, directions: torch.Tensor) -> torch.Tensor:
        # as the gradients lie in memory, so that no chunk makes a copy of its own
        return formed_projections(self, directions.movedim(2, -1).contiguous().movedim(-1, 2))

    def weighted_sums(self, weights: torch.Tensor) -> torch.Tensor:
        if weights.shape[1] < 2:
            return super().weighted_sums(weights)
        return formed_sums(self, weights)
