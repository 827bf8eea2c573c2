"""Writes to ``p.grad`` between ``backward()`` and ``step()``; loops with them are in ``tests/training/test_errors_with_cause.py``."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from dptheory.training.engine._gradient_edits import GradientEdits

EDITS: dict[str, Callable[[nn.Parameter], object]] = {
    "times one": lambda p: p.grad.mul_(1.0),
    "another tensor": lambda p: setattr(p, "grad", p.grad.clone()),
    "an entry": lambda p: p.grad.view(-1)[0].fill_(0.0),
}


def after_backward() -> tuple[nn.Parameter, GradientEdits]:
    p = nn.Parameter(torch.ones(3))
    edits = GradientEdits({p: "p"})
    edits.follow([p])
    edits.follow([p])
    p.square().sum().backward()
    return p, edits


@pytest.mark.parametrize("name", EDITS)
def test_a_write_is_seen(name: str) -> None:
    p, edits = after_backward()
    EDITS[name](p)
    with pytest.raises(ValueError, match=r"^p\.grad of p must stay"):
        edits.check([p])


def test_what_backward_leaves_is_let_through() -> None:
    """Also the sum of two passes, what is cleared, and what no pass has left."""
    p, edits = after_backward()
    p.sum().backward()
    edits.check([p])
    p.grad.zero_()
    edits.check([p])  # known once only
    p.sum().backward()
    p.grad.zero_()
    edits.forget()
    edits.check([p])
    p.grad = None
    edits.check([p])
