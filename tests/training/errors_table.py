"""Layers and loops as users of Opacus and other libraries have reported them, each with its own loop of one batch of eight."""

from collections.abc import Callable
from typing import Any

import torch
from opacus.layers import DPGRU, DPLSTM, DPMultiheadAttention
from opacus.validators import ModuleValidator
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import make_private
from dptheory.training.mechanisms import DpSgd

N = 8
ROWS = torch.Generator().manual_seed(0)
X, Y = torch.randn(N, 6, generator=ROWS), torch.arange(N) % 3
FRAMES, TOKENS = torch.randn(N, 5, 6, generator=ROWS), torch.randint(10, (N, 5), generator=ROWS)
LENGTHS = torch.arange(N) % 3 + 3
PADDED = torch.arange(5) >= LENGTHS[:, None]
CAUSAL = torch.ones(5, 5).triu(1).bool()
Linear = nn.Linear


class Model(nn.Module):
    """Layers by name, and what is done with them."""

    def __init__(self, run: Callable[..., torch.Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.run = run
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *args: Any) -> torch.Tensor:
        return self.run(self, *args)


class Positions(nn.Embedding):
    """OPT's: a mask and a number."""

    def forward(self, mask: torch.Tensor, past: int, other: None = None) -> torch.Tensor:
        return super().forward(mask.long().cumsum(1) - 1 + past)


class NoisyScale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.dropout = nn.Parameter(torch.ones(6)), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(x * self.scale)


class Pair(nn.Module):
    """Two outputs, of which one is made of the other; keywords, a number and a mask without examples."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor, *, power: int, mask: torch.Tensor, none: None) -> dict[str, torch.Tensor]:
        first = (x * self.scale) ** power
        return {"first": first, "second": first * mask}


def cross_entropy(model: nn.Module, *batch: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(*batch[:-1]), batch[-1])


def _over_time(s: Any, x: torch.Tensor) -> torch.Tensor:
    state = None
    for place in range(x.shape[1]):
        state = s.cell(x[:, place], state)
    return s.out(state[0] if isinstance(state, tuple) else state)


def _encoder(**options: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, **({"batch_first": True} | options))
    return ModuleValidator.fix(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


def _pair(s: Any, x: torch.Tensor) -> torch.Tensor:
    found = s.pair(x, power=2, mask=torch.ones(6), none=None)
    return s.out(found["first"] + found["second"])


def _adversarial(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    moved = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(F.cross_entropy(model(moved), y, reduction="sum"), moved)
    return F.cross_entropy(model(x + 0.1 * slope.sign()), y)


def _packed(s: Any, x: torch.Tensor) -> torch.Tensor:
    packed = nn.utils.rnn.pack_padded_sequence(x, [5] * len(x), batch_first=True)
    return s.out(s.rnn(packed)[1][-1])


def _in_order_of_length(s: Any, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    order = lengths.argsort(descending=True, stable=True)
    seen = torch.arange(5) < lengths[order][:, None]
    return s.b((s.a(x[order]).tanh() * seen[..., None]).sum(1)[order.argsort()])


def _packed_as_they_come(s: Any, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return s.b(s.a(packed)[1][-1])


def by_length(zero: bool = False) -> nn.Module:
    return Model(_in_order_of_length, a=Linear(6, 6), b=_zero(Linear(6, 3)) if zero else Linear(6, 3))


def turned(**parts: nn.Module) -> nn.Module:
    """The rows stand the other way round in one layer."""
    return Model(lambda s, x: s.b(s.a(x.flip(0)).tanh().flip(0)), **({"a": Linear(6, 6), "b": Linear(6, 3)} | parts))


def folded() -> nn.Module:
    return Model(lambda s, x: s.b(s.a(x.flatten(0, 1)).view(len(x), 5, 6).mean(1)), a=Linear(6, 6), b=Linear(6, 3))


def of_one_row() -> nn.Module:
    return Model(lambda s, x: s.b((x + s.a(torch.arange(5)[None])).mean(1)), a=nn.Embedding(5, 6), b=Linear(6, 3))


def used_elsewhere() -> nn.Module:
    return Model(lambda s, x: s.b(F.linear(x, s.a.weight)), a=Linear(6, 6, bias=False), b=Linear(6, 3))


class Windows(nn.Module):
    """A table of relative positions with its index in a buffer, in a layer that sees windows in place of examples."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner = nn.Parameter(torch.linspace(-1.0, 1.0, 4)), Linear(3, 3)
        self.register_buffer("index", torch.tensor([[0, 1, 2], [3, 0, 1], [2, 3, 0]]))

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.inner(windows) @ self.table[self.index])


def _zero(layer: nn.Linear) -> nn.Linear:
    nn.init.zeros_(layer.weight)
    return layer


