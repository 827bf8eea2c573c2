"""make_private_with_epsilon: noise that a number of passes needs, the budget that holds, and mechanisms without an answer."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory import privacy
from dptheory.training import make_private_with_epsilon
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from dptheory.training.engine import BudgetError
from tests.refused import refused
from tests.training.engine.passes import epoch

DELTA = 1e-5
DATA = TensorDataset(torch.ones(40, 6), torch.arange(40) % 2)


def private(mechanism: m.Mechanism | None = None, **options):
    model = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 2))
    chosen = {"target_epsilon": 2.0, "target_delta": DELTA, "epochs": 2, "max_grad_norm": 1.0} | options
    return make_private_with_epsilon(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(DATA, 10),
        mechanism=mechanism or m.DpSgd(), **chosen,
    )  # fmt: skip


class HalfClip(m.DpSgd):
    """Noise of sigma C on a sum of sensitivity C / 2."""

    def cost(self, noise_multiplier: float) -> m.StepCost:
        return m.StepCost(2 * noise_multiplier)


NEEDED = privacy.least_noise_multiplier(epsilon=2.0, delta=DELTA, sampling_rate=0.25, steps=8)


@pytest.mark.parametrize(
    ("mechanism", "sigma"),
    [
        (m.DpSgd(), NEEDED),
        (m.RandomSparsification(m.Constant(0.5), 0), NEEDED),
        (m.LayerFreezing(m.PosteriorFreeze(m.Constant(0.5), 0), frozen_layers=1, from_step=3), NEEDED),
        (m.NoisyMagnitudeTopK(30.0, m.Constant(0.5), group_size=4), (NEEDED**-2 - 30.0**-2) ** -0.5),
        (HalfClip(), NEEDED / 2),
    ],
    ids=lambda one: getattr(one, "title", None),
)
def test_so_many_passes_spend_the_budget_and_no_step_more(mechanism: m.Mechanism, sigma: float) -> None:
    made = private(mechanism)
    assert made[1].noise_multiplier == pytest.approx(sigma, rel=1e-12)
    for _ in range(2):
        epoch(made)
    assert 1.999 < made[1].epsilon(DELTA) <= 2.0
    with pytest.raises(BudgetError, match="one more step would exceed epsilon = 2 at delta = 1e-05"):
        epoch(made)
    assert made[1].accountant.steps == 8


def test_the_masks_of_the_run_are_not_those_of_the_question() -> None:
    """The first masks of a seeded run are those of the same run by make_private."""
    with simulation():  # where the seed alone makes them
        mechanisms = [m.RandomSparsification(m.Constant(0.5), 0) for _ in range(2)]
    optimizer = private(mechanisms[0])[1]
    for mechanism in mechanisms:
        mechanism.begin_step([p.detach() for p in optimizer.params])
    assert all(torch.equal(a, b) for a, b in zip(mechanisms[0].mask, mechanisms[1].mask, strict=True))


def test_a_secure_mask_that_amplifies_leaves_some_of_the_budget() -> None:
    made = private(m.PosteriorFreeze(m.Constant(0.9), None), secure=True)
    assert made[1].noise_multiplier == NEEDED
    epoch(made)
    assert epoch(made).epsilon(DELTA) < 1.7


def test_a_mechanism_is_free_after_a_call_that_failed() -> None:
    mechanism = m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=3)
    with refused("target_epsilon"):
        private(mechanism, target_epsilon=1e-20, target_delta=1e-30)
    private(mechanism)
    with refused("mechanism"):
        private(mechanism)


def test_rate_and_steps_are_the_callers() -> None:
    optimizer = private(sampling_rate=0.05, expected_batch_size=2.0, epochs=3)[1]
    needed = privacy.least_noise_multiplier(epsilon=2.0, delta=DELTA, sampling_rate=0.05, steps=60)
    assert optimizer.noise_multiplier == needed and optimizer.privacy(DELTA).adjacency == "add-remove"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"target_epsilon": 0.0}, "target_epsilon"),
        ({"target_delta": 1.0}, "target_delta"),
        ({"epochs": 0}, "epochs"),
        (
            {"target_epsilon": 1e-20, "target_delta": 1e-30},
            "target_epsilon 8 1e-20",
        ),
        ({"mechanism": m.ClippedSgd()}, "mechanism"),
        ({"mechanism": m.NoisyMagnitudeTopK(1.0, m.Constant(0.5), group_size=4)}, "mechanism"),
        (
            {"mechanism": m.IndexPruning(0.1, m.Constant(0.5), group_size=4)},
            "mechanism",
        ),
        ({"max_grad_norm": 0.0}, "max_grad_norm"),
    ],
)
def test_what_has_no_answer_is_refused_and_leaves_the_model_as_it_was(options: dict, says: str) -> None:
    model = nn.Linear(6, 2)
    before = (dict(vars(model)), {name: dict(vars(p)) for name, p in model.named_parameters()})
    arguments = {
        "mechanism": m.DpSgd(),
        "target_epsilon": 2.0,
        "target_delta": DELTA,
        "epochs": 2,
        "max_grad_norm": 1.0,
    }
    with refused(*says.split()):
        make_private_with_epsilon(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(DATA, 10),
            **(arguments | options),
        )  # fmt: skip
    assert (dict(vars(model)), {name: dict(vars(p)) for name, p in model.named_parameters()}) == before
    assert not model._forward_hooks


@pytest.mark.parametrize(("epsilon", "delta"), [(0.005, 1e-9), (2000.0, 1e-3), (1e5, 1e-3)])
def test_budgets_beyond_the_noise_of_the_calculator_are_answered(epsilon: float, delta: float) -> None:
    """Of full batches, against the closed form; above an epsilon of 1e4 the noise is that of 1e4."""
    made = private(target_epsilon=epsilon, target_delta=delta, epochs=4, sampling_rate=1.0, expected_batch_size=40.0)
    wanted = 2.0 / privacy.gaussian_mu(min(epsilon, 1e4), delta)
    assert not privacy.NOISE[0] <= wanted <= privacy.NOISE[1]
    assert made[1].noise_multiplier == pytest.approx(
        wanted, rel=2e-6
    )  # twice GAP: of the least one, and of the closed form
    for _ in range(4):
        epoch(made)
    assert 0.9999 * min(epsilon, 1e4) < made[1].epsilon(delta) <= epsilon
    if epsilon <= 1e4:
        with pytest.raises(BudgetError):
            epoch(made)
