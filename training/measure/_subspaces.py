"""Stable rank of per-sample gradients, and what a subspace of anchor gradients leaves of them."""

from typing import Any

import torch

from dptheory.training.data import Images, load, standardised
from dptheory.training.measure._view import View, gradients_of
from dptheory.training.mechanisms import power_iteration


def stable_rank(rows: torch.Tensor) -> float:
    """Squared Frobenius norm over the squared spectral norm."""
    gram = (rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows).double()
    return float(gram.diagonal().sum() / torch.linalg.eigvalsh(gram)[-1])


def spectrum(view: View, rows: int) -> dict[str, Any]:
    """Stable rank of the matrix of per-sample gradients, of all entries and layer by layer."""
    found = {"all": stable_rank(view.gradients[:rows])}
    return {"rank": found | {name: stable_rank(view.gradients[:rows, at]) for name, at in view.layers.items()}}


def projection(view: View, dims: list[int], anchors: int, other: str) -> dict[str, Any]:
    """Share |g - B'B g| / |g| of the mean gradient that k basis vectors leave out.

    ``same``: of gradients of further test images with their labels; ``other``: of another data set with random labels;
    ``random``: Gaussian vectors.
    """
    mean = view.gradients.mean(0)
    sources = {
        "same": gradients_of(view.model, view.test(view.examples, view.examples + anchors)),
        "other": _other(view, anchors, other),
        "random": None,
    }
    found: dict[str, list[float]] = {}
    for name, rows in sources.items():
        found[name] = []
        for dim in dims:
            if rows is None:
                basis = torch.linalg.qr(view.noise(view.dim, dim)).Q.T
            else:
                basis = power_iteration(rows, dim=dim, iterations=1, generator=view.generator)
            found[name].append(float((mean - basis.T @ (basis @ mean)).norm() / mean.norm()))
    return {"dims": dims, "error": found}


def residuals(view: View, dim: int, anchors: int, other: str, rows: int) -> dict[str, Any]:
    """Stable rank of the gradients, and of what k basis vectors of another data set's gradients leave of each."""
    basis = power_iteration(_other(view, anchors, other), dim=dim, iterations=1, generator=view.generator)
    gradients = view.gradients[:rows]
    return {"original": stable_rank(gradients), "residual": stable_rank(gradients - (gradients @ basis.T) @ basis)}


def _other(view: View, anchors: int, name: str) -> torch.Tensor:
    images = load(name=name, train=False)
    images = standardised(images) if view.run.config.inputs == "standardised" else images
    labels = torch.randint(10, (anchors,), generator=view.generator)
    return gradients_of(view.model, Images(name, images.pixels[:anchors], labels))
