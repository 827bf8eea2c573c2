"""Per-sample gradients do not depend on the order in which images lie in memory."""

import copy

import pytest
import torch
from torch import nn

from dptheory.training.engine import attach
from dptheory.training.mechanisms import DpSgd

pytestmark = pytest.mark.numerics

LAYERS = {
    "1d": (nn.Conv1d(4, 3, 3), (4, 9)),
    "2d": (nn.Conv2d(4, 3, 3), (4, 9, 7)),
    "2d padded": (nn.Conv2d(4, 3, 3, padding=1), (4, 9, 7)),
    "2d same": (nn.Conv2d(4, 3, (3, 2), padding="same", dilation=2), (4, 9, 7)),
    "2d strided": (nn.Conv2d(4, 3, 3, stride=2, padding=(2, 1)), (4, 9, 7)),
    "2d in groups": (nn.Conv2d(4, 6, 3, groups=2), (4, 9, 7)),
    "3d": (nn.Conv3d(4, 3, 2, padding=1), (4, 5, 4, 3)),
}


def laid_down(images: torch.Tensor, order: str) -> torch.Tensor:
    """The same images in another order of memory."""
    if order == "channels last":
        return images.movedim(1, -1).contiguous().movedim(-1, 1)
    if order == "examples innermost":  # a gradient that is read elsewhere in memory then is another example's, too
        return images.movedim(0, -1).contiguous().movedim(-1, 0)
    if order == "transposed":
        return images.transpose(-1, -2).contiguous().transpose(-1, -2)
    spread = torch.empty(*images.shape[:-1], 2 * images.shape[-1])
    spread[..., ::2] = images
    return spread[..., ::2]


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
@pytest.mark.parametrize("order", ["channels last", "examples innermost", "transposed", "every other"])
@pytest.mark.parametrize("name", LAYERS)
def test_of_a_convolution(name: str, order: str, mode: str) -> None:
    """Against the gradients of one example at a time, in the usual order."""
    layer, shape = LAYERS[name]
    model = nn.Sequential(copy.deepcopy(layer))
    images = torch.rand(3, *shape, generator=torch.Generator().manual_seed(1))
    expected = [torch.autograd.grad(layer(image[None]).square().sum(), list(layer.parameters())) for image in images]
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0), mechanism=DpSgd(), sampling_rate=0.5,
        expected_batch_size=3, noise_multiplier=1.0, max_grad_norm=1.0, grad_sample_mode=mode, loss_reduction="sum",
    )  # fmt: skip
    optimizer.begin_batch(3)
    other = laid_down(images, order)
    assert torch.equal(images, other) and not other.is_contiguous()
    private(other).square().sum().backward()
    for found, wanted in zip(optimizer.grad_samples, zip(*expected, strict=True), strict=True):
        assert torch.allclose(found, torch.stack(wanted), rtol=1e-4, atol=1e-5)
