"""Wrong calculators that no moved field describes: another law, a term left out, a missing case."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dptheory import embedding, freezing, gradients, privacy, pruning

Calculator = Callable[..., Any]
Mutation = Callable[[Calculator], Calculator]


def _sharper(factor: float) -> Mutation:
    """The law of a larger dispersion."""

    def mutate(function: Calculator) -> Calculator:
        return lambda model, *a: function(dataclasses.replace(model, theta=factor * model.theta), *a)

    return mutate


def _one_more_kept(function: Calculator) -> Calculator:
    return lambda gradient, keep: function(gradient, min(keep + 1, np.shape(gradient)[-1]))


def _mirrored(function: Calculator) -> Calculator:
    """The law of the loss under the other reference."""

    def mutant(*a: Any, **k: Any) -> privacy.index_sets.LatticeLoss:
        found = function(*a, **k)
        return dataclasses.replace(found, low=1 - found.low - found.log_pmf.size, log_pmf=np.flip(found.log_pmf))

    return mutant


def _never_infinite(function: Calculator) -> Calculator:
    def mutant(*a: Any, **k: Any) -> float:
        found = function(*a, **k)
        return 1e3 if math.isinf(found) else float(found)

    return mutant


def _one_size_more(function: Calculator) -> Calculator:
    return lambda epsilon, size, other, kept: function(epsilon, size, other + 1, kept)


def _one_example_more(function: Calculator) -> Calculator:
    return lambda epsilon, examples, rate, shift: function(epsilon, examples + 1, rate, shift)


def _tilted(function: Calculator) -> Calculator:
    """A basis whose rows are still orthonormal but turned a little."""

    def mutant(*a: Any, **k: Any) -> Any:
        basis = function(*a, **k)
        noise = np.random.default_rng(0).standard_normal(basis.shape)
        return np.linalg.qr((basis + 1e-3 * noise).T)[0].T

    return mutant


def _leaking(function: Calculator) -> Calculator:
    """Residuals that keep some of the embedding."""

    def mutant(gradients: Any, basis: Any) -> embedding.Projection:
        found = function(gradients, basis)
        return dataclasses.replace(found, residuals=found.residuals + 1e-3 * found.embeddings @ np.asarray(basis))

    return mutant


def _without_minimum(function: Calculator) -> Calculator:
    """The terms of k itself, not of the best j <= k."""

    def mutant(eigenvalues: Any, subspace_dim: int, *a: Any, **k: Any) -> embedding.ResidualBound:
        found = function(eigenvalues, subspace_dim, *a, **k)
        return dataclasses.replace(found, tail=float(np.sort(eigenvalues)[::-1][subspace_dim:].sum()))

    return mutant


def _proportional(function: Calculator) -> Calculator:
    """Shares in proportion to the sizes."""
    return lambda sizes, k: [k * size / sum(sizes) for size in sizes]


def _one_more_step(function: Calculator) -> Calculator:
    """The risk one step beyond the best number of steps."""
    return lambda *a, **k: function(*a, **{**k, "steps": function(*a, **k).steps + 1})


def _unfolded(function: Calculator) -> Calculator:
    """The printed sum as the upper end."""
    return lambda bias_angle, noise_angle: (function(bias_angle, noise_angle)[0], bias_angle + noise_angle)


def _noise_of_all_layers(function: Calculator) -> Calculator:
    """The comparison forgets that frozen layers get no noise."""
    return lambda sizes, frozen, *a, **k: function(sizes, 0, *a, **k)


def _clips_trainable_only(function: Calculator) -> Calculator:
    """Ignores the frozen norms, as if freezing changed nothing."""
    return lambda trainable, frozen_norms, clip: function(trainable, 0.0, clip)


SPECIAL: tuple[tuple[Calculator, Mutation], ...] = (
    (pruning.SubsetMallows.swap_pmf, _sharper(1.01)),
    (pruning.SubsetMallows.sample, _sharper(1.1)),
    (pruning.top_k_mask, _one_more_kept),
    (privacy.index_sets.loss_law, _sharper(1.01)),
    (privacy.index_sets.loss_law, _mirrored),
    (privacy.divisor_renyi, _never_infinite),
    (privacy.divisor_delta, _one_size_more),
    (privacy.published_size_delta, _one_example_more),
    (embedding.anchor_subspace, _tilted),
    (embedding.project, _leaking),
    (embedding.residual_bound, _without_minimum),
    (embedding.square_root_allocation, _proportional),
    (embedding.excess_risk, _one_more_step),
    (embedding.excess_risk_as_published, _one_more_step),
    (gradients.angle_range, _unfolded),
    (freezing.freezing_bounds, _noise_of_all_layers),
    (freezing.biased_signal, _clips_trainable_only),
)
"""Calculator and what is done to it."""
