"""What people do in their loops, by both engines: each row is a loop that says what came of it, or its error does."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from opacus.schedulers import ExponentialNoise
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, IterableDataset, SequentialSampler, TensorDataset

from dptheory.privacy import Composition, Step
from dptheory.training.mechanisms import AdaptiveClipping, AutomaticClipping, DpSgd, LayerClipping, Mechanism
from tests.two_engines import DELTA, Engine, Rows, epoch, mean, network, ours, private

N = 40
ROWS = torch.Generator().manual_seed(0)
X, Y = torch.randn(N, 6, generator=ROWS), torch.arange(N) % 3
DATA = TensorDataset(X, Y)
VIEWS = X[:1].repeat(8, 1) + 0.1 * torch.randn(8, 6, generator=ROWS)
Loss = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]
PRACTICES = Rows()


def made(engine: Any, model: nn.Module | None = None, data: TensorDataset = DATA, **given: Any) -> Any:
    """Model, optimizer and loader."""
    return private(engine, network(3) if model is None else model, data=data, **given)


def by_loss(name: str, loss: Loss) -> None:
    PRACTICES[name] = lambda engine: epoch(made(engine()), loss)


def by_change(name: str, between: Callable[..., None]) -> None:
    PRACTICES[name] = lambda engine: epoch(made(engine()), between=between)


# --- what a record adds ------------------------------------------------------------------------------------------------


@PRACTICES("eight views of an example (`views=8`)")
def _views(engine: Engine) -> str:
    """How far one record, of which all rows are, moves the sum."""
    one = {"noise_multiplier": 0.0, "max_grad_norm": 1e-3}
    if engine is ours:
        one |= {"views": 8, "probe": False}
    model, optimizer, loader = made(engine(), data_loader=DataLoader(TensorDataset(X[:1], Y[:1]), 1), **one)
    for _, y in loader:
        optimizer.zero_grad()
        mean(model, VIEWS, y.repeat(8)).backward()
        optimizer.step()
    whole = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    return f"a record moves the sum by {float(whole) / 1e-3:.2f} C"


def _rule(name: str, rule: Callable[[], Mechanism], options: dict[str, Any] | None) -> None:
    def run(engine: Engine) -> str:
        if engine is ours:
            return epoch(made(engine(rule())))
        return "none" if options is None else epoch(made(engine(), **options))

    PRACTICES[name] = run


_rule(
    "clipping by layer", lambda: DpSgd(clipping=LayerClipping()), {"clipping": "per_layer", "max_grad_norm": [0.5] * 4}
)
_rule("automatic clipping", lambda: DpSgd(clipping=AutomaticClipping()), None)
_rule("adaptive clipping", lambda: AdaptiveClipping(DpSgd(), expected_batch_size=10), {
    "clipping": "adaptive", "target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "max_clipbound": 1e3,
    "min_clipbound": 1e-3, "unclipped_num_std": 1.0,
})  # fmt: skip


@PRACTICES("noise that falls (`ExponentialNoise`), two passes at 1.1 and .55")
def _falling(engine: Engine) -> str:
    """Against the composition of the steps as they were."""
    made_by = engine()
    run = made(made_by)
    scheduler = ExponentialNoise(run[1], gamma=0.5)
    for _ in range(2):
        epoch(run)
        scheduler.step()
    steps = [Step(noise_multiplier=s, sampling_rate=10 / N, count=N // 10) for s in (1.1, 0.55)]
    whole = Composition(steps).epsilon(delta=DELTA).upper
    return f"trains; {made_by.get_epsilon(DELTA) / whole:.2f} of the epsilon of its steps"


# --- losses -----------------------------------------------------------------------------------------------------------

TEXT = TensorDataset(torch.randint(9, (N, 5), generator=ROWS), torch.arange(N) % 4 + 2)


def of_all_tokens(model: nn.Module, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The next token, where padding is ignored."""
    targets = tokens.masked_fill(torch.arange(5) >= lengths[:, None], -100)
    return F.cross_entropy(model(tokens)[:, :-1].transpose(1, 2), targets[:, 1:], ignore_index=-100)


def of_own_tokens(model: nn.Module, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    kept = (torch.arange(5) < lengths[:, None])[:, 1:].float()
    each = F.cross_entropy(model(tokens)[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="none")
    return ((each * kept).sum(1) / kept.sum(1)).mean()


def language_model() -> nn.Module:
    return nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9))


