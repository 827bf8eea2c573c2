"""Weight standardisation: the formula, gradients of single examples through it, freezing, and runs that have it."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import remove_parametrizations

from dptheory.training import mechanisms as m
from dptheory.training.engine import attach
from dptheory.training.mechanisms import layers
from dptheory.training.networks import resnet20, standardise_weights
from dptheory.training.networks._weight_standardisation import StandardisedWeight
from dptheory.training.runs import from_dict, prepare, train


def network(groups: int = 1) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Tanh(), nn.Conv2d(4, 4, 3, stride=2, groups=groups, bias=False),
        nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


def test_every_filter_has_mean_zero_and_norm_one() -> None:
    rows = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    centred = rows - rows.mean((1, 2, 3), keepdim=True)
    wanted = centred / (centred.square().sum((1, 2, 3), keepdim=True) + 1e-4).sqrt()
    torch.testing.assert_close(StandardisedWeight()(rows), wanted, rtol=1e-14, atol=1e-14)
    assert not StandardisedWeight()(torch.ones(2, 3)).any(), "a filter of one number is 0, not 0 / 0"


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
@pytest.mark.parametrize("groups", [1, 2])
def test_gradients_are_those_of_single_examples(mode: str, groups: int) -> None:
    model = standardise_weights(network(groups)).double()
    images, labels = torch.randn(5, 2, 5, 5, dtype=torch.float64), torch.arange(5) % 3
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=m.DpSgd(), sampling_rate=0.5,
        expected_batch_size=5.0, noise_multiplier=0.0, max_grad_norm=1.0, grad_sample_mode=mode,
    )  # fmt: skip
    optimizer.begin_batch(5)
    nn.functional.cross_entropy(private(images), labels).backward()
    found = list(optimizer.grad_samples)
    plain = standardise_weights(network(groups)).double()
    plain.load_state_dict(model.state_dict())
    for i in range(5):
        loss = nn.functional.cross_entropy(plain(images[i : i + 1]), labels[i : i + 1])
        for one, own in zip(found, torch.autograd.grad(loss, list(plain.parameters())), strict=True):
            torch.testing.assert_close(one[i], own, rtol=1e-10, atol=1e-12)


def test_the_gradient_has_no_part_along_ones() -> None:
    """Adding a number to a raw filter changes nothing: the gradient through the standardisation says so."""
    model = standardise_weights(network())
    nn.functional.cross_entropy(model(torch.randn(4, 2, 5, 5)), torch.arange(4) % 3).backward()
    raw = model[0].parametrizations.weight.original  # type: ignore[union-attr, index]
    sums = raw.grad.flatten(1).sum(1)
    assert raw.grad.any() and float(sums.abs().max()) <= 18 * 2**-23 * float(raw.grad.abs().max())


def test_a_standardised_layer_is_one_layer() -> None:
    model = standardise_weights(network())
    assert [type(layer).__name__ for layer in layers(model)] == [
        "ParametrizedConv2d", "GroupNorm", "ParametrizedConv2d", "Linear",
    ]  # fmt: skip
    attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), sampling_rate=0.5, expected_batch_size=5.0,
        mechanism=m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=0), noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    assert frozen == ["0.bias", "0.parametrizations.weight.original"]


def test_the_network_can_be_had_without_parametrizations() -> None:
    model, images = standardise_weights(network()), torch.randn(3, 2, 5, 5)
    before = model(images)
    for place in (0, 3):
        remove_parametrizations(model[place], "weight")  # type: ignore[index]
    torch.testing.assert_close(model(images), before)
    assert set(model.state_dict()) == set(network().state_dict())


def test_only_plain_convolution_layers_are_taken() -> None:
    assert len([layer for layer in layers(standardise_weights(resnet20(0)))]) == 20
    for model in (nn.Sequential(nn.Linear(2, 2)), standardise_weights(network())):
        with pytest.raises(ValueError, match=r"^model must have"):
            standardise_weights(model)


def test_a_run_has_standardised_weights_and_goes_on(tmp_path: Path) -> None:
    config = from_dict({
        "data": "excerpt", "model": "small-cnn", "epochs": 1, "batch_size": 1000, "max_grad_norm": 1.0, "noise_multiplier": 4.0,
        "standardised_weights": True, "average_decay": 0.5,
    })  # fmt: skip
    run = train(config, torch.device("cpu"), tmp_path, resume=False)
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert any("parametrizations.weight.original" in name for name in state["average"]["weights"])
    start = prepare(config, torch.device("cpu")).model.state_dict()
    raw = next(name for name in start if name.endswith("original"))
    assert not torch.equal(run.model.state_dict()[raw], start[raw])
    again = train(config, torch.device("cpu"), tmp_path, resume=True)
    assert torch.equal(again.model.state_dict()[raw], run.model.state_dict()[raw])
    assert "standardised_weights" not in from_dict(config.as_dict() | {"standardised_weights": False}).as_dict()
