"""The papers' methods as a plan tries them: how a pilot builds each, and what the theory says of it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from dptheory.training.mechanisms import (
    AnchorGradients,
    Constant,
    DpSgd,
    GepOptimal,
    LayerFreezing,
    Mechanism,
    NoisyMagnitudeTopK,
    RandomSparsification,
    layers,
)
from dptheory.training.planning._training import Steps

DP_SGD = "DP-SGD"
_DIRECTIONS, _MOST_ANCHORS = 20, 128
_KEPT_SHARE, _SELECTION_SHARE = 0.5, 0.1


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a mechanism is built for.

    Attributes:
        network: that is trained.
        public: features and labels, for GEP's anchors.
        steps: of the pilot.
        seed: of masks and subspaces.
    """

    network: nn.Module
    public: tuple[Tensor, Tensor]
    steps: Steps
    seed: int


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to change the gradients of DP-SGD.

    Attributes:
        build: the mechanism, at the noise that keeps the budget of plain DP-SGD.
        setting: its own hyperparameters, in words.
        why: what the theory says, in a sentence.
        claim: its id.
        serves: whether a network and its labels have what it needs.
    """

    build: Callable[[Run], Mechanism]
    setting: str
    why: str
    claim: str
    serves: Callable[[nn.Module, Tensor], bool] = lambda model, labels: True


def _masks(run: Run) -> Mechanism:
    return RandomSparsification(Constant(0.5), run.seed)


def _epoch_masks(run: Run) -> Mechanism:
    return RandomSparsification(Constant(0.5), run.seed, refresh_steps=max(1, run.steps.count // 10))


def _frozen(run: Run) -> Mechanism:
    return LayerFreezing(DpSgd(), frozen_layers=len(layers(run.network)) // 2, from_step=run.steps.count // 2)


def _embedding(run: Run) -> Mechanism:
    features, labels = run.public
    anchors = AnchorGradients(run.network, features[:_MOST_ANCHORS], classes=int(labels.max()) + 1, seed=run.seed)
    everything = list(range(sum(p.requires_grad for p in run.network.parameters())))
    return GepOptimal(
        anchors,  # type: ignore[arg-type]
        subspace_dim=_DIRECTIONS,
        residual_clip=run.steps.clip_norm / 2,
        groups=[everything],
        seed=run.seed,
    )


def _pruning(run: Run) -> Mechanism:
    share = math.sqrt(1.0 / _SELECTION_SHARE)
    return NoisyMagnitudeTopK(max(run.steps.noise_multiplier, 1e-6) * share, Constant(_KEPT_SHARE))


def _has_classes(model: nn.Module, labels: Tensor) -> bool:
    return labels.dim() == 1 and not labels.dtype.is_floating_point


METHODS: Mapping[str, Method] = {
    DP_SGD: Method(build=lambda run: DpSgd(), setting="", why="", claim=""),
    "random freeze": Method(
        build=_epoch_masks,
        setting="a mask of half the entries, held for a tenth of the steps",
        why="a mask keeps the mean of the gradient only up to the factor that it keeps of every entry",
        claim="rf.lem2",
    ),
    "random sparsification": Method(
        build=_masks,
        setting="a fresh mask of half the entries in every step",
        why="a mask of half the entries does nearly what a clip 1.4 times as large does without one: try that clip first",
        claim="rs.mask_is_clip",
    ),
    "layer freezing": Method(
        build=_frozen,
        setting="the lower half of the layers, for the second half of the steps",
        why="freezing helps where the gradient of the frozen layers turns the step less than their noise does",
        claim="lf.when_to_freeze",
        serves=lambda model, labels: len(layers(model)) > 1,
    ),
    "gradient embedding perturbation": Method(
        build=_embedding,
        setting=f"{_DIRECTIONS} directions from public records, residual clipped at half",
        why="splitting the release pays where the anchors' subspace holds most of the gradient",
        claim="gep.split",
        serves=_has_classes,
    ),
    "gradient index pruning": Method(
        build=_pruning,
        setting="half the entries by noisy magnitude, which takes a tenth of the budget",
        why="choosing entries costs noise, and pruned entries bias the gradient",
        claim="gip.selection_limit",
    ),
}
