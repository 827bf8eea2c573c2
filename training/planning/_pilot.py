"""One pilot: a short training on public or simulated records, with the noise that each step of the private run will have."""

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from dptheory.training._randomness import seeded
from dptheory.training.planning._point import Point
from dptheory.training.planning._public import Mixtures
from dptheory.training.planning._simulated import ASIDE, Metric, judged
from dptheory.training.planning._training import DP_SGD, METHODS, Loss, Records, Run, Steps, private_steps, trained

_ALONE = threading.Lock()
"""Torch's random state, and its hooks on all optimizers, are those of all threads: in a process one pilot is made at a time."""
_SEEN = 4000
"""Of the records that a pilot was trained on, those that it is judged by."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """What is to be trained, on which records, and how it is judged.

    Attributes:
        model: at its starting weights.
        loss: of outputs and labels, a mean over the records.
        metric: of outputs and labels; larger is better.
        guide: what the search goes by in place of the metric, where the records are public ones.
        features: public records, shape (n, ...).
        labels: shape (n, ...).
        folds: number of parts; each is kept aside in turn.
        weight: of the metric on the records that a pilot was trained on, in what the search goes by; the rest is that of those kept
            aside. None of it where the records are simulated.
        simulated: records without end like the public ones, with their labels; None where there are none.
    """

    model: nn.Module
    loss: Loss
    metric: Metric
    guide: Metric
    features: Tensor
    labels: Tensor
    folds: int
    weight: float = 0.0
    simulated: tuple[Mixtures, Tensor] | None = None

    def split(self, job: "Job") -> tuple[Records, Records]:
        """The records that a pilot trains on, and those kept aside."""
        if job.simulated and self.simulated is not None:
            features, labels = self.simulated
            return (features.part(slice(ASIDE, None)), labels[ASIDE:]), (features.part(slice(ASIDE)), labels[:ASIDE])
        place = torch.arange(len(self.labels), device=self.labels.device) % self.folds
        kept, aside = place != job.fold, place == job.fold
        return (self.features[kept], self.labels[kept]), (self.features[aside], self.labels[aside])


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a pilot does.

    Attributes:
        point: what it stands for.
        most_steps: where the run has more, the pilot takes fewer, larger ones; see :func:`pilot_steps`.
        batch_size: records in a step, expected, where the pilot makes so many; in fewer steps it takes more, up to the run's own.
        fold: which records are kept aside.
        seed: of batches and noise.
        simulated: whether it trains on simulated records, where the problem has them.
        method: one of ``METHODS``.
    """

    point: Point
    most_steps: int
    batch_size: int
    fold: int
    seed: int
    simulated: bool = True
    method: str = DP_SGD


@dataclass(frozen=True, kw_only=True)
class Score:
    """How a pilot went; what diverged has the metric of what it gives.

    Attributes:
        aside: the metric on the records kept aside.
        seen: on those that it was trained on; of simulated ones, which nobody asks for, as ``aside``.
        guide: what the search goes by.
    """

    aside: float
    seen: float
    guide: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a pilot leaves.

    Attributes:
        scores: by the share of the last steps whose weights are averaged.
        seconds: that it took.
    """

    scores: Mapping[float, Score]
    seconds: float


def pilot_steps(job: Job, *, records: int) -> Steps:
    r"""The steps of a pilot.

    Its batches are mostly smaller than the private run's, but the noise on the mean gradient has the same standard deviation
    :math:`\sigma C/B` per step. Where the run has k times as many steps as the pilot may take, its learning rate is k times
    as large and its noise :math:`\sqrt k` times as small: then the way of the weights and the variance that noise adds to
    them agree over every k steps, up to what the gradient changes within these.
    """
    point = job.point
    count = min(point.steps, job.most_steps)
    longer = point.steps / count
    batch = min(point.batch_size, job.batch_size * job.most_steps // count, records)
    return replace(
        private_steps(point),
        count=count,
        batch_size=batch,
        noise_multiplier=point.noise_multiplier * batch / point.batch_size / math.sqrt(longer),
        learning_rate=point.learning_rate * longer,
    )


def pilot(problem: Problem, job: Job) -> Outcome:
    """Train and judge."""
    train, aside = problem.split(job)
    steps = pilot_steps(job, records=len(train[1]))
    run = partial(Run, public=(problem.features, problem.labels), steps=steps, seed=job.seed)
    with _ALONE:
        began = time.perf_counter()
        networks = seeded(
            job.seed,
            lambda: trained(
                problem.model,
                problem.loss,
                train,
                steps=steps,
                seed=job.seed,
                mechanism=lambda network: METHODS[job.method].build(run(network=network)),
            ),
        )
        scores = {share: _score(problem, network, job, train, aside) for share, network in networks.items()}
        return Outcome(scores=scores, seconds=time.perf_counter() - began)


def _score(problem: Problem, network: nn.Module, job: Job, train: Records, aside: Records) -> Score:
    outside = judged(problem.metric, network, aside)
    if job.simulated and problem.simulated is not None:
        return Score(aside=outside, seen=outside, guide=outside)
    seen = judged(problem.metric, network, (train[0][:_SEEN], train[1][:_SEEN]))
    guide = judged(problem.guide, network, aside)
    return Score(aside=outside, seen=seen, guide=(1.0 - problem.weight) * guide + problem.weight * seen)
