"""``python -m tests.opacus_page``: the page "Opacus and here", whose cells are what the same code does with either engine."""

import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from opacus.layers import DPLSTM, DPMultiheadAttention
from opacus.schedulers import ExponentialNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from dptheory.files import write_atomically
from tests.said import marked, page, table
from tests.two_engines import DATA, DELTA, Engine, Rows, epoch, network, ours, private, theirs

PAGE = Path(__file__).parents[1] / "proofs" / "opacus.md"

# --- what the rows do -------------------------------------------------------------------------------------------------


def moved(made: Any, parameter: torch.Tensor) -> str:
    """Whether a pass changes a parameter."""
    before = parameter.detach().clone()
    epoch(made)
    return "it stays" if torch.equal(before, parameter) else "it moves"


def trained(model: nn.Module, engine: Engine, **options: Any) -> str:
    """A pass."""
    return epoch(private(engine(), model, **options))


def reported(made_by: Any, **options: Any) -> str:
    """A pass, and what it is said to have spent."""
    epoch(private(made_by, network(), **options))
    return f"trains; epsilon {made_by.get_epsilon(DELTA):.2f}"


# --- the rows ---------------------------------------------------------------------------------------------------------

SAME, PART, SAFE, OTHER = Rows(), Rows(), Rows(), Rows()
GROUPS = {
    "The loop": SAME,
    "Parts of a model": PART,
    "What a guarantee rests on": SAFE,
    "Options of Opacus": OTHER,
}

SAME["`make_private`, four steps of hooks"] = lambda engine: reported(engine())
SAME['`grad_sample_mode="functorch"`'] = lambda engine: trained(network(), engine, grad_sample_mode="functorch")


@SAME("`make_private_with_epsilon(target_epsilon=2, epochs=2)`")
def _with_epsilon(engine: Engine) -> str:
    made_by, model = engine(), network()
    made = made_by.make_private_with_epsilon(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(DATA, 10),
        target_epsilon=2.0, target_delta=DELTA, epochs=2, max_grad_norm=1.0,
    )  # fmt: skip
    for _ in range(2):
        epoch(made)
    spent = f"sigma {made[1].noise_multiplier:.3f}, epsilon {made_by.get_epsilon(DELTA):.3f} after them"
    try:
        epoch(made)
    except ValueError as error:
        return f"{spent}; then `{error}`"
    return f"{spent}, {made_by.get_epsilon(DELTA):.3f} after a third"


@SAME("`BatchMemoryManager`: parts of at most 4 examples, without noise")
def _parts(engine: Engine) -> str:
    weights = []
    for most in (None, 4):
        torch.manual_seed(0)
        batches = DataLoader(DATA, 10, generator=torch.Generator().manual_seed(1))
        model, optimizer, loader = private(engine(), network(), data_loader=batches, noise_multiplier=0.0)
        if most is None:
            epoch((model, optimizer, loader))
        else:
            with BatchMemoryManager(data_loader=loader, max_physical_batch_size=most, optimizer=optimizer) as parts:
                epoch((model, optimizer, parts))
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    return "the weights of whole batches" if torch.allclose(*weights, atol=1e-6) else "other weights"


@SAME("`StepLR`, and Opacus's `ExponentialNoise` from sigma 1.1 to 0.55")
def _schedulers(engine: Engine) -> str:
    made_by = engine()
    made = private(made_by, network())
    rate, noise = torch.optim.lr_scheduler.StepLR(made[1], 1, 0.5), ExponentialNoise(made[1], gamma=0.5)
    for _ in range(2):
        epoch(made)
        rate.step()
        noise.step()
    return f"learning rate {made[1].param_groups[0]['lr']:g}; epsilon {made_by.get_epsilon(DELTA):.2f}"


@SAME("`save_checkpoint`, `load_checkpoint`")
def _checkpoint(engine: Engine) -> str:
    first, second = engine(), engine()
    made, again = private(first, network()), private(second, network())
    epoch(made)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.pt"
        first.save_checkpoint(path=path, module=made[0], optimizer=made[1])
        second.load_checkpoint(path=path, module=again[0], optimizer=again[1])
    same = all(torch.equal(a, b) for a, b in zip(made[0].parameters(), again[0].parameters(), strict=True))
    spent = first.get_epsilon(DELTA) == second.get_epsilon(DELTA)
    return f"{'same' if same else 'other'} weights, {'same' if spent else 'other'} epsilon"


@SAME("`model.state_dict()`, `to_standard_module()`")
def _state(engine: Engine) -> str:
    made = private(engine(), network())
    names = sorted(made[0].state_dict())
    return f"`{names[0]}`; {type(made[0].to_standard_module()).__name__} back"


