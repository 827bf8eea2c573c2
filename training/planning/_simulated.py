"""Records without end like the public ones: mixtures of them, labelled by networks that were fitted to them; how a network is judged.

A pilot that goes through a thousand records hundreds of times fits them by heart; the private run, which sees each of its many
records a few times, cannot. On simulated records a pilot has as much to learn as the private run has, as far as a network
fitted to the public records knows it.
"""

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from dptheory.training._randomness import seeded
from dptheory.training.planning._public import Mixtures
from dptheory.training.planning._training import Loss, Records
from dptheory.training.runs import pooled_channels_last

Metric = Callable[[Tensor, Tensor], float]
_AT_ONCE = 1024
_WORST_LOSS = 10.0
_FACTORS = tuple(math.exp(x / 4.0) for x in range(-16, 13))


def outputs_of(network: Callable[[Tensor], Tensor], features: Tensor | Mixtures) -> Tensor:
    """What a network gives for records, some at a time."""
    with torch.no_grad():
        parts = [network(features[start : start + _AT_ONCE]) for start in range(0, len(features), _AT_ONCE)]
        return torch.cat(parts)


def judged(metric: Metric, network: nn.Module, records: Records) -> float:
    """A metric of a network on records."""
    features, labels = records
    return float(metric(outputs_of(network, features), labels))


def accuracy(outputs: Tensor, labels: Tensor) -> float:
    """Share of the records whose largest output is that of their label; outputs with NaN are none."""
    right = outputs.argmax(1) == labels
    return float((right & torch.isfinite(outputs).all(1)).double().mean())


def accuracy_and_loss(outputs: Tensor, labels: Tensor) -> float:
    """Accuracy less half the calibrated loss.

    With a thousand records accuracy has a sampling error of a point; the loss tells networks of one accuracy apart.
    """
    return accuracy(outputs, labels) - 0.5 * calibrated(outputs, labels)[0]


def calibrated(outputs: Tensor, labels: Tensor) -> tuple[float, float]:
    """The cross entropy of the outputs times the factor that makes it least, at most 10; and that factor.

    Without the factor it would tell how large the outputs are, which long steps and little noise make too large.
    """
    if not torch.isfinite(outputs).all():
        return 2.0 * _WORST_LOSS, 1.0
    centred = (outputs - outputs.mean(1, keepdim=True)).double()
    least, factor = min((float(nn.functional.cross_entropy(centred * factor, labels)), factor) for factor in _FACTORS)
    return min(least, _WORST_LOSS), factor


ASIDE = 4000
"""Simulated records that are kept aside, the first ones."""
_FOLDS = 3
_SHARPER = 2.0
_RATES = (3e-5, 2e-4, 1e-3, 3e-3, 1e-2)
_STEPS, _BATCH, _JUDGED_EVERY = 300, 64, 20


def simulated_records(
    model: nn.Module, loss: Loss, features: Tensor, labels: Tensor, *, count: int, seed: int
) -> tuple[Mixtures, Tensor]:
    """Mixtures of the records, with classes drawn from what networks fitted to three parts of the records expect of them.

    The probabilities are squared: the private run learns from more records than these networks were fitted to, and is surer of the
    classes than they can be.
    """
    generator = torch.Generator().manual_seed(seed)
    indices = torch.randint(len(labels), (count, 3), generator=generator).to(features.device)
    mixtures = Mixtures(records=features, indices=indices)
    with pooled_channels_last(model):  # and the copies of it, which the teachers are
        teachers = _teachers(model, loss, features, labels, seed)
    expected = outputs_of(partial(_expected, teachers), mixtures).cpu()
    drawn = torch.multinomial(expected**_SHARPER, 1, generator=generator)[:, 0]
    return mixtures, drawn.to(labels.device)


def _expected(teachers: Sequence[tuple[nn.Module, float]], features: Tensor) -> Tensor:
    """Probabilities of the classes: the mean of the teachers'."""
    return torch.stack([(teacher(features).double() * factor).softmax(1) for teacher, factor in teachers]).mean(0)


def _teachers(
    model: nn.Module, loss: Loss, features: Tensor, labels: Tensor, seed: int
) -> list[tuple[nn.Module, float]]:
    """A network for each part, fitted to the others, with the factor that calibrates its outputs on that part.

    The first tries all learning rates, the others take the rate that was best.
    """
    part = torch.arange(len(labels), device=labels.device) % _FOLDS
    rates: Sequence[float] = _RATES
    found = []
    for fold in range(_FOLDS):
        train, aside = ((features[chosen], labels[chosen]) for chosen in (part != fold, part == fold))
        fits = [(rate, seeded(seed + fold, partial(_fit, model, loss, train, aside, rate))) for rate in rates]
        best, (_, teacher, factor) = min(fits, key=lambda one: one[1][0])
        found.append((teacher, factor))
        rates = (best,)
    return found


def _fit(
    model: nn.Module, loss: Loss, train: tuple[Tensor, Tensor], aside: tuple[Tensor, Tensor], rate: float
) -> tuple[float, nn.Module, float]:
    """Adam, stopped where the calibrated loss on the records kept aside is least: that loss, the network and its factor."""
    network = copy.deepcopy(model).train()
    optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=rate)
    best = _judged(network, aside)
    for step in range(1, _STEPS + 1):
        drawn = torch.randint(len(train[1]), (_BATCH,), device=train[1].device)
        optimizer.zero_grad()
        loss(network(train[0][drawn]), train[1][drawn]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % _JUDGED_EVERY == 0:
            best = min(best, _judged(network, aside), key=lambda one: one[0])
    return best


def _judged(network: nn.Module, aside: tuple[Tensor, Tensor]) -> tuple[float, nn.Module, float]:
    kept = copy.deepcopy(network).eval()
    least, factor = calibrated(outputs_of(kept, aside[0]), aside[1])
    return least, kept, factor
