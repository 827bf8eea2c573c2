"""Models of transformers and peft by their own calls: per-example gradients are those of each example alone."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from dptheory.training.engine import MechanismOptimizer, attach
from dptheory.training.per_example import PerExampleGradients, as_gradients

pytest.importorskip("transformers")
pytest.importorskip("peft")
from tests.training import architectures as a
from tests.training import sgd

pytestmark = [pytest.mark.architectures, pytest.mark.filterwarnings("ignore")]

Gradients = dict[str, torch.Tensor]


def built(case: a.Case, *, frozen: bool = False) -> tuple[nn.Module, a.Batch]:
    """The model in training mode and its batch, in double precision; every second trained parameter frozen if asked."""
    torch.manual_seed(0)
    model = case.build().double().train()
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained[1::2] if frozen else []:
        p.requires_grad_(False)
    return model, {name: v.double() if v.is_floating_point() else v for name, v in case.batch.items()}


def alone(case: a.Case, model: nn.Module, batch: Mapping[str, torch.Tensor]) -> Gradients:
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    found = sgd.alone(model, a.N, lambda place: case.loss(model, {name: v[place] for name, v in batch.items()}).sum())
    return dict(zip(names, found, strict=True))


def in_a_batch(case: a.Case, model: nn.Module, batch: a.Batch, **options: Any) -> tuple[MechanismOptimizer, Gradients]:
    """After a backward pass of a private loop without noise: the optimizer, and the gradients that its step will take."""
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.0), mechanism=m.DpSgd(),
        sampling_rate=0.1, expected_batch_size=a.N, noise_multiplier=0.0, max_grad_norm=1.0, **options,
    )  # fmt: skip
    optimizer.begin_batch(a.N)
    optimizer.zero_grad()
    case.loss(private, batch).mean().backward()
    names = {id(p): name for name, p in model.named_parameters()}
    return optimizer, {names[id(p)]: p.grad_sample for p in optimizer.params}


def tolerance(name: str, wanted: Mapping[str, torch.Tensor]) -> float:
    """Sums of at most 7 * 12 terms through at most 64 operations, and the largest entry."""
    unit = 2.0**-23 if name in a.IN_SINGLE else 2.0**-52
    return 7 * 12 * 64**0.5 * unit * max(float(one.abs().max()) for one in wanted.values())


@pytest.mark.parametrize("name", a.ALL)
def test_dp_sgd_and_masks_have_the_gradients_of_each_example(name: str) -> None:
    case = a.ALL[name]
    model, batch = built(case)
    wanted = alone(case, copy.deepcopy(model), batch)
    optimizer, _ = in_a_batch(case, model, batch)
    samples = optimizer.grad_samples
    reference = as_gradients([wanted[n] for n, p in model.named_parameters() if p.requires_grad])
    norms = reference.square_norms().sqrt()
    clip = float(norms.median())
    for build in (m.DpSgd, lambda: m.RandomSparsification(m.Constant(0.5), 0)):
        found, right = (total(build(), given, clip, optimizer) for given in (samples, reference))
        for one, other in zip(found, right, strict=True):
            # the sum of N clipped gradients
            assert float((one - other).abs().max()) <= a.N * tolerance(name, wanted) * max(
                1.0, clip / float(norms.min())
            )
    optimizer.step()
    assert all(p.grad is not None for p in optimizer.params)


def total(
    mechanism: m.Mechanism, samples: PerExampleGradients, clip: float, optimizer: MechanismOptimizer
) -> list[torch.Tensor]:
    """What a mechanism adds up."""
    with simulation():
        mechanism.begin_step([p.detach() for p in optimizer.params])
        return mechanism.contribute(samples, clip).total


@pytest.mark.parametrize("name", a.ALL)
def test_of_a_model_of_which_half_is_frozen(name: str) -> None:
    case = a.ALL[name]
    model, batch = built(case, frozen=True)
    wanted = alone(case, copy.deepcopy(model), batch)
    _, found = in_a_batch(case, model, batch)
    assert found.keys() == wanted.keys()
    for parameter, one in wanted.items():
        assert float((found[parameter] - one).abs().max()) <= tolerance(name, wanted), parameter


@pytest.mark.parametrize("name", ["BERT", "T5", "Swin", "Mixtral", "DoRA"])
def test_a_pass_for_each_example_of_all_parameters(name: str) -> None:
    case = a.ALL[name]
    model, batch = built(case)
    wanted = alone(case, copy.deepcopy(model), batch)
    _, found = in_a_batch(case, model, batch, grad_sample_mode="whole network")
    for parameter, one in wanted.items():
        assert float((found[parameter] - one).abs().max()) <= tolerance(name, wanted), parameter
