"""Representations of per-example gradients, and what they rest on."""

import logging
import random
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils import _pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from dptheory.training.per_example import (
    Convolution,
    Dense,
    Formed,
    Mixed,
    Representation,
    Table,
    _representation,
    as_gradients,
)
from dptheory.training.per_example._convolution import Geometry
from dptheory.training.per_example._factors import added, factors_of, has_factors
from dptheory.training.per_example._layer_gradients import called_with, places_of
from dptheory.training.per_example._trial import Looks
from tests.refused import refused
from tests.training import errors_table as t
from tests.training import sgd

# --- Every representation against the tensors that it stands for ---


N = 5


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def dense(length: int, out: int = 3, wide: int = 7) -> tuple[Representation, torch.Tensor]:
    b, a = draw(N, length, out), draw(N, length, wide)
    return Dense(b, a), torch.einsum("nto,nti->noi", b, a)


def table(length: int, padding: int | None) -> tuple[Representation, torch.Tensor]:
    b = draw(N, length, 3)
    indices = torch.randint(6, (N, length), generator=torch.Generator().manual_seed(length))
    wanted = torch.zeros(N, 6, 3, dtype=torch.float64)
    for i in range(N):
        for at in range(length):
            if indices[i, at] != padding:
                wanted[i, indices[i, at]] += b[i, at]
    return Table(indices, b, rows=6, padding=padding), wanted


CONVOLUTIONS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (11,)),
    (nn.Conv2d(2, 4, 3, stride=(2, 1), padding=(1, 0), dilation=(1, 2)), (9, 8)),
    (nn.Conv2d(4, 4, (3, 4), padding="same", groups=4), (7, 8)),
    (nn.Conv2d(3, 2, 2, padding="valid"), (4, 4)),
    (nn.Conv2d(1, 2, (1, 4), padding="same", dilation=(1, 3)), (5, 9)),
    (nn.Conv3d(2, 3, 2, padding=1), (4, 5, 3)),
]


def convolution(number: int) -> tuple[Representation, torch.Tensor]:
    layer, space = CONVOLUTIONS[number]
    layer = layer.double()
    x = draw(N, layer.in_channels, *space)
    y = layer(x)
    b = draw(*y.shape)
    wanted = [torch.autograd.grad((layer(x[i : i + 1]) * b[i : i + 1]).sum(), layer.weight)[0] for i in range(N)]
    return Convolution(b, x, Geometry.of(layer)), torch.stack(wanted)


def mixed() -> tuple[Representation, torch.Tensor]:
    tensor = draw(N, 6, 3)
    rows, of_rows = table(4, None)
    b, a = draw(N, 2, 6), draw(N, 2, 3)
    return Mixed([rows, Dense(b, a), Formed(tensor)]), of_rows + torch.einsum("nto,nti->noi", b, a) + tensor


def joined(kind: Callable[[], tuple[Representation, torch.Tensor]]) -> tuple[Representation, torch.Tensor]:
    one, wanted = kind()
    return one.joined(one), 2 * wanted


CASES: dict[str, Callable[[], tuple[Representation, torch.Tensor]]] = {
    "dense": lambda: dense(1),
    "dense on a sequence": lambda: dense(4),
    "dense on a long sequence": lambda: dense(40),
    "dense on a sequence, with a large weight": lambda: dense(2, 31, 30),
    "dense twice": lambda: joined(lambda: dense(3)),
    "embedding": lambda: table(1, None),
    "embedding of a sequence with padding": lambda: table(9, 2),
    "embedding twice": lambda: joined(lambda: table(9, 2)),
    "formed": lambda: (Formed(draw(N, 2, 3)), draw(N, 2, 3)),
    "formed, in another order of memory": lambda: (
        Formed(draw(N, 4, 2, 3).permute(0, 2, 3, 1)),
        draw(N, 4, 2, 3).permute(0, 2, 3, 1),
    ),
    "parameter of shape ()": lambda: (Formed(draw(N)), draw(N)),
    "mixed": mixed,
    **{f"convolution {i}": (lambda i=i: convolution(i)) for i in range(len(CONVOLUTIONS))},
}

CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Up to the rounding of 2^8 terms of the largest size."""
    assert found.shape == wanted.shape
    size = float(wanted.abs().max()) if wanted.numel() else 0.0
    torch.testing.assert_close(found, wanted, rtol=2**8 * 2.0**-52, atol=2**8 * 2.0**-52 * size)


@CASE
def test_operations_are_those_of_the_tensors(case: Callable[[], tuple[Representation, torch.Tensor]]) -> None:
    found, wanted = case()
    shape = wanted.shape[1:]
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(shape, generator=generator) > 0.4
    weights, columns = draw(N), draw(N, 3)
    directions = draw(4, *shape)
    rows = wanted.reshape(N, -1)
    assert found.shape == wanted.shape and found.entries == shape.numel() and len(found) == N
    close(found.formed(), wanted)
    close(found.formed(slice(1, 3)), wanted[1:3])
    close(found.square_norms(), rows.square().sum(1))
    close(found.square_norms(mask), (rows * mask.flatten()).square().sum(1))
    close(found.weighted_sum(weights), torch.einsum("n,n...->...", weights, wanted))
    close(found.weighted_sums(columns), torch.einsum("nk,n...->k...", columns, wanted))
    close(found.project(directions), rows @ directions.reshape(4, -1).T)


@CASE
def test_inner_products_of_two_batches(case: Callable[[], tuple[Representation, torch.Tensor]]) -> None:
    """Those with the first examples, where none have to be formed for it."""
    found, wanted = case()
    given = found.inner_products(found.with_rows(N + 2))
    there = isinstance(found, Formed) or (isinstance(found, Dense) and found.length == 1)
    assert (given is not None) == there
    if given is not None:
        rows = wanted.reshape(N, -1)
        close(given, torch.cat([rows @ rows.T, torch.zeros(N, 2, dtype=torch.float64)], dim=1))
    other = Dense(draw(N, 1, 3), draw(N, 1, 7)) if isinstance(found, Formed) else Formed(wanted)
    assert found.inner_products(other) is None


@CASE
def test_in_float64(case: Callable[[], tuple[Representation, torch.Tensor]]) -> None:
    """The numbers are those of float32, and what is computed of them is not."""
    found, wanted = case()
    close(found.in_float64().formed(), wanted)
    narrow = Dense(draw(N, 1, 3).float(), draw(N, 1, 7).float())
    exact = torch.einsum("nto,nti->noi", draw(N, 1, 3).float().double(), draw(N, 1, 7).float().double())
    close(narrow.in_float64().weighted_sum(draw(N)), torch.einsum("n,noi->oi", draw(N), exact))


@CASE
def test_sums_and_projections_of_chunks(
    case: Callable[[], tuple[Representation, torch.Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, wanted = case()
    columns, directions, rows = draw(N, 2), draw(2, *wanted.shape[1:]), wanted.reshape(N, -1)
    monkeypatch.setattr(_representation, "CHUNK", rows.shape[1])
    assert len(list(found.chunks())) == N and len(list(found.chunks(2))) == 3
    close(found.weighted_sums(columns), torch.einsum("nk,n...->k...", columns, wanted))
    close(found.project(directions), rows @ directions.reshape(2, -1).T)


@CASE
def test_what_is_cleared_is_gone_also_where_it_was_not_finite(
    case: Callable[[], tuple[Representation, torch.Tensor]],
) -> None:
    found, wanted = case()
    bad = torch.tensor([True, False, False, True, False])
    spoilt = found * torch.where(bad, torch.inf, 1.0).view(-1, *[1] * (wanted.dim() - 1))
    close(found.cleared(bad).formed()[~bad], wanted[~bad])
    assert not found.cleared(bad).formed()[bad].any()
    assert not Formed(spoilt).cleared(bad).formed()[bad].any()


@CASE
def test_used_as_a_tensor_it_is_formed(case: Callable[[], tuple[Representation, torch.Tensor]]) -> None:
    found, wanted = case()
    for one, other in (
        (found.detach().clone(), wanted), (found - 1, wanted - 1), (1 + found, 1 + wanted), (2 * found, 2 * wanted),
        (torch.stack([found, found]), torch.stack([wanted, wanted])), (found.abs().max(), wanted.abs().max()),
        (found[1], wanted[1]), (sum([found, found]), 2 * wanted), (-found, -wanted), (found / 2, wanted / 2),
    ):  # fmt: skip
        close(one, other)
    assert not hasattr(found, "no_such_thing") and not hasattr(found, "_processed")
    for one, other in ((found // 0.5, wanted // 0.5), (found % 0.5, wanted % 0.5), (2**found, 2**wanted)):
        close(one, other)


@CASE
def test_what_is_written_to_it_counts(case: Callable[[], tuple[Representation, torch.Tensor]]) -> None:
    """One that looks like a tensor and forgets writes would let a mechanism release what it has not clipped."""
    found, wanted = case()
    found.mul_(2.0)
    found[0] = 0.0
    wanted = 2.0 * wanted
    wanted[0] = 0.0
    close(found.detach(), wanted)
    gradients = as_gradients([case()[0], Formed(draw(N, 2))])
    for one in gradients:
        one *= 2.0
        one[0] = 0.0
    close(gradients[0], wanted)
    assert len(gradients[:1]) == 1
    close(gradients[:1][0], wanted)
    close(gradients.square_norms(), wanted.reshape(N, -1).square().sum(1) + gradients[1].square().sum(1))


def test_no_examples() -> None:
    one = Dense(torch.zeros(0, 2, 3), torch.zeros(0, 2, 4))
    assert one.square_norms().shape == one.square_norms(torch.ones(3, 4)).shape == (0,)
    assert not one.weighted_sum(torch.zeros(0)).any() and one.project(torch.ones(5, 3, 4)).shape == (0, 5)
    layer = nn.Conv2d(1, 2, 3)
    kernel = Convolution(torch.zeros(0, 2, 2, 2), torch.zeros(0, 1, 4, 4), Geometry.of(layer))
    assert kernel.square_norms().shape == (0,) and not kernel.weighted_sum(torch.zeros(0)).any()
    rows = Table(torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 3, 2), rows=4)
    assert rows.square_norms().shape == (0,) and not rows.weighted_sum(torch.zeros(0)).any()


def test_all_parameters_together() -> None:
    (weight, of_weight), (rows, of_rows) = dense(1), table(3, None)
    found = as_gradients([weight, rows, draw(N, 2)])
    wanted = [of_weight, of_rows, draw(N, 2)]
    flat = torch.cat([one.reshape(N, -1) for one in wanted], dim=1)
    close(found.square_norms(), flat.square().sum(1))
    directions = [draw(2, *one.shape[1:]) for one in wanted]
    close(found.project(directions), flat @ torch.cat([one.reshape(2, -1) for one in directions], dim=1).T)
    assert [one.shape for one in found] == [one.shape for one in wanted] and len(found[:2]) == 2 == len(
        found.of([0, 2])
    )
    with refused("parts"):
        as_gradients([torch.zeros(2, 3), torch.zeros(3, 3)])


@pytest.mark.parametrize("scale", [1e-30, 1e-23, 1.0, 1e18, 1e25])
@pytest.mark.parametrize(("length", "out", "wide"), [(1, 3, 7), (3, 3, 7), (3, 31, 30)])
def test_square_norms_over_the_range_of_single_precision(scale: float, length: int, out: int, wide: int) -> None:
    """A norm that is lost to the ends of the range would leave a gradient unclipped."""
    b, a = draw(N, length, out).float() * scale, draw(N, length, wide).float() / scale
    mask = torch.rand(out, wide, generator=torch.Generator().manual_seed(0)) > 0.5
    wanted = torch.einsum("nto,nti->noi", b.double(), a.double())
    for kept, factor in ((None, torch.ones(out, wide)), (mask, mask)):
        found = Dense(b, a).square_norms(kept)
        torch.testing.assert_close(found, (wanted * factor).square().sum((1, 2)), rtol=1e-5, atol=0.0)


class _Largest(TorchDispatchMode):
    """The entries of the largest tensor that is made."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        made = [one.numel() for one in tree.tree_leaves(found) if isinstance(one, torch.Tensor)]
        self.entries = max(self.entries, *made, 0)
        return found


