"""Flat gradients against torch's own, one example at a time, and the Hessian against differences of gradients."""

import pytest
import torch

from dptheory.training.networks import loss_hessian, mean_gradient, per_sample_gradients, small_tanh_cnn
from tests.refused import refused

pytestmark = pytest.mark.numerics


def test_gradients_are_those_of_each_example() -> None:
    model = small_tanh_cnn(0)
    pixels, labels = torch.rand(5, 1, 28, 28), torch.tensor([0, 1, 2, 3, 4])
    found = per_sample_gradients(model, pixels, labels, physical_batch_size=2)
    for i in range(5):
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(pixels[i : i + 1]), labels[i : i + 1]).backward()  # type: ignore[no-untyped-call]
        own = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        assert torch.allclose(found[i], own, atol=1e-6)


def test_the_hessian_is_the_slope_of_the_gradient() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)).double()
    pixels, labels = torch.rand(6, 4, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 1, 0])
    vector = torch.randn(23, dtype=torch.float64)
    product = loss_hessian(model, pixels, labels)(vector)

    def gradient(shift: float) -> torch.Tensor:
        start = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        torch.nn.utils.vector_to_parameters(start + shift * vector, model.parameters())
        found = per_sample_gradients(model, pixels, labels).mean(0)
        torch.nn.utils.vector_to_parameters(start, model.parameters())
        return found

    assert torch.allclose(product, (gradient(1e-5) - gradient(-1e-5)) / 2e-5, atol=1e-6)


@pytest.mark.parametrize("function", [per_sample_gradients, mean_gradient, loss_hessian])
def test_as_many_labels_as_pictures(function) -> None:  # type: ignore[no-untyped-def]
    with refused("labels", "2", "1"):
        function(torch.nn.Linear(3, 2), torch.ones(2, 3), torch.zeros(1, dtype=torch.long))
