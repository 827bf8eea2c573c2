"""A pilot has the noise per step of the private run that it stands for, also where a step stands for several."""

import math

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor, nn

from dptheory.training.mechanisms import DpSgd
from dptheory.training.planning._judged import accuracy, accuracy_and_loss, judged
from dptheory.training.planning._norms import median_norm
from dptheory.training.planning._pilot import Job, Problem, pilot, pilot_steps
from dptheory.training.planning._training import trained
from tests.training.planning.small import labelled, linear, point

_TINY = 1e-6
"""How likely a test refuses what is right."""


def zero(outputs: Tensor, labels: Tensor) -> Tensor:
    """A loss without gradient: only noise moves the weights."""
    return 0.0 * outputs.mean()


def problem(model: nn.Module, folds: int = 3) -> Problem:
    features, labels = labelled(dim=50)
    return Problem(
        model=model, loss=zero, metric=accuracy, guide=accuracy, features=features, labels=labels, folds=folds
    )


@pytest.mark.parametrize("most_steps", [1000, 5], ids=["every step", "one step for eight"])
def test_the_variance_of_the_noise_is_that_of_the_private_run(most_steps: int) -> None:
    """After T steps without gradient a weight has the variance T (lr sigma C / B)^2."""
    model = nn.Linear(50, 40, bias=False)
    run = point(steps=40, batch_size=500, noise_multiplier=3.0, clip_norm=0.2, learning_rate=0.7)
    job = Job(point=run, most_steps=most_steps, batch_size=16, fold=0, seed=5)
    train, _ = problem(model).split(job)
    steps = pilot_steps(job, records=len(train[1]))
    assert steps.count == min(40, most_steps) and steps.batch_size == (40 if most_steps > 40 else 16)
    found = trained(model, zero, train, steps=steps, seed=5, mechanism=lambda _: DpSgd(), averages=())
    moved = (found[0.0].weight - model.weight).detach().double()  # type: ignore[operator]
    variance = 40 * (0.7 * 3.0 * 0.2 / 500) ** 2
    statistic, count = float((moved**2).sum()) / variance, moved.numel()
    assert chi2.ppf(_TINY / 2, count) < statistic < chi2.ppf(1 - _TINY / 2, count)


def test_short_runs_are_made_step_by_step() -> None:
    run = point(steps=8, batch_size=10, noise_multiplier=2.0)
    steps = pilot_steps(Job(point=run, most_steps=100, batch_size=64, fold=0, seed=0), records=40)
    assert (steps.count, steps.batch_size, steps.noise_multiplier, steps.learning_rate) == (8, 10, 2.0, 0.5)


def test_a_pilot_of_fewer_steps_takes_larger_batches_and_no_more_records_in_all() -> None:
    """A quarter of the steps, four times the batch, with four times the noise on the sum; up to the run's own batch."""
    run = point(steps=25, batch_size=500, noise_multiplier=2.0)
    steps = pilot_steps(Job(point=run, most_steps=100, batch_size=64, fold=0, seed=0), records=1000)
    assert (steps.count, steps.batch_size, steps.noise_multiplier) == (25, 256, 2.0 * 256 / 500)
    assert pilot_steps(Job(point=run, most_steps=400, batch_size=64, fold=0, seed=0), records=1000).batch_size == 500


def test_the_records_kept_aside_are_not_trained_on_and_come_in_turn() -> None:
    one = problem(linear(50), folds=5)
    aside = []
    for fold in range(5):
        (train, _), (kept, _) = one.split(Job(point=point(), most_steps=1, batch_size=1, fold=fold, seed=0))
        assert len(train) + len(kept) == 60
        aside.append(kept)
        assert not (train[:, None] == kept[None]).all(2).any()
    assert torch.equal(torch.cat(aside).sort(0).values, one.features.sort(0).values)


def test_a_pilot_that_diverges_is_a_result() -> None:
    features, labels = labelled()
    one = Problem(
        model=linear(),
        loss=nn.functional.cross_entropy,
        metric=accuracy,
        guide=accuracy,
        features=features,
        labels=labels,
        folds=3,
    )
    run = point(learning_rate=1e30, noise_multiplier=1e6)
    found = pilot(one, Job(point=run, most_steps=8, batch_size=16, fold=0, seed=0))
    assert all(0.0 <= score.aside <= 1.0 for score in found.scores.values())


def test_the_same_job_gives_the_same_scores() -> None:
    one = problem(nn.Sequential(nn.Dropout(0.5), nn.Linear(50, 2)))
    job = Job(point=point(), most_steps=8, batch_size=16, fold=1, seed=7)
    assert pilot(one, job).scores == pilot(one, job).scores


def test_outputs_without_numbers_are_wrong() -> None:
    outputs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [float("nan"), 0.0], [0.0, float("inf")]])
    assert accuracy(outputs, torch.tensor([0, 0, 0, 1])) == 0.25


def test_all_records_are_judged_in_parts() -> None:
    model = nn.Linear(1, 2)
    many = torch.zeros(2500, 1), torch.arange(2500) % 2
    one = Problem(
        model=model,
        loss=zero,
        metric=lambda o, y: float(len(o)),
        guide=lambda o, y: 0.0,
        features=many[0],
        labels=many[1],
        folds=3,
    )
    assert judged(one.metric, model, many) == 2500.0


def test_the_median_norm_of_gradients() -> None:
    """Of a mean of outputs the gradient of a record is itself, with a 1 for the bias."""
    features, labels = labelled(count=5)
    one = Problem(
        model=nn.Linear(5, 1),
        loss=lambda o, y: o.mean(),
        metric=accuracy,
        guide=accuracy,
        features=features,
        labels=labels,
        folds=3,
    )
    wanted = float((features.square().sum(1) + 1).sqrt().median())
    assert median_norm(one) == pytest.approx(wanted, rel=1e-5)  # float32, sums of six squares
    assert median_norm(problem(nn.Linear(50, 1))) == 1.0, "of gradients that are zero"


def test_the_guide_tells_networks_of_one_accuracy_apart_and_not_how_large_outputs_are() -> None:
    labels = torch.tensor([0, 1, 0, 1])
    sure = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.5, 0.0]])
    unsure = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 0.0]])
    assert accuracy(sure, labels) == accuracy(unsure, labels) == 0.75
    assert accuracy_and_loss(sure, labels) > accuracy_and_loss(unsure, labels)
    for factor in (math.exp(-1.0), math.exp(0.5)):  # steps of the factors that are tried
        assert accuracy_and_loss(unsure * factor, labels) == pytest.approx(accuracy_and_loss(unsure, labels), abs=1e-6)
    assert accuracy_and_loss(torch.full((4, 2), float("nan")), labels) < -1
