"""Gradient inversion: an image sought whose masked gradient points where the released one does."""

from typing import Any

import torch
from torch.func import grad, vmap

from dptheory.training.measure._view import View
from dptheory.training.networks import sample_loss


def inversion(
    view: View, images: int, drop_rates: list[float], noise_std: float, iterations: int, smoothing: float
) -> dict[str, Any]:
    """Mean squared error of reconstructed pixels in [0, 1], by drop rate; the first entry is without mask and noise.

    The attack knows weights, label and mask, and descends 1 - cos(m grad(x), m (g + z)) + smoothing TV(x) by signs, with a step
    that falls from 0.1, from a random start: "inverting gradients" (Geiping et al., 2020). z has N(0, noise_std^2) entries.
    """
    weights = {name: p.detach() for name, p in view.model.named_parameters()}
    shown, gradient = view.test(0, images), grad(sample_loss(view.model))

    def distance(image: torch.Tensor, label: torch.Tensor, target: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        found = torch.cat([g.flatten() for g in gradient(weights, image, label).values()]) * kept
        variation = image.diff(dim=-1).abs().mean() + image.diff(dim=-2).abs().mean()
        away: torch.Tensor = 1 - found @ target / (found.norm() * target.norm()).clamp_min(1e-30)
        return away + smoothing * variation

    descent = vmap(grad(distance))
    found: dict[str, list[float]] = {"mse": [], "standard_error": []}
    for number, rate in enumerate((0.0, *drop_rates)):
        kept = view.drawn_masks(rate, images).T.float()
        noise = noise_std * view.noise(images, view.dim) if number else 0.0
        target = (view.gradients[:images] + noise) * kept
        guess = view.noise(*shown.pixels.shape)
        for step in range(iterations):
            size = 0.1 * (1.0, 0.1, 0.01)[3 * step // iterations]
            guess = (guess - size * descent(guess, shown.labels, target, kept).sign()).clamp(0.0, 1.0)
        errors = (guess - shown.pixels).square().flatten(1).mean(1).double()
        found["mse"].append(float(errors.mean()))
        found["standard_error"].append(float(errors.std() / images**0.5))
    return {"drop_rates": drop_rates, **found}
