"""Per-sample gradients by a backward pass that ends at the outputs of the layers, against those of one example at a time."""

import pytest
import torch
from opacus.grad_sample import GradSampleModule
from torch import nn

from dptheory.training.data import Images
from dptheory.training.runs import _prepare, _train, build_model
from dptheory.training.runs._trained_outputs import trained_outputs
from tests.rounding import rounding
from tests.training.tiny import tiny_config, tiny_load

GREY, COLOUR, FEATURES = (1, 28, 28), (3, 32, 32), (243, 8, 8)
INPUTS = {
    "small-cnn": GREY, "linear-probe": GREY, "dp-cnn": COLOUR, "resnet20": COLOUR, "wrn-16-4": COLOUR,
    "scattering-cnn": FEATURES, "scattering-linear": FEATURES,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize(
    ("name", "mode", "frozen"),
    [
        *((name, "hooks", 0) for name in INPUTS),
        *((name, "hooks", 2) for name in INPUTS if name not in ("linear-probe", "scattering-linear")),
        ("small-cnn", "functorch", 0),
        ("small-cnn", "functorch", 2),
    ],
)
def test_gradients_are_those_of_a_whole_pass(name: str, mode: str, frozen: int) -> None:
    """Bit by bit, with all layers trained and with the first ones frozen; no gradient of the batch is formed."""
    shape = INPUTS[name]
    generator = torch.Generator().manual_seed(3)
    pixels, labels = torch.rand(3, *shape, generator=generator), torch.tensor([4, 0, 9])
    found = []
    for whole in (True, False):
        model = build_model(name, features=pixels[0].numel(), seed=0)
        for p in list(model.parameters())[:frozen]:
            p.requires_grad = False
        private = GradSampleModule(model, force_functorch=mode == "functorch")
        with trained_outputs(model) as outputs:
            loss = nn.functional.cross_entropy(private(pixels), labels)
        if whole:
            loss.backward()
        else:
            torch.autograd.grad(loss, outputs)
            assert all(p.grad is None for p in model.parameters())
        found.append([p.grad_sample for p in model.parameters() if p.requires_grad])
    assert len(found[0]) > 1
    assert all(torch.equal(one, other) and one.shape[0] == 3 for one, other in zip(*found, strict=True))


@pytest.mark.numerics
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, mode) for name in INPUTS for mode in ("factors", "hooks")),
        ("small-cnn", "functorch"),
        ("dp-cnn", "functorch"),
    ],
)
def test_gradients_are_those_of_one_example_at_a_time(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each parameter's, against a backward pass of one example at a time without Opacus.

    In float64: a deep network in float32 has few digits left, and each processor others. A gradient has fewer than 10^7
    operations behind it, and sizes along the way that are at most 1,000 times its norm.
    """
    monkeypatch.setattr(_prepare, "load", tiny_load)
    data = "excerpt" if INPUTS[name] == GREY else "cifar-10"
    run = _prepare.prepare(tiny_config(model=name, data=data, grad_sample_mode=mode), torch.device("cpu"))
    run.model.double()
    run.train = Images(data, run.train.pixels.double(), run.train.labels)
    part = torch.tensor([5, 0, 3])
    run.optimizer.begin_batch(3)
    _train._backward(run, part, torch.zeros(len(part), 1, 3, dtype=torch.long))

    bare = build_model(name, features=run.train.pixels[0].numel(), seed=1).double()
    bare.load_state_dict(run.model.state_dict())
    parameters = dict(bare.named_parameters())
    losses = [nn.functional.cross_entropy(bare(run.train.pixels[i, None]), run.train.labels[i, None]) for i in part]
    expected = [torch.autograd.grad(loss, list(parameters.values())) for loss in losses]
    found = run.optimizer.grad_samples
    assert len(found) == len(parameters)
    for parameter, one, wanted in zip(parameters, found, zip(*expected, strict=True), strict=True):
        whole = torch.stack(wanted)
        assert whole.norm() > 1e-4, parameter
        assert one.dtype == torch.float64
        assert (one - whole).norm() < rounding(1e7, 1e3 * float(whole.norm()), torch.float64), parameter


def test_hooks_are_gone_after_the_context() -> None:
    model = build_model("small-cnn", features=784, seed=0)
    with pytest.raises(KeyError), trained_outputs(model) as outputs:
        model(torch.zeros(1, *GREY))
        raise KeyError
    assert len(outputs) == 4 and not any(module._forward_hooks for module in model.modules())
