"""The papers' methods as pilots: each makes steps at the noise of DP-SGD, and serves the networks that it says it serves."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dptheory import claims
from dptheory.training.planning._judged import accuracy
from dptheory.training.planning._methods import DP_SGD, METHODS
from dptheory.training.planning._pilot import Job, Problem, pilot
from tests.training.planning.small import labelled, linear, planned, point


@pytest.mark.parametrize("name", METHODS)
def test_every_method_makes_a_pilot(name: str) -> None:
    features, labels = labelled()
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    problem = Problem(
        model=model, loss=cross_entropy, metric=accuracy, guide=accuracy, features=features, labels=labels, folds=3
    )
    assert METHODS[name].serves(model, labels)
    found = pilot(problem, Job(point=point(), most_steps=4, batch_size=16, fold=0, seed=0, method=name))
    assert all(0.0 <= score.aside <= 1.0 for score in found.scores.values())


def test_what_a_method_says_is_a_claim() -> None:
    known = {claim.id for claim in claims.all_claims()}
    assert {method.claim for name, method in METHODS.items() if name != DP_SGD} <= known


def test_whom_they_serve() -> None:
    numbers = torch.zeros(3, 1)
    assert not METHODS["layer freezing"].serves(linear(), torch.zeros(3, dtype=torch.long))
    assert not METHODS["gradient embedding perturbation"].serves(linear(), numbers)


def test_the_gains_of_a_plan_are_paired_with_dp_sgd() -> None:
    """A metric that does not change gives every method a gain of nothing, exactly."""
    found = planned(metric=lambda outputs, labels: 0.5)
    assert {one.method for one in found.methods} == set(METHODS) - {DP_SGD, "layer freezing"}
    assert all((one.gain.low, one.gain.high) == (0.0, 0.0) for one in found.methods)
    assert all(one.verdict == "not worth its cost" for one in found.methods)
