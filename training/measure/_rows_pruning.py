"""What pruning loses of a clipped batch gradient, and what a ranking of noisy sums finds of it."""

import numpy as np
import torch

from dptheory import sparsification
from dptheory.training.engine import generator_noise
from dptheory.training.measure._gradient import measure_gradient
from dptheory.training.measure._rows import Labels, Row
from dptheory.training.measure._settings import MeasureSettings, ValidateSettings
from dptheory.training.measure._snapshot import Snapshot
from dptheory.training.mechanisms import clipped_sum, largest_entries

RANKED = "rf.ranked: Gaussian entries"
CONSTANT = "rf.ranked: Gaussian entries, the same signal in the next step"


def pruning_rows(snapshot: Snapshot, settings: ValidateSettings, rng: np.random.Generator) -> list[Row]:
    """Pruning error of the clipped sum of the step's batch, random-k and top-k, by :func:`measure_gradient`."""
    gradient = clipped_sum([snapshot.batch], settings.clip_norm).total[0].numpy()
    measuring = MeasureSettings(
        settings.keep_shares,
        draws=settings.draws,
        noise_multiplier=settings.training.noise_multiplier,
        max_grad_norm=settings.clip_norm,
    )
    _, rows = measure_gradient(gradient, snapshot.layers, measuring, rng)
    return [row for row in rows if row.quantity in ("random_k_mse", "top_k_mse")]


def ranking_rows(snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    """Share of the signal's energy on the entries that are largest in the noisy sum of ``window`` steps.

    The signal is that sum itself, or the clipped sum of the step after it; the noise of the sum is drawn many times.
    """
    summed = snapshot.window_sum
    std = settings.sum_noise_std * settings.window**0.5
    snr = float(summed.double().square().mean().sqrt()) / std
    noise = generator_noise(generator)
    noisy = [summed + noise(summed, std) for _ in range(settings.draws)]
    labels = Labels(group="ranking", claims="rf.ranked")
    rows = []
    for ratio in settings.keep_shares:
        keep = round(ratio * summed.numel())  # 1 at least: pruning refuses other ratios
        predicted = sparsification.captured_energy(summed.numel(), keep, snr=snr)
        masks = [largest_entries([values], 1.0 - keep / summed.numel())[0] for values in noisy]
        for quantity, signal, assumption in (
            ("captured_energy", summed, RANKED),
            ("captured_energy_next", snapshot.next_sum, CONSTANT),
        ):
            energy = signal.double().square()
            shares = [float(energy[mask].sum() / energy.sum()) for mask in masks]
            rows.append(labels.mean(quantity, f"keep {ratio:g}", predicted, shares, assumption))
    return rows
