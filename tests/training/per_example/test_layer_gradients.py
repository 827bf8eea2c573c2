"""Per-example gradients of one call of a layer; whole loops are in ``tests/training/test_errors_with_cause.py``."""

import copy

import pytest
import torch
from torch import nn

from dptheory.training.engine import attach
from dptheory.training.mechanisms import DpSgd
from dptheory.training.per_example._layer_gradients import call_of, of_a_call, trained
from tests.refused import refused
from tests.training.engine.test_gradient_sums import N, attached, step

pytestmark = [pytest.mark.numerics, pytest.mark.filterwarnings("ignore:Full backward hook")]


class Masked(nn.Module):
    """A tensor of the batch, a mask that is none, a number; one that looks at values, which vmap cannot."""

    def __init__(self, looks: bool = False) -> None:
        super().__init__()
        self.weight, self.looks = nn.Parameter(torch.arange(1.0, 5.0)), looks

    def forward(self, x: torch.Tensor, mask: torch.Tensor, power: int = 1) -> torch.Tensor:
        assert x.dim() == 2
        if self.looks:
            assert float(x.sum()) < 100.0
        return (x * self.weight) ** power @ mask


def samples(layer: nn.Module, *args, by_forward: bool = False, **kwargs) -> dict[nn.Parameter, torch.Tensor]:
    """Of the sum of squares of the output's rows."""
    output = layer(*args, **kwargs)
    call = call_of(layer, args, kwargs, output)
    return of_a_call(layer, call, 0, 2.0 * output.detach(), by_forward=by_forward)


@pytest.mark.parametrize("looks", [False, True])
def test_a_mask_without_examples_is_as_it_was(looks: bool) -> None:
    """Of another size than the batch; by vmap, and one at a time where the layer looks at values."""
    layer, mask = Masked(looks), torch.eye(4).roll(1, 0)
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, -3.0, -4.0], [0.5, 0.0, 0.0, -1.0]])
    (found,) = samples(layer, x, mask=mask, power=2).values()
    wanted = [torch.autograd.grad(layer(row[None], mask, 2).square().sum(), layer.weight)[0] for row in x]
    assert torch.equal(found, torch.stack(wanted))


def test_formula_and_forward_agree() -> None:
    torch.manual_seed(0)
    layer, x = nn.Conv2d(2, 3, 2).double(), torch.randn(4, 2, 5, 5, dtype=torch.float64)
    formula, forward = samples(layer, x), samples(layer, x, by_forward=True)
    for p in layer.parameters():
        torch.testing.assert_close(formula[p], forward[p])


def test_no_rows_are_no_rows() -> None:
    for layer, x in ((nn.Conv1d(2, 3, 1), torch.zeros(0, 2, 4)), (nn.PReLU(), torch.zeros(0, 3))):
        assert all(len(rows) == 0 for rows in samples(layer, x, by_forward=True).values())
    assert samples(nn.EmbeddingBag(5, 2), torch.zeros(0, 3, dtype=torch.long)).popitem()[1].shape == (0, 5, 2)


def test_a_token_that_is_twice_in_a_bag_counts_twice() -> None:
    layer = nn.EmbeddingBag(3, 1, mode="sum")
    nn.init.ones_(layer.weight)
    (found,) = samples(layer, torch.tensor([[0, 0], [1, 2]])).values()
    assert found.squeeze(2).tolist() == [[8.0, 0.0, 0.0], [0.0, 4.0, 4.0]]  # 2 * 2 for each time


def test_what_is_trained_of_a_layer() -> None:
    """Of one that Opacus does not know also what is inside."""
    cell, linear = nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2)
    linear.bias.requires_grad_(False)
    assert trained(linear) == [linear.weight] and len(trained(cell)) == 2


def test_no_argument_with_examples() -> None:
    layer = Masked()
    output = torch.zeros(3, 4)
    with pytest.raises(ValueError, match="row for each of the 3 rows"):
        of_a_call(layer, call_of(layer, (torch.zeros(1, 4), torch.eye(4)), {}, output), 0, output, by_forward=False)


# --- Per-sample gradients do not depend on the order in which images lie in memory


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


# --- Layers that Opacus misreads are read by functorch, and those whose gradients count the batch are refused


def convolution(dim: int, mode: str, **options) -> nn.Module:
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dim - 1]
    return nn.Sequential(kind(2, 3, 3, padding=1, padding_mode=mode, **options), nn.Flatten(), nn.Linear(3 * 4**dim, 3))


def embedding(**options) -> nn.Module:
    return nn.Sequential(nn.Embedding(7, 4, **options), nn.Flatten(), nn.Linear(20, 3))


LAYERS_MISREAD_LAYERS = [
    (lambda mode=mode, dim=dim: convolution(dim, mode), torch.randn(N, 2, *[4] * dim))
    for mode in ("circular", "reflect", "replicate")
    for dim in (1, 2, 3)
] + [
    (lambda: convolution(2, "circular", bias=False), torch.randn(N, 2, 4, 4)),
    (lambda: embedding(padding_idx=0), torch.randint(2, (N, 5))),
]  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("build", "features"), LAYERS_MISREAD_LAYERS)
def test_layers_that_opacus_misreads(build, features, reduction: str) -> None:
    model = build()
    alone = copy.deepcopy(model)
    wanted = [
        torch.autograd.grad(nn.functional.cross_entropy(alone(features[i : i + 1]), torch.tensor([i % 3])), alone.parameters())
        for i in range(N)
    ]  # fmt: skip
    private, optimizer = attached(model, reduction=reduction)
    samples = step(private, optimizer, features, reduction)
    for found, *examples in zip(samples, *wanted, strict=True):
        torch.testing.assert_close(found.detach(), torch.stack(examples))
    step(private, optimizer, features[:0], reduction)
    assert not any(total.any() for total in optimizer.clipped_total)
    model[0].requires_grad_(False)
    step(private, optimizer, features, reduction)
    model[0].requires_grad_(True)
    step(private, optimizer, features, reduction)
    assert optimizer.accountant.steps == 4


def test_counts_over_the_batch_are_refused() -> None:
    with refused("module", "0"):
        attached(embedding(scale_grad_by_freq=True))
