"""A wrong constant in any calculator makes a check of the ledger fail."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mutants import (
    gep_privacy,
    gep_release,
    gep_risk,
    gep_subspace,
    lf_angles,
    lf_descent,
    lf_freezing,
    privacy_accounting,
    privacy_index,
    privacy_masks,
    rs_descent,
)
from mutants.mutators import Calculator, Mutant, larger_field, raised, scaled, wrong_where

from dptheory import (
    angles,
    claims,
    clipping,
    convergence,
    costs,
    gradient_mse,
    mallows,
    mask_effects,
    masks,
    momentum,
    projections,
    pruning,
    quadratic,
    randomized_response,
    ranking,
    reconstruction,
    schedules,
    sparsification,
)
from dptheory.claims import Claim, Verdict


def _sharpened_pmf(function: Calculator) -> Calculator:
    def mutant(model: mallows.SubsetMallows) -> Any:
        return function(dataclasses.replace(model, theta=1.05 * model.theta))

    return mutant


def _sharpened_sample(function: Calculator) -> Calculator:
    return lambda model, reference, rng: function(dataclasses.replace(model, theta=1.1 * model.theta), reference, rng)


def _one_more(function: Calculator) -> Calculator:
    return lambda gradient, keep: function(gradient, min(keep + 1, np.shape(gradient)[-1]))


def _wrong_at_rest(function: Calculator) -> Calculator:
    """1 % off without an end to the steps, right elsewhere."""

    def mutant(*a: Any, **k: Any) -> float:
        endless = len(a) == 2 or a[-1] == math.inf  # two arguments: without the number of steps
        return float(function(*a, **k)) * (1.01 if endless else 1.0)

    return mutant


def _changed_budget(field: str, factor: float) -> Callable[[Calculator], Calculator]:
    def mutate(function: Calculator) -> Calculator:
        def mutant(*a: Any, **k: Any) -> mallows.IndexBudget:
            bought = function(*a, **k)
            return dataclasses.replace(bought, **{field: factor * getattr(bought, field)})

        return mutant

    return mutate


def _shrunk_chance(function: Calculator) -> Calculator:
    return lambda *a, **k: 0.5 + 0.98 * (function(*a, **k) - 0.5)


def _larger_error(function: Calculator) -> Calculator:
    def mutant(*a: Any, **k: Any) -> reconstruction.AttackError:
        found = function(*a, **k)
        return dataclasses.replace(found, value=1.02 * found.value, given_recoverable=1.02 * found.given_recoverable)

    return mutant


def _larger_posterior(function: Calculator) -> Calculator:
    def mutant(*a: Any, **k: Any) -> mask_effects.PosteriorFreeze:
        found = function(*a, **k)
        return dataclasses.replace(found, mean=1.02 * found.mean, mean_square=1.02 * found.mean_square)

    return mutant


def _one_more_byte(function: Calculator) -> Calculator:
    def mutant(*a: Any, **k: Any) -> costs.Communication:
        found = function(*a, **k)
        return dataclasses.replace(found, index=found.index + 1)

    return mutant


def _one_more_row(function: Calculator) -> Calculator:
    return lambda dim, *sizes: function(dim + 1, *sizes)


def _larger_signal_loss(function: Calculator) -> Calculator:
    def mutant(*a: Any, **k: Any) -> gradient_mse.MseBreakdown:
        errors = function(*a, **k)
        full, masked = (dataclasses.replace(e, signal_loss=1.02 * e.signal_loss) for e in (errors.full, errors.masked))
        return gradient_mse.MseBreakdown(full, masked)

    return mutant


MUTANTS: list[Mutant] = [
    *((pruning, name, scaled) for name in (
        "expected_norm", "zero_update_mse", "noise_mse", "random_k_mse", "top_k_mse", "top_k_energy", "retained_gain",
        "perturbed_top_k_mse", "beta", "pruned_cosine", "cosine_ratio", "least_retained_gain",
    )),
    (pruning, "top_k_mask", _one_more),
    *((mallows.SubsetMallows, name, scaled) for name in ("mean_swaps", "retained_gain", "epsilon")),
    (mallows.SubsetMallows, "swap_pmf", _sharpened_pmf),
    (mallows.SubsetMallows, "sample", _sharpened_sample),
    (mallows, "theta_for_budget", scaled),
    (mallows, "index_sensitivity", raised),
    (mallows, "index_budget", _changed_budget("total_variation", 0.9)),
    (mallows, "index_budget", _changed_budget("retained_gain", 2.0)),
    (mallows, "index_budget", _changed_budget("theta", 1.02)),
    (mallows, "theta_for_budget", wrong_where(lambda *a, **k: k.get("groups", [*a, 1, 1, 1, 1][4]) == 3)),
    (mallows.SubsetMallows, "retained_gain", wrong_where(lambda model: model.dim > 2000)),
    (mallows.SubsetMallows, "mean_swaps", wrong_where(lambda model: model.dim > 1000)),
    (pruning, "cosine_ratio", wrong_where(lambda dim, keep, theta, method="exact", groups=1: 0 < theta < math.inf)),
    (pruning, "cosine_ratio", wrong_where(lambda dim, keep, theta, method="exact", groups=1: method == "asymptotic")),
    (pruning, "cosine_ratio", wrong_where(lambda dim, keep, theta, method="exact", groups=1: groups > 1)),
    (pruning, "least_retained_gain", wrong_where(lambda dim, keep, method="exact", groups=1: method == "exact")),
    (pruning, "beta", wrong_where(lambda clip, keep, dim, theta, method="exact": clip != 1)),
    (pruning, "expected_norm", wrong_where(lambda dim, sigma_g: sigma_g != 1)),
    (pruning, "pruned_cosine", wrong_where(lambda norm, kept, keep, noise_std: noise_std == 0)),
    (angles, "small_snr_slope", wrong_where(lambda dim: dim > 20_000)),
    (randomized_response, "epsilon", scaled),
    (randomized_response, "largest_probability", _shrunk_chance),
    (randomized_response, "mallows_theta", scaled),
    (angles.DistortionAngle, "expected_cos", scaled),
    (angles, "small_snr_slope", scaled),
    *((reconstruction, name, _larger_error) for name in (
        "expected_error", "matrix_expected_error", "gaussian_matrix_error",
    )),
    *((reconstruction, name, scaled) for name in ("error_lower_bound", "bayes_error", "matrix_error_lower_bound")),
    *((momentum, name, scaled) for name in (
        "velocity_variance", "displacement_mean", "displacement_variance", "adam_velocity_variance",
        "adam_corrected_variance", "stationary_excess", "coasting_distance",
    )),
    *((momentum, name, _wrong_at_rest) for name in (
        "velocity_variance", "adam_velocity_variance", "adam_corrected_variance", "coasting_distance",
    )),
    *((schedules, name, scaled) for name in ("freeze_rate", "total_density")),
    *((ranking, name, scaled) for name in ("captured_energy", "signed_captured_energy", "sparse_captured_energy")),
    *((mask_effects, name, scaled) for name in ("noise_norm_ratio", "relaxed_gradient_ratio")),
    (mask_effects, "posterior_freeze", _larger_posterior),
    (costs, "communication", _one_more_byte),
    (costs, "projection_operations", _one_more_row),
    (projections, "projected_skewness", scaled),
    (masks, "expected_masked_inner", scaled),
    (masks, "mask_norm_bounds", larger_field("lower")),
    *((sparsification, name, scaled) for name in (
        "tradeoff", "optimal_rate", "optimal_rate_flat", "least_kappa", "least_kappa_tuned",
    )),
    (sparsification, "kappa", larger_field("value")),
    (sparsification, "best_rate", larger_field("bound")),
    (sparsification, "tuned_bound", larger_field("bound")),
    *((convergence, name, scaled) for name in (
        "batch_second_moment", "noise_term", "privacy_term", "optimal_steps",
    )),
    *((convergence, name, larger_field("clipping")) for name in ("alignment_bound", "dpsgd_bound")),
    (convergence, "noisy_sgd_bound", larger_field("noise")),
    (convergence, "private_bound", larger_field("noise")),
    *((quadratic, name, scaled) for name in ("fresh_mask_moments", "epoch_mask_moments")),
    *((clipping, name, scaled) for name in ("clip", "clip_probability")),
    (clipping, "symmetric_clip_lower_bound", larger_field("integral")),
    (clipping, "gaussian_clip_moments", larger_field("slope")),
    *((gradient_mse, name, scaled) for name in ("mse_lower_bound", "stationary_mse", "expected_max_quadratic_form")),
    (gradient_mse, "clipped_gradient_mse", _larger_signal_loss),
    *gep_privacy.MUTANTS,
    *gep_release.MUTANTS,
    *gep_risk.MUTANTS,
    *gep_subspace.MUTANTS,
    *lf_angles.MUTANTS,
    *lf_descent.MUTANTS,
    *lf_freezing.MUTANTS,
    *privacy_accounting.MUTANTS,
    *privacy_index.MUTANTS,
    *privacy_masks.MUTANTS,
    *rs_descent.MUTANTS,
]  # fmt: skip


def _claims_of(calculator: Calculator) -> list[Claim]:
    return [claim for claim in claims.all_claims() if calculator in claim.calculators]


def _first_failure(chosen: list[Claim]) -> str | None:
    """The cheap checks come first; searches only where nothing else noticed."""
    checks = sorted((c for claim in chosen for c in claim.checks), key=lambda c: c.kind.name == "SEARCH")
    for check in checks:
        evidence = check.run(20.0, seed=0)
        if not evidence.passed:
            return f"{check.name}: {evidence.detail}"
    return None


@pytest.mark.parametrize(("owner", "name", "mutate"), MUTANTS, ids=[f"{i}-{m[1]}" for i, m in enumerate(MUTANTS)])
def test_a_wrong_calculator_is_noticed(
    owner: object, name: str, mutate: Callable[[Calculator], Calculator], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(owner, name)
    chosen = _claims_of(original)
    assert chosen, f"no claim names {name} as its calculator"
    monkeypatch.setattr(owner, name, mutate(original))
    assert _first_failure(chosen) is not None


def test_every_calculator_of_the_ledger_has_a_mutant() -> None:
    mutated = {getattr(owner, name) for owner, name, _ in MUTANTS}
    named = {c for claim in claims.all_claims() if claim.verdict is not Verdict.EMPIRICAL for c in claim.calculators}
    assert named <= mutated, f"without a mutant: {named - mutated}"


def test_mutants_are_wrong() -> None:
    assert float(scaled(pruning.random_k_mse)(4, 1, 1.0)) == pytest.approx(3.06)
    assert _one_more(pruning.top_k_mask)([3.0, 2.0, 1.0], 1).sum() == 2
    assert _shrunk_chance(lambda: 1.0)() == 0.99
    assert math.isclose(raised(mallows.index_sensitivity)(4, 1), 4)
