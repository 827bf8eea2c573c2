"""Whatever stands for a tensor and can be formed: any use of it as a tensor forms it, and from then on it is that tensor."""

from collections.abc import Callable
from typing import Any

import torch

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
