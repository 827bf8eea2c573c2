"""How a network is judged: by its accuracy, or by accuracy and calibrated loss together."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dptheory.training.planning._mixtures import Mixtures
from dptheory.training.planning._training import Records

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
