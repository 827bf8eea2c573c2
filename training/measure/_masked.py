"""Gradient norms, and what a mask does to the error of DP-SGD's gradient, to norms and to deviations."""

from typing import Any

import torch

from dptheory.training.measure._view import View

LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
EDGES = [round(-5 + 0.1 * i, 1) for i in range(81)]
"""Decimal logarithms of norms between which :func:`norms` counts."""


def norms(view: View) -> dict[str, Any]:
    """Law of the norms of the gradients that the run clips: those of the entries kept."""
    found = view.norms(view.kept).double()
    logs = found.clamp_min(1e-300).log10()
    return {
        "quantiles": torch.quantile(found, torch.tensor(LEVELS, dtype=torch.float64)).tolist(),
        "clipped_share": float((found > view.clip_norm).double().mean()),
        "log10_std": float(logs.std()),
        "histogram": torch.histc(logs.clamp(EDGES[0], EDGES[-1]), len(EDGES) - 1, EDGES[0], EDGES[-1]).int().tolist(),
        "kept": int(view.kept.sum()),
    }


def errors(view: View, drop_rates: list[float], masks: int) -> dict[str, Any]:
    """Signal loss and MSE of the released batch gradient, with and without random masks, over batches drawn from the examples.

    E|w - c|^2 with c = E clip(m g) of the batch mean, that is |w - c|^2 + tr Cov(clip(m g)) / B, over the examples and the drawn
    masks; the MSE has the noise's (1 - r) d (sigma C / B)^2 on top. w is the mean gradient of the examples.
    """
    rates = [0.0, *drop_rates]
    rows = [_error(view, view.drawn_masks(rate, 1 if rate == 0 else masks)) for rate in rates]
    noise = [round((1 - rate) * view.dim) * (view.sum_noise_std / view.batch_size) ** 2 for rate in rates]
    return {"drop_rates": rates, "signal_loss": rows, "mse": [a + b for a, b in zip(rows, noise, strict=True)]}


def _error(view: View, kept: torch.Tensor) -> float:
    lengths = view.norms(kept).clamp_max(view.clip_norm).double()
    centre = view.clipped_mean(kept).double()
    spread = lengths.square().mean(0) - centre.square().sum(1)
    return float(((view.mean - centre).square().sum(1) + spread / view.batch_size).mean())


def relaxed(view: View, drop_rates: list[float], masks: int) -> dict[str, Any]:
    """Norm of the clipped mean gradient on the kept entries, with a mask over without; the mean over drawn masks."""
    whole = view.clipped_mean(torch.ones(view.dim, dtype=torch.bool))
    ratios = []
    for rate in drop_rates:
        kept = view.drawn_masks(rate, masks)
        ratios.append(float((view.clipped_mean(kept).norm(dim=1) / (whole * kept.T).norm(dim=1)).mean()))
    return {"drop_rates": drop_rates, "ratio": ratios}


def deviations(view: View, shown: int, projections: int) -> dict[str, Any]:
    """Deviations of masked per-sample gradients from their mean, in random projections: points of two, skewness of many.

    ``mirror_distance`` compares the deviations themselves with their mirror images: E|x + x'| / E|x - x'| - 1, x and x' from the
    two halves of the examples, and in the denominator from one; 0 for a symmetric law.
    """
    masked = view.gradients * view.kept
    centred = masked - masked.mean(0)
    directions = view.noise(view.dim, projections) / view.dim**0.5
    points = (centred @ directions).double()
    scaled = points / points.std(0)
    half = len(centred) // 2
    one, other = centred[:half], -centred[half : 2 * half]
    within = (torch.cdist(one, one).sum() + torch.cdist(other, other).sum()) / (2 * half * (half - 1))
    return {
        "points": [[float(f"{x:.3g}") for x in pair] for pair in (points[:shown, :2] / points[:, :2].std()).tolist()],
        "skewness_rms": float(scaled.pow(3).mean(0).square().mean().sqrt()),
        "mirror_distance": float((torch.cdist(one, other).mean() - within) / within),
    }


def frozen(view: View) -> dict[str, Any]:
    """Of the masks so far, the present one included: how many entries were out 0, 1, ... times."""
    view.masks.append(view.kept.clone())
    times = torch.stack([~mask for mask in view.masks]).sum(0)
    return {"times": torch.bincount(times, minlength=len(view.masks) + 1).tolist()}
