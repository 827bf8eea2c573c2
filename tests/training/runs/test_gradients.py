"""The gradients that a run trains with are those of its examples."""

import pytest
import torch
from torch import nn

from training.data import Images
from training.runs import _prepare as prepare_of
from training.runs import _train as train_of
from training.runs import build_model, from_dict
from training.runs._config import MODELS

GREY = ("small-cnn", "linear-probe")


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "hooks") for name in MODELS), ("small-cnn", "functorch"), ("dp-cnn", "functorch")]
)
def test_of_every_model(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each parameter's, against a backward pass of one example at a time without Opacus."""
    data, shape = ("fashion-mnist", (1, 28, 28)) if name in GREY else ("cifar-10", (3, 32, 32))
    generator = torch.Generator().manual_seed(3)
    images = Images(data, torch.rand(6, *shape, generator=generator), torch.tensor([4, 0, 9, 9, 1, 7]))
    monkeypatch.setattr(prepare_of, "load", lambda name, train: images)
    config = from_dict({
        "data": data, "model": name, "epochs": 1, "batch_size": 3,
        "max_grad_norm": 1.0, "noise_multiplier": 1.0, "grad_sample_mode": mode,
    })  # fmt: skip
    run = prepare_of.prepare(config, torch.device("cpu"))
    part = torch.tensor([5, 0, 3])
    run.optimizer.begin_batch(3)
    train_of._backward(run, part)

    bare = build_model(name, features=run.train.pixels[0].numel(), seed=1)
    bare.load_state_dict(run.model.state_dict())
    parameters = dict(bare.named_parameters())
    losses = [nn.functional.cross_entropy(bare(run.train.pixels[i, None]), run.train.labels[i, None]) for i in part]
    expected = [torch.autograd.grad(loss, list(parameters.values())) for loss in losses]
    found = run.optimizer.grad_samples
    assert len(found) == len(parameters)
    for parameter, one, wanted in zip(parameters, found, zip(*expected, strict=True), strict=True):
        whole = torch.stack(wanted)
        assert whole.norm() > 1e-4, parameter
        assert (one - whole).norm() < 1e-3 * whole.norm(), parameter
