"""Every public calculator of the library, found by walking its modules, and every field of what it returns."""

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

import dptheory
from tests.calls.walk import modules

_NO_CALCULATORS = {"cli", "claims", "checks", "files", "errors"}
"""Modules that compute nothing: the ledger, the engine, tables and files."""


@dataclass(frozen=True, eq=False)
class Target:
    """A public function, or a public method or property of a public class.

    Attributes:
        name: as a reader would type it behind ``dptheory.``.
        function: the plain Python function behind it, whose code is swapped.
        calculator: the object that a claim names.
        owner: the class of a method or property, else None.
        returns: resolved return annotation.
    """

    name: str
    function: types.FunctionType
    calculator: Any
    owner: type | None
    returns: Any

    @property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)


@dataclass(frozen=True)
class Leaf:
    """One number, array, truth value or word in a result: where it stands and what it is.

    ``path`` holds field names and positions; ``...`` stands for every position of a tuple of any length.
    """

    path: tuple[Any, ...]
    kind: str

    def __str__(self) -> str:
        return ".".join("*" if part is ... else str(part) for part in self.path) or "value"


@functools.cache
def targets() -> tuple[Target, ...]:
    """All of them, in the order of the modules."""
    return tuple(_targets())


def _targets() -> Iterator[Target]:
    seen: set[int] = set()
    for module in _modules():
        for name, value in vars(module).items():
            inner = inspect.unwrap(value) if callable(value) and not inspect.isclass(value) else value
            if (
                name.startswith("_")
                or not _is_home(getattr(inner, "__module__", None), module, name)
                or id(inner) in seen
            ):
                continue
            if isinstance(inner, types.FunctionType):
                seen.add(id(inner))
                yield Target(f"{_short(module)}.{name}", inner, value, None, _returns(inner))
            elif inspect.isclass(value):
                seen.add(id(inner))
                yield from _methods(f"{_short(module)}.{name}", value)


def _methods(name: str, owner: type) -> Iterator[Target]:
    if issubclass(owner, Exception):
        return
    for attribute, value in vars(owner).items():
        function = value.fget if isinstance(value, property) else getattr(value, "func", value)
        if (
            not attribute.startswith("_")
            and isinstance(function, types.FunctionType)
            and _returns(function) is not types.NoneType  # a picture
        ):
            yield Target(f"{name}.{attribute}", function, value, owner, _returns(function))


def _modules() -> Iterator[types.ModuleType]:
    for module in modules(dptheory):
        if module.__name__.split(".")[1] not in _NO_CALCULATORS:
            yield module


def _is_home(home: str | None, module: types.ModuleType, name: str) -> bool:
    """Whether ``module`` is where something is defined, or a package of its room whose public name it is."""
    if home is None:
        return False
    room = ".".join(module.__name__.split(".")[:2])
    exported = name in getattr(module, "__all__", ()) and home.startswith(f"{room}.")
    return exported or home == module.__name__ or home.startswith(f"{module.__name__}._")


def _short(module: types.ModuleType) -> str:
    return module.__name__.removeprefix("dptheory.")


def _returns(function: types.FunctionType) -> Any:
    plain = inspect.unwrap(function)
    return typing.get_type_hints(plain, {**_loaded_late(), **plain.__globals__}).get("return")


@functools.cache
def _loaded_late() -> dict[str, Any]:
    """The public names of rooms that signatures of ``papers`` use, which imports them only where it computes."""
    return {name: getattr(room, name) for room in (dptheory.embedding, dptheory.privacy) for name in room.__all__}


@functools.cache
def result_classes(annotation: Any) -> frozenset[type]:
    """The dataclasses that a result holds, nested ones included."""
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        hints = typing.get_type_hints(annotation, localns=_loaded_late())
        nested = (result_classes(hints[field.name]) for field in dataclasses.fields(annotation))
        return frozenset({annotation}).union(*nested)
    return frozenset().union(*(result_classes(a) for a in typing.get_args(annotation) if _hashable(a)))


def _hashable(value: Any) -> bool:
    return not isinstance(value, list)


_KINDS = {float: "float", Fraction: "float", int: "int", bool: "bool", str: "str"}


def leaves(annotation: Any, path: tuple[Any, ...] = ()) -> tuple[Leaf, ...]:
    """What can be moved in a result of this type.

    Raises:
        TypeError: a type that the generator does not know; it has to learn it.
    """
    if annotation in _KINDS:
        return (Leaf(path, _KINDS[annotation]),)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        hints = typing.get_type_hints(annotation, localns=_loaded_late())
        return tuple(one for f in dataclasses.fields(annotation) for one in leaves(hints[f.name], (*path, f.name)))
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is np.ndarray:
        kind = typing.get_args(inside[1])[0]
        return (Leaf(path, "mask" if issubclass(kind, np.bool_) else "array"),)
    if origin is tuple and inside[-1] is ...:
        return leaves(inside[0], (*path, ...))
    if origin is tuple:
        return tuple(one for i, part in enumerate(inside) for one in leaves(part, (*path, i)))
    if origin is Literal:
        return (Leaf(path, "str"),)
    if origin in (typing.Union, types.UnionType):
        return tuple(one for part in inside if part is not type(None) for one in leaves(part, path))
    raise TypeError(f"no mutant is known for a result of type {annotation} at {path}")


def options(function: Callable[..., Any]) -> dict[str, tuple[Any, ...]]:
    """The values of every parameter that is a choice (``Literal``)."""
    hints = typing.get_type_hints(function, localns=_loaded_late())
    return {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is Literal}
