"""Index sets of GIP: the law of their privacy loss, their budgets, and what they cost together with noisy values."""

from dptheory.privacy.index_sets._budgets import (
    epsilon_for_retained_gain,
    retained_gain_for_delta_budget,
    theta_for_delta_budget,
)
from dptheory.privacy.index_sets._comparison import IndexAccountings, IndexChoice, compare_index_accountings
from dptheory.privacy.index_sets._joint import run_epsilon, theta_for_joint_budget, values_epsilon
from dptheory.privacy.methods._added import joint_epsilon
from dptheory.privacy.methods.lattice._index_law import loss_law
from dptheory.privacy.methods.lattice._loss import LatticeLoss, composed
from dptheory.privacy.methods.renyi._parts import joint_rdp

__all__ = [
    "IndexAccountings",
    "IndexChoice",
    "LatticeLoss",
    "compare_index_accountings",
    "composed",
    "epsilon_for_retained_gain",
    "joint_epsilon",
    "joint_rdp",
    "loss_law",
    "retained_gain_for_delta_budget",
    "run_epsilon",
    "theta_for_delta_budget",
    "theta_for_joint_budget",
    "values_epsilon",
]