@pytest.mark.parametrize(("out", "wide"), [(2, 3), (100, 90)])
def test_norms_take_no_more_memory_than_factors_and_gradients(out: int, wide: int) -> None:
    """The trial before the first step asks for them before a weight is settled; views make sequences long."""
    length = 256
    b, a = draw(N, length, out), draw(N, length, wide)
    with _Largest() as made:
        found = Dense(b, a).square_norms()
    close(found, torch.einsum("nto,nti->noi", b, a).square().sum((1, 2)))
    assert made.entries <= N * max(length * max(out, wide), out * wide)


@pytest.mark.parametrize("value", [1.0, 1.1, 0.3])
@pytest.mark.parametrize("size", [1 << 20, 1 << 24])
def test_square_norms_of_long_rows(size: int, value: float) -> None:
    """torch's own norm loses up to 1.4 % of 2^24 equal entries."""
    wanted = size * float(torch.tensor(value).double()) ** 2
    row = torch.full((1, size), value)
    ones = torch.ones(1, 1, 1)
    every = torch.ones(size, dtype=torch.bool)
    for one, mask in (
        (Formed(row), every),
        (Dense(ones, row[None]), every[None]),
        (Dense(row[None], ones), every[:, None]),
        (Dense(row.view(1, -1, 1), row.new_ones(1, size, 1)), None),
    ):
        for kept in (None, mask) if mask is not None else ():
            assert float(one.square_norms(kept)[0]) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("size", [1 << 12, 1 << 16, 1 << 20])
def test_square_norms_of_sequences_of_long_rows(size: int) -> None:
    """Sums of equal signs, as of activations behind ReLU: one processor adds one after the other, and lost 1.4e-3 of 2^20."""
    long, short = torch.full((1, 4, size), 0.3), torch.full((1, 4, 64), 1.1)
    wanted = 16 * 64 * size * float(torch.tensor(0.3).double() * torch.tensor(1.1).double()) ** 2
    for one in (Dense(long, short), Dense(short, long)):
        assert float(one.square_norms()[0]) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("clip", [1e-3, 1e-5, 1e-8])
def test_a_place_whose_squares_are_none_in_float32_counts_in_the_norm(clip: float) -> None:
    """Output gradient 2e-23 and input 1.8e19: beside a place of norm C / 2 it was lost, and the clip exceeded 36,000 times."""
    b, a = torch.zeros(1, 2, 64), torch.zeros(1, 2, 64)
    b[0, 0, 0], a[0, 0, 0] = clip / 2, 1.0
    b[0, 1, 1], a[0, 1, 1] = 2e-23, 1.8e19
    wanted = (clip / 2) ** 2 + (2e-23 * 1.8e19) ** 2
    assert float(Dense(b, a).square_norms()[0]) == pytest.approx(wanted, rel=1e-5)


def _drifting(n: int, first: float) -> torch.Tensor:
    """Rows of one number whose sum in float32, one after the other, stands just above or just below a power of two from half on."""
    rows = torch.full((n, 1, 1), 1.0)
    rows[n // 2 :] = -0.75 * torch.finfo(torch.float32).eps * n / 4
    rows[0], rows[1], rows[n // 2] = first, 0.5, 1.0
    return rows


SUMS = {
    "formed": Formed,
    "dense": lambda rows: Dense(rows, torch.ones(len(rows), 1, 1)),
    "convolution": lambda rows: Convolution(
        rows[..., None], torch.ones(len(rows), 1, 1, 1), Geometry.of(torch.nn.Conv2d(1, 1, 1)), views=1
    ),
    "table": lambda rows: Table(torch.zeros(len(rows), 1, dtype=torch.int64), rows, rows=2),
}


@pytest.mark.parametrize("kind", SUMS)
def test_a_record_moves_the_sum_of_many_by_its_own_gradient(kind: str) -> None:
    """The sums of neighbouring data sets differed by 5 C for 16,384 records that were added one after the other."""
    n = 16_384
    with_it, without = (
        float(SUMS[kind](_drifting(n, first)).weighted_sum(torch.ones(n)).flatten()[0]) for first in (1.0, 0.0)
    )
    assert with_it - without == pytest.approx(1.0, abs=n * 2.0**-24)


# --- Which layers have factors, and that their weights are out of the graph only where nothing looks at them ---


ROWS = 5


def attached(model: nn.Module, **options: Any):
    return sgd.attach(model, sampling_rate=0.1, expected_batch_size=ROWS, **options)


def step(private: nn.Module, optimizer, x: torch.Tensor) -> list[torch.Tensor | None]:
    """What a backward pass leaves in p.grad."""
    optimizer.begin_batch(len(x))
    optimizer.zero_grad(set_to_none=True)
    private(x).square().sum(1).mean().backward()
    left = [None if p.grad is None else p.grad.clone() for p in optimizer.params]
    optimizer.step()
    return left


def test_weights_are_out_of_the_graph_once_their_gradients_were_compared() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))
    private, optimizer = attached(model)
    x = torch.randn(ROWS, 3)
    assert all(gradient is not None for gradient in step(private, optimizer, x))
    for _ in range(2):
        first, bias, last = step(private, optimizer, x)
        assert first is None and last is None and bias is not None
        assert all(p.requires_grad for p in model.parameters())
    assert all(gradient is not None for gradient in step(private, optimizer, x))  # compared again
    assert optimizer.accountant.steps == 4


