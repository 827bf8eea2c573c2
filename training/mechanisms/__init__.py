"""The algorithms of the five papers, as what becomes of per-sample gradients in one step."""

from training.mechanisms._base import Contribution, Mechanism, Noise, StepCost
from training.mechanisms.ablations import NoisySparsification, QuietLayers
from training.mechanisms.broken import BatchSizeDivisor, TopKWithoutNoise, UnnoisedVelocity
from training.mechanisms.dpsgd import ClippedSgd, DpSgd, NoisySgd
from training.mechanisms.gep import BiasedGep, Gep, GepJoint, GepOptimal
from training.mechanisms.index_pruning import IndexPruning, NoisyMagnitudeTopK, TopKOfReleased
from training.mechanisms.layer_freezing import LayerFreezing
from training.mechanisms.random_sparsification import PosteriorFreeze, RandomSparsification
from training.mechanisms.ranked import RankedByTrueGradients, RankedSparsification
from training.mechanisms.rates import Constant, Exponential, GradualCooling, Linear, Schedule

__all__ = [
    "BatchSizeDivisor",
    "BiasedGep",
    "ClippedSgd",
    "Constant",
    "Contribution",
    "DpSgd",
    "Exponential",
    "Gep",
    "GepJoint",
    "GepOptimal",
    "GradualCooling",
    "IndexPruning",
    "LayerFreezing",
    "Linear",
    "Mechanism",
    "Noise",
    "NoisyMagnitudeTopK",
    "NoisySgd",
    "NoisySparsification",
    "PosteriorFreeze",
    "QuietLayers",
    "RandomSparsification",
    "RankedByTrueGradients",
    "RankedSparsification",
    "Schedule",
    "StepCost",
    "TopKOfReleased",
    "TopKWithoutNoise",
    "UnnoisedVelocity",
]