@SAME("`DPLSTM`")
def _lstm(engine: Engine) -> str:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.out = DPLSTM(3, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.rnn(x.view(-1, 2, 3))[0][:, -1])

    return trained(Last(), engine)


@SAME("`DPMultiheadAttention`")
def _attention(engine: Engine) -> str:
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads, self.out = DPMultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 2)
            self.into = nn.Linear(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            words = self.into(x.view(-1, 2, 3))
            return self.out(self.heads(words, words, words)[0][:, 0])

    return trained(Attending(), engine)


@PART("a layer frozen before `make_private`")
def _frozen(engine: Engine) -> str:
    model = network()
    model[0].requires_grad_(False)
    return moved(private(engine(), model), model[0].weight)


@PART("biases alone ([542](https://github.com/meta-pytorch/opacus/issues/542))")
def _biases(engine: Engine) -> str:
    model = network()
    model[0].weight.requires_grad_(False)
    made = private(engine(), model)
    return f"weight: {moved(made, model[0].weight)}, bias: {moved(made, model[0].bias)}"


@PART("an optimizer of the last layer, the others frozen ([477](https://github.com/meta-pytorch/opacus/issues/477))")
def _held(engine: Engine) -> str:
    model = network()
    model[0].requires_grad_(False)
    return f"last layer: {moved(private(engine(), model, params=model[2].parameters()), model[2].weight)}"


@PART("an optimizer of the last layer, the others not frozen")
def _held_alone(engine: Engine) -> str:
    model = network()
    return f"last layer: {moved(private(engine(), model, params=model[2].parameters()), model[2].weight)}"


@PART("a layer frozen after a pass ([687](https://github.com/meta-pytorch/opacus/issues/687)), with momentum")
def _freeze(engine: Engine) -> str:
    model = network()
    made = private(engine(), model)
    epoch(made)
    model[0].requires_grad_(False)
    return moved(made, model[0].weight)


@PART(
    "a layer unfrozen after a pass ([645](https://github.com/meta-pytorch/opacus/issues/645), "
    "[729](https://github.com/meta-pytorch/opacus/pull/729))",
)
def _unfreeze(engine: Engine) -> str:
    model = network()
    model[0].requires_grad_(False)
    made = private(engine(), model)
    epoch(made)
    model[0].requires_grad_(True)
    return moved(made, model[0].weight)


@SAFE("a layer frozen between `backward()` and `step()`; clip 1e-9, no noise")
def _between(engine: Engine) -> str:
    model = network()
    wrapped, optimizer, loader = private(engine(), model, noise_multiplier=0.0, max_grad_norm=1e-9)
    features, labels = next(iter(loader))
    nn.functional.cross_entropy(wrapped(features), labels).backward()
    before = model[0].weight.detach().clone()
    model[0].requires_grad_(False)
    optimizer.step()
    change = float((model[0].weight - before).norm())
    return f"it moves by {change:.1g}: the gradient without clip and noise" if change > 1e-6 else "it stays"


SAFE["batch normalisation"] = lambda engine: trained(
    nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 2)), engine
)


def _gradients(
    engine: Engine, model: nn.Sequential, layer: Any, pairs: Iterable[torch.Tensor]
) -> Iterator[torch.Tensor]:
    """Per-sample gradients of a layer's weights, of one pair of examples after the other."""
    wrapped, optimizer, _ = private(engine(), model)
    for pair in pairs:
        optimizer.zero_grad()
        nn.functional.cross_entropy(wrapped(pair), torch.tensor([0, 1])).backward()
        yield layer.weight.grad_sample.clone()


def _other_example_matters(engine: Engine, model: nn.Sequential, layer: Any, pairs: Iterable[torch.Tensor]) -> str:
    """Gradient of one example, twice, with another second one."""
    one, other = (found[0] for found in _gradients(engine, model, layer, pairs))
    change = float((one - other).norm())
    return f"an example's gradient changes by {change:.1g} with another example" if change > 1e-5 else "trains apart"


def _norm_matters(engine: Engine, *, evaluated: bool) -> str:
    norm = nn.BatchNorm1d(5).requires_grad_(False)
    model = nn.Sequential(nn.Linear(6, 5), norm.eval() if evaluated else norm, nn.Linear(5, 2))
    pairs = (torch.stack([torch.ones(6), second * torch.arange(6.0)]) for second in (0.0, 5.0))
    return _other_example_matters(engine, model, model[2], pairs)


SAFE["frozen batch normalisation in training mode"] = lambda engine: _norm_matters(engine, evaluated=False)
SAFE["frozen batch normalisation in `eval()` ([472](https://github.com/meta-pytorch/opacus/issues/472))"] = (
    lambda engine: _norm_matters(engine, evaluated=True)
)


