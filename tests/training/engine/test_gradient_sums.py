"""Per-sample gradients that do not add up to the gradient of the batch are refused, and rounding is not."""

from collections.abc import Callable

import pytest
import torch
from opacus.layers import DPMultiheadAttention
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import make_private
from dptheory.training.engine import attach
from dptheory.training.engine._gradient_sums import GradientEdits
from dptheory.training.mechanisms import DpSgd
from dptheory.training.per_example._trial import MORE

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:In CPU autocast")

N, MODES = 6, ["factors", "hooks", "functorch"]


def attached(model: nn.Module, mode: str = "factors", reduction: str = "mean"):
    return attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=DpSgd(), sampling_rate=0.1,
        expected_batch_size=N, noise_multiplier=1.0, max_grad_norm=1.0, grad_sample_mode=mode, loss_reduction=reduction,
    )  # fmt: skip


def step(private, optimizer, features, reduction: str = "mean") -> list[torch.Tensor]:
    """A step; gives its per-sample gradients, of which the parameters keep nothing."""
    labels = torch.arange(len(features)) % 3
    optimizer.begin_batch(len(features))
    optimizer.zero_grad()
    nn.functional.cross_entropy(private(features), labels, reduction=reduction).backward()
    samples = [p.grad_sample for p in optimizer.params]
    optimizer.step()
    return samples


class Tied(nn.Module):
    """A weight used outside of its layer, but not for the few examples with which the engine looks for such."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.hidden = nn.Embedding(7, 4), nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.hidden(self.words(x).mean(1))
        return nn.functional.linear(hidden, self.words.weight if len(x) > MORE else self.words.weight.detach())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("parts", [False, True])
def test_weights_tied_in_a_function_call_are_refused(mode: str, parts: bool) -> None:
    private, optimizer = attached(Tied(), mode)
    optimizer.begin_batch(N)
    optimizer.signal_skip_step(parts)
    nn.functional.cross_entropy(private(torch.randint(7, (N, 5))), torch.arange(N)).backward()
    with pytest.raises(ValueError, match=r"words.weight must have per-sample gradients that add up.*tie layers"):
        optimizer.step()
    assert optimizer.clipped_total is None and optimizer.accountant.steps == 0


def test_a_penalty_in_the_loss_is_refused() -> None:
    model = nn.Linear(5, 3)
    private, optimizer = attached(model)
    (private(torch.randn(N, 5)).square().mean() + model.weight.square().sum()).backward()
    with pytest.raises(ValueError, match=r"weight must have per-sample gradients that add up.*weight_decay"):
        optimizer.step()


def test_a_gradient_scaler_is_refused() -> None:
    private, optimizer = attached(nn.Linear(5, 3))
    scaler = torch.amp.GradScaler("cpu")
    loss = nn.functional.cross_entropy(private(torch.randn(N, 5)), torch.arange(N) % 3)
    scaler.scale(loss).backward()
    with pytest.raises(ValueError, match=r"weight must have per-sample gradients that add up.*no GradScaler"):
        scaler.step(optimizer)


def test_what_is_unfrozen_is_compared_too() -> None:
    model = Tied()
    model.words.requires_grad_(False)
    private, optimizer = attached(model)
    features = torch.randint(7, (N, 5))
    step(private, optimizer, features)
    model.words.requires_grad_(True)
    with pytest.raises(ValueError, match=r"words.weight must have per-sample"):
        step(private, optimizer, features)


def test_a_head_of_zeros_is_compared_as_soon_as_it_passes_gradients_on() -> None:
    """In the first step what lies before it has no gradient at all."""
    model = nn.Sequential(Tied(), nn.Linear(7, 3))
    nn.init.zeros_(model[1].weight)
    private, optimizer = attached(model)
    features = torch.randint(7, (N, 5))
    step(private, optimizer, features)
    with pytest.raises(ValueError, match=r"0.words.weight must have per-sample"):
        step(private, optimizer, features)


# --- what adds up -----------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """The bias of its keys has no gradient but rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = DPMultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.attention(x, x, x)[0].mean(1))


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", MODES)
def test_precision_makes_no_difference(kind: torch.dtype, mode: str) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        private, optimizer = attached(Attention().to(kind), mode)
        step(private, optimizer, torch.randn(50, 5, 4).to(kind))
        layers = nn.Sequential(nn.Linear(5, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 3)).to(kind)
        private, optimizer = attached(layers, mode)
        step(private, optimizer, torch.randn(300, 5).to(kind))


@pytest.mark.parametrize("mode", MODES)
def test_autocast(mode: str) -> None:
    torch.manual_seed(0)
    private, optimizer = attached(nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 3)), mode)
    with torch.autocast("cpu", torch.bfloat16):
        step(private, optimizer, torch.randn(100, 5))


def test_gradients_left_from_before_are_not_compared() -> None:
    """``p.grad`` adds up where nobody clears it; so do parts of a batch."""
    model = nn.Linear(5, 3)
    data = DataLoader(TensorDataset(torch.randn(40, 5), torch.arange(40) % 3), batch_size=20)
    private, optimizer, batches = make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=DpSgd(), data_loader=data,
        noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    nn.functional.cross_entropy(model(torch.randn(4, 5)), torch.arange(4) % 3).backward()
    with BatchMemoryManager(data_loader=batches, max_physical_batch_size=6, optimizer=optimizer) as small:
        for features, labels in small:
            for p in model.parameters():
                p.grad_sample = None
            nn.functional.cross_entropy(private(features), labels).backward()
            optimizer.step()
    assert optimizer.accountant.steps == 2


def test_an_example_without_a_finite_gradient_is_no_difference() -> None:
    features = torch.randn(N, 5)
    features[2] = torch.inf
    private, optimizer = attached(nn.Linear(5, 3))
    step(private, optimizer, features)
    assert optimizer.nonfinite_samples == 1


# --- Edits of p.grad before step()


EDITS: dict[str, Callable[[nn.Parameter], object]] = {
    "times one": lambda p: p.grad.mul_(1.0),
    "another tensor": lambda p: setattr(p, "grad", p.grad.clone()),
    "an entry": lambda p: p.grad.view(-1)[0].fill_(0.0),
}


def after_backward() -> tuple[nn.Parameter, GradientEdits]:
    p = nn.Parameter(torch.ones(3))
    edits = GradientEdits({p: "p"})
    edits.follow([p])
    edits.follow([p])
    p.square().sum().backward()
    return p, edits


@pytest.mark.parametrize("name", EDITS)
def test_a_write_is_seen(name: str) -> None:
    p, edits = after_backward()
    EDITS[name](p)
    with pytest.raises(ValueError, match=r"^p\.grad of p must stay"):
        edits.check([p])


def test_what_backward_leaves_is_let_through() -> None:
    """Also the sum of two passes, what is cleared, and what no pass has left."""
    p, edits = after_backward()
    p.sum().backward()
    edits.check([p])
    p.grad.zero_()
    edits.check([p])  # known once only
    p.sum().backward()
    p.grad.zero_()
    edits.forget()
    edits.check([p])
    p.grad = None
    edits.check([p])
