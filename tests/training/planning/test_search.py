"""Successive halving on a made-up surface of scores with noise: near the best, what is fixed is kept, and time is kept."""

from collections.abc import Sequence

import numpy as np
import pytest

from dptheory.planning import Candidate
from dptheory.training.planning import Effort
from dptheory.training.planning._pilot import Job, Outcome, Score
from dptheory.training.planning._point import AVERAGES, Point
from dptheory.training.planning._search import Fixed, Found, Pace, Search, pooled

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
