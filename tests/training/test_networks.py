"""Networks, flat gradients, weight standardisation."""

import math
from pathlib import Path

import pytest
import torch
from opacus.validators import ModuleValidator
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrize import remove_parametrizations

from dptheory.training import mechanisms as m
from dptheory.training import networks
from dptheory.training.engine import attach
from dptheory.training.mechanisms import layers
from dptheory.training.networks import (
    layer_slices,
    mean_gradient,
    per_sample_gradients,
    resnet20,
    small_tanh_cnn,
    small_tempered_cnn,
    standardise_weights,
)
from dptheory.training.networks._paper_networks import StandardisedWeight
from dptheory.training.runs import from_dict, prepare, train
from tests.refused import refused
from tests.training import sgd

# --- The networks: layer by layer, and Opacus can take them. Their examples say how many parameters they have ---


def test_scattering_features() -> None:
    pixels = torch.rand(3, 3, 32, 32)
    found = networks.scattering_features(pixels, chunk=2)
    assert found.shape == (3, *networks.SCATTERED_SHAPE)
    torch.testing.assert_close(found[:1], networks.scattering_features(pixels[:1]))
    groups = found.reshape(len(found), -1, 9 * 8 * 8)
    spread = (groups.var(2, unbiased=False, keepdim=True) + 1e-5).sqrt()
    normalised = ((groups - groups.mean(2, keepdim=True)) / spread).view(found.shape)
    torch.testing.assert_close(networks.scattering_features(pixels, normalised=True, chunk=2), normalised)


# --- layer by layer -----------------------------------------------------------------------------------------------------
def relu_norm(x: torch.Tensor, *affine: torch.Tensor) -> torch.Tensor:
    return functional.relu(functional.group_norm(x, 16, *affine))


