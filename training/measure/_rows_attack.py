"""The least-squares attack on the gradient of the network's last layer."""

import numpy as np

from dptheory import sparsification
from dptheory.training.measure._linear_attack import attack_errors, constraint_vector
from dptheory.training.measure._rows import Labels, Row
from dptheory.training.measure._settings import ValidateSettings
from dptheory.training.measure._snapshot import Snapshot

RATE = 0.8  # a mask then hides about one feature in ten


def attack_rows(snapshot: Snapshot, settings: ValidateSettings, rng: np.random.Generator) -> list[Row]:
    """Inputs of the last layer, read from its masked, noisy gradient for one example; the noise is that of DP-SGD's sum.

    The gradient is an outer product of the scores' derivatives and the inputs, exactly; error and share of hidden inputs are
    averages over masks and noise.
    """
    head = snapshot.head
    rate = 1.0 - round((1.0 - RATE) * head.weights.size) / head.weights.size
    keep = round((1.0 - rate) * head.weights.size)
    predicted = sparsification.expected_error(constraint_vector(head), drop_rate=rate, noise_std=settings.sum_noise_std)
    errors, hidden = [], []
    for _ in range(20 * settings.draws):
        squares = attack_errors(rng, head, keep, settings.sum_noise_std)
        hidden.append(np.isnan(squares).mean())
        errors.append(np.nan_to_num(squares, nan=0.0).mean())
    labels, setting = Labels(group="attack", claims="rs.thm5.1"), f"rate {rate:.3g}"
    outer = np.outer(head.outputs, head.pixels)
    seen = 1.0 - predicted.lost_probability
    return [
        labels.fixed("|gradient|^2", "last layer", float(np.square(outer).sum()), float((head.weights * outer).sum())),
        labels.mean("error where not hidden", setting, seen * predicted.given_recoverable, errors),
        labels.mean("share hidden", setting, predicted.lost_probability, hidden),
    ]
