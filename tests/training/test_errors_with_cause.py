"""Layers and loops of public reports: each trains with the gradients of each example alone, or ends in an error of this project.

An error says which layer or argument it is about, and is short; what it says otherwise is not held here.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dptheory.training.engine import GRAD_SAMPLE_MODES
from dptheory.training.engine._attention import adapt_attention
from dptheory.training.engine._optimizer import exact_products
from tests.refused import refused
from tests.training import errors_table as t
from tests.training import sgd

LONGEST = 420


def alone(model: nn.Module, batch: tuple[torch.Tensor, ...], loss: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
    return sgd.alone(model, t.N, lambda place: loss(model, *[part[place] for part in batch]))


ON_A_GPU = pytest.param(
    "cuda",
    marks=(pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")),
)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("device", ["cpu", ON_A_GPU])
@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize("name", t.RIGHT)
@exact_products()  # torch's convolutions on a GPU round factors to 11 bits otherwise
def test_trains_with_the_gradients_of_each_example(
    name: str, mode: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors that a model makes anew are on the device by the loop's default, as many users set it."""
    for constant, value in list(vars(t).items()):
        if isinstance(value, torch.Tensor):
            monkeypatch.setattr(t, constant, value.to(device))
    build, inputs, loss_there = t.RIGHT[name]
    batch = tuple(part.to(device) for part in inputs)

    def loss(model: nn.Module, *rows: torch.Tensor) -> torch.Tensor:
        with torch.device(device):
            return loss_there(model, *rows)

    torch.manual_seed(1)
    model = build().to(device)
    plain = copy.deepcopy(model)
    adapt_attention(plain)
    wanted = alone(plain, batch, loss)
    private, optimizer, loader = made = t.private_loop(model, batch, grad_sample_mode=mode)
    (rows,) = loader
    optimizer.zero_grad()
    loss(private, *rows).backward()
    found = [p.grad_sample for p in optimizer.params]
    scale = max(float(one.abs().max()) for one in wanted)
    for one, other in zip(found, wanted, strict=True):
        # sums of at most 5 * 12 products in single precision, through at most ten layers
        assert one.shape == other.shape and float((one - other).abs().max()) <= 600 * 2.0**-23 * scale
    optimizer.step()
    t.one_step(made, loss)
    assert optimizer.accountant.steps == 2


def _eval_forgotten() -> None:
    made = t.private_loop(t.Linear(6, 3), (t.X, t.Y))
    made[0].eval()
    t.one_step(made)


def _no_grad() -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scores = model(x)
        return F.cross_entropy(scores.requires_grad_(), y)

    t.one_step(t.private_loop(t.Linear(6, 3), (t.X, t.Y)), loss)


def _no_backward() -> None:
    private, optimizer, loader = t.private_loop(t.Linear(6, 3), (t.X, t.Y))
    for x, _ in loader:
        optimizer.zero_grad()
        private(x)
        optimizer.step()