def small_tanh(p: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    x = functional.max_pool2d(torch.tanh(functional.conv2d(x, p[0], p[1], stride=2, padding=2)), 2, stride=1)
    x = functional.max_pool2d(torch.tanh(functional.conv2d(x, p[2], p[3], stride=2)), 2, stride=1)
    return torch.tanh(x.flatten(1) @ p[4].T + p[5]) @ p[6].T + p[7]


def tanh_cnn(p: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    for pair in range(3):
        for conv in (2 * pair, 2 * pair + 1):
            x = torch.tanh(functional.conv2d(x, p[2 * conv], p[2 * conv + 1], padding=1))
        x = functional.max_pool2d(x, 2, stride=2)
    return torch.tanh(x.flatten(1) @ p[12].T + p[13]) @ p[14].T + p[15]


def residual_20(p: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    x = relu_norm(functional.conv2d(x, p[0], padding=1))
    for block in range(9):
        stride = 2 if block in (3, 6) else 1
        first, second = p[1 + 2 * block], p[2 + 2 * block]
        inner = functional.conv2d(relu_norm(functional.conv2d(x, first, stride=stride, padding=1)), second, padding=1)
        if stride == 2:
            zeros = torch.zeros_like(x[:, : x.shape[1] // 2, ::2, ::2])
            x = torch.cat([zeros, x[:, :, ::2, ::2], zeros], dim=1)
        x = functional.relu(functional.group_norm(inner, 16) + x)
    return x.mean((2, 3)) @ p[-2].T + p[-1]


def wide_16(p: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    rest = iter(p)
    x = functional.conv2d(x, next(rest), padding=1)
    for block in range(6):
        stride = 2 if block in (2, 4) else 1
        scale, shift, first = next(rest), next(rest), next(rest)
        active = relu_norm(x, scale, shift)
        inner = functional.conv2d(active, first, stride=stride, padding=1)
        scale, shift, second = next(rest), next(rest), next(rest)
        inner = functional.conv2d(relu_norm(inner, scale, shift), second, padding=1)
        x = inner + (functional.conv2d(active, next(rest), stride=stride) if block % 2 == 0 else x)
    scale, shift, weight, bias = rest
    return relu_norm(x, scale, shift).mean((2, 3)) @ weight.T + bias


def on_features(p: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    x = torch.tanh(functional.conv2d(x, p[0], p[1], padding=1))
    x = torch.tanh(functional.conv2d(functional.max_pool2d(x, 2, stride=2), p[2], p[3], padding=1))
    return x.flatten(1) @ p[4].T + p[5]


def on_small_features(p: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    x = torch.tanh(functional.conv2d(x, p[0], p[1], stride=2, padding=1))
    x = torch.tanh(functional.conv2d(x, p[2], p[3], padding=1))
    return linear(p[6:], torch.tanh(linear(p[4:6], x)))


def perceptron(p: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return linear(p[2:], linear(p[:2], x).clamp_min(0))


def linear(p: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1) @ p[0].T + p[1]


@pytest.mark.parametrize(
    ("build", "forward", "shape"),
    [
        (small_tanh_cnn, small_tanh, (1, 28, 28)),
        (networks.mlp, perceptron, (1, 28, 28)),
        (networks.dp_cnn, tanh_cnn, (3, 32, 32)),
        (networks.resnet20, residual_20, (3, 32, 32)),
        (networks.wrn_16_4, wide_16, (3, 32, 32)),
        (networks.scattering_cnn, on_features, (243, 8, 8)),
        (networks.scattering_linear, linear, (243, 8, 8)),
        (networks.scattering_small_cnn, on_small_features, (81, 8, 8)),
        (networks.linear_probe, linear, (4096,)),
    ],
)
def test_scores_layer_by_layer(build, forward, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    model, same, other = build(3), build(3), build(4)
    assert ModuleValidator.is_valid(model)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), same.parameters(), strict=True))
    assert not torch.equal(next(model.parameters()), next(other.parameters()))
    images = torch.randn(2, *shape, generator=torch.Generator().manual_seed(1))
    assert torch.equal(torch.random.get_rng_state(), state)  # torch's global random numbers are left as they were
    with torch.no_grad():
        for number, p in enumerate(model.parameters()):
            p += 0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(number))  # norms are not 1 and 0
        torch.testing.assert_close(model(images), forward([p.detach() for p in model.parameters()], images))


def test_starting_weights_are_torchs_under_the_seed() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        wanted = torch.nn.Linear(5, 10)
    probe = networks.linear_probe(7, features=5)
    assert torch.equal(probe[1].weight, wanted.weight) and torch.equal(probe[1].bias, wanted.bias)


def test_layers_lie_one_after_the_other() -> None:
    found = layer_slices(small_tanh_cnn(0))
    sizes = [16 * 64, 16, 32 * 16 * 16, 32, 512 * 32, 32, 320, 10]
    names = [f"{layer}.{part}" for layer in ("conv1", "conv2", "fc1", "fc2") for part in ("weight", "bias")]
    start, wanted = 0, {}
    for name, size in zip(names, sizes, strict=True):
        wanted[name] = slice(start, start + size)
        start += size
    assert found == wanted and list(found) == names


# --- Flat gradients against torch's own, one example at a time ---


@pytest.mark.numerics
def test_gradients_are_those_of_each_example() -> None:
    model = small_tanh_cnn(0)
    pixels, labels = torch.rand(5, 1, 28, 28), torch.tensor([0, 1, 2, 3, 4])
    found = per_sample_gradients(model, pixels, labels, physical_batch_size=2)
    for i in range(5):
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(pixels[i : i + 1]), labels[i : i + 1]).backward()  # type: ignore[no-untyped-call]
        own = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        assert torch.allclose(found[i], own, atol=1e-6)


@pytest.mark.numerics
@pytest.mark.parametrize("function", [per_sample_gradients, mean_gradient])
def test_as_many_labels_as_pictures(function) -> None:  # type: ignore[no-untyped-def]
    with refused("labels", "2", "1"):
        function(torch.nn.Linear(3, 2), torch.ones(2, 3), torch.zeros(1, dtype=torch.long))


# --- Weight standardisation: the formula, gradients of single examples through it, freezing, and runs that have it
# ---


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
    private, optimizer = sgd.attach(
        model, sampling_rate=0.5, expected_batch_size=5.0, noise_multiplier=0.0, grad_sample_mode=mode
    )
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


def test_tempered_sigmoids_stand_where_tanh_does() -> None:
    """At the same starting weights; of 0.5 they give 1.58 / (1 + exp(-1.5)) - 0.71, to rounding."""
    plain, tempered = small_tanh_cnn(0), small_tempered_cnn(0)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), tempered.parameters(), strict=True))
    changed = [i for i, (a, b) in enumerate(zip(plain, tempered, strict=True)) if type(a) is not type(b)]
    assert [type(plain[i]) for i in changed] == [torch.nn.Tanh] * 3
    wanted = torch.tensor(1.58 / (1 + math.exp(-1.5)) - 0.71)
    found = tempered[changed[0]](torch.tensor(0.5))
    assert abs(found - wanted) <= 4 * torch.finfo(torch.float32).eps  # four operations on numbers below 2
