"""A run of a few images of the small CNN, and a view of it."""

from types import SimpleNamespace
from typing import Any

import torch

from dptheory.training.measure._measurements import View
from dptheory.training.mechanisms import DpSgd
from dptheory.training.runs import Run, one_step, prepare
from tests.training.tiny import made_up_data, tiny_config


def run_after(steps: int, monkeypatch: Any, mechanism: dict[str, Any] | None = None, **changes: Any) -> Run:
    """A run on sixty images, after some steps."""
    made_up_data(monkeypatch)
    run = prepare(tiny_config(mechanism, **changes), torch.device("cpu"))
    for _ in range(steps):
        one_step(run)
    return run


def view_of(run: Run, examples: int = 40) -> View:
    """Of the first test images."""
    return View(run, examples, torch.Generator().manual_seed(3))


def invented(gradients: torch.Tensor, *, clip: float, sigma: float = 1.0, batch: int = 10, **more: Any) -> View:
    """A view whose gradients are given; nothing of a network stands behind it."""
    config = SimpleNamespace(max_grad_norm=clip, batch_size=batch)
    place = torch.nn.Parameter(torch.zeros(gradients.shape[1]))
    run: Any = SimpleNamespace(
        config=config,
        model=SimpleNamespace(parameters=lambda: iter([place])),
        optimizer=SimpleNamespace(noise_multiplier=sigma, mechanism=DpSgd()),
    )
    view = View(run, len(gradients), torch.Generator().manual_seed(1))
    vars(view)["gradients"] = gradients
    vars(view).update(more)
    return view
