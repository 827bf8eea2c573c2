"""Wrong calculators of privacy index."""

import dataclasses
from typing import Any

import numpy as np

from dptheory import index_privacy, joint_privacy, lattice_loss, mallows, renyi, selection
from mutants.mutators import Calculator, Mutant, larger_field, scaled


def _sharpened(function: Calculator) -> Calculator:
    """The law of a slightly larger dispersion."""
    return lambda model, distance=None: function(dataclasses.replace(model, theta=1.02 * model.theta), distance)


def _mirrored(function: Calculator) -> Calculator:
    """The law of the loss under the other reference."""

    def mutant(*a: Any, **k: Any) -> lattice_loss.LatticeLoss:
        found = function(*a, **k)
        return dataclasses.replace(found, low=1 - found.low - found.log_pmf.size, log_pmf=np.flip(found.log_pmf))

    return mutant


MUTANTS: list[Mutant] = [
    *((lattice_loss.LatticeLoss, name, scaled) for name in ("delta", "epsilon", "renyi")),
    (index_privacy, "loss_law", _sharpened),
    (index_privacy, "loss_law", _mirrored),
    *((index_privacy, name, scaled) for name in (
        "theta_for_delta_budget", "retained_gain_for_delta_budget", "epsilon_for_retained_gain",
    )),
    (mallows.SubsetMallows, "zcdp", scaled),
    *((renyi, name, scaled) for name in ("epsilon_from_rdp", "zcdp_epsilon", "zcdp_budget")),
    *((joint_privacy, name, scaled) for name in (
        "subsampled_gaussian_rdp", "joint_rdp", "theta_for_joint_budget", "joint_epsilon", "run_epsilon", "values_epsilon",
    )),
    (mallows, "theta_for_retained_gain", scaled),
    (joint_privacy.FreshMask, "rdp", scaled),
    *((selection, name, scaled) for name in (
        "magnitude_noise", "gumbel_rate", "magnitude_gain", "gumbel_gain", "released_gain", "released_top_k_mse",
    )),
    *((selection, "selection_gains", larger_field(field)) for field in ("mallows", "magnitude", "gumbel", "released")),
]  # fmt: skip
