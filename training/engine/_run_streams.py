"""The streams of random numbers that belong to a run, and what they follow in it."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakSet

from torch import nn

from dptheory.training._streams import Stream, digest

if TYPE_CHECKING:
    from dptheory.training.engine._optimizer import MechanismOptimizer

_RAN: "WeakSet[nn.Module]" = WeakSet()


def ran_before(module: nn.Module) -> bool:
    """Whether a layer of the module was in a run of this process."""
    return any(layer in _RAN for layer in module.modules())


def note_run(module: nn.Module) -> None:
    """Remember the layers of a run, as long as they are there."""
    _RAN.update(module.modules())


def follow_run(optimizer: "MechanismOptimizer", streams: Iterable[Stream], *, module: nn.Module, again: bool) -> None:
    """Make streams those of a run: a state that it takes over renews them.

    One seed draws other numbers for another model or other weights at the start, frozen ones too, and from the first step on at
    which settings differ: the same run can be repeated, and a run with a lower learning rate, or on other frozen layers, has no
    noise in common with it.

    Args:
        optimizer: of the run.
        streams: of its noise, masks or batches.
        module: the model.
        again: the model was in a run of this process before: nothing of that is repeated.
    """

    def origin() -> bytes:
        named = {
            f"{name} {_plain(v)!r}" for group in optimizer.param_groups for name, v in group.items() if name != "params"
        }
        fixed = (optimizer.mechanism.title, optimizer.accountant.law, sorted(named))
        held = (*optimizer.params, *module.parameters(), *module.buffers())
        built = [(type(m).__name__, m.extra_repr()) for m in module.modules() if not any(True for _ in m.children())]
        return digest(held) + repr((fixed, built)).encode() + (os.urandom(32) if again else b"")

    def settings() -> str:
        rates = sorted({repr(_plain(group.get("lr"))) for group in optimizer.param_groups})
        return repr((_plain(optimizer.noise_multiplier), _plain(optimizer.max_grad_norm), rates))

    def states_loaded() -> tuple[int, int]:
        return id(optimizer.accountant), optimizer.accountant.states_loaded

    for stream in streams:
        stream.bind(origin=origin, settings=settings, loaded=states_loaded)


def _plain(value: object) -> object:
    """One number for equal ones, as 0 and 0.0."""
    return float(value) if isinstance(value, int | float) else value
