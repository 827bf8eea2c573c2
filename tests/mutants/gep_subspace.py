"""Wrong calculators of the anchor subspace and the residual."""

import dataclasses
from typing import Any

import numpy as np

from dptheory.embedding import anchor
from mutants.mutators import Calculator, Mutant, larger_field, scaled, wrong_where


def _tilted(function: Calculator) -> Calculator:
    """A basis whose rows are still orthonormal but turned a little."""

    def mutant(*a: Any, **k: Any) -> Any:
        basis = function(*a, **k)
        noise = np.random.default_rng(0).standard_normal(basis.shape)
        return np.linalg.qr((basis + 1e-3 * noise).T)[0].T

    return mutant


def _leaking(function: Calculator) -> Calculator:
    """Residuals that keep some of the embedding."""

    def mutant(gradients: Any, basis: Any) -> anchor.Projection:
        found = function(gradients, basis)
        return dataclasses.replace(found, residuals=found.residuals + 1e-3 * found.embeddings @ np.asarray(basis))

    return mutant


def _without_minimum(function: Calculator) -> Calculator:
    """The terms of k itself, not of the best j <= k."""

    def mutant(eigenvalues: Any, subspace_dim: int, *a: Any, **k: Any) -> anchor.ResidualBound:
        found = function(eigenvalues, subspace_dim, *a, **k)
        tail = float(np.sort(eigenvalues)[::-1][subspace_dim:].sum())
        return dataclasses.replace(found, tail=tail)

    return mutant


MUTANTS: list[Mutant] = [
    (anchor, "anchor_subspace", _tilted),
    (anchor, "project", _leaking),
    (anchor, "residual_energy", scaled),
    (anchor, "recovery_probability", scaled),
    (anchor, "recovery_probability", wrong_where(lambda rank, anchors, zero_probability=0.0: zero_probability > 0)),
    *((anchor, "residual_bound", larger_field(field)) for field in ("tail", "estimation", "deviation")),
    (anchor, "residual_bound", _without_minimum),
    *((anchor, name, scaled) for name in (
        "random_basis_error", "mean_random_basis_error", "random_embedding_distortion",
    )),
]  # fmt: skip
