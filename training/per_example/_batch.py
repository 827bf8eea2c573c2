"""The per-example gradients of all parameters of a model, as a mechanism is handed them."""

from collections.abc import Iterator, Sequence
from typing import overload

import torch

from dptheory.errors import ArgumentError
from dptheory.training.per_example._formed import Formed
from dptheory.training.per_example._representation import Representation, Tensors


class PerExampleGradients(Sequence[torch.Tensor]):
    r"""The gradients g_1, ..., g_n of a batch of n examples.

    A mechanism that wants tensors takes them as from a list: entry j is the tensor of parameter j, shape
    (n, \*parameter.shape), formed when it is asked for and kept, so that what is written to it counts. The operations below do
    without.

    Args:
        parts: one representation for each parameter, all of n examples.

    Raises:
        ValueError: no parts, or parts of different numbers of examples.

    Example: two parameters, one example.
        >>> import torch
        >>> from dptheory.training.per_example import as_gradients
        >>> gradients = as_gradients([torch.tensor([[3.0, 0.0]]), torch.tensor([[4.0]])])
        >>> gradients.square_norms(), gradients.weighted_sum(torch.tensor([2.0]))
        (tensor([25.], dtype=torch.float64), [tensor([6., 0.]), tensor([8.])])
    """

    def __init__(self, parts: Sequence[Representation]) -> None:
        sizes = {part.shape[0] for part in parts}
        if len(sizes) != 1:
            raise ArgumentError(
                "parts", "hold the gradients of one batch", parts, got=f"numbers of examples {sorted(sizes)}"
            )
        self.parts = list(parts)

    @property
    def examples(self) -> int:
        """n, the number of examples."""
        return self.parts[0].shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """The widest of the parts."""
        wide = any(part.dtype == torch.float64 for part in self.parts)
        return torch.float64 if wide else torch.float32

    @property
    def shapes(self) -> list[torch.Size]:
        """Those of the parameters."""
        return [part.shape[1:] for part in self.parts]

    def square_norms(self, mask: Tensors | None = None) -> torch.Tensor:
        r"""|m * g_i|^2 over all parameters, in float64, shape (n,).

        Args:
            mask: numbers 0 and 1 in the shapes of the parameters; None for ones.

        Raises:
            ValueError: another number of masks than of parameters.
        """
        masks = [None] * len(self.parts) if mask is None else mask
        return torch.stack([part.square_norms(own) for part, own in zip(self.parts, masks, strict=True)]).sum(0)

    def weighted_sum(self, weights: torch.Tensor, mask: Tensors | None = None) -> Tensors:
        """The sum of m * weights[i] g_i, one tensor for each parameter, in its shape; examples of weight 0 add nothing."""
        gradients = self.without(weights == 0)
        sums = [part.weighted_sum(weights) for part in gradients.parts]
        return sums if mask is None else masked(sums, mask)

    def weighted_sums(self, weights: torch.Tensor) -> Tensors:
        r"""The sums for several columns of weights, shape (n, k): one tensor of shape (k, \*parameter.shape) for each parameter."""
        return [part.weighted_sums(weights) for part in self.parts]

    def project(self, directions: Tensors) -> torch.Tensor:
        r"""<v_j, g_i> over all parameters, shape (n, k).

        Args:
            directions: the k directions, shapes (k, \*parameter.shape).
        """
        return torch.stack([part.project(v) for part, v in zip(self.parts, directions, strict=True)]).sum(0)

    def inner_products(self, other: "PerExampleGradients") -> torch.Tensor | None:
        """<g_i, h_j> with other gradients of the same parameters, in float64, shape (n, m).

        None where some would have to be formed: layers with a sequence or space, and gradients that are formed on one side alone.
        """
        found = [part.inner_products(own) for part, own in zip(self.parts, other.parts, strict=True)]
        there = [one for one in found if one is not None]
        return torch.stack(there).sum(0) if len(there) == len(found) else None

    def in_float64(self) -> "PerExampleGradients":
        """The same, computed in float64 from here on."""
        return PerExampleGradients([part.in_float64() for part in self.parts])

    def formed(self, examples: slice = slice(None)) -> Tensors:
        r"""The gradients themselves of a run of examples, shapes (examples, \*parameter.shape)."""
        return [part.formed(examples) for part in self.parts]

    def of(self, parameters: Sequence[int]) -> "PerExampleGradients":
        """Those of some of the parameters, by number."""
        return PerExampleGradients([self.parts[i] for i in parameters])

    def without(self, left_out: torch.Tensor) -> "PerExampleGradients":
        """With zeros in place of the examples where ``left_out``, shape (n,), is True; what they held, NaN too, is gone."""
        return PerExampleGradients([part.cleared(left_out) for part in self.parts]) if left_out.any() else self

    def __len__(self) -> int:
        return len(self.parts)

    @overload
    def __getitem__(self, index: int) -> torch.Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[torch.Tensor]: ...
    def __getitem__(self, index: int | slice) -> torch.Tensor | Sequence[torch.Tensor]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        if not isinstance(self.parts[index], Formed):
            part = self.parts[index]
            self.parts[index] = Formed(part.formed(), computed_in=part.computed_in)
        return self.parts[index].formed()

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (self[i] for i in range(len(self)))


def masked(tensors: Tensors, mask: Tensors) -> Tensors:
    """Each tensor times its mask of zeros and ones; a mask of truth values is made numbers first, which is quicker by far.

    Example: the first entry stays.
        >>> import torch
        >>> from dptheory.training.per_example import masked
        >>> masked([torch.tensor([2.0, 3.0])], [torch.tensor([True, False])])
        [tensor([2., 0.])]
    """
    return [one * own.to(one.dtype) for one, own in zip(tensors, mask, strict=True)]


def as_gradients(samples: PerExampleGradients | Sequence[torch.Tensor]) -> PerExampleGradients:
    r"""Tensors of shapes (n, \*parameter.shape) as :class:`PerExampleGradients`; those as they are.

    Example: one example of two entries.
        >>> import torch
        >>> from dptheory.training.per_example import as_gradients
        >>> as_gradients([torch.tensor([[3.0, 4.0]])]).square_norms()
        tensor([25.], dtype=torch.float64)
    """
    if isinstance(samples, PerExampleGradients):
        return samples
    return PerExampleGradients([one if isinstance(one, Representation) else Formed(one) for one in samples])
