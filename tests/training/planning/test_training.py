"""The simulated training: on a quadratic it is the noisy quadratic model's, step for step, without noise and with it."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from dptheory.convergence import noisy_quadratic_loss
from dptheory.training.mechanisms import Contribution, DpSgd
from dptheory.training.planning._point import Schedule
from dptheory.training.planning._training import Steps, trained
from tests.training.planning.small import SCHEDULES_AND_AVERAGES, labelled, linear

_T = 13


def steps(**more: object) -> Steps:
    plain = {
        "count": _T,
        "batch_size": 4,
        "noise_multiplier": 0.0,
        "clip_norm": 1e6,
        "learning_rate": 0.3,
        "momentum": 0.0,
    }
    return Steps(**{**plain, "schedule": "constant", **more})  # type: ignore[arg-type]


def half_square(outputs: Tensor, labels: Tensor) -> Tensor:
    return outputs.square().mean() / 2


@pytest.mark.parametrize(("schedule", "average"), SCHEDULES_AND_AVERAGES)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_without_noise_it_is_the_quadratic_models_run(schedule: Schedule, average: float, momentum: float) -> None:
    model = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.ones_(model.weight)
    records = torch.ones(4, 1, dtype=torch.float64), torch.zeros(4)
    run = steps(momentum=momentum, schedule=schedule)
    found = trained(model, half_square, records, steps=run, seed=0, mechanism=lambda _: DpSgd(), averages=(average,))
    left = float(found[average].weight.detach()) ** 2 / 2  # type: ignore[operator]
    (wanted,) = noisy_quadratic_loss(
        [1.0],
        gradient_energy=[1.0],
        learning_rate=[0.3],
        steps=_T,
        momentum=momentum,
        schedule=schedule,
        average=average,
    )
    # weights of at most 1, a few roundings a step, each growing by at most 1 + momentum a step: far below 1e-9
    assert left == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    assert float(model.weight.detach()) == 1.0, "the model stays"


class Recording(DpSgd):
    """Notes the weights before every step."""

    def __init__(self, network: nn.Module, seen: list[Tensor]) -> None:
        super().__init__()
        self._network, self._seen = network, seen

    def contribute(self, samples: Sequence[Tensor], clip_norm: float) -> Contribution:
        self._seen.append(_flat(self._network))
        return super().contribute(samples, clip_norm)


def _flat(network: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


@pytest.mark.parametrize(("average", "last"), [(0.2, 3), (0.5, 6), (0.01, 1)])
def test_the_average_is_the_mean_of_the_last_weights(average: float, last: int) -> None:
    seen: list[Tensor] = []
    run = steps(noise_multiplier=1.0, clip_norm=1.0, batch_size=20)
    found = trained(
        linear(), nn.functional.cross_entropy, labelled(), steps=run, seed=3,
        mechanism=lambda network: Recording(network, seen), averages=(average,),
    )  # fmt: skip
    after = torch.stack([*seen[1:], _flat(found[0.0])])
    assert len(after) == _T
    mean = after[-last:].double().mean(0)
    rounding = 4 * last * torch.finfo(torch.float32).eps * float(after.abs().max())
    torch.testing.assert_close(_flat(found[average]).double(), mean, rtol=0, atol=rounding)


def test_frozen_parameters_stay_bit_for_bit() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    before = [p.clone() for p in model[0].parameters()]
    run = steps(noise_multiplier=1.0, clip_norm=1.0, batch_size=20)
    found = trained(
        model, nn.functional.cross_entropy, labelled(), steps=run, seed=0, mechanism=lambda _: DpSgd(), averages=(0.5,)
    )
    for network in found.values():
        own = list(network.parameters())
        assert all(torch.equal(a, b) for a, b in zip(own[:2], before, strict=True))
        assert not torch.equal(own[2], model[1].weight)  # type: ignore[arg-type]
