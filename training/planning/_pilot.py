"""One pilot: a short training on public records with the noise that each step of the private run will have."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dptheory.training._randomness import seeded
from dptheory.training.planning._methods import DP_SGD, METHODS, Run
from dptheory.training.planning._point import Point
from dptheory.training.planning._training import Loss, Steps, private_steps, trained

Metric = Callable[[Tensor, Tensor], float]
_AT_ONCE = 1024
_WORST_LOSS = 10.0
_FACTORS = tuple(math.exp(x / 4.0) for x in range(-16, 13))


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """What is to be trained, on which records, and how it is judged.

    Attributes:
        model: at its starting weights.
        loss: of outputs and labels, a mean over the records.
        metric: of outputs and labels; larger is better.
        guide: what the search goes by in place of the metric, on records kept aside.
        features: public records, shape (n, ...).
        labels: shape (n, ...).
        folds: number of parts; each is kept aside in turn.
    """

    model: nn.Module
    loss: Loss
    metric: Metric
    guide: Metric
    features: Tensor
    labels: Tensor
    folds: int

    def split(self, fold: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """The records to train on, and those kept aside."""
        place = torch.arange(len(self.labels), device=self.labels.device) % self.folds
        kept, aside = place != fold, place == fold
        return (self.features[kept], self.labels[kept]), (self.features[aside], self.labels[aside])


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a pilot does.

    Attributes:
        point: what it stands for.
        most_steps: where the run has more, the pilot takes fewer, larger ones; see :func:`pilot_steps`.
        largest_batch: public records in a step, expected.
        fold: which records are kept aside.
        seed: of batches and noise.
        method: one of ``METHODS``.
    """

    point: Point
    most_steps: int
    largest_batch: int
    fold: int
    seed: int
    method: str = DP_SGD


@dataclass(frozen=True, kw_only=True)
class Score:
    """How a pilot went; what diverged has the metric of what it gives.

    Attributes:
        aside: the metric on the records kept aside; NaN where there is none.
        seen: on those that it was trained on.
        guide: what the search goes by, on the records kept aside.
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


def pilot_steps(job: Job, *, public: int) -> Steps:
    r"""The steps of a pilot.

    Its batches are smaller than the private run's, but the noise on the mean gradient has the same standard deviation
    :math:`\sigma C/B` per step. Where the run has k times as many steps as the pilot may take, its learning rate is k times
    as large and its noise :math:`\sqrt k` times as small: then the way of the weights and the variance that noise adds to
    them agree over every k steps, up to what the gradient changes within these.

    Args:
        job: what the pilot does.
        public: number of public records that it trains on.
    """
    point = job.point
    count = min(point.steps, job.most_steps)
    longer = point.steps / count
    batch = min(point.batch_size, job.largest_batch, public)
    return replace(
        private_steps(point),
        count=count,
        batch_size=batch,
        noise_multiplier=point.noise_multiplier * batch / point.batch_size / math.sqrt(longer),
        learning_rate=point.learning_rate * longer,
    )


def pilot(problem: Problem, job: Job) -> Outcome:
    """Train and judge.

    Args:
        problem: the network and the public records.
        job: what the pilot does.
    """
    began = time.perf_counter()
    train, aside = problem.split(job.fold)
    steps = pilot_steps(job, public=len(train[1]))
    networks = seeded(
        job.seed,
        lambda: trained(
            problem.model,
            problem.loss,
            train,
            steps=steps,
            seed=job.seed,
            mechanism=lambda network: METHODS[job.method].build(
                Run(network=network, public=train, steps=steps, seed=job.seed)
            ),
        ),
    )
    scores = {share: _score(problem, network, train, aside) for share, network in networks.items()}
    return Outcome(scores=scores, seconds=time.perf_counter() - began)


def _score(problem: Problem, network: nn.Module, train: tuple[Tensor, Tensor], aside: tuple[Tensor, Tensor]) -> Score:
    features, labels = aside
    with torch.no_grad():
        outputs = _outputs(network, features)
        return Score(
            aside=float(problem.metric(outputs, labels)),
            seen=judged(problem.metric, network, train),
            guide=float(problem.guide(outputs, labels)),
        )


def judged(metric: Metric, network: nn.Module, records: tuple[Tensor, Tensor]) -> float:
    """A metric of a network on records."""
    features, labels = records
    with torch.no_grad():
        return float(metric(_outputs(network, features), labels))


def _outputs(network: nn.Module, features: Tensor) -> Tensor:
    return torch.cat([network(part) for part in torch.split(features, _AT_ONCE)])


def accuracy(outputs: Tensor, labels: Tensor) -> float:
    """Share of the records whose largest output is that of their label; outputs with NaN are none."""
    right = outputs.argmax(1) == labels
    return float((right & torch.isfinite(outputs).all(1)).double().mean())


def accuracy_and_loss(outputs: Tensor, labels: Tensor) -> float:
    """Accuracy less half the cross entropy of the outputs times the factor that makes it least.

    With a thousand records accuracy has a sampling error of a point; the loss tells networks of one accuracy apart. Without the factor
    it would tell how large the outputs are, which long steps and little noise make too large.
    """
    if not torch.isfinite(outputs).all():
        return -_WORST_LOSS
    centred = (outputs - outputs.mean(1, keepdim=True)).double()
    losses = [float(nn.functional.cross_entropy(centred * factor, labels)) for factor in _FACTORS]
    return accuracy(outputs, labels) - 0.5 * min(min(losses), _WORST_LOSS)
