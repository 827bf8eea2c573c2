"""Models of which a part is trained, frozen and unfrozen later (Opacus's issues 315, 472, 477, 542, 645, 687, 729)."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import make_private
from dptheory.training import mechanisms as m
from dptheory.training.engine import GRAD_SAMPLE_MODES
from tests.refused import refused
from tests.training.engine.passes import epoch

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")
DATA = TensorDataset(torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


def private(model: nn.Module, params=None, mechanism: m.Mechanism | None = None, **options):
    optimizer = torch.optim.SGD(model.parameters() if params is None else params, lr=0.1, momentum=0.9)
    chosen = {"mechanism": mechanism or m.DpSgd(), "noise_multiplier": 1.0, "max_grad_norm": 1.0} | options
    return make_private(module=model, optimizer=optimizer, data_loader=DataLoader(DATA, 10), **chosen)


def moved(model: nn.Module, made) -> set[str]:
    """The parameters that a pass changes."""
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    epoch(made)
    return {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}


ALL = {"0.weight", "0.bias", "2.weight", "2.bias"}
MECHANISMS = (
    m.DpSgd, lambda: m.RandomSparsification(m.Constant(0.2), 0, refresh_steps=3), lambda: m.PosteriorFreeze(m.Constant(0.2), 0),
    lambda: m.RankedSparsification(m.Constant(0.2), steps_per_epoch=3, seed=0),
    lambda: m.IndexPruning(1.0, m.Constant(0.5), group_size=4),
    lambda: m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=10**6),
)  # fmt: skip


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
def test_every_way_to_train_a_part(mode: str) -> None:
    """Frozen before; part of a layer; an optimizer that holds a part, the others frozen."""
    frozen = network()
    frozen[0].requires_grad_(False)
    assert moved(frozen, private(frozen, grad_sample_mode=mode)) == {"2.weight", "2.bias"}
    both = network()
    both[0].requires_grad_(False)
    assert moved(both, private(both, both[2].parameters(), grad_sample_mode=mode)) == {"2.weight", "2.bias"}
    biases = network()
    for layer in (biases[0], biases[2]):
        layer.weight.requires_grad_(False)
    assert moved(biases, private(biases, grad_sample_mode=mode)) == {"0.bias", "2.bias"}


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
def test_what_is_frozen_later_stays_and_what_is_unfrozen_moves(mode: str) -> None:
    """Whole layers and parts; with momentum, which would move on what keeps a gradient of zeros."""
    model = network()
    model[0].requires_grad_(False)
    made = private(model, grad_sample_mode=mode)
    assert moved(model, made) == {"2.weight", "2.bias"}
    model[0].requires_grad_(True)
    assert moved(model, made) == ALL
    model[2].weight.requires_grad_(False)
    model[0].requires_grad_(False)
    assert moved(model, made) == {"2.bias"}
    model[2].weight.requires_grad_(True)
    assert moved(model, made) == {"2.weight", "2.bias"}
    assert made[1].accountant.steps == 16
    assert model[0].weight.grad_sample is None and model[0].weight.grad is None


def test_every_mechanism_goes_along() -> None:
    for build in MECHANISMS:
        mechanism, model = build(), network()
        model[0].requires_grad_(False)
        made = private(model, mechanism=mechanism)
        assert moved(model, made) == {"2.weight", "2.bias"}, mechanism.title
        model[0].requires_grad_(True)
        epoch(made)
        assert "0.weight" in moved(model, made), mechanism.title
        model[0].requires_grad_(False)
        assert moved(model, made) <= {"2.weight", "2.bias"}, mechanism.title


def test_the_gradients_of_an_unfrozen_layer_are_those_of_a_layer_that_always_was_trained() -> None:
    features, labels = DATA[:7]
    found = []
    for late in (False, True):
        model = network()
        model[0].requires_grad_(not late)
        wrapped, optimizer, _ = private(model)
        model[0].requires_grad_(True)
        optimizer.begin_batch(7)
        nn.functional.cross_entropy(wrapped(features), labels).backward()
        found.append([p.grad_sample for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_layer_frozen_between_backward_and_step_does_not_take_the_bare_gradient() -> None:
    """backward() leaves the sum of the batch, neither clipped nor with noise, in ``p.grad``."""
    model = network()
    wrapped, optimizer, _ = private(model, noise_multiplier=0.0, max_grad_norm=1e-9)
    before = model[0].weight.detach().clone()
    optimizer.begin_batch(40)
    nn.functional.cross_entropy(wrapped(DATA.tensors[0]), DATA.tensors[1]).backward()
    assert model[0].weight.grad.abs().max() > 1e-3
    model[0].requires_grad_(False)
    optimizer.step()
    assert torch.equal(model[0].weight, before)


def test_parts_of_a_batch_have_the_same_trained_parameters() -> None:
    model = network()
    wrapped, optimizer, _ = private(model)
    optimizer.begin_batch(8)
    for freeze in (False, True):
        optimizer.signal_skip_step(not freeze)
        model[0].requires_grad_(not freeze)
        nn.functional.cross_entropy(wrapped(DATA.tensors[0][:4]), DATA.tensors[1][:4]).backward()
        if freeze:
            with pytest.raises(ValueError, match="requires_grad must stay as it is between the parts of a batch"):
                optimizer.step()
        else:
            optimizer.step()
        optimizer.zero_grad()
    assert optimizer.accountant.steps == 0


def mixing() -> dict[str, nn.Module]:
    return {
        "BatchNorm1d": nn.BatchNorm1d(5).requires_grad_(False),
        "without parameters": nn.BatchNorm1d(5, affine=False),
        "without statistics of its own": nn.BatchNorm1d(5, affine=False, track_running_stats=False).eval(),
        "statistics of instances": nn.Sequential(
            nn.Unflatten(1, (5, 1)), nn.InstanceNorm1d(5, track_running_stats=True), nn.Flatten()
        ),
    }


def test_frozen_layers_that_mix_samples_are_refused_in_training_and_not_in_eval() -> None:
    """Opacus looks at layers with trained parameters alone, and takes frozen batch normalisation, which mixes."""
    for name, layer in mixing().items():
        model = nn.Sequential(nn.Linear(6, 5), layer, nn.Linear(5, 2))
        with refused("module", "1"):
            private(model)
        if name.startswith("without statistics"):
            continue
        layer.eval()
        made = private(model)
        assert moved(model, made) == {"0.weight", "0.bias", "2.weight", "2.bias"}, name
        made[0].train()  # the whole model, as loops do it before every pass
        with refused("module"):
            epoch(made)


def test_a_layer_that_mixes_samples_cannot_be_unfrozen() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5).requires_grad_(False).eval(), nn.Linear(5, 2))
    made = private(model)
    epoch(made)
    model[1].requires_grad_(True)
    with refused("module"):
        epoch(made)


class Counting(nn.Module):
    """A layer with a buffer, whose gradients come from a pass of the whole network."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def test_a_layer_with_a_buffer_can_be_unfrozen_and_frozen_again() -> None:
    model = nn.Sequential(nn.Linear(6, 5), Counting().requires_grad_(False), nn.Linear(5, 2))
    made = private(model)
    weights = {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert moved(model, made) == weights
    model[1].requires_grad_(True)
    assert moved(model, made) == {*weights, "1.weight"}
    model[1].requires_grad_(False)
    assert moved(model, made) == weights
