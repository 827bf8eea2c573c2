"""On a CUDA device: every mechanism on every kind of layer, the law of the noise, and runs that go on where they stopped."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import PrivacyEngine, make_private, make_private_with_epsilon, plan
from dptheory.training._streams import simulation
from dptheory.training.engine import check_rows_apart
from dptheory.training.mechanisms import Constant, DpSgd, RandomSparsification
from dptheory.training.networks import dp_cnn, mlp, resnet20, small_tanh_cnn, wrn_16_4
from dptheory.training.planning import Effort
from tests.training.test_modes_agree import COUNT, NETWORKS, trained

CUDA = "cuda"
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning"),
]
_UNRANKED = range(6)
"""Of the mechanisms, those without a ranking or a subspace: ties may be broken otherwise, and bases differ by signs."""


def base_of(network: str) -> tuple[nn.Module, torch.Tensor]:
    build, x = NETWORKS[network]
    torch.manual_seed(1)
    return build().double(), x


@pytest.mark.parametrize("network", NETWORKS)
def test_factors_and_tensors_release_the_same(network: str) -> None:
    base, x = base_of(network)
    for number in range(COUNT):
        plain, factors = (trained(base, x, number, mode, torch.float64, device=CUDA) for mode in ("hooks", "factors"))
        if plain is None or factors is None:
            continue
        for one, other in zip(plain, factors, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9 * float(one.abs().max()))


@pytest.mark.parametrize("network", NETWORKS)
def test_a_simulated_release_is_that_of_the_cpu(network: str) -> None:
    """Noise, masks and batches come from the same generators, wherever the network is."""
    base, x = base_of(network)
    for number in _UNRANKED:
        here, there = (trained(base, x, number, "factors", torch.float64, device=device) for device in ("cpu", CUDA))
        if here is None or there is None:
            continue
        for one, other in zip(here, there, strict=True):
            torch.testing.assert_close(other.cpu(), one, rtol=1e-9, atol=1e-9 * float(one.abs().max()))


def _loader(count: int = 256) -> DataLoader:
    pixels = torch.randn(count, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(pixels, torch.arange(count) % 10), batch_size=32)


@pytest.mark.parametrize("secure", [False, True])
def test_noise_has_its_standard_deviation_and_is_new_in_each_step(secure: bool) -> None:
    """Of 26,010 entries: 4 standard errors are 1.8 per cent."""
    model = small_tanh_cnn(0).to(CUDA)
    seeded = {} if secure else {"noise_generator": torch.Generator().manual_seed(5)}
    private, optimizer, batches = make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0), data_loader=_loader(), mechanism=DpSgd(),
        noise_multiplier=3.0, max_grad_norm=0.5, probe=False, **seeded,
    )  # fmt: skip
    found = []
    for pixels, labels in batches:
        optimizer.zero_grad()
        F.cross_entropy(private(pixels.to(CUDA)), labels.to(CUDA)).backward()
        optimizer.step()
        noise = [p.grad * 32 - total for p, total in zip(optimizer.params, optimizer.clipped_total, strict=True)]
        found.append(torch.cat([t.flatten() for t in noise]))
    first, second = found[:2]
    size = first.numel()
    for one in (first, second):
        assert float(one.std()) == pytest.approx(1.5, rel=4.0 / (2 * size) ** 0.5)
    assert abs(float((first * second).mean())) / 2.25 < 4.0 / size**0.5


def test_a_state_that_was_saved_goes_on(tmp_path: Path) -> None:
    def steps(model: nn.Module, made: tuple, count: int) -> torch.Tensor:
        private, optimizer, batches = made
        for _, (pixels, labels) in zip(range(count), batches, strict=False):
            optimizer.zero_grad()
            F.cross_entropy(private(pixels.to(CUDA)), labels.to(CUDA)).backward()
            optimizer.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    def start() -> tuple[nn.Module, tuple]:
        model = small_tanh_cnn(0).to(CUDA)
        with simulation():  # otherwise masks and noise are new after a stop
            made = make_private(
                module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), data_loader=_loader(),
                mechanism=RandomSparsification(Constant(0.5), 2), noise_multiplier=1.0, max_grad_norm=0.5, probe=False,
                noise_generator=torch.Generator().manual_seed(5),
            )  # fmt: skip
        return model, made

    model, made = start()
    steps(model, made, 3)
    kept = {"model": copy.deepcopy(model.state_dict()), "optimizer": copy.deepcopy(made[1].state_dict())}
    torch.save(kept, tmp_path / "state")
    pixels, labels = next(iter(_loader()))

    def one_more(model: nn.Module, made: tuple) -> torch.Tensor:
        private, optimizer, _ = made
        optimizer.loader_drew(32)
        optimizer.zero_grad()
        F.cross_entropy(private(pixels.to(CUDA)), labels.to(CUDA)).backward()
        optimizer.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    wanted = one_more(model, made)
    other, again = start()
    state = torch.load(tmp_path / "state", weights_only=False)
    other.load_state_dict(state["model"])
    again[1].load_state_dict(state["optimizer"])
    torch.testing.assert_close(one_more(other, again), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("build", [dp_cnn, resnet20, wrn_16_4])
def test_the_papers_networks_keep_a_budget(build) -> None:
    model = build(0).to(CUDA)
    pixels = torch.randn(64, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    loader = DataLoader(TensorDataset(pixels, torch.arange(64) % 10), batch_size=16)
    private, optimizer, batches = make_private_with_epsilon(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader, mechanism=DpSgd(),
        target_epsilon=3.0, target_delta=1e-5, epochs=1, max_grad_norm=1.0,
    )  # fmt: skip
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(private(x.to(CUDA)), y.to(CUDA)).backward()
        optimizer.step()
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())
    report = optimizer.accountant.get_epsilon(delta=1e-5)
    assert 2.9 < report <= 3.0 + 1e-6


def test_rows_that_are_not_apart_are_found() -> None:
    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(x - x.mean(0))

    batch = (torch.randn(8, 4, device=CUDA), torch.arange(8, device=CUDA) % 2)
    check_rows_apart(nn.Linear(4, 2).to(CUDA), batch, lambda net, both: F.cross_entropy(net(both[0]), both[1]))
    with pytest.raises(ValueError):
        check_rows_apart(Mixing().to(CUDA), batch, lambda net, both: F.cross_entropy(net(both[0]), both[1]))


def test_plan() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(400, 5, generator=generator)
    public = TensorDataset(features, (features[:, 0] > 0).long())
    least = Effort(spread=8, guided=8, short=10, kept=8, middle=20, finalists=3, whole=40)
    choice = plan(
        nn.Linear(5, 2).to(CUDA), public, num_examples=5000, epsilon=3.0, delta=1e-5, max_epochs=4, seconds=20,
        effort=least,
    )  # fmt: skip
    assert choice.expected.high > 0.7


def test_the_engine_in_opacus_words() -> None:
    model = mlp(0).to(CUDA)
    private, optimizer, batches = PrivacyEngine(DpSgd()).make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=_loader(),
        noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    for pixels, labels in batches:
        optimizer.zero_grad()
        F.cross_entropy(private(pixels.to(CUDA)), labels.to(CUDA)).backward()
        optimizer.step()
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())
