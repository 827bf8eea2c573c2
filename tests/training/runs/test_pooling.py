"""Another order of memory inside a pooling changes neither its numbers nor how its output lies."""

import pytest
import torch
from opacus.grad_sample import GradSampleModule
from torch import nn

from dptheory.training.runs import build_model
from dptheory.training.runs._pooling import pooled_channels_last

SHAPES = {"small-cnn": (1, 28, 28), "dp-cnn": (3, 32, 32), "scattering-cnn": (243, 8, 8)}


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("name", SHAPES)
def test_the_same_scores_and_per_sample_gradients(name: str) -> None:
    """Also where ties decide whose gradient counts: half of the images are black."""
    pixels = torch.rand(6, *SHAPES[name], generator=torch.Generator().manual_seed(0))
    pixels[3:] = 0.0
    model = build_model(name, features=pixels[0].numel(), seed=0)
    private = GradSampleModule(model)
    lies: list[tuple[bool, bool]] = []
    pools = [module for module in model.modules() if isinstance(module, nn.MaxPool2d)]
    found = []
    for last in (False, True):
        private.zero_grad()
        if last:
            with pooled_channels_last(model):
                for pool in pools:
                    pool.register_forward_hook(
                        lambda _, inputs, output: lies.append((inputs[0].is_contiguous(), output.is_contiguous()))
                    )
                scores = private(pixels)
        else:
            scores = private(pixels)
        nn.functional.cross_entropy(scores, torch.arange(6), reduction="sum").backward()  # type: ignore[no-untyped-call]
        found.append((scores.detach(), [p.grad_sample for p in private.parameters()]))
    assert pools and lies == [(False, True)] * len(pools)
    assert torch.equal(found[0][0], found[1][0])
    for one, other in zip(found[0][1], found[1][1], strict=True):
        assert one.norm() > 1e-4 and (one - other).norm() <= 1e-6 * one.norm()


def test_hooks_are_gone_after_the_context() -> None:
    model = build_model("small-cnn", features=784, seed=0)
    pools = [module for module in model.modules() if isinstance(module, nn.MaxPool2d)]
    with pytest.raises(KeyError), pooled_channels_last(model):
        assert [bool(module._forward_pre_hooks) for module in pools] == [True, True]
        raise KeyError
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
