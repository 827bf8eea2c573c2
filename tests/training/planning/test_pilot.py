"""Pilots, their methods and simulated records, and the search over them."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dptheory import claims
from dptheory.convergence import noisy_quadratic_loss
from dptheory.planning import Candidate
from dptheory.training.mechanisms import Contribution, DpSgd
from dptheory.training.planning import Effort
from dptheory.training.planning._pilot import Job, Outcome, Problem, Score, pilot, pilot_steps
from dptheory.training.planning._point import AVERAGES, CONSTANT, Point, Schedule
from dptheory.training.planning._public import Mixtures
from dptheory.training.planning._search import (
    MOMENTA,
    Fixed,
    Found,
    Pace,
    Search,
    Tried,
    ahead_of_usual,
    decide,
    point_of_candidate,
    pooled,
)
from dptheory.training.planning._simulated import ASIDE, accuracy, accuracy_and_loss, judged, simulated_records
from dptheory.training.planning._spectrum import median_norm
from dptheory.training.planning._training import DP_SGD, METHODS, Steps, trained
from tests.training.planning.small import SCHEDULES_AND_AVERAGES, labelled, linear, planned, point, problem

# --- A pilot has the noise per step of the private run that it stands for, also where a step stands for several ---


_TINY = 1e-6
"""How likely a test refuses what is right."""


def zero(outputs: Tensor, labels: Tensor) -> Tensor:
    """A loss without gradient: only noise moves the weights."""
    return 0.0 * outputs.mean()


def still(model: nn.Module, folds: int = 3) -> Problem:
    """A problem in which only noise moves the weights."""
    return problem(model, *labelled(dim=50), loss=zero, folds=folds)


@pytest.mark.parametrize("most_steps", [1000, 5], ids=["every step", "one step for eight"])
def test_the_variance_of_the_noise_is_that_of_the_private_run(most_steps: int) -> None:
    """After T steps without gradient a weight has the variance T (lr sigma C / B)^2."""
    model = nn.Linear(50, 40, bias=False)
    run = point(steps=40, batch_size=500, noise_multiplier=3.0, clip_norm=0.2, learning_rate=0.7)
    job = Job(point=run, most_steps=most_steps, batch_size=16, fold=0, seed=5)
    train, _ = still(model).split(job)
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
    one = still(linear(50), folds=5)
    aside = []
    for fold in range(5):
        (train, _), (kept, _) = one.split(Job(point=point(), most_steps=1, batch_size=1, fold=fold, seed=0))
        assert len(train) + len(kept) == 60
        aside.append(kept)
        assert not (train[:, None] == kept[None]).all(2).any()
    assert torch.equal(torch.cat(aside).sort(0).values, one.features.sort(0).values)


def test_a_pilot_that_diverges_is_a_result() -> None:
    one = problem(linear(), *labelled())
    run = point(learning_rate=1e30, noise_multiplier=1e6)
    found = pilot(one, Job(point=run, most_steps=8, batch_size=16, fold=0, seed=0))
    assert all(0.0 <= score.aside <= 1.0 for score in found.scores.values())


def test_the_same_job_gives_the_same_scores() -> None:
    one = still(nn.Sequential(nn.Dropout(0.5), nn.Linear(50, 2)))
    job = Job(point=point(), most_steps=8, batch_size=16, fold=1, seed=7)
    assert pilot(one, job).scores == pilot(one, job).scores


def test_outputs_without_numbers_are_wrong() -> None:
    outputs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [float("nan"), 0.0], [0.0, float("inf")]])
    assert accuracy(outputs, torch.tensor([0, 0, 0, 1])) == 0.25


def test_all_records_are_judged_in_parts() -> None:
    model = nn.Linear(1, 2)
    many = torch.zeros(2500, 1), torch.arange(2500) % 2
    assert judged(lambda outputs, labels: float(len(outputs)), model, many) == 2500.0


def test_the_median_norm_of_gradients() -> None:
    """Of a mean of outputs the gradient of a record is itself, with a 1 for the bias."""
    features, labels = labelled(count=5)
    one = problem(nn.Linear(5, 1), features, labels, loss=lambda o, y: o.mean())
    wanted = float((features.square().sum(1) + 1).sqrt().median())
    assert median_norm(one) == pytest.approx(wanted, rel=1e-5)  # float32, sums of six squares
    assert median_norm(still(nn.Linear(50, 1))) == 1.0, "of gradients that are zero"


def test_the_guide_tells_networks_of_one_accuracy_apart_and_not_how_large_outputs_are() -> None:
    labels = torch.tensor([0, 1, 0, 1])
    sure = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.5, 0.0]])
    unsure = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 0.0]])
    assert accuracy(sure, labels) == accuracy(unsure, labels) == 0.75
    assert accuracy_and_loss(sure, labels) > accuracy_and_loss(unsure, labels)
    for factor in (math.exp(-1.0), math.exp(0.5)):  # steps of the factors that are tried
        assert accuracy_and_loss(unsure * factor, labels) == pytest.approx(accuracy_and_loss(unsure, labels), abs=1e-6)
    assert accuracy_and_loss(torch.full((4, 2), float("nan")), labels) < -1


# The papers' methods as pilots: each makes steps at the noise of DP-SGD, and serves the networks that it says it
# serves


@pytest.mark.parametrize("name", METHODS)
def test_every_method_makes_a_pilot(name: str) -> None:
    features, labels = labelled()
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    assert METHODS[name].serves(model, labels)
    found = pilot(
        problem(model, features, labels), Job(point=point(), most_steps=4, batch_size=16, fold=0, seed=0, method=name)
    )
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


# The simulated training: on a quadratic it is the noisy quadratic model's, step for step, without noise and with it


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


# Simulated records have the law of the public ones as far as it was fitted; a pilot on them learns what is true of
# these


_DEVIATIONS = 6.0


def separable(count: int = 300) -> tuple[Tensor, Tensor]:
    return labelled(count, seed=3)


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
    one = problem(
        linear(),
        features,
        labels,
        metric=lambda outputs, _: float(len(outputs)),
        guide=lambda outputs, _: -1.0,
        simulated=records,
    )
    job = Job(point=point(), most_steps=4, batch_size=16, fold=1, seed=0, simulated=simulated)
    score = pilot(one, job).scores[0.0]
    expected = (float(ASIDE),) * 3 if simulated else (30.0, 60.0, -1.0)
    assert dataclasses.astuple(score) == expected


def test_a_pilot_on_simulated_records_learns_what_is_true_of_public_ones() -> None:
    features, labels = separable()
    records = simulated_records(linear(), cross_entropy, features, labels, count=ASIDE + 2000, seed=0)
    one = problem(nn.Linear(5, 2), features, labels, simulated=records)
    run = point(steps=60, batch_size=100, noise_multiplier=0.1, clip_norm=1.0, learning_rate=0.5)
    found = pilot(one, Job(point=run, most_steps=60, batch_size=100, fold=0, seed=0))
    assert found.scores[0.0].aside > 0.85


# Successive halving on a made-up surface of scores with noise: near the best, what is fixed is kept, and time is kept


CANDIDATES = tuple(
    Candidate(batch_size=b, epochs=e, steps=round(e * 6400 / b), sampling_rate=b / 6400, noise_multiplier=1.0)
    for b in (100, 400, 1600)
    for e in (4.0, 8.0)
)

CLIPS = (0.1, 0.3, 1.0)
NOISE = 0.01
EFFORT = Effort(spread=40, guided=40, short=20, kept=12, middle=40, finalists=6, whole=100)


def truth(point: Point) -> float:
    """Best .9, at a stride of 1, batches of 400 and a falling rate; everything else costs."""
    far = np.log(point.stride) ** 2 + np.log(point.batch_size / 400) ** 2 + np.log(point.clip_norm / 0.3) ** 2
    return 0.9 - 0.02 * far - 0.03 * (point.schedule == "constant") - 0.05 * (point.momentum > 0) - 0.1 * point.average


class Surface:
    """Scores of pilots: the truth and noise, which has the standard deviation ``NOISE``."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def __call__(self, jobs: Sequence[Job]) -> list[Outcome]:
        self.jobs += jobs
        return [self._outcome(job) for job in jobs]

    def _outcome(self, job: Job) -> Outcome:
        noise = float(np.random.default_rng(job.seed).normal(0, NOISE))
        scores = {}
        for average in AVERAGES:
            value = truth(Point(**vars(job.point) | {"average": average})) + noise
            scores[average] = Score(aside=value, seen=value, guide=value)
        return Outcome(scores=scores, seconds=0.1)


