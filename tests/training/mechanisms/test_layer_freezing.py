"""Layer freezing: which parameters are the first, from which step on, and after a resume."""

import pytest
import torch
from opacus import GradSampleModule
from torch import nn

from dptheory.training import mechanisms as m
from dptheory.training.mechanisms._layer_freezing import first_parameters, layers
from tests.refused import refused


class Scaled(nn.Module):
    """Holds a parameter of its own beside a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * self.layer(x)


def test_a_layer_is_what_holds_parameters_of_its_own() -> None:
    model = Scaled()
    assert layers(model) == [model, model.layer]
    (own,) = first_parameters(model, 1)
    assert own is model.scale  # and not those of the layers within
    plain = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    assert layers(plain) == [plain[0], plain[2]]
    for count in (0, 2):
        with refused("count", "1..1"):
            first_parameters(plain, count)


def attached(from_step: int, inner: m.Mechanism | None = None) -> tuple[m.LayerFreezing, nn.Sequential]:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    mechanism = m.LayerFreezing(inner or m.DpSgd(), frozen_layers=1, from_step=from_step)
    mechanism.attach(GradSampleModule(model))
    return mechanism, model


def trained(model: nn.Sequential) -> list[bool]:
    return [p.requires_grad for p in model.parameters()]


@pytest.mark.parametrize("from_step", [0, 1, 2])
def test_layers_are_frozen_from_the_stated_step_on(from_step: int) -> None:
    mechanism, model = attached(from_step)
    for step in range(4):
        frozen = step >= from_step
        assert trained(model) == [not frozen] * 2 + [True] * 2
        mechanism.end_step([], 0.0)
    assert mechanism.state_dict() == {"step": 4, "inner": {}}


@pytest.mark.parametrize(("step", "frozen"), [(1, False), (2, True), (3, True)])
def test_a_resumed_run_has_its_layers_frozen(step: int, frozen: bool) -> None:
    mechanism, model = attached(2)
    mechanism.load_state_dict({"step": step, "inner": {}})
    assert trained(model) == [not frozen] * 2 + [True] * 2
    alone = m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=2)  # a state may come before the model does
    alone.load_state_dict({"step": step, "inner": {}})
    assert alone.state_dict()["step"] == step


def test_a_run_that_goes_back_trains_its_layers_again() -> None:
    """Before the step from which they are frozen; what was frozen by hand before the run stays so."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model[0].bias.requires_grad_(False)
    mechanism = m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=2)
    mechanism.attach(GradSampleModule(model))
    start = mechanism.state_dict()
    for _ in range(2):
        for _ in range(3):
            mechanism.end_step([], 0.0)
        assert trained(model) == [False, False, True, True]
        mechanism.load_state_dict(start)
        assert trained(model) == [True, False, True, True]


def test_a_state_that_comes_before_the_model_freezes_its_layers() -> None:
    mechanism, model = m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=2), nn.Sequential(*attached(9)[1])
    mechanism.load_state_dict({"step": 5, "inner": {}})
    mechanism.attach(GradSampleModule(model))
    assert trained(model) == [False, False, True, True]


def test_layers_by_their_numbers() -> None:
    """Of three layers the first and the last, at once and when resumed; and what is none of a model's choices."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    mechanism = m.LayerFreezing(m.DpSgd(), frozen_layers=[3, 1], from_step=1)
    mechanism.attach(GradSampleModule(model))
    assert trained(model) == [True] * 6
    mechanism.end_step([], 0.0)
    assert trained(model) == [False] * 2 + [True] * 2 + [False] * 2
    again = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    resumed = m.LayerFreezing(m.DpSgd(), frozen_layers=(3, 1), from_step=1)
    resumed.attach(GradSampleModule(again))
    resumed.load_state_dict(mechanism.state_dict())
    assert trained(again) == trained(model)
    for wrong in ([], [1, 1], [0], [1.5], "12", ["1"]):
        with refused("frozen_layers"):
            m.LayerFreezing(m.DpSgd(), frozen_layers=wrong, from_step=1)
    for wrong in ([4], [1, 2, 3], 3):
        with refused("frozen_layers"):
            m.LayerFreezing(m.DpSgd(), frozen_layers=wrong, from_step=1).attach(GradSampleModule(nn.Sequential(*model)))


def test_all_else_is_the_inner_mechanisms() -> None:
    inner = m.PosteriorFreeze(m.Constant(0.5), None)
    mechanism, _ = attached(5, inner)
    params = [torch.zeros(4)]
    mechanism.begin_step(params)
    assert mechanism.shared() is inner.mask and mechanism.cost(2.0) == inner.cost(2.0)
    found = mechanism.contribute([torch.ones(3, 4)], 1.0)
    assert float(found.total[0].max()) == pytest.approx(1.5)  # three times 1/2
    released = mechanism.release(
        found.total, noise_multiplier=2.0, clip_norm=0.5, noise=lambda like, std: torch.full_like(like, std)
    )
    torch.testing.assert_close(released[0], (found.total[0] + 1.0) * inner.mask[0])
    assert not mechanism.seeded and mechanism.public == (*inner.public, "which layers are frozen, and when")
    mechanism.end_step(released, 1.0)
    assert mechanism.state_dict() == {"step": 1, "inner": {"step": 1}}
    frozen = m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=0)
    frozen.end_step([], 0.0)  # without a model there is nothing to freeze
    assert frozen.state_dict()["step"] == 1
