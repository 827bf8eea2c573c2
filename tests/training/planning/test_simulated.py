"""Simulated records have the law of the public ones as far as it was fitted; a pilot on them learns what is true of these."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dptheory.training.planning._judged import accuracy
from dptheory.training.planning._mixtures import Mixtures
from dptheory.training.planning._pilot import Job, Problem, pilot
from dptheory.training.planning._simulated import ASIDE, simulated_records
from tests.training.planning.small import linear, point

_DEVIATIONS = 6.0


def separable(count: int = 300) -> tuple[Tensor, Tensor]:
    features = torch.randn(count, 5, generator=torch.Generator().manual_seed(3))
    return features, (features[:, 0] > 0).long()


def test_mixtures_keep_mean_and_covariances() -> None:
    features = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) @ torch.tensor(
        [[1.0, 2.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.5]]
    )
    count = 40_000
    mixtures = Mixtures(
        records=features, indices=torch.randint(50, (count, 3), generator=torch.Generator().manual_seed(1))
    )
    made = mixtures[:count].double()
    centred = features.double() - features.double().mean(0)
    covariance, scale = centred.T @ centred / 50, centred.square().mean(0).sqrt()
    off = (made - features.double().mean(0)).mean(0) / scale
    assert off.abs().max() < _DEVIATIONS / count**0.5
    found = (made - made.mean(0)).T @ (made - made.mean(0)) / count
    products = (centred[:, :, None] * centred[:, None, :]).std(0)
    assert ((found - covariance).abs() < 3.0 * _DEVIATIONS * products / count**0.5).all(), (
        "products of mixtures have at most some three times the deviation of those of records"
    )
    assert not torch.isin(made[:, 0].float(), features[:, 0]).any(), "they are no records"


def test_whole_numbers_are_not_mixed() -> None:
    features = torch.arange(12).reshape(4, 3)
    mixtures = Mixtures(records=features, indices=torch.tensor([[2, 0, 1], [3, 1, 0]]))
    assert torch.equal(mixtures[torch.tensor([1, 0])], features[[3, 2]]) and len(mixtures) == 2


def test_labels_are_drawn_from_what_was_fitted() -> None:
    """Where the classes are a half-space, four in five labels at least are those of it; the same seed draws the same."""
    features, labels = separable()
    mixtures, drawn = simulated_records(linear(), cross_entropy, features, labels, count=2000, seed=0)
    right = float(((mixtures[:2000][:, 0] > 0).long() == drawn).double().mean())
    assert right > 0.8
    again = simulated_records(linear(), cross_entropy, features, labels, count=2000, seed=0)
    assert torch.equal(again[1], drawn) and torch.equal(again[0].indices, mixtures.indices)
    mixed = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]
    _, random = simulated_records(linear(), cross_entropy, features, mixed, count=2000, seed=0)
    assert float(((mixtures[:2000][:, 0] > 0).long() == random).double().mean()) < 0.65, "nothing there to be fitted"


@pytest.mark.parametrize("simulated", [True, False])
def test_a_pilot_trains_on_simulated_records_and_is_judged_by_others_of_them(simulated: bool) -> None:
    features, labels = separable(90)
    records = simulated_records(linear(), cross_entropy, features, labels, count=ASIDE + 500, seed=0)
    one = Problem(
        model=linear(),
        loss=cross_entropy,
        metric=lambda outputs, _: float(len(outputs)),
        guide=lambda outputs, _: -1.0,
        features=features,
        labels=labels,
        folds=3,
        simulated=records,
    )
    job = Job(point=point(), most_steps=4, batch_size=16, fold=1, seed=0, simulated=simulated)
    score = pilot(one, job).scores[0.0]
    expected = (float(ASIDE), 500.0, float(ASIDE)) if simulated else (30.0, 60.0, -1.0)
    assert dataclasses.astuple(score) == expected


def test_a_pilot_on_simulated_records_learns_what_is_true_of_public_ones() -> None:
    features, labels = separable()
    records = simulated_records(linear(), cross_entropy, features, labels, count=ASIDE + 2000, seed=0)
    one = Problem(
        model=nn.Linear(5, 2),
        loss=cross_entropy,
        metric=accuracy,
        guide=accuracy,
        features=features,
        labels=labels,
        folds=3,
        simulated=records,
    )
    run = point(steps=60, batch_size=100, noise_multiplier=0.1, clip_norm=1.0, learning_rate=0.5)
    found = pilot(one, Job(point=run, most_steps=60, batch_size=100, fold=0, seed=0))
    assert found.scores[0.0].aside > 0.85
