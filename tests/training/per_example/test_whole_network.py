"""A pass of the whole network for each example: the gradients of each example alone, with its random numbers, or one line."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from opacus.layers import DPMultiheadAttention
from torch import nn
from torch.nn import functional as F

from dptheory.training.engine import attach
from dptheory.training.mechanisms import DpSgd
from dptheory.training.per_example._whole_network import Arguments, RandomDraws, _log
from tests.refused import refused
from tests.training import errors_table as t

N = t.N


def backward(model: nn.Module, loss: Any, *batch: torch.Tensor, mode: str = "whole network", **options: Any) -> Any:
    """What a backward pass of a private loop leaves; the model and its optimizer."""
    torch.manual_seed(3)
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=DpSgd(), sampling_rate=0.1,
        expected_batch_size=N, noise_multiplier=0.0, max_grad_norm=1e6, grad_sample_mode=mode, **options,
    )  # fmt: skip
    optimizer.begin_batch(len(batch[0]))
    optimizer.zero_grad()
    loss(private, *batch).backward()
    return private, optimizer, [torch.as_tensor(p.grad_sample.detach()) for p in optimizer.params]


def agree(one: list[torch.Tensor], other: list[torch.Tensor]) -> None:
    scale = max(float(p.abs().max()) for p in one)
    for a, b in zip(one, other, strict=True):
        # sums of at most 100 products in single precision, through at most 16 operations
        assert a.shape == b.shape and float((a - b).abs().max()) <= 100 * 16 * 2.0**-24 * scale


class Dropping(nn.Module):
    """Dropout of entries, of whole examples, within attention, and on windows of the examples."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = t.Linear(6, 8), t.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.dropout(self.first(x), 0.3)
        h = h * (torch.rand(len(x), 1, 1) + 0.5)
        h = F.scaled_dot_product_attention(h, h, h, dropout_p=0.4, is_causal=True)
        windows = F.dropout(h.reshape(-1, 4, 2), 0.2).reshape(len(x), -1, 8)
        return self.out((windows + torch.rand(1)).mean(1))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_each_example_has_the_random_numbers_that_it_had(reduction: str) -> None:
    """As by the hooks, which see what the layers gave."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(7)
        with RandomDraws():  # torch's own attention drops by other numbers
            return F.cross_entropy(model(x), y, reduction=reduction)

    def build() -> nn.Module:
        torch.manual_seed(0)
        return Dropping()

    modes = ("whole network", "hooks")
    agree(*(backward(build(), loss, t.FRAMES, t.Y, mode=mode, loss_reduction=reduction)[2] for mode in modes))


def test_a_layer_with_dropout_inside_has_its_own_masks() -> None:
    """One that no rule of a layer can do: what it drops in an example's pass is what it dropped in the batch."""
    torch.manual_seed(0)
    noisy = t.NoisyScale()
    with torch.no_grad():
        noisy.scale += torch.rand(6)
    model = nn.Sequential(noisy, t.Linear(6, 3))
    outputs = []
    model[0].register_forward_hook(lambda *given: outputs.append(given[2].detach()))
    private, _, (scale, *_) = backward(model, t.cross_entropy, t.X, t.Y, mode="factors")
    assert set(private.passes.alone.values()) == {"0.scale"}
    dropped = (
        next(
            one
            for one in outputs
            if one.shape == t.X.shape and type(one) is torch.Tensor and one.dim() == 2 and len(one) == N
        )
        == 0
    )
    assert torch.equal(scale == 0, dropped)


def test_what_vmap_cannot_do_has_a_pass_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    def run(s: Any, x: torch.Tensor) -> torch.Tensor:
        return s.b(s.a(x) if bool((x > -100.0).all()) else x)

    torch.manual_seed(0)
    model = t.Model(run, a=t.Linear(6, 6), b=t.Linear(6, 3))
    with caplog.at_level("DEBUG", _log.name):
        _, _, found = backward(model, t.cross_entropy, t.X, t.Y)
    assert "one example at a time" in caplog.text
    torch.manual_seed(0)
    agree(found, backward(t.Model(run, a=t.Linear(6, 6), b=t.Linear(6, 3)), t.cross_entropy, t.X, t.Y, mode="hooks")[2])


