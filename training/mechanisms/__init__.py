"""The algorithms of the five papers, as what becomes of per-sample gradients in one step."""

from training.mechanisms._base import Contribution, Mechanism, Noise, StepCost
from training.mechanisms.dpsgd import ClippedSgd, DpSgd, NoisySgd
from training.mechanisms.random_sparsification import PosteriorFreeze, RandomSparsification
from training.mechanisms.rates import Constant, Exponential, GradualCooling, Linear, Schedule

__all__ = [
    "ClippedSgd",
    "Constant",
    "Contribution",
    "DpSgd",
    "Exponential",
    "GradualCooling",
    "Linear",
    "Mechanism",
    "Noise",
    "NoisySgd",
    "PosteriorFreeze",
    "RandomSparsification",
    "Schedule",
    "StepCost",
]
