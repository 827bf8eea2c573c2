"""Wrong calculators of the privacy and the costs of GEP."""

from dptheory import accounting
from dptheory.embedding import calibration, costs
from mutants.mutators import Mutant, larger_field, raised, scaled, wrong_where

MUTANTS: list[Mutant] = [
    *((accounting, name, scaled) for name in (
        "gaussian_delta", "gaussian_log_delta", "gaussian_epsilon", "gaussian_mu", "gaussian_rdp_epsilon",
        "gaussian_rdp_mu",
    )),
    (accounting, "gaussian_delta", wrong_where(lambda mu, epsilon: mu > 5)),
    (accounting, "gaussian_mu", wrong_where(lambda epsilon, delta: epsilon > 7)),
    *((calibration, name, scaled) for name in (
        "joint_mu", "output_mu", "release_noise_ratio", "noise_ratio_excess", "sampled_epsilon",
    )),
    (calibration, "output_mu", wrong_where(lambda *a, **k: k.get("steps", 1) > 1)),
    (calibration, "joint_mu", wrong_where(lambda *a, **k: k.get("adjacency") == "replace-one")),
    (calibration, "release_noise_ratio", wrong_where(lambda *a, **k: k.get("method") == "renyi")),
    (calibration, "release_noise_ratio", wrong_where(lambda *a, **k: len(a) > 2 and a[2] > 100)),
    (calibration, "sampled_epsilon", wrong_where(lambda epsilon, rate: epsilon < 1)),
    (costs, "extra_floats", raised),
    (costs, "extra_floats", wrong_where(lambda dim, basis, anchors, gradients, groups=1: groups > 1)),
    (costs, "power_iteration", larger_field("products")),
    (costs, "power_iteration", larger_field("orthogonalisation")),
    (costs, "power_iteration", larger_field("scaling")),
]  # fmt: skip
