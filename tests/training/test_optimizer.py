"""The optimizer: plain DP-SGD agrees with Opacus, masks and virtual batches do what they say, and errors name the remedy."""

import numpy as np
import pytest
import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from training import make_private
from training.mechanisms import Constant, DpSgd, Mechanism, RandomSparsification
from training.models import small_tanh_cnn

N, B = 64, 16


def loader(pixels: torch.Tensor | None = None, seed: int = 3) -> DataLoader:
    if pixels is None:
        pixels = torch.randn(N, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(len(pixels)) % 10
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(TensorDataset(pixels, labels), batch_size=B, generator=generator)


def train(mechanism: Mechanism, steps: int = 3, physical: int | None = None, **options):
    model = small_tanh_cnn(0)
    sgd = options.pop("optimizer", lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9))(model.parameters())
    settings = {"noise_multiplier": 0.7, "max_grad_norm": 0.5} | options.pop("settings", {})
    data = options.pop("data", None) or loader()
    private, optimizer, batches = make_private(
        module=model, optimizer=sgd, data_loader=data, mechanism=mechanism,
        noise_generator=torch.Generator().manual_seed(5), **settings, **options,
    )  # fmt: skip
    run(private, optimizer, batches, steps, physical)
    return model, optimizer


def run(private, optimizer, batches, steps, physical=None) -> None:
    done = 0
    if physical is None:
        while done < steps:
            for pixels, labels in batches:
                one(private, optimizer, pixels, labels)
                done += 1
                if done == steps:
                    return
    else:
        with BatchMemoryManager(data_loader=batches, max_physical_batch_size=physical, optimizer=optimizer) as small:
            while optimizer.ledger.steps < steps:
                for pixels, labels in small:
                    one(private, optimizer, pixels, labels)
                    if optimizer.ledger.steps == steps:
                        return


def one(private, optimizer, pixels, labels) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(private(pixels), labels).backward()
    optimizer.step()


def flat(model) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()


def test_plain_dp_sgd_is_opacus() -> None:
    """Opacus divides by norm + 1e-6, and draws the noise in the same order from the same generator."""
    ours, _ = train(DpSgd())
    model = small_tanh_cnn(0)
    engine = PrivacyEngine(accountant="rdp")
    private, optimizer, batches = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), data_loader=loader(),
        noise_multiplier=0.7, max_grad_norm=0.5, noise_generator=torch.Generator().manual_seed(5),
    )  # fmt: skip
    done = 0
    for pixels, labels in batches:
        one(private, optimizer, pixels, labels)
        done += 1
        if done == 3:
            break
    np.testing.assert_allclose(flat(ours), flat(model), atol=1e-5)
    assert np.abs(flat(ours) - flat(small_tanh_cnn(0))).max() > 0.01


@pytest.mark.parametrize("mode", ["hooks", "functorch"])
@pytest.mark.parametrize("physical", [None, 5])
def test_virtual_batches_and_modes_change_nothing(mode: str, physical: int | None) -> None:
    base, _ = train(RandomSparsification(Constant(0.5), seed=2))
    other, optimizer = train(RandomSparsification(Constant(0.5), seed=2), physical=physical, grad_sample_mode=mode)
    np.testing.assert_allclose(flat(base), flat(other), atol=1e-5)
    assert optimizer.ledger.steps == 3
