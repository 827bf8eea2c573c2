"""The algorithms of the five papers, as what becomes of per-sample gradients in one step."""

from dptheory.training.mechanisms._base import Contribution, Mechanism, Noise, StepCost, Tensors
from dptheory.training.mechanisms._broken import (
    BatchSizeDivisor,
    NoisySparsification,
    QuietLayers,
    TopKWithoutNoise,
    UnnoisedVelocity,
)
from dptheory.training.mechanisms._clipping import Clipping, FlatClipping, clip_factors, clipped_sum, sample_norms
from dptheory.training.mechanisms._clipping_rules import AdaptiveClipping, AutomaticClipping, LayerClipping
from dptheory.training.mechanisms._dpsgd import ClippedSgd, DpSgd, NoisySgd
from dptheory.training.mechanisms._gep import BiasedGep, Gep, GepJoint, GepOptimal
from dptheory.training.mechanisms._index_pruning import IndexPruning, NoisyMagnitudeTopK, TopKOfReleased
from dptheory.training.mechanisms._layer_freezing import LayerFreezing, layers
from dptheory.training.mechanisms._random_sparsification import PosteriorFreeze, RandomSparsification, draw_mask
from dptheory.training.mechanisms._ranked import RankedByTrueGradients, RankedSparsification, largest_entries
from dptheory.training.mechanisms._rates import Checked, Constant, Exponential, GradualCooling, Linear, Schedule
from dptheory.training.mechanisms._subspace import AnchorGradients, AnchorSource, power_iteration, shared_dimensions

__all__ = [
    "AdaptiveClipping",
    "AnchorGradients",
    "AnchorSource",
    "AutomaticClipping",
    "BatchSizeDivisor",
    "BiasedGep",
    "Checked",
    "ClippedSgd",
    "Clipping",
    "Constant",
    "Contribution",
    "DpSgd",
    "Exponential",
    "FlatClipping",
    "Gep",
    "GepJoint",
    "GepOptimal",
    "GradualCooling",
    "IndexPruning",
    "LayerClipping",
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
    "Tensors",
    "TopKOfReleased",
    "TopKWithoutNoise",
    "UnnoisedVelocity",
    "clip_factors",
    "clipped_sum",
    "draw_mask",
    "largest_entries",
    "layers",
    "power_iteration",
    "sample_norms",
    "shared_dimensions",
]
