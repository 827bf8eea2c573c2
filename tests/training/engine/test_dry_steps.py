"""Records apart, in the user's whole loop: what must be refused before any release, and what must train."""

import functools
import logging
import random
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from opacus.layers import DPGRU, DPLSTM
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.validators import ModuleValidator
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, TensorDataset, default_collate

from dptheory.errors import ArgumentError
from dptheory.training import check_rows_apart, make_private, make_private_with_epsilon
from dptheory.training.engine import GRAD_SAMPLE_MODES, _check_rows_apart, _dry_steps
from dptheory.training.mechanisms import Constant, DpSgd, LayerFreezing, RandomSparsification
from dptheory.training.per_example import WHOLE
from tests.refused import refused
from tests.training import sgd

N, BATCH, CLASSES, TIMES, WIDTH = 60, 12, 5, 7, 6
DRY = 6
"""Batches before the first step."""
STEPS, PART = N // BATCH, 6
WEIGHTS = torch.tensor([1.0, 2.0, 3.0, 4.0, 50.0])

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor"),
    pytest.mark.filterwarnings("ignore:Detected call of"),
]


def _data() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(N) % CLASSES
    lengths = 2 + torch.arange(N) % (TIMES - 1)
    tokens = torch.randint(1, 20, (N, TIMES), generator=generator)
    targets = torch.randint(0, CLASSES, (N, TIMES), generator=generator)
    absent = torch.arange(TIMES) >= lengths[:, None]
    return {
        "x": torch.randn(N, WIDTH, generator=generator) * (1 + labels[:, None]),
        "series": torch.randn(N, TIMES, WIDTH, generator=generator),
        "y": labels,
        "lengths": lengths,
        "tokens": tokens.masked_fill(absent, 0),
        "targets": targets.masked_fill(absent, -100),
        "even": targets,
        "reward": torch.randn(N, generator=generator),
    }


DATA = _data()


