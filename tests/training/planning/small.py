"""Small problems on which a plan takes seconds, and pilots that are made up."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dptheory.training._streams import digest
from dptheory.training.planning import Choice, Effort, _plan, _simulated, plan
from dptheory.training.planning._pilot import Problem
from dptheory.training.planning._point import Point, Schedule
from dptheory.training.planning._simulated import accuracy, simulated_records
from tests.training.tiny import look_once

TINY = Effort(spread=1, guided=1, short=4, kept=1, middle=6, finalists=2, whole=8)
"""Some forty pilots of a few steps each."""
BUDGET = {"num_examples": 400, "epsilon": 3.0, "delta": 1e-5, "max_epochs": 2.0, "batch_size": 100}
PLENTY = 1e6
"""Seconds: the effort alone says how many pilots there are, so that two plans may be compared."""


def labelled(count: int = 60, dim: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Normal features, and whether the first is positive."""
    features = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))
    return features, (features[:, 0] > 0).long()


def public(count: int = 60, dim: int = 5) -> TensorDataset:
    """The same as a data set."""
    return TensorDataset(*labelled(count, dim))


def linear(dim: int = 5, classes: int = 2) -> nn.Module:
    """A linear layer at fixed weights."""
    model = nn.Linear(dim, classes)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(0.01 * torch.arange(p.numel()).view_as(p))
    return model


class Here(Executor):
    """Runs what it is given at once, in this thread; ends as a process does that is killed, after ``most`` tasks."""

    def __init__(self, most: int | None = None) -> None:
        self.most, self.done = most, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.done == self.most:
            raise KeyboardInterrupt
        self.done += 1
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


_SIMULATED: dict[Any, Any] = {}


def _simulated_once(model: nn.Module, loss: Any, features: Tensor, labels: Tensor, **given: int) -> Any:
    """Simulated records of the same network and public ones are the same at every call (``test_pilot``): they are made once."""
    frozen = tuple(not p.requires_grad for p in model.parameters())
    key = digest([*model.state_dict().values(), features, labels]), repr(model), frozen, loss, *given.items()
    if key not in _SIMULATED:
        _SIMULATED[key] = simulated_records(model, loss, features, labels, **given)
    return _SIMULATED[key]


def planned(model: nn.Module | None = None, data: Any = None, **more: Any) -> Choice:
    """A plan with little effort and fixed rate, without a sweep; in this thread, where no executor is given."""
    given = {**BUDGET, "learning_rate": 0.5, "momentum": 0.0, "clip_norm": 1.0, "seconds": PLENTY, "effort": TINY}
    given |= {"executor": Here(), **more}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_plan, "simulated_records", _simulated_once)
        patch.setattr(_simulated, "_STEPS", 60)  # what the teachers know is held in ``test_pilot``
        look_once(patch)
        return plan(linear() if model is None else model, public() if data is None else data, **given)  # type: ignore[arg-type]


def problem(model: nn.Module, features: Tensor, labels: Tensor, **more: Any) -> Problem:
    """Cross entropy and accuracy in three folds, where nothing else is said."""
    plain = {"loss": nn.functional.cross_entropy, "metric": accuracy, "guide": accuracy, "folds": 3}
    return Problem(model=model, features=features, labels=labels, **plain | more)  # type: ignore[arg-type]


def point(**more: Any) -> Point:
    """A point with plain values."""
    plain: dict[str, Any] = {
        "batch_size": 100, "epochs": 2.0, "steps": 8, "noise_multiplier": 1.0, "clip_norm": 1.0, "learning_rate": 0.5,
        "momentum": 0.0, "schedule": "constant", "average": 0.0,
    }  # fmt: skip
    return Point(**plain | more)


_ALL: tuple[Schedule, ...] = ("constant", "linear", "cosine")
SCHEDULES_AND_AVERAGES = [(schedule, average) for schedule in _ALL for average in (0.0, 0.2, 0.5)]
