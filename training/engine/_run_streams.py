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


def follow_run(optimizer: "MechanismOptimizer", streams: Iterable[Stream], *, again: bool) -> None:
    """Make streams those of a run: a state that it takes over renews them.

    One seed draws other numbers from other weights or with other settings: the same run can be repeated, and two runs that differ
    in what is public have no noise in common.

    Args:
        optimizer: of the run.
        streams: of its noise, masks or batches.
        again: the model was in a run of this process before: nothing of that is repeated.
    """

    def origin() -> bytes:
        groups = [{name: value for name, value in g.items() if name != "params"} for g in optimizer.param_groups]
        settings = (
            optimizer.mechanism.title,
            optimizer.accountant.sampling_rate,
            optimizer.noise_multiplier,
            optimizer.max_grad_norm,
            groups,
        )
        return digest(optimizer.params) + repr(settings).encode() + (os.urandom(32) if again else b"")

    def states_loaded() -> tuple[int, int]:
        return id(optimizer.accountant), optimizer.accountant.states_loaded

    for stream in streams:
        stream.bind(origin=origin, watch=states_loaded)
