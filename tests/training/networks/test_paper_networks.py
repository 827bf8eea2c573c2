"""The networks have the papers' parameter counts, and Opacus can take them."""

import pytest
import torch
from opacus.validators import ModuleValidator

from training import networks
from training.networks import small_tanh_cnn


@pytest.mark.parametrize(
    ("build", "parameters", "shape"),
    [
        (small_tanh_cnn, 26_010, (1, 28, 28)),
        (networks.dp_cnn, 550_570, (3, 32, 32)),
        (networks.resnet20, 268_346, (3, 32, 32)),
        (networks.wrn_16_4, 2_748_890, (3, 32, 32)),
        (networks.scattering_cnn, 187_210, networks.SCATTERED_SHAPE),
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
