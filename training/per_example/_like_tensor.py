"""Whatever stands for a tensor and can be formed: any use of it as a tensor forms it."""

from collections.abc import Callable
from typing import Any

import torch

_OPERATORS = ("add", "sub", "mul", "truediv", "matmul", "pow", "eq", "ne", "lt", "le", "gt", "ge")
_REFLECTED = ("add", "sub", "mul", "truediv", "matmul")


class LikeTensor:
    """Functions, methods and operators of torch get what ``formed()`` gives; attributes of its own come first."""

    def formed(self) -> torch.Tensor:
        """The tensor."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*map(as_tensor, args), **{key: as_tensor(one) for key, one in (kwargs or {}).items()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(torch.Tensor, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.formed(), name)

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self.formed()[index]

    def __neg__(self) -> torch.Tensor:
        return -self.formed()

    def __abs__(self) -> torch.Tensor:
        return abs(self.formed())

    __hash__ = object.__hash__


def _operator(name: str) -> Callable[[LikeTensor, Any], Any]:
    def apply(one: LikeTensor, other: Any) -> Any:
        return getattr(one.formed(), name)(as_tensor(other))

    return apply


for _name in (*(f"__{one}__" for one in _OPERATORS), *(f"__r{one}__" for one in _REFLECTED)):
    setattr(LikeTensor, _name, _operator(_name))


def as_tensor(value: Any) -> Any:
    """What is like a tensor as one, also in lists and tuples; anything else as it is."""
    if isinstance(value, LikeTensor):
        return value.formed()
    return type(value)(map(as_tensor, value)) if type(value) in (list, tuple) else value
