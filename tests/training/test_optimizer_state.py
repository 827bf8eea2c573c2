"""States of an optimizer: those of a run that rests on something else are refused."""

import copy
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import PrivacyEngine, make_private
from dptheory.training import mechanisms as m
from dptheory.training.engine import MechanismOptimizer, attach
from tests.refused import refused
from tests.training.engine.passes import epoch

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")
DATA = TensorDataset(torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)
CALLERS = {"sampling_rate": 0.25, "expected_batch_size": 10.0}


def run(secure: bool = False, **options):
    engine, model = PrivacyEngine(m.DpSgd(), secure_mode=secure), nn.Linear(6, 2)
    return engine, engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(DATA, 10),
        noise_multiplier=1.0, max_grad_norm=1.0, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        ({}, {"secure": True}, (True, False)),
        ({"secure": True}, {}, (False, True)),
        ({}, CALLERS, ("'add-remove'", "'zero-out'")),
        (CALLERS, {}, ("'zero-out'", "'add-remove'")),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_steps_that_rest_on_something_else_are_refused(
    tmp_path: Path, before: dict, now: dict, shown: tuple, whole: bool
) -> None:
    """The report would say of seeded steps that they are secure, and of one adjacency that it is the other."""
    engine, made = run(**before)
    epoch(made)
    engine.save_checkpoint(path=tmp_path / "one.pt", module=made[0], optimizer=made[1])
    other, again = run(**now)
    with refused("state", *shown):
        other.load_checkpoint(path=tmp_path / "one.pt", module=again[0], optimizer=again[1] if whole else None)
    assert other.accountant.steps == 0
    same, third = run(**before)
    same.load_checkpoint(path=tmp_path / "one.pt", module=third[0], optimizer=third[1])
    assert same.accountant.steps == 4


def test_steps_of_another_sampler_are_refused() -> None:
    """A partition is counted like Poisson batches that hold every example, but is none."""

    def attached(**options) -> MechanismOptimizer:
        model = nn.Linear(6, 2)
        return attach(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=m.DpSgd(), sampling_rate=1.0,
            expected_batch_size=40, noise_multiplier=1.0, max_grad_norm=1.0, **options,
        )[1]  # fmt: skip

    parted, poisson = attached(partition=True), attached()
    parted.accountant.record(m.StepCost(1.0))
    with refused("state"):
        poisson.load_state_dict(parted.state_dict())


def test_a_run_with_layer_freezing_goes_back_and_trains_all_layers_again() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 2))
    made = make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(DATA, 10),
        mechanism=m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=2), noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    start = made[1].state_dict()
    epoch(made)
    before = model[0].weight.detach().clone()
    assert not model[0].weight.requires_grad
    made[1].load_state_dict(start)
    epoch(made)
    assert not torch.equal(model[0].weight, before) and not model[0].weight.requires_grad


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_optimizer_is_not_copied(copied) -> None:
    """A copy that torch made had its hooks in the class: no private optimizer of the process made a step any more."""
    made = run()[1]
    with pytest.raises(TypeError, match=r"^MechanismOptimizer cannot be copied or pickled: take state_dict\(\)$"):
        copied(made[1])
    epoch(made)
    assert made[1].accountant.steps == 4
    copy.deepcopy(made[1].state_dict())