def test_a_forward_pass_that_fails_leaves_the_weights_trained() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    private, optimizer = attached(model)
    step(private, optimizer, torch.randn(ROWS, 3))
    with pytest.raises(RuntimeError):
        private(torch.randn(ROWS, 7))
    assert all(p.requires_grad for p in model.parameters())
    step(private, optimizer, torch.randn(ROWS, 3))
    assert optimizer.accountant.steps == 2


def test_a_weight_used_outside_of_its_layer_is_still_refused() -> None:
    """Once the engine has looked for such weights: it tries two and three examples."""

    class Outside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight = self.inner.weight if len(x) == ROWS else self.inner.weight.detach()
            return nn.functional.linear(self.inner(x), weight)

    private, optimizer = attached(Outside())
    with refused("inner.weight"):
        step(private, optimizer, torch.randn(ROWS, 3))
    assert optimizer.accountant.steps == 0


@pytest.mark.parametrize("way", ["outputs", "weight"])
@pytest.mark.parametrize("steps", [0, 2])
def test_a_gradient_past_a_layer_is_refused_whenever_it_comes(way: str, steps: int) -> None:
    """A penalty that begins later; layers that the loop calls past the private model."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))
    private, optimizer = attached(model)
    x = torch.randn(ROWS, 3)
    for _ in range(steps):
        step(private, optimizer, x)
    optimizer.begin_batch(ROWS)
    optimizer.zero_grad()
    loss = (private if way == "weight" else model)(x).square().sum(1).mean()
    (loss + 0.0 * model[2].weight.sum()).backward()
    optimizer.step()
    optimizer.begin_batch(ROWS)
    optimizer.zero_grad()
    loss = (private if way == "weight" else model)(x).square().sum(1).mean() + 0.1 * model[2].weight.square().sum()
    loss.backward()
    for _ in range(2):  # also where the loop goes on
        with refused("2.weight"):
            optimizer.step()
    assert optimizer.accountant.steps == steps + 1


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
def test_a_gradient_of_zero_is_not_yet_one_that_was_compared(mode: str) -> None:
    """A gate that opens in the second step: the weight behind it is also used past its layer."""
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    private, optimizer = attached(model, grad_sample_mode=mode)
    for gate in (0.0, 1.0):
        optimizer.begin_batch(ROWS)
        optimizer.zero_grad()
        output = gate * (private(torch.randn(ROWS, 3)) + torch.randn(ROWS, 3) @ model[1].weight)
        output.square().sum(1).mean().backward()
        if gate == 0.0:
            optimizer.step()
    with refused("1.weight"):
        optimizer.step()


@pytest.mark.parametrize("way", ["penalty", "scale"])
@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch", "whole network"])
def test_what_moves_gradients_later_is_refused_in_the_fourth_step(way: str, mode: str) -> None:
    """A penalty, the scale of a gradient that is reversed: weights are compared ever more seldom."""
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2, bias=False))
    private, optimizer = attached(model, grad_sample_mode=mode)

    def backward(late: bool) -> None:
        optimizer.begin_batch(ROWS)
        optimizer.zero_grad()
        output = private(torch.randn(ROWS, 3))
        if way == "scale":
            output.register_hook(lambda gradient: gradient * (1 + late))
        loss = output.square().sum(1).mean()
        if late and way == "penalty":
            loss = loss + sum(p.square().sum() for p in model.parameters())
        loss.backward()

    for _ in range(3):
        backward(late=False)
        optimizer.step()
    backward(late=True)
    with refused("0.weight" if way != "scale" or mode == "whole network" else "2.weight"):
        optimizer.step()
    assert optimizer.accountant.steps == 3


@pytest.mark.parametrize(
    ("layer", "has"),
    [
        (nn.Linear(2, 3), True), (nn.Conv2d(1, 2, 3), True), (nn.Embedding(4, 2), True),
        (nn.Conv2d(1, 2, 3, padding_mode="circular"), False), (nn.Embedding(4, 2, sparse=True), False), (nn.LayerNorm(3), False),
        (nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)), False), (type("Own", (nn.Linear,), {})(2, 3), False),
    ],
)  # fmt: skip
def test_layers_with_factors(layer: nn.Module, has: bool) -> None:
    assert has_factors(layer) is has


def test_an_input_without_examples_is_refused() -> None:
    for layer, x in ((nn.Linear(2, 3), torch.randn(2)), (nn.Conv1d(1, 2, 1), torch.randn(1, 4))):
        with pytest.raises(ValueError):
            factors_of(layer, x, layer(x).detach(), rows=1)


def test_calls_add_up_and_rows_that_took_no_part_are_zero() -> None:
    layer = nn.Linear(2, 3)
    x, b = torch.randn(ROWS, 2), torch.randn(ROWS, 3)
    whole = factors_of(layer, x, b, rows=ROWS)
    part = factors_of(layer, x[:2], b[:2], rows=ROWS)
    for p in (layer.weight, layer.bias):
        found: Representation = added(whole[p], part[p])
        wanted = whole[p].detach().clone()
        wanted[:2] += part[p].detach()[:2]
        assert len(part[p]) == ROWS and not part[p][2:].any()
        torch.testing.assert_close(found.detach(), wanted)
        torch.testing.assert_close(added(found, Formed(wanted)).detach(), 2 * wanted)


# --- A module called with other values has its own parameters afterwards, also where layers share them ---


class Shared(nn.Module):
    """One layer under two names, and a weight that another layer has, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = self.again = nn.Linear(3, 3)
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(self.again(self.first(x)))


def test_values_are_everywhere_and_gone_afterwards() -> None:
    model, x = Shared(), torch.randn(2, 3)
    weight, bias = model.first.weight, model.first.bias
    doubled = called_with(model, {weight: 2 * weight.detach(), bias: 0 * bias.detach()}, (x,), {})
    torch.testing.assert_close(doubled, 8 * (x @ weight.T @ weight.T @ weight.T))
    assert set(places_of(model)) == {"first.weight", "first.bias", "tied.weight"}
    assert model.first.weight is weight and model.again.weight is weight and model.tied.weight is weight


# --- Two and three rows before the first step: which layers' rows are examples, and that nothing of it stays ---