def found(fixed: Fixed | None = None, *, surface: Surface | None = None, seconds: float = 1e9, seed: int = 0) -> Found:
    return Search(
        candidates=CANDIDATES,
        evaluate=surface or Surface(),
        pace=Pace(seconds, 2),
        predict=lambda points: np.zeros(len(points)),
        clips=CLIPS if fixed is None or fixed.clip_norm is None else [fixed.clip_norm],
        fixed=fixed or Fixed(),
        folds=3,
        seed=seed,
        phase=lambda words: None,
    ).run(EFFORT)


@pytest.mark.parametrize("seed", range(4))
def test_the_choice_is_near_the_best(seed: int) -> None:
    """The error of a finalist's mean over three folds is NOISE / sqrt(3): two of them, four deviations each way, are five NOISE."""
    one = found(seed=seed)
    assert truth(one.best.point) > max(truth(point) for point in one.points) - 5 * NOISE


def test_the_finalists_are_ranked_and_have_a_score_for_each_fold() -> None:
    one = found()
    assert one.best is one.finalists[0] and all(len(tried.scores) == 3 for tried in one.finalists)
    assert {tried.point for tried in one.finalists} <= set(one.points)


def test_usual_choices_meet_the_best_with_the_same_seeds() -> None:
    surface = Surface()
    one = found(surface=surface)
    duel = [job for job in surface.jobs if job.most_steps == one.steps][-3 * (len(one.finalists) // len(AVERAGES)) :]
    assert {len([job for job in duel if job.seed == seed]) for seed in {job.seed for job in duel}} == {len(duel) // 3}
    strides = {(job.point.momentum, round(math.log(job.point.stride), 1)) for job in duel}
    assert {momentum for momentum, _ in strides} == set(MOMENTA)


def tried(place: int, *scores: float) -> Tried:
    point = point_of_candidate(CANDIDATES[0], 0.1 * (1 + place), 1.0, 0.0, CONSTANT, 0.0)
    return Tried(point=point, scores=tuple(Score(aside=s, seen=s, guide=s) for s in scores))


@pytest.mark.parametrize(
    ("gain", "chosen"),
    [
        (0.003, 1),
        (0.0057, 1),
        (0.007, 0),
    ],  # the residuals are .5 and -.5 per cent: a variance of 5e-5, an error of .58 per cent
)
def test_a_usual_choice_is_left_for_a_gain_beyond_the_pilots_error(gain: float, chosen: int) -> None:
    base = np.array([0.8, 0.7, 0.75])  # what a seed adds to all is nothing
    swing = np.array([0.005, -0.005, 0.0])
    points = [
        tried(0, *(base + gain + swing)),
        tried(1, *(base - swing)),
        tried(2, *(base - 0.3)),
        tried(3, *(base - 0.4)),
    ]
    found = decide(points, {points[1].point, points[3].point})
    assert found == [points[chosen], points[1 - chosen], points[2], points[3]]
    assert decide(points, set())[0] is points[0]


def test_how_far_the_choice_is_above_what_people_take() -> None:
    """Three seeds of two points: the differences .2, .3 and .4 have the mean .3 and the standard error .1 / sqrt(3)."""
    two = [tried(0, 0.7, 0.9, 1.1), tried(1, 0.5, 0.6, 0.7)]
    ahead = ahead_of_usual(two, {two[1].point})
    assert ahead is not None and (ahead.low + ahead.high) / 2 == pytest.approx(0.3)
    assert (ahead.high - ahead.low) / 2 == pytest.approx(4.302653 * 0.1 / math.sqrt(3))
    assert ahead_of_usual(two, {two[0].point, two[1].point}) is None


def test_what_is_fixed_is_kept() -> None:
    fixed = Fixed(clip_norm=0.7, learning_rate=0.25, momentum=0.5, schedule="cosine", average=0.2)
    surface = Surface()
    one = found(fixed, surface=surface)
    for name, value in vars(fixed).items():
        assert {getattr(point, name) for point in one.points} == {value}
        if name != "average":  # each pilot scores all averages
            assert {getattr(job.point, name) for job in surface.jobs} == {value}
    assert one.best.point.average == 0.2


def test_the_same_seed_makes_the_same_pilots() -> None:
    first, second, other = Surface(), Surface(), Surface()
    found(surface=first), found(surface=second), found(surface=other, seed=1)
    assert first.jobs == second.jobs != other.jobs


def test_little_time_makes_fewer_and_shorter_pilots() -> None:
    plenty, little = Surface(), Surface()
    found(surface=plenty), found(surface=little, seconds=2.0)
    assert sum(job.most_steps for job in little.jobs) < sum(job.most_steps for job in plenty.jobs) / 2


def test_pilots_without_a_score_are_the_worst() -> None:
    class Holes(Surface):
        def _outcome(self, job: Job) -> Outcome:
            outcome = super()._outcome(job)
            if job.point.momentum > 0:
                nothing = Score(aside=float("nan"), seen=float("-inf"), guide=float("nan"))
                return Outcome(scores=dict.fromkeys(outcome.scores, nothing), seconds=0.1)
            return outcome

    assert found(surface=Holes()).best.point.momentum == 0.0


class Guided(Surface):
    """The guide counts in another unit than the metric: ten times as much, less five."""

    def _outcome(self, job: Job) -> Outcome:
        plain = super()._outcome(job)
        scores = {
            average: Score(aside=one.aside, seen=one.seen, guide=10.0 * one.guide - 5.0)
            for average, one in plain.scores.items()
        }
        return Outcome(scores=scores, seconds=plain.seconds)


def test_what_is_told_of_the_points_is_of_the_metric_and_not_of_the_guide() -> None:
    one = found(surface=Guided())
    told = one.pooled.mean[one.points.index(one.best.point)]
    assert abs(told - truth(one.best.point)) < 5 * NOISE  # the guide's own is 3 more


# --- The posterior over the points: by hand for one coordinate, and what it is far from every score
def test_far_from_all_scores_it_is_the_prior() -> None:
    places = np.array([[0.0], [1.0], [2.0]])
    scores = np.array([0.1, 0.5, 0.3])
    found = pooled(places, scores, np.array([[100.0]]))
    assert found.mean[0] == pytest.approx(scores.mean(), rel=1e-12)
    assert found.deviation[0] == pytest.approx(scores.std(), rel=1e-12)


def test_it_is_the_conditional_law_of_a_normal_vector() -> None:
    """Worked out by the block formula, with the covariance and its inverse written down."""
    rng = np.random.default_rng(0)
    places, scores, asked = rng.normal(size=(7, 2)), rng.normal(size=7), rng.normal(size=(3, 2))
    found = pooled(places, scores, asked)
    scale = scores.std()

    def alike(some: np.ndarray, others: np.ndarray) -> np.ndarray:
        return scale**2 * np.exp(-((some[:, None] - others[None]) ** 2).sum(2) / 2)

    inverse = np.linalg.inv(alike(places, places) + found.noise**2 * np.eye(7))
    across = alike(asked, places)
    mean = scores.mean() + across @ inverse @ (scores - scores.mean())
    variance = scale**2 - np.einsum("ij,jk,ik->i", across, inverse, across)
    # the jitter of 1e-8 of the variance, over a noise of at least .05**2 of it, is 4e-6
    np.testing.assert_allclose(found.mean, mean, rtol=0, atol=1e-4 * scale)
    np.testing.assert_allclose(found.deviation, np.sqrt(variance), rtol=0, atol=1e-4 * scale)


def test_the_noise_is_found() -> None:
    """Of many scores at few places: the likeliest of six, each twice the last, is within a factor of two."""
    rng = np.random.default_rng(1)
    places = np.repeat(np.linspace(-3, 3, 10), 40)[:, None]
    scores = np.sin(places[:, 0]) + rng.normal(0, 0.2, size=400)
    found = pooled(places, scores, places)
    assert 0.1 < found.noise < 0.4


def test_scores_that_are_all_the_same_are_known() -> None:
    found = pooled(np.zeros((3, 1)), np.full(3, 0.5), np.ones((2, 1)))
    assert found.mean.tolist() == [0.5, 0.5] and found.deviation.tolist() == [0.0, 0.0] and found.noise == 0.0