PRACTICES["a mean over all tokens of a batch"] = lambda engine: epoch(
    made(engine(), language_model(), TEXT), of_all_tokens
)
PRACTICES["for each example the mean over its own tokens"] = lambda engine: epoch(
    made(engine(), language_model(), TEXT), of_own_tokens
)
by_loss(
    "class weights in `cross_entropy`", lambda m, x, y: F.cross_entropy(m(x), y, weight=torch.tensor([1.0, 9.0, 2.0]))
)


def mixed(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(0.7 * x + 0.3 * x.roll(1, 0)), y)


by_loss("mixup between examples", mixed)
by_loss("half of a batch", lambda m, x, y: mean(m, x[: len(x) // 2], y[: len(x) // 2]))
by_loss(
    "a penalty on weights in the loss", lambda m, x, y: mean(m, x, y) + sum(p.square().sum() for p in m.parameters())
)
by_loss("bfloat16 autocast", lambda m, x, y: _halved(m, x, y))


def _halved(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return mean(model, x, y)


# --- gradients --------------------------------------------------------------------------------------------------------


def _divided(model: nn.Module, _: Any) -> None:
    for p in model.parameters():
        p.grad /= 1024


def _edited(model: nn.Module, _: Any) -> None:
    for p in model.parameters():
        p.grad *= 0.5


def _added(model: nn.Module, _: Any) -> None:
    for p in model.parameters():
        p.grad += 1.0


@PRACTICES("a scaled loss, and `p.grad` divided by the scale")
def _scaled(engine: Engine) -> str:
    return epoch(made(engine()), lambda m, x, y: 1024 * mean(m, x, y), _divided)


by_change("`p.grad` edited before `step()`", _edited)
by_change("a public gradient added to `p.grad`", _added)
by_change("`clip_grad_norm_` before `step()`", lambda model, _: nn.utils.clip_grad_norm_(model.parameters(), 1e-3))


@PRACTICES("two losses, two backward passes, one step")
def _two_passes(engine: Engine) -> str:
    model, optimizer, loader = made(engine())
    for x, y in loader:
        optimizer.zero_grad()
        mean(model, x, y).backward()
        mean(model, x, (y + 1) % 3).backward()
        optimizer.step()
    return "trains"


# --- data -------------------------------------------------------------------------------------------------------------


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(DATA)


class Writes(nn.Module):
    """Counts in a buffer what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x.detach().sum(0)
        found: torch.Tensor = self.inner(x)
        return found


def by_loader(name: str, build: Callable[[], DataLoader[Any]]) -> None:
    PRACTICES[name] = lambda engine: epoch(made(engine(), data_loader=build()))


by_loader("a batch sampler", lambda: DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 10, False)))
by_loader("a data set without length", lambda: DataLoader(Stream(), 10))
by_loader("repeated records in a `ConcatDataset`", lambda: DataLoader(ConcatDataset([DATA, DATA]), 10))
PRACTICES["a buffer written in the forward pass"] = lambda engine: epoch(made(engine(), Writes()))

# --- optimizers and models --------------------------------------------------------------------------------------------


def by_optimizer(name: str, build: Callable[[nn.Sequential], torch.optim.Optimizer]) -> None:
    def run(engine: Engine) -> str:
        model = network(3)
        return epoch(made(engine(), model, optimizer=build(model)))

    PRACTICES[name] = run


by_optimizer("a fused optimizer", lambda model: torch.optim.AdamW(model.parameters(), fused=True))
by_optimizer("a foreach optimizer", lambda model: torch.optim.SGD(model.parameters(), lr=0.1, foreach=True))
by_optimizer("groups of parameters", lambda model: torch.optim.SGD([
    {"params": model[2].parameters(), "lr": 0.01}, {"params": model[0].parameters()}], lr=0.1))  # fmt: skip


@PRACTICES("an averaged model (`AveragedModel`)")
def _averaged(engine: Engine) -> str:
    model = network(3)
    average = AveragedModel(model)
    said = epoch(made(engine(), model))
    average.update_parameters(model)
    return said if all(map(torch.equal, average.module.parameters(), model.parameters())) else "**other weights**"