def tried(build: Callable[[], nn.Module], batch: tuple[torch.Tensor, ...], loss=t.cross_entropy, **options):
    """A private model after the backward pass of a batch."""
    torch.manual_seed(0)
    made = t.private_loop(build(), batch, **options)
    (rows,) = made[2]
    made[1].zero_grad()
    loss(made[0], *rows).backward()
    return made


class Scored(nn.Module):
    """Has a parameter of its own, and beside the examples takes a table, or other rows of theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 6))

    def forward(self, x: torch.Tensor, other: torch.Tensor, each: bool) -> torch.Tensor:
        return (x @ self.w + (other if each else other.softmax(0).sum(0) * other[0])).tanh()


TABLE = torch.linspace(-2, 2, 60, dtype=torch.float64).view(10, 6)


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("twice", [False, True])
def test_a_table_beside_the_examples_may_have_as_many_rows_as_these(mode: str, views: int, twice: bool) -> None:
    """A mask, positions, weights of places: of so many examples no example has a row of it. Also where a call has rows there."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        h = m.a(x, m.table, False)
        return m.b(m.a(h, 0.5 * x, True) if twice else h)

    torch.manual_seed(0)
    model = t.Model(run, a=Scored(), b=nn.Linear(6, 3)).double()
    model.register_buffer("table", TABLE)
    plain = deepcopy(model)
    private, optimizer = sgd.attach(
        model, lr=0.0, sampling_rate=0.5, expected_batch_size=5, grad_sample_mode=mode, views=views
    )
    for examples in (10 // views, 8, 10 // views):
        x = draw(examples * views, 6)
        optimizer.begin_batch(examples)
        optimizer.zero_grad()
        private(x).square().sum(1).mean().backward()
        wanted = sgd.alone(plain, examples, lambda rows, x=x: plain(x[rows]).square().sum(1).mean(), views=views)
        for p, rows in zip(optimizer.params, wanted, strict=True):
            close(torch.as_tensor(p.grad_sample[:]), rows)
        optimizer.step()


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
def test_one_row_for_all_now_and_then_leaves_the_others_theirs(mode: str) -> None:
    """A condition of each example, and at times none: the same row for all."""
    torch.manual_seed(0)
    model = t.Model(lambda m, x, c: m.b(m.a(x, c, True)), a=Scored(), b=nn.Linear(6, 3)).double()
    plain = deepcopy(model)
    private, optimizer = sgd.attach(model, lr=0.0, sampling_rate=0.5, expected_batch_size=5, grad_sample_mode=mode)
    for examples, rows in ((6, 6), (8, 1), (5, 5), (7, 7)):
        x, c = draw(examples, 6), draw(rows, 6)
        optimizer.begin_batch(examples)
        optimizer.zero_grad()
        private(x, c).square().sum(1).mean().backward()
        wanted = sgd.alone(
            plain, examples, lambda own, x=x, c=c: plain(x[own], c if len(c) == 1 else c[own]).square().sum(1).mean()
        )
        for p, found in zip(optimizer.params, wanted, strict=True):
            close(torch.as_tensor(p.grad_sample[:]), found)
        optimizer.step()


BY_HOOKS = ["one row for all", "one row for all, twice", "packed sequences", "DPLSTM", "a call for each frame", "checkpoint", "GRUCell",
            "reentrant checkpoint", "weight_norm", "several outputs", "EmbeddingBag, offsets", "attention, mask",
            "layer norm without bias", "a parameter for each kind of call"]  # fmt: skip


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
@pytest.mark.parametrize("name", BY_HOOKS)
def test_hooks_do_what_hooks_can(name: str, mode: str) -> None:
    private, *_ = tried(*t.RIGHT[name], grad_sample_mode=mode)
    assert private.passes.alone == {}


@pytest.mark.parametrize(
    "name", ["one row behind a head of zeros", "the third of a table's rows", "a table that is flattened"]
)
def test_a_row_is_expanded_only_where_each_example_is_seen_to_take_its_own(name: str) -> None:
    private, *_ = tried(*t.RIGHT[name])
    assert set(private.passes.alone.values()) == {"a.weight", "a.bias"}


def of_two(run: Callable[..., Any]) -> Callable[[], nn.Module]:
    return lambda: t.Model(run, a=nn.Linear(6, 6), b=nn.Linear(6, 3))


OTHERS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...], set[str]]] = {
    "all rows the other way round": (t.turned, (t.X,), {"a"}),
    "that, behind a head of zeros": (lambda: t.turned(b=t._zero(nn.Linear(6, 3))), (t.X,), {"a"}),
    "order of length, behind a head of zeros": (lambda: t.by_length(zero=True), (t.FRAMES, t.LENGTHS), {"a"}),
    "a list of rows": (of_two(lambda s, x: list(s.b(s.a(x.flip(0)).tanh().flip(0)))), (t.X,), {"a", "b"}),
    "logits of both signs, whose gradients cancel": (
        lambda: t.Model(lambda s, x: (lambda z: torch.stack([z, -z], 1))(s.b(s.a(x).flip(0)).flip(0)[..., 0]),
            a=nn.Embedding(10, 6), b=nn.Linear(6, 1)), (t.TOKENS,), {"a", "b"}),
    "statistics of a batch": (of_two(lambda s, x: s.b(s.a(x / x.abs().max()).tanh())), (t.X,), {"a", "b"}),
    "a batch of one size": (of_two(lambda s, x: s.b(s.a(x.view(8, 6).flip(0)).tanh().flip(0))), (t.X,), {"a", "b"}),
    "inputs without gradients": (of_two(lambda s, x: s.b(s.a(torch.tensor(x.numpy()[::-1].copy())).flip(0))), (t.X,), {"a"}),
    "a list of rows in order": (of_two(lambda s, x: list(s.b(s.a(x).tanh()))), (t.X,), set()),
    "a loss within the model": (of_two(lambda s, x: s.b(s.a(x).tanh()).square().mean()), (t.X,), set()),
    "scores of pairs beside": (of_two(lambda s, x: (s.a(x), s.a(x) @ s.b(x).repeat(1, 2).T)), (t.X,), set()),
    "as many places as a pass has examples, first": (
        of_two(lambda s, x: s.b(s.a(x[:, None].expand(-1, 7, -1))).transpose(0, 1)), (t.X,), set()),
    "an example that is infinite": (
        of_two(lambda s, x: s.b(s.a(x).tanh()) * x.sum(1, keepdim=True)), (t.X.clone().index_fill_(0, torch.tensor(3), torch.inf),),
        set()),
}  # fmt: skip
"""Networks and the layers that are left to no hook: their rows, or nobody knows whose, are others'."""


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
@pytest.mark.parametrize("name", OTHERS)
def test_rows_of_others_are_left_to_no_hook(name: str, mode: str) -> None:
    build, inputs, layers = OTHERS[name]
    torch.manual_seed(0)
    private, *_ = t.private_loop(build(), (*inputs, t.Y), grad_sample_mode=mode)
    private(*inputs)
    assert {parameter.partition(".")[0] for parameter in private.passes.alone.values()} == layers


