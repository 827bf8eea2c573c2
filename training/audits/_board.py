"""A real training whose gradients are known: every example's gradient is its own row of the data, at all weights.

The model is linear, in three tensors, and so is the loss. What it is trained with is what users train with: ``make_private``, its
loader, ``BatchMemoryManager``, the optimizer, a mechanism, and noise of either generator. From outside it shows which examples
the loader gave, and how far the weights moved.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training.engine import MechanismOptimizer, PrivacyReport, make_private
from dptheory.training.mechanisms import Mechanism

Array = NDArray[np.float64]
Made = tuple[nn.Module, MechanismOptimizer, DataLoader[tuple[torch.Tensor, ...]]]
"""What ``make_private`` returns."""


class Board(nn.Module):
    """The sum of linear layers without bias, each of one output and its own inputs: its gradient is its input."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.parts = nn.ModuleList(nn.Linear(size, 1, bias=False) for size in sizes)
        for weight in self.parameters():
            nn.init.zeros_(weight)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """One number a row."""
        parts = zip(self.parts, torch.split(rows, self.sizes, dim=1), strict=True)
        return torch.stack([part(columns) for part, columns in parts]).sum(0)

    def trained(self) -> Array:
        """1 for the entries of the tensors that are trained, 0 for the others."""
        return np.concatenate([np.full(p.numel(), float(p.requires_grad)) for p in self.parameters()])

    def weights(self) -> Array:
        """All parameters in one vector."""
        return np.concatenate([p.detach().flatten().double().numpy() for p in self.parameters()])


@dataclass(frozen=True)
class Plan:
    """A training on the board.

    Attributes:
        rows: the gradients, shape (examples, d).
        sizes: entries of the tensors, d together.
        batch_size: expected, of examples.
        physical: most examples in a physical batch.
        sampling_rate: given to ``make_private``, with ``batch_size`` as the divisor; None where it takes both from the loader.
        canary: the gradient of example 0 at a step, where it changes: a gradient may depend on all that came before.
        inputs: what the model is given of the examples; None where that is their gradients.
        views: rows in which the model is given an example: multiples of its row whose mean is 1.
    """

    rows: Array
    sizes: tuple[int, ...]
    batch_size: int
    physical: int
    epochs: int
    noise_multiplier: float
    clip_norm: float
    seed: int
    secure: bool = False
    sampling_rate: float | None = None
    canary: Callable[[int], Array] | None = None
    inputs: Array | None = None
    board: Callable[[tuple[int, ...]], Board] = Board
    views: int = 1

    def changed(self, change: Callable[[Array], Array]) -> "Plan":
        """With other examples: ``change`` is applied to the rows of gradients, and to those of the inputs."""
        inputs = None if self.inputs is None else change(self.inputs)
        return replace(self, rows=change(self.rows), inputs=inputs)


@dataclass(frozen=True)
class Step:
    """One update.

    Attributes:
        drawn: the examples that the loader gave for it.
        released: how far the weights moved, times the expected batch size: the released sum, shape (d,).
        trained: 1 for the entries of tensors that were trained, 0 for the others.
        bases: what the mechanism shows of its subspace, one basis after the other; empty where it has none.
        clips: the clip that the mechanism shows for this step, and the one for the next; where it moves its clip.
    """

    drawn: NDArray[np.int64]
    released: Array
    trained: Array
    bases: Array
    clips: tuple[float, float] | None = None

    @property
    def kept(self) -> Array:
        """1 for the entries that left: the mask, as anybody sees it."""
        return np.asarray(self.released != 0, dtype=np.float64)

    def moving_clips(self) -> tuple[float, float]:
        """The clips, of a mechanism that must show them."""
        if self.clips is None:
            raise ValueError("the mechanism must show its clip")
        return self.clips


@dataclass(frozen=True)
class Trace:
    """What can be seen of a training, what its optimizer reports at a delta, and the optimizer's state at the end."""

    plan: Plan
    seen: tuple[Step, ...]
    report: Callable[[float], PrivacyReport]
    state: Callable[[], dict[str, Any]] = dict


