"""Two and three rows before the first step: which layers' rows are examples, and that nothing of it stays."""

import logging
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dptheory.training.per_example import Representation
from tests.training import errors_table as t


def tried(build: Callable[[], nn.Module], batch: tuple[torch.Tensor, ...], loss=t.cross_entropy, **options):
    """A private model after the backward pass of a batch."""
    torch.manual_seed(0)
    made = t.private_loop(build(), batch, **options)
    (rows,) = made[2]
    made[1].zero_grad()
    loss(made[0], *rows).backward()
    return made


BY_HOOKS = ["one row for all", "one row for all, twice", "packed sequences", "DPLSTM", "a call for each frame", "checkpoint", "GRUCell",
            "reentrant checkpoint", "weight_norm", "several outputs", "EmbeddingBag, offsets", "attention, mask"]  # fmt: skip


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
@pytest.mark.parametrize("name", BY_HOOKS)
def test_hooks_do_what_hooks_can(name: str, mode: str) -> None:
    private, *_ = tried(*t.RIGHT[name], grad_sample_mode=mode)
    assert private.passes.alone == {}


def test_only_what_no_hook_reaches_takes_a_pass_of_the_network(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dptheory.training"):
        private, optimizer, _ = tried(*t.RIGHT["one row that must stay one"])
        assert set(private.passes.alone.values()) == {"a.weight"}
        held = {name: type(p.grad_sample) for name, p in private._module.named_parameters()}
        assert held["a.weight"] is torch.Tensor and issubclass(held["b.weight"], Representation)
        optimizer.step()
        t.one_step((private, optimizer, _))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and said[0].startswith("a.weight has") and "one row" in said[0]


def test_nothing_of_it_stays() -> None:
    """Random numbers, gradients, and what the optimizer knows are as without it."""

    def after(*, tries: bool) -> tuple[list, list[torch.Tensor]]:
        torch.manual_seed(5)
        random.seed(5)
        np.random.seed(5)  # noqa: NPY002
        model = nn.Sequential(t.Linear(6, 8), nn.Dropout(0.5), t.Linear(8, 3))
        private, optimizer, _ = t.private_loop(model, (t.X, t.Y))
        private._tried = not tries
        optimizer.begin_batch(len(t.X))
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        loss = F.cross_entropy(private(t.X), t.Y)
        left = [p.grad.clone() for p in model.parameters()]
        assert all(p.grad_sample is None for p in model.parameters())
        loss.backward()
        numbers = [torch.rand(1).item(), random.random(), np.random.rand()]  # noqa: NPY002
        return numbers, [*left, *(torch.as_tensor(p.grad_sample.detach()) for p in model.parameters())]

    (numbers, found), (others, wanted) = after(tries=True), after(tries=False)
    assert numbers == others
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_it_comes_again_where_something_is_unfrozen_and_not_before() -> None:
    model = t.Model(lambda s, x: s.b(F.linear(x, s.a.weight)), a=t.Linear(6, 6, bias=False), b=t.Linear(6, 3))
    calls: list[int] = []
    model.b.register_forward_pre_hook(lambda _, given: calls.append(len(given[0])))
    made = t.private_loop(model, (t.X, t.Y))
    model.a.requires_grad_(False)
    t.one_step(made)
    t.one_step(made)
    assert calls == [2, 3, 8, 8] and made[0].passes.alone == {}
    model.a.requires_grad_(True)
    t.one_step(made)
    assert calls[4:9] == [2, 3, 2, 3, 8] and set(made[0].passes.alone.values()) == {"a.weight"}


def test_a_model_that_takes_batches_of_one_size_alone_trains_by_its_hooks() -> None:
    def run(s, x: torch.Tensor) -> torch.Tensor:
        return s.a(x.view(8, 6))

    made = tried(lambda: t.Model(run, a=t.Linear(6, 3)), (t.X, t.Y))
    made[1].step()
    assert made[0].passes.alone == {} and made[1].accountant.steps == 1


def test_of_an_empty_batch_nothing_is_tried_and_the_next_one_is() -> None:
    build, _, loss = t.RIGHT["one row for all"]
    torch.manual_seed(0)
    private, optimizer, _ = t.private_loop(build(), (t.FRAMES, t.Y))
    for rows in (0, 8, 0, 1):
        optimizer.begin_batch(rows)
        optimizer.zero_grad()
        loss(private, t.FRAMES[:rows], t.Y[:rows]).backward()
        assert private._tried == (rows > 0) or rows == 0
        optimizer.step()
    assert optimizer.accountant.steps == 4
