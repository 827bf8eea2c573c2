"""What can be wrong with one argument, from the value that a valid call gives it; and other forms of the same value."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.calls import Cost

NUMBERS = (
    *(0, 0.0, -0.0, -1, -1.0, 1, 1.0, 2, 0.5, 3.5),
    *(math.inf, -math.inf, 1e308, -1e308, 5e-324, 1e-308, 1e155, 1e-155, 1e80, 1e-80, 2**31, 2**63, 10**30, 10**400),
)
"""Right or wrong by what the argument means: the message may name another argument that they do not go with."""

_NEVER = (
    math.nan,
    "abc",
    "1",
    b"1",
    1j,
    object(),
    [],
    {},
    (),
    np.array([]),
    np.array([], dtype=bool),
    np.nan * np.ones(2),
)
_SHORT = (0, -1, math.inf, -math.inf, 1e308, 5e-324, 10**30)
_SHORT_NEVER = (math.nan, "abc", [])


@dataclass(frozen=True)
class Attempt:
    """One argument replaced.

    Attributes:
        value: what it is replaced by.
        never: no callable can mean anything by it, whatever the other arguments: the error must name this argument.
        plain: the value in its plain form, whose answer it must get unless it is refused.
    """

    value: Any
    never: bool = False
    plain: Any = None


def attempts(valid: Any, optional: bool, cost: Cost) -> Iterator[Attempt]:
    """Everything to try in the place of ``valid``; less where each call costs something."""
    short = cost != "cheap"
    if not optional:
        yield Attempt(None, never=True)
    if cost == "slow":
        yield from (Attempt(value, never=True) for value in _SHORT_NEVER)
        if isinstance(valid, int | float):
            yield from (Attempt(-1), Attempt(math.inf))
    elif isinstance(valid, bool):
        yield from (Attempt(value, never=True) for value in (math.nan, "abc", "no", [], 1.5, 2, object(), -1))
    elif isinstance(valid, list | tuple | np.ndarray):
        yield from _for_array(valid, short)
    elif isinstance(valid, int | float):
        yield from _for_number(valid, short)
        yield from _number_tensors(valid)
    elif isinstance(valid, str):
        yield from (Attempt(value, never=True) for value in (0, 1.5, math.nan, True, b"abc", [], [valid], object()))
        yield from (Attempt(value) for value in ("", "abc", valid.upper() + "x"))
    else:
        yield from (Attempt(value, never=True) for value in (0, 1.5, math.nan, "abc", [], object()))


def _for_number(valid: float, short: bool) -> Iterator[Attempt]:
    yield from (Attempt(value, never=True) for value in (_SHORT_NEVER if short else _NEVER))
    yield from (Attempt(value) for value in (_SHORT if short else (*NUMBERS, -valid)))
    yield from (Attempt([valid]), Attempt(np.array([valid, valid])), Attempt(np.ma.masked_array([valid], [True])))
    yield Attempt(np.ma.masked, never=True)
    yield Attempt(True, plain=1)
    if short:
        return
    yield from (Attempt(False, plain=0), Attempt(np.True_, plain=1), Attempt(np.array([[valid]])))
    yield from (Attempt(np.array(valid), plain=valid), Attempt(str(valid)), Attempt(np.datetime64(1, "s"), never=True))
    yield from (
        Attempt(np.array(str(valid))),
        Attempt(np.array(None), never=True),
        Attempt(np.array(math.nan), never=True),
    )
    if isinstance(valid, int):
        yield from (Attempt(kind(valid), plain=valid) for kind in (np.int64, float, np.float64))
    else:
        yield from (Attempt(kind(valid), plain=valid) for kind in (np.float64, Fraction))
        yield Attempt(np.float32(valid), plain=float(np.float32(valid)))
        yield Attempt(math.floor(valid) + 1, plain=float(math.floor(valid) + 1))
        yield Attempt(np.int32(math.floor(valid)), plain=float(math.floor(valid)))
        yield Attempt(0, plain=0.0)


def _for_array(valid: Any, short: bool) -> Iterator[Attempt]:
    array = np.asarray(valid)
    if array.dtype.kind not in "iufb":  # a list of other things
        yield from (Attempt(value, never=True) for value in (0, 1.5, math.nan))
        yield from (Attempt(value) for value in ((), [math.nan], [None], "abc"))
        return
    values: NDFloat = array.astype(np.float64)
    yield from (Attempt(value, never=True) for value in ("abc", math.nan, 1j, object(), {}, [None], ["abc"]))
    yield from (Attempt(value) for value in ([], np.zeros((0, 3)), np.zeros((2, 0)), values[:-1], values[None]))
    yield from (Attempt(value) for value in (float(values.flat[0]), values.T, [[1.0], [1.0, 2.0]], values.ravel()))
    for bad in (math.nan, *(_SHORT if short else NUMBERS)):
        first = values.astype(object if isinstance(bad, int) and abs(bad) > 2**62 else np.float64)
        first.flat[0] = bad
        yield Attempt(first, never=isinstance(bad, float) and math.isnan(bad))
        if isinstance(bad, float):
            yield Attempt(np.full(array.shape, bad), never=math.isnan(bad))
    hidden = np.zeros(array.shape, dtype=bool)
    hidden.flat[0] = True
    yield Attempt(np.ma.masked_array(values, hidden), never=True)
    yield Attempt(np.ma.masked_array(values, ~hidden & hidden), plain=values)
    yield from (Attempt(values + 1j, never=True), Attempt(values.astype(str), never=True))
    yield Attempt(values.astype(object), plain=values)
    yield Attempt(np.where(hidden, None, values.astype(object)), never=True)
    yield Attempt(values.astype("datetime64[s]"), never=True)
    if array.dtype.kind != "b":
        yield Attempt(np.ones(array.shape, dtype=bool), plain=np.ones(array.shape))
        whole = np.ceil(values)
        yield Attempt(whole.astype(np.int64), plain=whole)
        yield Attempt(values.astype(np.float32), plain=values.astype(np.float32).astype(np.float64))
    yield Attempt(array.tolist(), plain=array)
    yield Attempt(array, plain=array.tolist())
    yield Attempt(np.repeat(array, 2, axis=-1)[..., ::2], plain=array)
    yield Attempt(np.asfortranarray(array), plain=array)
    yield from _tensors(array)


def _tensors(array: Any) -> Iterator[Attempt]:
    try:
        import torch
    except ImportError:
        return
    plain = torch.tensor(array.tolist(), dtype=torch.float64)
    yield Attempt(plain, plain=array.astype(np.float64))
    yield Attempt(plain.to(torch.float32), plain=array.astype(np.float32).astype(np.float64))
    yield Attempt(plain.clone().requires_grad_(), plain=array.astype(np.float64))


def _number_tensors(valid: float) -> Iterator[Attempt]:
    """A number as a tensor without dimensions."""
    try:
        import torch
    except ImportError:
        return
    yield Attempt(torch.tensor(valid, dtype=torch.int64 if isinstance(valid, int) else torch.float64), plain=valid)
    yield Attempt(torch.tensor([valid, valid]))
    yield Attempt(torch.tensor(math.nan), never=True)


NDFloat = np.ndarray[Any, np.dtype[np.float64]]
