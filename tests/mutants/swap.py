"""Swapping the code of functions, so that every reference to them meets the swapped one: imported names, partials, defaults."""

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.mutants.surface import Target

Handler = Callable[[tuple[Any, ...], dict[str, Any]], Any]


@functools.cache
def original(target: Target) -> Callable[..., Any]:
    """The calculator as it is, whatever its code is swapped for."""
    f = target.function
    copy = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    copy.__kwdefaults__ = f.__kwdefaults__
    copy.__annotations__ = f.__annotations__
    return copy


@contextmanager
def swapped(handlers: Mapping[Target, Handler]) -> Iterator[None]:
    """Every call of a target goes to its handler while the context is open."""
    kept = []
    for number, (target, handler) in enumerate(handlers.items()):
        f, hook = target.function, f"__handler_{number}__"
        if f.__closure__:
            raise TypeError(f"{target.name} is a closure, whose code cannot be swapped")
        original(target)
        kept.append((f, f.__code__, f.__defaults__, f.__kwdefaults__, hook))
        scope: dict[str, Any] = {}
        exec(f"def hooked(*args, **kwargs): return {hook}(args, kwargs)", scope)
        f.__globals__[hook] = handler
        f.__code__, f.__defaults__, f.__kwdefaults__ = scope["hooked"].__code__, None, None
    try:
        yield
    finally:
        for f, code, defaults, keyword_defaults, hook in reversed(kept):
            f.__code__, f.__defaults__, f.__kwdefaults__ = code, defaults, keyword_defaults
            del f.__globals__[hook]