@pytest.mark.parametrize("sizes", [(4, 4, 4, 4), (4, 6)])
def test_an_order_that_comes_later_is_seen_in_the_fourth_batch_or_the_largest(sizes: tuple[int, ...]) -> None:
    """Of sequences of one length nothing is sorted."""
    torch.manual_seed(0)
    model = t.by_length()
    wanted = t.by_length()
    wanted.load_state_dict(model.state_dict())
    private, optimizer, _ = t.private_loop(model, (t.FRAMES, t.LENGTHS, t.Y))
    for number, size in enumerate(sizes):
        last = number == len(sizes) - 1
        batch = t.FRAMES[:size], t.LENGTHS[:size] if last else torch.full((size,), 5), t.Y[:size]
        optimizer.loader_drew(size)
        optimizer.zero_grad()
        t.cross_entropy(private, *batch).backward()
        assert set(private.passes.alone.values()) == ({"a.weight", "a.bias"} if last else set())
        if last:
            found = [torch.as_tensor(p.grad_sample.detach()) for p in optimizer.params]
            alone = sgd.alone(
                wanted, size, lambda at, batch=batch: t.cross_entropy(wanted, *[one[at] for one in batch])
            )
            torch.testing.assert_close(found, alone)


def test_looks_come_ever_later_and_with_every_batch_that_is_larger() -> None:
    looks, found = Looks(), {}
    for number in range(1, 300):
        looks.anew |= number == 7
        found |= {number: len(holds)} if (holds := looks.due(5)) else {}
    looks.anew = True
    assert found == dict.fromkeys((1, 4, 7, 16, 64, 256), 5 + 1) and not looks.due(1)
    (*each, (rows, half)) = looks.due(9)
    assert each == [(7, [held]) for held in range(7)] and rows == 9 and len(set(half)) == 4
    assert looks.due(9) == [] and [rows for rows, _ in looks.due(10)] == [10]


@pytest.mark.parametrize("first", [0, 1, 5])
@pytest.mark.parametrize("place", [2, 3])
def test_every_pass_of_a_batch_is_looked_at_also_behind_a_batch_of_one(place: int, first: int) -> None:
    """Of which nothing is seen. Of three passes a batch the 4th, 16th, 64th, ... are all first ones."""
    private, optimizer, _ = t.private_loop(t.by_length(), (t.FRAMES, t.LENGTHS, t.Y))
    same = torch.full_like(t.LENGTHS, 5)

    def backward(rows: int, lengths: Any) -> None:
        optimizer.loader_drew(rows)
        optimizer.zero_grad()
        outputs = (private(t.FRAMES[:rows], (lengths if at == place else same)[:rows]) for at in (1, 2, 3))
        F.cross_entropy(sum(outputs), t.Y[:rows]).backward()

    for rows in [first] * (3 if first == 5 else 1):
        backward(rows, same)
        optimizer.step()
    with refused("a.weight"):
        backward(5, t.LENGTHS)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("way", ["attribute", "attribute in a table", "list of the loop"])
