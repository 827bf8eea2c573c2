"""The networks have the papers' parameter counts, and Opacus can take them."""

import pytest
import torch
from opacus.validators import ModuleValidator
from torch.nn import functional

from dptheory.training import networks
from dptheory.training.networks import layer_slices, small_tanh_cnn


@pytest.mark.parametrize(
    ("build", "parameters", "shape"),
    [
        (small_tanh_cnn, 26_010, (1, 28, 28)),
        (networks.mlp, 203_530, (1, 28, 28)),
        (networks.dp_cnn, 550_570, (3, 32, 32)),
        (networks.resnet20, 268_346, (3, 32, 32)),
        (networks.wrn_16_4, 2_748_890, (3, 32, 32)),
        (networks.scattering_cnn, 187_210, networks.SCATTERED_SHAPE),
        (networks.scattering_linear, 155_530, networks.SCATTERED_SHAPE),
        (networks.linear_probe, 40_970, (4096,)),
    ],
)
def test_parameters_and_scores(build, parameters: int, shape: tuple[int, ...]) -> None:
    model = build(0)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model(torch.randn(2, *shape)).shape == (2, 10)
    assert ModuleValidator.is_valid(model)
    same, other = build(0), build(1)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), same.parameters(), strict=True))
    assert not torch.equal(next(model.parameters()), next(other.parameters()))


def test_linear_probe_without_bias() -> None:
    assert sum(p.numel() for p in networks.linear_probe(0, bias=False).parameters()) == 40_960


def test_scattering_features() -> None:
    pixels = torch.rand(3, 3, 32, 32)
    found = networks.scattering_features(pixels, chunk=2)
    assert found.shape == (3, *networks.SCATTERED_SHAPE)
    torch.testing.assert_close(found[:1], networks.scattering_features(pixels[:1]))


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
    x = torch.tanh(functional.conv2d(functional.group_norm(x, 27), p[0], p[1], padding=1))
    x = torch.tanh(functional.conv2d(functional.max_pool2d(x, 2, stride=2), p[2], p[3], padding=1))
    return x.flatten(1) @ p[4].T + p[5]


def linear_on_features(p: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    groups = x.reshape(len(x), 27, -1)
    spread = (groups.var(2, unbiased=False, keepdim=True) + 1e-5).sqrt()
    return linear(p, (groups - groups.mean(2, keepdim=True)) / spread)


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
        (networks.scattering_linear, linear_on_features, (243, 8, 8)),
        (networks.linear_probe, linear, (4096,)),
    ],
)
def test_scores_layer_by_layer(build, forward, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    model, images = build(3), torch.randn(2, *shape, generator=torch.Generator().manual_seed(1))
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
