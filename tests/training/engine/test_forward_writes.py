"""A forward pass in training that writes to parameters or buffers is refused, and what writes elsewhere is not."""

import pytest
import torch
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import make_private
from dptheory.training.mechanisms import DpSgd, LayerFreezing
from tests.refused import refused
from tests.training.engine.passes import epoch

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")


def made(model: nn.Module, features: torch.Tensor | None = None, mechanism=None, **options):
    data = TensorDataset(torch.randn(40, 5) if features is None else features, torch.arange(40) % 3)
    return make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), mechanism=mechanism or DpSgd(),
        data_loader=DataLoader(data, batch_size=20), noise_multiplier=1.0, max_grad_norm=1.0, **options,
    )  # fmt: skip


class Centred(nn.Module):
    """Takes off a running mean."""

    def __init__(self, replaced: bool) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(5))
        self.replaced = replaced

    def forward(self, x):
        if self.training and self.replaced:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        elif self.training:
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x - self.mean


class Clamped(nn.Linear):
    def forward(self, x):
        with torch.no_grad():
            self.weight.clamp_(-1.0, 1.0)
        return super().forward(x)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (lambda: Centred(False), "0.mean"),
        (lambda: Centred(True), "0.mean"),
        (lambda: FakeQuantize(observer=MovingAverageMinMaxObserver), "0."),
        (lambda: Clamped(5, 5), "0.weight"),
    ],
)
@pytest.mark.parametrize("with_gradients", [True, False])
def test_a_forward_pass_that_writes_is_refused(layer, name: str, with_gradients: bool) -> None:
    private, optimizer, _ = made(nn.Sequential(layer(), nn.Linear(5, 3)))
    with refused("module", name), torch.set_grad_enabled(with_gradients):
        private(torch.randn(8, 5))
    assert optimizer.accountant.steps == 0


def test_the_layer_may_be_put_into_eval() -> None:
    model = nn.Sequential(Centred(False), nn.Linear(5, 3))
    private, optimizer, batches = made(model)
    model[0].eval()
    assert epoch((private, optimizer, batches)).accountant.steps == 2


def test_evaluation_may_write() -> None:
    private, _, _ = made(nn.Sequential(Clamped(5, 5), nn.Linear(5, 3)))
    private.eval()
    private(torch.randn(8, 5))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("trained", [True, False])
def test_embeddings_that_renormalise_are_refused_at_once(kind, trained: bool) -> None:
    embedding = kind(7, 5, max_norm=1.0)
    embedding.weight.requires_grad_(trained)
    model = nn.Sequential(embedding, nn.Flatten(), nn.Linear(5, 3))
    with refused("module", kind.__name__, "0", "1.0"):
        made(model, torch.randint(7, (40, 1)))


def test_an_embedding_that_renormalises_later_is_refused_too() -> None:
    embedding = nn.Embedding(7, 5)
    private, _, _ = made(nn.Sequential(embedding, nn.Flatten(), nn.Linear(5, 3)), torch.randint(7, (40, 1)))
    embedding.max_norm = 1.0
    with refused("module", "1.0"):
        private(torch.randint(7, (4, 1)))


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
def test_what_a_run_does_beside_is_no_write(mode: str) -> None:
    """Steps with momentum, dropout, parts, layers frozen on the way, weights loaded between passes, evaluation."""
    model = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.GroupNorm(2, 4), nn.Linear(4, 3))
    private, optimizer, batches = made(
        model, mechanism=LayerFreezing(DpSgd(), frozen_layers=1, from_step=2), grad_sample_mode=mode
    )
    epoch((private, optimizer, batches))
    kept = {name: value.clone() for name, value in private.state_dict().items()}
    private.eval()
    private(torch.randn(8, 5))
    private.train()
    private.load_state_dict(kept)
    with BatchMemoryManager(data_loader=batches, max_physical_batch_size=8, optimizer=optimizer) as small:
        epoch((private, optimizer, small))
    assert optimizer.accountant.steps == 4


class Changing(nn.Module):
    """Puts another layer in the place of one of its own."""

    def __init__(self, first: nn.Module, then: nn.Module) -> None:
        super().__init__()
        self.part, self._then = first, [then]

    def forward(self, x):
        self.part = self._then[0]
        return self.part(x)


def test_a_layer_that_is_replaced_is_refused_where_it_holds_something() -> None:
    with_buffer = Centred(False).eval()
    private, _, _ = made(nn.Sequential(Changing(nn.Tanh(), nn.ReLU()), nn.Linear(5, 3)))
    private(torch.randn(8, 5))
    private, _, _ = made(nn.Sequential(Changing(with_buffer, nn.ReLU()), nn.Linear(5, 3)))
    with refused("module", "0.part"):
        private(torch.randn(8, 5))


def test_a_layer_that_stands_in_two_places_is_looked_at() -> None:
    shared = Centred(False)
    private, _, _ = made(nn.Sequential(nn.Sequential(shared), shared, nn.Linear(5, 3)))
    with refused("module", "0.0.mean"):
        private(torch.randn(8, 5))