def _penalty(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return slope.norm(dim=1).mean() + F.cross_entropy(model(x), y)


def _twice() -> None:
    private, optimizer, loader = t.private_loop(nn.Sequential(t.Linear(6, 3)), (t.X, t.Y))
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(private(x), y)
        loss.backward(retain_graph=True)
        loss.backward()


def _second_player() -> None:
    private, optimizer, loader = t.private_loop(nn.Sequential(t.Linear(6, 3)), (t.X, t.Y))
    generator = t.Linear(6, 6)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(private(x), y).backward()
        optimizer.step()
        F.cross_entropy(private(generator(x)), y).backward()


def _clipped(by: float) -> Callable[[], None]:
    def loop() -> None:
        private, optimizer, loader = t.private_loop(t.Linear(6, 3), (t.X, t.Y))
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(private(x), y).backward()
            nn.utils.clip_grad_norm_(private.parameters(), by)
            optimizer.step()

    return loop


def _late() -> None:
    private, optimizer, loader = t.private_loop(t.Linear(6, 3), (t.X, t.Y))
    (rows,) = loader
    late = private(rows[0])
    optimizer.zero_grad()
    private(rows[0])
    late.sum().backward()


def _written_input() -> None:
    def run(s: Any, x: torch.Tensor) -> torch.Tensor:
        h = x.clone()
        y = s.a(h)
        h += 1.0
        return y

    model = t.Model(run, a=t.Linear(6, 3))
    model.a.weight.requires_grad_(False)  # torch keeps the input for the gradient of the weight alone
    t.one_step(t.private_loop(model, (t.X, t.Y)))


def _over(build: Callable[[], nn.Module], *batch: torch.Tensor, loss: Any = t.cross_entropy) -> Callable[[], None]:
    return lambda: t.one_step(t.private_loop(build(), batch), loss)


REFUSED: dict[str, tuple[Callable[[], None], str, *tuple[str, ...]]] = {
    "train() forgotten": (_eval_forgotten, "weight", "train()"),
    "eval at make_private": (_over(lambda: t.Linear(6, 3).eval(), t.X, t.Y), "module", "train()"),
    "no_grad in training": (_no_grad, "weight", "no_grad"),
    "backward forgotten": (_no_backward, "weight", "backward()"),
    "double backward": (
        _over(lambda: nn.Sequential(t.Linear(6, 3)), t.X, t.Y, loss=_penalty), "backward passes", "0 (Linear)"),
    "retain_graph": (_twice, "each backward pass through 0 (Linear)", "retain_graph"),
    "second player": (_second_player, "zero_grad()", "0 (Linear)"),
    "clip_grad_norm_": (_clipped(1e-3), "p.grad of weight", "clip_grad_norm_"),
    "clip_grad_norm_ that does not clip": (_clipped(1e9), "p.grad of weight", "clip_grad_norm_"),
    "late backward": (_late, "backward()", "(Linear)"),
    "input changed in place": (_written_input, "inputs of layers", "a (Linear)"),
    "MultiheadAttention": (_over(t.encoder_of_twelve, t.FRAMES, t.Y), "module", "layers.0.self_attn ", "ModuleValidator.fix"),
    "LSTM": (_over(lambda: t.Model(None, a=nn.LSTM(6, 4)), t.FRAMES, t.Y), "module", "a (LSTM)", "ModuleValidator.fix"),
    "BatchNorm": (_over(lambda: nn.Sequential(t.Linear(6, 3), nn.BatchNorm1d(3)), t.X, t.Y), "module", "1 (BatchNorm1d)"),
    "old weight_norm": (_over(lambda: nn.Sequential(nn.utils.weight_norm(t.Linear(6, 3))), t.X, t.Y), "module", "0 (Linear)"),
    "lazy": (_over(lambda: nn.Sequential(t.Linear(6, 6), nn.LazyLinear(3)), t.X, t.Y), "module", "1 (LazyLinear)"),
    "sparse": (_over(lambda: t.Model(None, a=nn.Embedding(9, 3, sparse=True)), t.X, t.Y), "module", "a (Embedding)", "sparse"),
    "EmbeddingBag of maxima": (
        _over(lambda: t.Model(None, a=nn.EmbeddingBag(9, 3, mode="max")), t.TOKENS, t.Y), "module", "a (EmbeddingBag)"),
    "batch second": (_over(t.batch_second, t.FRAMES, t.Y), "a.layers.0.self_attn.qlinear.weight", "batch_first"),
    "one example without a batch": (
        _over(lambda: t.Model(lambda s, x: s.a(x[0])[None].expand(len(x), 3), a=t.Linear(6, 3)), t.X, t.Y), "a.weight"),
    "a mask of another shape": (
        _over(lambda: t.Model(lambda s, x: s.a(x, x, x, attn_mask=t.CAUSAL[:2])[0].mean(1),
            a=t.DPMultiheadAttention(6, 2, batch_first=True)), t.FRAMES, t.Y), "attn_mask of Attention"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_by_name(name: str) -> None:
    loop, *told = REFUSED[name]
    with refused(*told) as error:
        loop()
    assert len(str(error.value)) <= LONGEST
    last = error.traceback[-1].path
    assert {"engine", "per_example"} & set(last.parts), "an error of torch's or Opacus's own"


def test_a_forward_pass_without_a_backward_pass_leaves_no_trace() -> None:
    """A metric on twice as many rows, kept; then gradients of eight."""
    model = t.Linear(6, 3)
    private, optimizer, loader = t.private_loop(model, (t.X, t.Y))
    for x, y in loader:
        optimizer.zero_grad()
        kept = private(torch.cat([x, x]))
        F.cross_entropy(private(x), y).backward()
        assert len(kept) == 2 * len(model.weight.grad_sample)
        wanted = alone(copy.deepcopy(model), (x, y), t.cross_entropy)[0]
        torch.testing.assert_close(model.weight.grad_sample.detach(), wanted)
        optimizer.step()


def test_step_gives_what_the_closure_gives() -> None:
    private, optimizer, loader = t.private_loop(t.Linear(6, 3), (t.X, t.Y))
    (rows,) = loader

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = t.cross_entropy(private, *rows)
        loss.backward()
        return loss

    with torch.no_grad():
        wanted = F.cross_entropy(private(rows[0]), rows[1])
    assert torch.equal(optimizer.step(closure), wanted)
    assert optimizer.accountant.steps == 1


def test_a_second_player_trains_with_zero_grad_between() -> None:
    private, optimizer, loader = t.private_loop(nn.Sequential(t.Linear(6, 3)), (t.X, t.Y))
    generator = t.Linear(6, 6)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(private(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            F.cross_entropy(private(generator(x)), y).backward()
    assert optimizer.accountant.steps == 2 and generator.weight.grad.any()