def test_a_layer_that_the_loss_reads_past_the_output_has_its_own_rows_or_is_refused(way: str, turned: bool) -> None:
    """Tokens have no gradient: only the attribute itself shows its order."""
    kept: list[torch.Tensor] = []
    kind, batch = (lambda: nn.Linear(6, 6), t.FRAMES) if "loop" in way else (lambda: nn.Embedding(10, 6), t.TOKENS)

    def run(s, x: torch.Tensor) -> torch.Tensor:
        hidden = (s.a(x.flip(0)).flip(0) if turned else s.a(x)).tanh().mean(1)
        kept.append(hidden)
        s.hidden = {"attribute": hidden, "attribute in a table": {"last": [hidden]}}.get(way)
        return s.c(s.b(x)).mean(1)

    def loss(private, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = private(x)
        return F.cross_entropy(scores, y) + kept[-1].square().sum(1).mean()

    torch.manual_seed(0)
    made = t.private_loop(t.Model(run, a=kind(), b=kind(), c=nn.Linear(6, 3)), (batch, t.Y))
    with refused("a.weight") if turned else nullcontext():
        t.one_step(made, loss)
    assert set(made[0].passes.alone.values()) >= ({"a.weight"} if turned else set())


def test_a_list_of_rows_in_another_order_is_refused() -> None:
    with refused("module"):
        tried(OTHERS["a list of rows"][0], (t.X, t.Y), lambda m, x, y: F.cross_entropy(torch.stack(m(x)), y))


@pytest.mark.parametrize(
    ("drawn", "ahead", "listed"),
    [((), False, False), ((3, 8), False, False), ((8, 3), True, False), ((), False, True), ((8,), False, True)],
)
def test_arguments_without_examples_hide_no_rows(drawn: tuple[int, ...], ahead: bool, listed: bool) -> None:
    """Most of them have three rows, as has a batch that was left out or drawn ahead; tensors in a list have none of the batch's."""
    run = lambda s, x, *_: s.b(s.a((torch.stack(x) if listed else x).flip(0)).tanh().flip(0))  # noqa: E731
    private, optimizer, _ = t.private_loop(of_two(run)(), (t.X, t.Y))
    optimizer.loader_begins(drawn_ahead=ahead)
    for rows in drawn:
        optimizer.loader_drew(rows)
    scores = private([*t.X] if listed else t.X, torch.rand(3, 3), torch.rand(3))
    found = {name.partition(".")[0] for name in private.passes.alone.values()}
    assert found == (({"a", "b"} if drawn else set()) if listed else {"a"})
    with refused("module", 8) if drawn and listed else nullcontext():
        F.cross_entropy(scores, t.Y).backward()


@pytest.mark.parametrize("way", ["evaluation", "no_grad", "training"])
def test_passes_of_other_rows_say_nothing_of_what_holds_examples(way: str) -> None:
    """As many are drawn as an example has entries, so that the rows of the others are not the examples."""
    private, optimizer, _ = t.private_loop(t.Linear(6, 3), (t.X, t.Y), grad_sample_mode="whole network")
    for _ in range(2):
        optimizer.loader_drew(6)
        optimizer.zero_grad()
        F.cross_entropy(private(t.X[:6]), t.Y[:6]).backward()
        optimizer.step()
        optimizer.loader_drew(6)
        private.train(way != "evaluation")
        with torch.set_grad_enabled(way != "no_grad"):
            private(t.X)
        private.train()


def test_a_trial_leaves_arguments_and_what_they_come_from_as_they_are() -> None:
    model = t.Model(lambda s, x, row, passes: s.a(x) + row + 0.0 * passes.add_(1.0), a=t.Linear(6, 3))
    private, optimizer, _ = t.private_loop(model, (t.X, t.Y))
    optimizer.loader_drew(len(t.X))
    other, passes = nn.Linear(2, 3), torch.zeros(1)
    loss = F.cross_entropy(private(t.X, other(torch.ones(1, 2)).tanh(), passes), t.Y)
    assert other.weight.grad is None and passes == 1
    loss.backward()


def test_a_pass_of_some_examples_of_a_batch_is_refused() -> None:
    """Its rows would be added to those of the first ones."""
    private, optimizer, _ = t.private_loop(nn.Sequential(t.Linear(6, 3)), (t.X, t.Y), loss_reduction="sum")
    optimizer.loader_drew(len(t.X))
    with refused("module", 3, 8):
        (F.cross_entropy(private(t.X), t.Y, reduction="sum") + private(t.X[5:]).square().sum()).backward()


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("whole", [False, True])
def test_a_loss_of_pairs_is_refused_and_one_of_their_diagonal_is_none(whole: bool, views: int) -> None:
    model = t.Model(lambda s, x: (None, s.a(x) @ s.b(x).T), a=t.Linear(6, 6), b=t.Linear(6, 6))
    private, optimizer, _ = t.private_loop(model, (t.X, t.Y), views=views)
    optimizer.loader_drew(len(t.X) // views)
    _, scores = private(t.X)
    own = torch.eye(8 // views).repeat_interleave(views, 0).repeat_interleave(views, 1)
    with refused("loss", (8, 8)) if whole else nullcontext():
        (F.cross_entropy(scores, torch.arange(8)) if whole else (scores * own).sum(1).mean()).backward()


@pytest.mark.parametrize("mode", ["factors", "whole network"])
def test_attributes_of_layers_are_as_one_pass_leaves_them(mode: str) -> None:
    """Losses in a list, a number of passes, what is worked out once: no trial counts, and no pass of one example."""

    def run(s: Any, x: torch.Tensor) -> torch.Tensor:
        hidden, s.passes = s.a(x).tanh(), s.passes + 1
        s.losses.append(hidden.square().mean(1))
        s.table[0].append(hidden)
        s.table[s.passes] = hidden
        return s.b(hidden)

    model = t.Model(run, a=t.Linear(6, 6), b=t.Linear(6, 3))
    model.passes, model.losses, model.table = 0, [], {0: deque()}
    private, optimizer, _ = t.private_loop(model, (t.X, t.Y), grad_sample_mode=mode)
    optimizer.loader_drew(len(t.X))
    scores, losses = private(t.X), model.losses
    (F.cross_entropy(scores, t.Y) + (sum(losses).mean() if mode == "factors" else 0.0)).backward()
    assert (model.passes, len(losses), list(model.table), len(model.table[0])) == (1, 1, [0, 1], 1)
    assert losses is model.losses
    optimizer.step()


def test_what_a_hook_of_the_loop_keeps_of_a_trial_has_no_gradient() -> None:
    kept: list[torch.Tensor] = []
    private, optimizer, _ = t.private_loop(nn.Sequential(t.Linear(6, 6), nn.Tanh(), t.Linear(6, 3)), (t.X, t.Y))
    private._module[0].register_forward_hook(lambda *given: kept.append(given[2]))
    optimizer.loader_drew(len(t.X))
    with refused("backward()"):
        (F.cross_entropy(private(t.X), t.Y) + kept[-2].square().sum(1).mean()).backward()


def test_a_layer_that_is_called_past_the_private_model_is_said(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(t.Linear(6, 3))
    private, optimizer, _ = t.private_loop(model, (t.X, t.Y))
    with caplog.at_level(logging.WARNING):
        for ran in (private, model, model):
            optimizer.loader_drew(len(t.X))
            optimizer.zero_grad()
            checkpoint(ran, t.X, use_reentrant=False).square().sum().backward()
            said = [record.getMessage() for record in caplog.records]
            assert len(said) == (ran is model)
    assert "0 (Linear)" in said[0]


def test_another_number_of_rows_than_in_the_trial_is_refused() -> None:
    """The one row comes later than the trial, and would be the first example's."""
    model = t.Model(
        lambda s, x: s.b(s.a(x) + (s.a(torch.ones(1, 6)) if s.late else 0.0)), a=nn.Linear(6, 6), b=nn.Linear(6, 3)
    )
    model.late = False
    private, optimizer, _ = made = t.private_loop(model, (t.X, t.Y))
    t.one_step(made)
    model.late = True
    optimizer.zero_grad()
    with refused("module", "expand one row"):
        t.cross_entropy(private, t.X, t.Y).backward()


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


@pytest.mark.parametrize("half", [False, True])
def test_nothing_of_it_stays(half: bool) -> None:
    """Random numbers, weights and autocast's copies of them, vectors of spectral norms, gradients, what hooks of gradients saw and
    what the optimizer knows are as without it."""
    stepped: list[torch.Tensor] = []

    def after(*, tries: bool) -> tuple[list, list[torch.Tensor]]:
        torch.manual_seed(5)
        random.seed(5)
        np.random.seed(5)  # noqa: NPY002
        model = nn.Sequential(t.Linear(6, 8), nn.Dropout(0.5), t.Linear(8, 3), spectral_norm(t.Linear(3, 3)))
        private, optimizer, _ = t.private_loop(model, (t.X, t.Y))
        if not tries:
            private._tried, private._looks = True, []
        model[0].weight.register_post_accumulate_grad_hook(stepped.append)
        model[0].bias.register_hook(stepped.append)
        optimizer.loader_drew(len(t.X))
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        nn.init.zeros_(model[2].weight)
        nn.init.zeros_(model[2].bias)
        weights = [(p, p.data_ptr(), p._version) for p in model.parameters()]
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = F.cross_entropy(private(t.X), t.Y)
        assert weights == [(p, p.data_ptr(), p._version) for p in model.parameters()] and not stepped
        left = [*(p.grad.clone() for p in model.parameters()), *model.buffers()]
        assert all(p.grad_sample is None for p in model.parameters())
        loss.backward()
        numbers = [torch.rand(1).item(), random.random(), np.random.rand()]  # noqa: NPY002
        return numbers, [*left, *(torch.as_tensor(p.grad_sample.detach()) for p in model.parameters())]

    numbers, found = after(tries=True)
    stepped.clear()
    others, wanted = after(tries=False)
    assert numbers == others
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_a_parametrization_that_is_cached_has_its_own_weight() -> None:
    """Not that of the trial, in which no weight is zero."""
    model = nn.Sequential(parametrize.register_parametrization(nn.Linear(6, 3, bias=False), "weight", nn.Tanh()))
    nn.init.zeros_(model[0].parametrizations.weight.original)
    private, optimizer, _ = t.private_loop(model, (t.X, t.Y))
    optimizer.loader_drew(len(t.X))
    with parametrize.cached():
        assert not private(t.X).any()


def test_a_look_while_gradients_come_leaves_those_that_are_there() -> None:
    """A checkpoint repeats a pass in the backward pass, after other passes have left their gradients."""

    def loss(ran: Callable[..., torch.Tensor], private: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(ran(private, x) + ran(private, x.cos()), y)

    def after(ran: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = t.private_loop(nn.Sequential(t.Linear(6, 6), nn.Tanh(), t.Linear(6, 3)), (t.X, t.Y))
        for _ in range(2):
            t.one_step(made, partial(loss, ran))
        return [p.detach() for p in made[0].parameters()]

    repeated = after(partial(checkpoint, use_reentrant=False))
    torch.testing.assert_close(repeated, after(lambda private, x: private(x)))


def test_a_look_that_fails_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def run(s: Any, x: torch.Tensor) -> torch.Tensor:
        if x is not t.X:
            raise ValueError("a batch of its own")
        return s.a(x)

    private, optimizer, _ = t.private_loop(t.Model(run, a=t.Linear(6, 3)), (t.X, t.Y))
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            optimizer.loader_drew(len(t.X))
            private(t.X)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "batch of 8 examples" in said[0] and "a batch of its own" in said[0]


@pytest.mark.parametrize("earlier", [0, 1])
def test_an_order_that_comes_in_the_second_pass_of_a_batch_ends_it(earlier: int) -> None:
    """What the first one recorded is lost with the hooks of its layers. The second pass of the first batch has a look, too."""
    model = t.by_length()
    private, optimizer, _ = t.private_loop(model, (t.FRAMES, t.LENGTHS, t.Y))
    same = torch.full_like(t.LENGTHS, 5)

    def step(*lengths: torch.Tensor) -> None:
        optimizer.loader_drew(len(t.Y))
        optimizer.zero_grad()
        F.cross_entropy(sum(private(t.FRAMES, one) for one in lengths), t.Y).backward()
        optimizer.step()

    for _ in range(earlier):
        step(same, same)
    with refused("a.weight"):
        step(same, t.LENGTHS)
    step(same, t.LENGTHS)
    assert set(private.passes.alone.values()) == {"a.weight", "a.bias"}


def test_it_comes_again_where_something_is_unfrozen_and_not_before() -> None:
    model = t.Model(lambda s, x: s.b(F.linear(x, s.a.weight)), a=t.Linear(6, 6, bias=False), b=t.Linear(6, 3))
    calls: list[int] = []
    model.b.register_forward_pre_hook(lambda _, given: calls.append(len(given[0])))
    made = t.private_loop(model, (t.X, t.Y))
    model.a.requires_grad_(False)
    t.one_step(made)
    t.one_step(made)
    looks = [7] * 7 + [8]
    assert calls == [2, 3, *looks, 8, 8] and made[0].passes.alone == {}
    model.a.requires_grad_(True)
    t.one_step(made)
    assert calls[12:25] == [2, 3, 2, 3, *looks, 8] and set(made[0].passes.alone.values()) == {"a.weight"}


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
        optimizer.loader_drew(rows)
        optimizer.zero_grad()
        loss(private, t.FRAMES[:rows], t.Y[:rows]).backward()
        assert private._tried == (rows > 0) or rows == 0
        optimizer.step()
    assert optimizer.accountant.steps == 4