def train(
    mechanism: Mechanism, plan: Plan, begin: Callable[[MechanismOptimizer], object] = lambda optimizer: None
) -> Trace:
    """Train for real, and note what can be seen; an update is told by its moving the weights. ``begin`` may take over a state."""
    model = plan.board(plan.sizes)
    with quiet():
        made = private(model, mechanism, plan)
        begin(made[1])
        seen: list[Step] = []
        for _ in range(plan.epochs):
            seen += pass_over(model, mechanism, plan, made, len(seen))
    return Trace(plan, tuple(seen), made[1].privacy, made[1].state_dict)


def pass_over(model: Board, mechanism: Mechanism, plan: Plan, made: Made, step: int = 0) -> list[Step]:
    """One pass over the loader that ``make_private`` made, whose first update has the number ``step``."""
    module, optimizer, loader = made
    seen: list[Step] = []
    given: list[torch.Tensor] = []
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=plan.physical, optimizer=optimizer) as parts:
        for rows, names in parts:
            before, trained = model.weights(), model.trained()
            optimizer.zero_grad()
            module(in_views(_adapted(rows, names, plan, step + len(seen)), plan.views)).mean().backward()
            optimizer.step()
            given.append(names)
            moved = before - model.weights()
            if moved.any():
                seen.append(
                    Step(
                        torch.cat(given).numpy(),
                        moved * plan.batch_size,
                        trained,
                        bases(mechanism),
                        clips(mechanism, plan.clip_norm),
                    )
                )
                given = []
    return seen


def in_views(rows: torch.Tensor, views: int) -> torch.Tensor:
    """Each row in several, side by side: 1 / views, 3 / views, ... of it, so that their mean is the row."""
    if views == 1:
        return rows
    shares = (2 * torch.arange(views) + 1).to(rows) / views
    return (rows[:, None] * shares[:, None]).flatten(0, 1)


def bases(mechanism: Mechanism) -> Array:
    """The subspace of the step under way, flattened."""
    shown: list[torch.Tensor] = getattr(mechanism, "bases", [])
    return np.concatenate([np.zeros(0), *(basis.flatten().double().numpy() for basis in shown)])


def clips(mechanism: Mechanism, clip_norm: float) -> tuple[float, float] | None:
    """The clip of the step that was just made, and the next one."""
    used: float | None = getattr(mechanism, "used", None)
    return None if used is None else (used, mechanism.clip_of(clip_norm))  # type: ignore[attr-defined]


def _adapted(rows: torch.Tensor, names: torch.Tensor, plan: Plan, step: int) -> torch.Tensor:
    if plan.canary is None:
        return rows
    own = torch.from_numpy(plan.canary(step)).to(rows)
    return torch.where((names == 0)[:, None], own, rows)


def private(model: Board, mechanism: Mechanism, plan: Plan) -> Made:
    """The module, the optimizer and the loader that ``make_private`` makes of the plan."""
    rows = torch.from_numpy(plan.rows if plan.inputs is None else plan.inputs).float()
    batches = DataLoader(
        TensorDataset(rows, torch.arange(len(rows))),
        batch_size=plan.batch_size if plan.sampling_rate is None else 1,
        generator=None if plan.secure else torch.Generator().manual_seed(plan.seed),
    )
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=batches,
        mechanism=mechanism,
        noise_multiplier=plan.noise_multiplier,
        max_grad_norm=plan.clip_norm,
        noise_generator=None if plan.secure else torch.Generator().manual_seed(plan.seed + 1),
        secure=plan.secure,
        probe=False,  # the loss is a sum over rows, and what is watched are the batches of the run
        sampling_rate=plan.sampling_rate,
        expected_batch_size=None if plan.sampling_rate is None else plan.batch_size,
        views=plan.views,
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Without the words of Opacus about empty batches and hooks, which are expected here."""
    logger = logging.getLogger("opacus")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            yield
    finally:
        logger.setLevel(before)
