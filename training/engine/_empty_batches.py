"""The batch of no examples, worked out before the run from batches of one and of two."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from opacus.data_loader import CollateFnWithEmpty
from torch.nn.utils.rnn import PackedSequence

from dptheory.errors import ArgumentError
from dptheory.training._randomness import RandomStates

_NEVER = 1e-18
"""Chance of an empty batch below which its form is not asked for before one is drawn: 1e-12 in a million steps."""
_DEEPEST = 20
_PLAIN = (str, bytes, bool, type(None), torch.dtype, torch.device, np.dtype, type, range, slice)

Collate = Callable[[list[Any]], Any]


class CollateAlsoNone(CollateFnWithEmpty):  # type: ignore[misc]
    """The loader's own way to put examples together, and its batch of none.

    Where a size of a tensor grows with the examples it goes on to none: so also with the examples in another dimension, and with
    those of one behind another. A list that grows becomes empty. Mappings, named tuples and data classes stay what they are, with
    their attributes. Tensors and numbers without examples are kept where they do not depend on them; otherwise they are zero.

    Raises:
        ValueError: the form cannot be told, and an empty batch is not out of reach.
    """

    def __init__(self, collate: Collate, first: Any, other: Any, *, chance: float) -> None:
        super().__init__(collate)
        self._missing: ArgumentError | None = None
        self._none: Any = None
        # Augmentations of examples that are looked at here draw nothing of the run's own.
        states = RandomStates.now(of_cuda=False)
        try:
            one, two, another = (_collated(collate, rows) for rows in ([first], [first, first], [other]))
        finally:
            states.restore()
        try:
            self._none = _none_of(one, two, another, "the batch", 0)
        except _Unknown as error:
            self._missing = error.error
            if chance > _NEVER:
                raise self._missing.retold(str(self._missing)) from None
        self.first_batch = self._none

    def __call__(self, batch: list[Any]) -> Any:
        if batch:
            return self.wrapped_collator_fn(batch)
        if self._missing is not None:
            raise self._missing.retold(str(self._missing))
        return copy.deepcopy(self._none)


class _Unknown(Exception):
    """What a batch of no examples looks like cannot be told."""

    def __init__(self, where: str, found: Any, why: str) -> None:
        super().__init__(
            f"data_loader must have a collate_fn whose batch of no examples can be told: Poisson batches may be empty; got "
            f"{type(found).__name__} at {where}, {why}; give tensors, lists, mappings or data classes of them"
        )
        self.error = ArgumentError.about("data_loader", where, str(self))


def _collated(collate: Collate, rows: list[Any]) -> Any:
    try:
        return collate(rows)
    except Exception as error:
        raise ArgumentError(
            "data_loader",
            "have a collate_fn that takes any number of examples",
            len(rows),
            got=f"one that fails on {len(rows)}: {type(error).__name__}: {str(error)[:120]}; Poisson "
            "batches have every size",
        ) from error


def _none_of(one: Any, two: Any, another: Any, where: str, depth: int) -> Any:
    """What a collate function would give for no examples, by what it gave for one, the same one twice, and another one."""
    if depth > _DEEPEST:
        raise _Unknown(where, one, "which is nested too deep")
    if type(one) is not type(two):
        raise _Unknown(where, one, f"of which two examples make {type(two).__name__}")
    if isinstance(one, PackedSequence):
        raise _Unknown(where, one, "which has no form without sequences: pack them inside the model")
    if isinstance(one, torch.Tensor | np.ndarray):
        return _none_of_numbers(one, two, another, where)
    if isinstance(one, _PLAIN):
        if one != two:
            raise _Unknown(where, one, "which depends on the number of examples")
        return one
    if isinstance(one, int | float | complex | np.generic):
        return one if one == two and _same(one, another) else type(one)(0)
    if isinstance(one, list | tuple) and len(one) != len(two):
        return _cut(one, two, where)
    fields = _fields(one)
    if fields is None:
        raise _Unknown(where, one, "whose examples cannot be left out")
    second, third = _fields(two) or {}, (_fields(another) or {}) if type(another) is type(one) else {}
    if fields.keys() != second.keys():
        raise _Unknown(where, one, "whose entries depend on the number of examples")
    made = {
        key: _none_of(value, second[key], third.get(key), f"{where}[{key[1]!r}]", depth + 1)
        for key, value in fields.items()
    }
    return _rebuilt(one, made, where)


def _none_of_numbers(one: Any, two: Any, another: Any, where: str) -> Any:
    if isinstance(one, torch.Tensor) and (one.is_nested or one.layout not in (torch.strided, torch.sparse_coo)):
        raise _Unknown(where, one, "which is nested or of a compressed layout")
    if len(one.shape) != len(two.shape):
        raise _Unknown(where, one, f"of {len(one.shape)} dimensions, where two examples have {len(two.shape)}")
    shape = tuple(2 * a - b for a, b in zip(one.shape, two.shape, strict=True))
    if any(size < 0 for size in shape):
        raise _Unknown(where, one, f"of shape {tuple(one.shape)}, where two examples have {tuple(two.shape)}")
    if shape == tuple(one.shape) and _same(one, two) and _same(one, another):
        return one  # a constant
    return one.new_zeros(shape) if isinstance(one, torch.Tensor) else np.zeros(shape, dtype=one.dtype)


def _cut(one: Any, two: Any, where: str) -> Any:
    size = 2 * len(one) - len(two)
    if size != 0 or hasattr(one, "_fields"):
        raise _Unknown(where, one, f"of length {len(one)}, where two examples have {len(two)}")
    return one[:0] if type(one) in (list, tuple) else type(one)()


def _fields(value: Any) -> dict[tuple[str, Any], Any] | None:
    """What a value is made of, by kind of place and name; None where it has no parts that are known."""
    found: dict[tuple[str, Any], Any] = {}
    if isinstance(value, list | tuple):
        found |= {("item", i): part for i, part in enumerate(value)}
    elif isinstance(value, dict):
        found |= {("item", key): part for key, part in value.items()}
    slots = (name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ()))
    names = [*getattr(value, "__dict__", {}), *(name for name in slots if hasattr(value, name))]
    found |= {("attribute", name): getattr(value, name) for name in names if name not in ("__dict__", "__weakref__")}
    if not found and not isinstance(value, list | tuple | dict | Mapping) and type(value).__module__ != "builtins":
        return {} if hasattr(value, "__dict__") else None
    return None if not found and not isinstance(value, list | tuple | dict | Mapping) else found


def _rebuilt(one: Any, made: dict[tuple[str, Any], Any], where: str) -> Any:
    """A value of the same kind with other parts."""
    items = {key: part for (kind, key), part in made.items() if kind == "item"}
    try:
        if isinstance(one, tuple):
            return type(one)(*items.values()) if hasattr(one, "_fields") else type(one)(items.values())
        new = copy.copy(one)
        for key, part in items.items():
            new[key] = part
        for (kind, name), part in made.items():
            if kind == "attribute":
                object.__setattr__(new, name, part)
    except Exception as error:
        raise _Unknown(where, one, f"which cannot be built anew ({type(error).__name__}: {error})") from error
    return new


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return (
            one.shape == other.shape and one.dtype == other.dtype and bool((one.to_dense() == other.to_dense()).all())
        )
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(one == other)
