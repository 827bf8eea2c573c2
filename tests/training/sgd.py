"""``attach`` and ``make_private`` as most tests want them: plain SGD, DP-SGD, noise 1 and clip 1; a step, and a pass of theirs."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from dptheory.training import engine
from dptheory.training.mechanisms import DpSgd

_USUAL = {"noise_multiplier": 1.0, "max_grad_norm": 1.0}


def _made(make: Any, model: nn.Module, lr: float, momentum: float, options: dict[str, Any]) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    return make(module=model, optimizer=optimizer, **{"mechanism": DpSgd()} | _USUAL | options)


def attach(model: nn.Module, *, lr: float = 0.1, momentum: float = 0.0, **options: Any) -> Any:
    """What ``engine.attach`` gives: the model and the optimizer."""
    return _made(engine.attach, model, lr, momentum, options)


def make_private(
    model: nn.Module, loader: DataLoader[Any], *, lr: float = 0.1, momentum: float = 0.0, **options: Any
) -> Any:
    """What ``engine.make_private`` gives: the model, the optimizer and the loader."""
    return _made(engine.make_private, model, lr, momentum, options | {"data_loader": loader})


def backward(private: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor, reduction: str = "mean") -> None:
    """A batch that the caller has drawn, up to the backward pass of its cross-entropy."""
    optimizer.begin_batch(len(y))
    optimizer.zero_grad()
    nn.functional.cross_entropy(private(x), y, reduction=reduction).backward()


def step(private: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor, reduction: str = "mean") -> None:
    """A step on a batch that the caller has drawn."""
    backward(private, optimizer, x, y, reduction)
    optimizer.step()


def epoch(made) -> engine.MechanismOptimizer:
    """One pass of what ``make_private`` returned: model, optimizer, loader."""
    model, optimizer, loader = made
    for features, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
    return optimizer


def alone(model: nn.Module, count: int, loss: Callable[[slice], torch.Tensor], *, views: int = 1) -> list[torch.Tensor]:
    """The gradients of the trained parameters for one example at a time, by plain torch; ``loss`` is that of the rows it is given."""
    params = [p for p in model.parameters() if p.requires_grad]
    rows = []
    for i in range(count):
        model.zero_grad()
        loss(slice(i * views, (i + 1) * views)).backward()
        rows.append([torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in params])
    model.zero_grad()
    return [torch.stack(each) for each in zip(*rows, strict=True)]