def _with_hidden(s: Any, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
    hidden = s.a(x).tanh()
    return s.b(hidden), {"hidden": hidden, "none": None, "text": "x"}


def _of_both(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    scores, others = model(x)
    return F.cross_entropy(scores, y) + others["hidden"].square().sum(1).mean()


ALIKE: dict[str, tuple[Callable[[], nn.Module], Any, torch.Tensor]] = {
    "dropout is that of the batch": (
        lambda: nn.Sequential(t.Linear(6, 8), nn.Dropout(0.3, inplace=True), nn.Tanh(), nn.Dropout(0.4), t.Linear(8, 3)),
        t.cross_entropy, t.X),
    "attention of Opacus drops as in the batch": (
        lambda: t.Model(lambda s, x: s.b(s.a(x, x, x)[0].mean(1)), b=t.Linear(6, 3),
            a=DPMultiheadAttention(6, 2, dropout=0.3, batch_first=True)), t.cross_entropy, t.FRAMES),
    "outputs of which one is made of another count once": (
        lambda: t.Model(_with_hidden, a=t.Linear(6, 6), b=t.Linear(6, 3)), _of_both, t.X),
    "several forward passes of one backward pass add up": (
        lambda: nn.Sequential(t.Linear(6, 6), nn.Tanh(), t.Linear(6, 3)),
        lambda m, x, y: F.cross_entropy(m(x) * m(x.cos()), y), t.X),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_it_gives_what_hooks_give(name: str) -> None:
    build, loss, batch = ALIKE[name]
    found = []
    for mode in ("whole network", "hooks"):
        torch.manual_seed(0)
        found.append(backward(build(), loss, batch, t.Y, mode=mode)[2])
    agree(*found)


@pytest.mark.parametrize("factor", [0.0, torch.nan])
def test_gradients_that_say_nothing_do_not_vouch_for_vmap(factor: float) -> None:
    private, optimizer, _ = backward(t.Linear(6, 3), lambda m, x, y: factor * t.cross_entropy(m, x, y), t.X, t.Y)
    assert private.passes.network._at_once is None
    optimizer.step()
    optimizer.zero_grad()
    optimizer.begin_batch(N)
    t.cross_entropy(private, t.X, t.Y).backward()
    assert private.passes.network._at_once is True


def test_a_mask_of_places_is_none_of_examples_where_it_once_had_another_number() -> None:
    arguments, places = Arguments(), torch.ones(5, 5)
    for rows in (3, 5, 4):
        leaves = [places, torch.ones(rows, 5), None, torch.ones(rows)]
        assert arguments.examples(leaves) == rows and arguments.places(leaves) == [1, 3]
    assert Arguments().examples([None, 3, torch.ones(())]) == 0


def test_of_no_example_there_are_no_gradients() -> None:
    _, optimizer, found = backward(t.Linear(6, 3), lambda m, x: m(x).sum(), t.X[:0])
    assert [len(one) for one in found] == [0, 0]
    optimizer.step()


def test_autocast() -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(model(x), y)

    def build() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(t.Linear(6, 8), nn.Tanh(), t.Linear(8, 3))

    one, other = (backward(build(), loss, t.X, t.Y, mode=mode)[2] for mode in ("whole network", "hooks"))
    scale = max(float(p.abs().max()) for p in other)
    # four roundings to half precision on the way
    assert all(float((a - b).abs().max()) <= 4 * 2.0**-7 * scale for a, b in zip(one, other, strict=True))


def test_new_tensors_stand_where_they_stood_in_the_forward_pass() -> None:
    """Gradients come in another thread where they are on a GPU, without the default device of the loop."""
    found: list[str] = []

    def run(s: Any, x: torch.Tensor) -> torch.Tensor:
        found.append(torch.empty(0).device.type)
        return s.a(x)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.device("meta"):
            return F.cross_entropy(model(x), y)

    backward(t.Model(run, a=t.Linear(6, 3)), loss, t.X, t.Y, mode="whole network")
    assert len(found) > 1 and set(found) == {"meta"}


def test_rounding_of_autocast_takes_no_layer_for_one_with_others_gradients() -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(model(x), y)

    for seed in range(60):  # one in thirty networks was taken for one before precisions were kept
        torch.manual_seed(seed)
        private, optimizer, _ = backward(
            nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), loss, t.X, t.Y, mode="factors"
        )
        assert not private.passes.alone
        assert {one.computed_in for one in optimizer.grad_samples.parts} == {torch.bfloat16}


def test_a_bias_may_take_the_whole_network_beside_the_factors_of_its_weight() -> None:
    """Also where the weight is out of the graph, as it is from the step on in which nothing compares its gradient."""
    torch.manual_seed(0)
    private, optimizer, _ = backward(
        nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), t.cross_entropy, t.X, t.Y, mode="factors"
    )
    optimizer.step()
    private.take_alone([private._module[0].bias], "a test")
    for _ in range(3):
        optimizer.begin_batch(N)
        optimizer.zero_grad()
        t.cross_entropy(private, t.X, t.Y).backward()
        weight, bias, *_ = optimizer.grad_samples.parts
        of_outputs = torch.einsum("noi,ni->no", weight.formed(), t.X) / t.X.square().sum(1, keepdim=True)
        torch.testing.assert_close(bias.formed(), of_outputs, rtol=1e-4, atol=1e-6)
        optimizer.step()


# --- what is refused --------------------------------------------------------------------------------------------------


def backward_refused(model: nn.Module, loss: Any, *batch: torch.Tensor, name: str, **options: Any) -> None:
    with refused(name) as error:
        backward(model, loss, *batch, **options)
    assert len(str(error.value)) < 450
    assert all(p.grad is None for p in model.parameters()), "the gradient of the bare batch"


class Experts(nn.Module):
    """Each has room for as many tokens of the batch as there are examples."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = t.Linear(6, 2), nn.ModuleList(t.Linear(6, 6) for _ in range(2))
        self.out = t.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(-1, 6)
        shares, found = self.gate(tokens).softmax(1), torch.zeros_like(tokens)
        for share, expert in zip(shares.T, self.experts, strict=True):
            taken = share.topk(len(x)).indices
            found = found.index_add(0, taken, expert(tokens[taken]) * share[taken, None])
        return self.out(found.view(x.shape).mean(1))


@pytest.mark.parametrize("mode", ["factors", "whole network"])
def test_experts_that_choose_among_all_tokens_are_refused(mode: str) -> None:
    backward_refused(Experts(), t.cross_entropy, t.FRAMES, t.Y, name="gate.weight", mode=mode)


def test_random_numbers_that_are_not_torchs_are_refused() -> None:
    model = t.Model(lambda s, x: s.a(x * torch.as_tensor(np.random.rand(len(x), 1), dtype=x.dtype)), a=t.Linear(6, 3))  # noqa: NPY002
    backward_refused(model, t.cross_entropy, t.X, t.Y, name="a.weight")


def test_a_random_order_of_rows_is_refused() -> None:
    def run(s: Any, x: torch.Tensor) -> torch.Tensor:
        order = torch.randperm(len(x))
        return s.b(s.a(x[order]).tanh()[order.argsort()])

    backward_refused(
        t.Model(run, a=t.Linear(6, 6), b=t.Linear(6, 3)), t.cross_entropy, t.X, t.Y, name="a.weight", mode="factors"
    )


def test_a_loss_within_the_model_that_divides_by_tokens_of_all_is_refused() -> None:
    labels = torch.where(t.PADDED, -100, t.TOKENS % 3)

    def build() -> nn.Module:
        return t.Model(lambda s, x, y: {"loss": F.cross_entropy(s.a(x).mT, y)}, a=t.Linear(6, 3))

    backward_refused(build(), lambda m, x, y: m(x, y)["loss"], t.FRAMES, labels, name="loss")
    by_pass, by_hooks = (
        backward(build(), lambda m, x, y: m(x, y)["loss"], t.FRAMES, t.TOKENS % 3, mode=mode)[2]
        for mode in ("whole network", "hooks")
    )
    assert [one.shape for one in by_pass] == [one.shape for one in by_hooks]


def test_a_second_backward_pass_and_a_penalty_name_the_cause() -> None:
    private, _, _ = backward(t.Linear(6, 3), t.cross_entropy, t.X, t.Y)
    loss = t.cross_entropy(private, t.X, t.Y)
    with refused("each backward pass through weight"):
        loss.backward()
    private, optimizer, _ = backward(t.Linear(6, 3), t.cross_entropy, t.X, t.Y)
    optimizer.step()
    optimizer.zero_grad()
    x = t.X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(private(x).sum(), x, create_graph=False)
    assert slope.any()
    with refused("backward passes", "create_graph=True"):
        torch.autograd.grad(private(x).sum(), x, create_graph=True)


# --- Random numbers of a forward pass are torch's, and come again


X = torch.randn(6, 4, 5, generator=torch.Generator().manual_seed(0))


def drawn() -> torch.Tensor:
    """By every kind of function."""
    x = F.dropout(X, 0.3) + nn.Dropout(0.5, inplace=True)(X.clone()) + F.dropout2d(X[..., None], 0.4)[..., 0]
    x = x + torch.rand(6, 4, 5) + torch.randn_like(X) + torch.bernoulli(X.sigmoid()) + torch.randint(5, (6, 1, 1))
    return x + torch.empty_like(X).bernoulli_(0.5) + torch.zeros_like(X).normal_(1.0, 2.0) + torch.randperm(5)


def test_they_are_those_of_torch_and_come_again() -> None:
    torch.manual_seed(1)
    plain = drawn()
    torch.manual_seed(1)
    with RandomDraws() as draws:
        kept = drawn()
    assert torch.equal(kept, plain)
    with RandomDraws(draws.drawn):
        assert torch.equal(drawn(), plain)
    with RandomDraws(draws.drawn[:-1]), pytest.raises(ValueError):
        drawn()


def test_what_does_not_drop_draws_nothing() -> None:
    with RandomDraws() as draws:
        assert torch.equal(F.dropout(X, 0.5, training=False), X) and torch.equal(F.dropout(X, 0.0), X)
        F.scaled_dot_product_attention(X, X, X)
    assert draws.drawn == []


MASK = torch.rand(4, 4, generator=torch.Generator().manual_seed(2)) > 0.3
MASK[:, 0] = True


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"attn_mask": MASK}, {"attn_mask": MASK.double()}, {"scale": 0.3}, {"enable_gqa": True},
])  # fmt: skip
def test_attention_that_drops_is_torchs_but_for_what_it_drops(options: dict) -> None:
    """With factors of one for all it is the one that drops nothing; with those drawn it is linear in them."""
    query = torch.randn(6, 4, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    key = query[:, :2] if "enable_gqa" in options else query
    with RandomDraws() as draws:
        F.scaled_dot_product_attention(query, key, key.cos(), dropout_p=0.4, **options)
    (factors,) = draws.drawn
    assert set(factors.unique().tolist()) == {0.0, 1.0 / 0.6} and factors.shape == (6, 4, 4, 4)
    with RandomDraws([torch.ones_like(factors)]):
        found = F.scaled_dot_product_attention(query, key, key.cos(), dropout_p=0.4, **options)
    torch.testing.assert_close(found, F.scaled_dot_product_attention(query, key, key.cos(), **options))