def _convolution() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(8, 2))


@SAFE("images with the channels last in memory")
def _channels_last(engine: Engine) -> str:
    model, images = _convolution(), torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    orders = (images, images.contiguous(memory_format=torch.channels_last))
    one, other = _gradients(engine, model, model[0], orders)
    change = float((one - other).norm() / one.norm())
    return f"other per-sample gradients of a convolution, by {change:.0%}" if change > 1e-5 else "the same gradients"


@SAFE("images with the examples innermost in memory")
def _examples_innermost(engine: Engine) -> str:
    model, first = _convolution(), torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(1))
    pairs = (torch.stack([first, torch.full_like(first, second)], dim=-1).permute(3, 0, 1, 2) for second in (0.0, 5.0))
    return _other_example_matters(engine, model, model[0], pairs)


@SAFE("an example with an infinite feature")
def _infinite(engine: Engine) -> str:
    model, data = network(), DATA.tensors[0].clone()
    data[0, 0] = torch.inf
    epoch(private(engine(), model, data_loader=DataLoader(TensorDataset(data, DATA.tensors[1]), 20)))
    finite = all(bool(torch.isfinite(p).all()) for p in model.parameters())
    return "its gradient counts as zero; weights finite" if finite else "weights become NaN"


@SAFE("45 examples, `batch_size=20`")
def _rate(engine: Engine) -> str:
    loader = DataLoader(TensorDataset(torch.zeros(45, 6), torch.zeros(45, dtype=torch.long)), 20)
    _, optimizer, drawn = private(engine(), network(), data_loader=loader)
    return f"rate {drawn.batch_sampler.sample_rate:.3f}, divisor {optimizer.expected_batch_size:g}"


SAFE["`secure_mode=True`"] = lambda engine: reported(engine(secure_mode=True))
SAFE["shuffled batches, `poisson_sampling=False`"] = lambda engine: reported(engine(), poisson_sampling=False)


@SAFE("a loader that draws some examples more often")
def _weighted(engine: Engine) -> str:
    sampler = WeightedRandomSampler([1.0] * 20 + [9.0] * 20, 40)
    return trained(network(), engine, data_loader=DataLoader(DATA, 10, sampler=sampler))


@SAFE("two runs of one engine")
def _two_runs(engine: Engine) -> str:
    made_by = engine()
    for _ in range(2):
        epoch(private(made_by, network()))
    return f"epsilon {made_by.get_epsilon(DELTA):.2f} of both"


@OTHER('`grad_sample_mode="ghost"`')
def _ghost(engine: Engine) -> str:
    model, optimizer, loss, loader = private(
        engine(), network(), grad_sample_mode="ghost", criterion=nn.CrossEntropyLoss()
    )
    return epoch((model, optimizer, loader), lambda model, x, y: loss(model(x), y))


@OTHER("a layer frozen after a pass of ghost clipping ([687](https://github.com/meta-pytorch/opacus/issues/687))")
def _ghost_frozen(engine: Engine) -> str:
    net = network()
    model, optimizer, loss, loader = private(engine(), net, grad_sample_mode="ghost")
    epoch((model, optimizer, loader), lambda model, x, y: loss(model(x), y))
    net[0].requires_grad_(False)
    before = net[0].weight.detach().clone()
    epoch((model, optimizer, loader), lambda model, x, y: loss(model(x), y))
    return "it stays" if torch.equal(before, net[0].weight) else "it moves"


OTHER['`clipping="per_layer"`'] = lambda engine: trained(
    network(), engine, clipping="per_layer", max_grad_norm=[0.5] * 4
)


@OTHER("`wrap_model=False`")
def _unwrapped(engine: Engine) -> str:
    model = network()
    return epoch((model, *private(engine(), model, wrap_model=False)[1:]))


OTHER['`PrivacyEngine(accountant="rdp")`'] = lambda engine: reported(engine(accountant="rdp"))


@OTHER("`LBFGS`")
def _lbfgs(engine: Engine) -> str:
    model = network()
    return epoch(private(engine(), model, optimizer=torch.optim.LBFGS(model.parameters(), max_iter=2)))


# --- the page ---------------------------------------------------------------------------------------------------------


def written() -> str:
    """What stands between the markers."""
    return marked("tests.opacus_page", _lines())


def _lines() -> Iterator[str]:
    for group, rows in GROUPS.items():
        heads = ["what is tried", f"Opacus {version('opacus')}", "here"]
        yield from ("", f"## {group}", "", *table(heads, rows.cells(theirs, ours)))


if __name__ == "__main__":
    write_atomically(PAGE, page(PAGE, written()))
    sys.stdout.write(f"{PAGE}\n")
