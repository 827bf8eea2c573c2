"""What every representation of one parameter's per-example gradients can do."""

import abc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

# --- Whatever stands for a tensor and can be formed: any use of it as a tensor forms it, and from then on it is that tensor


_REFLECTED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_OPERATORS = (*_REFLECTED, "eq", "ne", "lt", "le", "gt", "ge")


class LikeTensor:
    """Functions, methods and operators of torch get what ``formed()`` gives; attributes of its own come first.

    Attributes:
        looked_at: the tensor, once it was used as one. Writes to it must not be lost, so that it stands for all from then on.
    """

    looked_at: torch.Tensor | None = None

    def formed(self) -> torch.Tensor:
        """The tensor."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*map(as_tensor, args), **{key: as_tensor(one) for key, one in (kwargs or {}).items()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(torch.Tensor, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(as_tensor(self), name)

    def __getitem__(self, index: Any) -> torch.Tensor:
        found: torch.Tensor = as_tensor(self)[index]
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        as_tensor(self)[index] = as_tensor(value)

    def __neg__(self) -> torch.Tensor:
        return -self.detach()  # type: ignore[no-any-return]

    def __abs__(self) -> torch.Tensor:
        return self.abs()  # type: ignore[no-any-return]

    __hash__ = object.__hash__


def _operator(name: str) -> Callable[[LikeTensor, Any], Any]:
    def apply(one: LikeTensor, other: Any) -> Any:
        return getattr(as_tensor(one), name)(as_tensor(other))

    return apply


for _name in (*(f"__{one}__" for one in _OPERATORS), *(f"__r{one}__" for one in _REFLECTED)):
    setattr(LikeTensor, _name, _operator(_name))


def as_tensor(value: Any) -> Any:
    """What is like a tensor as one, also in lists and tuples; anything else as it is."""
    if isinstance(value, LikeTensor):
        if value.looked_at is None:
            value.looked_at = value.formed()
        return value.looked_at
    return type(value)(map(as_tensor, value)) if type(value) in (list, tuple) else value


Tensors = list[torch.Tensor]
"""One tensor per parameter."""

CHUNK = 1 << 22
"""Entries of gradients that are formed at once where they are not kept: 16 MiB in float32."""
_DEVICE_CHUNK = 1 << 26
"""Entries of anything that is held at once on devices other than a CPU, where a call costs more than memory: 256 MiB."""


def at_once(device: torch.device, on_cpu: int) -> int:
    """How many entries to hold at once."""
    return on_cpu if device.type == "cpu" else _DEVICE_CHUNK


class Representation(LikeTensor, abc.ABC):
    """The gradients g_1, ..., g_n of one parameter, one for each example of a batch.

    Used like a tensor, it is formed: any function or method of torch gets the tensor of shape (n, *parameter.shape), and what
    writes to it counts. That is for those who look at gradients; mechanisms take the operations below, most of which never form it.

    Attributes:
        shape: (n, *parameter.shape).
        dtype: of the sums, float32 or float64.
        computed_in: dtype of what the backward pass gave, whose rounding they have.
    """

    shape: torch.Size
    dtype: torch.dtype
    computed_in: torch.dtype
    _writes: Sequence[int] | None = None

    @property
    @abc.abstractmethod
    def device(self) -> torch.device:
        """Where the gradients are."""

    @property
    def entries(self) -> int:
        """Entries of one example's gradient."""
        return self.shape[1:].numel()

    @abc.abstractmethod
    def square_norms(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        """|m * g_i|^2 in float64, shape (n,); m is 1 where no mask is given. Not finite where g_i holds NaN or infinity."""

    @abc.abstractmethod
    def weighted_sum(self, weights: torch.Tensor) -> torch.Tensor:
        """The sum of weights[i] g_i, in the shape of the parameter. Rows that are not finite must have been cleared."""

    def weighted_sums(self, weights: torch.Tensor) -> torch.Tensor:
        """The sums for several columns of weights, shape (n, k); gives shape (k, *parameter.shape)."""
        sums = [self.weighted_sum(column) for column in weights.T]
        return torch.stack(sums) if sums else torch.zeros(0, *self.shape[1:], dtype=self.dtype)

    @abc.abstractmethod
    def formed(self, examples: slice = slice(None)) -> torch.Tensor:
        """The gradients themselves of a run of examples, shape (examples, *parameter.shape)."""

    @abc.abstractmethod
    def cleared(self, left_out: torch.Tensor) -> "Representation":
        """The same with zeros in place of the examples where ``left_out``, shape (n,), is True."""

    @abc.abstractmethod
    def project(self, directions: torch.Tensor) -> torch.Tensor:
        """<v_j, g_i> for directions v_j, shape (k, *parameter.shape); gives shape (n, k)."""

    @abc.abstractmethod
    def with_rows(self, rows: int) -> "Representation":
        """The same with zeros behind, for examples that took no part, so that there are so many rows."""

    def inner_products(self, other: "Representation") -> torch.Tensor | None:
        """<g_i, h_j> with the gradients of other examples, in float64, shape (n, m); None where they would have to be formed."""
        return None

    @abc.abstractmethod
    def in_float64(self) -> "Representation":
        """The same, computed in float64 from here on."""

    def settled(self) -> "Representation":
        """What is cheaper to work with, once all uses of the parameter are known: this or the tensor."""
        return self

    def rests_on(self) -> Tensors:
        """The tensors of the loop, inputs and output gradients of layers, that the operations still read."""
        return []

    def note_writes(self) -> None:
        """Hold on to what the tensors of the loop are now."""
        self._writes = [writes(one) for one in self.rests_on()]

    @property
    def written_to(self) -> bool:
        """Whether one of them was changed in place since: then these are no gradients of this batch."""
        return self._writes is not None and self._writes != [writes(one) for one in self.rests_on()]

    def chunks(self, beside: int = 1) -> Iterator[slice]:
        """Runs of examples whose gradients fit into memory together, or take no more than so many of one example there are beside."""
        n = self.shape[0]
        step = max(1, beside, at_once(self.device, CHUNK) // max(self.entries, 1))
        return (slice(start, min(start + step, n)) for start in range(0, n, step))

    def __len__(self) -> int:
        return self.shape[0]


def writes(tensor: torch.Tensor) -> int:
    """The number of changes in place so far."""
    return 0 if tensor.is_inference() else tensor._version


def filled(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """The tensor with zeros behind, so that it has so many rows."""
    lacking = rows - len(tensor)
    return tensor if lacking <= 0 else torch.cat([tensor, tensor.new_zeros(lacking, *tensor.shape[1:])])


def behind(tensor: torch.Tensor, views: int) -> torch.Tensor:
    """Shape (n, views * T, ...) of (n * views, T, ...): rows of one example, which lie together, become places of a sequence."""
    if views == 1:
        return tensor
    return tensor.reshape(len(tensor) // views, views * tensor.shape[1], *tensor.shape[2:])


def over_views(tensor: torch.Tensor, views: int) -> torch.Tensor:
    """Shape (n, ...) of (n * views, ...): the sum over the rows of each example."""
    return tensor if views == 1 else tensor.view(len(tensor) // views, views, *tensor.shape[1:]).sum(1)


def as_rows(tensors: torch.Tensor) -> torch.Tensor:
    """Shape (n, entries) of (n, *shape), also of parameters of shape () and of no example."""
    return tensors.reshape(len(tensors), tensors.shape[1:].numel())


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in float32 at least: sums in half precision lose small contributions."""
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