@pytest.fixture(autouse=True)
def same_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of records to replace, in every run of the tests: one choice in some hundred shows nothing (a pair that is mixed and kept)."""
    for module in (_dry_steps, _check_rows_apart):
        monkeypatch.setattr(module, "fresh_generator", lambda: torch.Generator().manual_seed(1))


# --- models -----------------------------------------------------------------------------------------------------------


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, CLASSES))


class OnSeries(nn.Module):
    """A layer of features, something between, and a head on the mean over time."""

    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor] = lambda h: h) -> None:
        super().__init__()
        self.first, self.between, self.head = nn.Linear(WIDTH, WIDTH), between, nn.Linear(WIDTH, CLASSES)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        return self.head(self.between(self.first(series)).mean(1))


class Encoder(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 12, dropout=0.1, batch_first=batch_first)
        self.inner = ModuleValidator.fix(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(series).mean(1))


class Recurrent(nn.Module):
    """Packed sequences: as they come, sorted by hand, or sorted and put back inside one layer's rows."""

    def __init__(self, kind: type = DPLSTM, how: str = "packed") -> None:
        super().__init__()
        self.how, self.inner, self.head = how, kind(WIDTH, 4, batch_first=True), nn.Linear(4, CLASSES)

    def forward(self, series: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        order = torch.argsort(lengths, descending=True, stable=True)
        if self.how == "by hand":
            series, lengths = series[order], lengths[order]
        packed = nn.utils.rnn.pack_padded_sequence(
            series, lengths, batch_first=True, enforce_sorted=self.how != "packed"
        )
        last = self.inner(packed)[1]
        last = (last[0] if isinstance(last, tuple) else last)[-1]
        return self.head(last[torch.argsort(order)] if self.how == "by hand" else last)


class Tokens(nn.Module):
    def __init__(self, inside: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None) -> None:
        super().__init__()
        self.embedding, self.head, self.inside = nn.Embedding(20, 6), nn.Linear(6, CLASSES), inside

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        scores = self.head(self.embedding(tokens))
        return scores if self.inside is None else self.inside(scores, targets)


# --- what the loops do up to backward() -------------------------------------------------------------------------------

Loss = Callable[[nn.Module, dict[str, torch.Tensor]], torch.Tensor]


def on_x(loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Loss:
    return lambda model, batch: loss(model(batch["x"]), batch["y"])


def on_series(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.cross_entropy(model(batch["series"]), batch["y"])


def on_sequences(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.cross_entropy(model(batch["series"], batch["lengths"]), batch["y"])


def sorted_whole(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    order = torch.argsort(batch["lengths"], descending=True, stable=True)
    return on_sequences(model, {name: value[order] for name, value in batch.items()})


def focal(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (
        (1 - scores.softmax(1).gather(1, y[:, None])[:, 0]) ** 2 * F.cross_entropy(scores, y, reduction="none")
    ).mean()


def token_mean(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=-100)


def own_token_mean(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    each = F.cross_entropy(scores.transpose(1, 2), targets, ignore_index=-100, reduction="none")
    return (each.sum(1) / (targets != -100).sum(1)).mean()


def mask_mean(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    mask = batch["targets"] != -100
    return (model(batch["tokens"]).square().mean(2) * mask).sum() / mask.sum()


def rewards(model: nn.Module, batch: dict[str, torch.Tensor], centre: str) -> torch.Tensor:
    found = batch["reward"]
    if centre == "numpy":
        values = found.numpy().astype(float)
        found = torch.tensor((values - values.mean()) / (values.std() + 1e-8))
    elif centre == "item":
        found = found - sum(value.item() for value in found) / len(found)
    return -(found * model(batch["x"]).log_softmax(1)[:, 0]).mean()


def mixup(model: nn.Module, batch: dict[str, torch.Tensor], draw: str) -> torch.Tensor:
    count = len(batch["x"])
    others = {"torch": lambda: torch.randperm(count), "numpy": lambda: torch.from_numpy(np.random.permutation(count)),  # noqa: NPY002
              "python": lambda: torch.tensor(random.sample(range(count), count))}[draw]()  # fmt: skip
    scores = model(0.7 * batch["x"] + 0.3 * batch["x"][others])
    return 0.7 * F.cross_entropy(scores, batch["y"]) + 0.3 * F.cross_entropy(scores, batch["y"][others])


def contrastive(scores: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    unit = F.normalize(scores, dim=1)
    return F.cross_entropy(unit @ unit.T / 0.1, torch.arange(len(unit)))


def noisy(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Augmentation of each record by itself."""
    moved = batch["x"] + 0.1 * torch.randn_like(batch["x"]) + random.random() + float(np.random.rand())  # noqa: NPY002
    return F.cross_entropy(model(moved), batch["y"])


def by_largest(losses: torch.Tensor) -> torch.Tensor:
    """One record decides, which is in a half of the batch or in the rest."""
    return (losses / losses.detach().max()).mean() if len(losses) else losses.sum()


centred = functools.partial(OnSeries, lambda h: h - h.mean(0, keepdim=True))
scaled = functools.partial(OnSeries, lambda h: h / h.flatten().norm().detach())
causal = functools.partial(OnSeries, lambda h: h.cumsum(0) / 3)

APART: dict[str, tuple[Callable[[], nn.Module], Loss]] = {
    "mean": (mlp, on_x(F.cross_entropy)),
    "smoothing": (mlp, on_x(functools.partial(F.cross_entropy, label_smoothing=0.1))),
    "focal": (mlp, on_x(focal)),
    "weights by hand": (mlp, on_x(lambda z, y: (WEIGHTS[y] * F.cross_entropy(z, y, reduction="none")).mean())),
    "pos_weight": (mlp, on_x(lambda z, y: F.binary_cross_entropy_with_logits(z, F.one_hot(y, CLASSES).float(), pos_weight=WEIGHTS))),
    "augmented": (mlp, noisy),
    "fixed rewards": (mlp, functools.partial(rewards, centre="not")),
    "series": (OnSeries, on_series),
    "layer norm": (functools.partial(OnSeries, functools.partial(F.layer_norm, normalized_shape=(WIDTH,))), on_series),
    "encoder": (functools.partial(Encoder, True), on_series),
    "packed, whole batch sorted": (functools.partial(Recurrent, DPLSTM, "sorted"), sorted_whole),
    "own token mean": (Tokens, lambda m, b: own_token_mean(m(b["tokens"]), b["targets"])),
    "own token mean inside": (functools.partial(Tokens, own_token_mean), lambda m, b: m(b["tokens"], b["targets"])),
    "token mean of equal lengths": (Tokens, lambda m, b: token_mean(m(b["tokens"]), b["even"])),
}  # fmt: skip
MIXED: dict[str, tuple[Callable[[], nn.Module], Loss, set[str]]] = {
    "class weights": (mlp, on_x(functools.partial(F.cross_entropy, weight=WEIGHTS)), {"loss"}),
    "ignored label": (mlp, on_x(functools.partial(F.cross_entropy, ignore_index=4)), {"loss"}),
    "divisor by item": (mlp, on_x(lambda z, y: F.cross_entropy(z, y, reduction="sum") / (y == 4).sum().add(1).item()), {"loss"}),
    "rewards by numpy": (mlp, functools.partial(rewards, centre="numpy"), {"loss"}),
    "rewards by item": (mlp, functools.partial(rewards, centre="item"), {"loss"}),
    "contrastive": (mlp, on_x(contrastive), {"loss"}),
    "largest loss": (mlp, on_x(lambda z, y: by_largest(F.cross_entropy(z, y, reduction="none"))), {"loss"}),
    "neighbour's label": (mlp, on_x(lambda z, y: F.cross_entropy(z, y.roll(1))), {"loss"}),
    "token mean": (Tokens, lambda m, b: token_mean(m(b["tokens"]), b["targets"]), {"loss"}),
    "token mean inside": (functools.partial(Tokens, token_mean), lambda m, b: m(b["tokens"], b["targets"]), {"loss"}),
    "mask mean": (Tokens, mask_mean, {"loss"}),
    "mixup": (mlp, functools.partial(mixup, draw="torch"), {"input"}),
    "mixup by numpy": (mlp, functools.partial(mixup, draw="numpy"), {"input"}),
    "mixup by random": (mlp, functools.partial(mixup, draw="python"), {"input"}),
    "input norm": (mlp, lambda m, b: F.cross_entropy(m((b["x"] - b["x"].mean(0)) / b["x"].std(0)), b["y"]), {"input"}),
    "centred": (centred, on_series, {"head"}),
    "scaled": (scaled, on_series, {"head", "first"}),
    "causal over the batch": (causal, on_series, {"head", "first"}),
    "packed": (Recurrent, on_sequences, {"inner"}),
    "packed GRU": (functools.partial(Recurrent, DPGRU), on_sequences, {"inner"}),
    "sorted by hand": (functools.partial(Recurrent, DPLSTM, "by hand"), on_sequences, {"inner"}),
}  # fmt: skip


# --- the loop ---------------------------------------------------------------------------------------------------------


class Records(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: values[index] for name, values in DATA.items()}


def made(
    build: Callable[[], nn.Module], *, workers: int = 0, data: Any = None, batch_size: int = BATCH, **options: Any
) -> Any:
    torch.manual_seed(0)
    model = build()
    given = {"mechanism": DpSgd(), "noise_multiplier": 1.0, "max_grad_norm": 1.0}
    return sgd.make_private(model, DataLoader(data or Records(), batch_size, num_workers=workers), **given | options)


def one_pass(run: Any, loss: Loss, *, part: int | None = None, batches: Any = None) -> int:
    """A pass, and how many batches the loop saw."""
    model, optimizer, loader = run
    if part is not None:
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=part, optimizer=optimizer) as parts:
            return one_pass(run, loss, batches=parts)
    seen = 0
    for batch in loader if batches is None else batches:
        optimizer.zero_grad()
        loss(model, batch).backward()
        optimizer.step()
        seen += 1
    return seen


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize("name", sorted(APART))
def test_what_keeps_records_apart_trains(name: str, mode: str) -> None:
    build, loss = APART[name]
    run = made(build, grad_sample_mode=mode)
    assert one_pass(run, loss) == STEPS + DRY
    assert run[1].accountant.steps == STEPS
    assert run[1].privacy(1e-5).records_apart == "compared before the steps 1, with at most 12 records"


ROWS_COME_BACK = {"packed", "packed GRU", "sorted by hand"}
"""Layers see the rows in another order; the network has them in their own: it has a pass for each example, which is right.
By Opacus's hooks, which the check by itself asks, they are mixed."""


@pytest.mark.parametrize("mode", [*GRAD_SAMPLE_MODES, "in parts"])
@pytest.mark.parametrize("name", sorted(MIXED))
def test_what_mixes_records_is_refused_before_anything_is_released(name: str, mode: str) -> None:
    build, loss, where = MIXED[name]
    options: Any = {} if mode == "in parts" else {"grad_sample_mode": mode}
    part = PART if mode == "in parts" else None
    run = made(build, **options)
    if name in ROWS_COME_BACK:
        assert one_pass(run, loss) == STEPS + DRY
        assert run[1].privacy(1e-5).records_apart == "compared before the steps 1, with at most 12 records"
        return
    is_refused(run, loss, "records", "first.weight", *(("loss",) if mode == WHOLE else ()), where=where, part=part)
    assert not any(p.grad.any() for p in run[0].parameters() if p.grad is not None)


def test_a_factor_that_the_loop_draws_for_a_batch_says_nothing_of_their_number() -> None:
    """Behind numbers that it draws for each record, the factor is another in a smaller batch."""

    def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        torch.rand(len(batch["y"]))
        return torch.rand(()) * F.cross_entropy(model(batch["x"]), batch["y"])

    run = made(mlp)
    one_pass(run, loss)
    assert run[1].privacy(1e-5).records_apart == "compared before the steps 1, with at most 12 records"


@pytest.mark.parametrize("drawn", [False, True])
def test_a_loop_that_takes_its_records_from_elsewhere_is_not_compared(
    drawn: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The same first ones at every step, or some that it draws itself: epsilon counts neither."""
    everything = Records()
    x, y = (torch.stack([torch.as_tensor(everything[i][name]) for i in range(N)]) for name in ("x", "y"))

    def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        rows = torch.randint(N, (len(batch["y"]),)) if drawn else torch.arange(len(batch["y"]))
        return F.cross_entropy(model(x[rows]), y[rows])

    run = made(mlp)
    one_pass(run, loss)
    said = run[1].privacy(1e-5).records_apart
    assert said.startswith("not probed: no gradient moved with its own record")
    assert any("epsilon may not hold" in one.getMessage() for one in caplog.records)


REDUCED: dict[str, Callable[..., torch.Tensor]] = {
    "sum": lambda losses: losses.sum(),
    "sum over the expected number": lambda losses: losses.sum() / BATCH,
    "mean": lambda losses: losses.mean(),
    "sum over one more": lambda losses: losses.sum() / (len(losses) + 1),
}


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize("part", [None, 5])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", sorted(REDUCED))
def test_a_loss_is_what_loss_reduction_says_of_it(name: str, reduction: str, part: int | None, mode: str) -> None:
    """Otherwise each gradient is so many times as large as there are records: one more moves all, before the clip."""

    def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return REDUCED[name](F.cross_entropy(model(batch["x"]), batch["y"], reduction="none"))

    run = made(mlp, grad_sample_mode=mode, loss_reduction=reduction)
    # a sum over a constant is one of smaller losses
    if name in (("mean",) if reduction == "mean" else ("sum", "sum over the expected number")):
        one_pass(run, loss, part=part)
        assert run[1].accountant.steps == STEPS
        return
    with refused("loss_reduction", "loss"):
        one_pass(run, loss, part=part)
    assert run[1].accountant.steps == 0


def _losses(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"], reduction="none")


BY_COUNT: dict[str, Loss] = {
    "a sum beside a mean": lambda model, batch: _losses(model, batch).mean() + 0.02 * model(batch["x"]).square().sum(),
    "weights by place": lambda model, batch: (torch.linspace(0.5, 1, len(batch["y"])) * _losses(model, batch)).mean(),
    "a temperature": lambda model, batch: F.cross_entropy(model(batch["x"]) * len(batch["y"]) / BATCH, batch["y"]),
}
"""Losses whose gradients of single records go with the number of records, and not all in one ratio."""


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize("part", [None, 5])
@pytest.mark.parametrize("name", sorted(BY_COUNT))
def test_a_loss_that_goes_with_the_number_of_records_is_refused(name: str, part: int | None, mode: str) -> None:
    run = made(mlp, grad_sample_mode=mode)
    with refused("loss_reduction", "loss"):
        one_pass(run, BY_COUNT[name], part=part)
    assert run[1].accountant.steps == 0


class Cast(nn.Module):
    """Computes in bfloat16 within: by autocast, or by casts that nothing outside sees."""

    def __init__(self, autocast: bool) -> None:
        super().__init__()
        self.first, self.second, self.autocast = nn.Linear(WIDTH, 32), nn.Linear(32, CLASSES), autocast

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            hidden = torch.relu(self.first(x))
            return self.second(hidden if self.autocast else hidden.bfloat16().float()).float()


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize("autocast", [False, True])
def test_rounding_to_bfloat16_is_no_change_with_the_number_of_records(autocast: bool, mode: str) -> None:
    run = made(functools.partial(Cast, autocast), grad_sample_mode=mode)
    one_pass(run, on_x(F.cross_entropy))
    assert run[1].privacy(1e-5).records_apart.startswith("compared")


@pytest.mark.parametrize("tensors", [False, True])
def test_it_is_refused_where_the_loop_sorts_its_batch(tensors: bool) -> None:
    """By what the model gets it is known which records are the same."""

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        x, y = batch if tensors else (batch["x"], batch["y"])
        order = x.norm(dim=1).argsort()
        return BY_COUNT["a sum beside a mean"](model, {"x": x[order], "y": y[order]})

    run = made(mlp, data=TensorDataset(DATA["x"], DATA["y"]) if tensors else None)
    with refused("loss_reduction", "loss"):
        one_pass(run, loss)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_drawn_where_a_batch_is_put_together_may_be_another_in_a_smaller_one(workers: int) -> None:
    """Weights of the losses, which the model does not see."""
    torch.manual_seed(0)
    model = mlp()

    def collate(records: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        return default_collate(records) | {"weights": torch.rand(2, len(records))[1]}

    loader = DataLoader(Records(), BATCH, num_workers=workers, collate_fn=collate)
    run = sgd.make_private(model, loader, mechanism=DpSgd(), noise_multiplier=1.0, max_grad_norm=1.0)
    one_pass(run, lambda m, batch: (batch["weights"] * _losses(m, batch)).mean())
    assert run[1].accountant.steps == STEPS and run[1].privacy(1e-5).records_apart.startswith("compared")


@pytest.mark.parametrize("part", [None, 5])
def test_what_a_loop_draws_may_be_another_in_a_smaller_batch(part: int | None) -> None:
    """So a sum beside a mean is not seen there, and nothing that is drawn for each record is taken for one."""

    def noisy(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(model(batch["x"] + torch.randn(batch["x"].shape)), batch["y"])

    run = made(mlp)
    one_pass(run, noisy, part=part)
    assert run[1].accountant.steps == STEPS and run[1].privacy(1e-5).records_apart.startswith("compared")


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize(("places", "part"), [(TIMES, None), (BATCH, None), (TIMES, PART), (PART, PART)])
def test_places_that_are_taken_for_records_are_refused(places: int, part: int | None, mode: str) -> None:
    """An encoder with ``batch_first=False`` that is fed [batch, place, feature]: where both are as many, rows alone say nothing."""

    def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(model(batch["series"].repeat(1, 2, 1)[:, :places]), batch["y"])

    run = made(functools.partial(Encoder, False), grad_sample_mode=mode)
    is_refused(run, loss, "inner.layers.0.self_attn.qlinear.weight", part=part)


def is_refused(run: Any, loss: Loss, *names: str, where: Collection[str] = (), part: int | None) -> None:
    """Before anything is released, in one of these names; of records also where they mix."""
    before = [p.detach().clone() for p in run[0].parameters()]
    for _ in range(2):  # and again, by a loop that goes on
        with pytest.raises(ArgumentError) as error:
            one_pass(run, loss, part=part)
        assert error.value.argument in names
        assert error.value.argument != "records" or error.value.value.split(".")[0] in where
    assert run[1].accountant.steps == 0
    assert all(torch.equal(a, b) for a, b in zip(before, run[0].parameters(), strict=True))


@pytest.mark.parametrize("name", ["mean", "augmented", "own token mean", "encoder"])
def test_parts_of_a_batch_are_compared(name: str) -> None:
    build, loss = APART[name]
    run = made(build)
    one_pass(run, loss, part=5)
    assert run[1].accountant.steps == STEPS and run[1].privacy(1e-5).records_apart.startswith("compared")


def test_a_sum_trains() -> None:
    run = made(mlp, loss_reduction="sum")
    one_pass(run, on_x(functools.partial(F.cross_entropy, reduction="sum")))
    assert run[1].accountant.steps == STEPS


class Ragged(Records):
    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        found = super().__getitem__(index)
        return found | {"tokens": found["tokens"][: int(found["lengths"])]}


def padded(records: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    tokens = nn.utils.rnn.pad_sequence([record["tokens"] for record in records], batch_first=True)
    return {"tokens": tokens, "y": torch.stack([record["y"] for record in records])}


class Pooled(nn.Module):
    """A mean over the tokens of a text, or over its padding too, which goes up to the longest text of the batch."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked, self.embedding, self.head = masked, nn.Embedding(20, 6), nn.Linear(6, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = (tokens != 0)[..., None] if self.masked else torch.ones(*tokens.shape, 1)
        return self.head((self.embedding(tokens) * mask).sum(1) / mask.sum(1))


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
@pytest.mark.parametrize("masked", [True, False])
def test_padding_up_to_the_longest_record_must_be_masked(masked: bool, precision: torch.dtype | None) -> None:
    torch.manual_seed(0)
    model = Pooled(masked)
    run = sgd.make_private(model, DataLoader(Ragged(), BATCH, collate_fn=padded))

    def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.autocast("cpu", dtype=precision, enabled=precision is not None):
            return F.cross_entropy(model(batch["tokens"]), batch["y"])

    if not masked:
        with refused("records", "head"):
            one_pass(run, loss)
    else:
        one_pass(run, loss)
    assert run[1].accountant.steps == (STEPS if masked else 0)


# --- what a dry step leaves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [DpSgd, lambda: RandomSparsification(Constant(0.5), seed=1),
                                       lambda: LayerFreezing(DpSgd(), frozen_layers=1, from_step=2)])  # fmt: skip
def test_a_seeded_run_is_the_same_with_and_without(mechanism: Callable[[], Any]) -> None:
    """Weights, masks, dropout and what the loop draws itself, to the last bit."""
    found = []
    for probe in (True, False):
        torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
        model = mlp()
        run = make_private(
            module=model, optimizer=torch.optim.Adam(model.parameters()), mechanism=mechanism(), noise_multiplier=1.0, probe=probe,
            data_loader=DataLoader(Records(), BATCH, generator=torch.Generator().manual_seed(1)), max_grad_norm=1.0,
            noise_generator=torch.Generator().manual_seed(2),
        )  # fmt: skip
        for _ in range(3):  # with the two dry steps after ten steps
            one_pass(run, noisy)
        assert run[1].accountant.steps == 3 * STEPS
        found.append([*(p.detach().clone() for p in model.parameters()), torch.rand(1)])
        assert [layer.p for layer in model.modules() if isinstance(layer, nn.Dropout)] == [0.3]
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_two_more_dry_steps_come_after_ten_releases(caplog: pytest.LogCaptureFixture) -> None:
    run = made(mlp)
    with caplog.at_level(logging.INFO, "dptheory.training"):
        assert [one_pass(run, on_x(F.cross_entropy)) for _ in range(4)] == [STEPS + DRY, STEPS, STEPS + 2, STEPS]
    assert run[1].accountant.steps == 4 * STEPS
    assert run[1].privacy(1e-5).records_apart == "compared before the steps 1, 11, with at most 12 records"
    (line,) = [record.getMessage() for record in caplog.records if record.name == "dptheory.training"]
    assert "scheduler" in line and "probe=False" in line


def test_the_report_says_of_how_many_records_larger_batches_are_not_compared() -> None:
    """A loop that keeps the 64 hardest of a batch of 256 passed every comparison, and the report said nothing of the 64."""
    run = made(mlp, data=ConcatDataset([Records() for _ in range(3)]), batch_size=3 * N // 2)
    said = []
    for _ in range(6):
        one_pass(run, on_x(F.cross_entropy))
        said.append(run[1].privacy(1e-5).records_apart)
    assert said[0] == "compared before the steps 1, with at most 16 records"
    assert said[5] == "compared before the steps 1, 11, with at most 64 records"


def hardest(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The mean, where only the 20 largest losses count."""
    each = F.cross_entropy(scores, y, reduction="none")
    return each.topk(min(20, len(each))).values.sum() / max(1, len(each))


class Room(nn.Module):
    """Two experts, each with room for the 16 records that it likes best."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, 2), nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, found = self.gate(x).softmax(1), torch.zeros(len(x), CLASSES)
        for share, expert in zip(shares.T, self.experts, strict=True):
            taken = torch.zeros(len(x))
            taken[share.topk(min(16, len(x))).indices] = 1.0
            found = found + expert(x) * (share * taken)[:, None]
        return found


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize(
    ("build", "loss"), [(mlp, on_x(hardest)), (Room, on_x(F.cross_entropy))], ids=["hardest", "room"]
)
def test_what_leaves_records_out_of_large_batches_is_refused_later(
    build: Callable[[], nn.Module], loss: Loss, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About two of three choices of records show it at the first later comparison; this is one that does."""
    monkeypatch.setattr(_dry_steps, "fresh_generator", lambda: torch.Generator().manual_seed(2))
    run = made(build, batch_size=40, grad_sample_mode=mode, max_grad_norm=1e-6)  # weights as good as stay
    by_pass = mode == WHOLE and build is Room  # which sees it in the first batch that has no room
    with refused("gate.weight" if by_pass else "records"):
        for _ in range(20):
            one_pass(run, loss)
    assert run[1].accountant.steps == 10 or by_pass


def test_a_loop_that_begins_to_mix_is_refused_later() -> None:
    run = made(mlp)

    def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        late = WEIGHTS if run[1].accountant.steps >= 7 else None
        return F.cross_entropy(model(batch["x"]), batch["y"], weight=late)

    with refused("records") as error:
        for _ in range(4):
            one_pass(run, loss)
    assert run[1].accountant.steps == 10 and error.value.value == "loss"


def test_a_batch_at_a_time_and_passes_that_end_early() -> None:
    _, optimizer, loader = run = made(mlp)
    next(iter(loader))  # to see what a batch looks like
    for _ in range(DRY + 3):
        for batch in loader:
            one_pass(run, on_x(F.cross_entropy), batches=[batch])
            break
    assert optimizer.accountant.steps == 3 and optimizer.privacy(1e-5).records_apart.startswith("compared")
    run = made(mlp)
    with refused("records"):
        for _ in range(7):
            one_pass(run, MIXED["class weights"][1], batches=[next(iter(run[2]))])
    assert run[1].accountant.steps == 0


def test_a_closure_and_a_scheduler() -> None:
    model, optimizer, loader = made(mlp)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (step + 1))
    for batch in loader:

        def closure(batch: dict[str, torch.Tensor] = batch) -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch["x"]), batch["y"])
            loss.backward()
            return loss

        optimizer.step(closure)
        schedule.step()
    assert optimizer.accountant.steps == STEPS and schedule.last_epoch == STEPS + DRY


def test_a_budget_is_not_spent_by_dry_steps() -> None:
    torch.manual_seed(0)
    model = mlp()
    run = make_private_with_epsilon(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=DpSgd(), target_epsilon=2.0,
        target_delta=1e-5, epochs=1, data_loader=DataLoader(Records(), BATCH), max_grad_norm=1.0,
    )  # fmt: skip
    one_pass(run, on_x(F.cross_entropy))
    assert run[1].accountant.steps == STEPS and 1.99 < run[1].epsilon(1e-5) <= 2.0


# --- where nothing is compared ----------------------------------------------------------------------------------------


def test_left_out() -> None:
    run = made(mlp, probe=False)
    assert one_pass(run, MIXED["class weights"][1]) == STEPS == run[1].accountant.steps
    assert run[1].privacy(1e-5).records_apart == "not probed: probe=False"
    assert "not probed: probe=False" in run[1].statement(1e-5).covered
    assert any("not probed: probe=False" in line for line in run[1].privacy(1e-5).lines())
    with refused("probe"):
        made(mlp, probe=1)


def test_randomness_of_the_loop_s_own_is_not_taken_for_mixing() -> None:
    own = torch.Generator().manual_seed(0)

    def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(model(batch["x"] + torch.randn(batch["x"].shape, generator=own)), batch["y"])

    run = made(mlp)
    one_pass(run, loss)
    assert run[1].accountant.steps == STEPS
    assert run[1].privacy(1e-5).records_apart.startswith("not probed: the same batch gives other gradients")


def test_a_loop_that_leaves_dry_batches_out_trains_and_says_so() -> None:
    _, optimizer, loader = run = made(mlp)
    for _ in range(3):
        for number, batch in enumerate(loader):
            if number >= 4:
                one_pass(run, on_x(F.cross_entropy), batches=[batch])
    assert optimizer.accountant.steps > 2


def test_one_record_cannot_be_compared() -> None:
    model = nn.Linear(WIDTH, 2)
    run = sgd.make_private(model, DataLoader(TensorDataset(torch.ones(1, WIDTH)), 1))
    (batch,) = run[2]
    run[0](batch[0]).sum().backward()
    run[1].step()
    assert run[1].accountant.steps == 1 and run[1].privacy(1e-5).records_apart.startswith("not probed")


# --- augmentation that draws more for some records than for others -------------------------------------------------------


class Augmented(Records):
    """As a random crop that tries until it fits: label 4 takes many draws."""

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        found = super().__getitem__(index)
        for _ in range(1 + 5 * int(found["y"] == 4)):
            noise = torch.rand(WIDTH) + random.random() + float(np.random.rand())  # noqa: NPY002
        return found | {"x": found["x"] + noise}


@pytest.mark.parametrize("part", [None, BATCH - 1])
def test_a_record_is_augmented_alike_in_a_smaller_batch(part: int | None) -> None:
    """However the two are cut in parts, so that the sum is seen: a batch of 12 in two, one of 11 in one."""
    run = made(mlp, data=Augmented())
    with refused("loss_reduction", "loss"):
        one_pass(run, BY_COUNT["a sum beside a mean"], part=part)


@pytest.mark.parametrize(("workers", "part"), [(0, None), (0, 5), (2, None)])
def test_augmentation_of_other_records_stays(workers: int, part: int | None) -> None:
    run = made(mlp, data=Augmented(), workers=workers)
    one_pass(run, on_x(F.cross_entropy), part=part)
    assert run[1].accountant.steps == STEPS and run[1].privacy(1e-5).records_apart.startswith("compared")
    run = made(mlp, data=Augmented(), workers=workers)
    with refused("records"):
        one_pass(run, MIXED["class weights"][1], part=part)
    assert run[1].accountant.steps == 0


class Failing(Records):
    """Cannot be read once, where so many have been."""

    left = -1

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        self.left -= 1
        if self.left == 0:
            raise OSError("the disk is away")
        return super().__getitem__(index)


class Paired(Records):
    """Asks for no index more than it needs, so that the list of them is not gone through to its end."""

    def __getitems__(self, indices: list[int]) -> list[dict[str, torch.Tensor]]:
        return [self[index] for _, index in zip(range(len(indices)), indices, strict=False)]


def _drawn_after_a_batch() -> torch.Tensor:
    loader = made(mlp, probe=False)[2]
    torch.manual_seed(5)
    next(iter(loader))
    return torch.rand(3)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_dry_batch_that_could_not_be_read_leaves_nothing_to_the_next_run(number: int) -> None:
    """Its random states would be set in a batch of that run: what was drawn would be drawn again."""
    expected = _drawn_after_a_batch()
    data = Failing()
    run = made(mlp, data=data)
    data.left = N + number * BATCH + 5  # all are read once to choose from
    with pytest.raises(OSError, match="away"):
        one_pass(run, on_x(F.cross_entropy))
    assert torch.equal(_drawn_after_a_batch(), expected)
    run = made(mlp)
    one_pass(run, on_x(F.cross_entropy))
    assert run[1].privacy(1e-5).records_apart.startswith("compared")


def test_a_data_set_need_not_go_through_all_indices() -> None:
    run = made(mlp, data=Paired())
    one_pass(run, on_x(F.cross_entropy))
    assert run[1].privacy(1e-5).records_apart.startswith("compared")


def test_noise_of_a_global_generator_is_never_drawn_again() -> None:
    """Its state stays where it is, so that what the loop draws from it is not compared."""
    run = made(mlp, noise_generator=torch.default_generator)
    before = torch.get_rng_state()
    batches = iter(run[2])
    one_pass(run, noisy, batches=[next(batches)])
    assert not torch.equal(before, torch.get_rng_state())
    one_pass(run, noisy, batches=batches)
    assert run[1].accountant.steps == STEPS and run[1].privacy(1e-5).records_apart.startswith("not probed")


# --- the public check -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(APART))
def test_the_check_by_itself_passes_what_is_apart(name: str) -> None:
    torch.manual_seed(0)
    model = APART[name][0]()
    before = torch.get_rng_state()
    assert check_rows_apart(model, DATA, APART[name][1]) is None
    assert torch.equal(before, torch.get_rng_state()) and not any(hasattr(p, "grad_sample") for p in model.parameters())


@pytest.mark.parametrize("name", sorted(MIXED))
def test_the_check_by_itself_refuses_what_is_not(name: str) -> None:
    torch.manual_seed(0)
    with refused("records") as error:
        check_rows_apart(MIXED[name][0](), DATA, MIXED[name][1])
    assert error.value.value.split(".")[0] in MIXED[name][2]


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(4), nn.MultiheadAttention(4, 2)], ids=lambda one: type(one).__name__)
def test_the_check_by_itself_refuses_layers_whose_records_it_cannot_see(layer: nn.Module) -> None:
    """Before, the first was Opacus's NotImplementedError, and the second passed without a look at its weights."""
    model = nn.Sequential(nn.Linear(2, 4), layer)
    with refused("module", type(layer).__name__):
        check_rows_apart(model, DATA, on_x(F.cross_entropy))


def test_the_check_by_itself_refuses_bad_input() -> None:
    loss = on_x(F.cross_entropy)
    with refused("model"):
        check_rows_apart(mlp().eval(), DATA, loss)
    for batch in ((), (torch.ones(1, 2),), (torch.ones(2), torch.ones(3)), 3):
        with refused("batch"):
            check_rows_apart(mlp(), batch, loss)
    own = torch.Generator().manual_seed(0)
    with refused("loss"):
        check_rows_apart(mlp(), DATA, lambda m, b: m(b["x"] + torch.randn(b["x"].shape, generator=own)).square().mean())