class Halves(nn.Module):
    """A layer with a parameter for each kind of call."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(6)), nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor, first: bool) -> torch.Tensor:
        return x * (self.a if first else self.b)


class Called(nn.Module):
    """A layer that its network calls by keyword alone, with a parameter of another layer."""

    def forward(self, *, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x * scale


def bias_of_places() -> nn.Module:
    """As many places as examples: only another number of examples tells them apart."""
    places = torch.arange(N)
    return Model(
        lambda s, x: s.b((x[:, None] * s.a((places[:, None] - places).abs()).sum(1)).sum(1)),
        a=nn.Embedding(N, 1),
        b=Linear(6, 3),
    )


Case = tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...], Callable[..., torch.Tensor]]

RIGHT: dict[str, Case] = {
    "ReLU(inplace=True)": (
        lambda: nn.Sequential(Linear(6, 5), nn.ReLU(inplace=True), Linear(5, 3)), (X, Y), cross_entropy),
    "relu_": (lambda: Model(lambda s, x: s.b(F.relu_(s.a(x))), a=Linear(6, 5), b=Linear(5, 3)), (X, Y), cross_entropy),
    "h += layer(x)": (
        lambda: Model(lambda s, x: s.c(s.a(x).add_(s.b(x))), a=Linear(6, 6), b=Linear(6, 6), c=Linear(6, 3)), (X, Y),
        cross_entropy),
    "in place behind a normalisation": (
        lambda: nn.Sequential(nn.Conv1d(5, 4, 1), nn.GroupNorm(2, 4), nn.SiLU(inplace=True), nn.Flatten(), Linear(24, 3)),
        (FRAMES, Y), cross_entropy),
    "in place, an embedding": (
        lambda: Model(lambda s, t: s.b(s.a(t).mul_(2.0).mean(1)), a=nn.Embedding(10, 4), b=Linear(4, 3)), (TOKENS, Y),
        cross_entropy),
    "keyword": (lambda: Model(lambda s, x: s.a(input=x), a=Linear(6, 3)), (X, Y), cross_entropy),
    "numbers and None": (
        lambda: Model(lambda s, x: s.b((x + s.a(torch.ones(x.shape[:2]), 2, other=None)).mean(1)), a=Positions(10, 6),
            b=Linear(6, 3)), (FRAMES, Y), cross_entropy),
    "several outputs": (lambda: Model(_pair, pair=Pair(), out=Linear(6, 3)), (X, Y), cross_entropy),
    "GRUCell": (lambda: Model(_over_time, cell=nn.GRUCell(6, 4), out=Linear(4, 3)), (FRAMES, Y), cross_entropy),
    "LSTMCell": (lambda: Model(_over_time, cell=nn.LSTMCell(6, 4), out=Linear(4, 3)), (FRAMES, Y), cross_entropy),
    "Bilinear": (lambda: Model(lambda s, x: s.a(x, x), a=nn.Bilinear(6, 6, 3)), (X, Y), cross_entropy),
    "EmbeddingBag": (
        lambda: Model(lambda s, t: s.b(s.a(t)), a=nn.EmbeddingBag(10, 4), b=Linear(4, 3)), (TOKENS, Y), cross_entropy),
    "EmbeddingBag, padded": (
        lambda: Model(lambda s, t: s.b(s.a(t)), a=nn.EmbeddingBag(10, 4, padding_idx=2), b=Linear(4, 3)), (TOKENS, Y),
        cross_entropy),
    "EmbeddingBag, weighted": (
        lambda: Model(lambda s, t: s.b(s.a(t, per_sample_weights=t / 10)), a=nn.EmbeddingBag(10, 4, mode="sum"), b=Linear(4, 3)),
        (TOKENS, Y), cross_entropy),
    "EmbeddingBag, offsets": (
        lambda: Model(lambda s, t: s.b(s.a(t.flatten(), torch.arange(0, t.numel(), 5))), a=nn.EmbeddingBag(10, 4),
            b=Linear(4, 3)), (TOKENS, Y), cross_entropy),
    "EmbeddingBag, last offset": (
        lambda: Model(lambda s, t: s.b(s.a(t.flatten(), torch.arange(0, t.numel() + 1, 5))), b=Linear(4, 3),
            a=nn.EmbeddingBag(10, 4, include_last_offset=True)), (TOKENS, Y), cross_entropy),
    "attention, mask": (
        lambda: Model(lambda s, x: s.b(s.a(x, x, x, attn_mask=CAUSAL, need_weights=False)[0].mean(1)), b=Linear(6, 3),
            a=DPMultiheadAttention(6, 2, batch_first=True)), (FRAMES, Y), cross_entropy),
    "attention, padding, biases": (
        lambda: Model(lambda s, x, pad: s.b(s.a(x, x, x, key_padding_mask=pad)[0].mean(1)), b=Linear(6, 3),
            a=DPMultiheadAttention(6, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True)), (FRAMES, PADDED, Y),
        cross_entropy),
    "encoder, causal": (
        lambda: Model(lambda s, x: s.b(s.a(x, mask=nn.Transformer.generate_square_subsequent_mask(5), is_causal=True).mean(1)),
            a=_encoder(), b=Linear(6, 3)), (FRAMES, Y), cross_entropy),
    "encoder, padded": (
        lambda: Model(lambda s, x, pad: s.b(s.a(x, src_key_padding_mask=pad).mean(1)), a=_encoder(), b=Linear(6, 3)),
        (FRAMES, PADDED, Y), cross_entropy),
    "checkpoint": (
        lambda: Model(lambda s, x: s.c(checkpoint(s.b, s.a(x), use_reentrant=False)), a=Linear(6, 6), c=Linear(6, 3),
            b=nn.Sequential(Linear(6, 6), nn.ReLU(), Linear(6, 6))), (X, Y), cross_entropy),
    "reentrant checkpoint": (
        lambda: Model(lambda s, x: s.c(checkpoint(s.b, s.a(x), use_reentrant=True)), a=Linear(6, 6), c=Linear(6, 3),
            b=nn.Sequential(Linear(6, 6), nn.ReLU(), Linear(6, 6))), (X, Y), cross_entropy),
    "checkpoint of the model": (
        lambda: nn.Sequential(Linear(6, 6), nn.ReLU(), Linear(6, 3)), (X, Y),
        lambda m, x, y: F.cross_entropy(checkpoint(m, x, use_reentrant=False), y)),
    "a call for each frame": (
        lambda: Model(lambda s, x: s.b(sum(s.a(x[:, i]) for i in range(5))), a=Linear(6, 6), b=Linear(6, 3)), (FRAMES, Y),
        cross_entropy),
    "packed sequences": (lambda: Model(_packed, rnn=DPGRU(6, 4, batch_first=True), out=Linear(4, 3)), (FRAMES, Y), cross_entropy),
    "DPLSTM": (
        lambda: Model(lambda s, x: s.b(s.a(x)[0][:, -1]), a=DPLSTM(6, 4, batch_first=True), b=Linear(4, 3)), (FRAMES, Y),
        cross_entropy),
    "weight_norm": (lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(Linear(6, 3))), (X, Y), cross_entropy),
    "weight_norm without bias": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(Linear(6, 3, bias=False))), (X, Y), cross_entropy),
    "adversarial examples": (lambda: nn.Sequential(Linear(6, 5), nn.Tanh(), Linear(5, 3)), (X, Y), _adversarial),
    "an eval() of a part": (
        lambda: Model(lambda s, x: s.b(s.a.eval()(x)), a=nn.Sequential(Linear(6, 5), nn.Dropout(0.5)), b=Linear(5, 3)), (X, Y),
        cross_entropy),
    "spectral norm": (
        lambda: nn.Sequential(  # as many iterations of the power method as it takes
            nn.utils.parametrizations.spectral_norm(Linear(6, 5), n_power_iterations=200), nn.Tanh(), Linear(5, 3)), (X, Y),
        cross_entropy),
    "frames folded": (folded, (FRAMES, Y), cross_entropy),
    "one row for all": (of_one_row, (FRAMES, Y), cross_entropy),
    "one row for all, twice": (
        lambda: Model(lambda s, x: s.b((x + s.a(s.p(torch.arange(5)[None]))).mean(1)), p=nn.Embedding(5, 6), a=Linear(6, 6),
            b=Linear(6, 3)), (FRAMES, Y), cross_entropy),
    "one row that must stay one": (
        lambda: Model(lambda s, x: s.b((x + s.a(torch.arange(5)[None]).repeat(len(x), 1, 1)).mean(1)), a=nn.Embedding(5, 6),
            b=Linear(6, 3)), (FRAMES, Y), cross_entropy),
    "a table that is flattened": (
        lambda: Model(lambda s, x: s.b((x + s.a(torch.eye(5, 6)[None]).flatten(0, 1)[torch.arange(5)]).mean(1)), a=Linear(6, 6),
            b=Linear(6, 3)), (FRAMES, Y), cross_entropy),
    "the last of a table's rows": (
        lambda: Model(lambda s, x: s.b(x + s.a(torch.ones(1, 6))[-1]), a=Linear(6, 6), b=Linear(6, 3)), (X, Y), cross_entropy),
    "one row behind a head of zeros": (
        lambda: Model(lambda s, x: s.b(x * s.a(torch.ones(1, 6))[0]), a=Linear(6, 6), b=_zero(Linear(6, 3))), (X, Y), cross_entropy),
    "the third of a table's rows": (
        lambda: Model(lambda s, x: s.b(x + (lambda h: h[torch.arange(len(x)).clamp(max=len(h) - 1).clamp(max=2)])(
            s.a(torch.ones(1, 6)))), a=Linear(6, 6), b=Linear(6, 3)), (X, Y), cross_entropy),
    "rows in another order": (turned, (X, Y), cross_entropy),
    "rows in another order, a layer norm": (lambda: turned(a=nn.LayerNorm(6)), (X, Y), cross_entropy),
    "rows in another order in the last layer": (
        lambda: Model(lambda s, x: s.b(s.a(x).tanh().flip(0)).flip(0), a=Linear(6, 6), b=Linear(6, 3)), (X, Y), cross_entropy),
    "rows in another order in the second of two calls": (
        lambda: Model(lambda s, x: s.b(s.a(x).tanh() + s.a(x.flip(0)).sin().flip(0)), a=Linear(6, 6), b=Linear(6, 3)), (X, Y),
        cross_entropy),
    "rows in order of length": (by_length, (FRAMES, LENGTHS, Y), cross_entropy),
    "rows in order of content": (
        lambda: Model(lambda s, t: s.b(s.a(t[t[:, 0].argsort()])[t[:, 0].argsort().argsort()].mean(1)), a=nn.Embedding(10, 6),
            b=Linear(6, 3)), (TOKENS, Y), cross_entropy),
    "packed sequences as they come": (
        lambda: Model(_packed_as_they_come, a=DPGRU(6, 4, batch_first=True), b=Linear(4, 3)), (FRAMES, LENGTHS, Y), cross_entropy),
    "another order within a loss within the model": (
        lambda: Model(lambda s, x, y: {"loss": F.cross_entropy(s.b(s.a(x.flip(0)).tanh().flip(0)), y)}, a=Linear(6, 6), b=Linear(6, 3)),
        (X, Y), lambda m, x, y: m(x, y)["loss"]),
    "layer norm without bias": (
        lambda: nn.Sequential(Linear(6, 5), nn.LayerNorm(5, bias=False), Linear(5, 3)), (X, Y), cross_entropy),
    "a parameter for each kind of call": (
        lambda: Model(lambda s, x: s.b(s.a(x, True) + s.a(x, False)), a=Halves(), b=Linear(6, 3)), (X, Y), cross_entropy),
    "used outside of its layer": (used_elsewhere, (X, Y), cross_entropy),
    "used in its layer and outside": (
        lambda: Model(lambda s, x: s.b(F.linear(s.a(x), s.a.weight)), a=Linear(6, 6), b=Linear(6, 3)), (X, Y), cross_entropy),
    "a parameter by keyword, a list of parameters": (
        lambda: Model(lambda s, x: s.b(s.c(x=x, scale=s.p[0])), c=Called(), p=nn.ParameterList([torch.ones(6)]), b=Linear(6, 3)),
        (X, Y), cross_entropy),
    "windows and a buffer": (
        lambda: Model(lambda s, x: s.b(s.a(x.reshape(-1, 3)).view(len(x), -1)), a=Windows(), b=Linear(30, 3)), (FRAMES, Y),
        cross_entropy),
    "as many places as examples": (bias_of_places, (X, Y), cross_entropy),
    "a layer that is there twice": (
        lambda: (lambda layer: Model(lambda s, x: s.c(s.b(s.a(x)) @ s.a.weight), a=layer, b=layer, c=Linear(6, 3)))(Linear(6, 6)),
        (X, Y), cross_entropy),
    "a loss within the model": (
        lambda: Model(lambda s, x, y: {"loss": F.cross_entropy(F.linear(x, s.a.weight), y), "none": None}, a=Linear(6, 3, bias=False)),
        (X, Y), lambda m, x, y: m(x, y)["loss"]),
}  # fmt: skip
"""Loops whose per-sample gradients are those of each example alone."""


def private_loop(model: nn.Module, batch: tuple[torch.Tensor, ...], **options: Any) -> Any:
    """Of full batches without noise and dry steps, with a clip that clips nothing."""
    return make_private(
        module=model, optimizer=torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1),
        data_loader=DataLoader(TensorDataset(*batch), N), mechanism=DpSgd(),
        **({"noise_multiplier": 0.0, "max_grad_norm": 1e6, "probe": False} | options),
    )  # fmt: skip


def one_step(made: Any, loss: Callable[..., torch.Tensor] = cross_entropy) -> None:
    private, optimizer, loader = made
    for batch in loader:
        optimizer.zero_grad()
        loss(private, *batch).backward()
        optimizer.step()


def encoder_of_twelve() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 12, batch_first=True), 12, enable_nested_tensor=False)


def batch_second() -> nn.Module:
    return Model(lambda s, x: s.b(s.a(x).mean(1)), a=_encoder(batch_first=False), b=Linear(6, 3))
